//! A stand-in for the loop that owns the node: numbers connections, answers offers as it is told.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate::input::mqtt::client::{self, MqttClientOptions};
use tidegate::input::mqtt::{self, MqttControl, MqttOptions};
use tidegate::node::broker::{Hub, HubOptions};
use tidegate::node::contract::counts::InputCounts;
use tidegate::node::contract::{Arrival, Clock, Intake, Notice, NoticeSender};
use tidegate_node::io::{Control, Input};
use tidegate_types::record::{Offered, RefuseReason, SourceId, Token};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::mqtt::soon;

/// What the stand-in saw.
#[derive(Debug)]
pub(crate) enum Seen {
    Open(SourceId, Arc<str>),
    Close(SourceId),
    Record(Offered),
}

/// What the stand-in does with offers that want an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Policy {
    Accept,
    Refuse(RefuseReason),
    /// The test answers.
    Hold,
}

#[derive(Debug)]
enum Command {
    Notify(SourceId, Notice),
    Policy(Policy),
}

/// A running input and its stand-in node.
pub(crate) struct Node {
    pub(crate) addresses: Vec<SocketAddr>,
    /// What the input counts by itself.
    pub(crate) counts: InputCounts,
    /// The broker behind it.
    pub(crate) hub: Hub,
    /// What changes the listener.
    pub(crate) control: Option<MqttControl>,
    seen: mpsc::UnboundedReceiver<Seen>,
    commands: mpsc::UnboundedSender<Command>,
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
}

impl Node {
    /// Starts on loopback with the default options.
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts with changed options.
    pub(crate) async fn with(change: impl FnOnce(&mut MqttOptions)) -> Self {
        Self::on(HubOptions::default(), change).await
    }

    /// Starts with a broker that holds so much, and changed options.
    pub(crate) async fn on(bounds: HubOptions, change: impl FnOnce(&mut MqttOptions)) -> Self {
        let mut options = MqttOptions::new(vec!["127.0.0.1:0".parse().unwrap()]);
        change(&mut options);
        let listener = mqtt::bind(options).await.unwrap();
        let (addresses, control) = (listener.local_addrs(), Some(listener.control()));
        let (arrivals, inbox) = mpsc::channel(64);
        let (commands, orders) = mpsc::unbounded_channel();
        let (report, seen) = mpsc::unbounded_channel();
        tokio::spawn(stand_in(inbox, orders, report));
        let (stop, stopped) = watch::channel(false);
        let intake = Intake::with(arrivals, Clock::start(), Hub::new(bounds));
        let counts = intake.counts().clone();
        let hub = intake.hub().clone();
        let running = tokio::spawn(listener.run(intake, stopped));
        Node { addresses, counts, hub, control, seen, commands, stop, running }
    }

    /// A client of a broker in place of a listener.
    pub(crate) async fn client(options: MqttClientOptions) -> Self {
        let (arrivals, inbox) = mpsc::channel(64);
        let (commands, orders) = mpsc::unbounded_channel();
        let (report, seen) = mpsc::unbounded_channel();
        let ended = tokio::spawn(stand_in(inbox, orders, report));
        let (stop, mut stopped) = watch::channel(false);
        let intake = Intake::new(arrivals, Clock::start());
        let counts = intake.counts().clone();
        let hub = intake.hub().clone();
        let running = tokio::spawn(async move {
            tokio::select! {
                () = client::run(options, intake, Arc::default()) => {}
                _ = stopped.wait_for(|stop| *stop) => ended.abort(),
            }
        });
        let control = None;
        Node { addresses: Vec::new(), counts, hub, control, seen, commands, stop, running }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    pub(crate) async fn seen(&mut self) -> Seen {
        soon("something at the node", self.seen.recv()).await.expect("the stand-in runs")
    }

    /// What was seen and not asked for yet.
    pub(crate) fn seen_now(&mut self) -> Option<Seen> {
        self.seen.try_recv().ok()
    }

    pub(crate) async fn opened(&mut self) -> (SourceId, Arc<str>) {
        match self.seen().await {
            Seen::Open(source, name) => (source, name),
            other => panic!("expected a connection, got {other:?}"),
        }
    }

    pub(crate) async fn closed(&mut self) -> SourceId {
        match self.seen().await {
            Seen::Close(source) => source,
            other => panic!("expected the end of a connection, got {other:?}"),
        }
    }

    pub(crate) async fn record(&mut self) -> Offered {
        match self.seen().await {
            Seen::Record(record) => record,
            other => panic!("expected a record, got {other:?}"),
        }
    }

    pub(crate) fn policy(&self, policy: Policy) {
        self.commands.send(Command::Policy(policy)).unwrap();
    }

    pub(crate) fn notify(&self, source: SourceId, notice: Notice) {
        self.commands.send(Command::Notify(source, notice)).unwrap();
    }

    pub(crate) fn answer(&self, record: &Offered, result: Result<(), RefuseReason>) {
        let token = record.token.expect("the record waits for an answer");
        self.notify(record.source, Notice::Accept(token, result));
    }

    /// Tells the input to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.send(true).unwrap();
        soon("the end of the input", self.running).await.unwrap();
    }
}

async fn stand_in(
    mut arrivals: mpsc::Receiver<Arrival>,
    mut orders: mpsc::UnboundedReceiver<Command>,
    report: mpsc::UnboundedSender<Seen>,
) {
    let mut sources: Vec<NoticeSender> = Vec::new();
    let mut policy = Policy::Accept;
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Command::Policy(new)) => policy = new,
                Some(Command::Notify(source, notice)) => {
                    // The connection may be gone, as for the real loop.
                    sources[source.0 as usize].send(notice);
                }
                None => return,
            },
            arrival = arrivals.recv() => match arrival {
                Some(Arrival::Open { name, notices, reply, .. }) => {
                    let source = SourceId(sources.len() as u32);
                    sources.push(notices);
                    let _ = report.send(Seen::Open(source, name));
                    let _ = reply.send(source);
                }
                Some(Arrival::Close(source)) => drop(report.send(Seen::Close(source))),
                Some(Arrival::Input(Input::Arrived(records))) => {
                    for record in records {
                        answer(&sources, policy, record.source, record.token);
                        let _ = report.send(Seen::Record(record));
                    }
                }
                Some(Arrival::Input(Input::Control(control))) => match control {
                    Control::Session { source, .. } => {
                        sources[source.0 as usize].send(Notice::Ready);
                    }
                    Control::Release { source, packets } => {
                        sources[source.0 as usize].send(Notice::Released(packets));
                    }
                    Control::SessionOver(_) | Control::Charge { .. } => {}
                    other => panic!("no input orders this: {other:?}"),
                },
                Some(other) => panic!("no input says this: {other:?}"),
                None => return,
            },
        }
    }
}

fn answer(sources: &[NoticeSender], policy: Policy, source: SourceId, token: Option<Token>) {
    let result = match policy {
        Policy::Accept => Ok(()),
        Policy::Refuse(reason) => Err(reason),
        Policy::Hold => return,
    };
    if let Some(token) = token {
        sources[source.0 as usize].send(Notice::Accept(token, result));
    }
}
