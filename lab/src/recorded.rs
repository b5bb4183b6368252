//! `lab bench lte-traces`: recorded LTE and UMTS links with real processes, each law in turn.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::play;
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::sim::{self, Span};
use crate::world::World;

/// The world: as `lab sim lte-traces` has it, with a real node and a real broker.
const WORLD: &str = r#"
name = "lte-traces"
length = "120s"
drain = "20s"
hosts = ["edge", "cloud"]
[[link]]
name = "lte"
ends = ["edge", "cloud"]
uplink = { trace = "TRACE", delay = "30ms", queue = "4MB" }
downlink = { rate = "100mbit", delay = "30ms" }
[[process]]
name = "broker"
host = "cloud"
broker = "rabbitmq"
[[process]]
name = "gate"
host = "edge"
tidegate = '''
[node]
name = "gate"
scheduler = "SCHEDULER"
[limits]
memory = "512MiB"
[[input]]
mqtt = { listen = "{edge}:1883" }
[[stream]]
topics = ["site/alarm"]
latency = "50ms"
[[stream]]
topics = ["site/bulk"]
latency = "1s"
memory = "400MiB"
[[output]]
name = "cloud"
rate = "auto"
law = "LAW"
unconfirmed_max = 4096
amqp = { url = "amqp://{cloud}:5672", exchange = "amq.topic", user = "tidegate", password_env = "BROKER_PASSWORD" }
'''
[[source]]
name = "alarm"
from = "edge"
to = "gate"
at = "broker"
topic = "site/alarm"
per-second = 20
size = "200B"
[[source]]
name = "bulk"
from = "edge"
to = "gate"
at = "broker"
topic = "site/bulk"
per-second = 1
size = "5KB"
"#;
/// Bulk over the mean of the link.
const DEMAND: f64 = 2.2;
/// Who takes part: the name, the node's scheduler, its law.
const SENDERS: [(&str, &str, &str); 3] =
    [("native", "native", "unlimited"), ("bbr", "tidegate", "bbr"), ("tide", "tidegate", "tide")];

/// What to run.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Folder of the recordings, above net/mahimahi
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// How much of each recording is played
    #[arg(long, default_value_t = 120)]
    pub seconds: u64,
    /// Only recordings whose name contains this
    #[arg(long, default_value = "")]
    pub only: String,
}

/// What a sender showed.
#[derive(Clone, Copy, Debug)]
struct Score {
    p50: f64,
    p99: f64,
    /// Bytes on the link over what it could carry, headers included.
    share: f64,
}

fn world(
    (_, scheduler, law): (&str, &str, &str),
    file: &Path,
    mean: f64,
    length: Duration,
) -> anyhow::Result<World> {
    let text = WORLD.replacen("TRACE", &file.display().to_string(), 1);
    let text = text.replacen("SCHEDULER", scheduler, 1).replacen("LAW", law, 1);
    let mut world = World::parse(&text)?;
    world.length = Some(Span(length));
    let bulk = &mut world.source[1];
    bulk.per_second = DEMAND * mean / bulk.size.range().0.0 as f64;
    Ok(world)
}

/// Plays them with each sender; says what happens meanwhile.
///
/// # Errors
/// A file that is no recording, or a world that cannot be brought up.
pub async fn run(options: &Options, say: fn(&str)) -> anyhow::Result<Findings> {
    let Some(mut links) = sim::recorded_links(&options.data)? else {
        return Ok(vec![sim::no_recorded_links(&options.data)].into());
    };
    links.retain(|link| link.name.contains(&options.only));
    let progress = Progress::new("lte-traces", links.len() * SENDERS.len());
    let mut lines = vec![format!(
        "{:<28} {:<8} {:>10} {:>10} {:>7} {:>8}",
        "recording", "sender", "p50 ms", "p99 ms", "share", "of bbr"
    )];
    let mut figures = Vec::new();
    for link in &links {
        let length = link.length.min(Duration::from_secs(options.seconds));
        let length = Duration::from_secs(length.as_secs().max(1));
        let room = link.service.room(Duration::ZERO, length);
        let mut scores = Vec::new();
        for sender in SENDERS {
            progress.step(&format!("{} {}", link.name, sender.0), Some(length));
            let file = options.data.join(sim::RECORDED).join(&link.name).canonicalize()?;
            let world = world(sender, &file, room / length.as_secs_f64(), length)?;
            let played = play::play(&world, Path::new(""), None, say).await?;
            let alarms = played.records.get("alarm").cloned().unwrap_or_default();
            let ms = |part| alarms.quantile(part).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
            let carried = played.carried.get("lte").map_or(0.0, |[up, _]| *up);
            let share = carried * 1e6 / 8.0 * length.as_secs_f64() / room;
            scores.push(Score { p50: ms(0.5), p99: ms(0.99), share });
        }
        lines.extend(rows(&link.name, &scores));
        figures.extend(named(&link.name, &scores));
    }
    drop(progress);
    lines.extend(figures);
    Ok(lines.into())
}

fn rows(recording: &str, scores: &[Score]) -> Vec<String> {
    let bbr = scores[1].share;
    let row = |(place, ((sender, ..), score)): (usize, (&(&str, &str, &str), &Score))| {
        let Score { p50, p99, share } = *score;
        let name = if place == 0 { recording } else { "" };
        format!("{name:<28} {sender:<8} {p50:>10.0} {p99:>10.0} {share:>7.3} {:>8.3}", share / bbr)
    };
    SENDERS.iter().zip(scores).enumerate().map(row).collect()
}

fn named(recording: &str, scores: &[Score]) -> Vec<String> {
    let plain = recording.to_lowercase().replace(['-', '.'], "_");
    let of = |((sender, ..), score): (&(&str, &str, &str), &Score)| {
        let name = |what: &str| format!("lte_real_{plain}_{sender}_{what}");
        [
            figure(&name("p50"), score.p50, "ms"),
            figure(&name("p99"), score.p99, "ms"),
            figure(&name("share"), score.share, "1"),
        ]
    };
    SENDERS.iter().zip(scores).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_has_a_world_of_the_links_own_load() {
        let length = Duration::from_secs(10);
        for sender in SENDERS {
            let world = world(sender, Path::new("some.up"), 1e6, length).unwrap();
            assert_eq!(world.link[0].uplink.trace.as_deref(), Some("some.up"));
            assert!((world.source[1].per_second - 440.0).abs() < 1e-9);
            let text = format!("{:?}", world.process("gate").unwrap().program());
            assert!(text.contains(sender.1) && text.contains(sender.2), "{text}");
        }
    }

    #[test]
    fn a_recording_has_a_row_for_each_sender() {
        let score = |share| Score { p50: 40.0, p99: 90.0, share };
        let text = rows("some.up", &[score(0.9), score(0.8), score(0.76)]).join("\n");
        assert!(text.contains("some.up") && text.contains("0.950"), "{text}");
        assert_eq!(named("some.up", &[score(0.9); 3]).len(), 9);
    }
}
