//! Clients of MQTT 5 that are told which node has their topics.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use rmqtt_codec::v5;
use tokio_util::codec::Decoder;

use crate::group::client::{Subscriber, connect_with};
use crate::group::{Trio, wait_until};

/// One that publishes numbers by turns with QoS 1 and QoS 2, and goes where it is told.
struct Publisher {
    stream: TcpStream,
    sent: u64,
    /// What is not complete: whether its PUBREC was seen.
    open: BTreeMap<u64, bool>,
}

/// A connection of MQTT 5, with a will where it has one.
fn connect(address: &str, id: &str, will: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut body = b"\x00\x04MQTT\x05".to_vec();
    body.extend([if will.is_some() { 0x06 } else { 0x02 }, 0, 0, 0]);
    let text = |body: &mut Vec<u8>, text: &str| {
        body.extend([0, text.len() as u8]);
        body.extend(text.as_bytes());
    };
    text(&mut body, id);
    if let Some(topic) = will {
        body.push(0);
        text(&mut body, topic);
        text(&mut body, "the will");
    }
    stream.write_all(&[&[0x10, body.len() as u8], &body[..]].concat()).unwrap();
    let (first, body) = packet(&mut stream).unwrap();
    assert_eq!((first, &body[..2]), (0x20, &[0, 0][..]), "accepted, and no session was there");
    stream
}

fn packet(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    crate::group::client::packet(stream)
}

/// Where a DISCONNECT says that the client is to go, as the independent codec reads it; it is the last packet.
fn reference(stream: &mut TcpStream, (first, body): (u8, Vec<u8>)) -> String {
    let whole = [&[first, body.len() as u8], &body[..]].concat();
    let read = v5::Codec::new(0, 0).decode(&mut BytesMut::from(&whole[..])).unwrap().unwrap().0;
    let v5::Packet::Disconnect(told) = read else { panic!("{read:?} is no goodbye") };
    assert_eq!(told.reason_code, v5::DisconnectReasonCode::UseAnotherServer);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "and then the end");
    told.server_reference.unwrap().to_string()
}

fn publish(qos: u8, number: u64) -> Vec<u8> {
    let payload = format!("p:{number}");
    let id: &[u8] = &(number as u16).to_be_bytes();
    let id = if qos > 0 { id } else { &[] };
    let mut packet = vec![0x30 | qos << 1, (6 + id.len() + payload.len()) as u8, 0, 3];
    packet.extend(b"t/p");
    packet.extend(id);
    packet.push(0);
    packet.extend(payload.as_bytes());
    packet
}

fn qos(number: u64) -> u8 {
    1 + (number % 2) as u8
}

impl Publisher {
    fn start(address: &str) -> Publisher {
        let stream = connect(address, "p", None);
        Publisher { stream, sent: 0, open: BTreeMap::new() }
    }

    /// Publishes so many; returns when all are complete, or where it is to go before that.
    fn publish(&mut self, count: u64) -> Option<String> {
        let numbers = self.sent + 1..=self.sent + count;
        self.sent += count;
        self.open.extend(numbers.clone().map(|number| (number, false)));
        let all: Vec<u8> = numbers.flat_map(|number| publish(qos(number), number)).collect();
        // All at once, so that some of it waits while the rest is answered.
        self.stream.write_all(&all).unwrap();
        self.complete()
    }

    fn complete(&mut self) -> Option<String> {
        while !self.open.is_empty() {
            let (first, body) = packet(&mut self.stream).unwrap();
            if first == 0xE0 {
                return Some(reference(&mut self.stream, (first, body)));
            }
            let number = u64::from(u16::from_be_bytes([body[0], body[1]]));
            match first {
                // Reason 0x92: the node where it was before has it.
                0x40 | 0x70 => assert!(body.get(2).is_none_or(|reason| [0, 0x92].contains(reason))),
                _ => assert_eq!((first, body.get(2).copied().unwrap_or(0)), (0x50, 0)),
            }
            if first == 0x50 {
                self.open.insert(number, true);
                // Who has sent it away may not read it.
                let _ = self.stream.write_all(&[0x62, 2, body[0], body[1]]);
            } else {
                self.open.remove(&number).unwrap();
            }
        }
        None
    }

    /// Goes where it was told to, and on with what is not complete.
    fn follow(&mut self, address: &str) {
        self.stream = connect(address, "p", None);
        for (&number, is_received) in &self.open {
            let id = (number as u16).to_be_bytes();
            let packet = match is_received {
                true => vec![0x62, 2, id[0], id[1]],
                false => publish(qos(number), number),
            };
            self.stream.write_all(&packet).unwrap();
        }
        assert_eq!(self.complete(), None, "it is where it was told to be");
    }
}

