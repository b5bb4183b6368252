//! The sources of a world: publishers, consumers, and the book of what came.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tidegate::observe::status::view::{NodeView, StreamView};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::load::stamp::{Stamp, wall_ns};
use crate::load::{
    self, Acked, Arrivals, BEGAN, Consume, Insist, Job, MARKED, Payload, Publish, READY, Stream,
    mqtt,
};
use crate::net::process::Process;
use crate::net::stage::Stage;
use crate::query::{Answer, Sums};
use crate::rig::{self, CONNECT, brokers};
use crate::world::{self, Broker, Came, Delivered, Program, Records, Source, Violated, World};

/// What publishers and consumers say, and they themselves. Dropping it ends them.
#[derive(Debug, Default)]
pub(super) struct Book {
    clients: JoinSet<anyhow::Result<()>>,
    shared: Arc<Shared>,
}

/// What is written by who listens to the clients.
#[derive(Debug, Default)]
struct Shared {
    pages: Mutex<Pages>,
    turned: Notify,
}

#[derive(Debug, Default)]
struct Pages {
    begun_ns: u64,
    sources: BTreeMap<String, Page>,
    publishers: usize,
}

#[derive(Debug, Default)]
struct Page {
    size: u64,
    delivered: Delivered,
    seen: BTreeSet<u64>,
    /// Those that came without a mark.
    unmarked: BTreeSet<u64>,
    sums: Sums,
    answers: Vec<Answer>,
}

impl Book {
    /// Reads what comes to a broker, if a source says so.
    pub(super) async fn read(
        &mut self,
        world: &World,
        stage: &Stage,
        broker: &world::Process,
    ) -> anyhow::Result<()> {
        if world.source.iter().all(|source| source.at != broker.name) {
            return Ok(());
        }
        let Program::Broker(kind) = broker.program() else { return Ok(()) };
        let address = stage.address(&broker.host)?;
        let is_lasting =
            world.fault.iter().any(|fault| fault.process.as_ref() == Some(&broker.name));
        let from = match kind {
            Broker::Rabbitmq => load::Source::Amqp {
                address: (address, brokers::AMQP_PORT).into(),
                user: brokers::USER.into(),
                exchange: rig::EXCHANGE.into(),
                key: "#".into(),
                queue: is_lasting.then(|| "lab".into()),
            },
            Broker::Mosquitto => load::Source::Mqtt {
                address: (address, brokers::MQTT_PORT).into(),
                filter: "#".into(),
                version: mqtt::Version::V5,
            },
            Broker::Nats => load::Source::Nats {
                address: (address, brokers::NATS_PORT).into(),
                subject: ">".into(),
            },
        };
        let job = Job::Consume(Consume { from, is_lasting, is_whole: false });
        let mut consumer = Process::start("consumer", stage.job(&broker.host, &job)?)?;
        consumer.says(READY, CONNECT).await?;
        let shared = Arc::clone(&self.shared);
        self.clients.spawn(async move {
            while let Some(line) = consumer.line().await {
                if line != READY {
                    shared.came(&line)?;
                }
            }
            bail!("a consumer ended; its last lines:\n{}", consumer.last_lines())
        });
        Ok(())
    }

    pub(super) fn begin(&mut self, world: &World, stage: &Stage) -> anyhow::Result<()> {
        for source in &world.source {
            let (job, wait) = publish(source, world, stage)?;
            let size = source.size.range().0.0;
            let page = Page { size, ..Page::default() };
            self.shared.pages().sources.insert(source.name.clone(), page);
            self.shared.pages().publishers += 1;
            let shared = Arc::clone(&self.shared);
            // Made now, while the hosts are there for certain; it runs when it is started.
            let command = stage.job(&source.from, &job)?;
            self.clients.spawn(async move {
                tokio::time::sleep(wait).await;
                let mut publisher = Process::start("publisher", command)?;
                while let Some(line) = publisher.line().await {
                    if line.starts_with(BEGAN) {
                        continue;
                    }
                    let acked: Acked = serde_json::from_str(&line).with_context(|| {
                        format!("a publisher says:\n{}", publisher.last_lines())
                    })?;
                    shared.acked(acked);
                }
                shared.pages().publishers -= 1;
                shared.turned.notify_one();
                Ok(())
            });
        }
        // The world's own time begins now, for its faults as for its records.
        self.shared.pages().begun_ns = wall_ns();
        Ok(())
    }

