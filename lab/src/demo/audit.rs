//! The consumer's verdict on each record: is it what was published, is it in its place, did all come?

use std::collections::BTreeSet;

use anyhow::Context;

use crate::load::sets::Set;
use crate::load::stamp::Stamp;
use crate::load::{Acked, Arrival, DUE_PROPERTY, SEQ_PROPERTY, STREAM_PROPERTY, Tally};

/// Headers that make up a record's identity.
const IDENTITY: [&str; 4] =
    ["tidegate-node", "tidegate-incarnation", "tidegate-stream", "tidegate-seq"];
/// Mistakes that are told one by one.
const TOLD_MAX: usize = 5;

/// The book of one stream.
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) set: Set,
    pub(super) tally: Tally,
    /// What the publisher says at its end.
    pub(super) acked: Option<Acked>,
    identities: BTreeSet<[String; 4]>,
    /// Identity, content or class that is not what it must be.
    pub(super) mistakes: u64,
    told: Vec<String>,
}

impl Audit {
    pub(super) fn new(set: Set) -> Audit {
        Audit {
            set,
            tally: Tally::default(),
            acked: None,
            identities: BTreeSet::new(),
            mistakes: 0,
            told: Vec::new(),
        }
    }

    /// Takes a record that came. `end_ns` is the end of the load.
    pub(super) fn take(&mut self, arrival: &Arrival, end_ns: u64) -> anyhow::Result<()> {
        let seq: u64 = number(arrival, SEQ_PROPERTY)?;
        let due_ns = number(arrival, DUE_PROPERTY)?;
        let header = |name: &str| arrival.headers.get(name).map_or("", String::as_str);
        let identity = IDENTITY.map(|name| header(name).to_owned());
        if identity.iter().any(String::is_empty) {
            self.mistake(seq, "an incomplete identity");
        }
        let stamp = Stamp { stream: self.set.name.into(), seq, due_ns };
        let is_first = self.tally.take(&stamp, arrival.received_ns, end_ns);
        if is_first != self.identities.insert(identity) {
            self.mistake(seq, "an identity that is not its own");
        }
        // The node counts from 1, at acceptance; the publisher from 0.
        let refused = self.acked.as_ref().map_or(0, |acked| acked.refused.len());
        if refused == 0 && number(arrival, IDENTITY[3])? != seq + 1 {
            self.mistake(seq, "another place than it was published in");
        }
        if arrival.payload != self.set.rows[(seq % self.set.rows.len() as u64) as usize] {
            self.mistake(seq, "another content than was published");
        }
        if header("tidegate-class") != self.set.class {
            self.mistake(seq, "another class than it should");
        }
        Ok(())
    }

    fn mistake(&mut self, seq: u64, what: &str) {
        self.mistakes += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(format!("{}: record {seq} has {what}", self.set.name));
        }
    }

    /// Whether everything that was accepted has come.
    pub(super) fn is_complete(&self) -> bool {
        self.acked.as_ref().is_some_and(|acked| self.tally.got() >= acked.accepted)
    }

    /// Records that came though their publisher was told that they are refused.
    pub(super) fn refused_and_came(&self) -> u64 {
        let refused = self.acked.iter().flat_map(|acked| &acked.refused);
        let arrived = self.tally.stream(self.set.name);
        refused.filter(|seq| arrived.is_some_and(|arrived| arrived.has(**seq))).count() as u64
    }

    /// Accepted records that have not come.
    pub(super) fn missing(&self) -> u64 {
        let accepted = self.acked.as_ref().map_or(0, |acked| acked.accepted);
        accepted.saturating_sub(self.tally.got())
    }

    /// The first mistakes, in words.
    pub(super) fn told(&self) -> &[String] {
        &self.told
    }
}

/// The stream that a record says it is of.
pub(super) fn stream_of(arrival: &Arrival) -> anyhow::Result<&str> {
    let stream = arrival.headers.get(STREAM_PROPERTY).map(String::as_str);
    stream.with_context(|| format!("a record without {STREAM_PROPERTY}: {:?}", arrival.headers))
}

fn number(arrival: &Arrival, name: &str) -> anyhow::Result<u64> {
    let text = arrival.headers.get(name).with_context(|| format!("a record without {name}"))?;
    text.parse().with_context(|| format!("{name} is {text}, no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit() -> Audit {
        let rows = ["a", "b"].map(Into::into).to_vec();
        Audit::new(Set { name: "sys", class: "lt", rows, times: vec![0.0, 1.0], is_real: false })
    }

    fn arrival(seq: u64, payload: &str) -> Arrival {
        let (seq_text, next) = (seq.to_string(), (seq + 1).to_string());
        let headers = [
            (STREAM_PROPERTY, "sys"),
            (SEQ_PROPERTY, &seq_text),
            (DUE_PROPERTY, "0"),
            (IDENTITY[0], "edge"),
            (IDENTITY[1], "07"),
            (IDENTITY[2], "1"),
            (IDENTITY[3], &next),
            ("tidegate-class", "lt"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Arrival { headers: headers.into(), payload: payload.into(), received_ns: 1 }
    }

    #[test]
    fn what_is_as_published_is_no_mistake() {
        let mut audit = audit();
        for (seq, payload) in [(0, "a"), (1, "b"), (2, "a")] {
            audit.take(&arrival(seq, payload), 9).unwrap();
        }
        assert_eq!((audit.mistakes, audit.tally.got(), audit.told()), (0, 3, &[][..]));
        assert!(!audit.is_complete(), "nobody has said how many there are");
        audit.acked = Some(Acked { name: "sys".into(), sent: 3, accepted: 3, ..Acked::default() });
        assert!(audit.is_complete() && audit.missing() == 0);
    }

    #[test]
    fn every_kind_of_mistake_is_found() {
        let found = |change: &dyn Fn(&mut Arrival)| {
            let mut audit = audit();
            audit.take(&arrival(0, "a"), 9).unwrap();
            let mut second = arrival(1, "b");
            change(&mut second);
            audit.take(&second, 9).unwrap();
            audit.mistakes
        };
        let set = |name: &'static str, value: &'static str| {
            move |arrival: &mut Arrival| _ = arrival.headers.insert(name.into(), value.into())
        };
        assert_eq!(found(&|_| ()), 0);
        assert_eq!(found(&|arrival| arrival.payload = "a".into()), 1);
        assert_eq!(found(&set("tidegate-class", "ls")), 1);
        assert_eq!(found(&set(IDENTITY[3], "1")), 2, "the first one's identity and place");
        assert_eq!(found(&set(IDENTITY[0], "")), 1);
    }

    #[test]
    fn what_was_refused_must_not_come() {
        let mut audit = audit();
        audit.take(&arrival(0, "a"), 9).unwrap();
        audit.acked = Some(Acked {
            name: "sys".into(),
            sent: 3,
            accepted: 2,
            refused: vec![0],
            ..Acked::default()
        });
        assert_eq!((audit.refused_and_came(), audit.missing()), (1, 1));
    }
}
