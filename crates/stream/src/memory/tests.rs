use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use bytes::Bytes;

use super::bundle::{BUNDLE_MAX, KeyState, pack, unpack};
use super::*;
use crate::*;

/// Rows that come one after another, and what they have in `x`, which may be missing, and in `id`.
#[derive(Clone, Debug)]
struct Seen {
    x: Option<f64>,
    id: u8,
    /// Since the one before.
    after: u64,
}

fn seen() -> impl Strategy<Value = Seen> {
    let x =
        prop::option::weighted(0.9, prop_oneof![-1e9..1e9_f64, (-3..4_i32).prop_map(f64::from)]);
    (x, 0..4_u8, 0..40_u64).prop_map(|(x, id, after)| Seen { x, id, after })
}

fn item(seen: &Seen, at: Time) -> Item {
    let mut row: Row =
        [("id".into(), Value::Text(seen.id.to_string().into()))].into_iter().collect();
    if let Some(x) = seen.x {
        row.set("x".into(), Value::Number(x));
    }
    Item { at, content: ItemContent::Row(row) }
}

fn name(text: &str) -> Arc<str> {
    text.into()
}

fn windows(by: Option<&str>, extent: WindowLength) -> Vec<Arc<dyn OperatorStep>> {
    use Aggregate::{Average, Count, Distinct, Max, Min, SecondMoment, Sum};
    let window = |of| -> Arc<dyn OperatorStep> {
        Arc::new(Window::new(name("x"), name("x"), of, extent, by.map(name)))
    };
    [Sum, Average, Min, Max, Count, Distinct, SecondMoment].map(window).into()
}

/// Each step that remembers anything, in some ways.
fn steps(by: Option<&str>) -> Vec<Arc<dyn OperatorStep>> {
    let by_name = || by.map(name);
    let mut all = windows(by, WindowLength::Rows(5));
    all.extend(windows(by, WindowLength::Span(Duration::from_millis(100))));
    all.push(Arc::new(Interpolate::new(name("x"), 3, by_name())));
    all.push(Arc::new(Kalman::new(name("x"), name("y"), 0.01, 0.5, by_name())));
    all.push(Arc::new(Regression::new(name("x"), name("y"), 4, 1.0, by_name())));
    all.push(Arc::new(BlockAverage::new(name("x"), name("y"), 4, by_name())));
    all.push(Arc::new(Deduplicate::new(name("x"), 6, 0.01)));
    all
}

/// Chains of one of them, and one of several.
fn chains() -> Vec<Chain> {
    let each = [None, Some("id")].into_iter().flat_map(steps);
    let mut all: Vec<Chain> = each.map(|step| Chain::new(vec![step])).collect();
    let range = RangeFilter { field: name("y"), min: -1e6, max: 1e6 };
    all.push(Chain::new(vec![
        Arc::new(Interpolate::new(name("x"), 3, Some(name("id")))),
        Arc::new(Kalman::new(name("x"), name("y"), 0.01, 0.5, None)),
        Arc::new(range),
        Arc::new(Window::new(name("y"), name("y"), Aggregate::Sum, WindowLength::Rows(3), None)),
    ]));
    all
}

/// What a chain at work makes of items, whose first comes at `clock`; faults are results as well.
fn run(work: &mut ChainInstance, all: &[Seen], clock: &mut Time) -> Vec<Result<Bytes, StepError>> {
    let mut out = Vec::new();
    for seen in all {
        *clock += Duration::from_millis(seen.after);
        let items = work.run(item(seen, *clock), |fault| out.push(Err(fault)));
        out.extend(items.into_iter().map(|item| Ok(item.into_payload())));
    }
    out
}

fn saved(work: &ChainInstance, now: Time) -> Bytes {
    work.save(now, 1 << 20).unwrap().unwrap_or_default()
}

