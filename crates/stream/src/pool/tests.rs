use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const ONE: OperatorId = OperatorId(1);
const TWO: OperatorId = OperatorId(2);

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn pool(discipline: PoolOrder) -> Pool<u32, u32> {
    let mut pool = Pool::new(discipline);
    pool.begin(ONE, OperatorLimits { waiting: 4, idle: 2 });
    pool.begin(TWO, OperatorLimits { waiting: 4, idle: 2 });
    pool
}

fn key(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn next(pool: &mut Pool<u32, u32>, now: Time) -> Option<u32> {
    let task = pool.take(now)?;
    pool.done(now, task.lane, Some(task.value));
    Some(task.value)
}

#[test]
fn what_is_hurried_goes_before_all_with_what_stands_before_it_and_nothing_behind_it() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    for (operator, name, millis, value) in
        [(ONE, "a", 100, 1), (ONE, "a", 100, 2), (ONE, "a", 100, 3), (TWO, "b", 200, 4)]
    {
        assert_eq!(pool.offer(operator, key(name), at(millis), value), None);
    }
    // One of its row is worked on: the rest is hurried all the same, up to 2.
    let task = pool.take(at(0)).unwrap();
    pool.hurry(|value| *value == 2);
    pool.done(at(0), task.lane, None);
    assert_eq!(next(&mut pool, at(150)), Some(2), "late, and hurried");
    assert_eq!(next(&mut pool, at(150)), Some(4), "what came behind it is late as before");
    assert_eq!(next(&mut pool, at(150)), Some(3));
    assert_eq!(next(&mut pool, at(150)), None);
    assert!(pool.is_idle());
}

#[test]
fn the_earliest_deadline_goes_first_and_what_is_late_comes_behind() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    assert_eq!(pool.offer(ONE, key("a"), at(300), 1), None);
    assert_eq!(pool.offer(TWO, key("b"), at(100), 2), None);
    assert_eq!(pool.offer(TWO, key("c"), at(200), 3), None);
    assert_eq!(next(&mut pool, at(150)), Some(3), "2 cannot be in time any more");
    assert_eq!(next(&mut pool, at(150)), Some(1));
    assert_eq!(next(&mut pool, at(150)), Some(2));
    assert_eq!(next(&mut pool, at(150)), None);
    assert!(pool.is_idle());
}

