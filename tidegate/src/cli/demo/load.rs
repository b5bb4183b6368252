//! The demo's sensors: MQTT 5 clients that publish at a fixed rate, whatever becomes of it.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

use crate::support::headers::SOURCE_TIME;

/// A kind of sensor.
#[derive(Clone, Copy, Debug)]
pub struct Sensor {
    /// Where it publishes.
    pub topic: &'static str,
    /// Bytes of one payload.
    pub payload: usize,
    /// How often it publishes.
    pub every: Duration,
}

/// Small and urgent: 200 bytes, five a second.
pub const ALARMS: Sensor =
    Sensor { topic: "plant/alarms", payload: 200, every: Duration::from_millis(200) };

/// Large and patient: 20 kilobytes, twenty a second, which is 3.2 Mbit/s.
pub const BULK: Sensor =
    Sensor { topic: "plant/bulk", payload: 20_000, every: Duration::from_millis(50) };

/// Publishes with QoS 1 until it is aborted or the node ends the connection.
///
/// # Errors
/// The connection failed, or the node refused the client or a record.
pub async fn publish(node: SocketAddr, sensor: Sensor) -> io::Result<()> {
    let mut stream = TcpStream::connect(node).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&connect(sensor.topic)).await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    if answer[0] != 0x20 || answer[3] != 0 {
        return Err(io::Error::other(format!("the node refused the sensor: {answer:02x?}")));
    }
    let (mut read, mut write) = stream.into_split();
    let acknowledgements = async {
        // They only have to be taken: the node tells what became of the records.
        let mut sink = [0; 4096];
        while read.read(&mut sink).await? > 0 {}
        Err(io::Error::from(io::ErrorKind::ConnectionReset))
    };
    let records = async {
        let mut ticks = interval(sensor.every);
        // After a hold-up the missed records are made at once: the world does not wait either.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let payload = vec![b'.'; sensor.payload];
        for id in (1..=u16::MAX).cycle() {
            ticks.tick().await;
            write.write_all(&record(sensor.topic, id, unix_ns(), &payload)).await?;
        }
        Ok(())
    };
    tokio::try_join!(acknowledgements, records).map(|((), ())| ())
}

/// Wall time, as sources stamp it.
pub(super) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// CONNECT of MQTT 5: clean start, no keepalive, no properties.
fn connect(client_id: &str) -> Vec<u8> {
    let mut body = b"\x00\x04MQTT\x05\x02\x00\x00\x00".to_vec();
    push_text(&mut body, client_id);
    packet(0x10, &body)
}

/// PUBLISH with QoS 1 and the source's time as a user property.
fn record(topic: &str, id: u16, unix_ns: u64, payload: &[u8]) -> Vec<u8> {
    let mut properties = vec![0x26];
    push_text(&mut properties, SOURCE_TIME);
    push_text(&mut properties, &unix_ns.to_string());
    let mut body = Vec::with_capacity(payload.len() + 128);
    push_text(&mut body, topic);
    body.extend(id.to_be_bytes());
    body.push(u8::try_from(properties.len()).expect("one short property"));
    body.extend(properties);
    body.extend(payload);
    packet(0x32, &body)
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("the demo's texts are short");
    bytes.extend(length.to_be_bytes());
    bytes.extend(text.as_bytes());
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let mut left = body.len();
    loop {
        let digit = (left % 128) as u8;
        left /= 128;
        if left == 0 {
            bytes.push(digit);
            break;
        }
        bytes.push(digit | 0x80);
    }
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn packets_are_as_the_standard_says() {
        assert_eq!(connect("a"), b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01a");
        let record = record("t", 7, 12, b"xy");
        assert_eq!(record[..2], [0x32, 29]);
        assert_eq!(record[2..7], [0, 1, b't', 0, 7]);
        assert_eq!((record[7], record[8]), (21, 0x26));
        assert_eq!(record.len(), 31);
        assert!(record.ends_with(b"\x00\x0212xy"));
        assert_eq!(packet(0x30, &[0; 321])[..3], [0x30, 0xc1, 0x02]);
    }

    #[tokio::test]
    async fn a_refused_sensor_ends_with_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let node = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 16];
            stream.read_exact(&mut hello).await.unwrap();
            stream.write_all(&[0x20, 0x03, 0x00, 0x87, 0x00]).await.unwrap();
        });
        let error = publish(address, ALARMS).await.unwrap_err();
        assert!(error.to_string().contains("refused the sensor"), "{error}");
        node.await.unwrap();
    }
}
