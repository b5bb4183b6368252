//! Connections whose client speaks something else than HTTP: their bytes pass both ways as they come, where the listener
//! says to which upstream.

use std::rc::Rc;
use std::time::Duration;

use tidegate_node::io::OutputId;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::listener::{ListenerSettings, Peer};
use super::worker::WorkerContext;
use crate::support::http::{Busy, Meter, Watched};

/// Bytes by which a protocol is told.
const FIRST: usize = 24;
/// First and longest wait for more of them, and how long they may take: what is unclear then is HTTP's to answer.
const WAITS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
const UNCLEAR_MAX: Duration = Duration::from_secs(1);

/// Whether the first bytes of a connection begin a request, or nothing comes in time: that is HTTP's to answer. A client
/// that waits for its server's first word is not told apart.
pub(super) async fn is_http(stream: &TcpStream, settings: &ListenerSettings) -> bool {
    let mut first = [0; FIRST];
    if !matches!(timeout(settings.patience.keep_alive, stream.peek(&mut first)).await, Ok(Ok(1..)))
    {
        return true;
    }
    let told = async {
        let mut wait = WAITS.0;
        loop {
            let count = stream.peek(&mut first).await.ok()?;
            let begins = begins_request(&first[..count]);
            if begins.is_some() || count == FIRST {
                return begins;
            }
            // What is there can be read at any time: nothing tells that more has come.
            sleep(wait).await;
            wait = (2 * wait).min(WAITS.1);
        }
    };
    timeout(UNCLEAR_MAX, told).await.ok().flatten().unwrap_or(true)
}

/// Whether this is a method and a space, behind empty lines (RFC 9112, 2.2); `None`: it may become that. Methods that
/// clients use are capital letters.
fn begins_request(first: &[u8]) -> Option<bool> {
    let empty = first.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let first = &first[empty..];
    let method =
        first.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    // "SSH-2.0-" is none.
    first.get(method).map(|next| method > 0 && *next == b' ')
}

/// Lets bytes pass until both ends have closed, or neither has said anything for as long as an upgraded connection may be
/// silent.
pub(super) async fn pass(
    stream: TcpStream,
    peer: &Rc<Peer>,
    worker: &Rc<WorkerContext>,
    upstream: OutputId,
) {
    let Ok(_place) = worker.tunnels.clone().try_acquire_owned() else { return };
    let Some(upstream) = worker.routes_now().upstream(upstream).cloned() else { return };
    let Ok(far) = upstream.tunnel(peer.original).await else { return };
    let _busy = Busy::begin(&peer.meter);
    let client = Watched::new(stream, peer.meter.clone());
    between(client, far, &peer.meter, peer.tunnel_timeout).await;
}

/// Lets bytes pass both ways; a client's are counted by `meter`.
pub(super) async fn between(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut upstream: impl AsyncRead + AsyncWrite + Unpin,
    meter: &Meter,
    patience: Duration,
) {
    let silent = async {
        let mut before = None;
        while before != Some(meter.moved()) {
            before = Some(meter.moved());
            sleep(patience).await;
        }
    };
    tokio::select! {
        // Who breaks off is the business of the two.
        _ = copy_bidirectional(&mut client, &mut upstream) => {}
        () = silent => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_from_other_protocols() {
        for http in
            ["GET / HTTP/1.1", "PRI * HTTP/2.0", "M-SEARCH *", "PROPFIND /", "\r\n\r\nGET /"]
        {
            assert_eq!(begins_request(http.as_bytes()), Some(true), "{http}");
        }
        let others = [
            "SSH-2.0-OpenSSH_9",
            "\x16\x03\x01",
            "*1\r\n$4\r\nPING",
            "get /",
            " GET",
            "\0",
            "\r\n\0",
        ];
        for other in others {
            assert_eq!(begins_request(other.as_bytes()), Some(false), "{other:?}");
        }
        for unclear in ["", "G", "SSH", "\r", "\r\n", "\nGET"] {
            assert_eq!(begins_request(unclear.as_bytes()), None, "{unclear:?}");
        }
    }
}
