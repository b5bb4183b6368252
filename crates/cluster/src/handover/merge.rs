//! What owners make of one unit, in the order of their epochs, at one member.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_types::units::Time;

/// Results of later epochs that wait; beyond it none does.
const LATER_MAX: usize = 65_536;

#[derive(Clone, Debug)]
struct Later<T> {
    contents: Vec<T>,
    is_over: bool,
}

/// See the file's header.
#[derive(Clone, Debug)]
pub(super) struct Merge<T> {
    /// Of this one, results are shown; `None` before anything was heard.
    epoch: Option<u64>,
    later: BTreeMap<u64, Later<T>>,
    waiting: usize,
    /// When those that wait do so no longer.
    until: Option<Time>,
}

impl<T> Merge<T> {
    pub(super) fn new() -> Self {
        Merge { epoch: None, later: BTreeMap::new(), waiting: 0, until: None }
    }

    fn later(&mut self, epoch: u64) -> &mut Later<T> {
        self.later.entry(epoch).or_insert(Later { contents: Vec::new(), is_over: false })
    }

    /// The owner of `epoch` takes records: what came before is not known to who has heard nothing yet.
    pub(super) fn known(&mut self, epoch: u64) {
        self.epoch.get_or_insert(epoch);
    }

    /// A result came. Returns what is to be shown.
    pub(super) fn came(&mut self, now: Time, patience: Duration, epoch: u64, content: T) -> Vec<T> {
        if epoch <= *self.epoch.get_or_insert(epoch) {
            return vec![content];
        }
        self.until.get_or_insert(now + patience);
        self.later(epoch).contents.push(content);
        self.waiting += 1;
        if self.waiting > LATER_MAX { self.next() } else { Vec::new() }
    }

    /// All of an epoch came. Returns what is to be shown.
    pub(super) fn ended(&mut self, epoch: u64) -> Vec<T> {
        match self.epoch {
            Some(now) if epoch > now => {
                self.later(epoch).is_over = true;
                Vec::new()
            }
            Some(now) if epoch < now => Vec::new(),
            _ => self.reach(epoch + 1),
        }
    }

    /// Epochs before this one are over.
    pub(super) fn reach(&mut self, epoch: u64) -> Vec<T> {
        let mut epoch = self.epoch.unwrap_or_default().max(epoch);
        let mut shown = Vec::new();
        while let Some(first) = self.later.first_entry().filter(|first| *first.key() <= epoch) {
            let at = *first.key();
            let Later { contents, is_over } = first.remove();
            shown.extend(contents);
            if is_over {
                epoch = epoch.max(at + 1);
            }
        }
        self.epoch = Some(epoch);
        self.waiting -= shown.len();
        if self.waiting == 0 {
            self.until = None;
        }
        shown
    }

    /// Goes on with the next epoch of which anything came, without the end of those before it.
    fn next(&mut self) -> Vec<T> {
        let next = self.later.iter().find(|(_, later)| !later.contents.is_empty());
        next.map(|(epoch, _)| *epoch).map_or_else(Vec::new, |epoch| self.reach(epoch))
    }

    /// Time has passed: whoever should have ended its epoch may be dead.
    pub(super) fn tick(&mut self, now: Time, patience: Duration) -> Vec<T> {
        if self.until.is_none_or(|until| now < until) {
            return Vec::new();
        }
        let shown = self.next();
        self.until = (self.waiting > 0).then(|| now + patience);
        shown
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.until
    }
}
