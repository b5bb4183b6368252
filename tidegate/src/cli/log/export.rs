//! `tidegate log cat` and `tidegate log export`: records, for people and for programs.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;

use anyhow::Context;

use super::files::LogFiles;
use super::record::{COLUMNS, Line, csv_row, payload_in_words};
use super::select::Selection;
use crate::cli::log::{CatArguments, ExportArguments, ExportFormat, PayloadForm};

/// Prints records.
pub(super) fn cat(arguments: &CatArguments) -> anyhow::Result<ExitCode> {
    let log = LogFiles::of(&arguments.log)?;
    let mut selection = Selection::new(&log, &arguments.select, false)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let form = arguments.payload.then_some(PayloadForm::Text);
    selection.read(|picked| {
        if arguments.json {
            return write_json(&mut out, &Line::new(picked, form));
        }
        writeln!(out, "{}", Line::new(picked, None).in_words())?;
        if arguments.payload {
            writeln!(out, "    {}", payload_in_words(&picked.record.payload))?;
        }
        Ok(())
    })?;
    out.flush()?;
    tell_unread(&selection)
}

/// Writes records out.
pub(super) fn export(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let log = LogFiles::of(&arguments.log)?;
    let mut selection = Selection::new(&log, &arguments.select, arguments.held)?;
    let target: Box<dyn Write> = match &arguments.output {
        None => Box::new(io::stdout().lock()),
        Some(path) => {
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            Box::new(made.with_context(|| format!("--output {}", path.display()))?)
        }
    };
    let mut out = BufWriter::new(target);
    if arguments.format == ExportFormat::Csv {
        out.write_all(csv_row(COLUMNS).as_bytes())?;
    }
    let mut records = 0_u64;
    selection.read(|picked| {
        records += 1;
        let line = Line::new(picked, Some(arguments.payload));
        match arguments.format {
            ExportFormat::Json => write_json(&mut out, &line),
            ExportFormat::Csv => {
                let cells = line.cells()?;
                out.write_all(csv_row(cells.iter().map(String::as_str)).as_bytes())?;
                Ok(())
            }
        }
    })?;
    out.flush()?;
    drop(out);
    if let Some(path) = &arguments.output {
        // What is to be rescued may be on a disk that is about to die.
        OpenOptions::new().read(true).open(path)?.sync_all()?;
        writeln!(io::stderr(), "records in {}: {records}", path.display())?;
    }
    if arguments.held && !selection.is_certain() {
        writeln!(
            io::stderr(),
            "the newest checkpoint or what follows it is damaged, so more records may be held: \
             export without --held to be sure of all"
        )?;
    }
    tell_unread(&selection)
}

fn write_json(out: &mut impl Write, line: &Line<'_>) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Says what could not be read; the exit code says whether there was any.
fn tell_unread(selection: &Selection<'_>) -> anyhow::Result<ExitCode> {
    let (unread, mut err) = (&selection.unread, io::stderr());
    if unread.timeless > 0 {
        let count = unread.timeless;
        writeln!(err, "left out: {count} records without a wall time, which --from and --to need")?;
    }
    for segment in &unread.segments {
        writeln!(err, "{segment} could not be read: its head is damaged, or its key is missing")?;
    }
    if unread.damaged > 0 {
        let count = unread.damaged;
        writeln!(err, "damaged places passed: {count}; `tidegate log verify` names them")?;
    }
    let is_whole = unread.segments.is_empty() && unread.damaged == 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
