//! Attacks on the bound of memory.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use super::Scene;
use super::h2;
use super::speak::{Hello, Peer, refusals, subscribe};

/// One SUBSCRIBE of `#` over and over, while so much is retained.
fn subscribe_all(scene: &Scene, retained: usize, filters: usize) -> io::Result<()> {
    fill_retained(scene, (0..retained).map(|number| format!("kept/{number}")), 64)?;
    let mut reader = scene.log_in("subscribes", false)?;
    reader.say(&subscribe((0..filters).map(|_| "#")))?;
    // It takes its time, and then reads a little.
    scene.rest(Duration::from_secs(3));
    scene.hear_out(&mut reader, scene.pick(2, 5));
    Ok(())
}

/// Publishes retained messages of so many bytes as one client.
fn fill_retained(
    scene: &Scene,
    topics: impl IntoIterator<Item = String>,
    bytes: usize,
) -> io::Result<()> {
    let messages = topics.into_iter().map(|topic| (topic, vec![b'x'; bytes]));
    let mut filler = scene.log_in("retains", false)?;
    scene.told(filler.publish_all(messages, true, |word| scene.refused(word)));
    Ok(())
}

pub(super) fn subscribe_80k(scene: &Scene) -> io::Result<()> {
    subscribe_all(scene, scene.pick(2_000, 20_000), 20_000)
}

pub(super) fn subscribe_200k(scene: &Scene) -> io::Result<()> {
    subscribe_all(scene, 2_000, 50_000)
}

/// Topics of 111 levels, no two of which share one.
pub(super) fn retained_deep(scene: &Scene) -> io::Result<()> {
    let count = scene.pick(20_000, 100_000);
    let deep = "/a".repeat(110);
    fill_retained(scene, (0..count).map(|number| format!("{number}{deep}")), 1)
}

/// A subscriber reads all and acknowledges nothing.
pub(super) fn never_acknowledges(scene: &Scene) -> io::Result<()> {
    let mut reader = scene.log_in("never-acknowledges", false)?;
    reader.say(&subscribe(["large"]))?;
    reader.hear_kind(0x90, |_, _| ())?;
    let mut stream = reader.stream.try_clone()?;
    let reading = std::thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
    let count = scene.pick(500, 4_000);
    let messages = (0..count).map(|_| ("large".to_owned(), vec![b'x'; 1_000_000]));
    let mut publisher = scene.log_in("publishes-large", false)?;
    scene.told(publisher.publish_all(messages, false, |word| scene.refused(word)));
    reader.stream.shutdown(std::net::Shutdown::Both).unwrap_or(());
    let _ = reading.join();
    Ok(())
}

/// 10,000 filters of 128 levels from one client.
pub(super) fn deep_filters(scene: &Scene) -> io::Result<()> {
    let deep = "/a".repeat(127);
    let mut client = scene.log_in("deep", false)?;
    for batch in 0..100 {
        let filters = (0..100).map(|number| format!("{}{deep}", batch * 100 + number));
        if client.say(&subscribe(filters)).is_err() {
            break;
        }
        match client.hear() {
            Ok((first, body)) => refusals(first, &body).for_each(|word| scene.refused(word)),
            Err(error) => {
                scene.refused(format!("closed ({})", error.kind()));
                break;
            }
        }
    }
    scene.rest(Duration::from_secs(1));
    Ok(())
}

/// Sessions that are away, each with a topic of its own to which so much is published.
fn away(scene: &Scene, sessions: usize, each: usize, bytes: usize) -> io::Result<()> {
    for number in 0..sessions {
        let Ok(mut client) = scene.log_in(&format!("away-{number}"), true) else { continue };
        client.say(&subscribe([format!("bulk/{number}")]))?;
        if let Ok((first, body)) = client.hear() {
            refusals(first, &body).for_each(|word| scene.refused(word));
        }
        // It leaves as clients do.
        client.say(&[0xe0, 0])?;
    }
    let topics = (0..sessions * each).map(|number| format!("bulk/{}", number / each));
    let messages = topics.map(|topic| (topic, vec![b'x'; bytes]));
    let mut publisher = scene.log_in("fills", false)?;
    scene.told(publisher.publish_all(messages, false, |word| scene.refused(word)));
    scene.rest(Duration::from_secs(1));
    Ok(())
}

pub(super) fn away_sessions(scene: &Scene) -> io::Result<()> {
    away(scene, scene.pick(60, 300), 1_100, 4_096)
}

pub(super) fn away_small(scene: &Scene) -> io::Result<()> {
    away(scene, 20, scene.pick(20_000, 100_000), 1)
}

/// Bodies without an end, over HTTP/2.
pub(super) fn proxy_bodies(scene: &Scene) -> io::Result<()> {
    const STREAMS: u32 = 255;
    // Less than a route takes as part of a message.
    const BODY: usize = 250_000;
    let (connections, time) = (scene.pick(10, 40), Duration::from_secs(scene.pick(4, 12)));
    let to = scene.front();
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            scene.connects(1);
            std::thread::spawn(move || h2::pour(to, STREAMS, BODY, time))
        })
        .collect();
    for thread in threads {
        match thread.join().expect("it does not panic") {
            Ok(words) => words.into_iter().for_each(|word| scene.refused(word)),
            Err(error) => scene.refused(format!("closed ({})", error.kind())),
        }
    }
    Ok(())
}

/// Frames of 264 MiB from who is no member.
pub(super) fn group_frames(scene: &Scene) -> io::Result<()> {
    const FRAME: usize = 264 << 20;
    const PIECE: usize = 1 << 20;
    let to = scene.group();
    let write = move || -> io::Result<()> {
        let mut stream = Peer::silent(to)?.stream;
        stream.write_all(&(FRAME as u32).to_le_bytes())?;
        // The last byte never comes.
        for _ in 1..FRAME / PIECE {
            stream.write_all(&vec![4; PIECE])?;
        }
        stream.set_read_timeout(Some(Duration::from_secs(3)))?;
        stream.read(&mut [0]).map(drop)
    };
    scene.connects(6);
    let threads: Vec<_> = (0..6).map(|_| std::thread::spawn(write)).collect();
    for thread in threads {
        if let Err(error) = thread.join().expect("it does not panic") {
            scene.refused(format!("closed ({})", error.kind()));
        }
    }
    Ok(())
}

/// Wills of 120 kB each, and connections that stay.
pub(super) fn wills(scene: &Scene) -> io::Result<()> {
    let (topic, payload) = (format!("w/{}", "t".repeat(60_000)), vec![b'x'; 60_000]);
    let mut held = Vec::new();
    let begin = Instant::now();
    for number in 0..1_000 {
        let id = format!("will-{number}");
        let hello = Hello { id: &id, will: Some((&topic, &payload)), ..Hello::default() };
        held.extend(scene.log_in_as(hello).ok());
        if begin.elapsed() > Duration::from_secs(60) {
            break;
        }
    }
    scene.rest(Duration::from_secs(1));
    Ok(())
}
