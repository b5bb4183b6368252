//! Bytes of what agents and the orchestrator say to each other, as protocol buffers, without what carries them.

use tidegate_fleet::{CarriedGrant, Directive, Grant, Heartbeat, ReachablePeer};

pub(super) fn beat(beat: &Heartbeat) -> usize {
    let head = [beat.node.0, beat.incarnation, beat.number, beat.heard.revision, beat.heard.round];
    let head = head.into_iter().map(number).sum::<usize>();
    let amounts = beat.tuple.demand.iter().map(|amount| number(amount.0) - 1).sum();
    let reach =
        |reach: &ReachablePeer| nested(number(reach.node.0) + number(reach.distance.into()));
    let peers = beat.peers.iter().flatten().map(reach).sum::<usize>();
    let held = |held: &CarriedGrant| nested(grant(&held.grant) + number(held.carried.0));
    head + number(beat.tuple.capacity.0)
        + nested(amounts)
        + number(beat.output.0)
        + peers
        + beat.held.iter().map(held).sum::<usize>()
}

pub(super) fn directive(directive: &Directive) -> usize {
    let Directive { node, incarnation, fence, beat, .. } = directive;
    let head = [node.0, *incarnation, fence.revision, fence.round, *beat];
    let head = head.into_iter().map(number).sum::<usize>();
    let grants = directive.grants.iter().map(|one| nested(grant(one)));
    head + number(directive.lease.as_millis() as u64) + grants.sum::<usize>()
}

fn grant(grant: &Grant) -> usize {
    let numbers = [grant.token.revision, grant.token.id, grant.provider.0, grant.receiver.0];
    let numbers = numbers.into_iter().map(number).sum::<usize>();
    numbers + number(u64::from(grant.class.0)) + number(grant.amount.0)
}

/// A number in the usual encoding of seven bits a byte, with its tag.
fn number(value: u64) -> usize {
    1 + (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Something inside something else: a tag, a length, and it.
fn nested(size: usize) -> usize {
    number(size as u64) + size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        assert_eq!([0, 127, 128, 16_383, 16_384, u64::MAX].map(number), [2, 2, 3, 3, 4, 11]);
        assert_eq!(nested(10), 12);
    }
}
