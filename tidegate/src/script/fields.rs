//! Values of JSON payloads, read once a record: all that its script has ever asked for, in one pass, and nothing else.

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tidegate_types::record::DeliveryId;

/// Longest payload that is read as JSON: about a millisecond's work.
const JSON_MAX: usize = 256 * 1024;
/// Paths of one script that are read together: bits of a set. One more makes it forget the others.
const PATHS_MAX: usize = 32;
/// Records of which values are kept, by the place of their handles.
const KEPT_MAX: usize = 1 << 17;

/// A value that scripts can have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    /// A text, at its place in the payload.
    Plain(u32, u32),
    /// A text that the payload has in another form.
    Text(Box<str>),
    Number(f64),
    Switch(bool),
}

/// What is known of one payload: a value, if there is one, for each path that was known when it was read.
#[derive(Debug)]
struct Entry {
    id: DeliveryId,
    /// Which payload it was: where it begins, how long it is.
    payload: (usize, usize),
    values: Box<[Option<Scalar>]>,
}

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct Fields {
    paths: Vec<String>,
    entries: Vec<Option<Entry>>,
    /// How many payloads were read.
    #[cfg(test)]
    pub(super) reads: u64,
}

impl Fields {
    /// The value at a path such as `a.b.0`, handed to `take`; `None` where there is none, or no JSON.
    pub(super) fn get<T>(
        &mut self,
        id: DeliveryId,
        payload: &Bytes,
        path: &str,
        take: impl FnOnce(&Scalar) -> T,
    ) -> Option<T> {
        let place = self.place_of(path);
        let slot = (id.0 & u64::from(u32::MAX)) as usize;
        let is_it = (payload.as_ptr() as usize, payload.len());
        let known = self.entries.get(slot).and_then(Option::as_ref);
        let known = known.filter(|entry| entry.id == id && entry.payload == is_it);
        if let Some(entry) = known.filter(|entry| place < entry.values.len()) {
            return entry.values[place].as_ref().map(take);
        }
        #[cfg(test)]
        {
            self.reads += 1;
        }
        let values = read(payload, &self.paths);
        let found = values[place].as_ref().map(take);
        if slot < KEPT_MAX {
            if slot >= self.entries.len() {
                self.entries.resize_with(slot + 1, || None);
            }
            self.entries[slot] = Some(Entry { id, payload: is_it, values });
        }
        found
    }

    fn place_of(&mut self, path: &str) -> usize {
        if let Some(place) = self.paths.iter().position(|known| known == path) {
            return place;
        }
        if self.paths.len() >= PATHS_MAX {
            self.paths.clear();
            self.entries.clear();
        }
        self.paths.push(path.to_owned());
        self.paths.len() - 1
    }
}

/// The values at all paths.
fn read(payload: &[u8], paths: &[String]) -> Box<[Option<Scalar>]> {
    let mut found = vec![None; paths.len()];
    let all = (1_u64 << paths.len()) - 1;
    let mut is_json = false;
    if payload.len() <= JSON_MAX {
        let mut reader = serde_json::Deserializer::from_slice(payload);
        let at = At { payload, paths, found: &mut found, wanted: all, depth: 0 };
        is_json = at.deserialize(&mut reader).is_ok();
    }
    if !is_json {
        found.fill(None);
    }
    found.into()
}

/// Reads what is at some paths and skips everything else.
struct At<'a, 'p> {
    payload: &'a [u8],
    paths: &'p [String],
    found: &'a mut [Option<Scalar>],
    /// The paths that lead through here: a bit each.
    wanted: u64,
    /// Steps that were taken.
    depth: usize,
}

impl<'p> At<'_, 'p> {
    /// The paths that end here have this value; those that lead on have none.
    fn end(&mut self, scalar: Option<Scalar>) {
        for place in bits(self.wanted) {
            self.found[place] = match self.step(place) {
                None => scalar.clone(),
                Some(_) => None,
            };
        }
    }

    /// The next step of a path; `None` at its end.
    fn step(&self, place: usize) -> Option<&'p str> {
        let path = &self.paths[place];
        if path.is_empty() { None } else { path.split('.').nth(self.depth) }
    }

    /// The paths whose next step this is.
    fn through(&self, is_it: impl Fn(&str) -> bool) -> u64 {
        let leads = |place: &usize| self.step(*place).is_some_and(&is_it);
        bits(self.wanted).filter(leads).fold(0, |set, place| set | 1 << place)
    }

    fn below(&mut self, wanted: u64) -> At<'_, 'p> {
        let At { payload, paths, depth, .. } = *self;
        At { payload, paths, found: self.found, wanted, depth: depth + 1 }
    }
}

