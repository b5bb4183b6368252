//! Where a script can run: a node between MQTT clients, the HTTP sidecar, behind an unpatched Envoy. A new place is a
//! name here, and how it is started and sent to.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use tidegate_testbed::free_address;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::bench::adapt::http::{self, Message};
use crate::bench::adapt::{broker, connect};
use crate::load::mqtt::{Hello, Packet, Reader, Writer, hello};
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;
use crate::rig;
use crate::rig::envoy;
use crate::rig::versions::Program;

/// For a process to start, and for an answer.
const START: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(10);
/// Names of the far ends: the paper's script looks for them.
pub(super) const CLOUD: &str = "cloud-detector";
const EDGE: &str = "edge-detector";

tidegate_types::named! {
    /// See the file's header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Place {
        Node = "node",
        Proxy = "proxy",
        /// Envoy, configured by `tidegate envoy-config`, with `tidegate ext-proc`.
        Envoy = "envoy",
    }
}

impl Place {
    /// What it needs beside the product.
    pub(super) fn program(self) -> Option<Program> {
        (self == Place::Envoy).then_some(Program::Envoy)
    }
}

/// What a script needs beside its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    pub(super) script: &'static str,
    pub(super) helper: &'static str,
    /// Keys of `[[script]]`; `SMALL` and `NOTIFY` stand for the addresses of the endpoints.
    pub(super) keys: &'static str,
    /// What the way to the cloud carries: a value of `rate`.
    pub(super) rate: Option<&'static str>,
    /// Whether nobody listens in the cloud.
    pub(super) is_cut: bool,
}

/// A message that came somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// A far end, `small` or `notify`.
    pub(super) at: &'static str,
    /// Without its first slash: topics have none.
    pub(super) path: String,
    pub(super) text: String,
}

type Log = Arc<Mutex<Vec<Seen>>>;

enum Entrance {
    Mqtt(Reader, Box<Writer>),
    Http(SocketAddr),
}

/// A place that runs, with everything around it.
pub(super) struct Running {
    entrance: Entrance,
    log: Log,
    _far: JoinSet<()>,
    _processes: Vec<Quiet>,
    _scratch: Scratch,
}

impl Running {
    pub(super) async fn start(place: Place, setup: &Setup) -> anyhow::Result<Running> {
        let (log, mut far) = (Log::default(), JoinSet::new());
        let mut ends = Vec::new();
        for name in [CLOUD, EDGE] {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            ends.push((name, listener.local_addr()?));
            let is_absent = setup.is_cut && name == CLOUD;
            match place {
                _ if is_absent => drop(listener),
                Place::Node => broker::serve(listener, &mut far, 64, taker(name, &log))?,
                Place::Proxy | Place::Envoy => http::serve(listener, &mut far, echo(name, &log))?,
            }
        }
        let mut keys = setup.keys.to_owned();
        for (word, name) in [("SMALL", "small"), ("NOTIFY", "notify")] {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            http::serve(listener, &mut far, echo(name, &log))?;
            keys = keys.replace(word, &format!("http://{address}/{name}"));
        }
        let scratch = Scratch::new()?;
        let file = |name: &str, text: &str| {
            anyhow::Ok(format!("{:?}", scratch.file(name, text)?.display().to_string()))
        };
        let (script, helper) =
            (file("paper.luau", setup.script)?, file("helper.luau", setup.helper)?);
        let script = format!(
            "[[script]]\nname = \"paper\"\nfile = {script}\nhelpers = [{helper}]\n{keys}\n"
        );
        let near = free_address();
        let text = format!("{}{script}", configuration(place, setup, near, &ends));
        let config = scratch.file("config.toml", &text)?;
        let (word, ready, times) = match place {
            Place::Node => ("run", "output is up", ends.len() - usize::from(setup.is_cut)),
            Place::Proxy => ("proxy", "requests at ", 1),
            Place::Envoy => ("ext-proc", "requests at ", 1),
        };
        let mut command = Command::new(rig::tidegate_program()?);
        command.args(["--log", "info", word, "-c"]).arg(&config);
        let mut process = Process::start("tidegate", command)?;
        for _ in 0..times {
            process.says(ready, START).await?;
        }
        let mut processes = vec![process.quietly()];
        let entrance = match place {
            Place::Proxy => Entrance::Http(near),
            Place::Envoy => {
                let clients = free_address();
                processes.push(envoy::start(&scratch, &config, clients).await?.quietly());
                Entrance::Http(clients)
            }
            Place::Node => {
                let (reader, writer, _) =
                    hello(connect(near, START).await?, Hello::new("paper")).await?;
                Entrance::Mqtt(reader, Box::new(writer))
            }
        };
        Ok(Running { entrance, log, _far: far, _processes: processes, _scratch: scratch })
    }

