//! What the tests of outputs share.

pub(crate) mod certificates;
pub(crate) mod consumer;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod rabbit;

use std::time::Duration;

/// Long enough for a broker on a busy machine; reached only where a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A port that nobody has now. For programs that cannot choose one themselves.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
