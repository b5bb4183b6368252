//! Scripts of random parts, most of them wrong or hostile: none ends the process, none upsets the books.

use proptest::prelude::*;

use super::*;

/// Expressions: what the interface gives, and what is none of it.
const VALUES: [&str; 24] = [
    "nil",
    "true",
    "-1",
    "0/0",
    "1/0",
    "2^53",
    "''",
    "'path'",
    "'edge'",
    "'a/#'",
    "{}",
    "h",
    "m",
    "q",
    "h:header()",
    "h:state()",
    "m:json()",
    "string.rep('x', 100000)",
    "function() return m end",
    "setmetatable({}, {__index = function(t, k) return t[k] end})",
    "{path = 'x', body = m}",
    "buffer.create(100)",
    "h:Queues()",
    "tostring",
];
/// Functions of the handles.
const METHODS: [&str; 30] = [
    "drop",
    "insert",
    "redirect",
    "transform",
    "moveToFront",
    "moveToBack",
    "setBody",
    "bytes",
    "size",
    "age",
    "deadline",
    "class",
    "dst",
    "header",
    "json",
    "TCPMetrics",
    "messages",
    "length",
    "route",
    "state",
    "getBW",
    "avgLatency",
    "notify",
    "log",
    "every",
    "onChange",
    "get",
    "replace",
    "remove",
    "getNum",
];

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
        let text = format!(
            "local kept\nfunction on_message(h)\nlocal m = kept or h:message() kept = h:message()\n\
             local q for each in h:Queues():getQueue() do q = each end\n{}\nend",
            statements.join("\n")
        );
        let mut spec = ScriptSpec::new("hostile", &text);
        spec.limits = vm::Limits { time: ms(1), memory: 2 << 20 };
        let mut rehearsal = rehearse(spec, line(&["cloud", "edge"], Some(20_000.0)));
        for number in 0..8 {
            rehearsal.offer(record("t", vec![b'x'; 200]));
            rehearsal.connect(0, number % 3 != 0);
            rehearsal.advance(ms(5));
        }
        rehearsal.connect(0, true);
        rehearsal.advance(Duration::from_secs(60));
        prop_assert_eq!(rehearsal.seat.audit(), 0);
        let status = rehearsal.seat.status(rehearsal.now);
        prop_assert_eq!(status.held, 0, "everything has its fate");
        prop_assert_eq!(rehearsal.seat.held_bytes(), Size::ZERO);
        prop_assert!(rehearsal.scripts.all[0].counts().runs >= 8, "{:?}", status.counts);
    }

    #[test]
    fn no_text_upsets_the_loader(text in "[a-z(){}=.,:;'\"\\[\\]\n ]{0,200}") {
        let _ = Scripts::load(&[Arc::new(ScriptSpec::new("noise", &text))]);
    }
}
