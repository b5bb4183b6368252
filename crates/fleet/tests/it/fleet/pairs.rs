//! Pairs that do not help each other are found out and left alone.

use tidegate_fleet::{Amount, FleetOptions, NodeId, PairState};

use crate::fleet::support::{Leader, at, beat};

/// A receiver (1) with an uplink of 1,000 that wants 2,000, and providers of which some share its uplink:
/// what they carry, it loses. Runs for some seconds; answers with the grants once a second.
fn play(shared: &[u64], providers: &[u64], seconds: u64) -> Vec<Vec<u64>> {
    grow(shared, providers, seconds, 5)
}

/// The same with providers that take so many fifths of a second for most of the way to what is granted.
fn grow(shared: &[u64], providers: &[u64], seconds: u64, fifths: u64) -> Vec<Vec<u64>> {
    let uplink = |_| (1000, 1000);
    fail(shared, (providers, fifths), seconds, uplink)
}

/// The same where the receiver's own uplink has this capacity and output at a step of 200 ms.
fn fail(
    shared: &[u64],
    (providers, fifths): (&[u64], u64),
    seconds: u64,
    uplink: impl Fn(u64) -> (u64, u64),
) -> Vec<Vec<u64>> {
    let mut leader = Leader::new(1, FleetOptions::default());
    let mut carried = [0_u64; 6];
    let mut history = Vec::new();
    for step in 0..seconds * 5 {
        let now = at(step * 200);
        let mut told = Vec::new();
        for &provider in providers {
            let mut idle = beat(provider, step + 1, 1000, [0, 0, 100]);
            for status in
                leader.orchestrator.grants().filter(|one| one.grant.provider.0 == provider)
            {
                let carried = Amount(carried[provider as usize]);
                idle.held.push(tidegate_fleet::CarriedGrant { grant: status.grant, carried });
                idle.heard.revision = 1;
                idle.heard.round = u64::MAX;
            }
            told.extend(leader.hear(now, idle));
        }
        let lost: u64 = shared.iter().map(|provider| carried[*provider as usize]).sum();
        let (capacity, output) = uplink(step);
        let mut short = beat(1, step + 1, capacity, [0, 0, 2000]);
        short.output = Amount(output.saturating_sub(lost));
        told.extend(leader.hear(now, short));
        // Averages: a part of the way in each fifth of a second.
        for &provider in providers {
            let granted: u64 =
                leader.grants().iter().filter(|one| one.0 == provider).map(|one| one.3).sum();
            let old = carried[provider as usize];
            carried[provider as usize] = (old * (fifths - 1) + granted) / fifths;
        }
        if step % 5 == 4 {
            history.push(leader.grants().iter().map(|one| one.0).collect());
        }
    }
    let state = |provider| leader.orchestrator.pair(NodeId(1), NodeId(provider));
    for provider in shared.iter().filter(|_| seconds > 10) {
        assert!(
            matches!(state(*provider), Some(PairState::Apart { .. })),
            "{:?}",
            state(*provider)
        );
    }
    history
}

#[test]
fn neighbours_behind_one_uplink_end_without_redirection() {
    let history = play(&[2], &[2], 65);
    assert_eq!(history[1], [2], "it is tried");
    let lent = history[3..60].iter().filter(|grants| !grants.is_empty()).count();
    assert_eq!(lent, 0, "{history:?}");
    // After a minute it is tried again, and found out again.
    assert!(history[60..].iter().any(|grants| grants == &[2]), "{history:?}");
}

#[test]
fn who_helps_goes_on() {
    let history = play(&[], &[2, 3], 30);
    assert!(history.iter().all(|grants| !grants.is_empty()), "{history:?}");
    assert_eq!(history[29], [2, 3]);
}

#[test]
fn a_provider_that_grows_into_what_it_lends_is_not_left_alone() {
    let history = grow(&[], &[2, 3], 30, 40);
    assert!(history.iter().all(|grants| grants == &[2, 3]), "{history:?}");
    let history = grow(&[3], &[2, 3], 30, 40);
    assert_eq!(
        history[29],
        [2],
        "who takes from the receiver is found out all the same: {history:?}"
    );
}

#[test]
fn a_trial_begins_anew_after_an_uplink_that_carried_nothing_in_it() {
    // Dead for a second, and alive again before the trial would end, with an average that says so late.
    let uplink = |step: u64| match step {
        0..3 => (1000, 1000),
        3..8 => (0, 0),
        8.. => (1000, (100 * (step - 7)).min(1000)),
    };
    let history = fail(&[], (&[2], 5), 10, uplink);
    assert!(history.iter().all(|grants| grants == &[2]), "{history:?}");
}

#[test]
fn among_several_the_guilty_one_is_found() {
    let history = play(&[3], &[2, 3], 30);
    assert_eq!(history[29], [2], "{history:?}");
    assert!(history[12..].iter().all(|grants| grants == &[2]), "{history:?}");
}

#[test]
fn all_guilty_ones_are_found() {
    let history = play(&[2, 3, 4], &[2, 3, 4, 5], 40);
    assert_eq!(history[39], [5], "{history:?}");
}
