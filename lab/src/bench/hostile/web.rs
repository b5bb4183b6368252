//! Attacks on the status page and on the proxy by HTTP.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Scene;
use crate::bench::sidecar::load::{Load, send};

/// 64 clients that ask the status page again and again and read no answer.
pub(super) fn healthz_unread(scene: &Scene) -> io::Result<()> {
    let asks = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\n\r\n", scene.http()).repeat(2_000);
    let mut held = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(scene.http())?;
        scene.connects(1);
        stream.set_write_timeout(Some(Duration::from_millis(50)))?;
        if let Err(error) = stream.write_all(asks.as_bytes()) {
            scene.refused(format!("not read ({})", error.kind()));
        }
        held.push(stream);
    }
    scene.rest(Duration::from_secs(scene.pick(3, 15)));
    Ok(())
}

/// 64 clients of the status page whose request never ends.
pub(super) fn healthz_partial(scene: &Scene) -> io::Result<()> {
    let mut held = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(scene.http())?;
        scene.connects(1);
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nx: ")?;
        held.push(stream);
    }
    for _ in 0..scene.pick(6, 24) {
        scene.rest(Duration::from_millis(500));
        held.retain_mut(|stream| stream.write_all(b"y").is_ok());
    }
    Ok(())
}

/// Heads of 60 kB that never end.
pub(super) fn proxy_heads(scene: &Scene) -> io::Result<()> {
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "y".repeat(60_000));
    let mut held = Vec::new();
    for _ in 0..scene.pick(1_000, 9_000) {
        let mut stream = TcpStream::connect(scene.front())?;
        scene.connects(1);
        stream.set_write_timeout(Some(Duration::from_millis(200)))?;
        match stream.write_all(head.as_bytes()) {
            Ok(()) => held.push(stream),
            Err(error) => scene.refused(format!("closed ({})", error.kind())),
        }
    }
    scene.rest(Duration::from_secs(2));
    Ok(())
}

/// 1,000 kept connections, each with a request every ten seconds, at random: none may fail.
pub(super) fn kept(scene: &Scene) -> io::Result<()> {
    let load = Load {
        to: scene.front(),
        connections: 1_000,
        per_second: 100.0,
        warm_up: Duration::ZERO,
        counted: Duration::from_secs(scene.pick(15, 60)),
        seed: 1,
    };
    scene.connects(1_000);
    let answered = Handle::current().block_on(send(load, || ())).map_err(io::Error::other)?;
    let good = answered.took.len() as u64;
    answered.why.into_keys().for_each(|why| scene.refused(why));
    scene.balance("requests on kept connections", good + answered.failed, good);
    Ok(())
}
