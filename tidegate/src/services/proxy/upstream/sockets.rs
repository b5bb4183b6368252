//! What the kernel knows of an upstream's connections, all together.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_node::io::{PathSample, TcpState};
use tidegate_types::units::{Rate, Size, Time};

use crate::support::tcp_info;

/// How long the best delivery rate counts.
const BEST_FOR: Duration = Duration::from_secs(10);

/// A socket that is open as long as it stands here: it is taken out before it is closed ([`Io`](super::io::Io)).
#[derive(Clone, Copy, Debug)]
struct Open(RawFd);

impl AsRawFd for Open {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

#[derive(Debug)]
struct Seen {
    socket: Open,
    written: Arc<AtomicU64>,
    acked: u64,
}

#[derive(Debug, Default)]
struct All {
    open: BTreeMap<u64, Seen>,
    last: u64,
    /// Acknowledged on connections that are gone.
    gone: u64,
    best: Option<(Rate, Time)>,
}

/// See the file's header.
#[derive(Debug, Default)]
pub(in crate::services::proxy) struct Sockets(Mutex<All>);

impl Sockets {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection begins; the number ends it.
    pub(super) fn begin(&self, (socket, written): (RawFd, Arc<AtomicU64>)) -> u64 {
        let all = &mut *self.all();
        all.last += 1;
        all.open.insert(all.last, Seen { socket: Open(socket), written, acked: 0 });
        all.last
    }

    /// It ended.
    pub(super) fn end(&self, number: u64) {
        let all = &mut *self.all();
        all.gone += all.open.remove(&number).map_or(0, |seen| seen.acked);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all().open.len()
    }

    /// Their figures as those of one path, and the best rate of the last seconds.
    pub(super) fn figures(&self, now: Time) -> (PathSample, Option<Rate>) {
        let all = &mut *self.all();
        let mut sample = PathSample { delivered: Size(all.gone), ..PathSample::default() };
        let (mut most, mut tcp) = (0, Vec::new());
        for seen in all.open.values_mut() {
            let Ok(info) = tcp_info::read(&seen.socket) else { continue };
            let newly = info.acked.saturating_sub(seen.acked);
            seen.acked = info.acked;
            let written = seen.written.load(Ordering::Relaxed);
            sample.delivered += Size(info.acked);
            sample.in_flight += Size(written.saturating_sub(info.acked));
            sample.unsent += Size(info.unsent);
            sample.lost += Size(info.resent);
            tcp.push(TcpState::from(&info));
            if newly > most {
                (most, sample.rtt) = (newly, Some(info.srtt));
            }
            let rate = Rate::new(info.delivery_rate as f64);
            let is_best =
                all.best.is_none_or(|(best, at)| rate >= best || now.since(at) > BEST_FOR);
            if newly > 0 && is_best && !rate.is_zero() {
                all.best = Some((rate, now));
            }
        }
        sample.tcp = TcpState::together(tcp.into_iter());
        (sample, all.best.map(|(rate, _)| rate))
    }
}
