//! Scripts that take longer than a turn, and runs that serve what came meanwhile.

use tidegate_node::io::Otherwise;

use super::vm::{Clock, LOOK};
use super::*;

/// A script whose turns are so many looks long: the same on every machine.
fn short(text: &str, looks: u32) -> ScriptSpec {
    let mut spec = spec(text);
    spec.limits.clock = Clock::Looks;
    spec.limits.time = LOOK * looks;
    spec
}

/// A cloud that is down, with so many records before it.
fn waiting(spec: ScriptSpec, count: usize) -> Rehearsal {
    let mut rehearsal = rehearse(spec, line(&["cloud", "edge"], None));
    rehearsal.connect(0, false);
    (0..count).for_each(|number| rehearsal.offer(record(&format!("t/{number}"), "{\"n\": 1}")));
    rehearsal
}

fn counts(rehearsal: &Rehearsal) -> board::ScriptCounts {
    rehearsal.scripts.all[0].counts().clone()
}

fn dropped_keys(rehearsal: &Rehearsal) -> Vec<String> {
    let drops = rehearsal.verdicts.iter().map(|(_, edit, (key, ..))| (edit, key));
    let drops = drops.filter(|(edit, _)| matches!(edit, tidegate_node::io::Edit::Drop(_)));
    drops.map(|(_, key)| String::from_utf8_lossy(key).into_owned()).collect()
}

/// Goes through all that waits, and drops what is even.
const SCAN: &str = "function on_message(h)
    local state = h:state()
    for queue in h:Queues():getQueue() do
        for msg in queue:messages() do
            local number = tonumber(string.match(msg:header():get('path'), '%d+'))
            state.seen = (state.seen or 0) + 1
            if number % 2 == 0 then msg:drop() end
        end
    end
    h:notify(state.seen)
    state.seen = 0
end";

#[test]
fn a_run_goes_on_behind_what_it_has_dropped() {
    let mut rehearsal = waiting(short(SCAN, 200), 1000);
    rehearsal.advance(ms(1000));
    let counts = counts(&rehearsal);
    assert!(counts.suspended >= 20, "{counts:?}");
    assert_eq!((counts.too_long, counts.wrong, counts.unadapted), (0, 0, 0));
    let dropped = dropped_keys(&rehearsal);
    assert_eq!(dropped.len(), 500, "each of them once");
    // The last run saw what the others had left, once each.
    assert_eq!(rehearsal.notices.last().map(String::as_str), Some("500"));
    assert_eq!(rehearsal.seat.audit(), 0);
}

#[test]
fn what_was_dropped_before_a_turn_ended_can_be_read_after_it() {
    // As Fig. 9 does, wherever a turn ends between the two.
    let text = "function on_message(h)
        for queue in h:Queues():getQueue() do
            for msg in queue:messages() do
                msg:drop()
                for _ = 1, 7 do end
                assert(msg:json():getNum('n') == 1)
            end
        end
    end";
    let mut rehearsal = waiting(short(text, 97), 0);
    // All are there when the first call begins: it goes through them in many turns.
    let records = (0..300).map(|number| record(&format!("t/{number}"), "{\"n\": 1}"));
    rehearsal.handle(Input::Arrived(records.collect()));
    rehearsal.advance(ms(1000));
    is_well(&rehearsal);
    assert!(counts(&rehearsal).suspended > 10 && dropped(&rehearsal) == 300);
}

#[test]
fn one_run_serves_what_came_since_the_last() {
    let mut rehearsal = waiting(short(SCAN, 2000), 1000);
    rehearsal.advance(ms(1000));
    assert!(counts(&rehearsal).runs < 50, "{:?}", counts(&rehearsal));
    // Where it takes little, each record has its run.
    let mut rehearsal = waiting(short(SCAN, 2000), 5);
    rehearsal.advance(ms(1000));
    assert_eq!(counts(&rehearsal).runs, 5);
}

#[test]
fn a_script_that_asks_for_the_record_is_called_for_each() {
    for text in [
        "function on_message(h) h:notify(h:message():header():get('path')) end",
        "function look(of) of:notify(of:header():get('path')) end
         function on_message(h) for queue in h:Queues():getQueue() do queue:length() end look(h) end",
    ] {
        // Each call takes more than its part, so that the others wait.
        let mut rehearsal = waiting(short(text, 100_000), 300);
        rehearsal.advance(ms(1000));
        let wanted: Vec<String> = (0..300).map(|number| format!("t/{number}")).collect();
        assert_eq!((counts(&rehearsal).runs, &rehearsal.notices), (300, &wanted));
    }
}

