//! The seeds of every corpus, made by our own hands: small, legal and nearly legal inputs.

mod amqp;
mod link;
mod log;
mod mqtt;
mod peers;

/// A seed: its target, its file's name, its bytes.
pub type Seed = (&'static str, &'static str, Vec<u8>);

/// Every seed.
pub fn seeds() -> Vec<Seed> {
    let mut all = Vec::new();
    let mut add = |target, seeds: &[(&'static str, &str)]| {
        all.extend(seeds.iter().map(|(name, text)| (target, *name, text.as_bytes().to_vec())));
    };
    add("topic_filter", TOPIC_FILTERS);
    add("config", CONFIGS);
    add("replay_rows", ROWS);
    add("script_text", SCRIPTS);
    all.push(("topic_filter", "not-utf8", vec![b'a', 0xff, b'/', b'#']));
    all.push(("config", "not-utf8", b"[node]\nname = \"\xff\"\n".to_vec()));
    all.push(("topic_filter", "deep", "a/".repeat(200).into_bytes()));
    all.extend(amqp::seeds().map(|(name, bytes)| ("amqp_client", name, bytes)));
    all.extend(mqtt::seeds().map(|(name, bytes)| ("mqtt_client", name, bytes)));
    all.extend(mqtt::session_seeds().map(|(name, bytes)| ("mqtt_session", name, bytes)));
    all.extend(mqtt::source_seeds().map(|(name, bytes)| ("mqtt_source", name, bytes)));
    all.extend(mqtt::websocket_seeds().map(|(name, bytes)| ("mqtt_websocket", name, bytes)));
    all.extend(proxy_headers());
    all.extend(node_ops());
    all.extend(script_calls());
    all.extend(log::seeds());
    all.extend(link::seeds());
    all.extend(sink_lines());
    all.extend(http_answers());
    all.extend(peers::seeds());
    all
}

/// What load balancers say before a connection.
fn proxy_headers() -> impl Iterator<Item = Seed> {
    let header = |command: u8, family: u8, rest: &[u8]| {
        let length = (rest.len() as u16).to_be_bytes();
        [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, rest, b"\x10\x0e"].concat()
    };
    let v4 = [192, 0, 2, 7, 10, 0, 0, 1, 0xC3, 0x50, 7, 0x5B];
    let v6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 28], &v4[8..]].concat();
    [
        ("proxy_header", "v4", header(0x21, 0x11, &v4)),
        ("proxy_header", "v6", header(0x21, 0x21, &v6)),
        ("proxy_header", "extension", header(0x21, 0x11, &[&v4[..], &[4, 0, 1, 9]].concat())),
        ("proxy_header", "local", header(0x20, 0, &[])),
        ("proxy_header", "unix", header(0x21, 0x31, &[0; 216])),
        ("proxy_header", "too-short", header(0x21, 0x21, &v4)),
        ("proxy_header", "version-1", b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 1883\r\n".to_vec()),
        ("proxy_header", "none", b"\x10\x0e\0\x04MQTT".to_vec()),
    ]
    .into_iter()
}

/// Files of a sink: whole lines, a line of before there were numbers, a torn end; and a mark.
fn sink_lines() -> impl Iterator<Item = Seed> {
    let whole = |text: String| {
        let crc = tidegate_types::crc::crc32c(0, text.as_bytes());
        format!("{text},\"crc\":\"{crc:08x}\"}}").into_bytes()
    };
    let line = |number: u64| {
        let text = format!(
            "{{\"line\":{number},\"id\":\"gate-7/1/2/{number}\",\"class\":\"ls\",\"key\":\"plant/7\",\"payload\":\"1.5\""
        );
        [whole(text), vec![b'\n']].concat()
    };
    let old = b"{\"id\":\"gate-7/1/2/3\"}\n".to_vec();
    let torn = line(9)[..40].to_vec();
    [
        ("sink_lines", "lines", [old, line(1), line(2), line(4), torn].concat()),
        ("sink_lines", "again", [line(7), line(3), line(7), vec![b'\n'; 3]].concat()),
        ("sink_lines", "last", line(u64::MAX)),
        ("sink_lines", "mark", whole("{\"safe\":12".into())),
    ]
    .into_iter()
}

