//! Real input, end to end: sensor data through MQTT clients, a node, 2 Mbit/s and RabbitMQ, at 160 % of
//! what the line carries, with a consumer that verifies the identity, order and fate of every record.

mod audit;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::load::sets::{self, Set};
use crate::load::stamp::wall_ns;
use crate::load::{Acked, Arrival, BEGAN, Consume, Job, Payload, Publish, Stream};
use crate::net::namespace::{Limit, Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::report::{Findings, figure};
use crate::rig;
use audit::{Audit, stream_of};

/// Alarms a second: ten machines of the kind that the set is from.
const ALARMS_PER_SECOND: u32 = 10;
/// Load as a part of the line, headers counted.
const LOAD: f64 = 1.6;
/// Bytes on the wire beside a record's payload: AMQP's frames and names, TCP and IP (measured).
const OVERHEAD: usize = 370;
/// How often the book is told.
const TELL: Duration = Duration::from_secs(5);
/// Time for a node to stop once everything has come.
const STOP: Duration = Duration::from_secs(30);
/// How a line of the node's log begins that tells all fates.
const LAST_WORDS: &str = "stopped: ";

/// What the node is told about the streams: alarms are urgent; bulk is in strict order, which the
/// consumer verifies.
const STREAMS: &str = "[[stream]]\ntopics = [\"plant/valve\"]\nclass = \"ls\"\n\
    [[stream]]\ntopics = [\"city/#\"]\nclass = \"lt\"\nstrict_order = true\n";

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Folder of the sensor data; where it is absent, rows of the same sizes are generated
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub(crate) data: PathBuf,
    /// How long the load is on
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u32,
    /// How long to wait afterwards for what still waits, in seconds
    #[arg(long, default_value_t = 60)]
    pub(crate) drain: u32,
}

/// Runs the demo, telling how it goes, and returns what was found.
///
/// # Errors
/// Something cannot be started, or a record is not what, where or as often as it should be.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    let sets = sets::load(&options.data)?;
    let rates = rates(&sets);
    introduce(&sets, &rates, &options);
    let (_awake, link, scratch) = (Spinners::start()?, Link::new()?, Scratch::new()?);
    link.limit(Side::Edge, Limit::TWO_MEGABIT)?;
    let _rabbitmq = rig::raise(&link, &scratch, &rig::rabbitmq()).await?.quietly();
    let consume = Consume { from: rig::everything(), is_lasting: false, is_whole: true };
    let mut consumer = rig::client(&link, Job::Consume(consume)).await?;
    let node = rig::node(rig::TO_RABBITMQ, STREAMS, "output is up");
    let mut node = rig::raise(&link, &scratch, &node).await?;
    let mut streams = Vec::new();
    for (set, rate) in sets.iter().zip(&rates) {
        let file = scratch.file(&format!("{}.rows", set.name), &(set.rows.join("\n") + "\n"))?;
        let part = if set.class == "ls" { "plant" } else { "city" };
        let topic = format!("{part}/{}", set.name);
        let payload = Payload::Lines(file);
        streams.push(Stream {
            name: set.name.into(),
            topic,
            payload,
            per_second: (*rate).into(),
            ..Stream::default()
        });
    }
    let Options { seconds, drain, .. } = options;
    let publish = Publish {
        address: rig::edge_listener(),
        streams,
        seconds,
        patience: seconds + drain,
        ..Publish::default()
    };
    let publisher = rig::started(&link, Side::Edge, "publisher", &Job::Publish(publish))?;
    let mut audits: Vec<Audit> = sets.into_iter().map(Audit::new).collect();
    let within = Duration::from_secs((seconds + drain).into());
    let end_ns = wall_ns() + u64::from(seconds) * 1_000_000_000;
    let book = keep(publisher, &mut consumer, &mut audits, end_ns);
    // The end of the time to drain is a result, not a failure: the verdict tells what did not come.
    timeout_at(Instant::now() + within, book).await.unwrap_or(Ok(()))?;
    node.terminate()?;
    let words = node.says(LAST_WORDS, STOP).await?;
    verdict(&audits, Fates::read(&words)?, f64::from(seconds))
}

