//! `tidegate calibrate channel`: what the link to an edge server takes for so many bytes.
//!
//! Probes go as frames do, in pieces that are records of the link, in a flow that nobody has: the far node answers
//! for each and throws it away. The node that is configured may run meanwhile; this is a link beside its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use tidegate_frames::channel::LatencyLine;
use tidegate_frames::piece::FramePiece;
use tidegate_link::envelope::Envelope;
use tidegate_link::packet::Custody;
use tidegate_link::{LinkEvent, LinkOptions, Outgoing};
use tidegate_types::record::{Fate, Identity, Origin, Properties, StreamId};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::assembly::Taker;
use crate::assembly::drivers::surroundings;
use crate::assembly::run::load;
use crate::cli::calibrate::ChannelArguments;
use crate::config::{Config, OutputConfig};
use crate::link::dial::{Dialer, Peer};
use crate::link::engine::Engine;
use crate::link::wire::Heard;
use crate::link::{self, HEARD_MAX, Links, PACKET_MAX, quic};
use crate::output::link::LinkOptionsOut;
use crate::services::cameras::site::{VERSION, Written};
use crate::support::complaints::Complaint;
use crate::support::time::Clock;

/// Bytes of a piece, as frames have them.
const PIECE: usize = 8 << 10;
/// Before the first probe counts, the link gets to know its channel.
const WARM: usize = 6;
/// Between two probes: what one leaves behind is gone.
const APART: Duration = Duration::from_millis(60);
/// How long the link may take to be connected, and one probe.
const PATIENCE: Duration = Duration::from_secs(15);

