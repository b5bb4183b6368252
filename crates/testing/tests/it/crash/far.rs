//! The far ends: what arrived, and under which names.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_types::record::{Identity, Record};

/// A publisher's own number of a record: its payload begins with it.
pub(crate) type Name = u64;

pub(crate) fn payload(name: Name, size: usize) -> Vec<u8> {
    let mut bytes = name.to_le_bytes().to_vec();
    bytes.resize(8 + size, name as u8);
    bytes
}

pub(crate) fn name_of(record: &Record) -> Name {
    let tidegate_types::record::Body::Resident(payload) = &record.body else {
        panic!("only what is here is sent")
    };
    let name = Name::from_le_bytes(*payload.first_chunk().expect("every payload has a name"));
    assert!(payload[8..].iter().all(|&byte| byte == name as u8), "a payload was changed");
    name
}

#[derive(Debug, Default)]
pub(crate) struct Far {
    /// How often each record arrived at each output, by the output's name.
    arrived: BTreeMap<(Identity, String), u64>,
    /// Where each came at all.
    places: BTreeSet<(Name, String)>,
    /// Under which identity each record came, and the other way round.
    identities: BTreeMap<Name, Identity>,
    names: BTreeMap<Identity, Name>,
    /// Records that came under more than one identity.
    pub(crate) twice: BTreeSet<Name>,
}

impl Far {
    /// A record arrived at an output.
    pub(crate) fn receive(&mut self, record: &Record, output: &str) {
        let name = name_of(record);
        let identity = &record.identity;
        *self.arrived.entry((identity.clone(), output.to_owned())).or_default() += 1;
        self.places.insert((name, output.to_owned()));
        let known = self.identities.entry(name).or_insert_with(|| identity.clone());
        if known != identity && !self.names.contains_key(identity) {
            self.twice.insert(name);
        }
        let known = self.names.entry(identity.clone()).or_insert(name);
        assert_eq!(*known, name, "a name has one record: {identity}");
    }

    pub(crate) fn has(&self, name: Name, output: &str) -> bool {
        self.places.contains(&(name, output.to_owned()))
    }

    /// Arrivals beyond the first under the same identity.
    pub(crate) fn again(&self) -> u64 {
        self.arrived.values().map(|count| count - 1).sum()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = Name> + '_ {
        self.identities.keys().copied()
    }
}
