//! A slow line on loopback: a TCP relay with a rate, a small buffer and a propagation delay for each
//! direction.
//!
//! All connections share the line of a direction, first come first served. It holds a few kilobytes and
//! then reads no more, and its sockets take little either, so that back-pressure reaches the sender
//! within milliseconds. A real bottleneck would delay acknowledgements and drop; a relay cannot do
//! that to the sender's kernel, so what the sender sees of the delay is only what stands in its own
//! buffers. `lab` has links in namespaces for the rest.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use socket2::{Domain, Protocol, Socket, Type};
use tidegate_types::units::{Rate, Size};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Bytes that leave together: the payload of one packet.
const CHUNK: usize = 1448;
/// Chunks that a direction of the line holds before it reads no more.
const BUFFER_CHUNKS: usize = 1;
/// Receive buffer of the relay's sockets; the kernel doubles it.
const SOCKET_BUFFER: usize = 2048;
/// Timers fire up to a millisecond late: the next chunk is read this much before the line is free.
const READ_AHEAD: Duration = Duration::from_millis(2);

/// What the line is like, in each direction.
#[derive(Clone, Copy, Debug)]
pub struct LineOptions {
    /// How fast bytes leave.
    pub rate: Rate,
    /// How long they then travel.
    pub delay: Duration,
}

/// A running relay; ends when dropped.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: SocketAddr,
    up: Arc<Line>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// A relay on a free port of loopback to `target`.
    ///
    /// # Errors
    /// No port could be bound.
    pub fn start(target: SocketAddr, options: LineOptions) -> io::Result<Relay> {
        let listener = listen()?;
        let address = listener.local_addr()?;
        let (up, down) = (Arc::new(Line::new(options)), Arc::new(Line::new(options)));
        let task = tokio::spawn(accept(listener, target, up.clone(), down));
        Ok(Relay { address, up, task })
    }

    /// Bytes that left towards the target so far.
    pub fn carried(&self) -> Size {
        Size(self.up.carried.load(Ordering::Relaxed))
    }
}

