//! A direction as a whole: worked examples, and properties over random packets and changes.

use proptest::prelude::*;
use tidegate_types::units::Rate;

use super::*;

const MBIT: u64 = 1_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Every outcome up to a time: when (`None` for lost), and which packet.
fn outcomes(direction: &mut Direction<u32>, until: Time) -> Vec<(Option<Time>, u32)> {
    let mut found = Vec::new();
    while let Some(outcome) = direction.poll(until) {
        found.push(match outcome {
            Outcome::Arrived { at, item } => (Some(at), item),
            Outcome::Lost { item, .. } => (None, item),
        });
    }
    found
}

/// 2 Mbit/s, 50 ms, 3000 bytes: a packet of 1000 bytes takes 4 ms.
fn two_megabit() -> Options {
    Options::new(2 * MBIT, ms(50), 3000)
}

#[test]
fn a_packet_takes_its_time_on_the_wire_and_the_propagation() {
    let mut direction = Direction::new(two_megabit(), 1);
    assert_eq!(direction.next_timeout(), None);
    (0..4).for_each(|item| direction.offer(at(10), 1000, item));
    assert_eq!(direction.queued(), 3000, "the fourth does not fit");
    assert_eq!(outcomes(&mut direction, at(10)), [(None, 3)]);
    assert_eq!(direction.next_timeout(), Some(at(64)));
    assert_eq!(outcomes(&mut direction, at(63)), []);
    let rest = [(Some(at(64)), 0), (Some(at(68)), 1), (Some(at(72)), 2)];
    assert_eq!(outcomes(&mut direction, at(1000)), rest);
    let counts = direction.counts();
    assert_eq!((counts.offered, counts.arrived, counts.lost_queue), (4, 3, 1));
    assert_eq!((counts.arrived_bytes, direction.next_timeout()), (3000, None));
}

#[test]
fn a_link_that_is_down_loses_what_waits_and_keeps_what_has_left() {
    let mut direction = Direction::new(two_megabit(), 1);
    (0..3).for_each(|item| direction.offer(at(0), 1000, item));
    direction.change(at(5), Change::Up(false));
    direction.offer(at(6), 1000, 3);
    direction.change(at(7), Change::Up(true));
    direction.offer(at(8), 1000, 4);
    let all = outcomes(&mut direction, at(100));
    let (lost, arrived) =
        ([(None, 1), (None, 2), (None, 3)], [(Some(at(54)), 0), (Some(at(62)), 4)]);
    assert_eq!(all, [&lost[..], &arrived].concat());
    assert_eq!(direction.counts().lost_down, 3);
}

#[test]
fn an_outage_holds_the_queue_and_a_shorter_path_keeps_the_order() {
    let mut direction = Direction::new(two_megabit(), 1);
    direction.offer(at(0), 1000, 0);
    direction.offer(at(0), 1000, 1);
    let rate = |rate| Change::Service(Service::Rate(Profile::constant(rate)));
    direction.change(at(6), rate(0));
    assert_eq!(direction.next_timeout(), Some(at(54)), "only what has left");
    direction.change(at(20), rate(2 * MBIT));
    direction.change(at(21), Change::Delay(ms(1), ms(0)));
    assert_eq!(outcomes(&mut direction, at(100)), [(Some(at(54)), 0), (Some(at(54)), 1)]);
}

#[test]
fn a_recording_is_replayed_chance_by_chance() {
    let chances = Chances::new(vec![1, 1, 4, 10]).unwrap();
    let options = Options { service: Service::Chances(chances), ..Options::new(0, ms(0), 100_000) };
    let mut direction = Direction::new(options, 1);
    (0..6).for_each(|item| direction.offer(at(0), 1000, item));
    // 1500 bytes at 1, 1, 4, 10 and 11 ms: 1000 bytes each are through after 1, 2, 2, 3, 4 and 4 chances.
    let times: Vec<_> = outcomes(&mut direction, at(50)).into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [1, 1, 1, 4, 10, 10].map(|millis| Some(at(millis))));
}

#[test]
fn cross_traffic_takes_its_part_of_the_wire() {
    let mut options = Options::new(10 * MBIT, ms(0), 20_000);
    options.cross = Some(Cross::of(Rate::from_bits(5e6)));
    let mut direction = Direction::new(options, 9);
    // 8 Mbit/s of our own for 100 s beside 5 Mbit/s of others, on 10: each loses its part.
    let mut arrived = 0;
    for tick in 0..100_000 {
        direction.offer(at(tick), 1000, 0);
        let all = outcomes(&mut direction, at(tick));
        arrived += all.iter().filter(|(at, _)| at.is_some()).count();
    }
    let share = arrived as f64 * 8000.0 / (100.0 * 10e6);
    let counts = direction.counts();
    assert!((0.5..0.75).contains(&share), "{share}");
    assert!(counts.cross > 10_000 && counts.cross_refused > 1000, "{counts:?}");
}

/// What happens to a direction in a property.
#[derive(Clone, Debug)]
enum Op {
    Offer { wait_us: u64, bytes: u64 },
    Poll { wait_us: u64 },
    Change { wait_us: u64, change: Change },
}

