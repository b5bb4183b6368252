//! The socket below QUIC: marks its packets as those of L4S (RFC 9331), and counts those that come with a mark of congestion.
//!
//! QUIC (quinn) sends ECT(0), and goes on with it where the counts of ECT(0) and CE that come back fit what it sent. So ECT(1) is
//! set here, behind its back, and shown to the far end's as ECT(0) again. What came with CE is shown as it is, and counted for the
//! link: quinn tells nobody how many.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, UdpPoller,
};

/// Far ends with marks that nobody has asked for: whoever sends us packets can make one.
const COUNTS_MAX: usize = 1024;

/// What a socket marks and counts.
#[derive(Debug, Default)]
pub(crate) struct Marking {
    /// Whether what is sent is ECT(1).
    is_scalable: AtomicBool,
    /// Whether there are counts.
    is_marked: AtomicBool,
    /// Packets that came with CE since somebody asked, by their source.
    counts: Mutex<BTreeMap<SocketAddr, u64>>,
}

impl Marking {
    /// From now on its packets are ECT(1), or not: whoever sends them must answer marks as L4S asks.
    pub(crate) fn is_scalable(&self, is_scalable: bool) {
        self.is_scalable.store(is_scalable, Ordering::Relaxed);
    }

    /// Packets that came with CE from there since this was asked last.
    pub(crate) fn take(&self, from: impl FnOnce() -> SocketAddr) -> u64 {
        if !self.is_marked.load(Ordering::Relaxed) {
            return 0;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.remove(&from()).unwrap_or_default();
        self.is_marked.store(!counts.is_empty(), Ordering::Relaxed);
        count
    }

    fn sends(&self, ecn: Option<EcnCodepoint>) -> Option<EcnCodepoint> {
        let is_scalable = self.is_scalable.load(Ordering::Relaxed);
        ecn.map(|ecn| if is_scalable { EcnCodepoint::Ect1 } else { ecn })
    }

    fn came(&self, meta: &mut RecvMeta) {
        match meta.ecn {
            Some(EcnCodepoint::Ect1) => meta.ecn = Some(EcnCodepoint::Ect0),
            Some(EcnCodepoint::Ce) => {
                let packets = meta.len.div_ceil(meta.stride.max(1)) as u64;
                let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
                if counts.len() >= COUNTS_MAX {
                    counts.clear();
                }
                *counts.entry(meta.addr).or_default() += packets;
                self.is_marked.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

struct Socket {
    below: Arc<dyn AsyncUdpSocket>,
    marking: Arc<Marking>,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.below.fmt(f)
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.below.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let ecn = self.marking.sends(transmit.ecn);
        self.below.try_send(&Transmit { ecn, ..transmit.clone() })
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.below.poll_recv(context, buffers, metas))?;
        metas.iter_mut().take(count).for_each(|meta| self.marking.came(meta));
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.below.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.below.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.below.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.below.may_fragment()
    }
}

/// QUIC above a bound socket, and what that marks and counts.
///
/// # Errors
/// The runtime does not take the socket.
pub(crate) fn endpoint(
    config: EndpointConfig,
    server: Option<ServerConfig>,
    socket: UdpSocket,
) -> io::Result<(Endpoint, Arc<Marking>)> {
    let (runtime, marking) = (Arc::new(TokioRuntime), Arc::<Marking>::default());
    let below = runtime.wrap_udp_socket(socket)?;
    let socket = Arc::new(Socket { below, marking: marking.clone() });
    let endpoint = Endpoint::new_with_abstract_socket(config, server, socket, runtime)?;
    Ok((endpoint, marking))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ect_1_goes_out_only_when_asked_for_and_ce_is_counted_by_its_source() {
        let marking = Marking::default();
        let ect = [None, Some(EcnCodepoint::Ect0)];
        assert_eq!(ect.map(|ecn| marking.sends(ecn)), ect);
        marking.is_scalable(true);
        assert_eq!(ect.map(|ecn| marking.sends(ecn)), [None, Some(EcnCodepoint::Ect1)]);
        let source = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let came = |port: u16, ecn: EcnCodepoint| {
            let ecn = Some(ecn);
            let mut meta =
                RecvMeta { addr: source(port), len: 2500, stride: 1000, ecn, dst_ip: None };
            marking.came(&mut meta);
            meta.ecn
        };
        assert_eq!(came(1, EcnCodepoint::Ect1), Some(EcnCodepoint::Ect0));
        assert_eq!(came(1, EcnCodepoint::Ect0), Some(EcnCodepoint::Ect0));
        assert_eq!(marking.take(|| source(1)), 0);
        assert_eq!(came(1, EcnCodepoint::Ce), Some(EcnCodepoint::Ce));
        came(2, EcnCodepoint::Ce);
        came(1, EcnCodepoint::Ce);
        assert_eq!([1, 1, 2, 2].map(|port| marking.take(|| source(port))), [6, 0, 3, 0]);
        for port in 0..3000 {
            came(port, EcnCodepoint::Ce);
        }
        assert!(marking.counts.lock().unwrap().len() <= COUNTS_MAX);
    }
}