/// Measures, prints and writes.
pub(super) fn channel(arguments: &ChannelArguments) -> anyhow::Result<()> {
    let config = load(Some(arguments.file.path()), Taker::Node)?.completed();
    let output = chosen(&config, arguments.output.as_deref())?;
    let link = output.link.as_ref().context("it is no link")?;
    let options = link.options(&surroundings(output, &config, &Links::default()))?;
    let name = output.label().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let probes = runtime.block_on(async {
        let mut prober = Prober::start(options, &config.node.name())?;
        prober.probes(&arguments.sizes, arguments.probes as usize).await
    })?;
    let line = LatencyLine::through(&probes);
    let line = line
        .context("larger probes do not take longer here: give larger --sizes, or more --probes")?;
    let written = written(&line, &name, &probes);
    super::print(&told(&written));
    let text = serde_json::to_string_pretty(&written)? + "\n";
    match &arguments.out {
        Some(file) => {
            std::fs::write(file, text).with_context(|| file.display().to_string())?;
            super::print(&format!("[frames] channel = \"{}\"", file.display()));
        }
        None => {
            use std::io::Write;
            std::io::stdout().write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

/// The link that is named, that of `[frames]`, or the only one.
fn chosen<'a>(config: &'a Config, name: Option<&str>) -> anyhow::Result<&'a OutputConfig> {
    let links: Vec<&OutputConfig> =
        config.output.iter().filter(|output| output.link.is_some()).collect();
    let name = name.or(config.frames.to.as_deref());
    match (name, &links[..]) {
        (Some(name), _) => links
            .into_iter()
            .find(|output| output.label() == name)
            .with_context(|| format!("there is no [[output]] {name:?} that is a link")),
        (None, [only]) => Ok(only),
        (None, []) => bail!("there is no [[output]] that is a link"),
        (None, _) => bail!("there are several links: say which with --output"),
    }
}

/// A link with nothing above it.
struct Prober {
    engine: Engine,
    heard: mpsc::Receiver<Heard>,
    _life: watch::Sender<u64>,
    _dialers: JoinSet<()>,
    clock: Clock,
    origin: Arc<Origin>,
    flow: u64,
    sent: u64,
}

impl Prober {
    fn start(options: LinkOptionsOut, node: &str) -> anyhow::Result<Prober> {
        let quic = quic::client(&options.tls.config()).map_err(anyhow::Error::msg)?;
        let peer = Peer {
            host: options.host.as_str().into(),
            port: options.port,
            tls: options.tls.config(),
            quic,
            fallback: options.fallback,
        };
        let (sender, heard) = mpsc::channel(HEARD_MAX);
        let (lives, life) = watch::channel(0);
        let mut dialers = JoinSet::new();
        for (path, binding) in options.paths.iter().enumerate() {
            let dialer = Dialer {
                path,
                binding: binding.clone(),
                peer: peer.clone(),
                target: None,
                heard: sender.clone(),
                life: life.clone(),
                complaint: Complaint::default(),
            };
            dialers.spawn(dialer.run());
        }
        let clock = Clock::start();
        let incarnation = link::new_incarnation();
        let link = LinkOptions {
            packet_max: PACKET_MAX,
            schedule: options.schedule,
            guard: options.guard.0,
            guard_share: options.guard.1,
            ..LinkOptions::new(incarnation, options.paths.len())
        };
        Ok(Prober {
            engine: Engine::new(link, clock),
            heard,
            _life: lives,
            _dialers: dialers,
            clock,
            origin: Arc::new(Origin { node: node.into(), incarnation: incarnation.into() }),
            // No flow of the far node's: it gives large numbers that nobody guesses.
            flow: 0,
            sent: 0,
        })
    }

    /// Probes of these sizes by turns, so many of each: bytes and seconds.
    async fn probes(&mut self, sizes: &[u32], count: usize) -> anyhow::Result<Vec<(f64, f64)>> {
        let largest = sizes.iter().copied().max().context("--sizes: none is given")?;
        for _ in 0..WARM {
            self.probe(largest as usize).await?;
        }
        let mut probes = Vec::new();
        for turn in 0..count {
            for (at, &size) in sizes.iter().enumerate() {
                sleep(APART).await;
                let seconds = self.probe(size as usize).await?.as_secs_f64();
                probes.push((f64::from(size), seconds));
                let done = turn * sizes.len() + at + 1;
                super::say(&format!("{done} of {} probes", count * sizes.len()), false);
            }
        }
        super::say("", true);
        Ok(probes)
    }

    /// One probe, until all of it is answered for.
    async fn probe(&mut self, size: usize) -> anyhow::Result<Duration> {
        let before = self.clock.now();
        let mut open = BTreeSet::new();
        for piece in
            FramePiece::cut(self.flow, self.sent + 1, &Bytes::from(vec![0xA5; size]), PIECE)
        {
            self.sent += 1;
            open.insert(self.sent);
            let envelope = Envelope {
                identity: Identity {
                    origin: self.origin.clone(),
                    stream: StreamId(1),
                    seq: self.sent,
                },
                again: false,
                hop: 0,
                grant: None,
                left: PATIENCE,
                ttl: None,
                source_unix_ns: None,
                proof: None,
                key: Bytes::from_static(b"$frames/probe/0000000000000000"),
                properties: Properties::default(),
                payload: piece.encode(),
            };
            let outgoing = Outgoing {
                token: self.sent,
                stream: 1,
                content: envelope.encode(),
                deadline: before + PATIENCE,
                expires: None,
            };
            self.engine.offer(outgoing).context("the link takes no probe of this size")?;
        }
        let answered = timeout(PATIENCE, self.answered(&mut open)).await;
        answered.context("the far node does not answer: does it run, with a link input?")??;
        Ok(self.clock.now().since(before))
    }

    async fn answered(&mut self, open: &mut BTreeSet<u64>) -> anyhow::Result<()> {
        loop {
            self.engine.pump();
            while let Some(event) = self.engine.poll_event() {
                match event {
                    LinkEvent::Custody {
                        token, custody: Custody::Final(Fate::Confirmed), ..
                    } => {
                        open.remove(&token);
                    }
                    LinkEvent::Custody {
                        custody: Custody::Final(Fate::Dropped(reason)), ..
                    } => bail!(
                        "the far node takes no frames ({reason:?}): is it an edge server, with [frames] listen?"
                    ),
                    LinkEvent::Restarted { .. } => bail!("the far node has restarted: once more"),
                    _ => {}
                }
            }
            if open.is_empty() {
                return Ok(());
            }
            let wake = self.engine.wake().map_or(Instant::now() + PATIENCE, Into::into);
            tokio::select! {
                heard = self.heard.recv() => match heard {
                    Some(heard) => self.engine.take(heard),
                    None => bail!("the link is over"),
                },
                () = sleep_until(wake) => {}
            }
        }
    }
}

fn written(line: &LatencyLine, output: &str, probes: &[(f64, f64)]) -> Written {
    let short = |value: f64, digits: f64| (value * digits).round() / digits;
    let sizes = probes.iter().map(|probe| probe.0);
    let (least, most) = (sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(0.0, f64::max));
    let (base, slope) = (line.base, line.per_byte);
    Written {
        version: VERSION,
        measured: format!(
            "{} probes of {least:.0} to {most:.0} bytes by output {output:?}, until they were answered for",
            probes.len()
        ),
        base_ms: short(base.mean * 1e3, 1e3),
        base_ms_low: short(base.low * 1e3, 1e3),
        base_ms_high: short(base.high.max(0.0) * 1e3, 1e3),
        bytes_per_second: (1.0 / slope.mean).round(),
        bytes_per_second_low: (1.0 / slope.high).round(),
        // Where the interval reaches none, there is no upper end.
        bytes_per_second_high: (1.0 / slope.low.max(1e-12)).round(),
    }
}

/// For people.
fn told(written: &Written) -> String {
    let megabits = |rate: f64| rate * 8.0 / 1e6;
    format!(
        "latency = {:.1} ms ({:.1} - {:.1}) + bytes / {:.2} Mbit/s ({:.2} - {:.2}); 95 % intervals\n{}",
        written.base_ms,
        written.base_ms_low,
        written.base_ms_high,
        megabits(written.bytes_per_second),
        megabits(written.bytes_per_second_low),
        megabits(written.bytes_per_second_high),
        written.measured
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_where_flows_begin() {
        let probes: Vec<(f64, f64)> = (0..40)
            .map(|at| (f64::from(1 + at % 5) * 8000.0, f64::from(1 + at % 5) * 0.016 + 0.01))
            .collect();
        let line = LatencyLine::through(&probes).unwrap();
        let written = written(&line, "edge", &probes);
        assert!(
            told(&written).starts_with("latency = 10.0 ms (10.0 - 10.0) + bytes / 4.00 Mbit/s")
        );
        let file = std::env::temp_dir().join(format!("tidegate-site-{}.json", std::process::id()));
        std::fs::write(&file, serde_json::to_string(&written).unwrap()).unwrap();
        let site = crate::services::cameras::site::site(&file).unwrap();
        assert!((site.rate - 500_000.0).abs() < 2.0 && site.base == Duration::from_millis(10));
        for (text, word) in [("{}", "no file of"), ("", "no file of")] {
            std::fs::write(&file, text).unwrap();
            let error = format!("{:#}", crate::services::cameras::site::site(&file).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
