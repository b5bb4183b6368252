//! Sessions in the log: QoS 2 publishes that come once through any crash, and readers that go on.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_log::{Entry, SessionPosition, SessionState};
use tidegate_node::io::{Control, Input};
use tidegate_node::options::NodeOptions;
use tidegate_testing::{Wire, offer};
use tidegate_types::limits::{FATES_DELAY, LOG_RETRY};
use tidegate_types::record::{Offered, SourceId, StreamId, Token};

use crate::node::support::*;

const HOUR: Duration = Duration::from_secs(3600);

fn durable_node() -> NodeOptions {
    options(all_durable())
}

/// A connection begins to speak for its client.
fn speak(wire: &mut Wire, source: u32, lasts: Duration, is_new: bool) {
    let source = SourceId(source);
    wire.control(Control::Session { source, lasts, is_new });
}

/// A QoS 2 publish of connection 0.
fn publish(wire: &mut Wire, packet: u16) {
    let plain = offer(wire.now, 0, "ls/a", 1);
    let token = Some(Token(packet.into()));
    wire.offer_all(vec![Offered { token, packet: Some(packet), ..plain }]);
}

fn release(wire: &mut Wire, packets: &[u16]) {
    wire.control(Control::Release { source: SourceId(0), packets: packets.to_vec() });
}

fn set_wall(wire: &mut Wire, seconds: u64) {
    let (unix_ns, uncertainty) = (seconds * 1_000_000_000, Duration::from_secs(1));
    wire.handle(Input::Wall { unix_ns, uncertainty });
}

fn freed(wire: &mut Wire) -> Vec<u16> {
    std::mem::take(&mut wire.freed).into_iter().map(|(_, packet)| packet).collect()
}

/// Whether connection 0 was told, since the last time, that its client may be let in.
fn is_ready(wire: &mut Wire) -> bool {
    std::mem::take(&mut wire.ready) == [SourceId(0)]
}

/// The packets of each session whose client is away.
fn away(wire: &Wire) -> Vec<(String, Vec<u16>)> {
    let plain =
        |state: SessionState| (state.client.to_string(), state.packets.into_iter().collect());
    wire.node.sessions(wire.now).map(plain).collect()
}

fn sensor(packets: &[u16]) -> Vec<(String, Vec<u16>)> {
    vec![("sensor".to_owned(), packets.to_vec())]
}

/// A node with a session of connection 0, which has published 7 and 8.
fn with_session() -> Wire {
    let mut wire = down(durable_node());
    speak(&mut wire, 0, HOUR, true);
    assert!(is_ready(&mut wire), "there is nothing to forget");
    publish(&mut wire, 7);
    publish(&mut wire, 8);
    wire.sync();
    wire
}

/// The crash, and what the next process knows before anybody connects.
fn crash(wire: Wire) -> Wire {
    let mut wire = restart(wire, durable_node());
    wire.control(Control::Close(SourceId(0)));
    wire
}

#[test]
fn what_was_not_released_is_known_after_a_crash() {
    let mut wire = with_session();
    assert_eq!(wire.verdicts(), [(7, Ok(())), (8, Ok(()))]);
    release(&mut wire, &[7]);
    assert!(freed(&mut wire).is_empty(), "not before the log has it");
    wire.sync();
    assert_eq!(freed(&mut wire), [7]);
    let mut wire = crash(wire);
    assert_eq!(away(&wire), sensor(&[8]));
    wire.open(0, "sensor");
    speak(&mut wire, 0, HOUR, false);
    assert!(is_ready(&mut wire));
    assert_eq!(away(&wire), [], "its client is here");
    // A release that comes again, for its answer was lost, is answered at once.
    release(&mut wire, &[7]);
    assert_eq!(freed(&mut wire), [7]);
    release(&mut wire, &[8]);
    wire.sync();
    assert_eq!(freed(&mut wire), [8]);
    assert_eq!(away(&crash(wire)), sensor(&[]), "the session goes on");
}

#[test]
fn checkpoints_carry_sessions_and_free_their_segments() {
    let mut options = durable_node();
    options.log.as_mut().unwrap().segment = tidegate_types::units::Size(600);
    let mut wire = down(options.clone());
    wire.up();
    speak(&mut wire, 0, HOUR, true);
    publish(&mut wire, 7);
    for _ in 0..20 {
        wire.offer("ls/a", 100);
        wire.sync();
        wire.carry();
        wire.advance(FATES_DELAY);
        wire.sync();
    }
    assert!(wire.released.len() > 2, "no segment is kept for the sake of a packet identifier");
    assert!(wire.disk.files.len() <= 3);
    let wire = crash(wire);
    assert_eq!(away(&wire), sensor(&[7]));
}

