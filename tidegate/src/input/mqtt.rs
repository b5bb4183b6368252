//! The MQTT input: a broker (MQTT 5, 3.1.1 and 3.1; QoS 0, 1 and 2), whose publishes are the node's records.
//!
//! A publish becomes a record: the topic is its key, MQTT 5's properties are its properties (see the
//! constants of [`tidegate_types::headers`]), the message expiry its ttl. A publish is acknowledged (QoS 1 by PUBACK, QoS 2
//! by PUBREC) when the node has accepted the record. While the node takes nothing, the socket is not
//! read: records wait at their senders. Who has subscribed here gets them as well, at once ([`crate::node::broker`]);
//! a QoS 2 publish when it is accepted, for it must not come twice.
//!
//! The code to read in order: [`listener`](bind) accepts, `connection` moves bytes, the session of [`tidegate_mqtt`]
//! decides (`transport` is TCP, TLS and WebSocket beneath), `afterlife` does what is left after a connection, `clients` keeps the sessions of clients that are
//! away. [`client`] is the other side: a client of an existing broker.
//!
//! There is no codec crate beneath, for the one that would fit (rmqtt-codec 0.3.1, which the tests use
//! as a second opinion) refuses legal packets (an expiry of 0, an empty client id), has one reason code
//! for nearly every mistake, makes room for a packet by its header's word alone, and takes longer to
//! decode a small publish than this input to deliver it.
//!
//! What a client may notice:
//! * A session is what is known of QoS 2 publishes, the packet identifiers from PUBLISH to PUBREL, and what
//!   it has subscribed to. It outlives its connection if the client asks for it, within the bounds of the options. An answer of the
//!   node that comes after the connection is booked in the session.
//! * A session outlives the process as well, from its first QoS 2 publish to a durable stream on: the log
//!   has its packet identifiers. Therefore a PUBREL is answered when the log knows of it, and a CONNECT
//!   that ends such a session when the log has forgotten it.
//! * A client id is one client on all listeners of a node. That of an input that subscribes at another
//!   broker is refused to clients.
//! * What a session has subscribed to, and what waits for it, is in memory: it outlives the connection and
//!   not the process. The log therefore forgets a session when it subscribes: after a restart its client
//!   hears that there is none, and subscribes again.
//! * What is retained is in memory too. The retain flag is kept as a record property for the outputs.
//! * A subscriber that takes less than is published loses what is least urgent, counted.
//! * Username and password are checked where users are configured (`crate::support::access`).
//! * Topics, client ids and usernames must not have control characters.
//! * Acknowledgements leave in the order of the publishes, as the standard demands: a record whose
//!   stream is acknowledged late holds back the acknowledgements behind it, but not the records.
//! * A publish that the node refuses is answered with a reason code in MQTT 5; an older client's
//!   connection is closed, for there is no other way to withhold an acknowledgement, unless it is
//!   configured that such publishes are acknowledged and dropped.
//! * A PUBREL for a publish that has no PUBREC yet ends the connection: the client ran ahead.

mod afterlife;
mod buffer;
pub mod client;
mod clients;
mod connection;
mod listener;
mod options;
mod pulse;
mod revive;
mod room;
pub mod session;
mod sockets;
mod terms;
mod traffic;
mod transport;
pub mod websocket;
mod woken;

pub use self::clients::{ClientStatus, Clients};
pub use self::listener::{MqttListener, bind};
pub use self::options::MqttOptions;
pub use self::revive::revive;
pub use self::session::Refused;
pub use self::sockets::MqttError;
pub use self::terms::MqttControl;
pub use self::traffic::Traffic;
pub use self::websocket::WebSocketOptions;
pub use tidegate_mqtt::{Reason, Version, Violation};

use super::kind::{Control, Driver, Opened, Opening};
use crate::node::contract::Intake;

impl Driver for MqttOptions {
    fn open(self: Box<Self>, intake: Intake) -> Opening {
        Box::pin(async move {
            let listener = bind(*self).await?;
            let (addresses, offered) = (listener.local_addrs(), intake.clone());
            let control = Control::Mqtt(listener.control());
            let opened =
                Opened::listener(addresses, intake, |stopped| listener.run(offered, stopped));
            Ok(opened.told_by(control))
        })
    }
}
