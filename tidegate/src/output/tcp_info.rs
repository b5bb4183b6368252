//! What the kernel knows of a TCP connection: `TCP_INFO`. The one place with `unsafe` in the project
//! (docs/decisions/0005-tcp-info.md).

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

/// Byte-level state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Bytes that the far end acknowledged, since the connection was made.
    pub acked: u64,
    /// Bytes in the socket's buffer that have not been sent.
    pub unsent: u64,
    /// Bytes sent again.
    pub resent: u64,
}

/// Head of the kernel's `struct tcp_info`: its layout only ever grows at the end.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    /// `tcpi_state` to the delivery-rate flag.
    bytes: [u8; 8],
    /// `tcpi_rto` to `tcpi_total_retrans`.
    words: [u32; 24],
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
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
/// Not a TCP socket.
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
    Ok(TcpInfo {
        acked: raw.bytes_acked,
        unsent: raw.notsent_bytes.into(),
        resent: raw.bytes_retrans,
    })
}

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
        near.write_all(&[7; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        let after = read(&near).unwrap();
        assert_eq!((after.acked - start.acked, after.unsent), (1000, 0));
        near.set_nonblocking(true).unwrap();
        while near.write(&[7; 65536]).is_ok() {}
        assert!(read(&near).unwrap().unsent > 0, "the far end does not read");
    }

    #[test]
    fn what_is_no_connection_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(read(&file).is_err());
    }
}
