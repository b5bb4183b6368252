//! What the links of a node look like at present, for status and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_link::{PathCounts, PathHealth, PathStatus};
use tidegate_types::units::{Rate, Size};
use tokio::sync::watch;

use super::{Letters, LinkThread};

/// How often a link says what it looks like.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);

/// One path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathFigures {
    /// What it is bound to; at the listening end its number.
    pub name: String,
    /// `quic` or `tcp`; `None` while there is no connection.
    pub transport: Option<&'static str>,
    /// Whether it works.
    pub state: PathHealth,
    /// What it carries, as far as it was used.
    pub rate: Rate,
    /// Its smoothed round trip.
    pub srtt: Option<Duration>,
    /// How long packets stand in queues on their way to the far end.
    pub queue_delay: Duration,
    /// Part of its packets that are lost.
    pub loss: f64,
    /// Sums since it came up first in this life of the link.
    pub counts: PathCounts,
}

impl PathFigures {
    pub(crate) fn new(name: String, transport: Option<&'static str>, status: &PathStatus) -> Self {
        PathFigures {
            name,
            transport,
            state: status.state,
            rate: status.rate,
            srtt: status.srtt,
            queue_delay: status.queue_delay,
            loss: status.loss_rate.as_f64(),
            counts: status.counts,
        }
    }

    /// Its state, in a word.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            PathHealth::Up => "up",
            PathHealth::Silent => "silent",
            PathHealth::Dead => "dead",
            PathHealth::Absent => "absent",
        }
    }
}

/// One link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkFigures {
    /// Name of the output, or of the node that dials.
    pub name: String,
    /// Whether the node has an output on it: else it came to an input.
    pub is_output: bool,
    /// Its paths.
    pub paths: Vec<PathFigures>,
    /// Pieces of records sent again.
    pub repeated: u64,
    /// Pieces that came twice.
    pub duplicates: u64,
    /// Packets that were none of ours, or did not keep to the rules.
    pub strange: u64,
}

impl LinkFigures {
    /// Bytes sent by all of its paths.
    pub fn bytes(&self) -> Size {
        self.paths.iter().map(|path| path.counts.bytes).sum()
    }
}

/// Whom a link dials: name or address, and port.
pub type Target = (Arc<str>, u16);
/// Whom each place dials, by its name.
type Targets = BTreeMap<String, watch::Sender<Option<Target>>>;
type Figures = BTreeMap<(String, u64), LinkFigures>;

/// The links of a node. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Links {
    figures: Arc<Mutex<Figures>>,
    targets: Arc<Mutex<Targets>>,
    letters: Letters,
    thread: LinkThread,
}

impl PartialEq for Links {
    /// Whether they are clones of each other.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.figures, &other.figures)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Links {
    /// What they show of whom they carry.
    pub(crate) fn letters(&self) -> &Letters {
        &self.letters
    }

    /// The thread that serves them.
    pub(crate) fn thread(&self) -> &LinkThread {
        &self.thread
    }

    /// What a link looks like now; `number` tells lives of the same name apart.
    pub(crate) fn tell(&self, number: u64, figures: LinkFigures) {
        lock(&self.figures).insert((figures.name.clone(), number), figures);
    }

    /// A link is over.
    pub(crate) fn forget(&self, number: u64, name: &str) {
        lock(&self.figures).remove(&(name.to_owned(), number));
    }

    /// All of them, by name.
    pub fn read(&self) -> Vec<LinkFigures> {
        lock(&self.figures).values().cloned().collect()
    }

    /// The paths of an output's link, as they were within the last `PERIOD`; none where it is no link.
    pub fn paths_of(&self, output: &str) -> Vec<PathFigures> {
        let figures = lock(&self.figures);
        let lives = figures.range((output.to_owned(), 0)..=(output.to_owned(), u64::MAX));
        let own = lives.map(|(_, link)| link).find(|link| link.is_output);
        own.map(|link| link.paths.clone()).unwrap_or_default()
    }

    /// Whom the place of this name dials, as it changes: nobody at first.
    pub(crate) fn target(&self, place: &str) -> watch::Receiver<Option<Target>> {
        lock(&self.targets).entry(place.to_owned()).or_default().subscribe()
    }

    /// Lets a place dial somebody, or nobody.
    pub(crate) fn dial(&self, place: &str, target: Option<Target>) {
        let mut targets = lock(&self.targets);
        targets.entry(place.to_owned()).or_default().send_if_modified(|before| {
            let has_changed = *before != target;
            *before = target;
            has_changed
        });
    }
}
