//! Attacks on what others wait for, and on their sessions.

use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::Scene;
use super::speak::{Hello, Peer, publish, refusals, subscribe};
use crate::bench::ingest::idle::log_in;

/// Six clients with 10,000 shared groups each on one topic, who leave one by one.
pub(super) fn share_groups(scene: &Scene) -> io::Result<()> {
    let mut clients = Vec::new();
    for client in 0..6 {
        let mut peer = scene.log_in(&format!("shares-{client}"), false)?;
        let filters = (0..10_000).map(|group| format!("$share/{client}-{group}/shared/topic"));
        peer.say(&subscribe(filters))?;
        if let Ok((first, body)) = peer.hear() {
            refusals(first, &body).for_each(|word| scene.refused(word));
        }
        clients.push(peer);
    }
    for client in clients {
        drop(client);
        scene.rest(Duration::from_millis(scene.pick(500, 2_000)));
    }
    Ok(())
}

/// Wrong passwords at a steady rate, by TLS.
pub(super) fn wrong_passwords(scene: &Scene) -> io::Result<()> {
    let (to, trust) = (scene.front(), scene.trust()?);
    paced(scene, 113, |number| {
        let trust = trust.clone();
        std::thread::spawn(move || {
            let name = format!("wrong-{number}");
            let hello = Hello { id: &name, user: Some(("user-0", &name)), ..Hello::default() };
            log_in(to, trust, &hello.packet()).map(|(_, code)| code).ok()
        })
    })?
    .into_iter()
    .try_for_each(|thread| {
        let code = thread.join().expect("it does not panic");
        scene.refused(code.map_or("closed".into(), |code| format!("CONNACK {code:#04x}")));
        Ok(())
    })
}

/// Does something so many times a second for the length of the attack.
fn paced<T>(scene: &Scene, per_second: u32, mut each: impl FnMut(u32) -> T) -> io::Result<Vec<T>> {
    let begin = Instant::now();
    let count = per_second * scene.pick(6, 15) as u32;
    let done = (0..count).map(|number| {
        let due = begin + Duration::from_secs_f64(f64::from(number) / f64::from(per_second));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        scene.connects(1);
        each(number)
    });
    Ok(done.collect())
}

/// Sockets that connect to the listener with TLS and say nothing.
pub(super) fn idle_tls(scene: &Scene) -> io::Result<()> {
    let held = paced(scene, 300, |_| Peer::silent(scene.front()).ok())?;
    scene.told(Ok(held.iter().flatten().count() as u64));
    Ok(())
}

/// 10,050 sockets that say nothing.
pub(super) fn silent(scene: &Scene) -> io::Result<()> {
    let mut held = Vec::new();
    for _ in 0..10_050 {
        scene.connects(1);
        match Peer::silent(scene.front()) {
            Ok(peer) => held.push(peer),
            Err(error) => scene.refused(format!("connect: {}", error.kind())),
        }
    }
    scene.rest(Duration::from_secs(scene.pick(3, 20)));
    let closed = held.iter().filter(|peer| {
        let _ = peer.stream.set_nonblocking(true);
        matches!((&peer.stream).read(&mut [0]), Ok(0))
    });
    for _ in closed {
        scene.refused("closed".to_owned());
    }
    Ok(())
}

/// CONNECTs of which the last byte never comes.
pub(super) fn partial_connects(scene: &Scene) -> io::Result<()> {
    let will = vec![b'x'; 60_000];
    let mut held = Vec::new();
    for number in 0..1_500 {
        scene.connects(1);
        let id = format!("partial-{number}");
        let hello = Hello { id: &id, will: Some(("w", &will)), ..Hello::default() }.packet();
        let mut peer = Peer::silent(scene.front())?;
        if let Err(error) = peer.say(&hello[..hello.len() - 1]) {
            scene.refused(format!("closed ({})", error.kind()));
        }
        held.push(peer);
    }
    scene.rest(Duration::from_secs(scene.pick(2, 5)));
    Ok(())
}

/// 140 clients whose publish of a megabyte stops at 700 kB.
pub(super) fn partial_publishes(scene: &Scene) -> io::Result<()> {
    let whole = publish("partial", Some(1), false, &vec![b'x'; 1_000_000]);
    let mut held = Vec::new();
    for number in 0..140 {
        let mut peer = scene.log_in(&format!("partial-{number}"), false)?;
        peer.stream.set_write_timeout(Some(Duration::from_millis(200)))?;
        if let Err(error) = peer.say(&whole[..700_000]) {
            scene.refused(format!("not read ({})", error.kind()));
        }
        held.push(peer);
    }
    scene.rest(Duration::from_secs(scene.pick(4, 12)));
    Ok(())
}

