//! Any load on a node: thousands of publishers, arrivals at random or as recorded, real sensor data, to any
//! destination. Every accepted record must come, once, in its order where that is promised.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use super::contestants::{self, Destination};
use crate::load;
use crate::load::sets::{self, Set};
use crate::load::{Account, Arrivals, Book, Payload, Publish, Stream};
use crate::net::namespace::{Limit, Link, Side};
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Findings, Plot, figure};

/// Bulk of the real sets stays behind their alarms; all that comes is in strict order, which is verified.
const STREAMS: &str = "[[stream]]\ntopics = [\"load/valve/#\", \"load/valve\"]\nclass = \"ls\"\n\
                       strict_order = true\n\
                       [[stream]]\ntopics = [\"#\"]\nclass = \"lt\"\nstrict_order = true\n";

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Where the node sends: rabbitmq, mosquitto, files
    #[arg(long, default_value = "rabbitmq")]
    pub(crate) to: Destination,
    /// Publishers, each with a connection of its own
    #[arg(long, default_value_t = 1000)]
    pub(crate) publishers: u32,
    /// Records a second, of all publishers together
    #[arg(long, default_value_t = 1000.0)]
    pub(crate) per_second: f64,
    /// When records are due: constant, poisson, or recorded (real sensor data, its bursts kept)
    #[arg(long, default_value = "poisson")]
    pub(crate) arrivals: Kind,
    /// Payload bytes; of recorded data its own
    #[arg(long, default_value_t = 256)]
    pub(crate) size: usize,
    /// Megabits a second of the link; as fast as the machine without
    #[arg(long)]
    pub(crate) megabits: Option<f64>,
    /// How long the load is on
    #[arg(long, default_value_t = 20)]
    pub(crate) seconds: u32,
    /// How long to wait afterwards for what still waits, in seconds
    #[arg(long, default_value_t = 60)]
    pub(crate) drain: u32,
    /// Folder of the sensor data; where it is absent, rows of the same sizes are generated
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub(crate) data: PathBuf,
    /// Of what is random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

tidegate_types::named! {
    /// Arrivals, and what arrives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Kind: "kind of arrivals" {
        /// Generated records at equal distances.
        Constant = "constant",
        /// Generated records at random.
        Poisson = "poisson",
        /// Rows of sensor data with the bursts in which they were recorded, sped up to the rate.
        Recorded = "recorded",
    }
}

/// Runs it and returns what was found.
///
/// # Errors
/// Links cannot be made here, or something does not start.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    ensure!(options.to != Destination::Nothing, "a load that goes nowhere cannot be verified");
    let (_awake, link, scratch) = (Spinners::start()?, Link::new()?, Scratch::new()?);
    if let Some(megabits) = options.megabits {
        let bits_per_second = (megabits * 1e6) as u64;
        link.limit(Side::Edge, Limit { bits_per_second, ..Limit::TWO_MEGABIT })?;
    }
    let mut lines = Vec::new();
    let streams = streams(&options, &scratch, &mut lines)?;
    let groups: Vec<String> = streams.iter().map(|stream| stream.name.clone()).collect();
    let progress = Progress::new("load", 2);
    progress.step("starting", Some(Duration::from_secs(10)));
    let contestant = contestants::node("tidegate", options.to, STREAMS);
    let Options { seconds, drain, seed, .. } = options;
    let load = Duration::from_secs(seconds.into());
    let job = Publish { streams, seconds, patience: drain, seed, ..Publish::default() };
    // Its connections take their time; the load begins when all stand.
    let connecting = Duration::from_millis(5) * options.publishers;
    let times = (load, connecting + Duration::from_secs(drain.into()));
    let begun = async |_: &[_]| {
        progress.step("under load", Some(load));
        Ok(())
    };
    let (book, ..) = contestant.carry(&link, job, times, begun).await?;
    drop(progress);
    let mut found = findings(&book, &groups, load);
    found.lines.splice(0..0, lines);
    found.versions.extend(contestant.versions());
    Ok(found)
}

/// One stream of generated records, or one for each set of sensor data.
fn streams(
    options: &Options,
    scratch: &Scratch,
    lines: &mut Vec<String>,
) -> anyhow::Result<Vec<Stream>> {
    let stream = |name: &str, payload, arrivals, part: f64| Stream {
        name: name.into(),
        topic: format!("load/{name}"),
        payload,
        per_second: options.per_second * part,
        publishers: (f64::from(options.publishers) * part).round().max(1.0) as u32,
        arrivals,
        is_urgent: false,
    };
    let stamped = Payload::Stamped(options.size);
    match options.arrivals {
        Kind::Constant => return Ok(vec![stream("even", stamped, Arrivals::Constant, 1.0)]),
        Kind::Poisson => return Ok(vec![stream("random", stamped, Arrivals::Poisson, 1.0)]),
        Kind::Recorded => {}
    }
    let sets = sets::load(&options.data)?;
    if sets.iter().any(|set| !set.is_real) {
        lines.push(format!(
            "skipped: needs {} (real sensor data), not found: generated rows of the same sizes and rates",
            options.data.display()
        ));
    }
    let part = 1.0 / sets.len() as f64;
    let of_set = |set: &Set| {
        let rows = scratch.file(&format!("{}.rows", set.name), &(set.rows.join("\n") + "\n"))?;
        let times: String = set.times.iter().map(|time| format!("{time}\n")).collect();
        let times = scratch.file(&format!("{}.times", set.name), &times)?;
        let payload = Payload::StampedLines(rows);
        anyhow::Ok(stream(set.name, payload, Arrivals::Recorded(times), part))
    };
    sets.iter().map(of_set).collect()
}

