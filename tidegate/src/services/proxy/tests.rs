//! The proxy with real clients and servers on loopback.

mod clocks;
mod paper;
mod peers;
mod plain;
mod protocols;
mod reload;
mod shares;
mod standards;

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use self::peers::{Client, Upstream};
use super::listener::Guest;
use super::run::{Running, start};
use crate::config::{Config, read};

/// A proxy of this configuration; `PORT` stands for a free port.
fn proxy(text: &str) -> Running {
    start(&config(text), Guest::Client).unwrap()
}

fn config(text: &str) -> Config {
    let text = text.replace("PORT", "127.0.0.1:0");
    let reading = read(&text);
    assert_eq!(reading.counts().0, 0, "{}", reading.render("test", &text));
    let mut config = reading.config;
    config.proxy.threads.get_or_insert(1);
    config
}

fn address(running: &Running) -> SocketAddr {
    running.listens()[0].0
}

/// Everything of a proxy lives on one thread.
pub(super) fn on_one_thread(test: impl Future<Output = ()>) {
    on_one_thread_of(tokio::runtime::Builder::new_current_thread(), test);
}

/// The same, on a runtime of one thread that is built so.
fn on_one_thread_of(mut runtime: tokio::runtime::Builder, test: impl Future<Output = ()>) {
    let runtime = runtime.enable_all().build().unwrap();
    let tasks = LocalSet::new();
    let limit = std::time::Duration::from_secs(60);
    let test = async { tokio::time::timeout(limit, test).await.expect("no test takes as long") };
    tasks.block_on(&runtime, test);
}

/// A file with a script, for as long as it lives.
pub(super) struct ScriptFile(std::path::PathBuf);

impl ScriptFile {
    pub(super) fn new(name: &str, text: &str) -> ScriptFile {
        let name = format!("tidegate-proxy-{name}-{}.luau", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        ScriptFile(path)
    }

    pub(super) fn path(&self) -> &std::path::Path {
        &self.0
    }

    /// Its section, with more lines; a call may take as long as a loaded machine needs.
    pub(super) fn section(&self, more: &str) -> String {
        let file = self.0.display().to_string();
        let time = if more.contains("time =") { "" } else { "time = \"100ms\"\n" };
        format!("[[script]]\nname = \"s\"\nfile = {file:?}\n{time}{more}\n")
    }
}

impl Drop for ScriptFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One listener, one upstream `app`, one route with more lines.
fn simple(upstream: SocketAddr, route: &str) -> String {
    format!(
        "[[proxy.listener]]\nlisten = \"PORT\"\n[[proxy.upstream]]\nname = \"app\"\n\
         to = [\"{upstream}\"]\n[[proxy.route]]\n{route}\n"
    )
}

/// What is answered to these bytes until the proxy closes the connection.
async fn raw(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // What is refused may be reset before all of it was read.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).header("host", "app.example").body(Full::default()).unwrap()
}

fn post(path: &str, body: &'static str) -> Request<Full<Bytes>> {
    let body = Full::from(Bytes::from_static(body.as_bytes()));
    Request::post(path).header("host", "app.example").body(body).unwrap()
}

async fn text(response: Response<hyper::body::Incoming>) -> (StatusCode, String) {
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// What the proxy's node says once nothing is under way.
pub(super) fn is_settled(running: &Running) -> bool {
    let status = running.hall.status();
    status.held == 0 && status.counts.lost(status.held) == 0
}
