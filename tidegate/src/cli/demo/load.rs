//! The demo's sensors: MQTT 5 clients that publish at a fixed rate, whatever becomes of it.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_mqtt::Version;
use tidegate_mqtt::client::{Login, connect, welcome};
use tidegate_mqtt::frame::{Front, front};
use tidegate_mqtt::publish::{PublishHead, user_properties};
use tidegate_types::headers::SOURCE_TIME;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

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

/// Longest answer to a CONNECT.
const ANSWER_MAX: u32 = 64 * 1024;

/// Publishes with QoS 1 until it is aborted or the node ends the connection.
///
/// # Errors
/// The connection failed, or the node refused the client or a record.
pub async fn publish(node: SocketAddr, sensor: Sensor) -> io::Result<()> {
    let mut stream = TcpStream::connect(node).await?;
    stream.set_nodelay(true)?;
    log_in(&mut stream, sensor.topic).await?;
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

/// CONNECT of MQTT 5 (clean start, no keepalive), and its answer.
async fn log_in(stream: &mut TcpStream, client_id: &str) -> io::Result<()> {
    let mut hello = Vec::new();
    connect(&mut hello, &Login::new(Version::V5, client_id));
    stream.write_all(&hello).await?;
    let mut answer = Vec::new();
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Front::Complete(packet) = front(&answer, ANSWER_MAX).map_err(io::Error::other)? else {
            continue;
        };
        let said = welcome(Version::V5, packet.body).map_err(io::Error::other)?;
        return match (packet.first, said.code) {
            (0x20, 0) => Ok(()),
            _ => Err(io::Error::other(format!("the node refused the sensor: {said:?}"))),
        };
    }
}

/// PUBLISH with QoS 1 and the source's time as a user property.
fn record(topic: &str, id: u16, unix_ns: u64, payload: &[u8]) -> Vec<u8> {
    let time = unix_ns.to_string();
    let properties = user_properties([(SOURCE_TIME, time.as_str())].into_iter());
    let head = PublishHead {
        topic: topic.as_bytes(),
        qos: 1,
        id: Some(id),
        again: false,
        retain: false,
        properties: properties.as_deref(),
        payload: payload.len(),
    };
    let mut bytes = Vec::with_capacity(payload.len() + 128);
    assert!(head.write(&mut bytes, usize::MAX), "the demo's records are short");
    bytes.extend(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn packets_are_as_the_standard_says() {
        let record = record("t", 7, 12, b"xy");
        assert_eq!(record[..2], [0x32, 29]);
        assert_eq!(record[2..7], [0, 1, b't', 0, 7]);
        assert_eq!((record[7], record[8]), (21, 0x26));
        assert_eq!(record.len(), 31);
        assert!(record.ends_with(b"\x00\x0212xy"));
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