#[test]
fn a_publish_that_the_log_refuses_leaves_no_trace() {
    let mut wire = with_session();
    wire.disk.capacity = wire.disk.used();
    publish(&mut wire, 9);
    assert!(wire.verdicts()[2].1.is_err());
    wire.disk.capacity = usize::MAX;
    wire.advance(LOG_RETRY);
    wire.sync();
    assert_eq!(away(&crash(wire)), sensor(&[7, 8]));
}

#[test]
fn a_publish_that_must_come_once_is_sent_when_the_log_has_it() {
    let mut wire = with_session();
    wire.up();
    wire.carry();
    wire.forget_history();
    publish(&mut wire, 9);
    wire.offer("lt/b", 1);
    assert_eq!(wire.keys(), ["lt/b"], "others do not wait");
    wire.sync();
    wire.carry();
    assert_eq!(
        (wire.keys(), wire.verdicts()),
        (vec!["lt/b".into(), "ls/a".into()], vec![(9, Ok(()))])
    );
    // Refused, it is not sent: its client sends it again.
    publish(&mut wire, 10);
    let appends = wire.appends.iter().map(|append| append.number).collect();
    let reason = tidegate_types::record::RefuseReason::Storage;
    wire.handle(Input::AppendFailed { appends, reason });
    assert_eq!(wire.verdicts()[1..], [(10, Err(reason))]);
    assert_eq!(wire.node.held(), 0);
    assert_eq!(wire.node.counts().dropped[tidegate_types::record::DropReason::Storage.index()], 1);
}

#[test]
fn what_has_arrived_is_accepted_though_the_log_fails() {
    let mut wire = up(durable_node());
    wire.ask(0, 1, "ls/a", 1);
    wire.confirm_all();
    let appends = wire.appends.iter().map(|append| append.number).collect();
    let reason = tidegate_types::record::RefuseReason::Storage;
    wire.handle(Input::AppendFailed { appends, reason });
    assert_eq!(wire.verdicts(), [(1, Ok(()))]);
}

#[test]
fn a_release_while_the_log_fails_waits_for_it() {
    let mut wire = with_session();
    wire.disk.capacity = wire.disk.used();
    publish(&mut wire, 9);
    release(&mut wire, &[7]);
    wire.sync();
    assert!(freed(&mut wire).is_empty());
    wire.disk.capacity = usize::MAX;
    wire.advance(LOG_RETRY);
    assert!(freed(&mut wire).is_empty());
    wire.sync();
    assert_eq!(freed(&mut wire), [7], "with the checkpoint");
    // And one that was on its way when the log failed.
    release(&mut wire, &[8]);
    let failed = wire.appends.last().unwrap().number;
    let reason = tidegate_types::record::RefuseReason::Storage;
    wire.handle(Input::AppendFailed { appends: vec![failed], reason });
    assert!(freed(&mut wire).is_empty());
    wire.advance(LOG_RETRY);
    wire.sync();
    assert_eq!(freed(&mut wire), [8]);
}

#[test]
fn a_new_session_begins_when_the_log_has_forgotten_the_old_one() {
    let mut wire = with_session();
    speak(&mut wire, 0, HOUR, true);
    assert!(!is_ready(&mut wire), "a crash now would bring 7 and 8 back");
    // A second connection in a hurry waits as well.
    speak(&mut wire, 0, HOUR, true);
    assert!(!is_ready(&mut wire));
    wire.sync();
    assert_eq!(std::mem::take(&mut wire.ready).len(), 2);
    publish(&mut wire, 7);
    wire.sync();
    let mut wire = crash(wire);
    assert_eq!(away(&wire), sensor(&[7]));
    wire.open(0, "sensor");
    speak(&mut wire, 0, Duration::ZERO, true);
    wire.sync();
    assert!(is_ready(&mut wire));
    publish(&mut wire, 9);
    wire.sync();
    assert_eq!(away(&crash(wire)), [], "a session that ends with its connection is not kept");
}

#[test]
fn clients_come_in_while_the_log_fails_unless_it_could_harm() {
    let mut wire = with_session();
    wire.open(1, "pump");
    wire.control(Control::Session { source: SourceId(1), lasts: HOUR, is_new: true });
    wire.ready.clear();
    wire.disk.capacity = wire.disk.used();
    publish(&mut wire, 9);
    wire.control(Control::Session { source: SourceId(1), lasts: HOUR, is_new: true });
    assert_eq!(std::mem::take(&mut wire.ready), [SourceId(1)]);
    speak(&mut wire, 0, HOUR, true);
    assert_eq!(wire.ready, []);
    wire.disk.capacity = usize::MAX;
    wire.advance(LOG_RETRY);
    wire.sync();
    assert_eq!(wire.ready, [SourceId(0)]);
}

