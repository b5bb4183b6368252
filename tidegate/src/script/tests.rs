//! What scripts do to a node: the paper's three as printed, Table I, timers, failures, and loading anew.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_node::io::OutputId;
use tidegate_types::record::{DropReason, Offered, Properties, SourceId};
use tidegate_types::units::{Rate, Size};

use super::effects::ScriptNotice;
use super::rehearsal::{Line, Rehearsal};
use super::spec::Parameter;
use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn line(outputs: &[&str], rate: Option<f64>) -> Line {
    let outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
    Line { outputs, rate: rate.map(Rate::new), ..Line::default() }
}

/// A script whose every call may take as long as a loaded machine needs.
fn spec(text: &str) -> ScriptSpec {
    let mut spec = ScriptSpec::new("test", text);
    spec.limits.time = Duration::from_secs(10);
    spec
}

fn rehearse(spec: ScriptSpec, line: Line) -> Rehearsal {
    Rehearsal::new(&[Arc::new(spec)], line).unwrap()
}

fn record(key: &str, payload: impl Into<Bytes>) -> Offered {
    Offered {
        source: SourceId(0),
        token: None,
        key: Bytes::copy_from_slice(key.as_bytes()),
        properties: Properties::default(),
        payload: payload.into(),
        read_at: Time::ZERO,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}

fn keys(rehearsal: &Rehearsal) -> Vec<String> {
    let key = |went: &rehearsal::Went| String::from_utf8_lossy(&went.record.key).into_owned();
    rehearsal.went.iter().map(key).collect()
}

fn payload(went: &rehearsal::Went) -> Bytes {
    went.record.payload.clone()
}

fn dropped(rehearsal: &Rehearsal) -> u64 {
    rehearsal.seat.counts().dropped[DropReason::Script.index()]
}

fn is_well(rehearsal: &Rehearsal) {
    let script = &rehearsal.scripts.all[0];
    let counts = script.counts();
    let failed = counts.too_long + counts.too_large + counts.wrong;
    assert_eq!(failed, 0, "{counts:?}: {:?}", script.last_failure());
}

const FIG_3: &str = include_str!("../../lua/paper/fig3.luau");
const FIG_9: &str = include_str!("../../lua/paper/fig9.luau");
const FIG_13: &str = include_str!("../../lua/paper/fig13.luau");

fn traffic() -> ScriptSpec {
    let transform = vec![("180p".to_owned(), "http://127.0.0.1:1/180p".to_owned())];
    let parameters = BTreeMap::from([("required".to_owned(), Parameter::Number(10_000.0))]);
    ScriptSpec { transform, parameters, ..spec(FIG_3) }
}

#[test]
fn a_script_holds_a_queue_to_a_rate() {
    let text = "function on_message(h)\n for queue in h:Queues():getQueue() do queue:setRate(1000) end end";
    let mut rehearsal = rehearse(spec(text), line(&["cloud"], None));
    (0..4).for_each(|_| rehearsal.offer(record("t", vec![1; 99])));
    rehearsal.advance(Duration::from_secs(1));
    let at: Vec<u64> = rehearsal
        .went
        .iter()
        .map(|went| went.at.since(rehearsal.went[0].at).as_millis() as u64)
        .collect();
    assert_eq!(at, [0, 100, 200, 300], "100 bytes each at 1,000 bytes/s");
    is_well(&rehearsal);
}

#[test]
fn fig_3_redirects_where_the_cloud_is_cut_off() {
    let mut rehearsal = rehearse(traffic(), line(&["cloud-detector", "edge-detector"], Some(20e3)));
    rehearsal.offer(record("frame/1", vec![1; 1000]));
    rehearsal.advance(ms(500));
    rehearsal.connect(0, false);
    rehearsal.offer(record("frame/2", vec![1; 1000]));
    rehearsal.advance(ms(500));
    let went: Vec<(u16, String)> =
        rehearsal.went.iter().map(|went| went.output.0).zip(keys(&rehearsal)).collect();
    assert_eq!(went, [(0, "frame/1".to_owned()), (1, "frame/2".to_owned())]);
    assert_eq!(rehearsal.notices, ["0"], "less than half of what is required");
    is_well(&rehearsal);
}

#[test]
fn fig_3_transforms_where_the_rate_is_low() {
    let mut rehearsal = rehearse(traffic(), line(&["cloud-detector", "edge-detector"], Some(4e3)));
    rehearsal.answer = Some(Bytes::from_static(b"small"));
    rehearsal.offer(record("frame/1", vec![1; 1000]));
    rehearsal.advance(ms(500));
    assert_eq!(rehearsal.asked[0].0, "http://127.0.0.1:1/180p");
    assert_eq!(payload(&rehearsal.went[0]), "small");
    assert_eq!(rehearsal.notices, ["3680"], "what the node uses of a rate that it is told");
    is_well(&rehearsal);
}

#[test]
fn fig_3_trusts_a_cloud_that_is_up_and_leaves_one_that_is_gone() {
    let rtt = ms(100);
    let outputs = ["cloud-detector", "edge-detector"].map(str::to_owned).to_vec();
    let line = Line { outputs, rtt, is_measured: true, ..Line::default() };
    let mut rehearsal = rehearse(traffic(), line);
    let by = |rehearsal: &Rehearsal, from: usize| -> [usize; 2] {
        let to =
            |output| rehearsal.went[from..].iter().filter(|went| went.output == output).count();
        [to(OutputId(0)), to(OutputId(1))]
    };
    let frames = |rehearsal: &mut Rehearsal, count: usize| {
        for number in 0..count {
            rehearsal.offer(record(&format!("frame/{number}"), vec![1; 1000]));
            rehearsal.advance(ms(50));
        }
    };
    frames(&mut rehearsal, 60);
    assert_eq!(by(&rehearsal, 0), [60, 0], "it was idle, and is healthy");
    // Its far end gets nothing any more: three round trips show it.
    rehearsal.silent.push(OutputId(0));
    frames(&mut rehearsal, 7);
    let before = rehearsal.went.len();
    frames(&mut rehearsal, 53);
    assert_eq!(by(&rehearsal, before), [0, 53]);
    is_well(&rehearsal);
}

fn event(kind: &str, unix_ms: u64) -> Bytes {
    // The benchmark sends the time as a text, in milliseconds.
    format!(r#"{{"ad_id": "x", "event_type": "{kind}", "event_time": "{unix_ms}"}}"#).into()
}

#[test]
fn fig_9_sheds_what_is_late_and_what_nobody_counts() {
    // Its times are seconds: the script as printed, with the benchmark's unit converted before it.
    let seconds = |kind: &str, at: f64| -> Bytes {
        format!(r#"{{"event_type": "{kind}", "event_time": {at}}}"#).into()
    };
    let mut rehearsal = rehearse(spec(FIG_9), line(&["worker"], Some(500.0)));
    let now = rehearsal.moment().unix_ns as f64 / 1e9;
    rehearsal.offer(record("events", seconds("view", now)));
    rehearsal.offer(record("events", seconds("view", now - 1.5))); // late
    rehearsal.offer(record("events", seconds("click", now)));
    rehearsal.advance(ms(2000));
    // Only the late one was dropped: the latency was not known yet.
    assert_eq!((rehearsal.went.len(), dropped(&rehearsal)), (2, 1));
    for _ in 0..40 {
        let now = rehearsal.moment().unix_ns as f64 / 1e9;
        rehearsal.offer(record("events", seconds("view", now)));
        rehearsal.offer(record("events", seconds("click", now)));
        rehearsal.advance(ms(100));
    }
    rehearsal.advance(ms(5000));
    let clicks = |went: &&rehearsal::Went| payload(went).windows(5).any(|part| part == b"click");
    let clicks = rehearsal.went.iter().filter(clicks).count();
    assert!(clicks < 15 && dropped(&rehearsal) > 25, "{clicks}, {}", dropped(&rehearsal));
    is_well(&rehearsal);
}

#[test]
fn texts_are_numbers_where_they_look_like_one() {
    let text =
        "function on_message(h) h:notify(h:message():json():getNum('event_time') / 1000) end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    rehearsal.offer(record("events", event("view", 1500)));
    assert_eq!(rehearsal.notices, ["1.5"]);
}

#[test]
fn fig_13_asks_for_the_chunk_that_fits() {
    let helper = "function find_resolution(bw)
        bw = tonumber(bw)
        local best = ladder[1]
        for _, step in ladder do
            if step.rate <= bw then best = step end
        end
        return best.lines
    end";
    let rung = |lines: i64, rate: f64| {
        Parameter::Table(BTreeMap::from([
            ("lines".to_owned(), Parameter::Whole(lines)),
            ("rate".to_owned(), Parameter::Number(rate)),
        ]))
    };
    let ladder = Parameter::List(vec![rung(240, 0.0), rung(480, 1e5), rung(720, 4e5)]);
    let mut spec = spec(FIG_13);
    spec.texts.insert(0, ("helper.luau".into(), helper.into()));
    spec.parameters = BTreeMap::from([("ladder".to_owned(), ladder)]);
    spec.path = Some("^(%d+)/(.+)$".into());
    let mut rehearsal = rehearse(spec, Line::default());
    let bandwidth = |rate: &'static str| {
        Properties::new(vec![(Bytes::from_static(b"bw-est"), Bytes::from_static(rate.as_bytes()))])
    };
    for (path, rate) in [
        ("720/chunk7.ts", "200000"),  // lower
        ("480/chunk8.ts", "900000"),  // one step up: it is left alone
        ("240/chunk9.ts", "900000"),  // far up
        ("480/chunk10.ts", "150000"), // as it is
    ] {
        rehearsal.offer(Offered { properties: bandwidth(rate), ..record(path, "") });
    }
    rehearsal.advance(ms(100));
    let wanted = ["480/chunk7.ts", "480/chunk8.ts", "720/chunk9.ts", "480/chunk10.ts"];
    assert_eq!(keys(&rehearsal), wanted);
    is_well(&rehearsal);
}

#[test]
fn a_notification_goes_where_the_configuration_binds_its_name() {
    let text = "function on_message(h)
        h:notify('slow', h:message():size())
        notify('up', 'well')
        h:notify('all')
        local _, why = pcall(function() h:notify('gone', 'x') end)
        h:notify(tostring(why))
    end";
    let at = |path: &str| vec![format!("http://127.0.0.1:1/{path}")];
    let notifications = vec![("slow".into(), at("slow")), ("up".into(), at("up"))];
    let spec = ScriptSpec { notifications, notify: at("all"), ..spec(text) };
    let mut rehearsal = rehearse(spec, line(&["cloud"], Some(1000.0)));
    rehearsal.offer(record("t/1", "hello"));
    rehearsal.advance(ms(10));
    let [said @ .., why] = &rehearsal.notices[..] else { panic!("nothing was told") };
    assert_eq!(said, ["slow: 5", "up: well", "all"]);
    assert!(why.contains("no notification \"gone\": the configuration has slow, up"), "{why}");
    let script = rehearsal.scripts.get(ScriptId(0)).unwrap();
    let paths = |name| script.notified(&ScriptNotice { name, text: String::new() }).len();
    assert_eq!([None, Some(0), Some(1), Some(2)].map(paths), [1, 1, 1, 0]);
}

#[test]
fn table_1_is_complete() {
    let text = include_str!("tests/table1.luau");
    let mut rehearsal = rehearse(spec(text), line(&["cloud", "edge"], Some(1000.0)));
    rehearsal.connect(0, false);
    for number in 1..=6 {
        rehearsal.offer(record(&format!("t/{number}"), "hello"));
        rehearsal.advance(ms(10));
    }
    assert_eq!(rehearsal.notices, ["all is well"]);
    is_well(&rehearsal);
}

#[test]
fn a_kept_handle_is_harmless() {
    let text = "
        local kept
        function on_message(h)
            if kept then
                assert(kept:drop() == 1, 'the length as it is')
                assert(kept:age() == nil and kept:size() == 0 and kept:bytes() == '')
                kept:moveToFront() kept:redirect('cloud') kept:insert('x') kept:setBody('y')
                kept:header():replace('a', 'b')
            end
            kept = h:message()
        end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    for number in 0..3 {
        rehearsal.offer(record("t", format!("{number}")));
        rehearsal.advance(ms(100));
    }
    assert_eq!((rehearsal.went.len(), rehearsal.seat.counts().dropped_all()), (3, 0));
    is_well(&rehearsal);
}

#[test]
fn a_record_has_one_handle_for_all_calls() {
    let text = "
        local seen = {}
        function on_message(h)
            local first = true
            for queue in h:Queues():getQueue() do
                for msg in queue:messages() do
                    if first and next(seen) then assert(seen[msg]) end
                    first = false
                    seen[msg] = true
                end
            end
        end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    rehearsal.connect(0, false);
    (0..5).for_each(|_| rehearsal.offer(record("t", "x")));
    is_well(&rehearsal);
}

#[test]
fn what_a_script_makes_it_does_not_meet_again() {
    let text = "function on_message(h) h:message():insert('more') end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    rehearsal.offer(record("t", "x"));
    rehearsal.advance(ms(100));
    assert_eq!((rehearsal.went.len(), rehearsal.scripts.all[0].counts().runs), (2, 1));
}

#[test]
fn a_call_that_fails_changes_nothing() {
    let text = "
        function on_message(h)
            h:message():drop() h:notify('gone')
            error('after all')
        end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    rehearsal.offer(record("t", "x"));
    rehearsal.advance(ms(100));
    assert_eq!((rehearsal.went.len(), rehearsal.notices.len()), (1, 0));
    assert_eq!(rehearsal.scripts.all[0].counts().wrong, 1);
}

#[test]
fn a_script_that_keeps_failing_is_switched_off() {
    let mut rehearsal = rehearse(spec("function on_message(h) error('no') end"), Line::default());
    (0..100).for_each(|_| rehearsal.offer(record("t", "x")));
    rehearsal.advance(ms(100));
    let counts = rehearsal.scripts.all[0].counts();
    assert_eq!((counts.runs, counts.wrong, counts.unadapted), (10, 10, 90));
    assert_eq!(rehearsal.went.len(), 100, "everything goes as it is");
    assert!(!rehearsal.scripts.board().read()[0].is_on);
}

#[test]
fn timers_run_without_arrivals() {
    // The paper's scripts run on arrivals only, so that a disconnection freezes them.
    let text = "
        function on_load(h)
            h:every(50, function(h)
                for queue in h:Queues():getQueue() do
                    if queue:state() == 'down' then
                        for msg in queue:messages() do msg:redirect('edge') end
                    end
                end
            end)
        end
        function on_message(h) end";
    let mut rehearsal = rehearse(spec(text), line(&["cloud", "edge"], None));
    rehearsal.connect(0, false);
    rehearsal.offer(record("t", "x"));
    rehearsal.advance(ms(200));
    assert_eq!(rehearsal.went[0].output, OutputId(1));
    is_well(&rehearsal);
}

#[test]
fn a_change_of_state_is_told() {
    let text = "
        function on_load(h)
            h:onChange('state', function(h, queue)
                h:notify(queue:route() .. ' ' .. queue:state() .. ' ' .. queue:length())
            end)
        end
        function on_message(h) end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    rehearsal.offer(record("t", "x"));
    rehearsal.advance(ms(100));
    rehearsal.connect(0, false);
    rehearsal.advance(ms(100));
    rehearsal.connect(0, true);
    rehearsal.advance(ms(100));
    assert_eq!(rehearsal.notices, ["cloud down 0", "cloud up 0"]);
}

#[test]
fn timers_belong_where_a_script_is_loaded() {
    let text = "function on_message(h) h:every(50, print) end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    rehearsal.offer(record("t", "x"));
    assert_eq!(rehearsal.scripts.all[0].counts().wrong, 1);
    let text = "function on_load(h) h:Queues():getQueue()() end function on_message(h) end";
    let error = Scripts::load(&[Arc::new(spec(text))]).unwrap_err().to_string();
    assert!(error.contains("nothing waits while a script is loaded"), "{error}");
}

#[test]
fn what_cannot_be_used_is_told() {
    let error = |text: &str| Scripts::load(&[Arc::new(spec(text))]).unwrap_err().to_string();
    assert!(error("function on_message(h)").starts_with("script \"test\": test:1: "));
    assert!(error("x = 1").contains("no function on_message(h)"));
    let mut rehearsal =
        rehearse(spec("function on_message(h) h:redirect('moon') end"), Line::default());
    rehearsal.offer(record("t", "x"));
    let failure = rehearsal.scripts.all[0].last_failure().unwrap().to_string();
    assert_eq!(failure, "no output \"moon\": there are cloud");
}

#[test]
fn a_new_script_is_tried_before_it_takes_over() {
    let mut rehearsal = rehearse(spec("function on_message(h) end"), Line::default());
    rehearsal.connect(0, false);
    rehearsal.offer(record("t", "x"));
    let moment = rehearsal.moment();
    let mut swap = |text: &str| {
        let new = Script::load(Arc::new(spec(text)), ScriptId(0)).unwrap();
        rehearsal.scripts.swap(vec![new], &mut rehearsal.seat, moment)
    };
    let error = swap("function on_message(h) h:message():drop() h:nonsense() end").unwrap_err();
    assert!(matches!(error, LoadError::DryRun(..)), "{error}");
    swap("function on_message(h) h:message():drop() end").unwrap();
    assert_eq!(dropped(&rehearsal), 0, "a trial decides nothing");
    rehearsal.offer(record("t", "y"));
    assert_eq!(dropped(&rehearsal), 1);
    assert_eq!(rehearsal.scripts.all[0].counts().runs, 2, "counts go on");
}

#[test]
fn a_script_that_is_the_same_keeps_its_memory() {
    let text = "function on_message(h)
        local state = h:state()
        state.seen = (state.seen or 0) + 1
        h:notify(state.seen)
    end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    rehearsal.offer(record("t", "x"));
    let moment = rehearsal.moment();
    let same = Script::load(Arc::new(spec(text)), ScriptId(0)).unwrap();
    rehearsal.scripts.swap(vec![same], &mut rehearsal.seat, moment).unwrap();
    rehearsal.offer(record("t", "x"));
    assert_eq!(rehearsal.notices, ["1", "2"]);
}

#[test]
fn what_a_script_makes_is_bounded_and_checked() {
    let text = "function on_message(h)
        local ok, error = pcall(function() h:header():replace('path', 'a/#') end)
        assert(not ok)
        h:header():set('n', 5) h:header():set('gone', 1) h:header():remove('gone')
        assert(h:header():get('n') == '5' and h:header():get('gone') == nil)
        h:message():insert({path = 'other', body = 'new', header = {a = 'b'}})
        h:message():insert(h:message())
        h:message():setBody(string.rep('x', 3))
        assert(h:message():size() == 3 and h:message():bytes(2, 3) == 'xx')
    end";
    let mut rehearsal = rehearse(spec(text), Line::default());
    rehearsal.offer(record("t", "hello"));
    rehearsal.advance(ms(100));
    is_well(&rehearsal);
    let mut went: Vec<(String, Bytes)> =
        keys(&rehearsal).into_iter().zip(rehearsal.went.iter().map(payload)).collect();
    went.sort_unstable();
    let all = [("other", "new"), ("t", "hello"), ("t", "xxx")];
    assert_eq!(went, all.map(|(key, body)| (key.to_owned(), Bytes::from(body))));
    assert!(rehearsal.seat.held_bytes() == Size::ZERO);
}

mod failing;
mod hostile;
mod stock;
mod turns;
