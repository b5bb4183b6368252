//! Makes rows that say less of people: fields that go, that become a name nobody can read back, or that lose
//! their fine digits.

use std::sync::Arc;

use ring::hmac;

use super::chain::StepInstance;
use super::value::{Item, StepError, Value};

/// What becomes of which fields. A field that a row lacks is none of its business.
#[derive(Clone, Debug)]
pub struct Anonymise {
    drop: Arc<[Arc<str>]>,
    hash: Arc<[Arc<str>]>,
    key: Arc<hmac::Key>,
    coarsen: Arc<[(Arc<str>, f64)]>,
}

/// Bytes of a hash that are shown: no two of a billion values collide but with odds below 1 in 10^20.
const SHOWN: usize = 16;

impl Anonymise {
    /// Fields that go; fields of which HMAC-SHA256 with `key` takes the place; fields that are rounded down to a
    /// multiple of a step > 0.
    pub fn new(
        drop: Arc<[Arc<str>]>,
        hash: Arc<[Arc<str>]>,
        key: &[u8],
        coarsen: Arc<[(Arc<str>, f64)]>,
    ) -> Self {
        let key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key));
        Anonymise { drop, hash, key, coarsen }
    }
}

impl StepInstance for Anonymise {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        for name in self.drop.iter() {
            row.remove(name);
        }
        for name in self.hash.iter() {
            let Some(value) = row.find(name) else { continue };
            let tag = hmac::sign(&self.key, value.text().as_bytes());
            let shown = tag.as_ref().iter().take(SHOWN).map(|byte| format!("{byte:02x}"));
            row.set(name.clone(), Value::Text(shown.collect::<String>().into()));
        }
        for (name, step) in self.coarsen.iter() {
            let Some(value) = row.find(name) else { continue };
            let number = value.number().ok_or(StepError::Number)?;
            // By way of whole steps, so that the result shows no digits that a step has not.
            let coarse = (number / step).floor() * step;
            let digits = (-step.log10()).ceil().clamp(0.0, 15.0);
            let scale = 10_f64.powf(digits);
            row.set(name.clone(), Value::Number((coarse * scale).round() / scale));
        }
        out.push(item);
        Ok(())
    }
}
