//! What the kernel knows of a TCP connection: `TCP_INFO`. The one place with `unsafe` in the project
//! (docs/decisions/0005-tcp-info.md).

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;
use std::time::Duration;

use tidegate_node::io::TcpState;
use tidegate_types::units::Size;

/// Byte-level state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Bytes that the far end acknowledged, since the connection was made.
    pub acked: u64,
    /// Segments that the far end has behind a gap, and all that are on the way or there without an acknowledgement. None where
    /// it does not acknowledge selectively: the kernel's count is of duplicate acknowledgements then.
    pub sacked: Option<[u32; 2]>,
    /// Its retransmission timer fired, and what it took for lost is not all acknowledged yet.
    pub is_timeout: bool,
    /// Bytes in the socket's buffer that have not been sent.
    pub unsent: u64,
    /// Bytes sent again, which is how a sender sees loss; 0 before Linux 4.19.
    pub resent: u64,
    /// The kernel's smoothed round trip.
    pub srtt: Duration,
    /// The smallest round trip of the last minutes, as the kernel saw it; 0 before the first.
    pub min_rtt: Duration,
    /// Bytes/s of the newest measured flight; 0 before Linux 4.9.
    pub delivery_rate: u64,
    /// Bytes that its congestion window has room for.
    pub window: u64,
    /// Bytes on the wire without an answer, in whole segments.
    pub unacked: u64,
    /// The mean deviation of the round trip.
    pub rttvar: Duration,
    /// Segments that were sent again.
    pub retransmits: u64,
}

impl From<&TcpInfo> for TcpState {
    fn from(info: &TcpInfo) -> Self {
        TcpState {
            window: Size(info.window),
            unacked: Size(info.unacked),
            srtt: info.srtt,
            rttvar: info.rttvar,
            min_rtt: info.min_rtt,
            retransmits: info.retransmits,
            delivery_rate: info.delivery_rate,
        }
    }
}

/// Head of the kernel's `struct tcp_info`: its layout only ever grows at the end.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    /// `tcpi_state` to the delivery-rate flag: the second is `tcpi_ca_state`, the sixth `tcpi_options`.
    bytes: [u8; 8],
    /// `tcpi_rto` to `tcpi_rcv_ssthresh`: the third is `tcpi_snd_mss`, then come `tcpi_unacked` and `tcpi_sacked` at 4 and 5.
    words: [u32; 15],
    srtt_us: u32,
    /// `tcpi_rttvar` to `tcpi_total_retrans`: the third is `tcpi_snd_cwnd`.
    more_words: [u32; 8],
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt_us: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
}

/// Reads the state of a connected TCP socket.
///
/// # Errors
/// Not a TCP socket, or a kernel before Linux 4.6, which does not count what we need.
#[expect(unsafe_code, reason = "no crate without a build-time C parser offers this call")]
pub fn read(socket: &impl AsRawFd) -> io::Result<TcpInfo> {
    let mut raw = Raw::default();
    let mut length = size_of::<Raw>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `raw`, which is that large, lives through
    // the call, and is valid for every bit pattern; fields beyond a shorter answer stay zero.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut raw).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < offset_of!(Raw, min_rtt_us) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, TOO_OLD));
    }
    let mss = u64::from(raw.words[2]);
    Ok(TcpInfo {
        acked: raw.bytes_acked,
        sacked: (raw.bytes[5] & SACK != 0).then_some([raw.words[5], raw.words[4]]),
        is_timeout: raw.bytes[1] == TIMEOUT,
        unsent: raw.notsent_bytes.into(),
        resent: raw.bytes_retrans,
        srtt: Duration::from_micros(raw.srtt_us.into()),
        min_rtt: Duration::from_micros(known(raw.min_rtt_us).into()),
        delivery_rate: raw.delivery_rate,
        window: u64::from(raw.more_words[2]) * mss,
        unacked: u64::from(raw.words[4]) * mss,
        rttvar: Duration::from_micros(raw.more_words[0].into()),
        retransmits: raw.more_words[7].into(),
    })
}

/// A smallest round trip; before the first one the kernel has the largest number.
fn known(micros: u32) -> u32 {
    if micros == u32::MAX { 0 } else { micros }
}

/// `TCP_CA_Loss`.
const TIMEOUT: u8 = 4;
/// `TCPI_OPT_SACK`.
const SACK: u8 = 2;
const TOO_OLD: &str =
    "this kernel does not count acknowledged and unsent bytes: Linux 4.6 or newer does";

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn acknowledged_and_unsent_bytes_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let start = read(&near).unwrap();
        // Half a second would be a field beside the right one.
        assert!(start.srtt < Duration::from_millis(500) && start.min_rtt <= start.srtt);
        assert_eq!(start.sacked, Some([0, 0]), "Linux acknowledges selectively");
        near.write_all(&[7; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        let after = read(&near).unwrap();
        assert_eq!((after.acked - start.acked, after.unsent), (1000, 0));
        // A fresh window is ten segments (RFC 6928); of loopback they are 64 KiB.
        assert!((14_000..2_000_000).contains(&start.window), "{}", start.window);
        assert!(after.rttvar < Duration::from_millis(500) && after.retransmits == 0);
        near.set_nonblocking(true).unwrap();
        while near.write(&[7; 65536]).is_ok() {}
        let full = read(&near).unwrap();
        assert!(full.unsent > 0 && full.unacked <= full.window, "the far end does not read");
    }

    #[test]
    fn a_smallest_round_trip_before_the_first_is_none() {
        assert_eq!((known(u32::MAX), known(1234)), (0, 1234));
    }

    #[test]
    fn the_layout_is_the_kernels() {
        // Offsets in include/uapi/linux/tcp.h, counted from its field list.
        assert_eq!(offset_of!(Raw, srtt_us), 68);
        assert_eq!(offset_of!(Raw, bytes_acked), 120);
        assert_eq!(offset_of!(Raw, notsent_bytes), 144);
        assert_eq!(offset_of!(Raw, bytes_retrans), 208);
    }

    #[test]
    fn what_is_no_connection_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(read(&file).is_err());
    }
}