#[test]
fn a_late_record_does_not_make_those_behind_it_late() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    pool.offer(ONE, key("a"), at(100), 1);
    pool.offer(ONE, key("a"), at(400), 2);
    pool.offer(TWO, key("b"), at(500), 3);
    // 2 can still be in time, so 1 goes before 3 though it is late itself.
    assert_eq!([(); 3].map(|()| next(&mut pool, at(150))), [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_row_that_cannot_catch_up_comes_behind() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    pool.offer(ONE, key("a"), at(100), 0);
    let task = pool.take(at(0)).unwrap();
    // A record of this operator takes 200 ms.
    pool.done(at(200), task.lane, None);
    for (number, deadline) in [(1, 210), (2, 220), (3, 610)] {
        pool.offer(ONE, key("a"), at(deadline), number);
    }
    pool.offer(TWO, key("b"), at(900), 4);
    // 3 would have to begin by 610, and 1 and 2 take until 630.
    assert_eq!(next(&mut pool, at(230)), Some(4));
    assert_eq!(next(&mut pool, at(230)), Some(1));
    // A newer one has time enough.
    pool.offer(ONE, key("a"), at(800), 5);
    pool.offer(TWO, key("b"), at(900), 6);
    assert_eq!(next(&mut pool, at(230)), Some(2));
}

#[test]
fn first_come_first_served_knows_no_deadline() {
    let mut pool = pool(PoolOrder::Fifo);
    for (number, deadline) in [(1, 300), (2, 100), (3, 200)] {
        assert_eq!(pool.offer(ONE, Bytes::from(vec![number as u8]), at(deadline), number), None);
    }
    assert_eq!([(); 3].map(|()| next(&mut pool, at(150))), [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_key_keeps_its_order_and_inherits_the_earliest_deadline() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    pool.offer(ONE, key("a"), at(900), 1);
    pool.offer(ONE, key("b"), at(500), 2);
    pool.offer(ONE, key("a"), at(100), 3);
    // 1 stands before 3, which is the most urgent of all.
    let first = pool.take(at(0)).unwrap();
    assert_eq!(first.value, 1);
    let second = pool.take(at(0)).unwrap();
    assert_eq!(second.value, 2, "nobody else takes what is behind a record that is worked on");
    assert!(pool.take(at(0)).is_none());
    pool.done(at(0), first.lane, Some(7));
    let third = pool.take(at(0)).unwrap();
    assert_eq!((third.value, third.state), (3, Some(7)));
}

#[test]
fn a_full_operator_drops_the_oldest_of_the_key_and_leaves_others_alone() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    for number in 1..=4 {
        assert_eq!(pool.offer(ONE, key("a"), at(100), number), None);
    }
    assert_eq!(pool.offer(ONE, key("a"), at(100), 5), Some(1));
    assert_eq!(pool.offer(ONE, key("b"), at(100), 6), Some(6), "nothing of its key waits");
    assert_eq!(pool.offer(TWO, key("a"), at(100), 7), None);
    assert_eq!((pool.waiting(ONE), pool.waiting(TWO)), (4, 1));
    assert_eq!(pool.offer(OperatorId(9), key("a"), at(100), 8), Some(8));
}

#[test]
fn keys_that_are_idle_for_longest_are_forgotten() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    for name in ["a", "b", "c"] {
        pool.offer(ONE, key(name), at(100), 1);
        next(&mut pool, at(0));
    }
    let state_of = |pool: &mut Pool<u32, u32>, name| {
        pool.offer(ONE, key(name), at(100), 1);
        let task = pool.take(at(0)).unwrap();
        pool.done(at(0), task.lane, task.state);
        task.state
    };
    assert_eq!(state_of(&mut pool, "c"), Some(1));
    assert_eq!(state_of(&mut pool, "b"), Some(1));
    assert_eq!(state_of(&mut pool, "a"), None, "two are kept");
}

#[test]
fn what_keys_remember_is_lent_forgotten_and_brought_from_elsewhere() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    for (operator, name, number) in [(TWO, "a", 1), (ONE, "b", 2), (TWO, "c", 3)] {
        pool.offer(operator, key(name), at(100), number);
        next(&mut pool, at(0));
    }
    pool.offer(ONE, key("waits"), at(100), 4);
    let idle =
        |pool: &Pool<u32, u32>| pool.idle().map(|(_, _, _, state)| *state).collect::<Vec<_>>();
    assert_eq!(idle(&pool), [1, 2, 3], "the one that was idle for longest first");
    let lane = pool.idle().next().unwrap().0;
    assert_eq!((pool.borrow(lane), pool.borrow(lane)), (Some(1), None));
    pool.offer(TWO, key("a"), at(50), 5);
    assert_eq!(pool.take(at(0)).unwrap().value, 4, "a key that is lent is not worked on");
    assert!(pool.take(at(0)).is_none());
    pool.done(at(0), lane, Some(7));
    let task = pool.take(at(0)).unwrap();
    assert_eq!((task.value, task.state), (5, Some(7)));
    pool.done(at(0), lane, None);
    assert_eq!(idle(&pool), [2, 3], "it is forgotten");
    assert_eq!(pool.restore(TWO, key("a"), 8), None);
    assert_eq!(pool.restore(TWO, key("a"), 9), Some(9), "it remembers something already");
    assert_eq!(idle(&pool), [2, 3, 8]);
    assert_eq!(pool.restore(TWO, key("d"), 9), None);
    assert_eq!(idle(&pool), [2, 8, 9], "two are kept");
    pool.end(ONE);
    assert_eq!(pool.restore(ONE, key("e"), 9), Some(9));
    assert_eq!(pool.restore(OperatorId(9), key("e"), 9), Some(9));
}

#[test]
fn an_operator_that_is_over_finishes_what_waits() {
    let mut pool = pool(PoolOrder::EarliestDeadline);
    pool.offer(ONE, key("a"), at(100), 1);
    pool.offer(ONE, key("a"), at(100), 2);
    let task = pool.take(at(0)).unwrap();
    pool.end(ONE);
    assert_eq!(pool.offer(ONE, key("a"), at(100), 3), Some(3));
    pool.done(at(0), task.lane, None);
    assert_eq!(next(&mut pool, at(0)), Some(2));
    assert!(pool.is_idle() && pool.lanes.is_empty() && pool.names.is_empty());
    assert!(!pool.operators.contains_key(&ONE));
}

#[derive(Clone, Debug)]
enum OperatorStep {
    Offer { operator: u32, key: u8, deadline: u64 },
    Take,
    Done(usize),
    End(u32),
}

fn step() -> impl Strategy<Value = OperatorStep> {
    prop_oneof![
        4 => (1_u32..3, 0_u8..4, 0_u64..50)
            .prop_map(|(operator, key, deadline)| OperatorStep::Offer { operator, key, deadline }),
        3 => Just(OperatorStep::Take),
        3 => (0_usize..4).prop_map(OperatorStep::Done),
        1 => (1_u32..3).prop_map(OperatorStep::End),
    ]
}

/// What waits, in the order of coming.
#[derive(Clone, Copy, Debug)]
struct Waits {
    operator: u32,
    key: u8,
    deadline: u64,
    value: u32,
}

impl Waits {
    fn lane(&self) -> (u32, u8) {
        (self.operator, self.key)
    }
}