    /// Sends a message; answers with the status and the text of an answer, where there are answers.
    pub(super) async fn send(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<Option<(String, String)>> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        match &mut self.entrance {
            Entrance::Http(address) => {
                let mut stream = TcpStream::connect(*address).await?;
                let request = Message::post(&format!("/{path}"), headers, body);
                let answer = timeout(ANSWER, http::ask(&mut stream, &request)).await??;
                Ok(Some((answer.second().into(), answer.text())))
            }
            Entrance::Mqtt(reader, writer) => {
                writer.publish(path, 1, headers, &body).await?;
                let heard = async {
                    loop {
                        match reader.packet().await?.context("the node has gone")? {
                            Packet::Acknowledged { .. } => break anyhow::Ok(()),
                            _ => continue,
                        }
                    }
                };
                timeout(ANSWER, heard).await??;
                Ok(None)
            }
        }
    }

    /// Waits until something came; answers with whether it did.
    pub(super) async fn saw(&self, is_it: impl Fn(&Seen) -> bool) -> bool {
        let until = Instant::now() + ANSWER;
        loop {
            if self.seen().iter().any(&is_it) {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything that came, in order.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn note(log: &Log, at: &'static str, path: &str, text: String) {
    let seen = Seen { at, path: path.trim_start_matches('/').into(), text };
    log.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
}

fn taker(at: &'static str, log: &Log) -> broker::Handler {
    let log = log.clone();
    Arc::new(move |came| {
        note(&log, at, &came.topic, String::from_utf8_lossy(&came.payload).into_owned());
        Instant::now()
    })
}

/// Answers with what was asked; one that makes payloads smaller says `small`.
fn echo(at: &'static str, log: &Log) -> http::Handler {
    let log = log.clone();
    Arc::new(move |request| {
        note(&log, at, request.second(), request.text());
        let is_small = at == "small";
        Message::answer(200, if is_small { Bytes::from_static(b"small") } else { request.body })
    })
}

fn configuration(
    place: Place,
    setup: &Setup,
    near: SocketAddr,
    ends: &[(&'static str, SocketAddr)],
) -> String {
    // A proxy knows a rate that it is given; a node takes it for a cap unless it is told to know it.
    let law = if place == Place::Node { "law = \"known\"\n" } else { "" };
    let rate = |name: &str| match setup.rate.filter(|_| name == CLOUD) {
        Some(rate) => format!("rate = \"{rate}\"\n{law}"),
        None => String::new(),
    };
    let each = |text: &dyn Fn(&str, SocketAddr) -> String| -> String {
        ends.iter().map(|(name, address)| text(name, *address) + &rate(name)).collect()
    };
    match place {
        Place::Node => {
            let outputs = each(&|name, address| {
                format!(
                    "[[output]]\nname = \"{name}\"\nuplink = \"{name}\"\nmqtt = {{ url = \"mqtt://{address}\" }}\n"
                )
            });
            format!(
                "[node]\nname = \"edge\"\n[http]\nlisten = []\n[[input]]\nmqtt = {{ listen = \"{near}\" }}\n\
                 [[stream]]\nscript = \"paper\"\nto = [\"{CLOUD}\"]\n{outputs}"
            )
        }
        Place::Proxy | Place::Envoy => {
            let upstreams = each(&|name, address| {
                format!("[[proxy.upstream]]\nname = \"{name}\"\nto = [\"{address}\"]\n")
            });
            format!(
                "[http]\nlisten = []\n[[proxy.listener]]\nlisten = \"{near}\"\n{upstreams}\
                 [[proxy.route]]\nto = \"{CLOUD}\"\nscript = \"paper\"\ndropped = 504\n"
            )
        }
    }
}
