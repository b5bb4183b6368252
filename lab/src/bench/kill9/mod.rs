//! A program at the edge is killed again and again while publishers insist: does every acknowledged
//! record arrive?
//!
//! Beside that the broker in the cloud is killed and started again, and the link is cut. Publishers speak
//! QoS 1 and publish again what was not acknowledged.

mod contestant;
mod faults;
pub(crate) mod sessions;

use std::time::Duration;

use clap::Args;

pub(crate) use self::contestant::Contestant;
use self::faults::Survivors;
use super::insist::{self, Outcome, SIZE};
use crate::load::Book;
use crate::net;
use crate::net::namespace::{Link, Side};
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::rig;

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// tidegate, mosquitto or nats (may be given again); all of them if left out
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Contestant>,
    /// How often the contestant is killed
    #[arg(long, default_value_t = 40)]
    pub(crate) kills: u32,
    /// How often the broker in the cloud is killed and started again
    #[arg(long, default_value_t = 4)]
    pub(crate) restarts: u32,
    /// How often the link is cut for 3 s
    #[arg(long, default_value_t = 2)]
    pub(crate) cuts: u32,
    /// Records a second, all publishers together
    #[arg(long, default_value_t = 2000)]
    pub(crate) per_second: u32,
    /// Records in all
    #[arg(long, default_value_t = 100_000)]
    pub(crate) records: u64,
    /// Of the times of the kills
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Runs it and returns what was found; a record that Tidegate acknowledged and that did not arrive breaks the
/// run.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    let mut table = vec![format!(
        "{:<11}{:>6}{:>10}{:>10}{:>10}{:>8}{:>12}{:>12}",
        "", "kills", "sent", "accepted", "arrived", "lost", "duplicates", "start p50"
    )];
    let mut figures = Vec::new();
    let mut found = Findings::default();
    let _awake = Spinners::start()?;
    let all = Contestant::ALL.to_vec();
    let contestants = if options.only.is_empty() { all } else { options.only.clone() };
    let progress = Progress::new("kill9", contestants.len());
    for contestant in contestants {
        let expected = faults::expected(&options);
        progress.step(contestant.name(), Some(expected));
        match one(contestant, &options).await {
            Ok(result) => {
                let lost = result.outcome.lost;
                if contestant == Contestant::Tidegate && lost > 0 {
                    found.broken.push(format!("tidegate lost {lost} acknowledged records"));
                }
                found.versions.extend(contestant.versions());
                table.push(result.row(contestant, &options));
                figures.extend(result.figures(contestant));
            }
            Err(error) => table.push(net::skipped(contestant.name(), error)?),
        }
    }
    (found.lines, found.figures) = (table, figures);
    Ok(found)
}

/// What came of one contestant.
struct Killed {
    outcome: Outcome,
    /// From the start to the first publish that could be taken, the median.
    start: Duration,
}

async fn one(contestant: Contestant, options: &Options) -> anyhow::Result<Killed> {
    let (link, scratch) = (Link::new()?, Scratch::new()?);
    let cloud = contestant.start_cloud(&link, &scratch).await?;
    if !contestant.has_cloud() {
        // Its consumer subscribes at the contestant itself: once, before it counts.
        let first = contestant.start(&link, &scratch).await?.quietly();
        drop(rig::client(&link, contestant.consumer()).await?);
        first.kill().await;
    }
    let mut consumer = match contestant.has_cloud() {
        true => rig::client(&link, contestant.consumer()).await?,
        false => rig::started(&link, Side::Cloud, "consumer", &contestant.consumer())?,
    };
    let (version, &Options { per_second, records, .. }) = (contestant.version(), options);
    let publishers = insist::publishers(&link, "p", version, SIZE, per_second, records)?;
    let mut book = Book::new(Duration::MAX);
    let faults = faults::all(contestant, options, &link, &scratch, cloud);
    let survivors = book.during(&mut consumer, faults).await?;
    let promised = book.during(&mut consumer, insist::promised(publishers)).await?;
    let outcome = insist::close(book, promised, &mut consumer).await?;
    let Survivors { contestant: _alive, cloud: _serving, mut starts } = survivors;
    starts.sort_unstable();
    let start = starts.get(starts.len() / 2).copied().unwrap_or_default();
    Ok(Killed { outcome, start })
}

impl Killed {
    fn row(&self, contestant: Contestant, options: &Options) -> String {
        let Outcome { sent, accepted, arrived, lost, duplicates } = self.outcome;
        format!(
            "{:<11}{:>6}{sent:>10}{accepted:>10}{arrived:>10}{lost:>8}{duplicates:>12}{:>9.0} ms",
            contestant.name(),
            options.kills,
            self.start.as_secs_f64() * 1e3,
        )
    }

    fn figures(&self, contestant: Contestant) -> Vec<Figure> {
        let name = |what: &str| format!("kill9_{}_{what}", contestant.name());
        let records = |what: &str, value: u64| figure(&name(what), value as f64, "records");
        vec![
            records("sent", self.outcome.sent),
            records("accepted", self.outcome.accepted),
            records("arrived", self.outcome.arrived),
            records("duplicates", self.outcome.duplicates),
            figure(&name("start_p50"), self.start.as_secs_f64() * 1e3, "ms"),
            records("lost_accepted", self.outcome.lost),
        ]
    }
}