fn changes() -> impl Strategy<Value = Change> {
    let rates = prop_oneof![Just(0), 1000u64..200 * MBIT];
    let rate = rates.prop_map(|rate| Change::Service(Service::Rate(Profile::constant(rate))));
    let millis = prop::collection::vec(0u64..40, 1..20).prop_filter_map("no time", |mut millis| {
        millis.sort_unstable();
        Chances::new(millis).ok().map(|chances| Change::Service(Service::Chances(chances)))
    });
    let cross = (1u64..20).prop_map(|mbit| Cross::of(Rate::from_bits((mbit * MBIT) as f64)));
    let loss = (0.0..1.0).prop_map(Loss::Random);
    prop_oneof![
        rate,
        millis,
        any::<bool>().prop_map(Change::Up),
        (0u64..50, 0u64..50).prop_map(|(delay, jitter)| Change::Delay(ms(delay), ms(jitter))),
        loss.prop_map(Change::Loss),
        prop::option::of(cross).prop_map(Change::Cross),
        (0u64..100_000).prop_map(|limit| Change::Queue(Discipline::Red(Red::of(limit)), limit)),
        (0u64..100_000).prop_map(|limit| Change::Queue(Discipline::DropTail, limit)),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0u64..3000, 1u64..9000).prop_map(|(wait_us, bytes)| Op::Offer { wait_us, bytes }),
        3 => (0u64..20_000).prop_map(|wait_us| Op::Poll { wait_us }),
        1 => (0u64..3000, changes()).prop_map(|(wait_us, change)| Op::Change { wait_us, change }),
    ];
    prop::collection::vec(op, 1..200)
}

/// Runs the operations and then waits until all is over; answers with outcomes in order.
fn run(options: Options, seed: u64, ops: &[Op], looks: bool) -> Vec<(Option<Time>, u32)> {
    let mut direction = Direction::new(options, seed);
    let (mut now, mut item, mut found) = (Time::ZERO, 0, Vec::new());
    let mut limit = direction.options.queue;
    for op in ops {
        match op {
            Op::Offer { wait_us, bytes } => {
                now += Duration::from_micros(*wait_us);
                direction.offer(now, *bytes, item);
                item += 1;
            }
            Op::Poll { wait_us } => {
                now += Duration::from_micros(*wait_us);
                if looks {
                    found.extend(outcomes(&mut direction, now));
                }
            }
            Op::Change { wait_us, change } => {
                now += Duration::from_micros(*wait_us);
                if let Change::Queue(_, bytes) = change {
                    // What waited beyond a smaller bound stays.
                    limit = limit.max(*bytes);
                }
                direction.change(now, change.clone());
            }
        }
        assert!(direction.queued() <= limit, "the queue has a bound");
    }
    let rest = [
        Change::Up(true),
        Change::Cross(None),
        Change::Service(Service::Rate(Profile::constant(MBIT))),
    ];
    rest.into_iter().for_each(|change| direction.change(now, change));
    found.extend(outcomes(&mut direction, now + Duration::from_secs(60)));
    assert_eq!((direction.queued(), direction.next_timeout()), (0, None));
    let counts = direction.counts();
    let lost = counts.lost_queue + counts.lost_wire + counts.lost_down;
    assert_eq!(counts.offered, counts.arrived + lost);
    found
}

proptest! {
    #[test]
    fn every_packet_has_one_outcome_and_the_order_is_kept(ops in ops(), seed in 0u64..1000) {
        let found = run(two_megabit(), seed, &ops, true);
        let offers = ops.iter().filter(|op| matches!(op, Op::Offer { .. })).count();
        let mut items: Vec<u32> = found.iter().map(|(_, item)| *item).collect();
        items.sort_unstable();
        prop_assert!(items.iter().copied().eq(0..offers as u32), "{items:?}");
        let arrived: Vec<_> = found.iter().filter(|(at, _)| at.is_some()).collect();
        prop_assert!(arrived.is_sorted(), "in order, at times that do not fall: {arrived:?}");
    }

    #[test]
    fn a_late_look_changes_nothing(ops in ops(), seed in 0u64..1000) {
        let sorted = |looks| {
            let mut found = run(two_megabit(), seed, &ops, looks);
            found.sort_unstable();
            found
        };
        prop_assert_eq!(sorted(true), sorted(false));
    }

    #[test]
    fn nothing_comes_before_the_timeout(ops in ops(), seed in 0u64..1000) {
        let mut options = two_megabit();
        (options.jitter, options.reorders) = (ms(20), true);
        options.loss = Loss::Bursts(GilbertElliott { to_bad: 0.1, to_good: 0.3, good: 0.0, bad: 0.8 });
        let mut direction = Direction::new(options, seed);
        let mut now = Time::ZERO;
        for op in &ops {
            if let Op::Offer { wait_us, bytes } = op {
                now += Duration::from_micros(*wait_us);
                direction.offer(now, *bytes, 0);
            }
            while direction.poll(now).is_some() {}
            if let Some(next) = direction.next_timeout() {
                prop_assert!(next > now, "{next:?} is over, but nothing was there at {now:?}");
                let early = outcomes(&mut direction.clone(), next - Duration::from_nanos(1));
                prop_assert!(early.iter().all(|(at, _)| at.is_none()), "{early:?}");
            }
        }
    }

    #[test]
    fn the_rate_is_exact(
        bits in 1u64..10_000_000_000, bytes in prop::collection::vec(1u64..1500, 1..300),
    ) {
        let mut direction = Direction::new(Options::new(bits, ms(0), u64::MAX), 1);
        bytes.iter().for_each(|bytes| direction.offer(Time::ZERO, *bytes, 0));
        let found = outcomes(&mut direction, Time::FAR - Duration::from_nanos(1));
        let sum: u128 = bytes.iter().map(|bytes| u128::from(*bytes)).sum();
        let last = found.last().and_then(|(at, _)| *at).unwrap();
        let exact = (sum * 8_000_000_000).div_ceil(u128::from(bits));
        prop_assert_eq!(u128::from(last.as_nanos()), exact);
    }
}
