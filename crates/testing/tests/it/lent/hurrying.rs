//! Alarms that ask a neighbour because our own uplink makes them late: a queue below us, an older byte that is stuck there,
//! or alarms alone that are more than it carries.

use tidegate_capacity::RateControllerName;
use tidegate_node::io::{OutputId, PathId, Refusal};
use tidegate_node::options::NodeOptions;
use tidegate_testing::support::*;
use tidegate_types::units::Rate;

use crate::lent::redirecting::{
    OWN, PEER, bytes, carry_by_peer, classes_by_peer, fleet_options, grant, load, report,
};

/// A node of a fleet whose own uplink is measured, and carries so much at most.
pub(crate) fn measured() -> NodeOptions {
    let mut options = fleet_options();
    options.uplinks[0] = uplink(RateControllerName::Tide, Some(Rate::new(OWN)));
    options
}

#[test]
fn an_alarm_leaves_by_a_neighbour_where_a_queue_below_us_makes_it_late() {
    for (permit, rtt, in_flight, goes) in
        [(NM, 60, 5000, true), (NM, 20, 5000, false), (NM, 60, 0, false), (LT, 60, 5000, false)]
    {
        let mut wire = up(measured());
        grant(&mut wire, permit, 50_000);
        report(&mut wire, LT, 10, 0);
        report(&mut wire, LT, rtt, in_flight);
        wire.offer("ls/a", 20);
        assert_eq!(classes_by_peer(&wire).len(), usize::from(goes), "{permit:?} {rtt} {in_flight}");
        if goes {
            // The neighbour answers later than our own uplink: the next one stays.
            wire.advance(ms(100));
            carry_by_peer(&mut wire);
            report(&mut wire, LT, rtt, in_flight);
            wire.offer("ls/b", 20);
            assert_eq!(classes_by_peer(&wire).len(), 1);
        }
    }
}

#[test]
fn an_alarm_that_came_back_is_tried_again_after_the_pause_though_nothing_happens() {
    let mut wire = up(measured());
    grant(&mut wire, NM, 50_000);
    report(&mut wire, LT, 10, 0);
    report(&mut wire, LT, 60, 5000);
    wire.offer("ls/a", 20);
    while wire.send_on(PathId { output: PEER, lane: LS.0 }) {}
    let ids: Vec<_> = wire.unconfirmed.iter().map(|(id, _)| *id).collect();
    assert_eq!((ids.len(), classes_by_peer(&wire).len()), (1, 1));
    wire.advance(ms(40));
    wire.refuse(&ids, Refusal::Retry);
    // What our own connection takes meanwhile is stuck there.
    while wire.send_on(lane(LS)) {}
    wire.advance(ms(15));
    assert_eq!(classes_by_peer(&wire).len(), 1, "a neighbour that gave it back is not asked");
    wire.advance(ms(10));
    assert_eq!(classes_by_peer(&wire).len(), 2, "our own uplink is not dead yet");
}

#[test]
fn alarms_that_are_more_than_the_uplink_carries_do_not_hurry() {
    for (per_second, goes) in [(130, false), (40, true)] {
        let mut wire = up(measured());
        grant(&mut wire, NM, 5_000);
        load(&mut wire, "ls/a", per_second, 1000);
        // What waits leaves: of what is too much, a neighbour takes what it has room for.
        wire.run(ms(20));
        let before = classes_by_peer(&wire).len();
        report(&mut wire, LT, 60, 500);
        wire.offer("ls/b", 20);
        assert_eq!(classes_by_peer(&wire).len() - before, usize::from(goes), "{per_second}");
    }
}

#[test]
fn what_stands_below_counts_as_what_waits_here() {
    for (in_flight, goes) in [(25_000, true), (900, false)] {
        let mut wire = up(fleet_options());
        grant(&mut wire, LT, 50_000);
        report(&mut wire, LT, 10, in_flight);
        (0..2).for_each(|turn| wire.offer(&format!("lt/{turn}"), 996));
        assert_eq!(!classes_by_peer(&wire).is_empty(), goes, "{in_flight} bytes below");
    }
}

#[test]
fn alarms_that_alone_are_too_much_do_not_overdraw_the_uplink() {
    for (permit, is_gone, goes) in [(LS, false, false), (LT, false, true), (LS, true, true)] {
        let mut wire = up(measured());
        grant(&mut wire, permit, 1_000);
        if is_gone {
            wire.destination(PEER, false);
        }
        load(&mut wire, "ls/a", 130, 1000);
        report(&mut wire, LT, 10, 20_000);
        let before = bytes(&wire, OutputId(0), LS);
        wire.offer("ls/b", 20);
        assert_eq!(bytes(&wire, OutputId(0), LS) > before, goes, "{permit:?} {is_gone}");
    }
}

#[test]
fn an_alarm_tries_no_neighbour_that_keeps_another_one_waiting() {
    let mut wire = up(measured());
    grant(&mut wire, NM, 50_000);
    report(&mut wire, LT, 10, 0);
    report(&mut wire, LT, 60, 5000);
    wire.offer("ls/a", 20);
    assert_eq!(classes_by_peer(&wire), [LS.0], "nothing is known of the neighbour");
    wire.advance(ms(50));
    report(&mut wire, LT, 60, 5000);
    wire.offer("ls/b", 20);
    assert_eq!(classes_by_peer(&wire).len(), 2, "50 ms are less than 60");
    wire.advance(ms(50));
    report(&mut wire, LT, 60, 5000);
    wire.offer("ls/c", 20);
    assert_eq!(classes_by_peer(&wire).len(), 2, "the first has been waiting for 100 ms");
}

#[test]
fn an_alarm_that_is_stuck_below_goes_again_by_a_neighbour_and_is_marked() {
    let mut wire = up(measured());
    grant(&mut wire, NM, 50_000);
    report(&mut wire, LS, 10, 0);
    wire.offer("ls/a", 20);
    while wire.send_on(lane(LS)) {}
    let handed_at = wire.now;
    // Nothing comes meanwhile: a connection that stays silent has no figures.
    while classes_by_peer(&wire).is_empty() {
        wire.now = wire.node.next_timeout().unwrap();
        wire.poll();
    }
    assert_eq!(wire.now.since(handed_at), ms(35), "half of the bound and a round trip");
    let again: Vec<bool> =
        wire.history.iter().filter(|cut| cut.path.output == PEER).map(|cut| cut.again).collect();
    assert_eq!(again, [true]);
    wire.advance(ms(500));
    assert_eq!(classes_by_peer(&wire).len(), 1, "once");
}
