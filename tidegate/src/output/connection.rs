//! One TCP connection of a lane, while it lasts: it writes what the node orders, cut by cut, and
//! reports every byte.
//!
//! While bytes are in flight it asks the kernel every 5 ms how many were acknowledged; when none are,
//! only the protocol's own heartbeat is timed.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tidegate_node::io::{PathState, Refusal};
use tidegate_types::record::DeliveryId;
use tidegate_types::units::{Size, Time};
use tokio::time::{Instant, sleep_until, timeout};

use super::gauge::Gauge;
use super::lane::{End, Lane, Past};
use super::outgoing::{Outgoing, Taken};
use super::protocol::{Protocol, ProtocolError, Verdicts};
use crate::node::contract::{Order, Transmit};
use crate::support::backoff::Backoff;
use crate::support::tcp_info;
use crate::support::tls::Stream;

/// Between two looks at the kernel's counts: a fraction of the round trips that matter.
const SAMPLE_PERIOD: Duration = Duration::from_millis(5);
/// Bytes from the far end bring acknowledgements with them: then a look is worth it earlier than that.
const SAMPLE_MIN: Duration = Duration::from_millis(1);
/// How long a login may take.
const LOGIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long a polite end may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes read from the far end and not yet understood: acknowledgements are small.
const INPUT_MAX: usize = 1024 * 1024;
/// Bytes read by one call.
const READ: usize = 8 * 1024;
/// Where the far end says "not now", new records wait for this long, so that they do not come back
/// round after round and eat the uplink.
const HOLD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// One connection.
pub(super) struct Connection<'a, P> {
    lane: &'a mut Lane<P>,
    stream: Stream,
    gauge: Gauge,
    /// Bytes of the stream that the gauge has heard of.
    counted: u64,
    /// How often the lane went down before.
    epoch: u64,
    /// Orders that are not begun.
    orders: VecDeque<Transmit>,
    outgoing: Outgoing,
    input: BytesMut,
    /// What the protocol has to say for itself, until there is a place for it.
    control: BytesMut,
    past: Past,
    /// When the next look at the kernel's counts is due, while bytes are in flight.
    next_sample: Instant,
    sampled_at: Instant,
    /// No new record before this.
    hold_until: Option<Instant>,
    holds: Backoff,
}

impl<'a, P: Protocol> Connection<'a, P> {
    /// A connection on which nothing was said yet.
    ///
    /// # Errors
    /// The kernel tells nothing about it.
    pub(super) fn new(lane: &'a mut Lane<P>, stream: Stream, epoch: u64) -> io::Result<Self> {
        let gauge = Gauge::new(&tcp_info::read(stream.tcp())?);
        let now = Instant::now();
        Ok(Connection {
            lane,
            stream,
            gauge,
            counted: 0,
            epoch,
            orders: VecDeque::new(),
            outgoing: Outgoing::default(),
            input: BytesMut::new(),
            control: BytesMut::new(),
            past: Past::default(),
            next_sample: now,
            sampled_at: now,
            hold_until: None,
            holds: Backoff::within(HOLD.0, HOLD.1),
        })
    }

    /// What it came to.
    pub(super) fn past(&self) -> Past {
        self.past
    }

    fn now(&self) -> Time {
        self.lane.feedback.now()
    }

    /// Serves until the connection or the node ends.
    pub(super) async fn serve(&mut self) -> End {
        let now = self.now();
        self.lane.protocol.connect(now, &mut self.control);
        let login_ends = Instant::now() + LOGIN_PATIENCE;
        let (sampler, timer) = (sleep_until(login_ends), sleep_until(login_ends));
        tokio::pin!(sampler, timer);
        loop {
            if let Err(end) = self.come_up().await {
                return end;
            }
            if let Err(end) = self.fill().await {
                return end;
            }
            let has_bytes = !self.outgoing.bytes().is_empty() || self.stream.has_to_write();
            let due = self.due(login_ends);
            if let Some(due) = due.filter(|&due| due != timer.deadline()) {
                timer.as_mut().reset(due);
            }
            let is_in_flight = self.gauge.is_in_flight();
            if is_in_flight && sampler.deadline() != self.next_sample {
                sampler.as_mut().reset(self.next_sample);
            }
            let result = tokio::select! {
                ready = self.stream.readable() => self.read(ready).await,
                ready = self.stream.writable(), if has_bytes => self.write(ready).await,
                order = self.lane.orders.recv() => self.order(order).await,
                () = &mut sampler, if is_in_flight => self.sample().await,
                () = &mut timer, if due.is_some() => self.tick(login_ends),
            };
            if let Err(end) = result {
                return end;
            }
        }
    }

