//! The mark of a record that may have arrived already stays with it, in memory and on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_node::options::NodeOptions;
use tidegate_node::rules::Rule;
use tidegate_testing::support::*;
use tidegate_testing::{Wire, offer};
use tidegate_types::limits::FATES_DELAY;
use tidegate_types::record::{Foreign, Identity, Offered, Origin, StreamId};
use tidegate_types::units::Size;

/// A stream of which memory takes a few records and the log all.
fn mostly_on_disk() -> NodeOptions {
    let rule = durable(rule("lt", 1000));
    options(vec![Rule { bound: Size(100_000), memory: Size(1_000), ..rule }])
}

/// Sends all that is held; answers which keys went with a mark.
fn marks(wire: &mut Wire) -> BTreeMap<String, bool> {
    let mut marks = BTreeMap::new();
    wire.forget_history();
    wire.up();
    while wire.node.held() > 0 {
        while wire.send() {}
        for cut in std::mem::take(&mut wire.history) {
            let key = wire.key_of(cut.id).expect("nobody has confirmed it yet");
            assert_eq!(marks.insert(key, cut.again), None, "each is sent once");
        }
        wire.paths().into_iter().for_each(|path| wire.acknowledge(path, ms(1)));
        wire.confirm_all();
        wire.sync();
        if !wire.read_back() {
            wire.advance(FATES_DELAY);
        }
    }
    marks
}

#[test]
fn what_may_have_arrived_keeps_its_mark_on_disk() {
    let mut wire = up(mostly_on_disk());
    (0..5).for_each(|token| wire.ask(0, token, &format!("lt/sent-{token}"), 100));
    wire.sync();
    wire.down(); // all five were handed over, and nobody answered
    for token in 5..40 {
        wire.ask(0, token, &format!("lt/new-{token}"), 100);
        wire.sync();
    }
    assert!(wire.status().held_bytes <= Size(1_000), "the oldest have left memory");
    let marks = marks(&mut wire);
    assert_eq!(marks.len(), 40);
    for (key, is_marked) in marks {
        assert_eq!(is_marked, key.starts_with("lt/sent"), "{key}");
    }
}

#[test]
fn a_neighbours_record_that_goes_right_to_disk_keeps_its_mark() {
    let mut wire = down(mostly_on_disk());
    let origin = Arc::new(Origin { node: "gate-1".into(), incarnation: 3 });
    for seq in 1..=40 {
        let identity = Identity { origin: origin.clone(), stream: StreamId(5), seq };
        let again = seq % 4 == 0;
        let key = format!("lt/{}-{seq}", if again { "again" } else { "once" });
        let foreign = Some(Foreign { identity, again, left: None });
        wire.offer_all(vec![Offered { foreign, ..offer(wire.now, 0, &key, 100) }]);
        wire.sync();
    }
    assert!(wire.status().held_bytes <= Size(1_000), "only the log has most of them");
    let marks = marks(&mut wire);
    assert_eq!(marks.len(), 40);
    for (key, is_marked) in marks {
        assert_eq!(is_marked, key.starts_with("lt/again"), "{key}");
    }
}
