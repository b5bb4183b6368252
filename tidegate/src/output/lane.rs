//! One TCP connection of an output: it writes what the node orders, cut by cut, and reports every byte.
//!
//! The lane holds one record at a time, the one it is writing; all others wait in the node. While bytes
//! are in flight it asks the kernel every 5 ms how many were acknowledged; when none are, it sleeps.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_core::io::{PathState, Refusal};
use tidegate_core::record::DeliveryId;
use tidegate_core::units::{Size, Time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::gauge::Gauge;
use super::protocol::{Protocol, ProtocolError, Verdicts};
use super::tcp_info;
use crate::port::{Feedback, Order, Stopping, Transmit};

/// Between two looks at the kernel's counts: a fraction of the round trips that matter.
const SAMPLE_PERIOD: Duration = Duration::from_millis(5);
/// How long a connection or a login may take.
const LOGIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long a polite end may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes read from the far end and not yet understood: acknowledgements are small.
const INPUT_MAX: usize = 1024 * 1024;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("stopped")]
    Stopped,
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Stopping> for End {
    fn from(_: Stopping) -> Self {
        End::Stopped
    }
}

/// What a lane is made of.
pub(super) struct Lane<P> {
    pub(super) number: u8,
    /// `host:port`, for connecting and for messages.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) protocol: P,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    pub(super) feedback: Feedback,
}

/// The record that is being written.
struct Writing {
    id: DeliveryId,
    /// Its whole encoding; what is written is cut off its front.
    left: Bytes,
    total: u64,
    /// End of the present cut, counted from the end of the encoding.
    keep: usize,
    /// Bytes of the present cut written so far.
    written: u64,
}

impl Writing {
    fn is_cut_done(&self) -> bool {
        self.left.len() <= self.keep
    }

    /// The next order for this record: its end, on the scale of the node's size, becomes an offset.
    fn extend(&mut self, order: &Transmit) {
        let end = match order.end < order.size {
            true => (self.total as f64 * order.end as f64 / order.size as f64) as u64,
            false => self.total,
        };
        self.keep = (self.total - end.min(self.total)) as usize;
        self.written = 0;
    }
}

impl<P: Protocol> Lane<P> {
    /// Keeps a connection until it is told to stop.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new();
        let mut epoch = 0;
        let mut last_complaint = String::new();
        loop {
            let mut was_up = false;
            let end = match self.open().await {
                Ok(stream) => self.serve(stream, epoch, &mut was_up).await,
                Err(error) => error,
            };
            if was_up {
                epoch += 1;
                backoff.reset();
                if self.feedback.path_state(self.number, PathState::Down).await.is_err() {
                    return;
                }
            }
            if matches!(end, End::Stopped) {
                return;
            }
            let complaint = end.to_string();
            if was_up || complaint != last_complaint {
                let (host, port, lane) = (&self.host, self.port, self.number);
                tracing::warn!(%host, port, lane, "no connection: {complaint}; trying again");
            }
            last_complaint = complaint;
            if self.wait(backoff.next()).await.is_err() {
                return;
            }
        }
    }

    /// Waits, deaf to all orders but to stop: they were given before the node knew that the lane is down.
    async fn wait(&mut self, span: Duration) -> Result<(), Stopping> {
        let end = sleep(span);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                order = self.orders.recv() => match order {
                    None | Some(Order::Stop) => return Err(Stopping),
                    Some(_) => {}
                },
            }
        }
    }

    async fn open(&mut self) -> Result<TcpStream, End> {
        let connect = TcpStream::connect((&*self.host, self.port));
        tokio::select! {
            stream = timeout(LOGIN_PATIENCE, connect) => {
                let late = |_| io::Error::new(io::ErrorKind::TimedOut, "nobody answers");
                let stream = stream.map_err(late)??;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
            order = self.orders.recv() => match order {
                None | Some(Order::Stop) => Err(End::Stopped),
                Some(_) => Err(End::Io(io::Error::other("an order for a lane that is down"))),
            },
        }
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, stream: TcpStream, epoch: u64, was_up: &mut bool) -> End {
        let gauge = match tcp_info::read(&stream) {
            Ok(info) => Gauge::new(&info),
            Err(error) => return End::Io(error),
        };
        let (read, write) = stream.into_split();
        let mut connection = Connection {
            lane: self,
            read,
            write,
            gauge,
            epoch,
            input: BytesMut::new(),
            control: BytesMut::new(),
            writing: None,
            is_up: false,
        };
        let end = connection.serve().await;
        *was_up = connection.is_up;
        if matches!(end, End::Stopped) {
            connection.close().await;
        }
        end
    }
}

/// One connection, while it lasts.
struct Connection<'a, P> {
    lane: &'a mut Lane<P>,
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    gauge: Gauge,
    /// How often the lane went down before.
    epoch: u64,
    input: BytesMut,
    /// What the protocol has to say between records.
    control: BytesMut,
    writing: Option<Writing>,
    is_up: bool,
}

