//! The fallback where UDP is blocked: packets over TLS over TCP, each behind two bytes of length.
//!
//! What TCP does not take at once waits in a short queue, and beyond it is lost, as at the interface of a
//! router: the link sees the delay, and sends no more than the connection carries.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::mpsc;

use super::PACKET_MAX;
use super::thread::count_packet;
use super::wire::{Heard, split};
use crate::support::tls::Stream;

/// Packets that wait for room in the connection.
pub(super) const PACKETS_MAX: usize = 64;
/// Bytes that may be handed to TLS and the kernel ahead of what TCP sends: beyond, nothing is overtaken.
const UNSENT_MAX: u32 = 16 * 1024;
/// Bytes read by one call.
const READ: usize = 16 * 1024;
/// What a connection may make us hold: TLS records in both directions, what was read, and packets that wait.
pub(crate) const ROOM: usize = 2 * (18 << 10) + 2 * READ + PACKETS_MAX * PACKET_MAX;

/// Sets a socket up for packets.
///
/// # Errors
/// The connection is gone.
pub(crate) fn prepare(socket: &tokio::net::TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_MAX)
}

/// Takes one datagram off the front of what came.
///
/// # Errors
/// It is longer than any of ours.
pub(crate) fn take(input: &mut BytesMut) -> io::Result<Option<Bytes>> {
    let Some(head) = input.first_chunk() else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes(*head));
    if length > PACKET_MAX + 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the far end is no link"));
    }
    if input.len() < 2 + length {
        return Ok(None);
    }
    input.advance(2);
    Ok(Some(input.split_to(length).freeze()))
}

/// Reads until a datagram is there.
///
/// # Errors
/// The connection ended.
pub(crate) async fn first(stream: &mut Stream, input: &mut BytesMut) -> io::Result<Bytes> {
    loop {
        if let Some(datagram) = take(input)? {
            return Ok(datagram);
        }
        stream.readable().await?;
        read(stream, input)?;
    }
}

fn read(stream: &mut Stream, input: &mut BytesMut) -> io::Result<()> {
    input.reserve(READ);
    match stream.try_read(input) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

/// Carries packets both ways until the connection ends, or nobody sends any more; then says so. Answers
/// why.
pub(crate) async fn carry(
    stream: &mut Stream,
    mut input: BytesMut,
    mut packets: mpsc::Receiver<Vec<u8>>,
    (path, number): (usize, u64),
    heard: &mpsc::Sender<Heard>,
) -> io::Error {
    let mut output = BytesMut::new();
    let error = loop {
        loop {
            match take(&mut input) {
                Ok(None) => break,
                Ok(Some(datagram)) => {
                    count_packet();
                    if let Some((packet, of)) = split(datagram)
                        && of == path
                        && heard.send(Heard::Packet { path, number, packet }).await.is_err()
                    {
                        return io::ErrorKind::Interrupted.into();
                    }
                }
                Err(error) => {
                    let _ = heard.send(Heard::Down { path, number }).await;
                    return error;
                }
            }
        }
        let has_output = !output.is_empty() || stream.has_to_write();
        let step = tokio::select! {
            ready = stream.readable() => ready.and_then(|()| read(stream, &mut input)),
            ready = stream.writable(), if has_output => {
                ready.and_then(|()| write(stream, &mut output))
            }
            packet = packets.recv(), if output.len() < PACKET_MAX => match packet {
                Some(packet) => {
                    output.extend_from_slice(&(packet.len() as u16).to_le_bytes());
                    output.extend_from_slice(&packet);
                    Ok(())
                }
                None => Err(io::ErrorKind::Interrupted.into()),
            },
        };
        if let Err(error) = step {
            break error;
        }
    };
    let _ = heard.send(Heard::Down { path, number }).await;
    error
}

fn write(stream: &mut Stream, output: &mut BytesMut) -> io::Result<()> {
    match stream.try_write(output) {
        Ok(written) => {
            output.advance(written);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_found_however_they_come() {
        let mut input = BytesMut::new();
        assert_eq!(take(&mut input).unwrap(), None);
        let sent = [2, 0, b'a', b'b', 0, 0, 1, 0];
        let mut found = Vec::new();
        for byte in sent.into_iter().chain([b'c']) {
            input.extend_from_slice(&[byte]);
            found.extend(take(&mut input).unwrap());
        }
        assert_eq!(found, [&b"ab"[..], b"", b"c"]);
        input.extend_from_slice(b"GET / HTTP/1.1\r\n");
        assert!(take(&mut input).is_err());
    }
}
