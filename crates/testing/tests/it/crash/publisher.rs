//! A publisher with QoS 2, and what its listener knows of it: that ends with the process, and comes back
//! from the log.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_node::io::{Control, Input};
use tidegate_testing::{Wire, offer};
use tidegate_types::record::{Body, Offered, RefuseReason, SourceId, Token};

use crate::crash::far::{Name, payload};
use crate::crash::world::{KEYS, Random};

/// Few, so that each is used again soon.
const PACKETS: std::ops::RangeInclusive<u16> = 1..=3;
/// Longer than any life here: a session that is missing was lost.
const LASTS: Duration = Duration::from_secs(30 * 24 * 3600);

/// A publish that is not complete.
#[derive(Clone, Debug)]
struct Flight {
    name: Name,
    offered: Offered,
    /// Its PUBREC came: from here on it is released, and never published again.
    is_received: bool,
}

/// One client. All but `known` and `is_in` outlives the node.
#[derive(Debug)]
pub(crate) struct Publisher {
    source: u32,
    client: String,
    flights: BTreeMap<u16, Flight>,
    /// Whether it wants nothing of its old session.
    is_new: bool,
    /// Whether the node let it in.
    is_in: bool,
    /// What the listener knows: packet identifiers, and whether the node has accepted their records.
    known: BTreeMap<u16, bool>,
    /// Those that were released by the present connection.
    released: BTreeSet<u16>,
}

impl Publisher {
    pub(crate) fn new(source: u32) -> Self {
        let (flights, known, released) = Default::default();
        let client = format!("sensor {source}");
        Publisher { source, client, flights, is_new: true, is_in: false, known, released }
    }

    /// The connection that is open speaks for it from now on.
    pub(crate) fn connect(&mut self, wire: &mut Wire) {
        let source = SourceId(self.source);
        self.is_in = false;
        self.released.clear();
        if self.is_new {
            self.known.clear();
        }
        wire.control(Control::Session { source, lasts: LASTS, is_new: self.is_new });
    }

    /// Another process: what its listener knows is what the log says.
    pub(crate) fn restart(&mut self, wire: &Wire) {
        let mut sessions = wire.node.sessions(wire.now);
        let own = sessions.find(|state| *state.client == *self.client);
        let packets = own.map(|state| state.packets).unwrap_or_default();
        self.known = packets.into_iter().map(|packet| (packet, true)).collect();
        self.is_in = false;
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }

    /// Something that a client does. Answers with the names that it now takes for accepted.
    pub(crate) fn act(&mut self, wire: &mut Wire, random: &mut Random, name: Name) -> Acted {
        match random.below(8) {
            _ if !self.is_in => Acted::default(),
            0 => self.reconnect(wire, random),
            1..=2 => Acted { accepted: self.resend(wire), ..Acted::default() },
            _ => self.publish_new(wire, random, name),
        }
    }

    fn publish_new(&mut self, wire: &mut Wire, random: &mut Random, name: Name) -> Acted {
        let Some(packet) = PACKETS.into_iter().find(|id| !self.flights.contains_key(id)) else {
            return Acted::default();
        };
        // The rule of the third may come to be one that a crash may forget.
        let key = [0, 1, 3][random.below(3) as usize];
        let plain = offer(wire.now, self.source, KEYS[key].0, 0);
        let body = Body::Resident(payload(name, random.below(100) as usize).into());
        let (token, packet) = (Some(Token(name)), Some(packet));
        let offered = Offered { body, token, packet, ..plain };
        let flight = Flight { name, offered, is_received: false };
        self.flights.insert(packet.unwrap_or_default(), flight);
        let accepted = self.publish(wire, packet.unwrap_or_default()).into_iter().collect();
        Acted { published: Some(key), accepted }
    }

    /// PUBLISH. Where the listener knows the identifier it answers PUBREC by itself, and the client takes
    /// its record for accepted.
    fn publish(&mut self, wire: &mut Wire, packet: u16) -> Option<Name> {
        let flight = self.flights.get_mut(&packet)?;
        match self.known.get(&packet) {
            Some(true) => {
                flight.is_received = true;
                return Some(flight.name);
            }
            Some(false) => {}
            None => {
                self.known.insert(packet, false);
                let offered = Offered { read_at: wire.now, ..flight.offered.clone() };
                wire.handle(Input::Arrived(vec![offered]));
            }
        }
        None
    }

    /// All that is under way goes once more, as after a break.
    pub(crate) fn resend(&mut self, wire: &mut Wire) -> Vec<Name> {
        let mut accepted = Vec::new();
        for packet in self.flights.keys().copied().collect::<Vec<_>>() {
            if !self.is_in {
                break;
            }
            if self.flights[&packet].is_received {
                // One answer is enough.
                if self.released.insert(packet) {
                    let (source, packets) = (SourceId(self.source), vec![packet]);
                    wire.control(Control::Release { source, packets });
                }
            } else {
                accepted.extend(self.publish(wire, packet));
            }
        }
        accepted
    }

    /// The connection breaks and another one comes, unless the node owes an answer.
    fn reconnect(&mut self, wire: &mut Wire, random: &mut Random) -> Acted {
        if self.known.values().all(|is_accepted| *is_accepted) {
            self.is_new = random.one_in(4);
            if self.is_new {
                self.flights.clear();
            }
            wire.open(self.source, &self.client);
            self.connect(wire);
        }
        Acted::default()
    }

    /// The node let it in: what was under way goes on.
    pub(crate) fn ready(&mut self, wire: &mut Wire, source: SourceId) -> Vec<Name> {
        if source.0 != self.source {
            return Vec::new();
        }
        (self.is_in, self.is_new) = (true, false);
        self.resend(wire)
    }

    /// The node's answer. The PUBREC may get lost; then the client sends again.
    pub(crate) fn answered(
        &mut self,
        random: &mut Random,
        name: Name,
        result: Result<(), RefuseReason>,
    ) {
        let Some((packet, flight)) =
            self.flights.iter_mut().find(|(_, flight)| flight.name == name)
        else {
            return;
        };
        match result {
            Ok(()) => {
                self.known.insert(*packet, true);
                flight.is_received = !random.one_in(4);
            }
            Err(_) => _ = self.known.remove(packet),
        }
    }

    /// An identifier may be used again. The PUBCOMP may get lost.
    pub(crate) fn freed(&mut self, random: &mut Random, source: SourceId, packet: u16) {
        if source.0 != self.source || !self.released.remove(&packet) {
            return;
        }
        self.known.remove(&packet);
        if !random.one_in(4) && self.flights.get(&packet).is_some_and(|flight| flight.is_received) {
            self.flights.remove(&packet);
        }
    }
}

/// What came of a client's act.
#[derive(Debug, Default)]
pub(crate) struct Acted {
    /// The key of a new publish.
    pub(crate) published: Option<usize>,
    /// What it now takes for accepted.
    pub(crate) accepted: Vec<Name>,
}