    /// When something other than bytes and orders must be looked at.
    fn due(&self, login_ends: Instant) -> Option<Instant> {
        let at = |at: Time| Instant::now() + at.since(self.now());
        let heartbeat = self.lane.protocol.next_timeout().map(at);
        let login = self.past.up_since.is_none().then_some(login_ends);
        [heartbeat, login, self.hold_until].into_iter().flatten().min()
    }

    fn tick(&mut self, login_ends: Instant) -> Result<(), End> {
        let reached = Instant::now();
        if self.past.up_since.is_none() && login_ends <= reached {
            return Err(ProtocolError::Silent(LOGIN_PATIENCE).into());
        }
        self.hold_until = self.hold_until.filter(|&until| until > reached);
        let now = self.now();
        Ok(self.lane.protocol.tick(now, &mut self.control)?)
    }

    /// Takes from the node's orders and from the protocol what may be written next. A record is begun
    /// as late as this.
    async fn fill(&mut self) -> Result<(), End> {
        if !self.control.is_empty() {
            self.outgoing.take_control::<P>(&mut self.control);
        }
        while self.outgoing.has_room() {
            let is_held = self.past.up_since.is_none() || self.hold_until.is_some();
            let may_begin = !is_held && self.lane.protocol.may_send();
            if self.outgoing.is_between_records() && !may_begin {
                return Ok(());
            }
            let Some(order) = self.orders.pop_front() else { return Ok(()) };
            let taken = self.outgoing.take(&mut self.lane.protocol, &order)?;
            if taken != Taken::Bytes {
                self.lane.feedback.sent(order.id, Size::ZERO).await?;
            }
            if let Taken::Refused(reason) = taken {
                self.lane.feedback.refused(vec![order.id], Refusal::Final(reason)).await?;
            }
        }
        Ok(())
    }