#[test]
fn only_the_connection_that_speaks_for_a_client_counts() {
    let mut wire = with_session();
    wire.open(1, "sensor");
    wire.control(Control::Session { source: SourceId(1), lasts: HOUR, is_new: false });
    publish(&mut wire, 9);
    wire.sync();
    assert_eq!(wire.verdicts().len(), 3, "it is accepted all the same");
    wire.control(Control::Close(SourceId(0)));
    assert_eq!(away(&wire), [], "the newer connection is still there");
    wire.control(Control::Close(SourceId(1)));
    assert_eq!(away(&wire), sensor(&[7, 8]));
}

#[test]
fn a_session_ends_in_time_across_a_restart() {
    let mut wire = with_session();
    set_wall(&mut wire, 1_000_000);
    wire.control(Control::Close(SourceId(0)));
    // Another process, half an hour later: what it begins with is on disk.
    let mut wire = crash(wire);
    set_wall(&mut wire, 1_001_800);
    assert_eq!(away(&wire), sensor(&[7, 8]));
    let left = wire.node.sessions(wire.now).next().unwrap().lasts;
    assert_eq!(left, HOUR, "a crash before the next checkpoint does not know since when");
    wire.sync();
    let mut wire = restart(wire, durable_node());
    wire.control(Control::Close(SourceId(0)));
    // A process that has no clock ends nothing.
    assert_eq!(away(&wire), sensor(&[7, 8]));
    set_wall(&mut wire, 1_001_800 + 3600);
    assert_eq!(away(&wire), sensor(&[7, 8]), "both clocks may be off by a second");
    wire.sync();
}

#[test]
fn a_session_that_ended_while_the_node_was_down_is_gone() {
    let mut wire = with_session();
    set_wall(&mut wire, 1_000_000);
    wire.control(Control::Close(SourceId(0)));
    // The next segment knows that it is away.
    let size = tidegate_types::units::Size::from_mib(1).0 as usize;
    wire.open(1, "pump");
    wire.offer_all(vec![offer(wire.now, 1, "ls/a", size - 100), offer(wire.now, 1, "ls/a", 1000)]);
    wire.offer_all(vec![offer(wire.now, 1, "ls/a", 10)]);
    wire.sync();
    let checkpoints = |wire: &Wire| {
        let is_one =
            |append: &&tidegate_node::io::Append| matches!(append.entry, Entry::Checkpoint(_));
        wire.appends.iter().filter(is_one).count()
    };
    assert!(checkpoints(&wire) > 1, "a second segment");
    for (seconds, left) in [(1_003_601, Some(1)), (1_003_602, None)] {
        let mut other = Wire::on(
            tidegate_node::node::Node::resume(
                NodeOptions {
                    log: Some(tidegate_node::options::LogOptions { boot: 11, ..log() }),
                    ..durable_node()
                },
                wire.disk.recover().unwrap(),
            )
            .unwrap(),
            tidegate_testing::Disk::new(Wire::log_name(&wire.node), vec![]),
        );
        set_wall(&mut other, seconds);
        let found = other.node.sessions(other.now).next().map(|state| state.lasts.as_secs());
        assert_eq!(found, left);
    }
}

#[test]
fn what_damage_may_hide_is_not_taken_for_a_duplicate() {
    let mut wire = with_session();
    release(&mut wire, &[7]);
    publish(&mut wire, 10);
    wire.sync();
    // The entry that releases 7 is spoilt: 7 may be a new publish by now.
    let released = wire.disk.files.values_mut().next().unwrap();
    let name = released.bytes.windows(6).rposition(|part| part == b"sensor").unwrap();
    released.bytes[name] ^= 1;
    let wire = crash(wire);
    assert_eq!(away(&wire), sensor(&[]));
}

#[test]
fn a_reader_goes_on_where_it_was() {
    let mut wire = with_session();
    let reach = |seq| {
        Control::Position(SessionPosition { session: "hall".into(), stream: StreamId(1), seq })
    };
    wire.control(reach(1));
    wire.control(reach(5));
    wire.advance(FATES_DELAY);
    wire.sync();
    let positions: BTreeSet<u64> = wire
        .appends
        .iter()
        .filter_map(|append| match &append.entry {
            Entry::Position(position) => Some(position.seq),
            _ => None,
        })
        .collect();
    assert_eq!(positions, BTreeSet::from([5]), "one entry for all that came meanwhile");
    let mut wire = crash(wire);
    assert_eq!(wire.node.position(&"hall".into(), StreamId(1)), Some(5));
    wire.control(Control::SessionOver("hall".into()));
    wire.sync();
    assert_eq!(
        crash(wire).node.position(&"hall".into(), StreamId(1)),
        Some(5),
        "it is no publisher"
    );
}
