//! Nodes in this process: an edge with a link output, and a far node that keeps what it delivers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tidegate::assembly::{self, Assembled};
use tidegate::config::read;
use tidegate::node::contract::{Notice, Order, OutputPort, Source};
use tidegate_node::io::PathState;
use tidegate_types::record::{Identity, Offered, Properties, Record, Token};
use tidegate_types::units::Size;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::link::PATIENCE;
use crate::support::certificates::{Authority, Issued};

/// The keys of one end.
pub(crate) fn files(authority: &Authority, own: &Issued) -> String {
    let show = |path: &Path| path.display().to_string();
    format!(
        "ca = {:?}, certificate = {:?}, key = {:?}",
        show(&authority.ca()),
        show(&own.certificate),
        show(&own.key)
    )
}

/// A node whose output hands over what it delivers.
pub(crate) struct Far {
    pub(crate) node: Assembled,
    records: mpsc::UnboundedReceiver<Arc<Record>>,
}

impl Far {
    /// Listens at `listen`; `more` are further keys of the link.
    pub(crate) async fn start(files: &str, listen: &str, more: &str) -> Far {
        Far::start_with(files, listen, more, "").await
    }

    /// With further sections.
    pub(crate) async fn start_with(files: &str, listen: &str, more: &str, sections: &str) -> Far {
        let text = format!(
            "[node]\nname = \"far\"\n[http]\nlisten = []\n{sections}\
             [[input]]\nlink = {{ listen = {listen:?}, {files}{more} }}\n\
             [[output]]\nsink = {{ discard = true }}\n"
        );
        let reading = read(&text);
        assert_eq!(reading.render("far.toml", &text), "");
        let (sender, records) = mpsc::unbounded_channel();
        let node = assembly::start_with(
            &reading.config,
            tidegate::link::Links::default(),
            |_, port, tasks| {
                let sender = sender.clone();
                tasks.spawn(async move {
                    keep(port, sender).await;
                    Ok(())
                });
                Ok(())
            },
        );
        Far { node: node.await.unwrap(), records }
    }

    /// The address of the first listener.
    pub(crate) fn address(&self) -> String {
        self.node.links[0].to_string()
    }

    /// The next record.
    pub(crate) async fn record(&mut self) -> Arc<Record> {
        timeout(PATIENCE, self.records.recv()).await.expect("a record in time").unwrap()
    }

    /// What came and was not asked for.
    pub(crate) fn more(&mut self) -> usize {
        std::iter::from_fn(|| self.records.try_recv().ok()).count()
    }
}

/// An output that confirms everything.
async fn keep(mut port: OutputPort, records: mpsc::UnboundedSender<Arc<Record>>) {
    for lane in 0..port.lanes {
        port.feedback.path_state(lane, PathState::Up).await.unwrap();
    }
    while let Some(order) = port.orders.recv().await {
        match order {
            Order::Transmit(order) => {
                if port.feedback.sent(order.id, Size(order.end - order.start)).await.is_err() {
                    return;
                }
                if order.end >= order.size {
                    let _ = records.send(order.record.clone());
                    if port.feedback.confirmed(vec![order.id]).await.is_err() {
                        return;
                    }
                }
            }
            Order::Cancel(_) => {}
            Order::Stop => return,
        }
    }
}

/// A node with a link to `to`; `more` are further keys of the link.
/// An edge node. Its bounds are wide, so that no record is late on a slow machine: late ones wait behind live ones,
/// and would come out of order.
pub(crate) async fn edge(files: &str, to: &str, more: &str) -> Assembled {
    edge_with(files, to, more, "").await
}

/// With further sections.
pub(crate) async fn edge_with(files: &str, to: &str, more: &str, sections: &str) -> Assembled {
    let text = format!(
        "[node]\nname = \"gate-7\"\n[http]\nlisten = []\n{sections}\
         [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
         [[class]]\nname = \"ls\"\nlatency = \"10m\"\n[[class]]\nname = \"lt\"\nlatency = \"15m\"\n\
         [[stream]]\ntopics = [\"alarm/#\"]\nclass = \"ls\"\n\
         [[output]]\nname = \"far\"\nlink = {{ to = {to:?}, {files}{more} }}\n"
    );
    let reading = read(&text);
    assert_eq!(reading.render("edge.toml", &text), "");
    assembly::start(&reading.config).await.unwrap()
}

/// A sender of records at a node.
pub(crate) struct Sender {
    source: Source,
    sent: u64,
}

impl Sender {
    pub(crate) async fn open(node: &Assembled, name: &str) -> Sender {
        Sender { source: node.running.intake.open(name.into()).await.unwrap(), sent: 0 }
    }

    /// Offers a record of so many bytes, whose payload begins with its number, and waits until it is
    /// accepted.
    pub(crate) async fn send(&mut self, key: &str, size: usize) {
        self.sent += 1;
        let mut payload = self.sent.to_le_bytes().to_vec();
        payload.resize(size.max(8), self.sent as u8);
        let record = Offered {
            source: self.source.id(),
            token: Some(Token(self.sent)),
            key: Bytes::copy_from_slice(key.as_bytes()),
            properties: Properties::new(vec![("unit".into(), "bar".into())]),
            payload: payload.into(),
            read_at: self.source.now(),
            source_unix_ns: Some(self.sent),
            ttl: None,
            foreign: None,
            packet: None,
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

/// Checks that records come whole, once and in order within their streams.
#[derive(Default)]
pub(crate) struct Checker {
    last: BTreeMap<Bytes, u64>,
    names: BTreeMap<Identity, ()>,
    pub(crate) count: usize,
}

impl Checker {
    pub(crate) fn take(&mut self, record: &Record) {
        let payload = &record.payload;
        let number = u64::from_le_bytes(payload[..8].try_into().unwrap());
        assert!(payload[8..].iter().all(|&byte| byte == number as u8), "the payload is whole");
        assert_eq!(record.source_unix_ns, Some(number));
        assert_eq!(record.properties.find("unit").map(|unit| &unit[..]), Some(&b"bar"[..]));
        assert_eq!(record.properties.find("tidegate-hop").map(|hop| &hop[..]), Some(&b"1"[..]));
        assert_eq!(&*record.identity.origin.node, "gate-7");
        assert!(self.names.insert(record.identity.clone(), ()).is_none(), "{}", record.identity);
        let last = self.last.insert(record.key.clone(), number).unwrap_or(0);
        assert!(number > last, "{:?}: {number} after {last}", record.key);
        self.count += 1;
    }
}