fn bits(set: u64) -> impl Iterator<Item = usize> {
    (0..PATHS_MAX).filter(move |place| set & 1 << place != 0)
}

impl<'de> DeserializeSeed<'de> for At<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_borrowed_str<E>(mut self, text: &'de str) -> Result<(), E> {
        let from = (text.as_ptr() as usize).saturating_sub(self.payload.as_ptr() as usize);
        self.end(Some(Scalar::Plain(from as u32, (from + text.len()) as u32)));
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.end(Some(Scalar::Text(text.into())));
        Ok(())
    }

    fn visit_f64<E: Error>(mut self, number: f64) -> Result<(), E> {
        self.end(Some(Scalar::Number(number)));
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_f64(number as f64)
    }

    fn visit_bool<E>(mut self, value: bool) -> Result<(), E> {
        self.end(Some(Scalar::Switch(value)));
        Ok(())
    }

    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.end(None);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.end(None);
        while let Some(wanted) = map.next_key_seed(Name(&self))? {
            match wanted {
                0 => _ = map.next_value::<IgnoredAny>()?,
                wanted => map.next_value_seed(self.below(wanted))?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.end(None);
        for at in 0_usize.. {
            let next = match self.through(|step| step.parse() == Ok(at)) {
                0 => list.next_element::<IgnoredAny>()?.map(|_| ()),
                wanted => list.next_element_seed(self.below(wanted))?,
            };
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// A name in an object: the paths that lead through it.
struct Name<'a, 'b, 'p>(&'a At<'b, 'p>);

impl<'de> DeserializeSeed<'de> for Name<'_, '_, '_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<u64, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_, '_, '_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<u64, E> {
        Ok(self.0.through(|step| step == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(payload: &[u8], path: &str) -> Option<Scalar> {
        let payload = Bytes::copy_from_slice(payload);
        let plain = |scalar: &Scalar| match scalar {
            Scalar::Plain(from, to) => {
                let text = &payload[*from as usize..*to as usize];
                Scalar::Text(std::str::from_utf8(text).unwrap().into())
            }
            other => other.clone(),
        };
        Fields::default().get(DeliveryId(1), &payload, path, plain)
    }

    #[test]
    fn values_are_found_at_their_path() {
        let text = br#"{"a": {"b": [1, "x", {"c": true}]}, "event_time": "1400", "n": -2.5, "z": null, "e": "\t"}"#;
        let at = |path| look_up(text, path);
        assert_eq!(at("a.b.0"), Some(Scalar::Number(1.0)));
        assert_eq!(at("a.b.1"), Some(Scalar::Text("x".into())));
        assert_eq!(at("a.b.2.c"), Some(Scalar::Switch(true)));
        assert_eq!(at("event_time"), Some(Scalar::Text("1400".into())));
        assert_eq!(at("n"), Some(Scalar::Number(-2.5)));
        assert_eq!(at("e"), Some(Scalar::Text("\t".into())));
        for nothing in ["", "a", "a.b", "a.b.7", "z", "q", "n.x", "a..b"] {
            assert_eq!(at(nothing), None, "{nothing}");
        }
        assert_eq!(look_up(b"no json", "a"), None);
        assert_eq!(look_up(b"{\"a\": 1, \"b\": tru", "a"), None, "half of it is no JSON");
        assert_eq!(look_up(b"{\"a\": 1, \"a\": {}}", "a"), None, "the last one of a name counts");
        assert_eq!(look_up(&vec![b'['; 100_000], "0.0"), None, "as deep as it may be");
    }

    #[test]
    fn a_payload_is_read_once() {
        let mut fields = Fields::default();
        let payloads: Vec<Bytes> = (0..100)
            .map(|n| Bytes::from(format!("{{\"k\": {n}, \"t\": {{\"at\": {n}}}}}")))
            .collect();
        let mut get = |id: u64, path: &str| {
            fields.get(DeliveryId(id), &payloads[id as usize], path, Scalar::clone)
        };
        for _ in 0..3 {
            for id in 0..100 {
                let number = Some(Scalar::Number(id as f64));
                assert_eq!(
                    (get(id, "k"), get(id, "t.at"), get(id, "no")),
                    (number.clone(), number, None)
                );
            }
        }
        // The first one once for each path that was new then, all others once.
        assert_eq!(fields.reads, 3 + 99);
        let other = Bytes::from_static(b"{\"k\": -1}");
        assert_eq!(
            fields.get(DeliveryId(7), &other, "k", Scalar::clone),
            Some(Scalar::Number(-1.0))
        );
    }
}
