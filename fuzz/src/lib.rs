//! What is fuzzed: one function a parser of foreign bytes, which panics where a promise is broken.
//!
//! libFuzzer calls these on nightly Rust (`make fuzz`); `tidegate/tests/it/corpus.rs` replays every file
//! of `fuzz/corpus/` through the same functions on stable Rust. That test includes this file, so it
//! may use nothing but the product's crates, and crates of these.

mod peers;
pub mod seeds;

use tidegate_types::topic::Filter;

pub use self::peers::*;

/// A target and its name, which is also the name of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("topic_filter", topic_filter),
    ("config", config),
    ("amqp_client", amqp_client),
    ("mqtt_client", mqtt_client),
    ("http_client", http_client),
    ("mqtt_session", mqtt_session),
    ("mqtt_source", mqtt_source),
    ("mqtt_websocket", mqtt_websocket),
    ("proxy_header", proxy_header),
    ("node_ops", node_ops),
    ("log_scan", log_scan),
    ("session_notes", session_notes),
    ("sink_lines", sink_lines),
    ("link_packets", link_packets),
    ("replay_rows", replay_rows),
    ("script_text", script_text),
    ("script_calls", script_calls),
    ("frames", frames),
    ("operator_memory", operator_memory),
    ("group_frames", group_frames),
    ("mirror_messages", mirror_messages),
    ("fleet_messages", fleet_messages),
    ("etcd_replies", etcd_replies),
    ("frames_messages", frames_messages),
    ("ext_proc", ext_proc),
    ("certificates", certificates),
    ("users_file", users_file),
    ("logins", logins),
    ("group_state", group_state),
    ("reload", reload),
];

/// A filter and a topic, one a line: a filter that is accepted says so again, and matches exactly what
/// the standard's wording, read literally, matches.
pub fn topic_filter(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (text, topic) = text.split_once('\n').unwrap_or((text, "a/b"));
    let Ok(filter) = Filter::new(text) else { return };
    assert_eq!(filter.as_str(), text);
    let levels: Vec<&str> = text.split('/').collect();
    let parts: Vec<&str> = topic.split('/').collect();
    let is_hidden = topic.starts_with('$') && ["+", "#"].contains(&levels[0]);
    assert_eq!(filter.matches(topic), !is_hidden && covers(&levels, &parts), "{text} {topic}");
}

/// MQTT 5.0, 4.7.1: `+` is one level, `#` is what is left, its parent included.
fn covers(levels: &[&str], parts: &[&str]) -> bool {
    match (levels, parts) {
        (["#"], _) => true,
        ([level, levels @ ..], [part, parts @ ..]) => {
            (*level == "+" || level == part) && covers(levels, parts)
        }
        (levels, parts) => levels.is_empty() && parts.is_empty(),
    }
}

/// What another node says that its operators remembered, of one key or of several: what is taken is a memory, which
/// says the same again.
pub fn operator_memory(data: &[u8]) {
    use std::sync::Arc;
    use tidegate_stream::memory::bundle::{BUNDLE_MAX, pack, unpack};
    use tidegate_stream::{
        Aggregate, BlockAverage, Chain, Deduplicate, Interpolate, Kalman, Window, WindowLength,
    };
    use tidegate_types::units::Time;
    let chain = Chain::new(vec![
        Arc::new(Interpolate::new("x".into(), 3, None)),
        Arc::new(Kalman::new("x".into(), "y".into(), 0.25, 0.5, Some("id".into()))),
        Arc::new(BlockAverage::new("x".into(), "z".into(), 2, None)),
        Arc::new(Deduplicate::new("y".into(), 2, 0.5)),
        Arc::new(Window::new(
            "x".into(),
            "x".into(),
            Aggregate::Distinct,
            WindowLength::Rows(9),
            None,
        )),
    ]);
    let saved = |memory: &[u8]| {
        let work = chain.load(Time::ZERO, memory).ok()?;
        work.save(Time::ZERO, BUNDLE_MAX).expect("it is not larger than it was")
    };
    let one = |memory: &[u8]| {
        if let Some(memory) = saved(memory) {
            assert_eq!(saved(&memory), Some(memory));
        }
    };
    one(data);
    if let Ok(all) = unpack(&data.to_vec().into()) {
        assert_eq!(pack(&all), data);
        all.iter().for_each(|kept| one(&kept.memory));
    }
}

/// A frame as somebody sends it: as a JPEG, as a piece of one, as a file of stored ones. What is found of a file
/// is inside of it.
pub fn frames(data: &[u8]) {
    use tidegate_frames::piece::{FrameAssembly, FramePiece};
    use tidegate_frames::{archive, jpeg};
    use tidegate_types::units::Time;
    if let Ok(head) = jpeg::JpegHeader::read(data) {
        assert!(head.pixels() <= jpeg::PIXELS_MAX);
        let rung = tidegate_frames::Rung {
            eighths: 4,
            quality: 50,
            is_gray: false,
            knobs: tidegate_frames::knobs::Knobs::default(),
            bytes: 1.0,
            accuracy: 0.5,
            accuracy_low: 0.5,
            cost: std::time::Duration::ZERO,
        };
        let _ = tidegate::services::cameras::shrink(data, &head, &rung);
    }
    if let Ok(piece) = FramePiece::decode(data.to_vec().into()) {
        assert_eq!(piece.encode(), data);
        let _ = FrameAssembly::default().push(Time::ZERO, piece);
    }
    let (found, right) = archive::scan(data);
    assert!(right <= data.len());
    assert!(found.iter().all(|one| one.offset as usize + one.length as usize <= right));
}

