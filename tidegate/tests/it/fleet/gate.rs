//! A node of the fleet in this process: its cloud is a channel, its neighbours are real links.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate::assembly::drivers::start_output;
use tidegate::assembly::{self, Assembled};
use tidegate::config::read;
use tidegate::link::Links;
use tidegate::node::contract::{Notice, Order, OutputPort, Source};
use tidegate::services::fleet::FleetTls;
use tidegate_node::io::{PathSample, PathState};
use tidegate_testbed::free_port;
use tidegate_types::record::{Offered, Properties, Record, Token};
use tidegate_types::units::Size;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fleet::PATIENCE;
use crate::support::certificates::{Authority, Issued};

pub(crate) fn tls(authority: &Authority, own: &Issued) -> FleetTls {
    let Issued { certificate, key } = own.clone();
    FleetTls { ca: authority.ca(), certificate, key }
}

/// Who is in the fleet: names and ports.
pub(crate) struct Plan {
    pub(crate) authority: Authority,
    /// The port of each.
    pub(crate) orchestrators: Vec<u16>,
    pub(crate) gates: Vec<(&'static str, u16)>,
    /// Whether nodes are told of each other by their configuration, or find each other.
    pub(crate) is_named: bool,
    /// Whether they keep logs.
    pub(crate) has_logs: bool,
}

impl Plan {
    pub(crate) fn new(name: &str, gates: &[&'static str]) -> Plan {
        let gates = gates.iter().map(|gate| (*gate, free_port())).collect();
        Plan {
            authority: Authority::new(name),
            orchestrators: vec![free_port()],
            gates,
            is_named: true,
            has_logs: false,
        }
    }

    /// The folder of a node's log.
    pub(crate) fn log(&self, own: &str) -> PathBuf {
        self.authority.file(&format!("log-{own}"))
    }

    /// The configuration of a node whose uplink carries 800 kbit/s.
    fn config(&self, own: &str) -> String {
        let files = self.authority.issue(own);
        let (_, port) = self.gates.iter().find(|(name, _)| *name == own).unwrap();
        let orchestrators: Vec<String> =
            self.orchestrators.iter().map(|port| format!("localhost:{port}")).collect();
        let mut text = format!(
            "[node]\nname = {own:?}\n[http]\nlisten = []\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
             [[stream]]\ntopics = [\"alarm/#\"]\nclass = \"ls\"\n\
             [[output]]\nname = \"cloud\"\namqp = {{ url = \"amqp://127.0.0.1\" }}\n\
             rate = \"800kbit\"\nlaw = \"known\"\n\
             [fleet]\norchestrators = {orchestrators:?}\nlisten = \"127.0.0.1:{port}\"\n\
             ca = {:?}\ncertificate = {:?}\nkey = {:?}\n",
            self.authority.ca(),
            files.certificate,
            files.key,
        );
        if self.has_logs {
            // What follows belongs to the last table.
            text = format!("[log]\ndirectory = {:?}\n{text}", self.log(own));
        }
        if !self.is_named {
            return text + &format!("advertise = \"localhost:{port}\"\nplaces = 1\n");
        }
        for (name, port) in self.gates.iter().filter(|(name, _)| *name != own) {
            text += &format!("[[fleet.peer]]\nname = {name:?}\nto = \"127.0.0.1:{port}\"\n");
        }
        text
    }
}

/// A node, and what its uplink has carried.
pub(crate) struct Gate {
    pub(crate) node: Assembled,
    pub(crate) carried: mpsc::UnboundedReceiver<Arc<Record>>,
}

impl Gate {
    pub(crate) async fn start(plan: &Plan, name: &str) -> Gate {
        let text = plan.config(name);
        let reading = read(&text);
        assert_eq!(reading.render("gate.toml", &text), "");
        let config = reading.config;
        let (sender, carried) = mpsc::unbounded_channel();
        let (with_peers, links) = (config.with_peers(), Links::default());
        let node = assembly::start_with(&config, links.clone(), |output, port, tasks| {
            if output.link.is_some() {
                return start_output(output, &with_peers, &links, port, tasks).map(drop);
            }
            let sender = sender.clone();
            tasks.spawn(async move {
                carry(port, sender).await;
                Ok(())
            });
            Ok(())
        });
        Gate { node: node.await.unwrap(), carried }
    }

    /// A record that its uplink has carried.
    pub(crate) async fn record(&mut self) -> Arc<Record> {
        timeout(PATIENCE, self.carried.recv()).await.expect("a record in time").unwrap()
    }
}

/// An uplink that takes what it is given and confirms it at once: the node keeps it to its rate.
async fn carry(mut port: OutputPort, records: mpsc::UnboundedSender<Arc<Record>>) {
    for lane in 0..port.lanes {
        port.feedback.path_state(lane, PathState::Up).await.unwrap();
    }
    let mut delivered: BTreeMap<u8, u64> = BTreeMap::new();
    while let Some(order) = port.orders.recv().await {
        let order = match order {
            Order::Transmit(order) => order,
            Order::Cancel(_) => continue,
            Order::Stop => return,
        };
        let bytes = order.end - order.start;
        let sum = delivered.entry(order.lane).or_default();
        *sum += bytes;
        let delivered = Size(*sum);
        let rtt = Some(Duration::from_millis(1));
        let sample = PathSample { rtt, delivered, ..PathSample::default() };
        let is_last = order.end >= order.size;
        let told = async {
            port.feedback.sent(order.id, Size(bytes)).await?;
            port.feedback.sample(order.lane, sample).await?;
            if is_last {
                let _ = records.send(order.record.clone());
                port.feedback.confirmed(vec![order.id]).await?;
            }
            Ok::<(), tidegate::node::contract::Stopping>(())
        };
        if told.await.is_err() {
            return;
        }
    }
}

/// A source of records of 1,000 bytes.
pub(crate) struct Load {
    source: Source,
    pub(crate) sent: u64,
}

impl Load {
    pub(crate) async fn open(gate: &Gate) -> Load {
        Load { source: gate.node.running.intake.open("sensor".into()).await.unwrap(), sent: 0 }
    }

    /// Offers one, and waits until it is accepted.
    pub(crate) async fn send(&mut self, key: &str) {
        self.sent += 1;
        let record = Offered {
            source: self.source.id(),
            token: Some(Token(self.sent)),
            key: Bytes::copy_from_slice(key.as_bytes()),
            properties: Properties::default(),
            payload: vec![7; 1000].into(),
            read_at: self.source.now(),
            source_unix_ns: Some(self.sent),
            ttl: None,
            packet: None,
            foreign: None,
        };
        self.source.offer(vec![record]).await.unwrap();
        loop {
            match timeout(PATIENCE, self.source.notice()).await.expect("an answer").unwrap() {
                Notice::Accept(token, result) => {
                    assert_eq!((token, result), (Token(self.sent), Ok(())));
                    return;
                }
                Notice::Pause | Notice::Resume | Notice::Ready | Notice::Released(_) => {}
            }
        }
    }
}
