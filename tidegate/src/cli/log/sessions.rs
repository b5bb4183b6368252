//! `tidegate log sessions`: a line for each MQTT session of the journal beside a log.

use std::io::{self, Write};

use serde::Serialize;
use tidegate_broker::Kept;

use super::files::LogFiles;
use crate::cli::log::LsArguments;
use crate::cli::screen::plain;
use crate::observe::status::table::{align, size};
use crate::support::time::Moment;

/// What stands in the line of a session.
#[derive(Clone, Debug, Serialize)]
struct Row {
    client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    subscriptions: usize,
    waiting: usize,
    waiting_bytes: u64,
    /// When it ends; none while its client is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<String>,
    has_will: bool,
}

/// Lists the sessions.
pub(super) fn sessions(arguments: &LsArguments) -> anyhow::Result<()> {
    let ledger = LogFiles::of(&arguments.log)?.sessions()?;
    let rows: Vec<Row> = ledger.sessions().map(row).collect();
    let mut out = io::stdout().lock();
    if arguments.json {
        for row in &rows {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
        }
        return Ok(());
    }
    let heads = ["client", "user", "subscriptions", "waiting", "bytes", "will", "ends"];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    for row in &rows {
        let user = plain(row.user.as_deref().unwrap_or_default());
        let will = if row.has_will { "yes" } else { "" };
        let ends = row.ends.clone().unwrap_or_else(|| "(connected)".into());
        table.push(vec![
            plain(&row.client),
            user,
            row.subscriptions.to_string(),
            row.waiting.to_string(),
            size(row.waiting_bytes),
            will.into(),
            ends,
        ]);
    }
    let (messages, bytes) = ledger.held();
    write!(out, "{}", align(&table))?;
    writeln!(
        out,
        "{} sessions; {messages} messages, {} of them retained, {}",
        rows.len(),
        ledger.retained(),
        size(bytes)
    )?;
    Ok(())
}

fn row(kept: &Kept) -> Row {
    Row {
        client: kept.note.client.to_string(),
        user: kept.note.user.as_ref().map(ToString::to_string),
        subscriptions: kept.subscriptions.len(),
        waiting: kept.waiting(),
        waiting_bytes: kept.bytes(),
        ends: (kept.note.ends > 0).then(|| Moment(kept.note.ends).to_string()),
        has_will: kept.note.will.is_some(),
    }
}
