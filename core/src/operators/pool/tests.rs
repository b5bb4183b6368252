use std::time::Duration;

use proptest::prelude::*;

use super::*;

const ONE: OperatorId = OperatorId(1);
const TWO: OperatorId = OperatorId(2);

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn pool(discipline: Discipline) -> Pool<u32, u32> {
    let mut pool = Pool::new(discipline);
    pool.begin(ONE, Limits { waiting: 4, idle: 2 });
    pool.begin(TWO, Limits { waiting: 4, idle: 2 });
    pool
}

fn key(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn next(pool: &mut Pool<u32, u32>, now: Time) -> Option<u32> {
    let task = pool.take(now)?;
    pool.done(task.lane, Some(task.value));
    Some(task.value)
}

#[test]
fn the_earliest_deadline_goes_first_and_what_is_late_comes_behind() {
    let mut pool = pool(Discipline::EarliestDeadline);
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
fn first_come_first_served_knows_no_deadline() {
    let mut pool = pool(Discipline::Fifo);
    for (number, deadline) in [(1, 300), (2, 100), (3, 200)] {
        assert_eq!(pool.offer(ONE, Bytes::from(vec![number as u8]), at(deadline), number), None);
    }
    assert_eq!([(); 3].map(|()| next(&mut pool, at(150))), [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_key_keeps_its_order_and_inherits_the_earliest_deadline() {
    let mut pool = pool(Discipline::EarliestDeadline);
    pool.offer(ONE, key("a"), at(900), 1);
    pool.offer(ONE, key("b"), at(500), 2);
    pool.offer(ONE, key("a"), at(100), 3);
    // 1 stands before 3, which is the most urgent of all.
    let first = pool.take(at(0)).unwrap();
    assert_eq!(first.value, 1);
    let second = pool.take(at(0)).unwrap();
    assert_eq!(second.value, 2, "nobody else takes what is behind a record that is worked on");
    assert!(pool.take(at(0)).is_none());
    pool.done(first.lane, Some(7));
    let third = pool.take(at(0)).unwrap();
    assert_eq!((third.value, third.state), (3, Some(7)));
}

#[test]
fn a_full_operator_drops_the_oldest_of_the_key_and_leaves_others_alone() {
    let mut pool = pool(Discipline::EarliestDeadline);
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
    let mut pool = pool(Discipline::EarliestDeadline);
    for name in ["a", "b", "c"] {
        pool.offer(ONE, key(name), at(100), 1);
        next(&mut pool, at(0));
    }
    let state_of = |pool: &mut Pool<u32, u32>, name| {
        pool.offer(ONE, key(name), at(100), 1);
        let task = pool.take(at(0)).unwrap();
        pool.done(task.lane, task.state);
        task.state
    };
    assert_eq!(state_of(&mut pool, "c"), Some(1));
    assert_eq!(state_of(&mut pool, "b"), Some(1));
    assert_eq!(state_of(&mut pool, "a"), None, "two are kept");
}

#[test]
fn an_operator_that_is_over_finishes_what_waits() {
    let mut pool = pool(Discipline::EarliestDeadline);
    pool.offer(ONE, key("a"), at(100), 1);
    pool.offer(ONE, key("a"), at(100), 2);
    let task = pool.take(at(0)).unwrap();
    pool.end(ONE);
    assert_eq!(pool.offer(ONE, key("a"), at(100), 3), Some(3));
    pool.done(task.lane, None);
    assert_eq!(next(&mut pool, at(0)), Some(2));
    assert!(pool.is_idle() && pool.lanes.is_empty() && pool.names.is_empty());
    assert!(!pool.operators.contains_key(&ONE));
}

#[derive(Clone, Debug)]
enum Step {
    Offer { operator: u32, key: u8, deadline: u64 },
    Take,
    Done(usize),
    End(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..3, 0_u8..4, 0_u64..50)
            .prop_map(|(operator, key, deadline)| Step::Offer { operator, key, deadline }),
        3 => Just(Step::Take),
        3 => (0_usize..4).prop_map(Step::Done),
        1 => (1_u32..3).prop_map(Step::End),
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

proptest! {
    /// Beside a list that is searched from the beginning each time.
    #[test]
    fn it_does_what_a_plain_list_does(
        steps in prop::collection::vec(step(), 1..200),
        is_fifo in any::<bool>(),
    ) {
        let discipline = if is_fifo { Discipline::Fifo } else { Discipline::EarliestDeadline };
        let mut pool = pool(discipline);
        let mut list: Vec<Waits> = Vec::new();
        let mut running: Vec<(LaneId, u32, u8)> = Vec::new();
        let mut over = [false; 3];
        for (clock, step) in steps.into_iter().enumerate() {
            let (now, value) = (clock as u64, clock as u32);
            match step {
                Step::Offer { operator, key, deadline } => {
                    let deadline = now + deadline;
                    let waiting = list.iter().filter(|it| it.operator == operator).count();
                    let own = list.iter().position(|it| (it.operator, it.key) == (operator, key));
                    let (expected, room) = match (waiting < 4, own) {
                        _ if over[operator as usize] => (Some(value), false),
                        (true, _) => (None, true),
                        (false, None) => (Some(value), false),
                        (false, Some(own)) => (Some(list.remove(own).value), true),
                    };
                    if room {
                        list.push(Waits { operator, key, deadline, value });
                    }
                    let name = Bytes::from(vec![key]);
                    let found = pool.offer(OperatorId(operator), name, at(deadline), value);
                    prop_assert_eq!(found, expected);
                }
                Step::Take => {
                    let is_busy = |it: &Waits| running.iter().any(|(_, operator, key)| (*operator, *key) == (it.operator, it.key));
                    let head = |it: &Waits| list.iter().find(|other| (other.operator, other.key) == (it.operator, it.key)).map(|it| it.value) == Some(it.value);
                    let earliest = |it: &Waits| list.iter().filter(|other| (other.operator, other.key) == (it.operator, it.key)).map(|it| it.deadline).min().unwrap_or_default();
                    let rank = |it: &Waits| match is_fifo {
                        true => (false, 0, it.value),
                        false => (earliest(it) <= now, earliest(it), it.value),
                    };
                    let expected = list.iter().filter(|it| head(it) && !is_busy(it)).min_by_key(|it| rank(it)).copied();
                    let found = pool.take(at(now));
                    prop_assert_eq!(found.as_ref().map(|task| task.value), expected.map(|it| it.value));
                    if let (Some(task), Some(it)) = (found, expected) {
                        list.retain(|other| other.value != it.value);
                        running.push((task.lane, it.operator, it.key));
                    }
                }
                Step::Done(place) if place < running.len() => {
                    pool.done(running.remove(place).0, Some(value));
                }
                Step::Done(_) => {}
                Step::End(operator) => {
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