fn findings(book: &Book, groups: &[String], load: Duration) -> Findings {
    let mut found = Findings::default();
    found.lines.push(format!(
        "{:<8}{:>10}{:>10}{:>10}{:>8}{:>8}{:>8}{:>11}{:>11}{:>12}",
        "stream", "sent", "accepted", "arrived", "lost", "twice", "late", "p50", "p99", "arrived/s"
    ));
    let mut figures = Vec::new();
    for group in groups {
        let account = book.account(group);
        let tally = book.tally(group).cloned().unwrap_or_default();
        let Account { sent, accepted, refused, unanswered, lost, refused_and_came } = account;
        let ms = |part| tally.quantile(part).as_secs_f64() * 1000.0;
        let (duplicates, out_of_order) = (tally.duplicates, tally.out_of_order);
        let rate = tally.in_time as f64 / load.as_secs_f64();
        found.lines.push(format!(
            "{group:<8}{sent:>10}{accepted:>10}{:>10}{lost:>8}{duplicates:>8}{out_of_order:>8}\
             {:>8.1} ms{:>8.1} ms{rate:>12.1}",
            tally.got(),
            ms(0.5),
            ms(0.99),
        ));
        let mut add = |what: &str, value: f64, unit: &str| {
            figures.push(figure(&format!("load_{group}_{what}"), value, unit));
        };
        for (part, name) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p999"), (1.0, "worst")] {
            add(name, ms(part), "ms");
        }
        let counts = [
            ("sent", sent),
            ("accepted", accepted),
            ("refused", refused),
            ("unanswered", unanswered),
            ("arrived", tally.got()),
            ("duplicates", duplicates),
            ("out_of_order", out_of_order),
            ("lost_accepted", lost),
        ];
        counts.into_iter().for_each(|(name, count)| add(name, count as f64, "records"));
        add("arrived_rate", rate, "records/s");
        for (what, count) in [
            ("accepted records that did not come", lost),
            ("refused records that came", refused_and_came),
            ("records that came twice", duplicates),
            ("records that came out of order", out_of_order),
        ] {
            if count > 0 {
                found.broken.push(format!("{group}: {count} {what}"));
            }
        }
    }
    found.figures = figures;
    found.plots = plots(book, groups);
    found
}

fn plots(book: &Book, groups: &[String]) -> Vec<Plot> {
    let mut all = Vec::new();
    for group in groups {
        let tally = book.tally(group).map(|it| (group.as_str(), it.clone(), it, book.began_ns()));
        all.extend(tally);
    }
    let titles = ["Latency", "Latency over time, the slowest of each few records"];
    load::plots(titles.map(String::from), "record", &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arrivals: Kind) -> Options {
        Options {
            to: Destination::RabbitMq,
            publishers: 300,
            per_second: 3000.0,
            arrivals,
            size: 200,
            megabits: None,
            seconds: 1,
            drain: 1,
            data: "/nonexistent".into(),
            seed: 1,
        }
    }

    #[test]
    fn sensor_data_shares_publishers_and_rate_and_says_when_it_is_generated() {
        let scratch = Scratch::new().unwrap();
        let mut lines = Vec::new();
        let streams = streams(&options(Kind::Recorded), &scratch, &mut lines).unwrap();
        assert_eq!(streams.len(), 3);
        assert!(lines[0].starts_with("skipped: needs"), "{lines:?}");
        for stream in &streams {
            assert_eq!(stream.publishers, 100);
            assert!((stream.per_second - 1000.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_lost_a_double_and_a_late_record_break_the_run() {
        let mut book = Book::new(Duration::MAX);
        let acked = "{\"name\":\"even.3\",\"sent\":4,\"accepted\":4,\"refused\":[]}";
        book.promise(acked).unwrap();
        for seq in [0, 2, 1, 1] {
            book.take(&format!("even.3 {seq} 5 1000005")).unwrap();
        }
        let found = findings(&book, &["even".into()], Duration::from_secs(1));
        assert_eq!(
            found.broken,
            [
                "even: 1 accepted records that did not come",
                "even: 1 records that came twice",
                "even: 1 records that came out of order",
            ]
        );
        assert!(found.value("load_even_arrived") == Some(3.0));
        assert_eq!(found.plots[0].curves[0].points.last().unwrap().1, 1.0);
    }
}
