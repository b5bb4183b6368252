//! A reader whose position is in the log: after a crash it is where it was, or a little before.

use std::collections::VecDeque;

use tidegate_log::{Entry, SessionPosition};
use tidegate_node::io::Control;
use tidegate_testing::Wire;
use tidegate_types::record::StreamId;

const STREAM: StreamId = StreamId(1);

/// It only goes on.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    noted: u64,
    safe: u64,
    on_the_way: VecDeque<(u64, u64)>,
}

impl Reader {
    pub(crate) fn go_on(&mut self, wire: &mut Wire, by: u64) {
        self.noted += by;
        let (session, stream) = ("reader".into(), STREAM);
        wire.control(Control::Position(SessionPosition { session, stream, seq: self.noted }));
    }

    /// An entry goes to the disk.
    pub(crate) fn written(&mut self, number: u64, entry: &Entry) {
        let seq = match entry {
            Entry::Position(position) => position.seq,
            Entry::Checkpoint(checkpoint) => checkpoint.positions.first().map_or(0, |at| at.seq),
            _ => return,
        };
        self.on_the_way.push_back((number, seq));
    }

    /// The disk has made safe what it was given, but for these.
    pub(crate) fn synced(&mut self, failed: &[u64]) {
        for (number, seq) in self.on_the_way.drain(..) {
            if !failed.contains(&number) {
                self.safe = self.safe.max(seq);
            }
        }
    }

    /// Another process begins.
    pub(crate) fn restart(&mut self, wire: &Wire, is_exact: bool) {
        self.on_the_way.clear();
        let found = wire.node.position(&"reader".into(), STREAM).unwrap_or(0);
        assert!(found <= self.noted, "a position that nobody had");
        assert!(found >= self.safe || !is_exact, "{found} is before {}", self.safe);
        (self.noted, self.safe) = (found, found);
    }
}
