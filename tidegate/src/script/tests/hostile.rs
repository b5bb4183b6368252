//! Scripts of random parts, most of them wrong or hostile: none ends the process, none upsets the books.

use proptest::prelude::*;

use super::super::fuzz::{HARM, METHODS, VALUES, around, exercise_calls};
use super::*;

fn value() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&VALUES[..])
}

fn statement() -> impl Strategy<Value = String> {
    let call = (value(), proptest::sample::select(&METHODS[..]), value(), value())
        .prop_map(|(on, method, a, b)| format!("local _ = ({on}):{method}({a}, {b})"));
    let plain = proptest::sample::select(vec![
        "while true do end",
        "while true do pcall(error) end",
        "local function f() return f() + 1 end f()",
        "local t = {} while true do t[#t + 1] = {t} end",
        "local s = 'x' while true do s = s .. s end",
        "for queue in h:Queues():getQueue() do for msg in queue:messages() do msg:drop() end end",
        "for queue in h:Queues():getQueue() do for msg in queue:messages() do msg:insert(msg) end end",
        "for msg in q:messages() do msg:redirect('edge') msg:moveToFront() end",
        "h:Queues():getQueue()(nil, m)",
        "q:messages()(m, q)",
        "table.move({}, 1, 2^31, 1)",
        "string.find(string.rep('a', 5000), string.rep('a?', 250))",
        "error(h)",
        "error(setmetatable({}, {__tostring = function() while true do end end}))",
        "h.x = 1",
        "getmetatable(h).__index = nil",
        "_G.pcall = nil",
    ]);
    let wrapped = (any::<bool>(), prop_oneof![3 => call, 1 => plain.prop_map(str::to_owned)]);
    wrapped.prop_map(
        |(is_caught, text)| {
            if is_caught { format!("pcall(function() {text} end)") } else { text }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_script_upsets_a_node(statements in proptest::collection::vec(statement(), 1..6)) {
        let text = around(&statements.join("\n"));
        let mut spec = ScriptSpec::new("hostile", &text);
        spec.limits = vm::Limits { time: ms(1), memory: 2 << 20 };
        let mut rehearsal = rehearse(spec, line(&["cloud", "edge"], Some(20_000.0)));
        for number in 0..8 {
            rehearsal.offer(record("t", vec![b'x'; 200]));
            rehearsal.connect(0, number % 3 != 0);
            rehearsal.advance(ms(5));
        }
        rehearsal.connect(0, true);
        rehearsal.free_queues();
        rehearsal.advance(Duration::from_secs(60));
        prop_assert_eq!(rehearsal.seat.audit(), 0);
        let status = rehearsal.seat.status(rehearsal.now);
        prop_assert_eq!(status.held, 0, "everything has its fate");
        prop_assert_eq!(rehearsal.seat.held_bytes(), Size::ZERO);
        prop_assert!(rehearsal.scripts.all[0].counts().runs >= 8, "{:?}", status.counts);
    }

    #[test]
    fn no_calls_upset_a_node(data in proptest::collection::vec(any::<u8>(), 4..64)) {
        exercise_calls(&data);
    }

    #[test]
    fn no_text_upsets_the_loader(text in "[a-z(){}=.,:;'\"\\[\\]\n ]{0,200}") {
        let _ = Scripts::load(&[Arc::new(ScriptSpec::new("noise", &text))]);
    }
}

/// Of the bound of 5 ms, in time on a processor; a neighbour on the same core may stretch even that.
const TOLERANCE: u32 = 10;

/// The loop hears others after a turn of scripts: 2 ms, and the call that has begun. What is told is the
/// longest turn's time on a processor, so that other work of the machine does not count.
#[test]
fn hostile_scripts_give_the_loop_back() {
    let mut worst = Duration::ZERO;
    for (name, text) in HARM {
        let text = format!(
            "local n = 0\nfunction on_message(h) n += 1 if n % 12 == 0 then {text} end end"
        );
        let spec = ScriptSpec::new("hostile", &text);
        let mut rehearsal = rehearse(spec, line(&["cloud"], None));
        rehearsal.is_watching_only = true;
        rehearsal.connect(0, false);
        (0..100).for_each(|_| rehearsal.offer(record("t", vec![b'x'; 200])));
        let queue = rehearsal.seat.queues().next().unwrap();
        let last = rehearsal.seat.waiting(queue).last().unwrap();
        let moment = rehearsal.moment();
        let (mut turn, mut longest, mut calls) = (0, 0, 0);
        for _ in 0..600 {
            let begun = vm::thread_time();
            let trigger = Trigger::Arrival(last);
            let _ = rehearsal.scripts.run(&mut rehearsal.seat, moment, queue, trigger);
            turn += vm::thread_time() - begun;
            calls += 1;
            longest = longest.max(turn);
            if turn >= 2_000_000 {
                turn = 0;
            }
        }
        let script = &rehearsal.scripts.all[0];
        let failed = script.counts().too_long + script.counts().too_large + script.counts().wrong;
        let longest = Duration::from_nanos(longest);
        println!(
            "{name}: {calls} calls, {failed} failed, longest turn {:.2} ms",
            longest.as_secs_f64() * 1e3
        );
        assert!(failed > 40 && !script.budget.is_spent(), "{name}: {:?}", script.counts());
        worst = worst.max(longest);
    }
    println!("hostile scripts: others wait for {:.2} ms at most", worst.as_secs_f64() * 1e3);
    assert!(worst < ms(5) * TOLERANCE, "{worst:?}");
}
