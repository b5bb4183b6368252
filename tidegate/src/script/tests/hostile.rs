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
        spec.limits = vm::Limits { memory: 2 << 20, ..vm::Limits::default() };
        let mut rehearsal = rehearse(spec, line(&["cloud", "edge"], Some(20_000.0)));
        for number in 0..8 {
            rehearsal.offer(record("t", vec![b'x'; 200]));
            rehearsal.connect(0, number % 3 != 0);
            rehearsal.advance(ms(5));
        }
        rehearsal.connect(0, true);
        rehearsal.free_queues();
        // What a script inserts until it is suspended depends on the machine.
        rehearsal.advance(Duration::from_secs(3600));
        prop_assert_eq!(rehearsal.seat.audit(), 0);
        let status = rehearsal.seat.status(rehearsal.now);
        prop_assert_eq!(status.held, 0, "everything has its fate");
        prop_assert_eq!(rehearsal.seat.held_bytes(), Size::ZERO);
        let counts = rehearsal.scripts.all[0].counts();
        prop_assert!(!rehearsal.scripts.is_busy(), "no call waits: {:?}", counts);
        // Every record had a call; what came while one was suspended may have left before its own.
        let least = if counts.suspended == 0 { 8 } else { 1 };
        prop_assert!(counts.runs >= least, "{:?} {:?}", counts, status.counts);
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

/// The loop hears others after a turn of scripts: 2 ms, and the call that has begun. A turn that is over
/// ends at its next look at the time, so what counts is how long it runs on between two looks, which
/// is the same in every turn; the median leaves out the turns that the machine held up. The longest turns
/// beside traffic are what `lab bench adapt-hostile` tells.
#[test]
fn hostile_scripts_give_the_loop_back() {
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
        let mut moment = rehearsal.moment();
        let mut ended = Vec::new();
        for _ in 0..600 {
            let mut is_first = true;
            while is_first || rehearsal.scripts.is_busy() {
                moment.now += ms(1000);
                let (before, begun) = (stopped(&rehearsal), vm::thread_time());
                let (scripts, seat) = (&mut rehearsal.scripts, &mut rehearsal.seat);
                match is_first {
                    true => _ = scripts.run(seat, moment, queue, last),
                    false => _ = scripts.fire(seat, moment),
                }
                if stopped(&rehearsal) > before {
                    ended.push(Duration::from_nanos(vm::thread_time() - begun));
                }
                is_first = false;
            }
        }
        let script = &rehearsal.scripts.all[0];
        let counts = script.counts();
        let failed = counts.too_long + counts.too_large + counts.wrong;
        assert!(failed > 40 && !script.budget.is_spent(), "{name}: {counts:?}");
        ended.sort_unstable();
        let median = ended[ended.len() / 2];
        println!("{name}: {} turns ended, after {median:?} in the middle", ended.len());
        assert!(median < ms(5), "{name}: {median:?}");
    }
}

/// Turns of the script that took all their time, and calls that failed.
fn stopped(rehearsal: &Rehearsal) -> u64 {
    let counts = rehearsal.scripts.all[0].counts();
    counts.suspended + counts.too_long + counts.too_large + counts.wrong
}