    async fn order(&mut self, order: Option<Order>) -> Result<(), End> {
        let mut next = order;
        loop {
            match next {
                None | Some(Order::Stop) => return Err(End::Stopped),
                Some(Order::Cancel(id)) => self.cancel(id).await?,
                Some(Order::Transmit(order)) if order.epoch == self.epoch => {
                    self.orders.push_back(order);
                }
                // Given before the node knew that the lane went down: it is ordered again.
                Some(Order::Transmit(_)) => {}
            }
            match self.lane.orders.try_recv() {
                Ok(order) => next = Some(order),
                // Where the node is gone, `recv` says so the next time.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Drops what is not begun of a delivery. The node waits for each cut that it ordered.
    async fn cancel(&mut self, id: DeliveryId) -> Result<(), End> {
        if !self.orders.iter().any(|order| order.id == id && order.start == 0) {
            return Ok(());
        }
        let before = self.orders.len();
        self.orders.retain(|order| order.id != id);
        for _ in self.orders.len()..before {
            self.lane.feedback.sent(id, Size::ZERO).await?;
        }
        Ok(())
    }

    async fn read(&mut self, ready: io::Result<()>) -> Result<(), End> {
        ready?;
        self.input.reserve(READ);
        let read = self.stream.try_read(&mut self.input);
        // TLS answers by itself.
        self.count();
        match read {
            Ok(0) => return Err(self.ended().await),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let now = self.now();
        let mut verdicts = Verdicts::default();
        let understood =
            self.lane.protocol.receive(now, &mut self.input, &mut self.control, &mut verdicts);
        self.report(verdicts).await?;
        understood?;
        if self.input.len() > INPUT_MAX {
            let what = format!("{} bytes without an end", self.input.len());
            return Err(ProtocolError::Malformed { protocol: "its protocol", what }.into());
        }
        self.come_up().await?;
        if self.gauge.is_in_flight() && self.sampled_at.elapsed() >= SAMPLE_MIN {
            self.sample().await?;
        }
        Ok(())
    }

    /// Tells the node once that the login is done. A protocol without one is ready when TLS is.
    async fn come_up(&mut self) -> Result<(), End> {
        let is_up = self.lane.protocol.is_ready() && !self.stream.is_handshaking();
        if is_up && self.past.up_since.is_none() {
            self.past.up_since = Some(Instant::now());
            let known = self.gauge.up(&tcp_info::read(self.stream.tcp())?);
            if let Some(records) = self.lane.protocol.window() {
                self.lane.feedback.window(records).await?;
            }
            self.lane.feedback.path_state(self.lane.number, PathState::Up).await?;
            self.lane.feedback.sample(self.lane.number, known).await?;
        }
        Ok(())
    }

    /// The far end has closed its side.
    async fn ended(&mut self) -> End {
        let now = self.now();
        let mut verdicts = Verdicts::default();
        let end = self.lane.protocol.ended(now, &mut verdicts);
        match self.report(verdicts).await {
            Ok(()) => end.into(),
            Err(stopped) => stopped,
        }
    }

    async fn report(&mut self, verdicts: Verdicts) -> Result<(), End> {
        for words in &verdicts.told {
            tracing::warn!(output = %self.lane.output, "{words}");
        }
        if !verdicts.confirmed.is_empty() {
            self.holds.reset();
            self.past.has_confirmed = true;
            self.past.has_judged = true;
            self.lane.feedback.confirmed(verdicts.confirmed).await?;
        }
        if verdicts.refused.iter().any(|(_, refusal)| *refusal == Refusal::Retry) {
            self.hold_until = Some(Instant::now() + self.holds.next());
        }
        for (id, refusal) in verdicts.refused {
            self.past.has_judged |= matches!(refusal, Refusal::Final(_));
            self.lane.feedback.refused(vec![id], refusal).await?;
        }
        Ok(())
    }

    async fn write(&mut self, ready: io::Result<()>) -> Result<(), End> {
        ready?;
        let written = self.stream.try_write(self.outgoing.bytes());
        self.count();
        let bytes = match written {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let now = self.now();
        self.lane.protocol.wrote(now);
        let mut done = self.outgoing.written(bytes);
        while let Some((id, bytes)) = done {
            self.lane.feedback.sent(id, bytes).await?;
            done = self.outgoing.written(0);
        }
        Ok(())
    }

    /// Tells the gauge what went to the kernel, TLS's own bytes with it, for the kernel counts them too.
    fn count(&mut self) {
        let bytes = self.stream.handed() - self.counted;
        if bytes == 0 {
            return;
        }
        self.counted += bytes;
        if !self.gauge.is_in_flight() {
            self.next_sample = Instant::now() + SAMPLE_PERIOD;
        }
        self.gauge.wrote(self.now(), bytes as usize);
    }

    async fn sample(&mut self) -> Result<(), End> {
        self.sampled_at = Instant::now();
        self.next_sample = self.sampled_at + SAMPLE_PERIOD;
        let info = tcp_info::read(self.stream.tcp())?;
        let now = self.now();
        if let Some(sample) = self.gauge.sample(now, &info)
            && self.past.up_since.is_some()
        {
            self.lane.feedback.sample(self.lane.number, sample).await?;
        }
        Ok(())
    }

    /// Finishes what is begun, says goodbye where there is a place for it, and waits for the far end
    /// to hang up: closing with bytes unread would tear the goodbye from its hands.
    pub(super) async fn close(mut self) {
        let polite = async {
            self.lane.protocol.close(&mut self.control);
            self.outgoing.take_control::<P>(&mut self.control);
            self.stream.write_all(self.outgoing.bytes()).await?;
            self.stream.shutdown().await?;
            loop {
                self.stream.readable().await?;
                self.input.clear();
                match self.stream.try_read(&mut self.input) {
                    Ok(0) => return Ok::<(), io::Error>(()),
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            }
        };
        // The node has nothing left to hear: a failed goodbye changes nothing.
        let _: Result<io::Result<()>, _> = timeout(CLOSE_PATIENCE, polite).await;
    }
}
