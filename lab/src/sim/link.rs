//! The link of a scenario: what crosses it, and its model, which is that of emulated links.

use anyhow::Context;

use super::scenario::LinkSpec;
use crate::link::{Direction, Loss, Options, Service, trace};
use crate::world::bits;

/// What crosses the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Whose it is.
    pub(super) flow: usize,
    /// Which life of that connection.
    pub(super) epoch: u32,
    /// Its number in that life.
    pub(super) number: u64,
    /// Its place in the connection's order of sending: a packet sent again has a new one.
    pub(super) sent: u64,
    /// Its size.
    pub(super) bytes: u64,
}

/// The way from the node to the far end.
///
/// # Errors
/// A trace that cannot be read.
pub(super) fn uplink(spec: &LinkSpec, seed: u64) -> anyhow::Result<Direction<Packet>> {
    let mut options = Options::new(bits(spec.rate), spec.delay.0, spec.queue.0);
    options.loss = Loss::Random(spec.loss);
    if let Some(path) = &spec.trace {
        options.service = read_trace(path)?;
    }
    Ok(Direction::new(options, seed))
}

fn read_trace(path: &str) -> anyhow::Result<Service> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    trace::parse(&text).with_context(|| format!("trace {path}"))
}