/// What servers answer to records. The first byte is the target's own, and a zero ends a connection.
fn http_answers() -> impl Iterator<Item = Seed> {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let chunked =
        "HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nno su\r\n0\r\nx: y\r\n\r\n";
    let busy = "HTTP/1.1 503\r\nRetry-After: 7\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let answers = |cut: u8, all: &[&str]| [vec![cut], all.concat().into_bytes()].concat();
    [
        ("http_client", "taken", answers(255, &[ok, "HTTP/1.1 100 Continue\r\n\r\n", ok, ok, ok])),
        ("http_client", "refused", answers(3, &[ok, chunked, busy, "\0", ok])),
        ("http_client", "until-the-end", answers(9, &["HTTP/1.0 500 Oops\r\n\r\nwords", "\0", ok])),
        (
            "http_client",
            "two-lengths",
            answers(99, &["HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"]),
        ),
        (
            "http_client",
            "elsewhere",
            answers(0, &["HTTP/1.1 301 M\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", ok, "\0", ok]),
        ),
        (
            "http_client",
            "huge",
            answers(1, &[
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                "\0HTTP/1.1 429\r\nRetry-After: 18446744073709551615\r\nContent-Length: 18446744073709551615\r\n\r\n",
            ]),
        ),
    ]
    .into_iter()
}

/// Some lives of a node: every operation in order, one operation many times, and a few mixtures. The
/// first byte chooses the node.
fn node_ops() -> impl Iterator<Item = Seed> {
    let in_order = |setup: u8| {
        let operation = |kind: u8| [kind, kind.wrapping_mul(7), setup, 40];
        [vec![setup], (0..=63).flat_map(operation).collect()].concat()
    };
    // A linear congruence: no randomness, and yet no pattern that a reader must see through.
    let mixed = |setup: u8| {
        let step = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((*state >> 24) as u8)
        };
        let mut state = u32::from(setup);
        [vec![setup], std::iter::from_fn(|| step(&mut state)).take(1024).collect()].concat()
    };
    [
        ("node_ops", "nothing", vec![0]),
        ("node_ops", "in-order-0", in_order(0)),
        ("node_ops", "in-order-7", in_order(7)),
        ("node_ops", "mixed-1", mixed(1)),
        ("node_ops", "mixed-2", mixed(2)),
        ("node_ops", "mixed-255", mixed(255)),
    ]
    .into_iter()
}

const TOPIC_FILTERS: &[(&str, &str)] = &[
    ("exact", "plant/7/alarm\nplant/7/alarm"),
    ("one-level", "plant/+/alarm\nplant/7/alarm"),
    ("parent-of-rest", "plant/#\nplant"),
    ("empty-levels", "/+/\n//"),
    ("hidden", "+/uptime\n$SYS/uptime"),
    ("rest-inside", "plant/#/alarm\nplant/7/alarm"),
    ("plus-inside", "plant+\nplant+"),
    ("nul", "a\0b\na\0b"),
    ("empty", ""),
];

