//! Any bytes for a session, as a broker may say them.

use bytes::BytesMut;
use tidegate_types::units::Time;

use super::{Session, State};
use crate::output::amqp::AmqpOptions;
use crate::output::protocol::{Protocol, Verdicts};

/// Takes arbitrary bytes from a broker, as the first it says and as what it says after a login: for
/// fuzzing. Nothing they say may panic or grow memory.
pub fn fuzz(bytes: &[u8]) {
    let options = AmqpOptions {
        hosts: Vec::new(),
        tls: None,
        virtual_host: "/".into(),
        user: "guest".into(),
        password: "guest".into(),
        exchange: "amq.topic".into(),
        routing_key: "{topic}".into(),
        persistent: true,
        classes: [].into(),
    };
    for state in [State::Start, State::Ready] {
        let mut session = Session::new(options.clone());
        let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
        session.connect(Time::ZERO, &mut out);
        session.state = state;
        for part in bytes.chunks(97) {
            input.extend_from_slice(part);
            let mut verdicts = Verdicts::default();
            if session.receive(Time::ZERO, &mut input, &mut out, &mut verdicts).is_err() {
                break;
            }
            assert!(verdicts.confirmed.is_empty(), "nothing was sent that could be confirmed");
        }
    }
}
