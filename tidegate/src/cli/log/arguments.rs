//! The command line of `tidegate log` and `tidegate explain`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand, ValueEnum};
use tidegate_types::record::Identity;
use tidegate_types::topic;

use crate::config::units::{Period, Quantity};
use crate::support::time::Moment;

/// The environment variable with a key of the log, where neither a configuration nor a file says it.
pub const KEY_VARIABLE: &str = "TIDEGATE_LOG_KEY";

/// What can be done with a log.
#[derive(Clone, Debug, Subcommand)]
pub enum LogCommand {
    /// List the segments: what is in each, of which time, and how many records have no fate yet
    #[command(after_help = LS_HELP)]
    Ls(LsArguments),
    /// List the MQTT sessions that are kept beside the log: subscriptions, what waits, and when each ends
    #[command(after_help = SESSIONS_HELP)]
    Sessions(LsArguments),
    /// Print records: identity, times, class, topic, size, and how each delivery ended
    #[command(after_help = CAT_HELP)]
    Cat(CatArguments),
    /// Read every byte and name all that is damaged or missing
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArguments),
    /// Write records out with their payloads, to rescue the data of a gateway that is dead
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArguments),
}

/// Which log, and its keys.
#[derive(Clone, Debug, Default, Args)]
pub struct LogPlace {
    /// A configuration whose `[log]` says the folder and the keys
    #[arg(
        short,
        long,
        value_name = "FILE",
        help = "A configuration whose [log] says the folder and the keys"
    )]
    pub config: Option<PathBuf>,
    /// A file with a key of a sealed log, as in key_file; may be given often
    #[arg(long = "key-file", value_name = "FILE")]
    pub key_files: Vec<PathBuf>,
}

/// A log as `tidegate log` names it.
#[derive(Clone, Debug, Args)]
pub struct LogArguments {
    /// The folder of the log, or a configuration whose `[log]` says it
    #[arg(
        value_name = "FOLDER|FILE",
        required_unless_present = "config",
        conflicts_with = "config",
        help = "The folder of the log, or a configuration whose [log] says it"
    )]
    pub folder: Option<PathBuf>,
    #[command(flatten)]
    /// Which log.
    pub place: LogPlace,
}

/// Arguments of `log ls`.
#[derive(Clone, Debug, Args)]
pub struct LsArguments {
    #[command(flatten)]
    /// Which log.
    pub log: LogArguments,
    /// One JSON object a line instead of a table; the last one is the total
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `log verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArguments {
    #[command(flatten)]
    /// Which log.
    pub log: LogArguments,
}

/// Arguments of `log cat`.
#[derive(Clone, Debug, Args)]
pub struct CatArguments {
    #[command(flatten)]
    /// Which log.
    pub log: LogArguments,
    #[command(flatten)]
    /// Which records.
    pub select: Select,
    /// Print payloads too: as text, or in hexadecimal digits where they are none
    #[arg(long)]
    pub payload: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `log export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    /// Which log.
    pub log: LogArguments,
    #[command(flatten)]
    /// Which records.
    pub select: Select,
    /// Only records that some output has not had: what is lost with this log
    #[arg(long)]
    pub held: bool,
    /// JSON lines, in the fields that the sink writes, or a CSV table
    #[arg(long = "format", id = "export_format", value_name = "FORMAT", default_value = "json")]
    pub format: ExportFormat,
    /// Payloads as text where they are UTF-8 and base64 elsewhere, or all in base64
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub payload: PayloadForm,
    /// Write to this file, which must not exist, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Forms of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// JSON lines.
    Json,
    /// A table.
    Csv,
}

/// Forms of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PayloadForm {
    /// Text where it is UTF-8, else base64.
    Text,
    /// Always base64.
    Base64,
}

/// Which records.
#[derive(Clone, Debug, Default, Args)]
pub struct Select {
    /// Of this stream: its number, as in identities, or the name of its `[[stream]]`
    #[arg(
        long,
        value_name = "STREAM",
        help = "Of this stream: its number, as in identities, or the name of its [[stream]]"
    )]
    pub stream: Option<String>,
    /// With these numbers in their streams: 345, or 300-345
    #[arg(long, value_name = "SEQ", value_parser = numbers)]
    pub seq: Option<RangeInclusive<u64>>,
    /// Of topics that match a filter, as in "plant/+/alarm" or "plant/#"
    #[arg(long, value_name = "FILTER", value_parser = topic_filter)]
    pub topic: Option<topic::Filter>,
    /// Arrived at this time (UTC unless it says otherwise) or later: 2026-11-21T10:30, or 2h ago
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub from: Option<Moment>,
    /// Arrived at this time or earlier
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub to: Option<Moment>,
}

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainArguments {
    /// The record: NODE/INCARNATION/STREAM/SEQ, as its headers and `tidegate log cat` say it
    #[arg(required_unless_present_any = ["topic", "frame"], conflicts_with_all = ["topic", "frame"])]
    pub identity: Option<Identity>,
    /// A frame of a camera of this node instead: CAMERA/NUMBER, as its subscribers get it
    #[arg(long, value_name = "CAMERA/NUMBER", requires = "config", conflicts_with = "topic", value_parser = frame_name)]
    pub frame: Option<FrameName>,
    /// The last records of topics that match a filter, instead of one by its identity
    #[arg(long, value_name = "FILTER", value_parser = topic_filter)]
    pub topic: Option<topic::Filter>,
    /// How many of them
    #[arg(long, value_name = "N", default_value_t = 1, requires = "topic", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub last: u64,
    /// The folder of the log
    #[arg(short, long, required_unless_present = "config", conflicts_with = "config")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    /// Which log.
    pub place: LogPlace,
}

