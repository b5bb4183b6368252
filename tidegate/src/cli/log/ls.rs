//! `tidegate log ls`: a line for each segment.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

use serde::Serialize;
use tidegate_log::{DamageKind, Defect, ReadPosition, Recovery, SegmentId, SegmentSummary};

use super::files::{LogFiles, Segment};
use crate::cli::log::LsArguments;
use crate::observe::status::table::{align, size};
use crate::support::time::Moment;

/// What stands in the line of a segment.
#[derive(Clone, Debug, Serialize)]
struct Row {
    segment: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    held_records: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<bool>,
    state: &'static str,
    /// Bytes behind the last whole entry.
    #[serde(skip_serializing_if = "is_zero")]
    torn_bytes: u64,
}

#[derive(Debug, Default, Serialize)]
struct Total {
    segments: usize,
    bytes: u64,
    records: u64,
    held_records: u64,
    /// Whether `held_records` can be relied on: nothing that says so is damaged.
    is_certain: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Lists the segments.
pub(super) fn ls(arguments: &LsArguments) -> anyhow::Result<()> {
    let log = LogFiles::of(&arguments.log)?;
    let recovery = log.recover()?;
    let held = held_by_segment(&recovery);
    let mut rows = Vec::new();
    for &id in log.sizes()?.keys() {
        let Some(segment) = log.open(id)? else { continue };
        rows.push(row(&segment, held.get(&id).copied().unwrap_or(0))?);
    }
    let total = Total {
        segments: rows.len(),
        bytes: rows.iter().map(|row| row.bytes).sum(),
        records: rows.iter().filter_map(|row| row.records).sum(),
        held_records: held.values().sum(),
        is_certain: recovery.is_certain,
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        for row in &rows {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
        }
        writeln!(out, "{}", serde_json::to_string(&total)?)?;
        return Ok(());
    }
    write!(out, "{}", table(&rows, &total))?;
    Ok(())
}

/// How many records of each segment have no fate.
pub(super) fn held_by_segment(recovery: &Recovery) -> BTreeMap<SegmentId, u64> {
    let mut held = BTreeMap::new();
    for (_, segment, run) in recovery.live() {
        *held.entry(segment).or_default() += run.records();
    }
    held
}

fn row(segment: &Segment, held_records: u64) -> anyhow::Result<Row> {
    let mut row = Row {
        segment: segment.id.0,
        boot: segment.head().map(|head| format!("{:016x}", head.boot)),
        bytes: segment.size as u64,
        records: None,
        held_records,
        from: None,
        to: None,
        sealed: segment.head().map(|head| head.is_sealed),
        state: match segment.opened {
            Err(Defect::NoKey | Defect::WrongKey) => "locked",
            Err(Defect::Newer { .. }) => "newer",
            Err(Defect::Damaged) => "damaged",
            Ok(_) => "open",
        },
        torn_bytes: 0,
    };
    let Ok(opened) = &segment.opened else { return Ok(row) };
    let survey = match segment.footer()? {
        Some((_, footer)) => SegmentSummary::of_footer(&footer),
        None => {
            let mut survey = SegmentSummary::default();
            segment.read_from(ReadPosition::first(opened), |opened, found| {
                survey.meet(opened, found);
                ControlFlow::<()>::Continue(())
            })?;
            survey
        }
    };
    row.records = Some(survey.records);
    (row.from, row.to) = survey
        .walls
        .map(|(earliest, latest)| (Moment(earliest).to_string(), Moment(latest).to_string()))
        .unzip();
    if survey.is_finished {
        row.state = "finished";
    }
    if survey.is_damaged() {
        row.state = "damaged";
    }
    let torn = survey.damage.iter().filter(|damage| damage.verdict == DamageKind::Torn);
    row.torn_bytes = torn.map(|damage| damage.to - damage.from).sum();
    Ok(row)
}

fn table(rows: &[Row], total: &Total) -> String {
    let head = ["segment", "boot", "size", "records", "held", "from", "to", "sealed", "state"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    for row in rows {
        let state = match row.torn_bytes {
            0 => row.state.to_owned(),
            torn => format!("{}, the last {} bytes are torn", row.state, torn),
        };
        lines.push(vec![
            row.segment.to_string(),
            or_dash(&row.boot),
            size(row.bytes),
            or_dash(&row.records.map(|records| records.to_string())),
            row.held_records.to_string(),
            or_dash(&row.from),
            or_dash(&row.to),
            row.sealed.map_or("-", |sealed| if sealed { "yes" } else { "no" }).into(),
            state,
        ]);
    }
    let Total { segments, bytes, records, held_records, is_certain } = total;
    let doubt = if *is_certain || *segments == 0 {
        ""
    } else {
        " (the newest checkpoint or what follows it is damaged: there may be more)"
    };
    format!(
        "{}segments {segments}, {}, records {records}, held {held_records}{doubt}\n",
        align(&lines),
        size(*bytes),
    )
}
