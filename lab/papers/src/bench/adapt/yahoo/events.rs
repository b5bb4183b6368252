//! The benchmark's events, and when each is made.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use bytes::Bytes;

/// Where the events are below the folder of data, and the table that joins ads to campaigns.
const EVENTS: &str = "stream_benchmark/yahoo_events_sample.jsonl";
const CAMPAIGNS: &str = "stream_benchmark/ad-to-campaign-ids.csv";
/// Before and behind the time in an event.
const TIME: &str = "\"event_time\": \"";

/// One event, without its time.
#[derive(Clone, Debug)]
struct Shape {
    before: String,
    after: String,
    is_view: bool,
}

/// The events, over and over, each with the time at which it is made.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    shapes: Vec<Shape>,
    /// The campaign of each ad.
    pub(crate) campaigns: BTreeMap<String, u32>,
}

impl Events {
    /// Reads them; `None` where they are not.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Option<Events>> {
        let read = |name: &str| std::fs::read_to_string(data.join(name));
        let (Ok(events), Ok(campaigns)) = (read(EVENTS), read(CAMPAIGNS)) else { return Ok(None) };
        Events::parse(&events, &campaigns).map(Some)
    }

    /// What is said where they are not.
    pub(crate) fn absent(data: &Path) -> String {
        let place = data.join(EVENTS);
        format!(
            "skipped: needs {} (events of the Yahoo streaming benchmark), not found: give --data",
            place.display()
        )
    }

    pub(crate) fn parse(events: &str, campaigns: &str) -> anyhow::Result<Events> {
        let shape = |line: &str| {
            let (before, rest) = line.split_once(TIME)?;
            let (_, after) = rest.split_once('"')?;
            let before = format!("{before}{TIME}");
            let is_view = line.contains("\"event_type\": \"view\"");
            Some(Shape { before, after: format!("\"{after}"), is_view })
        };
        let shapes = events.lines().map(|line| shape(line).context("an event without its time"));
        let shapes = shapes.collect::<anyhow::Result<Vec<Shape>>>()?;
        anyhow::ensure!(!shapes.is_empty(), "no events");
        let (mut numbers, mut table) = (BTreeMap::new(), BTreeMap::new());
        for (ad, campaign) in campaigns.lines().skip(1).filter_map(|line| line.split_once(',')) {
            let next = numbers.len() as u32;
            table.insert(ad.to_owned(), *numbers.entry(campaign.to_owned()).or_insert(next));
        }
        Ok(Events { shapes, campaigns: table })
    }

    /// An event that is made at this time: milliseconds since 1970.
    pub(crate) fn payload(&self, number: u64, unix_ms: u64) -> Bytes {
        let shape = &self.shapes[number as usize % self.shapes.len()];
        [&shape.before, &*unix_ms.to_string(), &shape.after].concat().into()
    }

    pub(crate) fn is_view(&self, number: u64) -> bool {
        self.shapes[number as usize % self.shapes.len()].is_view
    }
}

/// Names of the four intervals.
pub(crate) const INTERVALS: [&str; 4] = ["warm-up", "before", "burst", "after"];

/// The load: a rate, twice of it in the burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Events a second outside of the burst.
    pub(crate) base: f64,
    /// Seconds of each interval.
    pub(crate) seconds: [f64; 4],
}

impl Plan {
    /// Events of an interval.
    fn events(&self, interval: usize) -> u64 {
        let factor = if interval == 2 { 2.0 } else { 1.0 };
        (self.base * factor * self.seconds[interval]) as u64
    }

    /// When an event is made, in seconds since the beginning, and in which interval; `None` after the last.
    pub(crate) fn due(&self, number: u64) -> Option<(f64, usize)> {
        let (mut left, mut from) = (number, 0.0);
        for interval in 0..4 {
            let count = self.events(interval);
            if left < count {
                return Some((
                    from + left as f64 / count as f64 * self.seconds[interval],
                    interval,
                ));
            }
            left -= count;
            from += self.seconds[interval];
        }
        None
    }

    /// The interval of a time.
    pub(crate) fn interval(&self, at: f64) -> usize {
        let mut end = 0.0;
        let over = self.seconds[..3].iter().filter(|seconds| {
            end += **seconds;
            at >= end
        });
        over.count()
    }

    /// When the burst ends.
    pub(crate) fn burst_ends(&self) -> f64 {
        self.seconds[..3].iter().sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two clicks and a view.
    pub(crate) fn events() -> Events {
        let line = |kind: &str| {
            format!(
                "{{\"user_id\": \"u\", \"ad_id\": \"a\", \"event_type\": \"{kind}\", \"event_time\": \"17\", \"ip_address\": \"1.2.3.4\"}}\n"
            )
        };
        let text = ["click", "purchase", "view"].map(line).concat();
        Events::parse(&text, "ad_id,campaign_id\na,c\n").unwrap()
    }

    #[test]
    fn an_event_has_the_time_at_which_it_is_made() {
        let events = events();
        let text = String::from_utf8(events.payload(5, 1234).to_vec()).unwrap();
        assert!(
            text.contains("\"event_type\": \"view\", \"event_time\": \"1234\", \"ip"),
            "{text}"
        );
        assert_eq!([0, 1, 2, 5].map(|number| events.is_view(number)), [false, false, true, true]);
        assert_eq!(events.campaigns["a"], 0);
    }

    #[test]
    fn the_burst_is_twice_as_dense() {
        let plan = Plan { base: 10.0, seconds: [1.0, 1.0, 2.0, 1.0] };
        let dues: Vec<(f64, usize)> = (0..).map_while(|number| plan.due(number)).collect();
        assert_eq!(dues.len(), 10 + 10 + 40 + 10);
        assert_eq!((dues[10], dues[21], dues[60]), ((1.0, 1), (2.05, 2), (4.0, 3)));
        assert!(dues.iter().all(|(at, interval)| plan.interval(*at) == *interval));
        assert_eq!(plan.burst_ends(), 4.0);
    }
}