#[test]
fn a_run_is_shown_what_came() {
    let text = "function on_message(h)
        for _ = 1, 20000 do end
        for msg in h:arrivals() do
            if msg:getNum('n') == 1 then h:notify(msg:header():get('path')) end
            msg:drop()
        end
    end";
    let mut rehearsal = waiting(short(text, 100_000), 8);
    rehearsal.advance(ms(1000));
    let counts = counts(&rehearsal);
    assert!((1..8).contains(&counts.runs), "{counts:?}");
    let wanted: Vec<String> = (0..8).map(|number| format!("t/{number}")).collect();
    assert_eq!((rehearsal.notices.clone(), dropped_keys(&rehearsal)), (wanted.clone(), wanted));
}

#[test]
fn an_endless_script_is_never_switched_off_and_holds_nothing_up() {
    let mut rehearsal =
        rehearse(short("function on_message(h) while true do end end", 100), Line::default());
    (0..50).for_each(|_| rehearsal.offer(record("t", "x")));
    rehearsal.advance(ms(1));
    assert_eq!(rehearsal.went.len(), 50, "what it could not help goes as it is");
    (0..50).for_each(|_| {
        rehearsal.offer(record("t", "x"));
        rehearsal.advance(ms(10));
    });
    let counts = counts(&rehearsal);
    assert_eq!((rehearsal.went.len(), counts.unadapted), (100, 0));
    assert!(counts.too_long > 10 && rehearsal.scripts.board().read()[0].is_on, "{counts:?}");
}

#[test]
fn a_turn_that_cannot_be_suspended_is_undone_and_the_next_one_works() {
    let text = "local calls = 0
    function on_message(h)
        calls += 1
        h:message():drop()
        if calls == 1 then
            string.gsub('a', 'a', function() while true do end end)
        end
    end";
    let mut rehearsal = rehearse(short(text, 100), Line::default());
    rehearsal.offer(record("t/1", "x"));
    rehearsal.offer(record("t/2", "x"));
    rehearsal.advance(ms(100));
    assert_eq!(keys(&rehearsal), ["t/1"], "its drop counts for nothing");
    assert_eq!((counts(&rehearsal).too_long, dropped(&rehearsal)), (1, 1));
}

#[test]
fn what_hides_something_is_whole_or_not_at_all() {
    let text = "function on_message(h)
        h:header():set('card', 'hidden')
        for _ = 1, LOOKS do end
        h:message():setBody('hidden')
    end";
    let hiding = |looks: &str| ScriptSpec {
        on_failure: Some(Otherwise::Drop),
        ..short(&text.replace("LOOKS", looks), 1000)
    };
    let mut rehearsal = rehearse(hiding("3500"), Line::default());
    rehearsal.offer(record("t", "4111"));
    rehearsal.offer(record("t", "4111"));
    assert_eq!(rehearsal.went.len(), 0, "not before its run has ended");
    rehearsal.advance(ms(100));
    assert_eq!(rehearsal.went.iter().map(payload).collect::<Vec<Bytes>>(), ["hidden", "hidden"]);
    assert_eq!(counts(&rehearsal).suspended, 6);
    // One that comes to no end does not let it go.
    let mut rehearsal = rehearse(hiding("1e9"), Line::default());
    rehearsal.offer(record("t", "4111"));
    rehearsal.advance(ms(100));
    assert_eq!((rehearsal.went.len(), dropped(&rehearsal), counts(&rehearsal).too_long), (0, 1, 1));
}

#[test]
fn another_script_sees_what_the_old_one_had_begun() {
    let hold = |text: &str| ScriptSpec { on_failure: Some(Otherwise::Drop), ..short(text, 1000) };
    let mut rehearsal =
        rehearse(hold("function on_message(h) h:message() while true do end end"), Line::default());
    (0..3).for_each(|_| rehearsal.offer(record("t", "x")));
    let moment = rehearsal.moment();
    let new = hold("function on_message(h) h:message():setBody('seen') end");
    let new = Script::load(Arc::new(new), ScriptId(0)).unwrap();
    rehearsal.scripts.swap(vec![new], &mut rehearsal.seat, moment).unwrap();
    (0..2).for_each(|_| rehearsal.advance(ms(100)));
    assert_eq!(rehearsal.went.iter().map(payload).collect::<Vec<Bytes>>(), ["seen"; 3]);
}

#[test]
fn timers_and_records_wait_for_a_run_that_is_suspended() {
    let text = "local calls = {}
    function on_load(h) h:every(10, function(h) table.insert(calls, 'timer') end) end
    function on_message(h)
        h:message()
        table.insert(calls, 'begun')
        for _ = 1, 9000 do end
        table.insert(calls, 'ended')
        h:notify(table.concat(calls, ' '))
    end";
    let mut rehearsal = rehearse(short(text, 1000), Line::default());
    rehearsal.advance(ms(5));
    rehearsal.offer(record("t", "x"));
    rehearsal.advance(ms(50));
    assert!(!rehearsal.notices.is_empty());
    for said in &rehearsal.notices {
        assert!(said.contains("begun ended"), "{said}");
    }
}
