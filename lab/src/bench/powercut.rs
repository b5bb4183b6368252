//! The power fails while publishers insist: does every acknowledged record arrive?
//!
//! The node's log, and its sink, stand on an ext4 file system in a file. At a cut the node is stopped as it stands
//! and the file is copied: what the node or its file system had not made safe is not in the copy. The node is
//! killed, the copy takes the place of the disk, and the next life begins on it. A far end that is a broker stands
//! elsewhere and is not cut.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::time::sleep;

use super::insist::{self, DRAIN, Outcome, SIZE};

use crate::load::mqtt::Version;
use crate::load::{Book, Consume, Job, Source};
use crate::net;
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::rig;
use crate::rig::brokers::MQTT_PORT;
use crate::world::Broker;

/// Size of the file system, bytes.
const DISK: u64 = 512 << 20;
/// Lives of the node, milliseconds.
const LIVES: std::ops::Range<u32> = 1500..4000;

tidegate_types::named! {
    /// Where the node's records go.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Output: "output" {
        /// The node's own files, on the disk that is cut.
        Sink = "sink",
        /// Mosquitto in the cloud.
        Mqtt = "mqtt",
        /// RabbitMQ in the cloud, a durable queue.
        Amqp = "amqp",
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Where records go: sink, mqtt, amqp (may be given again); all of them if left out
    #[arg(long)]
    only: Vec<Output>,
    /// How often the power fails
    #[arg(long, default_value_t = 3)]
    cuts: u32,
    /// Records a second
    #[arg(long, default_value_t = 2000)]
    per_second: u32,
    /// Of the times of the cuts
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs it and returns what was found; a record that was acknowledged and did not arrive breaks the run.
///
/// # Errors
/// Something cannot be started, or no file system can be mounted.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    let mut found = Findings::default();
    found.lines.push(format!(
        "{:<6}{:>6}{:>10}{:>10}{:>8}{:>12}",
        "", "cuts", "accepted", "arrived", "lost", "duplicates"
    ));
    let _awake = Spinners::start()?;
    let all = Output::ALL.to_vec();
    let outputs = if options.only.is_empty() { all } else { options.only.clone() };
    let progress = Progress::new("power-cut", outputs.len());
    for output in outputs {
        let name = output.name();
        progress.step(name, Some(options.load() + DRAIN / 4));
        let outcome = match one(output, &options).await {
            Ok(outcome) => outcome,
            Err(error) => {
                found.lines.push(net::skipped(name, error)?);
                continue;
            }
        };
        let Outcome { accepted, arrived, lost, duplicates, .. } = outcome;
        if lost > 0 {
            found.broken.push(format!("{name}: {lost} acknowledged records were lost"));
        }
        let cuts = options.cuts;
        found.lines.push(format!(
            "{name:<6}{cuts:>6}{accepted:>10}{arrived:>10}{lost:>8}{duplicates:>12}"
        ));
        for (what, count) in [("lost_accepted", lost), ("accepted", accepted)] {
            found.figures.push(figure(
                &format!("power_cut_{name}_{what}"),
                count as f64,
                "records",
            ));
        }
    }
    Ok(found)
}

impl Options {
    /// How long publishers publish: through all lives but a part of the last.
    fn load(&self) -> Duration {
        Duration::from_millis(u64::from(LIVES.end)) * (self.cuts + 1)
    }

    fn publishers(&self, link: &Link) -> anyhow::Result<Vec<Process>> {
        let records = u64::from(self.per_second) * self.load().as_secs();
        insist::publishers(link, "p", Version::V5, SIZE, self.per_second, records)
    }
}

impl Output {
    async fn start_cloud(self, link: &Link, scratch: &Scratch) -> anyhow::Result<Option<Process>> {
        let broker = match self {
            Output::Sink => return Ok(None),
            Output::Mqtt => rig::broker(Side::Cloud, Broker::Mosquitto, "max_queued_messages 0\n"),
            Output::Amqp => rig::rabbitmq(),
        };
        rig::raise(link, scratch, &broker).await.map(Some)
    }

    fn source(self, disk: &Disk) -> Source {
        match self {
            Output::Sink => Source::Sink { folder: disk.mounted.join("records") },
            Output::Mqtt => Source::Mqtt {
                address: (Side::Cloud.address(), MQTT_PORT).into(),
                filter: "#".into(),
                version: Version::V5,
            },
            Output::Amqp => rig::durable("power-cut"),
        }
    }