/// 10,050 sessions that are to be kept: is the one that was there before still there?
pub(super) fn evict_session(scene: &Scene) -> io::Result<()> {
    let victim = Hello { id: "victim", stays: true, ..Hello::default() };
    let mut peer = scene.log_in_as(victim)?;
    peer.say(&subscribe(["wanted"]))?;
    peer.hear_kind(0x90, |_, _| ())?;
    peer.say(&[0xe0, 0])?;
    drop(peer);
    for number in 0..10_050 {
        if let Ok(peer) = scene.log_in(&format!("evicts-{number}"), true) {
            peer.reset();
        }
    }
    let (_, code, is_there) = Peer::log_in(scene.front(), victim)?;
    scene.balance("the session of a client that is away", 1, u64::from(code == 0 && is_there));
    Ok(())
}

/// Another address than that of who is served meanwhile.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// 65,535 client ids of one address, each with a record that cannot go anywhere: may somebody new publish?
pub(super) fn client_ids(scene: &Scene) -> io::Result<()> {
    const PROCESSES: u32 = 4;
    std::thread::scope(|threads| {
        for part in 0..PROCESSES {
            threads.spawn(move || {
                for number in (part..65_535).step_by(PROCESSES as usize) {
                    let id = &*format!("c{number}");
                    let hello = Hello { id, from: Some(ELSEWHERE), ..Hello::default() };
                    let Ok(mut peer) = scene.log_in_as(hello) else { continue };
                    let message = [("t".to_owned(), vec![b'x'])];
                    let refused = |word| scene.refused(word);
                    scene.told(peer.publish_all(message, false, refused));
                    peer.reset();
                }
            });
        }
    });
    let mut newcomer = scene.log_in("newcomer", false)?;
    let message = [("t".to_owned(), vec![b'x'])];
    let taken =
        newcomer.publish_all(message, false, |word| scene.refused(format!("newcomer: {word}")));
    scene.balance("the publish of somebody new", 1, taken.unwrap_or_default());
    Ok(())
}

/// One address fills the log while nothing can be sent: may somebody new publish?
pub(super) fn fill_log(scene: &Scene) -> io::Result<()> {
    const CLIENTS: usize = 8;
    let each = scene.pick(20, 80);
    std::thread::scope(|threads| {
        for number in 0..CLIENTS {
            threads.spawn(move || {
                let id = &*format!("fills-{number}");
                let hello = Hello { id, from: Some(ELSEWHERE), ..Hello::default() };
                let Ok(mut peer) = scene.log_in_as(hello) else { return };
                let message = || ("t".to_owned(), vec![b'x'; 500_000]);
                let messages = (0..each).map(|_| message());
                scene.told(peer.publish_all(messages, false, |word| scene.refused(word)));
            });
        }
    });
    let mut newcomer = scene.log_in("newcomer", false)?;
    let message = [("t".to_owned(), vec![b'x'; 100_000])];
    let taken =
        newcomer.publish_all(message, false, |word| scene.refused(format!("newcomer: {word}")));
    scene.balance("the durable publish of somebody new", 1, taken.unwrap_or_default());
    Ok(())
}

/// Clients that leave by DISCONNECT and are back at once: wills that nobody is to see, publishes that all are.
pub(super) fn take_over(scene: &Scene) -> io::Result<()> {
    const EACH: u64 = 30;
    let (wills, rounds) = (scene.pick(200, 1_000), scene.pick(20, 100) as u64);
    let mut reader = scene.log_in("reads-all", false)?;
    reader.say(&subscribe(["wills", "left"]))?;
    reader.hear_kind(0x90, |_, _| ())?;
    for _ in 0..wills {
        let hello = Hello { id: "leaves", will: Some(("wills", b"x")), ..Hello::default() };
        let mut peer = scene.log_in_as(hello)?;
        peer.say(&[0xe0, 0])?;
        scene.log_in_as(Hello { id: "leaves", ..Hello::default() })?.say(&[0xe0, 0])?;
    }
    for _ in 0..rounds {
        let mut peer = scene.log_in("leaves-too", false)?;
        let mut bytes = publish("left", None, false, b"x").repeat(EACH as usize);
        bytes.extend([0xe0, 0]);
        peer.say(&bytes)?;
        scene.log_in("leaves-too", false)?.say(&[0xe0, 0])?;
    }
    reader.stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let (mut seen, mut left) = (0, 0);
    while let Ok(body) = reader.hear_kind(0x30, |_, _| ()) {
        match body.get(2..6) {
            Some(b"will") => seen += 1,
            _ => left += 1,
        }
    }
    scene.balance("wills unseen after DISCONNECT", wills as u64, wills as u64 - seen);
    scene.balance("publishes before DISCONNECT", rounds * EACH, left);
    Ok(())
}