const CONFIGS: &[(&str, &str)] = &[
    ("empty", ""),
    (
        "whole",
        "[node]\nname = \"gate-7\"\n[[input]]\nmqtt = { listen = \"127.0.0.1:1883\" }\n\
         [[class]]\nname = \"ls\"\nlatency = \"50ms\"\n[[class]]\nname = \"lt\"\nlatency = \"1s\"\n\
         [[stream]]\ntopics = [\"plant/+/alarm\"]\nlatency = \"50ms\"\n\
         [[stream]]\ntopics = [\"plant/#\"]\nclass = \"lt\"\nfull = \"drop-oldest\"\nttl = \"10m\"\n\
         [[output]]\nname = \"cloud\"\nrate = \"18mbit\"\n\
         amqp = { url = \"amqp://10.0.0.1/plant\", exchange = \"telemetry\" }\n",
    ),
    ("unknown-key", "[node]\nnmae = \"gate-7\"\n[[stream]]\ntopics = [\"a/#/b\"]\n"),
    ("wrong-types", "node = 7\n[[output]]\nrate = [1]\namqp = true\nsink = {}\n"),
    ("broken-syntax", "[node\nname = \"gate\n\n[[stream]]\ntopics = \"a\n"),
    (
        "units",
        "[limits]\nmemory = \"64 MiB\"\nrecord_max = \"1e99kB\"\n[[class]]\nlatency = \"-1h\"\n",
    ),
    (
        "services",
        "[log]\ndirectory = \"log\"\n[[input]]\nlink = { listen = [\"127.0.0.1:7443\"], tls = { certificate = \"c\", key = \"k\" } }\n\
         [[input]]\nreplay = { file = \"rows.csv\", speed = 2.0, key = \"plant/{valve}\" }\n\
         [[output]]\nname = \"hub\"\nhttp = { url = \"https://h/in\", pipeline = 4 }\n\
         [[script]]\nname = \"s\"\nfile = \"s.luau\"\n[[quota]]\nuser = \"plc-*\"\nsessions = 4\n\
         [proxy]\nthreads = 2\n[[proxy.listener]]\nlisten = \"127.0.0.1:8080\"\n\
         [[proxy.upstream]]\nname = \"a\"\nto = [\"127.0.0.1:9000\"]\n[[proxy.route]]\npath = \"/a/\"\nupstream = \"a\"\n\
         [fleet]\norchestrators = [\"https://o:7500\"]\n[[fleet.peer]]\nname = \"gate-8\"\n\
         [group]\nlisten = \"127.0.0.1:7600\"\n[[placed]]\nname = \"taxi-7\"\n[mirror]\nto = \"127.0.0.1:7700\"\n\
         [frames]\ndirectory = \"frames\"\n[[camera]]\nname = \"gate\"\n",
    ),
    ("password-in-url", "[[output]]\namqp = { url = \"amqp://me:secret@[::1]:5672/%zz\" }\n"),
];

const ROWS: &[(&str, &str)] = &[
    ("csv", "time,valve,pressure\n2026-01-02T03:04:05Z,7,1.5\n1767323046.25,8,\"a, \"\"b\"\"\"\n"),
    ("csv-ragged", "a,b\n1\n1,2,3\n\"open\n\n,\n"),
    ("csv-crlf", "t;v\r\n0;1\r\n"),
    ("json-lines", "{\"time\":1767323045,\"v\":1}\n{\"time\":\"2026-01-02\",\"v\":null}\n[]\n{\n"),
    (
        "senml",
        "[{\"bn\":\"urn:dev:7:\",\"bt\":1.3e9,\"n\":\"t\",\"v\":20.5},{\"n\":\"h\",\"t\":-5,\"vs\":\"x\"}]\n",
    ),
    (
        "senml-odd",
        "[{\"n\":\"\",\"v\":1e999}]\n[{\"bn\":\"a#/+\",\"vb\":true}]\n{\"e\":[{\"n\":\"a\",\"v\":1}]}\n",
    ),
    ("far-future", "{\"time\":\"6026-01-02\",\"v\":null}\n"),
    ("deep", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n"),
];

const SCRIPTS: &[(&str, &str)] = &[
    ("endless", "function on_message(h) while true do pcall(error) end end"),
    ("bomb", "function on_message(h) local t = {} while true do t[#t + 1] = {t} end end"),
    ("recursion", "function on_message(h) local function f() return f() + 1 end f() end"),
    ("loading", "while true do end"),
    (
        "timers",
        "function on_load(h) h:every(10, function(h) for q in h:Queues():getQueue() do for m in q:messages() do m:drop() end end end) end function on_message(h) end",
    ),
    ("paced", "function on_message(h) for q in h:Queues():getQueue() do q:setRate(0) end end"),
    ("broken", "function on_message(h"),
    ("nothing", ""),
];

/// Every function once, on the message that came; and a mixture.
fn script_calls() -> impl Iterator<Item = Seed> {
    let each =
        |on: u8| (0..44u8).flat_map(move |method| [on, method << 1 | 1, method, 7]).collect();
    let mixed = (0..128u8).map(|place| place.wrapping_mul(97)).collect();
    [
        ("script_calls", "on-a-message", each(12)),
        ("script_calls", "on-a-queue", each(13)),
        ("script_calls", "mixed", mixed),
    ]
    .into_iter()
}
