//! One node: cameras publish and applications subscribe at the same port.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tidegate::services::cameras::wire::{ReplyKind, SubscribeRequest};
use tidegate_frames::jpeg::JpegHeader;

use crate::frames::client::{Client, Film, jpeg, live};
use crate::support::process::Node;

/// A node with the cameras "door" and "yard"; `more` belongs to `[frames]`.
pub(crate) fn node(name: &str, more: &str) -> (Node, u16) {
    let config = format!(
        "[node]\nname = \"n\"\n[http]\nlisten = []\n[[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
         [frames]\nlisten = \"127.0.0.1:0\"\n{more}\n\
         [[camera]]\nname = \"door\"\n[[camera]]\nname = \"yard\"\n"
    );
    let mut node = Node::start(name, &config);
    let address = node.wait_for("frames at 127.0.0.1:");
    node.wait_for("ready");
    (node, address.parse().unwrap())
}

#[tokio::test]
async fn a_subscriber_sees_the_frames_that_are_published() {
    let (_node, port) = node("frames-local", "");
    let mut client = Client::plain(port).await.unwrap();
    let mut first = client.subscribe(live("door", 20_000, 0.9)).await.unwrap();
    let mut second = client.subscribe(live("door", 20_000, 0.9)).await.unwrap();
    let mut yard = client.subscribe(live("yard", 20_000, 0.9)).await.unwrap();
    let film = Film::of("door", port, None);
    let mut last = 0;
    for _ in 0..10 {
        let frame = first.frame().await.unwrap();
        assert!(frame.frame > last, "newer ones only");
        last = frame.frame;
        // Nothing is between: the source itself.
        assert_eq!((frame.quality, frame.accuracy, frame.camera.as_str()), (0, 1.0, "door"));
        assert_eq!(frame.jpeg, jpeg());
    }
    assert!(second.frame().await.unwrap().frame > 0);
    drop(film);
    let of_door = client.cameras().await.into_iter().find(|camera| camera.name == "door");
    let of_door = of_door.expect("it is known");
    assert!(of_door.is_online && of_door.ladder_is_generic && !of_door.ladder.is_empty());
    let _film = Film::of("yard", port, None);
    assert_eq!(yard.frame().await.unwrap().camera, "yard");
}

#[tokio::test]
async fn hostile_frames_are_refused_with_a_word_and_harm_nobody() {
    let (_node, port) = node("frames-hostile", "");
    let mut client = Client::plain(port).await.unwrap();
    let mut camera = client.publish().await.unwrap();
    let good = jpeg();
    let mut cut = good.to_vec();
    cut.truncate(5000);
    let mut huge = good.to_vec();
    let sof = huge.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    huge[sof + 5..sof + 9].copy_from_slice(&[0xFF; 4]);
    for (bytes, word) in [
        (b"GIF89a".to_vec(), "this is no JPEG"),
        (Vec::new(), "this is no JPEG"),
        (cut, "cut off"),
        (huge, "65535 x 65535 pixels"),
    ] {
        let reply = camera.take("door", 0, &bytes.into()).await;
        assert!(reply.frame == 0 && reply.error.contains(word), "{word}: {reply:?}");
    }
    let missing = camera.take("roof", 0, &good).await;
    assert_eq!(missing.error, "no [[camera]] \"roof\" at this node");
    let taken = camera.take("door", 2_000_000_000, &good).await;
    assert_eq!((taken.frame, taken.error.as_str()), (2_000_000_000, ""));
    let older = camera.take("door", 1_000_000_000, &good).await;
    assert!(older.error.starts_with("it was taken 1000 ms before the last one"), "{older:?}");
    let future = camera.take("door", u64::MAX, &good).await;
    assert!(future.error.contains("s from now"), "{future:?}");
    // All of that harmed nobody: a subscriber gets what is published next.
    let mut watch = client.subscribe(live("door", 20_000, 0.9)).await.unwrap();
    assert!(watch.first(&mut camera, "door").await.frame > 2_000_000_000);
    let wrong = client.subscribe(live("door", 0, 0.9)).await.err().expect("no such bound");
    assert_eq!(wrong.message(), "latency_ms is 0: give 1 to 60000");
}

#[tokio::test]
async fn a_replay_goes_on_until_a_stop_that_is_to_come() {
    let (_node, port) = node("frames-future", "");
    let mut client = Client::plain(port).await.unwrap();
    let mut camera = client.publish().await.unwrap();
    let (picture, second) = (jpeg(), 1_000_000_000);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    for number in 1..=5 {
        camera.take("door", now + number, &picture).await;
    }
    // Nothing is on a disk: what was taken is in memory.
    let request = SubscribeRequest {
        start_unix_ns: Some(now + 2),
        stop_unix_ns: Some(now + 600 * second),
        ..live("door", 0, 1.0)
    };
    let mut replay = client.subscribe(request).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(replay.frame().await.unwrap().frame - now);
    }
    for number in [6, 7, 600 * second] {
        camera.take("door", now + number, &picture).await;
        seen.push(replay.frame().await.unwrap().frame - now);
    }
    camera.take("door", now + 601 * second, &picture).await;
    assert_eq!(replay.next().await.unwrap(), None, "it is over");
    assert_eq!(seen, [2, 3, 4, 5, 6, 7, 600 * second]);
}

#[tokio::test]
async fn stored_frames_are_replayed_by_time_after_a_kill() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("frames-replay");
    let _ = std::fs::remove_dir_all(&folder);
    let more = format!("directory = {folder:?}");
    let (mut killed, port) = node("frames-replay", &more);
    let mut client = Client::plain(port).await.unwrap();
    let mut camera = client.publish().await.unwrap();
    let picture = jpeg();
    for number in 1..=20 {
        camera.take("door", number * 1_000_000_000, &picture).await;
    }
    // What was taken is written by another thread: the last frame is there when it can be replayed.
    let all = SubscribeRequest { start_unix_ns: Some(0), ..live("door", 0, 1.0) };
    let mut newest = 0;
    while newest < 20_000_000_000 {
        let mut replay = client.subscribe(all.clone()).await.unwrap();
        while let Ok(frame) = replay.frame().await {
            newest = frame.frame;
        }
    }
    killed.process.kill().unwrap();
    killed.end();
    let (_node, port) = node("frames-replay", &more);
    let mut client = Client::plain(port).await.unwrap();
    let request = SubscribeRequest {
        start_unix_ns: Some(4_500_000_000),
        stop_unix_ns: Some(15_000_000_000),
        ..live("door", 0, 1.0)
    };
    let mut replay = client.subscribe(request).await.unwrap();
    let mut seen = Vec::new();
    while let Some(reply) = replay.next().await.unwrap() {
        let ReplyKind::Frame(frame) = reply else { panic!("{reply:?}") };
        assert_eq!(frame.jpeg, picture);
        seen.push(frame.frame / 1_000_000_000);
    }
    assert_eq!(seen, (5..=15).collect::<Vec<_>>());
    // A restart does not let older frames in.
    let mut live = client.subscribe(live("door", 20_000, 0.9)).await.unwrap();
    let mut camera = client.publish().await.unwrap();
    let frame = live.first(&mut camera, "door").await;
    assert_eq!(JpegHeader::read(&frame.jpeg).map(|head| head.width), Ok(1280));
    assert_ne!(frame.jpeg, Bytes::new());
}
