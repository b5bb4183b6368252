//! What fuzzing does to scripts: hostile texts, and calls of the interface in every order. None may end the
//! process, and whatever a script does every message has its fate.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::record::{Offered, Properties, SourceId};
use tidegate_types::units::{Rate, Size, Time};

use super::ScriptSpec;
use super::rehearsal::{Line, Rehearsal};
use super::vm::Limits;

/// Calls of one script that are made of bytes.
const CALLS_MAX: usize = 32;
/// Messages of one life.
const MESSAGES: u32 = 8;

/// Expressions: what the interface gives, and what is none of it.
pub(super) const VALUES: [&str; 24] = [
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
/// What means harm, and its name: bodies of functions of a message's handle `h`. Where no more than one call in twelve
/// does it, no script is switched off.
pub const HARM: [(&str, &str); 10] = [
    ("endless loop", "while true do end"),
    ("pcall trap", "while true do pcall(function() while true do end end) end"),
    ("deep recursion", "local function f() return f() + 1 end f()"),
    ("memory bomb of tables", "local t = {} while true do t[#t + 1] = {t} end"),
    ("memory bomb of texts", "local s = 'x' while true do s = s .. s end"),
    ("gigantic texts", "while true do local s = string.rep('x', 1000000) end"),
    ("gigantic payload", "h:message():setBody(string.rep('x', 1000000)) while true do end"),
    ("costly pattern", "string.rep('a', 100000):find('(.*)(.*)(.*)(.*)b')"),
    ("sorting", "local t = {} for i = 1, 4000 do t[i] = -i end while true do table.sort(t) end"),
    (
        "inserting",
        "for q in h:Queues():getQueue() do for m in q:messages() do while true do m:insert(m) end end end",
    ),
];
/// Functions of the handles.
pub(super) const METHODS: [&str; 44] = [
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
    "setRate",
    "rate",
    "priority",
    "direction",
    "Queues",
    "arrivals",
    "epoch",
    "getQueue",
    "getString",
    "id",
    "isDown",
    "message",
    "paths",
    "stream",
];

/// The text of a script around some statements: a message that was kept, the one that came, the last queue.
pub(super) fn around(statements: &str) -> String {
    format!(
        "local kept\nfunction on_message(h)\nlocal m = kept or h:message() kept = h:message()\n\
         local q for each in h:Queues():getQueue() do q = each end\n{statements}\nend"
    )
}

/// A text that may be anything.
///
/// # Panics
/// A promise is broken.
pub fn exercise_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    live(text);
}

/// Four bytes a call: on what, of which function (the first bit: under `pcall`), with which two arguments.
///
/// # Panics
/// A promise is broken.
pub fn exercise_calls(data: &[u8]) {
    let value = |byte: u8| VALUES[usize::from(byte) % VALUES.len()];
    let call = |four: &[u8]| {
        let method = METHODS[usize::from(four[1] >> 1) % METHODS.len()];
        let (on, a, b) = (value(four[0]), value(four[2]), value(four[3]));
        let text = format!("local _ = ({on}):{method}({a}, {b})");
        if four[1] & 1 == 1 { format!("pcall(function() {text} end)\n") } else { text + "\n" }
    };
    let statements: String = data.chunks_exact(4).take(CALLS_MAX).map(call).collect();
    live(&around(&statements));
}

/// A node's life with a script; a text that cannot be loaded has none.
fn live(text: &str) {
    let mut spec = ScriptSpec::new("fuzz", text);
    spec.limits = Limits { memory: 2 << 20, ..Limits::default() };
    let outputs = ["cloud", "edge"].map(str::to_owned).to_vec();
    let line = Line { outputs, rate: Some(Rate::new(20_000.0)), ..Line::default() };
    let Ok(mut rehearsal) = Rehearsal::new(&[Arc::new(spec)], line) else { return };
    for number in 0..MESSAGES {
        rehearsal.offer(message());
        rehearsal.connect(0, number % 3 != 0);
        rehearsal.advance(Duration::from_millis(5));
    }
    rehearsal.connect(0, true);
    // A rate that a script set would hold what is left for ever: that is its right, and no loss.
    rehearsal.free_queues();
    rehearsal.advance(Duration::from_secs(60));
    let status = rehearsal.seat.status(rehearsal.now);
    assert_eq!(status.held, 0, "everything has its fate: {:?}", status.counts);
    assert_eq!(status.counts.lost(0), 0);
    assert_eq!(rehearsal.seat.held_bytes(), Size::ZERO);
}

fn message() -> Offered {
    Offered {
        source: SourceId(0),
        token: None,
        key: Bytes::from_static(b"t"),
        properties: Properties::default(),
        payload: Bytes::from_static(&[b'x'; 200]),
        read_at: Time::ZERO,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}
