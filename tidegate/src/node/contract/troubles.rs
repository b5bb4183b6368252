//! Why outputs cannot send, in the words of their last attempt.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_node::io::OutputId;

/// Longest words kept, in characters: the far end may have chosen them.
const WORDS_MAX: usize = 300;

/// What is wrong with each output. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<BTreeMap<OutputId, Arc<str>>>>);

impl Troubles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<OutputId, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is wrong with an output now.
    pub(super) fn set(&self, output: OutputId, words: &str) {
        let words: String = words.chars().take(WORDS_MAX).collect();
        self.lock().insert(output, words.into());
    }

    /// The output sends again.
    pub(super) fn clear(&self, output: OutputId) {
        self.lock().remove(&output);
    }

    /// What is wrong, by output; nothing of those that send.
    pub fn read(&self) -> BTreeMap<OutputId, Arc<str>> {
        self.lock().clone()
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
}
