//! What a driver tells a node about the world around its records.

use super::Node;
use crate::io::{Control, Event};
use crate::units::Time;

impl Node {
    pub(super) fn control(&mut self, now: Time, control: Control) {
        match control {
            Control::Open { source, name, relays } => {
                self.open_source(now, source, name, relays);
            }
            Control::Bind { source, rule } => {
                if let Some(state) = self.sources.get_mut(source) {
                    state.bound = Some(rule);
                }
            }
            Control::Charge { source, owner, quota } => self.charge(source, owner, quota),
            Control::Close(source) => self.close_source(now, source),
            Control::Withdraw(id) => self.give_up(now, id.into()),
            Control::Session { source, lasts, is_new } => self.begin_session(source, lasts, is_new),
            Control::SessionOver(client) => self.session_over(&client),
            Control::Release { source, packets } => self.release_packets(source, packets),
            Control::Position(position) => self.note_position(now, position),
            Control::Stop => {
                self.is_stopping = true;
                self.refuse_blocked();
                self.check_drained();
            }
            Control::Discard => self.discard(now),
            Control::Grant { peer, class, amount, lease } => {
                self.granted(now, peer, class, amount, lease);
            }
            Control::Neighbour { peer, name } => self.redirect.name(peer, name),
            Control::Pace { queue, rate } => self.queues.set_rate(now, queue.into(), rate),
            Control::Reconsider => self.reconsider(now),
            Control::Rules(rules) => self.reload(now, &rules),
            Control::Subscribe { .. } | Control::Unsubscribe { .. } => {
                self.report(Event::Unsupported("a local subscription"));
            }
        }
    }
}
