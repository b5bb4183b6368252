//! Why outputs cannot send, in the words of their last attempt, and to which of several hosts they lead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_node::io::OutputId;

/// Longest words kept, in characters: the far end may have chosen them.
const WORDS_MAX: usize = 300;

/// What is wrong with each output, and where its lanes lead to. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    words: BTreeMap<OutputId, Arc<str>>,
    /// By output and lane.
    hosts: BTreeMap<(OutputId, u8), Arc<str>>,
}

impl Troubles {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is wrong with an output now.
    pub(super) fn set(&self, output: OutputId, words: &str) {
        let words: String = words.chars().take(WORDS_MAX).collect();
        self.lock().words.insert(output, words.into());
    }

    /// The output sends again.
    pub(super) fn clear(&self, output: OutputId) {
        self.lock().words.remove(&output);
    }

    /// A lane leads to this host now, or nowhere.
    pub(super) fn lead(&self, output: OutputId, lane: u8, host: Option<&str>) {
        match host {
            Some(host) => drop(self.lock().hosts.insert((output, lane), host.into())),
            None => drop(self.lock().hosts.remove(&(output, lane))),
        }
    }

    /// What is wrong, by output; nothing of those that send.
    pub fn read(&self) -> BTreeMap<OutputId, Arc<str>> {
        self.lock().words.clone()
    }

    /// The hosts to which the lanes of each output lead, of those outputs that have several.
    pub fn hosts(&self) -> BTreeMap<OutputId, BTreeSet<Arc<str>>> {
        let mut all: BTreeMap<OutputId, BTreeSet<Arc<str>>> = BTreeMap::new();
        for ((output, _), host) in &self.lock().hosts {
            all.entry(*output).or_default().insert(host.clone());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use tidegate_node::io::PathState;
    use tokio::sync::mpsc;

    use super::*;
    use crate::node::contract::{Clock, Feedback};

    #[tokio::test]
    async fn words_stand_until_a_lane_comes_up() {
        let (troubles, (sender, _arrivals)) = (Troubles::default(), mpsc::channel(8));
        let feedback = Feedback::new(sender, OutputId(3), Clock::start()).with_troubles(&troubles);
        feedback.trouble("10.0.0.1:5672: connection refused");
        feedback.path_state(0, PathState::Down).await.unwrap();
        assert_eq!(&*troubles.read()[&OutputId(3)], "10.0.0.1:5672: connection refused");
        feedback.path_state(0, PathState::Up).await.unwrap();
        assert_eq!(troubles.read(), BTreeMap::new());
        feedback.trouble(&"x".repeat(100_000));
        assert_eq!(troubles.read()[&OutputId(3)].len(), WORDS_MAX);
    }

    #[test]
    fn hosts_are_known_while_lanes_lead_there() {
        let (troubles, (sender, _arrivals)) = (Troubles::default(), mpsc::channel(8));
        let feedback = Feedback::new(sender, OutputId(3), Clock::start()).with_troubles(&troubles);
        for (lane, host) in [(0, "b:5672"), (1, "a:5672"), (2, "b:5672")] {
            feedback.leads_to(lane, Some(host));
        }
        assert_eq!(troubles.hosts()[&OutputId(3)], ["a:5672".into(), "b:5672".into()].into());
        feedback.leads_to(1, None);
        assert_eq!(troubles.hosts()[&OutputId(3)], ["b:5672".into()].into());
    }
}
