//! Frames that lie, subscribers that do not read, and subscribers that are killed: nobody else notices.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use bytes::Bytes;
use tidegate::services::cameras::wire::{PublishRequest, ReplyKind};

use crate::frames::client::{Client, Film, jpeg, live};
use crate::frames::edge::{World, is_right};
use crate::frames::local::node;
use crate::support::process::Node;

/// What tells the child of a test which port it subscribes at.
const PORT: &str = "TIDEGATE_TEST_FRAMES_PORT";
/// What the child says when a frame came.
const CAME: &str = "a frame came";

/// A frame whose markers are right and whose picture is not: only decoding finds it.
fn damaged() -> Bytes {
    let mut bytes = jpeg().to_vec();
    bytes.truncate(bytes.len() / 2);
    bytes.extend([0xFF, 0xD9]);
    bytes.into()
}

/// One whose header says another size than its picture has.
fn lying() -> Bytes {
    let mut bytes = jpeg().to_vec();
    let frame = bytes.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    bytes[frame + 5..frame + 9].copy_from_slice(&[0x08, 0x70, 0x0F, 0x00]);
    bytes.into()
}

/// One behind whose end other bytes stand.
fn trailing() -> Bytes {
    let mut bytes = jpeg().to_vec();
    bytes.extend([0x5A; 3000]);
    bytes.into()
}

#[tokio::test]
async fn frames_that_cannot_be_decoded_cost_their_flow_themselves_only() {
    let world = World::new("frames-damaged");
    let _edge = world.edge();
    let _cameras = world.cameras();
    let _film = world.film();
    let mut watch = world.subscribe(&live("gate", 20_000, 0.5)).await;
    is_right(&watch.frame().await.unwrap());
    let mut client = world.publisher().await;
    let mut camera = client.publish().await.unwrap();
    // Only who decodes the first two finds what is wrong with them.
    for (bad, is_taken) in [(damaged(), true), (lying(), true), (trailing(), false)] {
        let reply = camera.take("gate", 0, &bad).await;
        assert_eq!((reply.error.is_empty(), reply.frame > 0), (is_taken, is_taken), "{reply:?}");
        let mut last = 0;
        while last <= reply.frame {
            let frame = watch.frame().await.unwrap();
            is_right(&frame);
            last = frame.frame;
        }
    }
}

#[tokio::test]
async fn a_subscriber_that_does_not_read_holds_up_nobody_and_hears_what_it_missed() {
    const FRAMES: u64 = 60;
    let (_node, port) = node("frames-slow", "");
    let mut slow = Client::plain(port).await.unwrap();
    let mut slow = slow.subscribe(live("door", 20_000, 0.9)).await.unwrap();
    let mut client = Client::plain(port).await.unwrap();
    let mut quick = client.subscribe(live("door", 20_000, 0.9)).await.unwrap();
    let mut camera = client.publish().await.unwrap();
    // More than what sockets and windows between hold.
    for number in 1..=FRAMES {
        let request = PublishRequest {
            camera: "door".into(),
            jpeg: jpeg(),
            captured_unix_ns: number,
            age_us: 0,
        };
        assert_eq!(camera.send(request).await.unwrap().error, "");
        while quick.frame().await.unwrap().frame < number {}
    }
    let (mut came, mut skipped, mut last) = (0, 0, 0);
    while last < FRAMES {
        if let Some(ReplyKind::Frame(frame)) = slow.next().await.unwrap() {
            (came, skipped, last) = (came + 1, skipped + frame.skipped, frame.frame);
        }
    }
    assert_eq!(came + skipped, FRAMES, "what it did not get was told");
    assert!(skipped > 0, "nothing waits for it without a bound");
}

/// Subscribers of a node at present, by its metrics.
fn open_subscriptions(http: &str) -> u64 {
    let mut stream = TcpStream::connect(http).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with("tidegate_frames_open_subscriptions "));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("it is counted")
}

#[tokio::test]
async fn a_subscriber_that_is_killed_leaves_nothing_behind() {
    let config = "[node]\nname = \"n\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n\
         [frames]\nlisten = \"127.0.0.1:0\"\n[[camera]]\nname = \"door\"\n";
    let mut node = Node::start("frames-killed", config);
    let port: u16 = node.wait_for("frames at 127.0.0.1:").parse().unwrap();
    let http = node.wait_for("http://");
    let http = http.split('/').next().unwrap().to_owned();
    let mut client = Client::plain(port).await.unwrap();
    let mut watch = client.subscribe(live("door", 20_000, 0.9)).await.unwrap();
    let _film = Film::of("door", port, None);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "frames::hostile::the_subscriber_that_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(PORT, port.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_served = move || said.map_while(Result::ok).any(|line| line.contains(CAME));
    assert!(tokio::task::spawn_blocking(is_served).await.unwrap(), "it is served");
    assert_eq!(open_subscriptions(&http), 2);
    // Without a word: SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    while open_subscriptions(&http) > 1 {
        watch.frame().await.unwrap();
    }
    let before = watch.frame().await.unwrap().frame;
    assert!(watch.frame().await.unwrap().frame > before, "the other one is served on");
}

/// The child of the test above, and nothing without it.
#[tokio::test]
#[ignore = "a process that another test starts and kills"]
async fn the_subscriber_that_is_killed() {
    let Ok(port) = std::env::var(PORT) else { return };
    let mut client = Client::plain(port.parse().unwrap()).await.unwrap();
    let mut watch = client.subscribe(live("door", 20_000, 0.9)).await.unwrap();
    loop {
        watch.frame().await.unwrap();
        let mut out = std::io::stdout();
        writeln!(out, "{CAME}").and_then(|()| out.flush()).unwrap();
    }
}
