//! Records that go by another path as well when they have not arrived in time.

use tidegate_types::units::{Size, Time};

use super::Outbox;
use crate::outgoing_record::Part;

impl Outbox {
    /// Sends again what has not arrived of records whose time for that has come: all of it if `pay` agrees to so many
    /// bytes, else what may be lost.
    pub(crate) fn hedge(&mut self, now: Time, mut pay: impl FnMut(Size) -> bool) {
        while let Some(&(at, record)) = self.hedges.first().filter(|(at, _)| *at <= now) {
            self.hedges.remove(&(at, record));
            let Some(begun) = self.begun.get_mut(&record) else { continue };
            let deadline = begun.deadline;
            let doubted = std::mem::take(&mut begun.doubted);
            let again: Vec<Part> =
                doubted.into_iter().flat_map(|part| begun.failed(part)).collect();
            // What has failed is on its way again, and what waits here has not gone at all.
            let is_under_way = |part: &Part| {
                !self.failed.contains(part) && !self.ready.contains(&(deadline, *part))
            };
            let open =
                begun.open_parts().filter(|&part| !begun.is_done(part) && !again.contains(&part));
            let missing = begun.missing().saturating_sub(again.len());
            let copied: Vec<Part> = open.filter(is_under_way).take(missing).collect();
            let bytes = again.iter().chain(&copied).map(|&part| begun.length(part)).sum();
            begun.is_hedged = pay(bytes);
            let copied = if begun.is_hedged { copied } else { Vec::new() };
            again.into_iter().chain(copied).for_each(|part| self.requeue(part));
        }
    }

    /// A part may be lost. Answers whether it waits until its record is hedged, which is by then at the latest.
    pub(crate) fn doubt(&mut self, part: Part, until: Time) -> bool {
        let hedges = std::mem::take(&mut self.hedges);
        let is_soon = self.find_mut(part).is_some_and(|(record, begun)| {
            let hedge = begun.protection.hedge.filter(|&at| at <= until);
            let is_soon = hedge.is_some_and(|at| hedges.contains(&(at, record)));
            if is_soon && !begun.doubted.contains(&part) {
                begun.doubted.push(part);
            }
            is_soon
        });
        self.hedges = hedges;
        is_soon
    }

    /// Whether what had not arrived of its record at its time went again.
    pub(crate) fn is_hedged(&self, part: Part) -> bool {
        self.find(part).is_some_and(|begun| begun.is_hedged)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{next, outbox, outgoing};
    use super::*;
    use crate::outgoing_record::Protection;

    #[test]
    fn what_may_be_lost_waits_for_its_hedge_and_goes_then_whatever_that_may_cost() {
        let at = Time::from_millis(50);
        for pays in [true, false] {
            let mut outbox = outbox();
            outbox.offer(outgoing(1, 7, 3000, 900)).unwrap();
            for dsn in 1..=3 {
                let hedge = Some(at);
                let (key, _) =
                    outbox.peek(|_, _, _| Protection { hedge, ..Protection::default() }).unwrap();
                outbox.assign(key);
                assert_eq!(key.1, Part::piece(dsn));
            }
            outbox.arrived(Part::piece(1));
            assert!(
                !outbox.doubt(Part::piece(2), Time::from_millis(49)),
                "that is too long to wait"
            );
            assert!(outbox.doubt(Part::piece(2), at));
            assert_eq!((next(&mut outbox), outbox.next_timeout()), (None, Some(at)));
            let mut asked = Size::ZERO;
            outbox.hedge(at, |bytes| {
                asked = bytes;
                pays
            });
            assert_eq!((asked, outbox.is_hedged(Part::piece(2))), (Size(2000), pays));
            let again = [(); 2].map(|()| next(&mut outbox));
            assert_eq!(again, [Some(2), pays.then_some(3)]);
            assert!(!outbox.doubt(Part::piece(3), at), "once");
        }
    }
}