/// Records a second of each set: the alarms', and of the others as many each as make up the load.
fn rates(sets: &[Set]) -> Vec<u32> {
    let on_wire = |set: &Set| {
        let payload: usize = set.rows.iter().map(String::len).sum();
        (payload / set.rows.len() + OVERHEAD) as f64
    };
    let (alarms, bulk): (Vec<&Set>, Vec<&Set>) = sets.iter().partition(|set| set.class == "ls");
    let urgent: f64 = alarms.iter().map(|set| on_wire(set) * f64::from(ALARMS_PER_SECOND)).sum();
    let line = Limit::TWO_MEGABIT.bits_per_second as f64 / 8.0;
    let each = (line * LOAD - urgent) / bulk.iter().map(|set| on_wire(set)).sum::<f64>();
    let rate = |set: &Set| if set.class == "ls" { ALARMS_PER_SECOND } else { each as u32 };
    sets.iter().map(rate).collect()
}

#[expect(clippy::print_stdout, reason = "a command for people")]
fn introduce(sets: &[Set], rates: &[u32], options: &Options) {
    println!("MQTT clients -> Tidegate -> 2 Mbit/s -> RabbitMQ -> consumer, {:.0} %", LOAD * 100.0);
    for (set, rate) in sets.iter().zip(rates) {
        let mean = set.rows.iter().map(String::len).sum::<usize>() / set.rows.len();
        let origin = if set.is_real { "real sensor data" } else { "generated" };
        let (name, rows) = (set.name, set.rows.len());
        println!(
            "{name:>6}: {rate:4} records/s of {mean} B, class {}, {rows} rows of {origin}",
            set.class
        );
    }
    if sets.iter().any(|set| !set.is_real) {
        let data = options.data.display();
        println!("no sensor data in {data}: generated rows of the same sizes and rates instead");
    }
}

