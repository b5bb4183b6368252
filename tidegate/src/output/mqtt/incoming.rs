//! What a broker says to a publisher, in either version.

use bytes::{Buf, BytesMut};
use tidegate_mqtt::client as wire;
use tidegate_mqtt::frame::{Front, front};
use tidegate_mqtt::{Reason, Version, Violation};
use tidegate_node::io::Refusal;
use tidegate_types::record::DropReason;

use crate::output::protocol::{ProtocolError, words};

/// Largest packet that we read: a broker has nothing long to say to a publisher.
const PACKET_MAX: u32 = 64 * 1024;

/// One thing that the broker said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The login is done.
    Welcome {
        /// Records that it takes unacknowledged.
        receive_max: usize,
        /// Largest packet that it takes.
        packet_max: usize,
        /// Its own idea of a keepalive, in seconds.
        keep_alive: Option<u16>,
        /// Whether it retains.
        retains: bool,
    },
    /// It does not let us in, and why.
    Refused(String),
    /// It speaks 3.1.1 only.
    TooNew,
    /// A PUBACK: arrived, or not.
    Ack(u16, Option<(Refusal, String)>),
    /// A sign of life.
    Pong,
    /// It ends the connection, and why.
    Bye(String),
}

/// Takes the first packet off `input`, once all of it is there.
///
/// # Errors
/// It is no packet that a broker sends to a publisher.
pub(super) fn next(version: Version, input: &mut BytesMut) -> Result<Option<Said>, ProtocolError> {
    let Front::Complete(frame) = front(input, PACKET_MAX).map_err(broken)? else {
        return Ok(None);
    };
    let said = match (frame.first >> 4, frame.first & 0x0F) {
        (2, 0) => welcome(version, frame.body).map_err(broken)?,
        (4, 0) => {
            let (id, code) = wire::acknowledged(version, frame.body).map_err(broken)?;
            Said::Ack(id, verdict(code).map(|refusal| (refusal, explained(code, None))))
        }
        (13, 0) => Said::Pong,
        (14, 0) if version == Version::V5 => {
            let (code, why) = wire::farewell(frame.body).map_err(broken)?;
            Said::Bye(explained(code, why))
        }
        (kind, _) => {
            let what = format!("packet type {kind}, which no publisher expects");
            return Err(ProtocolError::Malformed { protocol: "MQTT", what });
        }
    };
    let size = frame.size;
    input.advance(size);
    Ok(Some(said))
}

fn welcome(version: Version, body: &[u8]) -> Result<Said, Violation> {
    let answer = wire::welcome(version, body)?;
    Ok(match answer.code {
        0 if answer.is_old && version == Version::V5 => {
            return Err(Violation::protocol("a CONNACK of MQTT 3.1.1 to a client of MQTT 5"));
        }
        0 if answer.maximum_qos == 0 => Said::Refused("it takes no QoS 1".into()),
        0 => Said::Welcome {
            receive_max: usize::from(answer.receive_maximum),
            packet_max: answer.maximum_packet_size.map_or(usize::MAX, |size| size as usize),
            keep_alive: answer.keepalive,
            retains: answer.retains,
        },
        1 if answer.is_old => Said::TooNew,
        0x84 if !answer.is_old => Said::TooNew,
        code if answer.is_old => Said::Refused(refused_by_code(code)),
        code => Said::Refused(explained(code, answer.words)),
    })
}

/// The return codes of MQTT 3.1.1 (3.2.2.3) in words.
fn refused_by_code(code: u8) -> String {
    let words = match code {
        2 => "client identifier rejected",
        3 => "server unavailable",
        4 => "bad user name or password",
        5 => "not authorized",
        _ => return format!("return code {code} of MQTT 3.1.1"),
    };
    format!("{words} (return code {code} of MQTT 3.1.1)")
}

/// What a PUBACK's reason code means for the record; `None`: it has arrived.
fn verdict(code: u8) -> Option<Refusal> {
    match code {
        // Also where nobody has subscribed (0x10).
        0..0x80 => None,
        _ if code == Reason::QuotaExceeded as u8 => Some(Refusal::Retry),
        _ => Some(Refusal::Final(DropReason::Refused)),
    }
}

fn explained(code: u8, text: Option<&str>) -> String {
    let name =
        wire::reason_name(code).map_or_else(|| format!("reason code {code:#04x}"), str::to_owned);
    match text {
        Some(text) => format!("{name}: {}", words(text)),
        None => name,
    }
}

fn broken(violation: Violation) -> ProtocolError {
    ProtocolError::Malformed { protocol: "MQTT", what: violation.to_string() }
}
