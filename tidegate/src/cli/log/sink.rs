//! `tidegate log verify` of a sink's folder: reads every line and names what is damaged or missing.

use std::io::{self, Write};
use std::path::Path;

use crate::observe::status::table::size;
use crate::output::sink::lines::{self, Found};
use crate::support::disk::Real;

/// What there is to say of the sink in a folder, and whether it is sound; `None` if the folder has none.
pub(super) fn verify(folder: &Path) -> anyhow::Result<Option<bool>> {
    // A folder that cannot be read is told as a log.
    let Ok(Some(found)) = lines::read(&Real, folder) else { return Ok(None) };
    let (text, is_sound) = told(&found);
    write!(io::stdout(), "{text}")?;
    Ok(Some(is_sound))
}

fn told(found: &Found) -> (String, bool) {
    let mut all = Vec::new();
    for (name, from, to) in &found.damaged {
        all.push(format!("{name}: damaged, bytes {from} to {to}"));
    }
    if found.more_damaged > 0 {
        all.push(format!("damaged in {} more places", found.more_damaged));
    }
    let mut missing = 0;
    for (from, to) in found.missing() {
        missing += to - from + 1;
        all.push(match from == to {
            true => format!("line {from} is missing"),
            false => format!("lines {from} to {to} are missing"),
        });
    }
    if let Some((from, to)) = found.torn {
        all.push(format!("records.jsonl: torn end, bytes {from} to {to}"));
    }
    if found.untold > 0 {
        all.push(format!("lines of earlier versions, which have no checksum: {}", found.untold));
    }
    let places = found.damaged.len() as u64 + found.more_damaged;
    let is_sound = places == 0 && missing == 0;
    let verdict = match is_sound {
        true => "sound".into(),
        false => format!("damaged places {places}, missing lines {missing}"),
    };
    let (files, bytes, lines) = (found.files, size(found.bytes), found.lines);
    all.push(format!("files {files}, {bytes}, lines {lines}: {verdict}\n"));
    (all.join("\n"), is_sound)
}