    /// Starts the node on the disk, and waits until it takes publishes.
    async fn node(self, link: &Link, scratch: &Scratch, disk: &Disk) -> anyhow::Result<Process> {
        let output = match self {
            Output::Sink => {
                let folder = disk.mounted.join("records");
                format!("sink = {{ directory = {folder:?}, file_max = \"400MiB\" }}\n")
            }
            Output::Mqtt => rig::TO_MOSQUITTO.into(),
            Output::Amqp => rig::TO_RABBITMQ.into(),
        };
        let log = disk.mounted.join("log");
        let log = format!("[log]\ndirectory = {log:?}\nstandby = true\n");
        rig::raise(link, scratch, &rig::node(&output, &log, "ready")).await
    }
}

async fn one(output: Output, options: &Options) -> anyhow::Result<Outcome> {
    let (link, scratch) = (Link::new()?, Scratch::new()?);
    let _cloud = output.start_cloud(&link, &scratch).await?.map(Process::quietly);
    let mut disk = Disk::new(&scratch)?;
    let consume = |disk: &Disk| {
        Job::Consume(Consume { from: output.source(disk), is_lasting: true, is_whole: false })
    };
    let mut book = Book::new(Duration::MAX);
    let mut publishers = None;
    // Lines of files that a cut takes back must not count: a sink is read at the end.
    let mut consumer = match output {
        Output::Sink => None,
        _ => Some(rig::client(&link, consume(&disk)).await?),
    };
    let lives = async {
        let mut random = oorandom::Rand32::new(options.seed);
        for _ in 0..options.cuts {
            let node = output.node(&link, &scratch, &disk).await?;
            if publishers.is_none() {
                publishers = Some(options.publishers(&link)?);
            }
            let id = node.id().context("the node ended")?;
            let node = node.quietly();
            sleep(Duration::from_millis(random.rand_range(LIVES).into())).await;
            net::run("kill", &["-STOP", &id.to_string()])?;
            disk.copy()?;
            node.kill().await;
            disk.replace()?;
        }
        let last = output.node(&link, &scratch, &disk).await?.quietly();
        anyhow::Ok((last, insist::promised(publishers.take().unwrap_or_default()).await?))
    };
    let (_last, promised) = match &mut consumer {
        Some(consumer) => book.during(consumer, lives).await?,
        None => lives.await?,
    };
    let mut consumer = match consumer {
        Some(consumer) => consumer,
        None => rig::client(&link, consume(&disk)).await?,
    };
    insist::close(book, promised, &mut consumer).await
}

/// A file system in a file.
pub(super) struct Disk {
    folder: PathBuf,
    pub(super) mounted: PathBuf,
    number: u32,
}

impl Disk {
    pub(super) fn new(scratch: &Scratch) -> anyhow::Result<Disk> {
        let folder = scratch.path().to_owned();
        let disk = Disk { mounted: folder.join("disk"), folder, number: 0 };
        std::fs::create_dir_all(&disk.mounted)?;
        std::fs::File::create(disk.image(0))?.set_len(DISK)?;
        net::run("mkfs.ext4", &["-q", "-F", text(&disk.image(0))?])?;
        disk.mount()?;
        Ok(disk)
    }

    fn image(&self, number: u32) -> PathBuf {
        self.folder.join(format!("disk.{number}.img"))
    }

    fn mount(&self) -> anyhow::Result<()> {
        let image = self.image(self.number);
        Ok(net::run("mount", &["-o", "loop", text(&image)?, text(&self.mounted)?]).map(drop)?)
    }

    /// What the disk has at this moment: no file system above it was asked to write anything.
    pub(super) fn copy(&self) -> anyhow::Result<()> {
        let (from, to) = (self.image(self.number), self.image(self.number + 1));
        Ok(net::run("cp", &["--sparse=always", text(&from)?, text(&to)?]).map(drop)?)
    }

    /// Goes on with the copy.
    pub(super) fn replace(&mut self) -> anyhow::Result<()> {
        net::run("umount", &[text(&self.mounted)?])?;
        std::fs::remove_file(self.image(self.number))?;
        self.number += 1;
        self.mount()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A process that was just killed may hold it for a moment: lazily.
        let _ = Command::new("umount").arg("-l").arg(&self.mounted).status();
    }
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path that is no text")
}
