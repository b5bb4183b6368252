//! The scripts that come with Tidegate.

use super::*;

fn stock(text: &str, parameters: &[(&str, Parameter)]) -> ScriptSpec {
    let pairs = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    ScriptSpec { parameters: pairs.collect(), ..spec(text) }
}

fn with_header(key: &str, name: &'static str, value: &'static str) -> Offered {
    let pair = (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes()));
    Offered { properties: Properties::new(vec![pair]), ..record(key, "x") }
}

#[test]
fn priority_puts_messages_first_or_last() {
    let mut rehearsal =
        rehearse(stock(include_str!("../../../lua/priority.luau"), &[]), Line::default());
    rehearsal.connect(0, false);
    for (key, priority) in
        [("low", "1"), ("plain", "5"), ("high", "9"), ("none", "x"), ("top", "9")]
    {
        rehearsal.offer(with_header(key, "priority", priority));
    }
    rehearsal.connect(0, true);
    rehearsal.advance(ms(100));
    assert_eq!(keys(&rehearsal), ["top", "high", "low", "plain", "none"]);
    is_well(&rehearsal);
}

#[test]
fn prefix_changes_how_topics_begin() {
    let texts = [("remove", "plant/"), ("add", "site7/")];
    let parameters = texts.map(|(name, text)| (name, Parameter::Text(text.to_owned())));
    let script = stock(include_str!("../../../lua/prefix.luau"), &parameters);
    let mut rehearsal = rehearse(script, Line::default());
    for key in ["plant/3/alarm", "plant", "other/plant/1"] {
        rehearsal.offer(record(key, "x"));
    }
    rehearsal.advance(ms(100));
    assert_eq!(keys(&rehearsal), ["site7/3/alarm", "site7/plant", "site7/other/plant/1"]);
    is_well(&rehearsal);
}

#[test]
fn codel_keeps_a_queue_short_that_does_not_end() {
    // 1000 bytes/s for 1250: without it, the oldest waits longer and longer.
    let oldest_at_end = |text: &str| {
        let mut rehearsal = rehearse(stock(text, &[]), line(&["cloud"], Some(1000.0)));
        for _ in 0..600 {
            rehearsal.offer(record("t", vec![0; 124]));
            rehearsal.advance(ms(100));
        }
        is_well(&rehearsal);
        let queue = rehearsal.seat.queues().next().unwrap();
        let oldest = rehearsal.seat.waiting_after(queue, None);
        let arrived = oldest.and_then(|id| rehearsal.seat.record(id)).map(|record| record.arrived);
        let wait = arrived.map(|arrived| rehearsal.now.since(arrived)).unwrap_or_default();
        (wait, dropped(&rehearsal))
    };
    let (plain, none) = oldest_at_end("function on_message(h) end");
    let (short, some) = oldest_at_end(include_str!("../../../lua/codel.luau"));
    assert!(plain > Duration::from_secs(8) && none == 0, "{plain:?}");
    assert!(short * 3 < plain && (20..300).contains(&some), "{short:?} of {plain:?}, {some}");
}

#[test]
fn codel_leaves_a_short_burst_alone() {
    let mut rehearsal = rehearse(
        stock(include_str!("../../../lua/codel.luau"), &[]),
        line(&["cloud"], Some(1000.0)),
    );
    (0..8).for_each(|_| rehearsal.offer(record("t", vec![0; 99])));
    rehearsal.advance(ms(3000));
    assert_eq!((rehearsal.went.len(), dropped(&rehearsal)), (8, 0));
}

#[test]
fn newest_first_turns_a_long_queue_around() {
    let parameters = [("queued", Parameter::Whole(3))];
    let text = include_str!("../../../lua/newest_first.luau");
    let mut rehearsal = rehearse(stock(text, &parameters), Line::default());
    rehearsal.connect(0, false);
    (1..=5).for_each(|number| rehearsal.offer(record(&format!("{number}"), "x")));
    rehearsal.connect(0, true);
    rehearsal.advance(ms(100));
    assert_eq!(keys(&rehearsal), ["5", "4", "1", "2", "3"]);
    is_well(&rehearsal);
}