/// A configuration file: every text is read, and every finding can be shown with its place.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let reading = tidegate::config::read(text);
    let (errors, warnings) = reading.counts();
    let shown = reading.render("node.toml", text);
    assert_eq!(shown.is_empty(), errors + warnings == 0);
    if errors == 0 {
        let options = tidegate::assembly::node_options(&reading.config, 1, 1);
        options.expect("a file without an error makes a node");
    }
}

/// What a broker says to the AMQP output.
pub fn amqp_client(data: &[u8]) {
    tidegate::output::amqp::fuzz(data);
}

/// What a broker says to the MQTT output.
pub fn mqtt_client(data: &[u8]) {
    tidegate::output::mqtt::fuzz(data);
}

/// What a server answers to the HTTP output.
pub fn http_client(data: &[u8]) {
    tidegate::output::http::fuzz(data);
}

/// Notes of the journal of sessions, each behind its length (two bytes, little-endian): what is taken says the same again,
/// and what the notes add up to can be written, read and given up in parts.
pub fn session_notes(mut data: &[u8]) {
    use tidegate_broker::journal::Note;
    use tidegate_broker::{LedgerBounds, NotePlace, SessionLedger};
    use tidegate_types::ids::SessionId;
    let mut ledger = SessionLedger::new(LedgerBounds { session: 300, all: 1000, young: 100 });
    let mut written = SessionLedger::default();
    while let Some((&[low, high], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (bytes, rest) = rest.split_at(length);
        let place = NotePlace { segment: u32::from(low % 4), offset: 0, length: length as u32 };
        data = rest;
        let Ok(note) = Note::read(bytes) else { continue };
        assert_eq!(Note::read(&note.to_bytes()).as_ref(), Ok(&note));
        written.apply(&note);
        ledger.apply_session(&note);
        ledger.apply_message(&note, Some(place));
    }
    ledger.loaded();
    for segment in 0..4 {
        let (again, lost) = ledger.abandon(segment);
        again.iter().chain(&lost).for_each(|note| _ = ledger.apply(note));
    }
    for mut ledger in [ledger, written] {
        let mut copy = SessionLedger::default();
        ledger.snapshot().iter().for_each(|note| copy.apply_session(note));
        assert_eq!(copy.snapshot(), ledger.snapshot());
        let all: Vec<SessionId> = ledger.sessions().map(|kept| kept.note.session).collect();
        for session in all {
            let flights = ledger.pull_flights(session);
            let pulled = ledger.pull(session, 200);
            assert!(flights.iter().chain(&pulled).all(|one| ledger.find(one.number).is_some()));
            let numbers: Vec<u64> = pulled.iter().map(|one| one.number).collect();
            ledger.give_back(session, &numbers);
            ledger.apply(&Note::Over(session));
        }
        assert_eq!(ledger.sessions().count(), 0);
    }
}

/// A file of the sink, and the mark beside it.
pub fn sink_lines(data: &[u8]) {
    tidegate::output::sink::exercise(data);
}

/// What an MQTT client says to the node's listener.
pub fn mqtt_session(data: &[u8]) {
    tidegate_mqtt::session::exercise(data);
}

/// What a broker says to the node's client.
pub fn mqtt_source(data: &[u8]) {
    tidegate_mqtt::client_session::exercise(data);
}

/// What a browser says to a listener for WebSocket: its request, then frames.
pub fn mqtt_websocket(data: &[u8]) {
    tidegate::input::mqtt::websocket::exercise(data);
}

/// What a load balancer says before a connection's own bytes.
pub fn proxy_header(data: &[u8]) {
    tidegate::support::proxy_header::exercise(data);
}

/// Four bytes an operation on a whole node, and what must hold after each.
pub fn node_ops(data: &[u8]) {
    tidegate_testing::run(data);
}

/// A segment of the log.
pub fn log_scan(data: &[u8]) {
    tidegate_testing::scan_log(data);
}

/// What a peer says to a link.
pub fn link_packets(data: &[u8]) {
    tidegate_testing::hear(data);
}

/// A file of any format that a replay reads.
pub fn replay_rows(data: &[u8]) {
    tidegate::input::replay::exercise(data);
}

/// A script's text.
pub fn script_text(data: &[u8]) {
    tidegate::script::fuzz::exercise_text(data);
}

/// Four bytes a call of the scripts' interface.
pub fn script_calls(data: &[u8]) {
    tidegate::script::fuzz::exercise_calls(data);
}