impl<P: Protocol> Connection<'_, P> {
    fn now(&self) -> Time {
        self.lane.feedback.now()
    }

    async fn serve(&mut self) -> End {
        let now = self.now();
        self.lane.protocol.connect(now, &mut self.control);
        let login_ends = Instant::now() + LOGIN_PATIENCE;
        let sampler = sleep_until(Instant::now());
        let timer = sleep_until(Instant::now());
        tokio::pin!(sampler, timer);
        loop {
            let in_record = self.writing.is_some();
            let cut_done = self.writing.as_ref().is_none_or(Writing::is_cut_done);
            let has_bytes = !cut_done || (!in_record && !self.control.is_empty());
            let wants_order = cut_done
                && !has_bytes
                && self.is_up
                && (in_record || self.lane.protocol.may_send());
            let due = self.due(login_ends);
            timer.as_mut().reset(due);
            let result = tokio::select! {
                read = self.read.read_buf(&mut self.input) => self.received(read).await,
                written = write_some(&mut self.write, &self.writing, &self.control), if has_bytes => {
                    self.wrote(written).await
                }
                order = self.lane.orders.recv(), if wants_order => self.obey(order).await,
                () = &mut sampler, if self.gauge.is_in_flight() => {
                    sampler.as_mut().reset(Instant::now() + SAMPLE_PERIOD);
                    self.sample().await
                }
                () = &mut timer => self.tick(login_ends),
            };
            if let Err(end) = result {
                return end;
            }
        }
    }

    /// When the protocol, or the patience with the login, wants to be asked.
    fn due(&self, login_ends: Instant) -> Instant {
        const IDLE: Duration = Duration::from_secs(3600);
        let asked =
            self.lane.protocol.next_timeout().map(|at| Instant::now() + at.since(self.now()));
        let login = (!self.is_up).then_some(login_ends);
        [asked, login].into_iter().flatten().min().unwrap_or_else(|| Instant::now() + IDLE)
    }

    fn tick(&mut self, login_ends: Instant) -> Result<(), End> {
        if !self.is_up && login_ends <= Instant::now() {
            return Err(ProtocolError::Silent(LOGIN_PATIENCE).into());
        }
        let now = self.now();
        Ok(self.lane.protocol.tick(now, &mut self.control)?)
    }

    async fn received(&mut self, read: io::Result<usize>) -> Result<(), End> {
        if read? == 0 {
            return Err(ProtocolError::Closed("without a word".into()).into());
        }
        let now = self.now();
        let mut verdicts = Verdicts::default();
        let understood =
            self.lane.protocol.receive(now, &mut self.input, &mut self.control, &mut verdicts);
        if !verdicts.confirmed.is_empty() {
            self.lane.feedback.confirmed(verdicts.confirmed).await?;
        }
        for (id, refusal) in verdicts.refused {
            self.lane.feedback.refused(vec![id], refusal).await?;
        }
        understood?;
        if self.input.len() > INPUT_MAX {
            let what = format!("{} bytes without an end", self.input.len());
            return Err(ProtocolError::Malformed { protocol: "the protocol", what }.into());
        }
        if !self.is_up && self.lane.protocol.is_ready() {
            self.is_up = true;
            self.gauge.up();
            self.lane.feedback.path_state(self.lane.number, PathState::Up).await?;
        }
        Ok(())
    }

    async fn wrote(&mut self, written: io::Result<usize>) -> Result<(), End> {
        let (bytes, now) = (written?, self.now());
        self.gauge.wrote(now, bytes);
        self.lane.protocol.wrote(now);
        let Some(writing) = &mut self.writing else {
            self.control.advance(bytes);
            return Ok(());
        };
        writing.left.advance(bytes);
        writing.written += bytes as u64;
        if writing.is_cut_done() {
            let (id, bytes) = (writing.id, Size(writing.written));
            if writing.left.is_empty() {
                self.writing = None;
            }
            self.lane.feedback.sent(id, bytes).await?;
        }
        Ok(())
    }

    async fn obey(&mut self, order: Option<Order>) -> Result<(), End> {
        let order = match order {
            None | Some(Order::Stop) => return Err(End::Stopped),
            // The node cancels nothing of which a byte is ordered yet.
            Some(Order::Cancel(_)) => return Ok(()),
            Some(Order::Transmit(order)) => order,
        };
        if order.epoch != self.epoch {
            return Ok(());
        }
        if self.writing.is_none() {
            match self.lane.protocol.encode(&order) {
                Ok(bytes) => {
                    let (total, keep) = (bytes.len() as u64, bytes.len());
                    self.writing =
                        Some(Writing { id: order.id, left: bytes, total, keep, written: 0 });
                }
                Err(reason) => {
                    // Nothing goes on the wire, but the node waits for its cut.
                    self.lane.feedback.sent(order.id, Size::ZERO).await?;
                    if order.end == order.size {
                        self.lane.feedback.refused(vec![order.id], Refusal::Final(reason)).await?;
                    }
                    return Ok(());
                }
            }
        }
        let writing = self.writing.as_mut().expect("it was just made");
        writing.extend(&order);
        if writing.is_cut_done() {
            self.lane.feedback.sent(order.id, Size::ZERO).await?;
        }
        Ok(())
    }

    async fn sample(&mut self) -> Result<(), End> {
        let now = self.now();
        let info = tcp_info::read(self.write.as_ref())?;
        if let Some(sample) = self.gauge.sample(now, &info)
            && self.is_up
        {
            self.lane.feedback.sample(self.lane.number, sample).await?;
        }
        Ok(())
    }

    /// Finishes the record that is begun, if all of it is ordered, and says goodbye.
    async fn close(mut self) {
        let polite = async {
            if let Some(writing) = &self.writing {
                if writing.keep > 0 {
                    return Ok(());
                }
                self.write.write_all(&writing.left).await?;
            }
            self.lane.protocol.close(&mut self.control);
            self.write.write_all(&self.control).await?;
            self.write.shutdown().await
        };
        // The node has nothing left to hear: a failed goodbye changes nothing.
        let _: Result<io::Result<()>, _> = timeout(CLOSE_PATIENCE, polite).await;
    }
}

/// Writes some of the present cut, or of what the protocol has to say.
async fn write_some(
    write: &mut OwnedWriteHalf,
    writing: &Option<Writing>,
    control: &BytesMut,
) -> io::Result<usize> {
    match writing {
        Some(writing) => write.write(&writing.left[..writing.left.len() - writing.keep]).await,
        None => write.write(control).await,
    }
}