#[test]
fn fallback_leaves_nothing_behind_a_dead_output() {
    let text = include_str!("../../../lua/fallback.luau");
    let mut rehearsal = rehearse(stock(text, &[]), line(&["cloud", "edge"], Some(1000.0)));
    (1..=3).for_each(|number| rehearsal.offer(record(&format!("{number}"), vec![0; 500])));
    rehearsal.advance(ms(100));
    rehearsal.connect(0, false);
    rehearsal.offer(record("4", "x"));
    rehearsal.advance(ms(3000));
    let by_edge = rehearsal.went.iter().filter(|went| went.output == OutputId(1)).count();
    assert_eq!(rehearsal.seat.counts().confirmed, 4, "{:?}", keys(&rehearsal));
    assert!(by_edge >= 3);
    rehearsal.connect(0, true);
    rehearsal.advance(ms(100));
    rehearsal.offer(record("5", "x"));
    rehearsal.advance(ms(1000));
    assert_eq!(rehearsal.went.last().unwrap().output, OutputId(0), "the cloud is back");
    is_well(&rehearsal);
}

#[test]
fn shed_drops_what_comes_too_late_to_count() {
    let text = include_str!("../../../lua/shed.luau");
    let mut rehearsal = rehearse(stock(text, &[]), line(&["cloud"], Some(500.0)));
    for _ in 0..60 {
        let now = rehearsal.moment().unix_ns / 1_000_000;
        rehearsal.offer(record("t", event("view", now)));
        rehearsal.offer(record("t", event("click", now)));
        rehearsal.advance(ms(100));
    }
    rehearsal.advance(ms(3000));
    is_well(&rehearsal);
    let late = |went: &&rehearsal::Went| went.at.since(went.record.arrived) > ms(1400);
    assert_eq!(rehearsal.went.iter().filter(late).count(), 0);
    let views = |went: &&rehearsal::Went| payload(went).windows(4).any(|part| part == b"view");
    let views = rehearsal.went.iter().filter(views).count();
    let clicks = rehearsal.went.len() - views;
    assert!(views > 4 * clicks.max(1), "{views} views, {clicks} clicks");
}

#[test]
fn downsample_asks_for_less_where_the_queue_is_long() {
    let text = include_str!("../../../lua/downsample.luau");
    let transform = vec![("small".to_owned(), "http://127.0.0.1:1/".to_owned())];
    let spec = ScriptSpec { transform, ..stock(text, &[]) };
    let mut rehearsal = rehearse(spec, line(&["cloud"], Some(1000.0)));
    rehearsal.answer = Some(Bytes::from_static(b"small"));
    for _ in 0..20 {
        rehearsal.offer(record("frame", vec![0; 195]));
        rehearsal.advance(ms(100));
    }
    rehearsal.advance(ms(5000));
    let small = rehearsal.went.iter().filter(|went| payload(went) == "small").count();
    assert!((5..15).contains(&small) && rehearsal.went.len() == 20, "{small}");
    is_well(&rehearsal);
}

#[test]
fn hls_asks_for_what_the_network_carries() {
    let text = include_str!("../../../lua/hls.luau");
    let mut rehearsal = rehearse(stock(text, &[]), line(&["cloud"], None));
    for (path, rate) in [
        ("video/720/7.ts", "5000000"),
        ("video/720/8.ts", "1100000"),
        ("video/720/9.ts", "100"),
        ("video/360/10.ts", "5000000"),
        ("video/list.m3u8", "100"),
    ] {
        rehearsal.offer(with_header(path, "bw-est", rate));
    }
    rehearsal.advance(ms(100));
    assert_eq!(
        keys(&rehearsal),
        [
            "video/720/7.ts",
            "video/360/8.ts",
            "video/240/9.ts",
            "video/360/10.ts",
            "video/list.m3u8"
        ]
    );
    is_well(&rehearsal);
}
