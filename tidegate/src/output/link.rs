//! A link to another node: several paths at once, each record by its deadline.
//!
//! One task owns the link. The node's orders become records of the link (`Handover` says when their bytes
//! count as sent); the far node's word about each record becomes its fate. What a life of the link leaves
//! open is sent again in the next one, under the same name.

mod keys;
mod options;
mod record;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tidegate_link::handover::Handover;
use tidegate_link::packet::Custody;
use tidegate_link::{LinkEvent, OfferError, Outgoing};
use tidegate_node::io::{PathState, Refusal};
use tidegate_types::limits::RELAY_TAKE_BACK;
use tidegate_types::record::{DeliveryId, DropReason, Fate};
use tidegate_types::units::Rate;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::link::board::PERIOD;
use crate::link::dial::{Dialer, Peer};
use crate::link::engine::Engine;
use crate::link::letters::Proofs;
use crate::link::wire::Heard;
use crate::link::{Binding, HEARD_MAX, LinkFigures, Target, quic, run_on};
use crate::node::contract::{Order, OutputPort, Stopping, Transmit};
use crate::support::complaints::{Complaint, Complaints};

pub use self::keys::LinkOutputConfig;
pub use self::options::LinkOptionsOut;
use self::options::link_options;
use super::kind::{Driver, Served};
pub use crate::link::dial::Fallback;

/// A link without any connection for so long is over: what it holds goes back to the node, which may
/// decide anew.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long connections may take to end politely.
const GOODBYE: Duration = Duration::from_secs(1);
/// Orders and packets taken in one turn.
const BATCH_MAX: usize = 256;
/// A capacity that differs by so much is news.
const NEWS: f64 = 0.01;

impl Driver for LinkOptionsOut {
    fn run(self: Box<Self>, port: OutputPort) -> Served {
        Box::pin(async move {
            match self.links.thread().handle() {
                Ok(handle) => run_on(&handle, run(*self, port)).await,
                Err(error) => tracing::error!(output = %self.name, "no thread for links: {error}"),
            }
        })
    }
}

async fn run(options: LinkOptionsOut, port: OutputPort) {
    let quic = match quic::client(&options.tls.config()) {
        Ok(quic) => quic,
        Err(error) => {
            tracing::error!(output = %options.name, "no link: {error}");
            return;
        }
    };
    let (sender, heard) = mpsc::channel(HEARD_MAX);
    let (lives, life) = watch::channel(0);
    let peer = Peer {
        host: options.host.as_str().into(),
        port: options.port,
        tls: options.tls.config(),
        quic,
        fallback: options.fallback,
    };
    let target = options.is_place.then(|| options.links.target(&options.name));
    let mut dialers = JoinSet::new();
    for (path, binding) in options.paths.iter().enumerate() {
        let dialer = Dialer {
            path,
            binding: binding.clone(),
            peer: peer.clone(),
            target: target.clone(),
            heard: sender.clone(),
            life: life.clone(),
            complaint: Complaint::default(),
        };
        dialers.spawn(dialer.run());
    }
    drop((sender, life));
    let names = options.paths.iter().map(Binding::to_string).collect();
    let mut sender = Sender::new(options, names, port, lives);
    sender.target = target;
    // It ends only by being stopped.
    let _: Result<(), Stopping> = sender.serve(heard).await;
    sender.options.links.forget(0, &sender.options.name);
    drop(sender);
    let _ = timeout(GOODBYE, async { while dialers.join_next().await.is_some() {} }).await;
}

struct Sender {
    options: LinkOptionsOut,
    names: Vec<String>,
    /// Texts of sets of paths.
    named: BTreeMap<u32, Arc<str>>,
    port: OutputPort,
    lives: watch::Sender<u64>,
    engine: Engine,
    handover: Handover,
    /// What the far node is shown of whose records come.
    proofs: Proofs,
    /// How often the lanes went down before.
    epoch: u64,
    is_up: bool,
    /// Offered records that the link had no room for, in order.
    stalled: VecDeque<(DeliveryId, Outgoing)>,
    /// Rate that the node was told last.
    told: Rate,
    /// Since when there is no connection.
    alone_since: Option<Instant>,
    /// Whom a place dials.
    target: Option<watch::Receiver<Option<Target>>>,
    /// Bounds what is told of paths that come and go.
    reports: Complaints,
}