/// Goes on at another node, whose clock tells another time.
fn moved(chain: &Chain, work: &ChainInstance, clock: &mut Time, other: Time) -> ChainInstance {
    let Some(bytes) = work.save(*clock, 1 << 20).unwrap() else { return chain.start() };
    *clock = other;
    chain.load(other, &bytes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is cut where, nobody can tell from the results.
    #[test]
    fn a_chain_that_moves_does_what_one_does_that_stays(
        all in prop::collection::vec(seen(), 1..60),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..1_000_000_000_u64), 0..4),
    ) {
        let mut cuts: Vec<_> =
            cuts.into_iter().map(|(at, clock)| (at.index(all.len()), clock)).collect();
        cuts.sort_unstable();
        for chain in chains() {
            let expected = run(&mut chain.start(), &all, &mut Time::from_millis(50));
            let (mut work, mut clock, mut done) = (chain.start(), Time::from_millis(50), 0);
            let mut found = Vec::new();
            for (at, other) in &cuts {
                found.extend(run(&mut work, &all[done..*at], &mut clock));
                done = *at;
                work = moved(&chain, &work, &mut clock, Time::from_nanos(*other));
            }
            found.extend(run(&mut work, &all[done..], &mut clock));
            prop_assert_eq!(found, expected, "{:?}", chain);
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_a_memory(
        all in prop::collection::vec(seen(), 0..30),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        for chain in chains() {
            let mut work = chain.start();
            run(&mut work, &all, &mut Time::from_nanos(0));
            let mut bytes = saved(&work, Time::ZERO).to_vec();
            if bytes.is_empty() {
                continue;
            }
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            if end.index(2) == 0 {
                bytes.truncate(end.index(bytes.len()));
            }
            if let Ok(mut work) = chain.load(Time::ZERO, &bytes) {
                // It works, and what it remembers is a memory again.
                run(&mut work, &all, &mut Time::from_millis(1));
                prop_assert!(work.save(Time::ZERO, 1 << 20).is_ok());
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_are_a_memory(
        body in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..120),
    ) {
        let bytes = [&[VERSION][..], &body].concat();
        for chain in chains() {
            let _ = chain.load(Time::ZERO, &bytes);
        }
        let _ = unpack(&Bytes::from(bytes));
    }

    #[test]
    fn bundles_come_back_and_damaged_ones_are_refused(
        all in prop::collection::vec((any::<u64>(), "[a-z]{0,3}", "[a-z/]{0,9}", prop::collection::vec(any::<u8>(), 0..20)), 0..5),
        at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let kept = |(definition, operator, key, memory): (u64, String, String, Vec<u8>)| KeyState {
            operator: operator.into(),
            definition,
            key: key.into(),
            memory: memory.into(),
        };
        let all: Vec<KeyState> = all.into_iter().map(kept).collect();
        let packed = pack(&all);
        prop_assert_eq!(packed.len(), 1 + all.iter().map(KeyState::size).sum::<usize>());
        prop_assert_eq!(unpack(&packed), Ok(all));
        let mut damaged = packed.to_vec();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        if let Ok(all) = unpack(&damaged.clone().into()) {
            prop_assert_eq!(pack(&all), Bytes::from(damaged));
        }
    }
}

#[test]
fn steps_of_one_kind_only_take_what_was_theirs() {
    let rows: Vec<Seen> = (0..4).map(|x| Seen { x: Some(f64::from(x)), id: 1, after: 1 }).collect();
    let window = |rows| {
        let step =
            Window::new(name("x"), name("x"), Aggregate::Sum, WindowLength::Rows(rows), None);
        Chain::new(vec![Arc::new(step)])
    };
    let mut work = window(5).start();
    run(&mut work, &rows, &mut Time::from_nanos(0));
    let bytes = saved(&work, Time::ZERO);
    assert!(window(5).load(Time::ZERO, &bytes).is_ok());
    let refused = |chain: &Chain, bytes: &[u8]| chain.load(Time::ZERO, bytes).unwrap_err();
    let says = |error: MemoryError, text: &str| assert_eq!(error.to_string(), text);
    // A window with all its rows would never end.
    says(refused(&window(4), &bytes), "byte 17: expected a window that is not full");
    says(refused(&Chain::default(), &bytes), "byte 1: expected as many steps as the chain has");
    let repeats = Chain::new(vec![Arc::new(Deduplicate::new(name("x"), 6, 0.01))]);
    assert!(matches!(refused(&repeats, &bytes), MemoryError::Malformed(_)));
    let newer = [&[VERSION + 1], &bytes[1..]].concat();
    assert_eq!(refused(&window(5), &newer), MemoryError::Version(VERSION + 1));
    says(refused(&window(5), &[]), "byte 0: expected a byte");
    assert_eq!(work.save(Time::ZERO, bytes.len() - 1), Err(MemoryError::Large));
    assert!(work.save(Time::ZERO, bytes.len()).is_ok());
    let forgetful =
        Chain::new(vec![Arc::new(RangeFilter { field: name("x"), min: 0.0, max: 1.0 })]);
    assert_eq!(forgetful.start().save(Time::ZERO, 100), Ok(None));
    let large = Bytes::from([&[VERSION][..], &vec![0; BUNDLE_MAX]].concat());
    assert_eq!(unpack(&large), Err(MemoryError::Large));
    assert_eq!(unpack(&Bytes::from_static(&[VERSION + 1])), Err(MemoryError::Version(VERSION + 1)));
}

#[test]
fn a_young_set_takes_few_bytes() {
    let chain = Chain::new(vec![Arc::new(Deduplicate::new(name("x"), 100_000, 0.01))]);
    let mut work = chain.start();
    let rows: Vec<Seen> =
        (0..100).map(|x| Seen { x: Some(f64::from(x)), id: 1, after: 1 }).collect();
    run(&mut work, &rows, &mut Time::from_nanos(0));
    let bytes = saved(&work, Time::ZERO);
    assert!(bytes.len() < 20_000, "{}", bytes.len());
    let mut again = chain.load(Time::ZERO, &bytes).unwrap();
    assert_eq!(run(&mut again, &rows, &mut Time::from_nanos(0)), []);
}

/// What version 1 wrote is read as long as there is a version 1.
#[test]
fn the_form_of_version_1_stays() {
    let chain = Chain::new(vec![
        Arc::new(Interpolate::new(name("x"), 3, None)),
        Arc::new(Kalman::new(name("x"), name("y"), 0.25, 0.5, Some(name("id")))),
        Arc::new(BlockAverage::new(name("x"), name("z"), 2, None)),
        Arc::new(Deduplicate::new(name("y"), 2, 0.5)),
        Arc::new(Window::new(
            name("x"),
            name("x"),
            Aggregate::Distinct,
            WindowLength::Rows(9),
            None,
        )),
    ]);
    let mut work = chain.start();
    let rows: Vec<Seen> = (1..4).map(|x| Seen { x: Some(f64::from(x)), id: 1, after: 5 }).collect();
    run(&mut work, &rows, &mut Time::from_nanos(0));
    let bytes = saved(&work, Time::from_millis(20));
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = [
        // The version, and how many steps.
        "0105000000",
        // Interpolation: one key, without a name; three numbers.
        "24000000010000000000000003000000000000000000f03f00000000000000400000000000000840",
        // A filter: the key 1, an estimate and its variance.
        "1a00000001000000010000003101abaaaaaaaaaa0240310cc3300cc3d03f",
        // A block: a value of the next, and the mean of the last.
        "2100000001000000000000000100000000000000000000000000084001000000000000f83f",
        // Repeats: how many in the young set, that and the old one.
        "2800000001000000000000000000000001000000328924924926914400000000010000006d6ddb4eb29be436",
        // A window: 15 ms old, three values, and each of them.
        "5c000000010000000000000001c0e1e4000000000003000000000000000000000000001840000000000000f0",
        "3f00000000000008400300000001000000310100000000000000010000003201000000000000000100000033",
        "0100000000000000",
    ];
    assert_eq!(hex, expected.concat());
    let again = chain.load(Time::from_millis(7), &bytes).unwrap();
    assert_eq!(saved(&again, Time::from_millis(7)), bytes);
}

#[test]
fn a_bundle_of_version_1_stays() {
    let kept = KeyState {
        operator: "mean".into(),
        definition: 0x0102_0304,
        key: "taxi/7".into(),
        memory: Bytes::from_static(&[VERSION, 0, 0, 0, 0]),
    };
    let packed = pack(&[kept.clone(), KeyState { key: Bytes::new(), ..kept }]);
    let hex: String = packed.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = [
        // The version.
        "01",
        // A definition, and then behind their lengths an operator, a key and a memory.
        "0403020100000000040000006d65616e06000000746178692f37050000000100000000",
        // The same without a key.
        "0403020100000000040000006d65616e00000000050000000100000000",
    ];
    assert_eq!(hex, expected.concat());
}