/// By when the first of a lane must be begun, by looking at all of it: the first that is not over, then the last.
fn begins_by(own: &[Waits], now: Time, takes: Duration) -> Option<Time> {
    let live = |it: &&Waits| at(it.deadline) > now;
    // One that has an earlier one behind it is not more urgent than that.
    let counts = |place: &usize| own[*place..].iter().all(|it| it.deadline >= own[*place].deadline);
    let first = (0..own.len()).filter(counts).find(|place| live(&&own[*place]));
    [first, own.len().checked_sub(1)].into_iter().flatten().find_map(|place| {
        let begins = at(own[place].deadline) - takes * place as u32;
        (begins > now).then_some(begins)
    })
}

proptest! {
    /// Beside a list that is searched from the beginning each time.
    #[test]
    fn it_does_what_a_plain_list_does(
        steps in prop::collection::vec(step(), 1..200),
        is_fifo in any::<bool>(),
    ) {
        let discipline = if is_fifo { PoolOrder::Fifo } else { PoolOrder::EarliestDeadline };
        let mut pool = pool(discipline);
        let mut list: Vec<Waits> = Vec::new();
        let mut running: Vec<(LaneId, (u32, u8), Time)> = Vec::new();
        // Of lanes that are not worked on: whether they are late, and their rank.
        let mut ranks: BTreeMap<(u32, u8), (bool, Time)> = BTreeMap::new();
        let mut takes = [None::<Duration>; 3];
        let own = |list: &[Waits], lane| -> Vec<Waits> {
            list.iter().filter(|it| it.lane() == lane).copied().collect()
        };
        let stands = |list: &[Waits], lane| {
            let earliest = own(list, lane).iter().map(|it| it.deadline).min();
            earliest.map(|earliest| (false, at(earliest)))
        };
        let mut over = [false; 3];
        for (clock, step) in steps.into_iter().enumerate() {
            let (now, value) = (clock as u64, clock as u32);
            match step {
                OperatorStep::Offer { operator, key, deadline } => {
                    let deadline = now + deadline;
                    let waiting = list.iter().filter(|it| it.operator == operator).count();
                    let oldest = list.iter().position(|it| it.lane() == (operator, key));
                    let (expected, room) = match (waiting < 4, oldest) {
                        _ if over[operator as usize] => (Some(value), false),
                        (true, _) => (None, true),
                        (false, None) => (Some(value), false),
                        (false, Some(oldest)) => (Some(list.remove(oldest).value), true),
                    };
                    if room {
                        list.push(Waits { operator, key, deadline, value });
                        if running.iter().all(|(_, lane, _)| *lane != (operator, key)) {
                            ranks.extend(stands(&list, (operator, key)).map(|rank| ((operator, key), rank)));
                        }
                    }
                    let name = Bytes::from(vec![key]);
                    let found = pool.offer(OperatorId(operator), name, at(deadline), value);
                    prop_assert_eq!(found, expected);
                }
                OperatorStep::Take => {
                    for (lane, rank) in ranks.iter_mut().filter(|(_, (late, rank))| !late && *rank <= at(now) && !is_fifo) {
                        let takes = takes[lane.0 as usize].unwrap_or_default();
                        *rank = begins_by(&own(&list, *lane), at(now), takes).map_or((true, rank.1), |begins| (false, begins));
                    }
                    let head = |lane: &(u32, u8)| own(&list, *lane).first().copied();
                    let by_rank = |(lane, (is_late, rank)): (&(u32, u8), &(bool, Time))| {
                        let it = head(lane)?;
                        Some((if is_fifo { (false, Time::ZERO) } else { (*is_late, *rank) }, it.value, it))
                    };
                    let expected = ranks.iter().filter_map(by_rank).min_by_key(|(rank, value, _)| (*rank, *value)).map(|(.., it)| it);
                    let found = pool.take(at(now));
                    prop_assert_eq!(found.as_ref().map(|task| task.value), expected.map(|it| it.value));
                    if let (Some(task), Some(it)) = (found, expected) {
                        list.retain(|other| other.value != it.value);
                        ranks.remove(&it.lane());
                        running.push((task.lane, it.lane(), at(now)));
                    }
                }
                OperatorStep::Done(place) if place < running.len() => {
                    let (id, lane, began_at) = running.remove(place);
                    let took = at(now).since(began_at);
                    let before = takes[lane.0 as usize].unwrap_or(took);
                    takes[lane.0 as usize] = Some(before.mul_f64(1.0 - GAIN) + took.mul_f64(GAIN));
                    pool.done(at(now), id, Some(value));
                    ranks.extend(stands(&list, lane).map(|rank| (lane, rank)));
                }
                OperatorStep::Done(_) => {}
                OperatorStep::End(operator) => {
                    over[operator as usize] = true;
                    pool.end(OperatorId(operator));
                }
            }
            for operator in 1..3 {
                let waiting = list.iter().filter(|it| it.operator == operator).count();
                prop_assert_eq!(pool.waiting(OperatorId(operator)), waiting);
            }
            prop_assert_eq!(pool.is_idle(), list.is_empty() && running.is_empty());
        }
    }
}
