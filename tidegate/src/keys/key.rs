//! What is said of a key of the configuration.

use super::findings::Findings;
use super::places::Place;
use super::values::{Shape, Value, quoted};

/// When a key that has changed counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// As soon as the file is read again.
    Applies,
    /// From the next start on.
    Restart,
}

impl Reload {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Reload::Applies => "reload",
            Reload::Restart => "restart",
        }
    }
}

/// Which amounts are right.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The least amount.
    pub least: f64,
    /// Whether the least amount itself is wrong.
    pub is_open: bool,
    /// The largest amount.
    pub most: f64,
    /// In words.
    pub words: String,
    /// What a wrong amount is told: what is wrong, and the cure.
    complaint: String,
}

/// What is said of a key. The functions that take a key and give one are the words that may stand behind it.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name in the file.
    pub name: &'static str,
    /// Names by which it was called, and is still read.
    pub former: &'static [&'static str],
    /// A value that shows its use, where the default shows none, as TOML.
    pub sample: Option<String>,
    /// What it usually is where it is left out, where that depends on other keys, as TOML.
    pub usual: Option<String>,
    /// A name for a section of this kind, in the reference.
    pub called: Option<&'static str>,
    /// Whether the sample, or the section, cannot stand beside the others.
    pub is_apart: bool,
    /// Whether it is a section that every node has.
    pub is_standing: bool,
    /// Whether nothing works without it.
    pub is_required: bool,
    /// When a change counts; where a key does not say, its section does.
    pub reload: Option<Reload>,
    /// Which amounts are right.
    pub bounds: Vec<Bound>,
    about: &'static [&'static str],
    shape: fn() -> Shape,
    default: Option<fn() -> Option<String>>,
}

impl Key {
    /// A key of type `T`, of which no word is said yet.
    pub fn new<T: Value>(
        name: &'static str,
        former: &'static [&'static str],
        about: &'static [&'static str],
        default: Option<fn() -> Option<String>>,
    ) -> Key {
        Key {
            name,
            former,
            sample: None,
            usual: None,
            called: None,
            is_apart: false,
            is_standing: false,
            is_required: default.is_none() && T::absent().is_none(),
            reload: None,
            bounds: Vec::new(),
            about,
            shape: T::shape,
            default,
        }
    }

    /// The value that the reference shows: TOML, or the text itself where the key is one.
    #[must_use]
    pub fn sample(self, sample: &str) -> Key {
        let is_text = match self.shape() {
            Shape::OneOrMore(one) => one.is_text() && !sample.starts_with("[\""),
            shape => shape.is_text(),
        };
        let sample = if is_text { quoted(sample) } else { sample.to_owned() };
        Key { sample: Some(sample), ..self }
    }

    /// What it usually is where it is left out, where that depends on other keys.
    #[must_use]
    pub fn usually<V: Value>(self, value: V) -> Key {
        Key { usual: value.written(), ..self }
    }

    /// A name for a section of this kind, in the reference.
    #[must_use]
    pub fn called(self, name: &'static str) -> Key {
        Key { called: Some(name), ..self }
    }

    /// The same, where it cannot stand beside the samples of other keys.
    #[must_use]
    pub fn apart(self, sample: &str) -> Key {
        Key { is_apart: true, ..self.sample(sample) }
    }

    /// A section whose samples cannot stand beside those of others.
    #[must_use]
    pub fn section_apart(self) -> Key {
        Key { is_apart: true, ..self }
    }

    /// A section that every node has.
    #[must_use]
    pub fn standing(self) -> Key {
        Key { is_standing: true, ..self }
    }

    /// Nothing works without it.
    #[must_use]
    pub fn required(self) -> Key {
        Key { is_required: true, ..self }
    }

    /// A change counts as soon as the file is read again.
    #[must_use]
    pub fn reloads(self) -> Key {
        Key { reload: Some(Reload::Applies), ..self }
    }

    /// A change counts from the next start on.
    #[must_use]
    pub fn restarts(self) -> Key {
        Key { reload: Some(Reload::Restart), ..self }
    }

    /// Names of which the text is one.
    #[must_use]
    pub fn one_of(self, names: fn() -> Shape) -> Key {
        Key { shape: names, ..self }
    }

    /// An amount below `least` is wrong, for this reason.
    #[must_use]
    pub fn at_least<A: Value>(self, least: A, why: &str) -> Key {
        let (amount, shown) = shown(&least);
        let complaint = format!("{why}: give at least {shown}");
        self.bounded(amount..=f64::INFINITY, format!("at least {shown}"), complaint)
    }

    /// An amount above `most` is wrong.
    #[must_use]
    pub fn at_most<A: Value>(self, most: A, complaint: &str) -> Key {
        let (amount, shown) = shown(&most);
        self.bounded(f64::NEG_INFINITY..=amount, format!("at most {shown}"), complaint.into())
    }

    /// Only amounts of these are right.
    #[must_use]
    pub fn between<A: Value>(self, least: A, most: A, complaint: &str) -> Key {
        let ((least, from), (most, to)) = (shown(&least), shown(&most));
        self.bounded(least..=most, format!("{from} to {to}"), complaint.into())
    }

    /// Nothing, and less, is wrong.
    #[must_use]
    pub fn above_zero(self, complaint: &str) -> Key {
        let mut key = self.bounded(0.0..=f64::MAX, "above 0".into(), complaint.into());
        key.bounds.iter_mut().next_back().expect("it was added").is_open = true;
        key
    }

    fn bounded(
        mut self,
        range: std::ops::RangeInclusive<f64>,
        words: String,
        complaint: String,
    ) -> Key {
        let (least, most) = range.into_inner();
        self.bounds.push(Bound { least, is_open: false, most, words, complaint });
        self
    }

    /// As the head of a section, inside that of `above`.
    pub fn header(&self, above: &str) -> String {
        match self.shape() {
            Shape::List(_) => format!("[[{above}{}]]", self.name),
            _ => format!("[{above}{}]", self.name),
        }
    }

    /// What it does, in one line.
    pub fn about(&self) -> String {
        self.about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    /// What its value may be.
    pub fn shape(&self) -> Shape {
        (self.shape)()
    }

    /// What it is where it is left out, as TOML; nothing where that is in no one value.
    pub fn default(&self) -> Option<String> {
        let declared = self.default.and_then(|default| default());
        declared.filter(|text| text != "[]" && text != "{  }").or_else(|| self.usual.clone())
    }

    /// What is wrong with the amount of a value, and with the keys in it.
    pub(crate) fn check<V: Value>(&self, value: &V, table: &Place, findings: &mut Findings) {
        let place = table.to(self.name);
        if let Some(amount) = value.amount() {
            let is_wrong = |bound: &&Bound| {
                let is_low =
                    if bound.is_open { amount <= bound.least } else { amount < bound.least };
                is_low || amount.is_nan() || amount > bound.most
            };
            if let Some(bound) = self.bounds.iter().find(is_wrong) {
                findings.error(place.clone(), bound.complaint.clone());
            }
        }
        value.check(&place, findings);
    }
}

/// An amount, and how it is written without quotes.
fn shown<A: Value>(bound: &A) -> (f64, String) {
    let written = bound.written().unwrap_or_default();
    (bound.amount().expect("a bound is an amount"), written.trim_matches('"').to_owned())
}