impl Sender {
    fn new(
        options: LinkOptionsOut,
        names: Vec<String>,
        port: OutputPort,
        lives: watch::Sender<u64>,
    ) -> Self {
        let engine = Engine::new(link_options(&options), port.feedback.clock());
        let handover = Handover::new(options.bounds.clone(), usize::from(port.lanes));
        let proofs = Proofs::new(options.links.letters().clone(), options.tls.config());
        Sender {
            options,
            proofs,
            names,
            named: BTreeMap::new(),
            port,
            lives,
            engine,
            handover,
            epoch: 0,
            is_up: false,
            stalled: VecDeque::new(),
            told: Rate::ZERO,
            alone_since: None,
            target: None,
            reports: Complaints::new(Instant::now().into()),
        }
    }

    /// Names of a set of paths: the same text for the same set.
    fn named(&mut self, paths: u32) -> Arc<str> {
        let names = &self.names;
        let name = || {
            let went = names.iter().enumerate().filter(|(path, _)| paths & 1 << path != 0);
            went.map(|(_, name)| &**name).collect::<Vec<&str>>().join(", ").into()
        };
        self.named.entry(paths).or_insert_with(name).clone()
    }

    async fn serve(&mut self, mut heard: mpsc::Receiver<Heard>) -> Result<(), Stopping> {
        let mut packets = Vec::with_capacity(BATCH_MAX);
        let mut orders = Vec::with_capacity(BATCH_MAX);
        let mut period = tokio::time::interval(PERIOD);
        let timer = sleep_until(Instant::now());
        tokio::pin!(timer);
        loop {
            let wake = self.engine.wake();
            if let Some(at) = wake {
                timer.as_mut().reset(at.into());
            }
            tokio::select! {
                _ = heard.recv_many(&mut packets, BATCH_MAX) => {
                    for heard in packets.drain(..) {
                        if let Heard::Up { wire, .. } = &heard {
                            self.proofs.meet(wire);
                        }
                        self.engine.take(heard);
                    }
                }
                count = self.port.orders.recv_many(&mut orders, BATCH_MAX) => {
                    if count == 0 || orders.iter().any(|order| matches!(order, Order::Stop)) {
                        return Ok(());
                    }
                    for order in orders.drain(..) {
                        self.order(order).await?;
                    }
                }
                () = &mut timer, if wake.is_some() => {}
                _ = period.tick() => self.look().await?,
                () = changed(&mut self.target) => self.begin_anew("another neighbour's").await?,
            }
            self.turn().await?;
        }
    }

    /// Sends what may go and reports what happened.
    async fn turn(&mut self) -> Result<(), Stopping> {
        self.engine.pump();
        while let Some(event) = self.engine.poll_event() {
            if let LinkEvent::Restarted { .. } = event {
                return self.begin_anew("the far node has restarted").await;
            }
            self.report(event).await?;
        }
        if !self.is_up && self.engine.is_met() && self.engine.is_connected() {
            self.is_up = true;
            for lane in 0..self.port.lanes {
                self.port.feedback.path_state(lane, PathState::Up).await?;
            }
        }
        self.offer_stalled();
        self.tell_rate().await?;
        if self.stalled.is_empty() {
            while let Some((id, bytes)) = self.handover.sent(self.engine.waiting()) {
                self.port.feedback.sent(id, bytes).await?;
            }
        }
        Ok(())
    }

    async fn tell_rate(&mut self) -> Result<(), Stopping> {
        let (rate, told) = (self.engine.rate(), self.told);
        let change = (rate.as_f64() - told.as_f64()).abs();
        if change > NEWS * told.as_f64() {
            self.told = rate;
            self.port.feedback.capacity(rate).await?;
        }
        Ok(())
    }

    async fn report(&mut self, event: LinkEvent) -> Result<(), Stopping> {
        match event {
            LinkEvent::Custody { token, custody, paths } => {
                let id = DeliveryId(token);
                self.proofs.settled(id);
                if self.handover.settled(id, custody) {
                    self.end(id, custody, paths).await?;
                }
            }
            LinkEvent::Expired { token } => {
                let custody = Custody::Final(Fate::Dropped(DropReason::Expired));
                if self.handover.settled(DeliveryId(token), custody) {
                    self.end(DeliveryId(token), custody, 0).await?;
                }
            }
            LinkEvent::Path { path, state } => {
                let path = self.names.get(path).map_or("", String::as_str);
                if let Some(withheld) = self.reports.allow(Instant::now().into()) {
                    tracing::info!(output = %self.options.name, path, ?state, withheld, "path");
                }
            }
            // Nobody sends records against the stream of an output.
            LinkEvent::Arrived { record, .. } => {
                self.engine.settle(record, Custody::Final(Fate::Dropped(DropReason::Unroutable)));
            }
            LinkEvent::Delivered { .. } | LinkEvent::Restarted { .. } => {}
        }
        Ok(())
    }

