//! Tests of WebSocket, without a socket.

use super::*;

/// A request of a browser's page, with these lines in place of the last one.
fn request(lines: &str) -> String {
    format!(
        "GET /mqtt HTTP/1.1\r\nHost: gate-7:8083\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    )
}

const MQTT: &str = "Sec-WebSocket-Protocol: mqtt\r\n";

fn told(head: &str, origins: &[&str]) -> String {
    let origins = origins.iter().map(|&origin| origin.into()).collect();
    let answer = answer(head.as_bytes(), &WebSocketOptions { origins }).unwrap();
    String::from_utf8(answer.unwrap_or_else(|refusal| refusal.answer())).unwrap()
}

#[test]
fn a_request_is_granted_with_its_subprotocol() {
    let answer = told(&request(MQTT), &[]);
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    // The example of RFC 6455, 1.3.
    assert!(answer.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
    assert!(answer.contains("Sec-WebSocket-Protocol: mqtt\r\n") && answer.ends_with("\r\n\r\n"));
    let old = told(&request("Sec-WebSocket-Protocol: x, mqttv3.1, mqtt\r\n"), &[]);
    assert!(old.contains("Sec-WebSocket-Protocol: mqttv3.1\r\n"), "{old}");
}

#[test]
fn a_page_needs_an_origin_that_is_listed() {
    let head = request(&format!("{MQTT}Origin: https://desk.example\r\n"));
    assert!(told(&head, &[]).starts_with("HTTP/1.1 403 Forbidden\r\n"));
    assert!(
        told(&head, &["https://desk.example.evil", "null"]).contains("\"https://desk.example\"")
    );
    for origin in ["https://desk.example", "HTTPS://DESK.example", "*"] {
        assert!(told(&head, &[origin]).starts_with("HTTP/1.1 101 "), "{origin}");
    }
    let two = request(&format!("{MQTT}Origin: https://a\r\nOrigin: https://b\r\n"));
    assert!(told(&two, &["https://a"]).starts_with("HTTP/1.1 403 "));
}

#[test]
fn what_is_no_request_for_mqtt_is_told_why() {
    let long = request(&format!("{MQTT}X: {}\r\n", "x".repeat(HEAD_MAX)));
    for (head, status, why) in [
        (request(""), 400, "the subprotocol mqtt is not offered"),
        (request("Sec-WebSocket-Protocol: wamp\r\n"), 400, "the subprotocol mqtt is not offered"),
        ("GET / HTTP/1.1\r\nHost: gate-7\r\n\r\n".into(), 426, "this is MQTT over WebSocket"),
        (request(MQTT).replace("Version: 13", "Version: 8"), 426, "Sec-WebSocket-Version: 13\r\n"),
        (request(MQTT).replace("GET", "POST"), 400, "GET"),
        (request(MQTT).replace("dGhl", "dGh!"), 400, "Sec-WebSocket-Key"),
        (request(MQTT).replace("dGhl", ""), 400, "Sec-WebSocket-Key"),
        (request(MQTT).replace("HTTP/1.1", "HTTP/1.0"), 400, "HTTP/1.1"),
        (request(&format!("{MQTT}a b: c\r\n")), 400, "no HTTP"),
        (request(MQTT) + "\u{2}", 400, "before the request was answered"),
        ("GET / HTTP/1.1\n\nx\r\n\r\n".into(), 400, "end in different ways"),
        ("\u{10}\u{e}\0\u{4}MQTT".into(), 400, "no HTTP"),
        (long, 431, "8192"),
    ] {
        let answer = told(&head, &[]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains(why), "{answer}");
    }
    assert!(answer(b"GET / HTTP/1.1\r\n", &WebSocketOptions::default()).is_none());
}

/// A frame as a client writes it.
fn frame(first: u8, bytes: &[u8]) -> Vec<u8> {
    let (mask, mut out) = ([1, 2, 3, 250], vec![first]);
    match bytes.len() {
        length @ 0..=125 => out.push(0x80 | length as u8),
        length @ 126..=65_535 => {
            out.push(0x80 | 126);
            out.extend((length as u16).to_be_bytes());
        }
        length => {
            out.push(0x80 | 127);
            out.extend((length as u64).to_be_bytes());
        }
    }
    out.extend(mask);
    out.extend(bytes.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

#[test]
fn what_is_in_frames_comes_out_however_they_are_cut() {
    let large: Vec<u8> = (0..70_000_u32).map(|number| number as u8).collect();
    let frames = [
        frame(0x82, b"abc"),
        frame(0x02, b"de"),
        frame(0x89, b"ping"),
        frame(0x00, b""),
        frame(0x80, b"f"),
        frame(0x8A, b"nobody asked"),
        frame(0x82, &large[..300]),
        frame(0x82, &large),
        frame(0x88, &1000_u16.to_be_bytes()),
        frame(0x82, b"said after the end"),
    ]
    .concat();
    let all = [&b"abcdef"[..], &large[..300], &large].concat();
    for piece in (1..40).chain([frames.len()]) {
        assert!(run(&frames, piece) == (all.clone(), Some(Ended::Closed)), "{piece}");
    }
}

#[test]
fn a_ping_is_answered_between_frames_and_the_latest_one_is_enough() {
    let mut socket = WebSocket::default();
    assert_eq!(socket.outgoing(b"packet"), b"\x82\x06packet");
    assert_eq!(socket.written(3), None);
    let mut pings = [frame(0x89, b"one"), frame(0x89, b"two")].concat();
    assert_eq!(socket.receive(&mut pings), 0);
    assert_eq!(socket.outgoing(b"packet"), b"acket");
    assert_eq!(socket.written(5), Some(6));
    assert!(socket.has_to_write());
    assert_eq!(socket.outgoing(b"next"), b"\x8A\x03two\x82\x04next");
    assert_eq!(socket.written(11), Some(4));
    assert!(!socket.has_to_write());
    let long = vec![7; FRAME_MAX + 1];
    assert_eq!(socket.outgoing(&long).len(), FRAME_MAX + 4);
    assert_eq!(socket.written(FRAME_MAX + 4), Some(FRAME_MAX));
    assert_eq!(socket.close(), b"\x88\x02\x03\xE8");
}

#[test]
fn what_breaks_the_protocol_ends_it_with_a_code() {
    let unmasked = vec![0x82, 1, 7];
    for (frames, code, what) in [
        (frame(0x81, b"text"), 1003, "text"),
        (unmasked, 1002, "masked"),
        (frame(0xC2, b"packed"), 1002, "extension"),
        (frame(0x83, b"x"), 1002, "unknown"),
        (frame(0x80, b"x"), 1002, "without one"),
        ([frame(0x02, b"x"), frame(0x82, b"x")].concat(), 1002, "begins in another"),
        (frame(0x09, b"x"), 1002, "control"),
        (frame(0x89, &[0; 126]), 1002, "control"),
    ] {
        let (_, ended) = run(&frames, frames.len());
        let Some(Ended::Broken { code: told, what: why }) = ended else { panic!("{what}") };
        assert!(told == code && why.contains(what), "{told} {why}");
        let mut socket = WebSocket { ended, ..WebSocket::default() };
        assert_eq!(socket.close()[2..], code.to_be_bytes());
    }
}
