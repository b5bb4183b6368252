//! What a load balancer says of a connection before the connection's own bytes: from where it comes. Version 2 of the
//! PROXY protocol (HAProxy's proxy-protocol.txt, 2.2).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpStream;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of every header; how many follow is among them.
const FIXED: usize = 16;
/// Bytes of the longest header that is taken. The addresses take 36; the rest are extensions, which nobody reads.
const LONGEST: usize = 4096;

/// A header, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    /// So many bytes are needed in all, as far as is known.
    Partial(usize),
    /// It is complete. The source is of TCP; there is none where the load balancer speaks for itself, or of another
    /// kind of connection.
    Whole(Option<SocketAddr>),
}

/// Reads a header from its first byte on.
fn header(bytes: &[u8]) -> Result<Header, &'static str> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(match bytes.starts_with(b"PROXY") {
            true => "version 1 of the PROXY protocol: let the load balancer send version 2",
            false => "no header of the PROXY protocol, which proxy_protocol wants of this address",
        });
    }
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED) else {
        return Ok(Header::Partial(FIXED));
    };
    let size = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if size > LONGEST {
        return Err("a header of the PROXY protocol above 4096 bytes");
    }
    let is_local = match fixed[12] {
        0x20 => true,
        0x21 => false,
        _ => return Err("a header of the PROXY protocol of an unknown version or command"),
    };
    if bytes.len() < size {
        return Ok(Header::Partial(size));
    }
    let rest = &rest[..size - FIXED];
    let short = "a header of the PROXY protocol without room for its addresses";
    let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
    Ok(Header::Whole(match (fixed[13], rest.first_chunk::<4>(), rest.first_chunk::<16>()) {
        _ if is_local => None,
        (0x11, Some(source), _) if rest.len() >= 12 => {
            Some((Ipv4Addr::from(*source), port(8)).into())
        }
        (0x21, _, Some(source)) if rest.len() >= 36 => {
            Some((Ipv6Addr::from(*source), port(32)).into())
        }
        (0x11 | 0x21, ..) => return Err(short),
        _ => None,
    }))
}

/// Reads the header, and no byte more; the answer is from where the connection comes, or what is wrong.
///
/// # Errors
/// The connection failed or ended.
pub(crate) async fn hear(tcp: &TcpStream) -> io::Result<Result<Option<SocketAddr>, &'static str>> {
    let mut bytes = Vec::new();
    loop {
        let size = match header(&bytes) {
            Ok(Header::Partial(size)) => size,
            Ok(Header::Whole(source)) => return Ok(Ok(source)),
            Err(why) => return Ok(Err(why)),
        };
        tcp.readable().await?;
        let held = bytes.len();
        bytes.resize(size, 0);
        let count = match tcp.try_read(&mut bytes[held..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        bytes.truncate(held + count);
    }
}

/// Plays bytes to it, all at once and as they come.
pub fn exercise(bytes: &[u8]) {
    let whole = header(bytes);
    let mut have = 0;
    let pieces = loop {
        match header(&bytes[..have]) {
            Ok(Header::Partial(size)) if have < bytes.len() => {
                assert!(have < size && size <= LONGEST, "it goes on, and within its bound");
                have = size.min(bytes.len());
            }
            other => break other,
        }
    };
    assert_eq!(pieces, whole, "what follows changes nothing");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    /// From 192.0.2.7, port 50,000, to 10.0.0.1, port 1883.
    const V4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0xC3, 0x50, 7, 0x5B];

    #[test]
    fn it_names_the_source() {
        let source = Ok(Header::Whole(Some("192.0.2.7:50000".parse().unwrap())));
        assert_eq!(header(&bytes(0x21, 0x11, &V4)), source);
        let with_extension = [&V4[..], &[4, 0, 1, 9]].concat();
        assert_eq!(header(&bytes(0x21, 0x11, &with_extension)), source);
        let v6 =
            [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[7], &[0; 16], &[0xC3, 0x50, 7, 0x5B]].concat();
        let source = Ok(Header::Whole(Some("[2001:db8::7]:50000".parse().unwrap())));
        assert_eq!(header(&bytes(0x21, 0x21, &v6)), source);
    }

    #[test]
    fn a_health_check_and_other_kinds_of_connections_name_none() {
        for (command, family, rest) in
            [(0x20, 0x00, &[][..]), (0x20, 0x11, &V4), (0x21, 0x00, &[1, 2]), (0x21, 0x12, &V4)]
        {
            assert_eq!(header(&bytes(command, family, rest)), Ok(Header::Whole(None)));
        }
    }

    #[test]
    fn it_is_read_as_it_comes_and_not_beyond() {
        let whole = [&bytes(0x21, 0x11, &V4)[..], b"\x10\x0e\0\x04MQTT"].concat();
        for have in 0..FIXED {
            assert_eq!(header(&whole[..have]), Ok(Header::Partial(FIXED)), "{have}");
        }
        for have in FIXED..FIXED + 12 {
            assert_eq!(header(&whole[..have]), Ok(Header::Partial(FIXED + 12)), "{have}");
        }
        exercise(&whole);
    }

    #[test]
    fn what_is_none_is_told_why() {
        let long = [&SIGNATURE[..], &[0x21, 0x11, 0x10, 0]].concat();
        for (bytes, why) in [
            (b"PROXY TCP4 192.0.2.7 ".to_vec(), "version 1"),
            (b"\x10".to_vec(), "no header"),
            (bytes(0x11, 0x11, &V4), "unknown version"),
            (bytes(0x22, 0x11, &V4), "unknown version or command"),
            (bytes(0x21, 0x11, &V4[..11]), "without room"),
            ([&bytes(0x21, 0x11, &V4[..11])[..], &V4].concat(), "without room"),
            (bytes(0x21, 0x21, &V4), "without room"),
            (long, "4096"),
        ] {
            let told = header(&bytes).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