    /// A record has its fate. That the far node answers for it is enough for us: what becomes of it
    /// further on, that node tells.
    async fn end(&mut self, id: DeliveryId, custody: Custody, paths: u32) -> Result<(), Stopping> {
        match custody {
            Custody::Held | Custody::Final(Fate::Confirmed) => {
                let by = self.named(paths);
                self.port.feedback.carried(vec![id], by).await
            }
            // A neighbour does not take it, whatever the reason: it goes by our own uplink.
            Custody::Final(Fate::Dropped(_)) if self.options.is_peer => {
                self.port.feedback.refused(vec![id], Refusal::Retry).await
            }
            Custody::Final(Fate::Dropped(reason)) => {
                self.port.feedback.refused(vec![id], Refusal::Final(reason)).await
            }
        }
    }

    async fn order(&mut self, order: Order) -> Result<(), Stopping> {
        // What is under way is finished: a link cannot take back what the far node may have.
        let Order::Transmit(order) = order else { return Ok(()) };
        // Given before the node knew that the lanes went down: it is ordered again.
        if order.epoch != self.epoch {
            return Ok(());
        }
        let Transmit { id, lane, start, end, size, .. } = order;
        let ordered = self.handover.ordered(lane, id, start..end, size);
        if let Some(custody) = ordered.custody {
            self.end(id, custody, 0).await?;
        }
        if !ordered.is_first {
            return Ok(());
        }
        let now = self.port.feedback.now();
        let deadline = self.handover.deadline(now, order.class);
        let proof = self.proofs.of(id, &order.record.identity.origin);
        let offered = match record::outgoing(&order, now, deadline, self.options.is_peer, proof) {
            Some(outgoing) => self.offer(id, outgoing),
            None => Err(DropReason::Refused),
        };
        if let Err(reason) = offered {
            let custody = Custody::Final(Fate::Dropped(reason));
            if self.handover.settled(id, custody) {
                self.end(id, custody, 0).await?;
            }
        }
        Ok(())
    }

    /// Offers a record, now or when there is room.
    fn offer(&mut self, id: DeliveryId, outgoing: Outgoing) -> Result<(), DropReason> {
        if !self.stalled.is_empty() {
            self.stalled.push_back((id, outgoing));
            return Ok(());
        }
        match self.engine.offer(outgoing.clone()) {
            Ok(()) => Ok(()),
            Err(OfferError::Full) => {
                self.stalled.push_back((id, outgoing));
                Ok(())
            }
            Err(OfferError::Oversize) => Err(DropReason::Oversize),
        }
    }

    fn offer_stalled(&mut self) {
        while let Some((_, outgoing)) = self.stalled.front() {
            if self.engine.offer(outgoing.clone()) == Err(OfferError::Full) {
                return;
            }
            self.stalled.pop_front();
        }
    }

    /// What is to be looked at from time to time.
    async fn look(&mut self) -> Result<(), Stopping> {
        let [repeated, duplicates, strange] = self.engine.counts();
        let paths = self.engine.figures(&self.names);
        let name = self.options.name.to_string();
        let figures = LinkFigures { name, is_output: true, paths, repeated, duplicates, strange };
        self.options.links.tell(0, figures);
        if self.engine.is_connected() {
            self.alone_since = None;
            return Ok(());
        }
        let since = *self.alone_since.get_or_insert(Instant::now());
        let patience = if self.options.is_peer { RELAY_TAKE_BACK } else { PATIENCE };
        if self.is_up && since.elapsed() >= patience {
            return self.begin_anew("no path is connected").await;
        }
        Ok(())
    }

    /// Ends this life and begins the next one: the node sends again what has no fate.
    async fn begin_anew(&mut self, why: &str) -> Result<(), Stopping> {
        tracing::info!(output = %self.options.name, "the link begins anew: {why}");
        let clock = self.port.feedback.clock();
        let next = Engine::new(link_options(&self.options), clock);
        let remembered = std::mem::replace(&mut self.engine, next).end();
        self.engine.remember(remembered);
        self.handover = Handover::new(self.options.bounds.clone(), usize::from(self.port.lanes));
        self.proofs.begin_anew();
        self.stalled.clear();
        self.alone_since = None;
        self.lives.send_modify(|life| *life += 1);
        if std::mem::take(&mut self.is_up) {
            self.epoch += 1;
            for lane in 0..self.port.lanes {
                self.port.feedback.path_state(lane, PathState::Down).await?;
            }
        }
        Ok(())
    }
}

/// Whom a place dials has changed.
async fn changed(target: &mut Option<watch::Receiver<Option<Target>>>) {
    if let Some(target) = target
        && target.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