    /// Waits until all publishers are done and all that was accepted has come; from `drained` on only for the
    /// publishers, or nobody would know what they offered.
    pub(super) async fn complete(&mut self, drained: Instant) -> anyhow::Result<()> {
        loop {
            let is_late = Instant::now() >= drained;
            let is_told = self.shared.pages().publishers == 0;
            if self.shared.pages().is_complete() || is_late && is_told {
                return Ok(());
            }
            tokio::select! {
                () = self.shared.turned.notified() => {}
                () = sleep_until(drained), if !is_late => {}
                Some(ended) = self.clients.join_next() => ended??,
            }
        }
    }

    /// What became of the records.
    pub(super) fn close(&mut self, world: &World) -> Records {
        self.clients.abort_all();
        let mut pages = self.shared.pages();
        let of = |source: &Source| {
            let mut page = pages.sources.remove(&source.name).unwrap_or_default();
            page.delivered.windows.add(&page.sums, &page.answers);
            (source.name.clone(), page.delivered)
        };
        world.source.iter().map(of).collect()
    }
}

impl Shared {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().expect("no holder panics")
    }

    /// A consumer's line: stamp and time of arrival, or an answer of its query.
    fn came(&self, line: &str) -> anyhow::Result<()> {
        if let Some(answer) = Answer::read(line) {
            let answer = answer?;
            if let Some(page) = self.pages().sources.get_mut(&answer.stream) {
                page.answers.push(answer);
            }
            return Ok(());
        }
        let Stamp { stream, seq, due_ns } = line.parse()?;
        let received_ns: u64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
        let mut pages = self.pages();
        let due = Duration::from_nanos(due_ns.saturating_sub(pages.begun_ns));
        // Of a world before this one, if a broker kept it.
        let Some(page) = pages.sources.get_mut(&stream) else { return Ok(()) };
        let newest = page.seen.last().copied();
        let is_marked = line.contains(MARKED);
        page.delivered.unmarked += u64::from(!is_marked && !page.unmarked.insert(seq));
        if !page.seen.insert(seq) {
            page.delivered.duplicates += 1;
            return Ok(());
        }
        page.delivered.out_of_order += u64::from(newest.is_some_and(|newest| newest > seq));
        let took = Duration::from_nanos(received_ns.saturating_sub(due_ns));
        page.delivered.came.push(Came { due, took, bytes: page.size });
        drop(pages);
        self.turned.notify_one();
        Ok(())
    }

    fn acked(&self, acked: Acked) {
        if let Some(page) = self.pages().sources.get_mut(&acked.name) {
            page.delivered.offered += acked.sent;
            page.delivered.accepted += acked.accepted;
            page.delivered.refused += acked.refused.len() as u64;
            page.sums.extend(acked.sums);
        }
    }
}

impl Pages {
    fn is_complete(&self) -> bool {
        let has_all = |page: &Page| page.delivered.came.len() as u64 >= page.delivered.accepted;
        self.publishers == 0 && self.sources.values().all(has_all)
    }
}

