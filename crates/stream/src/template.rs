//! Topics of results, and keys, both made from the topic of a record.

use bytes::Bytes;
use tidegate_types::topic::{Filter, is_topic};

/// Why a text is no template of a topic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is none even with its places filled.
    #[error("{0:?} is no topic: it has no + or # and is not empty")]
    Topic(String),
    /// A % that is followed by something else.
    #[error(
        "in {0:?}, % is followed by t (the whole topic) or by a digit from 1 (one of its levels)"
    )]
    Place(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    Topic,
    /// From 0.
    Level(usize),
}

/// A topic with places: `%t` for the whole topic of the record, `%1` to `%9` for its levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<TemplatePiece>);

impl Template {
    /// Parses a template such as `clean/%2`.
    ///
    /// # Errors
    /// See [`TargetError`].
    pub fn new(text: &str) -> Result<Template, TargetError> {
        if !is_topic(text) {
            return Err(TargetError::Topic(text.into()));
        }
        let mut pieces = Vec::new();
        let mut parts = text.split('%');
        pieces.extend(parts.next().map(|first| TemplatePiece::Text(first.into())));
        for part in parts {
            let mut rest = part.chars();
            let piece = match rest.next() {
                Some('t') => TemplatePiece::Topic,
                Some(digit @ '1'..='9') => TemplatePiece::Level(digit as usize - '1' as usize),
                _ => return Err(TargetError::Place(text.into())),
            };
            pieces.extend([piece, TemplatePiece::Text(rest.as_str().into())]);
        }
        Ok(Template(pieces))
    }

    /// The topic of what is made of a record; a level that its topic lacks is empty.
    pub fn fill(&self, topic: &str) -> Bytes {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(text) => filled.push_str(text),
                TemplatePiece::Topic => filled.push_str(topic),
                TemplatePiece::Level(place) => filled.push_str(level(topic, *place)),
            }
        }
        filled.into()
    }

    /// A filter that covers every topic that it can be filled to.
    pub fn filter(&self) -> Option<Filter> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(part) => text.push_str(part),
                // What stands behind may be anywhere.
                TemplatePiece::Topic => {
                    text.push('\0');
                    break;
                }
                TemplatePiece::Level(_) => text.push('\u{1}'),
            }
        }
        let mut levels = Vec::new();
        for level in text.split('/') {
            if level.contains('\0') {
                levels.push("#");
                break;
            }
            levels.push(if level.contains('\u{1}') { "+" } else { level });
        }
        Filter::new(&levels.join("/")).ok()
    }
}

/// One level of a topic, from 0; empty where it has fewer.
fn level(topic: &str, place: usize) -> &str {
    topic.split('/').nth(place).unwrap_or_default()
}

/// What a record's place in the order depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartitionKey {
    /// Its topic.
    #[default]
    Topic,
    /// One level of its topic, from 0.
    Level(usize),
    /// Nothing: all records of the operator are one row.
    Nothing,
}

impl PartitionKey {
    /// The key of a record.
    pub fn of(self, topic: &Bytes) -> Bytes {
        match self {
            PartitionKey::Topic => topic.clone(),
            PartitionKey::Level(place) => {
                let text = std::str::from_utf8(topic).unwrap_or_default();
                topic.slice_ref(level(text, place).as_bytes())
            }
            PartitionKey::Nothing => Bytes::new(),
        }
    }
}