/// A socket with a small receive buffer and packets of Ethernet's size: with loopback's packets of
/// 64 KiB no small buffer would work.
fn small_socket(target: Domain) -> io::Result<Socket> {
    let socket = Socket::new(target, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_tcp_mss(CHUNK as u32)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn listen() -> io::Result<TcpListener> {
    let socket = small_socket(Domain::IPV4)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    socket.listen(64)?;
    TcpListener::from_std(socket.into())
}

async fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = small_socket(Domain::for_address(target))?;
    TcpSocket::from_std_stream(socket.into()).connect(target).await
}

async fn accept(listener: TcpListener, target: SocketAddr, up: Arc<Line>, down: Arc<Line>) {
    // Owned here, so that dropping the relay ends its connections.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let (up, down) = (up.clone(), down.clone());
        connections.spawn(async move {
            // A target that is gone closes the near side too: the sender sees a lost connection.
            if let Ok(far) = connect(target).await {
                let _ = join(near, far, &up, &down).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn join(near: TcpStream, far: TcpStream, up: &Arc<Line>, down: &Arc<Line>) -> io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::try_join!(carry(near_read, far_write, up), carry(far_read, near_write, down))?;
    Ok(())
}

/// One direction of the line.
#[derive(Debug)]
struct Line {
    options: LineOptions,
    /// When the last chunk will have left.
    free_at: Mutex<Instant>,
    /// Chunks that may wait to leave.
    buffer: Arc<Semaphore>,
    carried: AtomicU64,
}

impl Line {
    fn new(options: LineOptions) -> Self {
        Line {
            options,
            free_at: Mutex::new(Instant::now()),
            buffer: Arc::new(Semaphore::new(BUFFER_CHUNKS)),
            carried: AtomicU64::new(0),
        }
    }

    /// When a chunk that comes now has left, after all that came before it.
    fn departure(&self, now: Instant, bytes: usize) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(now) + self.options.rate.time_for(Size(bytes as u64));
        self.carried.fetch_add(bytes as u64, Ordering::Relaxed);
        *free_at
    }
}

/// Bytes under way: when they arrive, and their place in the bound on such bytes.
struct Travelling {
    arrives: Instant,
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

/// Carries one connection's bytes along the line until their end, which travels too.
async fn carry(from: OwnedReadHalf, to: OwnedWriteHalf, line: &Arc<Line>) -> io::Result<()> {
    let in_delay = line.options.rate.in_span(line.options.delay).0 as usize;
    // Twice what fits into the delay: the far side reads slower than the line only for moments.
    let room = Arc::new(Semaphore::new((in_delay * 2).max(64 * 1024)));
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::try_join!(depart(from, line, room, sender), arrive(to, receiver))?;
    Ok(())
}

async fn depart(
    from: OwnedReadHalf,
    line: &Arc<Line>,
    room: Arc<Semaphore>,
    travelling: mpsc::UnboundedSender<Travelling>,
) -> io::Result<()> {
    let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let mut buffer = BytesMut::new();
    loop {
        // Wait for bytes first: an idle connection must hold no place in the line's buffer.
        from.readable().await?;
        let place = line.buffer.clone().acquire_owned().await.map_err(|_| closed(()))?;
        buffer.reserve(CHUNK);
        let mut chunk = buffer.split_off(0);
        chunk.resize(CHUNK, 0);
        let read = match from.try_read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        chunk.truncate(read);
        let permits = u32::try_from(read).expect("a chunk is small");
        let held = room.clone().acquire_many_owned(permits).await.map_err(|_| closed(()))?;
        let departs = line.departure(Instant::now(), read);
        let arrives = departs + line.options.delay;
        let under_way = Travelling { arrives, bytes: chunk.freeze(), _room: held };
        travelling.send(under_way).map_err(|_| closed(()))?;
        tokio::spawn(async move {
            sleep_until(departs - READ_AHEAD).await;
            drop(place);
        });
    }
}

async fn arrive(
    mut to: OwnedWriteHalf,
    mut travelling: mpsc::UnboundedReceiver<Travelling>,
) -> io::Result<()> {
    while let Some(Travelling { arrives, bytes, _room }) = travelling.recv().await {
        sleep_until(arrives).await;
        to.write_all(&bytes).await?;
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    const TWO_MEGABIT: LineOptions =
        LineOptions { rate: Rate::ZERO, delay: Duration::from_millis(50) };

    fn line(bits_per_second: f64) -> LineOptions {
        LineOptions { rate: Rate::from_bits(bits_per_second), ..TWO_MEGABIT }
    }

    #[tokio::test]
    async fn bytes_leave_one_after_the_other_at_the_rate() {
        let line = Line::new(line(2e6));
        let start = Instant::now() + Duration::from_secs(1);
        let after = |instant: Instant| instant - start;
        // 250 bytes take a millisecond at 2 Mbit/s.
        assert_eq!(after(line.departure(start, 1000)), Duration::from_millis(4));
        assert_eq!(after(line.departure(start, 250)), Duration::from_millis(5));
        let later = start + Duration::from_millis(100);
        assert_eq!(line.departure(later, 500) - later, Duration::from_millis(2));
        assert_eq!(line.carried.load(Ordering::Relaxed), 1750);
    }

    #[tokio::test]
    async fn every_byte_and_the_end_arrive_in_both_directions() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let echo = server.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let quick = LineOptions { rate: Rate::from_bits(1e9), delay: Duration::from_millis(1) };
        let relay = Relay::start(echo, quick).unwrap();
        let sent: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let (mut read, mut write) = TcpStream::connect(relay.address).await.unwrap().into_split();
        let whole = sent.clone();
        let writer = tokio::spawn(async move {
            write.write_all(&whole).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        read.read_to_end(&mut received).await.unwrap();
        writer.await.unwrap();
        assert_eq!(received, sent);
        assert_eq!(relay.carried(), Size(200_000));
    }

    #[tokio::test]
    async fn a_missing_target_closes_the_connection() {
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = nobody.local_addr().unwrap();
        drop(nobody);
        let relay = Relay::start(target, line(2e6)).unwrap();
        let mut stream = TcpStream::connect(relay.address).await.unwrap();
        let mut nothing = Vec::new();
        assert_eq!(stream.read_to_end(&mut nothing).await.unwrap(), 0);
    }
}