/// The publisher of a source, and how long it waits before it starts.
fn publish(source: &Source, world: &World, stage: &Stage) -> anyhow::Result<(Job, Duration)> {
    let only = "only `lab sim` can play that";
    let is_whole = |value: f64| value.fract().abs() < 1e-9 && value >= 1.0;
    let name = &source.name;
    let (least, most) = source.size.range();
    ensure!(least == most, "source {name}: not all of one size: {only}");
    let seconds = source.end(world)?.as_secs_f64() - source.start.as_secs_f64();
    ensure!(is_whole(seconds), "source {name}: it does not send for whole seconds: {only}");
    let to = &world.process(&source.to)?.host;
    let address: SocketAddr = (stage.address(to)?, brokers::MQTT_PORT).into();
    let size = usize::try_from(least.0)?;
    let is_killed = world.fault.iter().any(|fault| fault.process.as_ref() == Some(&source.to));
    if is_killed {
        // Its publisher comes back with what was not acknowledged.
        ensure!(
            source.topic == *name,
            "source {name}: {} is killed, so its topic must be its name",
            source.to
        );
        let is_even = source.arrivals == world::Arrivals::Constant && is_whole(source.per_second);
        ensure!(is_even, "source {name}: not a whole number of records a second, evenly: {only}");
        let per_second = source.per_second as u32;
        let records = u64::from(per_second) * seconds as u64;
        let version = mqtt::Version::V5;
        let insist = Insist { address, version, name: name.clone(), size, per_second, records };
        return Ok((Job::Insist(insist), source.start.0));
    }
    let stream = Stream {
        name: name.clone(),
        topic: source.topic.clone(),
        payload: Payload::Measured(size),
        per_second: source.per_second,
        publishers: 1,
        is_urgent: false,
        arrivals: match source.arrivals {
            world::Arrivals::Constant => Arrivals::Constant,
            world::Arrivals::Poisson => Arrivals::Poisson,
        },
    };
    let patience = world.drain.as_secs_f64().ceil() as u32;
    let publish = Publish {
        address,
        streams: vec![stream],
        seconds: seconds as u32,
        patience,
        seed: world.seed,
        ..Publish::default()
    };
    Ok((Job::Publish(publish), source.start.0))
}

/// Where the HTTP server of a node listens, unless its configuration says otherwise.
const STATUS: &str = "127.0.0.1:7070";

/// Deliveries of each `[[stream]]` of a node that missed their bound, sent or still waiting; `None` where
/// it has no status to show.
pub(super) async fn violated(stage: &Stage, host: &str) -> anyhow::Result<Option<Violated>> {
    let job = Job::Status(STATUS.into());
    let mut asking = Process::start("status", stage.job(host, &job)?)?;
    let Some(line) = asking.line().await else { return Ok(None) };
    let Ok(view) = serde_json::from_str::<NodeView>(&line) else { return Ok(None) };
    // Those that wait past their bound are counted already.
    let of = |stream: &StreamView| (stream.name.clone(), stream.counts.violated);
    Ok(Some(view.streams.iter().map(of).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_counts_copies_order_and_what_is_missing() {
        let shared = Shared::default();
        shared.pages().begun_ns = 1000;
        shared.pages().publishers = 0;
        let page = Page { size: 200, ..Page::default() };
        shared.pages().sources.insert("alarm".into(), page);
        for line in [
            "alarm 0 1000 1500",
            "alarm 2 3000 3100",
            "alarm 1 2000 3200",
            "alarm 2 3000 9",
            "alarm 0 1000 marked 1600",
        ] {
            shared.came(line).unwrap();
        }
        shared.came("ghost 0 1 2").unwrap();
        shared.came("window alarm 0 1 5 9").unwrap();
        shared.came("window ghost 0 1 5 9").unwrap();
        assert_eq!(shared.pages().sources["alarm"].answers.len(), 1);
        let acked = |accepted| {
            let (name, refused) = ("alarm".into(), vec![3]);
            Acked { name, sent: 4, accepted, refused, ..Acked::default() }
        };
        shared.acked(acked(3));
        assert!(shared.pages().is_complete());
        shared.acked(acked(1));
        assert!(!shared.pages().is_complete());
        let page = shared.pages().sources.remove("alarm").unwrap();
        let Delivered { offered, accepted, refused, duplicates, unmarked, came, .. } =
            page.delivered;
        assert_eq!((offered, accepted, refused), (8, 4, 2));
        assert_eq!((duplicates, unmarked, page.delivered.out_of_order), (2, 1, 1));
        let nanos = Duration::from_nanos;
        assert_eq!(came[1], Came { due: nanos(2000), took: nanos(100), bytes: 200 });
        assert!(shared.came("nonsense").is_err());
    }
}