/// A frame, as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameName {
    /// Its camera.
    pub camera: String,
    /// Its number.
    pub number: u64,
}

pub(in crate::cli) const LOG_HELP: &str = "\
Every command reads only and takes no lock, so it may be used while the node runs. A sealed log needs
its key: from the configuration, a --key-file, or the variable TIDEGATE_LOG_KEY.

Examples:
  tidegate log ls /var/lib/tidegate/log
  tidegate log ls /etc/tidegate/tidegate.toml
  tidegate log cat /var/lib/tidegate/log --topic 'plant/+/alarm' --from 2h
  tidegate log verify /var/lib/tidegate/log && echo sound
  tidegate log export /mnt/card/log --held -o rescued.jsonl";

const LS_HELP: &str = "\
Columns: number and boot (which process wrote it) of a segment, its size, its records, how many of
them are held (some output has not had them), when they arrived, whether it is sealed, and its state:
  finished   closed with a footer, from which this line comes
  open       has no footer: it is being written, or its process was killed; all of it was read
  damaged    its head cannot be read, or bytes within an open one; `log verify` says more
  locked     sealed with a key that is not among those given

Examples:
  tidegate log ls /var/lib/tidegate/log
  tidegate log ls node.toml --json";

const SESSIONS_HELP: &str = "\
Columns: the client id of a session and its user, how many subscriptions it has, how many messages
wait for it and their bytes, whether it has a will, and when it ends if its client stays away. A
message that waits for several sessions is stored once: the last line counts it once.

Examples:
  tidegate log sessions /var/lib/tidegate/log
  tidegate log sessions node.toml --json";

const CAT_HELP: &str = "\
A delivery is held, confirmed, dropped with its reason, or ended: then a checkpoint knows it no more
and no entry tells its fate. Records without a wall time are left out by --from and --to.

Examples:
  tidegate log cat LOG --topic 'plant/#' --from 2026-11-21T10:00 --to 2026-11-21T11:00
  tidegate log cat LOG --stream alarms --payload
  tidegate log cat LOG --stream 12 --seq 300-345 --json";

const VERIFY_HELP: &str = "\
Names each damaged range (segment, first byte, end), torn ends, and segments that are gone though the
log still owes records of them. A torn end is what a kill or a running node leaves, and is no damage. A
disk that lost the very end of what it had synced leaves the same.

The folder may be that of a sink: then lines that are damaged or missing are named, by their files, bytes
and numbers.

Exit codes: 0 sound; 1 damaged; 2 it cannot be read (no folder, no rights, no or a wrong key).";

const EXPORT_HELP: &str = "\
Examples:
  tidegate log export /mnt/card/log --held -o rescued.jsonl
  tidegate log export LOG --topic 'plant/#' --format csv -o plant.csv
  tidegate log export LOG --held | jq -r .key | sort | uniq -c

Where parts of the log are damaged the rest is written, and the exit code is 1.";

pub(in crate::cli) const EXPLAIN_HELP: &str = "\
Tells a record's life from the log: when it was accepted, under which stream, class and bound, what
acted on it, what became of it at each of its outputs, or that it is held and where. Where the log does
not know it, why that can be. It reads only, and may be used while the node runs.

With --frame it tells a frame's life, from [frames] directory: at which rung it left in which flow, and
how that ended.

Examples:
  tidegate explain gate-7/1c9f5a0be7d20c11/12/345 -c node.toml
  tidegate explain --topic plant/7/alarm --last 3 -d /var/lib/tidegate/log
  tidegate explain --frame gate-north/1795255200000000000 -c node.toml";

fn numbers(text: &str) -> Result<RangeInclusive<u64>, String> {
    let wrong = || "a number or two, as in 345 or 300-345".to_owned();
    let number = |text: &str| text.trim().parse().map_err(|_| wrong());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    if first <= last { Ok(first..=last) } else { Err(wrong()) }
}

fn frame_name(text: &str) -> Result<FrameName, String> {
    let parts = text.rsplit_once('/').and_then(|(camera, number)| {
        Some(FrameName { camera: camera.into(), number: number.parse().ok()? })
    });
    parts.ok_or_else(|| "a camera and a number, as in gate-north/1795255200000000000".into())
}

fn topic_filter(text: &str) -> Result<topic::Filter, String> {
    topic::Filter::new(text).map_err(|error| error.to_string())
}

/// A time, or a period before now.
fn moment(text: &str) -> Result<Moment, String> {
    let span = text.strip_suffix("ago").unwrap_or(text).trim();
    if let Ok(Period(span)) = Period::parse(span) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let then = now.saturating_sub(span).as_nanos();
        return Ok(Moment(u64::try_from(then).unwrap_or(u64::MAX)));
    }
    Moment::parse(text)
        .ok_or_else(|| "a time as 2026-11-21T10:30:00Z or 2026-11-21, or a period as 2h".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read() {
        assert_eq!(numbers("345"), Ok(345..=345));
        assert_eq!(numbers("3-45"), Ok(3..=45));
        assert!(numbers("45-3").is_err() && numbers("x").is_err() && numbers("").is_err());
        assert_eq!(moment("1970-01-02"), Ok(Moment(86_400_000_000_000)));
        assert!(moment("2h").unwrap() < moment("1h ago").unwrap());
        assert!(moment("yesterday").is_err());
        let frame = FrameName { camera: "hall/1".into(), number: 42 };
        assert_eq!(frame_name("hall/1/42"), Ok(frame));
        assert!(frame_name("hall").is_err() && frame_name("hall/x").is_err());
        assert!(topic_filter("plant/#").is_ok() && topic_filter("plant/#/x").is_err());
    }
}
