//! One life of a link: the `link` crate's state machine, its connections, and the clock.

use std::time::{Duration, Instant};

use tidegate_link::packet::Custody;
use tidegate_link::{Link, LinkEvent, LinkOptions, OfferError, Outgoing, PathOptions};
use tidegate_types::units::{Rate, Size};

use super::PathFigures;
use super::wire::{Heard, Wire};
use crate::support::time::Clock;

/// Timers are this coarse: what is due earlier is done in the same turn.
const TICK: Duration = Duration::from_micros(500);

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Engine {
    link: Link,
    clock: Clock,
    wires: Vec<Option<Wire>>,
    /// Rate of each path when it was used last.
    remembered: Vec<Option<Rate>>,
    /// Whether the peer has said a word to this life.
    is_met: bool,
    /// Packets that no link could have written.
    strange: u64,
}

impl Engine {
    /// A life without connections.
    pub(crate) fn new(options: LinkOptions, clock: Clock) -> Self {
        let mut wires = Vec::new();
        wires.resize_with(options.paths, || None);
        let remembered = vec![None; options.paths];
        Engine { link: Link::new(options), clock, wires, remembered, is_met: false, strange: 0 }
    }

    /// Takes what was heard of a connection.
    pub(crate) fn take(&mut self, heard: Heard) {
        let now = self.clock.now();
        match heard {
            Heard::Up { path, wire } if path < self.wires.len() => {
                let hears_marks = wire.hears_marks();
                let options =
                    PathOptions { remembered: self.remembered[path], cap: None, hears_marks };
                self.wires[path] = Some(wire);
                self.link.path_up(path, now, options);
            }
            Heard::Up { .. } => {}
            Heard::Packet { path, number, packet } => {
                if let Some(wire) = self.current(path, number) {
                    self.link.marked(path, wire.take_marked());
                    match self.link.receive(path, &packet, now) {
                        Ok(()) => self.is_met = true,
                        Err(_) => self.strange += 1,
                    }
                }
            }
            Heard::Down { path, number } => {
                if self.current(path, number).is_some() {
                    let rate = self.link.path_status(path).rate;
                    if !rate.is_zero() {
                        self.remembered[path] = Some(rate);
                    }
                    self.wires[path] = None;
                    self.link.path_down(path, now);
                }
            }
        }
    }

    fn current(&self, path: usize, number: u64) -> Option<&Wire> {
        let wire = self.wires.get(path).and_then(Option::as_ref);
        wire.filter(|wire| wire.number() == number)
    }

    /// Lets time pass and sends what may go now.
    pub(crate) fn pump(&mut self) {
        let now = self.clock.now();
        if self.link.next_timeout().is_some_and(|at| at <= now) {
            self.link.tick(now);
        }
        for (path, wire) in self.wires.iter().enumerate() {
            let Some(wire) = wire else { continue };
            while let Some(packet) = self.link.poll_transmit(path, now) {
                wire.send(path, packet);
            }
        }
    }

    /// When `pump` must be called next. A little later than now at the earliest.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let at = self.link.next_timeout().and_then(|at| self.clock.instant(at))?;
        Some(at.max(Instant::now() + TICK))
    }

    /// What happened, until nothing more did.
    pub(crate) fn poll_event(&mut self) -> Option<LinkEvent> {
        self.link.poll_event()
    }

    /// Offers a record; gives it back if there is no room now.
    ///
    /// # Errors
    /// As [`Link::offer`].
    pub(crate) fn offer(&mut self, outgoing: Outgoing) -> Result<(), OfferError> {
        self.link.offer(outgoing)
    }

    /// Tells the peer who answers for a record that came.
    pub(crate) fn settle(&mut self, record: u64, custody: Custody) {
        self.link.settle(record, custody);
    }

    /// Cost of what has come and was not taken.
    pub(crate) fn held(&self) -> Size {
        self.link.held().1
    }

    /// Bytes that were offered and that no path has taken.
    pub(crate) fn waiting(&self) -> Size {
        self.link.waiting()
    }

    /// What all working paths carry together.
    pub(crate) fn rate(&self) -> Rate {
        self.link.rate()
    }

    /// Whether the peer has said a word to this life.
    pub(crate) fn is_met(&self) -> bool {
        self.is_met
    }

    /// Whether there is any connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.wires.iter().any(Option::is_some)
    }

    /// Closes every connection and says why.
    pub(crate) fn refuse(&mut self, why: &str) {
        self.wires.iter_mut().filter_map(Option::take).for_each(|wire| wire.refuse(why));
    }

    /// Ends the life. Answers the rates of its paths, for the next one.
    pub(crate) fn end(self) -> Vec<Option<Rate>> {
        let rate = |path: usize| Some(self.link.path_status(path).rate);
        let known = |path| rate(path).filter(|rate| !rate.is_zero()).or(self.remembered[path]);
        (0..self.wires.len()).map(known).collect()
    }

    /// What paths carried in an earlier life.
    pub(crate) fn remember(&mut self, mut rates: Vec<Option<Rate>>) {
        rates.resize(self.wires.len(), None);
        self.remembered = rates;
    }

    /// The state of its paths, those that have a connection, or once had one.
    pub(crate) fn figures(&self, names: &[String]) -> Vec<PathFigures> {
        let figures = |(path, wire): (usize, &Option<Wire>)| {
            let status = self.link.path_status(path);
            let name = names.get(path).cloned().unwrap_or_else(|| path.to_string());
            let transport = wire.as_ref().map(Wire::transport);
            let is_named = path < names.len();
            let is_known = is_named || transport.is_some() || status.counts.packets > 0;
            is_known.then(|| PathFigures::new(name, transport, &status))
        };
        self.wires.iter().enumerate().filter_map(figures).collect()
    }

    /// Pieces sent again, pieces that came twice, and packets that were none of ours.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let counts = self.link.counts();
        [counts.repeated, counts.duplicates, counts.strange + counts.refused + self.strange]
    }
}