/// Keeps the book until everything that was accepted has come.
async fn keep(
    mut publisher: Process,
    consumer: &mut Process,
    audits: &mut [Audit],
    end_ns: u64,
) -> anyhow::Result<()> {
    let mut tell = interval(TELL);
    tell.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tell.reset();
    let (start, mut publishing) = (Instant::now(), true);
    while publishing || !audits.iter().all(Audit::is_complete) {
        let find = |audits: &mut [Audit], name: &str| {
            let place = audits.iter().position(|audit| audit.set.name == name);
            place.with_context(|| format!("nobody published a stream {name}"))
        };
        tokio::select! {
            line = publisher.line(), if publishing => match line {
                Some(line) if line.starts_with(BEGAN) => {}
                Some(line) => {
                    let acked: Acked = serde_json::from_str(&line)
                        .with_context(|| format!("the publisher says {line}"))?;
                    let place = find(audits, &acked.name)?;
                    audits[place].acked = Some(acked);
                }
                None => publishing = false,
            },
            line = consumer.line() => {
                let arrival: Arrival = serde_json::from_str(&line.context("the consumer ended")?)?;
                let place = find(audits, stream_of(&arrival)?)?;
                audits[place].take(&arrival, end_ns)?;
            }
            _ = tell.tick() => progress(start.elapsed(), audits),
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a command for people")]
fn progress(elapsed: Duration, audits: &[Audit]) {
    let show = |audit: &Audit| {
        let p99 = audit.tally.quantile(0.99).as_secs_f64() * 1000.0;
        format!("  {}: {} came, p99 {p99:.0} ms", audit.set.name, audit.tally.got())
    };
    let all: String = audits.iter().map(show).collect();
    println!("{:4} s{all}", elapsed.as_secs());
}

/// What the node says became of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fates {
    accepted: u64,
    confirmed: u64,
    dropped: u64,
    lost: u64,
}

impl Fates {
    /// Reads the node's last words.
    fn read(words: &str) -> anyhow::Result<Fates> {
        let after = |name: &str| {
            let rest = words.split(&format!("{name} ")).nth(1).unwrap_or_default();
            let digits = rest.split(|sign: char| !sign.is_ascii_digit()).next().unwrap_or_default();
            digits.parse().with_context(|| format!("no number of {name} in: {words}"))
        };
        Ok(Fates {
            accepted: after("accepted")?,
            confirmed: after("confirmed")?,
            dropped: after("dropped")?,
            lost: after("lost")?,
        })
    }
}

/// The figures; an error if any promise is broken.
fn verdict(audits: &[Audit], fates: Fates, seconds: f64) -> anyhow::Result<Findings> {
    let mut found = Findings::from(vec![format!("the node's own account: {fates:?}")]);
    let sum = |value: &dyn Fn(&Audit) -> u64| audits.iter().map(value).sum::<u64>();
    let accepted = sum(&|audit| audit.acked.as_ref().map_or(0, |acked| acked.accepted));
    let counts = [
        ("sent", sum(&|audit| audit.acked.as_ref().map_or(0, |acked| acked.sent))),
        ("accepted", accepted),
        ("arrived", sum(&|audit| audit.tally.got())),
        ("dropped_with_reason", fates.dropped),
        ("duplicates", sum(&|audit| audit.tally.duplicates)),
        ("out_of_order", sum(&|audit| audit.tally.out_of_order)),
        ("mistakes", sum(&|audit| audit.mistakes)),
        ("refused_and_came", sum(&|audit| audit.refused_and_came())),
        ("lost_accepted", sum(&Audit::missing).saturating_sub(fates.dropped) + fates.lost),
    ];
    for audit in audits {
        let ms = |part| audit.tally.quantile(part).as_secs_f64() * 1000.0;
        found.figures.push(figure(&format!("demo_{}_p50", audit.set.name), ms(0.5), "ms"));
        found.figures.push(figure(&format!("demo_{}_p99", audit.set.name), ms(0.99), "ms"));
        let rate = audit.tally.in_time as f64 / seconds;
        found.figures.push(figure(&format!("demo_{}_rate", audit.set.name), rate, "records/s"));
    }
    found.figures.extend(
        counts.map(|(name, value)| figure(&format!("demo_{name}"), value as f64, "records")),
    );
    let told = audits.iter().flat_map(|audit| audit.told().iter().cloned());
    let wrong = told.chain((fates.accepted != accepted).then(|| {
        format!("publishers were told {accepted} acceptances, the node counts {}", fates.accepted)
    }));
    let wrong: Vec<String> = wrong.collect();
    let broken = ["mistakes", "duplicates", "out_of_order", "refused_and_came", "lost_accepted"];
    let is_broken = counts.iter().any(|(name, value)| broken.contains(name) && *value > 0);
    ensure!(wrong.is_empty() && !is_broken, "{}\n{}", found.printed().join("\n"), wrong.join("\n"));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_last_words_are_understood() {
        let words = "INFO tidegate: stopped: accepted 12, confirmed 9, dropped 3 (2 expired, \
                     1 unroutable), held 0, lost 0";
        let fates = Fates::read(words).unwrap();
        assert_eq!(fates, Fates { accepted: 12, confirmed: 9, dropped: 3, lost: 0 });
        assert!(Fates::read("stopped: by hand").is_err());
    }

    #[test]
    fn the_load_is_what_it_says() {
        let sets = sets::load(std::path::Path::new("/nonexistent")).unwrap();
        let bytes = |(set, rate): (&Set, u32)| {
            let payload: usize = set.rows.iter().map(String::len).sum();
            (payload / set.rows.len() + OVERHEAD) as f64 * f64::from(rate)
        };
        let load: f64 = sets.iter().zip(rates(&sets)).map(bytes).sum();
        assert!((load / 250_000.0 - LOAD).abs() < 0.01, "{load}");
    }

    #[test]
    fn a_broken_promise_is_an_error() {
        let fates = Fates { accepted: 1, confirmed: 1, dropped: 0, lost: 0 };
        assert!(verdict(&[], Fates { accepted: 0, ..fates }, 1.0).is_ok());
        assert!(verdict(&[], fates, 1.0).is_err(), "the node counts one that nobody sent");
        assert!(verdict(&[], Fates { accepted: 0, lost: 1, ..fates }, 1.0).is_err());
    }
}
