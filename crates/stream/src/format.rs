//! The formats in which rows stand in payloads, and the steps that read and write them.

use bytes::Bytes;

use super::chain::StepInstance;
use super::csv::CsvFormat;
use super::value::{Item, ItemContent, StepError};
use super::{json, senml};

impl Item {
    /// Its bytes: a row is written as JSON.
    pub fn into_payload(self) -> Bytes {
        match self.content {
            ItemContent::Payload(bytes) => bytes,
            ItemContent::Row(row) => json::write(&row).into(),
        }
    }
}

/// How rows stand in a payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// One object, or a list of them.
    Json,
    /// RFC 8428, and the older form with `e`.
    Senml,
    /// Lines with separators.
    Csv(CsvFormat),
}

/// Reads payloads.
#[derive(Clone, Debug, PartialEq)]
pub struct ParseRows(pub Format);

impl StepInstance for ParseRows {
    fn run(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let ItemContent::Payload(payload) = &item.content else { return Err(StepError::Parse) };
        let rows = match &self.0 {
            Format::Json => json::read(payload)?,
            Format::Senml => senml::read(payload)?,
            Format::Csv(format) => format.read(payload)?,
        };
        out.extend(
            rows.into_iter().map(|row| Item { at: item.at, content: ItemContent::Row(row) }),
        );
        Ok(())
    }
}

/// Writes rows as payloads.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteRows(pub Format);

impl StepInstance for WriteRows {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        let text = match &self.0 {
            Format::Json => json::write(row),
            Format::Senml => senml::write(row),
            Format::Csv(format) => format.write(row),
        };
        out.push(Item { at: item.at, content: ItemContent::Payload(text.into()) });
        Ok(())
    }
}
