//! Datagrams with a number and times in them, sent at a constant rate whatever becomes of them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::NetError;
use super::urgent::urgent;

/// Bytes of IP and UDP headers that the link carries as well.
pub const HEADERS: usize = 28;
/// For sockets that receive: what comes while the receiver waits for a processor.
const RECEIVE_BUFFER: usize = 8 << 20;
/// How often a thread that waits looks whether it should stop.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// What one source sends.
#[derive(Debug)]
pub struct Stream {
    /// Of the sending host.
    pub socket: UdpSocket,
    pub to: SocketAddr,
    /// Bytes of each datagram without headers; at least 24, its number and two times.
    pub payload: usize,
    /// From one to the next.
    pub interval: Duration,
    /// From the start of all to the first.
    pub offset: Duration,
    /// From the start of all to the end of this one.
    pub until: Duration,
}

/// One datagram that came, with times in nanoseconds since the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number, from 0.
    pub seq: u64,
    /// When it was due to be sent.
    pub due: u64,
    /// When it was sent.
    pub sent: u64,
    /// When it was received.
    pub received: u64,
}

/// Sends all streams from `origin` on, in this thread, until they or `stop` end it; answers with the
/// times at which each datagram was handed over, in nanoseconds since `origin`, stream by stream.
pub fn send(streams: &[Stream], origin: Instant, stop: &AtomicBool) -> Vec<Vec<u64>> {
    urgent();
    let mut sent = vec![Vec::new(); streams.len()];
    let mut buffer = vec![0; streams.iter().map(|stream| stream.payload).max().unwrap_or(0)];
    let due = |at: usize, sent: &[Vec<u64>]| {
        let stream = &streams[at];
        // A stream sends fewer than 2^32 datagrams: a million a second for an hour.
        let due =
            stream.offset + stream.interval * u32::try_from(sent[at].len()).unwrap_or(u32::MAX);
        (due < stream.until).then_some(due)
    };
    let next = |sent: &[Vec<u64>]| {
        let waiting = (0..streams.len()).filter_map(|at| due(at, sent).map(|due| (due, at)));
        waiting.min()
    };
    while let Some((due, at)) = next(&sent) {
        if !wait_until(due, origin, stop) {
            break;
        }
        let stream = &streams[at];
        let now = nanos(origin.elapsed());
        let words = [sent[at].len() as u64, nanos(due), now];
        for (place, word) in buffer.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        // What the own host refuses is lost like any other: the receiver does not get it.
        let _ = stream.socket.send_to(&buffer[..stream.payload], stream.to);
        sent[at].push(now);
    }
    sent
}

/// Whether the time came, and not the stop.
pub(super) fn wait_until(due: Duration, origin: Instant, stop: &AtomicBool) -> bool {
    while let Some(early) = due.checked_sub(origin.elapsed()) {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let _ = poll(&mut [], Timespec::try_from(early.min(LOOK)).ok().as_ref());
    }
    !stop.load(Ordering::Relaxed)
}

/// Receives on all sockets until `until` (since `origin`) or `stop`, in this thread; what came on each, in
/// order.
pub fn receive(
    sockets: &[UdpSocket],
    origin: Instant,
    until: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Vec<Arrival>>, NetError> {
    urgent();
    for socket in sockets {
        set_up(socket).map_err(|source| NetError::Io {
            doing: "could not set up a socket to receive".into(),
            source,
        })?;
    }
    let mut arrivals = vec![Vec::new(); sockets.len()];
    let mut buffer = [0; 2048];
    while let Some(left) = until.checked_sub(origin.elapsed()) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let file = |socket| PollFd::new(socket, PollFlags::IN);
        let mut files: Vec<PollFd<'_>> = sockets.iter().map(file).collect();
        let _ = poll(&mut files, Timespec::try_from(left.min(LOOK)).ok().as_ref());
        for (socket, arrivals) in sockets.iter().zip(&mut arrivals) {
            while let Ok(length) = socket.recv(&mut buffer) {
                arrivals.extend(read(&buffer[..length], nanos(origin.elapsed())));
            }
        }
    }
    Ok(arrivals)
}

fn set_up(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    Ok(rustix::net::sockopt::set_socket_recv_buffer_size_force(socket.as_fd(), RECEIVE_BUFFER)?)
}

/// A datagram of ours; `None` for one of somebody else.
fn read(payload: &[u8], received: u64) -> Option<Arrival> {
    let word = |at: usize| {
        let bytes = payload.get(at * 8..at * 8 + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    Some(Arrival { seq: word(0)?, due: word(1)?, sent: word(2)?, received })
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_due_is_sent_and_known_again() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let interval = Duration::from_millis(1);
        let until = interval * 11;
        let stream = Stream { socket, to, payload: 100, interval, offset: interval, until };
        let (origin, stop) = (Instant::now(), AtomicBool::new(false));
        let sent = send(&[stream], origin, &stop);
        let patient = origin.elapsed() + Duration::from_secs(1);
        let arrivals = receive(&[receiver], origin, patient, &stop).unwrap();
        let seen: Vec<_> = arrivals[0].iter().map(|arrival| (arrival.seq, arrival.sent)).collect();
        assert_eq!(seen.len(), 10);
        assert!(seen.iter().copied().eq((0..).zip(sent[0].iter().copied())));
        let apart = arrivals[0].windows(2).all(|pair| pair[1].due - pair[0].due == 1_000_000);
        assert!(apart, "due in step: {arrivals:?}");
        assert!(arrivals[0].iter().all(|one| one.due <= one.sent && one.sent <= one.received));
    }

    #[test]
    fn a_stop_ends_both() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, hour) = (socket.local_addr().unwrap(), Duration::from_secs(3600));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stream = Stream {
            socket: sender,
            to,
            payload: 24,
            interval: hour,
            offset: hour,
            until: hour * 2,
        };
        let (origin, stop) = (Instant::now(), AtomicBool::new(true));
        assert_eq!(send(&[stream], origin, &stop), [Vec::<u64>::new()]);
        assert_eq!(receive(&[socket], origin, hour, &stop).unwrap(), [vec![]]);
    }

    #[test]
    fn what_is_not_ours_is_left_out() {
        assert_eq!(read(&[0; 23], 1), None);
        assert_eq!(read(&[0; 24], 1), Some(Arrival { seq: 0, due: 0, sent: 0, received: 1 }));
    }
}
