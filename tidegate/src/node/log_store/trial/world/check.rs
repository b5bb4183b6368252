//! What must hold at a world's end.

use std::collections::BTreeMap;

use super::World;
use crate::node::log_store::trial::harm::Lost;
use crate::node::log_store::trial::lines::sunk;
use crate::output::sink::lines;

impl World {
    /// What was accepted is in the sink, or the disk took it and that is named.
    pub(super) fn check(&mut self) {
        let sunk = sunk(&self.disk);
        self.tallies.destroyed = (self.destroyed.len() + self.rotten.len()) as u64;
        assert!(sunk.iter().all(|name| (1..=self.offered).contains(name)), "nobody offered that");
        for name in self.accepted.difference(&sunk) {
            self.tallies.lost += 1;
            if let Some(lines) = self.rotten.get(name) {
                self.tallies.named += u64::from(self.is_named(lines));
                continue;
            }
            let Some(Lost { segment, is_known, .. }) = self.destroyed.get(name) else {
                panic!("{name} is accepted and lost:\n{}", self.story.join("\n"))
            };
            self.tallies.named += u64::from(self.named.contains(segment));
            assert!(
                !is_known || self.named.contains(segment),
                "{name} of {segment} is lost and not named: {:?}\n{}",
                self.named,
                self.story.join("\n")
            );
        }
    }

    /// Whether who reads the sink's files misses all of these lines; those must be that something behind them tells.
    fn is_named(&self, lines: &BTreeMap<u64, bool>) -> bool {
        let found = lines::read(&self.disk, &self.sink.directory).expect("it can be read");
        let found = found.expect("there are files");
        let first = found.span().map_or(u64::MAX, |span| span.0);
        let is_missing =
            |number: &u64| found.missing().any(|(from, to)| (from..=to).contains(number));
        for (number, _) in lines.iter().filter(|(number, is_told)| **is_told && **number > first) {
            let missing: Vec<_> = found.missing().collect();
            assert!(
                is_missing(number),
                "line {number} is lost and not named: {missing:?}\n{}",
                self.story.join("\n")
            );
        }
        lines.keys().all(is_missing)
    }
}