#[test]
fn a_publisher_goes_where_it_is_told_and_stays_where_it_came_back() {
    let trio = Trio::new("referred", "");
    let _nodes: Vec<_> = (0..3).map(|place| trio.start(place)).collect();
    let all: Vec<_> =
        (0..3).map(|place| Subscriber::start(trio.mqtt(place), "all", "t/+")).collect();
    let address = |place: usize| format!("127.0.0.1:{}", trio.mqtt(place));
    let mut publisher = Publisher::start(&address(2));
    for (place, next) in [(0, Some(1)), (1, Some(2)), (2, None)] {
        let told = publisher.publish(30);
        assert_eq!(told, Some(address(place)), "where its topics are");
        publisher.follow(&address(place));
        assert_eq!(publisher.publish(30), None, "nobody is sent on from there");
        if let Some(next) = next {
            wait_until("the move", || trio.give(next, &[]));
        }
    }
    // Its topics leave again: it was told there before, so it stays, and its records are brought on.
    assert!(trio.give(0, &[]));
    for _ in 0..30 {
        assert_eq!(publisher.publish(1), None, "a client that came back stays");
    }
    for seen in &all {
        wait_until("all records", || seen.seen().len() as u64 >= publisher.sent);
        assert!(seen.of("p").into_iter().eq(1..=publisher.sent), "{:?}", seen.seen());
    }
}

#[test]
fn who_subscribes_or_cannot_be_told_stays() {
    let trio = Trio::new("staying", "");
    let _nodes: Vec<_> = (0..3).map(|place| trio.start(place)).collect();
    let all = Subscriber::start(trio.mqtt(0), "all", "t/+");
    let address = format!("127.0.0.1:{}", trio.mqtt(2));

    // MQTT 5 with a subscription: what waits for it is here.
    let mut subscribing = connect(&address, "subscribing", None);
    subscribing.write_all(b"\x82\x0a\x00\x09\x00\x00\x04else\x00").unwrap();
    assert_eq!(packet(&mut subscribing), Some((0x90, vec![0, 9, 0, 0])));
    // Without acknowledgements nobody knows what has come.
    let mut loose = connect(&address, "loose", None);
    // Before MQTT 5 there is no word for it.
    let (mut older, _) = connect_with(trio.mqtt(2), "older", true);
    for number in 1..=20 {
        subscribing.write_all(&publish(1, number)).unwrap();
        let (first, body) = packet(&mut subscribing).unwrap();
        assert_eq!((first, &body[..2]), (0x40, &[0, number as u8][..]));
        loose.write_all(&publish(0, number)).unwrap();
        loose.write_all(&[0xC0, 0]).unwrap();
        assert_eq!(packet(&mut loose), Some((0xD0, Vec::new())));
        older.write_all(&[0x32, 8, 0, 3, b't', b'/', b'q', 0, number as u8, b'q']).unwrap();
        assert_eq!(packet(&mut older), Some((0x40, vec![0, number as u8])));
    }
    wait_until("all records", || all.seen().len() >= 60);
    assert_eq!(all.of("p").len(), 40);
}

#[test]
fn the_will_of_a_client_that_was_sent_on_is_void() {
    let trio = Trio::new("will", "");
    let _nodes: Vec<_> = (0..3).map(|place| trio.start(place)).collect();
    let wills = Subscriber::start(trio.mqtt(2), "wills", "will/+");
    let address = format!("127.0.0.1:{}", trio.mqtt(2));
    let mut client = connect(&address, "p", Some("will/p"));
    client.write_all(&publish(1, 1)).unwrap();
    assert_eq!(packet(&mut client).map(|(first, _)| first), Some(0x40));
    let goodbye = packet(&mut client).unwrap();
    assert_eq!(reference(&mut client, goodbye), format!("127.0.0.1:{}", trio.mqtt(0)));
    // A newer connection begins when the older one is settled; and the will of one that only breaks comes.
    drop(connect(&address, "p", Some("will/q")));
    wait_until("a will", || !wills.seen().is_empty());
    let (mut last, _) = connect_with(trio.mqtt(2), "last", true);
    last.write_all(b"\x32\x0d\x00\x06will/r\x00\x01end").unwrap();
    assert_eq!(packet(&mut last), Some((0x40, vec![0, 1])));
    wait_until("the last record", || wills.seen().contains(&"end".to_owned()));
    assert_eq!(wills.seen(), ["the will", "end"], "that of the second connection");
}
