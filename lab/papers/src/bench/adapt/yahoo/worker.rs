//! The benchmark's query: keep views, join each ad to its campaign, count by campaign in windows of a second.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;

/// Milliseconds of a window. The benchmark's own are ten times as long: too coarse for a burst (BumbleBee, IV.B).
const WINDOW_MS: u64 = 1000;

#[derive(Debug, Deserialize)]
struct Event<'a> {
    ad_id: &'a str,
    event_type: &'a str,
    event_time: &'a str,
}

/// An event as the worker found it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    /// When it was made, and when it was done with: milliseconds since 1970.
    pub(crate) made_ms: u64,
    pub(crate) done_ms: f64,
    pub(crate) is_view: bool,
}

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    campaigns: BTreeMap<String, u32>,
    /// Views by campaign and window.
    pub(crate) counts: BTreeMap<(u32, u64), u64>,
    /// Every event that came.
    pub(crate) taken: Vec<Taken>,
}

impl Worker {
    pub(crate) fn new(campaigns: &BTreeMap<String, u32>) -> Worker {
        Worker { campaigns: campaigns.clone(), ..Worker::default() }
    }

    /// An event comes, and will be done with at this time: milliseconds since 1970.
    pub(crate) fn take(&mut self, payload: &[u8], done_ms: f64) -> anyhow::Result<()> {
        let Event { ad_id, event_type, event_time } = serde_json::from_slice(payload)?;
        let made_ms: u64 = event_time.parse().context("event_time")?;
        let is_view = event_type == "view";
        if is_view {
            let campaign = self.campaigns.get(ad_id).context("an ad of no campaign")?;
            *self.counts.entry((*campaign, made_ms / WINDOW_MS)).or_default() += 1;
        }
        self.taken.push(Taken { made_ms, done_ms, is_view });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::tests::events;
    use super::*;

    #[test]
    fn views_are_counted_by_campaign_and_window() {
        let events = events();
        let mut worker = Worker::new(&events.campaigns);
        for (number, made) in [(0, 100), (2, 200), (5, 900), (8, 1100)] {
            worker.take(&events.payload(number, made), made as f64 + 5.0).unwrap();
        }
        assert_eq!(worker.counts, [((0, 0), 2), ((0, 1), 1)].into());
        assert_eq!(worker.taken.len(), 4);
        assert!(worker.take(b"{}", 0.0).is_err());
    }
}
