//! Alarms that go by two ways: by which of them a delivery ends, and when it goes again.

use tidegate_capacity::RateControllerName;
use tidegate_node::io::{Control, Destination, Input, OutputId, PathId, PathState, Refusal};
use tidegate_testing::Wire;
use tidegate_testing::support::*;
use tidegate_types::amount::Amount;
use tidegate_types::record::DeliveryId;

use crate::lent::hurrying::measured;
use crate::lent::redirecting::{PEER, bytes, load, report};

const OWN_OUTPUT: OutputId = OutputId(0);
const OTHER: OutputId = OutputId(2);

/// A node with two neighbours that grant so much of `nm`, whose uplink was late for an alarm a moment ago.
fn restless(amount: u64) -> Wire {
    let mut options = measured();
    options.uplinks.push(uplink(RateControllerName::Unlimited, None));
    options.outputs.push(output(2));
    let mut wire = up(options);
    for peer in [PEER, OTHER] {
        let (class, amount, lease) = (NM, Amount(amount), ms(600_000));
        wire.control(Control::Grant { peer, class, amount, lease });
    }
    load(&mut wire, "lt/a", 40, 500);
    report(&mut wire, LT, 60, 5000);
    wire.poll();
    wire
}

/// The uplink is as fast as ever.
fn calm(wire: &mut Wire) {
    report(wire, LT, 1, 0);
    report(wire, LS, 1, 0);
}

fn go(wire: &mut Wire) {
    for output in [OWN_OUTPUT, PEER, OTHER] {
        while wire.send_on(PathId { output, lane: LS.0 }) {}
    }
}

/// Where an alarm went so far, and whether it was marked, once all that is there has gone.
fn ways(wire: &mut Wire, key: &str) -> Vec<(OutputId, bool)> {
    go(wire);
    let alarm = wire.history.iter().filter(|cut| cut.key == key);
    alarm.map(|cut| (cut.path.output, cut.again)).collect()
}

fn offer(wire: &mut Wire, key: &str) -> (DeliveryId, Vec<(OutputId, bool)>) {
    wire.offer(key, 20);
    let ways = ways(wire, key);
    let cut = wire.history.iter().find(|cut| cut.key == key);
    (cut.expect("it went").id, ways)
}

/// An output answers for a delivery.
fn answer(wire: &mut Wire, output: OutputId, id: DeliveryId, is_confirmed: bool) {
    wire.unconfirmed.retain(|(other, path)| (*other, path.output) != (id, output));
    let (destination, ids) = (Destination::Output(output), vec![id]);
    wire.handle(match is_confirmed {
        true => Input::Confirmed { destination, ids },
        false => Input::Refused { destination, ids, reason: Refusal::Retry },
    });
    wire.advance(ms(1));
}

#[test]
fn an_alarm_goes_by_two_ways_for_a_while_after_the_uplink_was_late() {
    let mut wire = restless(50_000);
    let (_, late) = offer(&mut wire, "ls/late");
    assert_eq!(late.len(), 2, "by two neighbours: {late:?}");
    assert!(late.iter().all(|(output, again)| *output != OWN_OUTPUT && *again), "{late:?}");
    wire.confirm_all();
    calm(&mut wire);
    let (_, soon) = offer(&mut wire, "ls/soon");
    assert_eq!(soon[0], (OWN_OUTPUT, true), "it may be late at any time again");
    assert_eq!(soon.len(), 2, "{soon:?}");
    wire.confirm_all();
    calm(&mut wire);
    wire.advance(ms(10_000));
    assert_eq!(offer(&mut wire, "ls/later").1, [(OWN_OUTPUT, false)]);
}

#[test]
fn a_delivery_ends_by_the_first_of_its_ways_that_confirms() {
    for (is_calm, confirms) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let mut wire = restless(50_000);
        if is_calm {
            calm(&mut wire);
        }
        let held = wire.node.held();
        let (id, went) = offer(&mut wire, "ls/a");
        assert_eq!((went.len(), wire.node.held()), (2, held + 1), "{went:?}");
        answer(&mut wire, went[confirms].0, id, true);
        assert_eq!(wire.node.held(), held, "{is_calm} {confirms}");
        // What the other one says is of nothing.
        answer(&mut wire, went[1 - confirms].0, id, false);
        assert_eq!(ways(&mut wire, "ls/a").len(), 2, "{is_calm} {confirms}");
    }
}

#[test]
fn a_delivery_goes_again_once_both_ways_are_lost() {
    for is_broken in [false, true] {
        for first in [0, 1] {
            let mut wire = restless(50_000);
            let (id, went) = offer(&mut wire, "ls/a");
            calm(&mut wire);
            let lose = |wire: &mut Wire, output: OutputId| match is_broken {
                true => wire.path(PathId { output, lane: LS.0 }, PathState::Down),
                false => answer(wire, output, id, false),
            };
            lose(&mut wire, went[first].0);
            wire.advance(ms(1000));
            assert_eq!(ways(&mut wire, "ls/a").len(), 2, "{is_broken} {first}: one is left");
            lose(&mut wire, went[1 - first].0);
            wire.advance(ms(30));
            let again = ways(&mut wire, "ls/a");
            assert_eq!(again.len(), 3, "{is_broken} {first}: {again:?}");
            assert!(again[2].1, "marked");
        }
    }
}

#[test]
fn a_copy_takes_its_credit_until_its_own_answer() {
    let mut wire = restless(100);
    let (id, went) = offer(&mut wire, "ls/0");
    answer(&mut wire, went[1].0, id, true);
    // A packet of alarms may be there: 1,460 bytes.
    for turn in 1..200 {
        let (id, again) = offer(&mut wire, &format!("ls/{turn}"));
        let answering = again.iter().find(|(output, _)| *output != went[0].0);
        answering.into_iter().for_each(|(output, _)| answer(&mut wire, *output, id, true));
    }
    let bytes = bytes(&wire, went[0].0, LS);
    assert!((1460..=1500).contains(&bytes), "{bytes}");
}
