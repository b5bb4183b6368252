//! Clients of others: paho, and a publisher that is killed again and again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tidegate_types::record::Body;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::mqtt::node::{Node, Seen};
use crate::mqtt::soon;

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mqtt").join(name)
}

/// The Python that runs this program: the first one of the path, or the system's, for which packages
/// are installed.
pub(crate) async fn python(program: &str) -> Option<&'static str> {
    for python in ["python3", "/usr/bin/python3"] {
        let mut command = Command::new(python);
        let run = command.args(["-c", program]).stdout(Stdio::null()).stderr(Stdio::null());
        if run.status().await.is_ok_and(|status| status.success()) {
            return Some(python);
        }
    }
    None
}

/// How often each number came, up to now.
fn numbers(node: &mut Node, seen: &mut [u32]) {
    while let Some(next) = node.seen_now() {
        let Seen::Record(record) = next else { continue };
        let Body::Resident(bytes) = record.body else { panic!() };
        let number = u32::from_be_bytes(bytes[..].try_into().unwrap());
        seen[number as usize] += 1;
    }
}

#[tokio::test]
async fn a_killed_publisher_is_heard_once() {
    const COUNT: usize = 400;
    let Some(python) = python("pass").await else {
        println!("skipped: needs python3, not found");
        return;
    };
    let mut node = Node::start().await;
    let state = std::env::temp_dir().join(format!("tidegate-qos2-{}", std::process::id()));
    let mut kills = 0;
    loop {
        let mut command = Command::new(python);
        command.arg(script("qos2_client.py")).arg(node.address().port().to_string());
        let mut client = command.arg(&state).arg(COUNT.to_string()).spawn().unwrap();
        // Not in step with anything, and longer each time, so that it ends.
        let patience = Duration::from_millis(83 + 29 * kills);
        match timeout(patience, client.wait()).await {
            Ok(status) => {
                assert!(status.unwrap().success());
                break;
            }
            // SIGKILL.
            Err(_) => client.kill().await.unwrap(),
        }
        kills += 1;
    }
    let _ = std::fs::remove_file(&state);
    let mut seen = vec![0; COUNT];
    numbers(&mut node, &mut seen);
    println!("{COUNT} publishes with QoS 2, {kills} kills");
    assert!(kills > 2, "{kills} kills");
    assert!(seen.iter().all(|&times| times == 1), "{seen:?}");
}

/// Passes bytes on, and breaks every connection after a while, as long as there are breaks left.
async fn breaking(to: SocketAddr, breaks: u32) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        for round in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(to).await.unwrap();
            let pass = copy_bidirectional(&mut client, &mut server);
            let patience = if round < breaks { 20 + 7 * round } else { u32::MAX };
            let _ = timeout(Duration::from_millis(patience.into()), pass).await;
        }
    });
    (address, task)
}

#[tokio::test]
async fn paho_is_served_through_broken_connections() {
    const COUNT: usize = 300;
    let Some(python) = python("import paho.mqtt.client").await else {
        println!("skipped: needs paho for python3 (python3-paho-mqtt), not found");
        return;
    };
    for (version, qos) in [(4, 0), (4, 1), (4, 2), (5, 0), (5, 1), (5, 2)] {
        let mut node = Node::start().await;
        let (address, proxy) = breaking(node.address(), if qos == 0 { 0 } else { 5 }).await;
        let mut command = Command::new(python);
        command.arg(script("paho_client.py")).arg(address.port().to_string());
        let arguments = [version, qos, COUNT as u32].map(|number| number.to_string());
        let status = timeout(Duration::from_secs(200), command.args(arguments).status()).await;
        assert!(status.unwrap().unwrap().success(), "version {version}, QoS {qos}");
        let mut seen = vec![0; COUNT];
        soon("the last number, which may still be on its way", async {
            while seen[COUNT - 1] == 0 {
                numbers(&mut node, &mut seen);
                tokio::task::yield_now().await;
            }
        })
        .await;
        let (least, most) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
        println!("paho, version {version}, QoS {qos}: each came {least} to {most} times");
        assert!(*least == 1 && (qos == 1 || *most == 1), "{seen:?}");
        proxy.abort();
    }
}
