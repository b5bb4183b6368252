//! What fuzzing does to scripts: hostile texts, and calls of the interface in every order. None may end the
//! process, and whatever a script does every message has its fate.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::record::{Body, Offered, Properties, SourceId};
use tidegate_core::units::{Rate, Size, Time};

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
/// Functions of the handles.
pub(super) const METHODS: [&str; 34] = [
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
    spec.limits = Limits { time: Duration::from_millis(1), memory: 2 << 20 };
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
        body: Body::Resident(Bytes::from_static(&[b'x'; 200])),
        read_at: Time::ZERO,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}
