//! The HTTP server before a real node without records.

use std::net::SocketAddr;

use tidegate::assemble::{self, node_options};
use tidegate::config::{HttpConfig, read};
use tidegate::drive::{self, Running};
use tidegate::http::{Site, serve};
use tidegate::port::{Clock, OutputPort};
use tidegate::script::Scripts;
use tidegate::status::StatusSource;
use tidegate::status::view::NodeView;
use tidegate_node::io::PathState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn node() -> (Running, Vec<OutputPort>, Site, SocketAddr) {
    let config = read("[node]\nname = \"gate-7\"").config;
    let (running, ports) = drive::start(
        node_options(&config, 7, 0).unwrap(),
        Clock::start(),
        None,
        Scripts::default(),
    )
    .unwrap();
    let site = Site::new(StatusSource::new(running.status.clone()));
    let (address, _) =
        serve(([127, 0, 0, 1], 0).into(), site.clone(), (&config.http).into()).await.unwrap();
    (running, ports, site, address)
}

async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn fetch(address: SocketAddr, path: &str) -> (u16, String) {
    let answer = ask(address, &format!("GET {path} HTTP/1.0\r\n\r\n")).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn status_says_when_each_output_confirms() {
    let text = "[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n[[output]]\nname = \"away\"\n\
        sink = { discard = true }\n[[output]]\nmqtt = { url = \"mqtt://127.0.0.1:1\" }\n";
    let node = assemble::start(&read(text).config).await.unwrap();
    let view = NodeView::from(&StatusSource::new(node.running.status.clone()).get().await.unwrap());
    let said: Vec<_> = view.outputs.iter().map(|output| output.confirms.as_str()).collect();
    assert_eq!(said[0], "at once: nothing is kept");
    assert!(said[1].starts_with("when the broker acknowledges it"), "{said:?}");
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["outputs"][0]["confirms"], said[0]);
}

#[tokio::test]
async fn status_is_json_and_metrics_are_text() {
    let (_running, _ports, _site, address) = node().await;
    let (code, json) = fetch(address, "/status").await;
    let view: NodeView = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (code, view.node.as_str(), view.incarnation.as_str()),
        (200, "gate-7", "0000000000000007")
    );
    assert_eq!(
        view.classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>(),
        ["ls", "nm", "lt"]
    );
    assert_eq!(view.lost_deliveries, 0);
    let (code, text) = fetch(address, "/metrics").await;
    assert_eq!(code, 200);
    for metric in tidegate::metrics::ALL {
        // A node by itself has no part in a fleet or a group and leads none, has no mirror and is none, this one has no
        // camera, no operator and no script, and it is no proxy.
        let elsewhere = [
            "tidegate_camera_",
            "tidegate_frames_",
            "tidegate_fleet_",
            "tidegate_group_",
            "tidegate_mirror_",
            "tidegate_operator_",
            "tidegate_orchestrator_",
            "tidegate_proxy_",
            "tidegate_script_",
        ];
        let is_here = !elsewhere.iter().any(|start| metric.name.starts_with(start));
        let is_encoded = text.contains(&format!("# HELP {} ", metric.name));
        assert_eq!(is_encoded, is_here, "{}", metric.name);
    }
    let known =
        |line: &str| tidegate::metrics::ALL.iter().any(|metric| line.starts_with(metric.name));
    assert!(text.lines().filter(|line| !line.starts_with('#')).all(known));
    assert!(text.contains("tidegate_stream_dropped_deliveries_total{stream=\"default\",class=\"lt\",reason=\"full\"} 0\n"));
}

#[tokio::test]
async fn ready_needs_listeners_and_a_lane_of_each_output() {
    let (_running, ports, site, address) = node().await;
    assert_eq!(fetch(address, "/healthz").await, (200, "alive\n".into()));
    let (code, missing) = fetch(address, "/readyz").await;
    assert_eq!(code, 503);
    assert!(missing.contains("listeners") && missing.contains("output sink"), "{missing}");
    site.listeners_are_bound();
    ports[0].feedback.path_state(0, PathState::Up).await.unwrap();
    // A snapshot is shown for a second; a site of its own has none yet.
    let fresh = Site::new(StatusSource::new(_running.status.clone()));
    fresh.listeners_are_bound();
    let (address, _) =
        serve(([127, 0, 0, 1], 0).into(), fresh, (&HttpConfig::default()).into()).await.unwrap();
    assert_eq!(fetch(address, "/readyz").await, (200, "ready\n".into()));
}

#[tokio::test]
async fn other_requests_are_refused() {
    let (running, _ports, _site, address) = node().await;
    assert_eq!(fetch(address, "/nothing").await.0, 404);
    let posted = ask(address, "POST /status HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}").await;
    assert!(posted.starts_with("HTTP/1.0 405"), "{posted}");
    let garbage = ask(address, "\0\0\0\r\n\r\n").await;
    assert!(garbage.starts_with("HTTP/1.1 400"), "{garbage}");
    let (code, page) = fetch(address, "/").await;
    assert!(code == 200 && page.contains("<!doctype html>"));
    drop(running);
}
