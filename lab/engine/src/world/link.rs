//! A link of a world: how each of its ways behaves, as people write it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tidegate_types::units::Rate;

use super::World;
use crate::link::{Cross, Discipline, GilbertElliott, Loss, Options, Profile, Red, Service, trace};
use crate::sim::{Amount, Span, Speed};

/// A link between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkSpec {
    /// Its name, which is also the name of its device on both hosts.
    pub name: String,
    /// Its hosts; the uplink goes from the first to the second.
    pub ends: [String; 2],
    /// From the first to the second.
    pub uplink: WaySpec,
    /// Back; without it like the uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downlink: Option<WaySpec>,
}

/// One way of a link. It has one of `rate`, `steps` and `trace`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct WaySpec {
    /// A constant rate. It counts IP packets, headers included.
    pub rate: Option<Speed>,
    /// Rates, each from its time on; the first is at `"0s"`.
    pub steps: Vec<(Span, Speed)>,
    /// When the steps begin again.
    pub repeat: Option<Span>,
    /// A recording, replayed for ever: a file in mahimahi's format, or a table of seconds and Mbit/s.
    pub trace: Option<String>,
    /// Propagation.
    pub delay: Span,
    /// Up to so much more, evenly distributed.
    pub jitter: Span,
    /// Whether jitter may change the order of packets.
    pub reorders: bool,
    /// Bytes that the queue holds.
    #[serde(default = "default_queue")]
    pub queue: Amount,
    /// Random early detection; without it the queue drops what does not fit.
    pub red: Option<RedSpec>,
    /// Part of the packets that is lost, each by itself.
    pub loss: f64,
    /// Loss in bursts, in place of `loss`.
    pub bursts: Option<BurstSpec>,
    /// Others on the same way.
    pub cross: Option<CrossSpec>,
}

/// As large as that of `lab sim`.
fn default_queue() -> Amount {
    Amount(256 * 1024)
}

/// Random early detection; what is left out is as its authors advise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RedSpec {
    /// Average length below which nothing is dropped; an eighth of the queue.
    pub min: Option<Amount>,
    /// Average length from which everything is; three eighths.
    pub max: Option<Amount>,
    /// Part that is dropped just below `max`; 0.1.
    pub probability: Option<f64>,
    /// Weight of the present length in the average; 0.002.
    pub weight: Option<f64>,
}

/// Loss of Gilbert and Elliott: probabilities for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BurstSpec {
    /// Of the good state to become bad.
    pub to_bad: f64,
    /// Of the bad state to become good: a burst has 1 / `to-good` packets on average.
    pub to_good: f64,
    /// Of loss in the good state.
    #[serde(default)]
    pub good: f64,
    /// Of loss in the bad state.
    #[serde(default = "always")]
    pub bad: f64,
}

/// Each is looked at for each of their packets, and may be a connection.
const SOURCES_MAX: usize = 64;

fn always() -> f64 {
    1.0
}

/// Others: on and off for times of a Pareto distribution, packets of 44 to 1500 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CrossSpec {
    /// What they send on average, all together.
    pub rate: Speed,
    /// How many they are; 8.
    #[serde(default)]
    pub sources: Option<usize>,
    /// Part of the rate that real TCP connections carry, which give way to loss; the paper has 0.9. There
    /// is none in virtual time.
    #[serde(default)]
    pub tcp: f64,
}

impl LinkSpec {
    /// The downlink, written or not.
    pub fn back(&self) -> &WaySpec {
        self.downlink.as_ref().unwrap_or(&self.uplink)
    }

    pub(super) fn validate(&self, world: &World) -> anyhow::Result<()> {
        let [first, second] = &self.ends;
        self.ends.iter().try_for_each(|host| world.has_host(host))?;
        ensure!(first != second, "both ends are on {first}");
        self.uplink.validate().context("uplink")?;
        self.back().validate().context("downlink")
    }
}

impl WaySpec {
    /// The same for the emulator; a trace is read from a file that is named from `folder` on.
    ///
    /// # Errors
    /// A trace that cannot be read.
    pub fn options(&self, folder: &Path) -> anyhow::Result<Options> {
        let queue = self.queue.0;
        Ok(Options {
            service: self.service(folder)?,
            queue,
            discipline: self.red.map_or(Discipline::DropTail, |red| red.discipline(queue)),
            delay: self.delay.0,
            jitter: self.jitter.0,
            reorders: self.reorders,
            loss: self.bursts.map_or(Loss::Random(self.loss), BurstSpec::loss),
            cross: self.cross.map(|cross| cross.by_model()),
        })
    }

    fn service(&self, folder: &Path) -> anyhow::Result<Service> {
        if let Some(name) = &self.trace {
            let path = folder.join(name);
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read the trace {}", path.display()))?;
            return trace::parse(&text).with_context(|| format!("trace {}", path.display()));
        }
        self.profile().map(Service::Rate)
    }

    fn profile(&self) -> anyhow::Result<Profile> {
        if let Some(rate) = self.rate {
            return Ok(Profile::constant(bits(rate)));
        }
        let steps = self.steps.iter().map(|(at, rate)| (at.0, bits(*rate))).collect();
        Ok(Profile::new(steps, self.repeat.map(|repeat| repeat.0))?)
    }

    fn validate(&self) -> anyhow::Result<()> {
        let given = [self.rate.is_some(), !self.steps.is_empty(), self.trace.is_some()];
        let given = given.into_iter().filter(|is_given| *is_given).count();
        ensure!(given == 1, "needs one of rate, steps and trace");
        let sources = self.cross.and_then(|cross| cross.sources).unwrap_or(1);
        ensure!((1..=SOURCES_MAX).contains(&sources), "cross has 1 to {SOURCES_MAX} sources");
        if self.trace.is_none() {
            self.profile()?;
        }
        let red = self.red.unwrap_or_default();
        let bursts = self.bursts.map(|b| [b.to_bad, b.to_good, b.good, b.bad]).unwrap_or_default();
        let tcp = self.cross.map_or(0.0, |cross| cross.tcp);
        let red = [red.probability.unwrap_or(0.0), red.weight.unwrap_or(0.0)];
        let parts = [self.loss, tcp].into_iter().chain(red).chain(bursts);
        ensure!(parts.into_iter().all(|part| is_part(&part)), "a probability is between 0 and 1");
        Ok(())
    }
}

impl RedSpec {
    fn discipline(self, queue: u64) -> Discipline {
        let advised = Red::of(queue);
        Discipline::Red(Red {
            min: self.min.map_or(advised.min, |min| min.0),
            max: self.max.map_or(advised.max, |max| max.0),
            probability: self.probability.unwrap_or(advised.probability),
            weight: self.weight.unwrap_or(advised.weight),
        })
    }
}

impl BurstSpec {
    pub(super) fn loss(self) -> Loss {
        let BurstSpec { to_bad, to_good, good, bad } = self;
        Loss::Bursts(GilbertElliott { to_bad, to_good, good, bad })
    }
}

impl CrossSpec {
    /// What the model of the link sends.
    pub(crate) fn by_model(&self) -> Cross {
        self.part(1.0 - self.tcp)
    }

    /// What real connections send.
    pub(crate) fn by_tcp(&self) -> Option<Cross> {
        Some(self.part(self.tcp)).filter(|cross| !cross.rate.is_zero())
    }

    fn part(&self, part: f64) -> Cross {
        let usual = Cross::of(self.rate.0.times(part));
        Cross { sources: self.sources.unwrap_or(usual.sources), ..usual }
    }
}

/// Whole bits a second, as the emulator counts.
pub fn bits(rate: Speed) -> u64 {
    Rate::as_bits(rate.0).round() as u64
}

pub(super) fn is_part(value: &f64) -> bool {
    (0.0..=1.0).contains(value)
}

/// Not one that lasts longer than a clock of 64 bits can count.
pub(super) fn is_span(span: Duration) -> bool {
    span < Duration::from_secs(1 << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> anyhow::Result<Options> {
        let way: WaySpec = toml::from_str(text)?;
        way.validate()?;
        way.options(Path::new("."))
    }

    #[test]
    fn a_way_reads_as_people_write_it() {
        let plain = options("rate = \"2mbit\"\ndelay = \"50ms\"\nqueue = \"64KB\"").unwrap();
        assert_eq!(plain, Options::new(2_000_000, Duration::from_millis(50), 64_000));
        let rich = "steps = [[\"0s\", \"2mbit\"], [\"5s\", \"0bit\"]]\nrepeat = \"6s\"\n\
            jitter = \"5ms\"\nreorders = true\nred = { probability = 0.2 }\n\
            bursts = { to-bad = 0.01, to-good = 0.5 }\ncross = { rate = \"1mbit\" }";
        let rich = options(rich).unwrap();
        let steps = vec![(Duration::ZERO, 2_000_000), (Duration::from_secs(5), 0)];
        let profile = Profile::new(steps, Some(Duration::from_secs(6))).unwrap();
        assert_eq!(rich.service, Service::Rate(profile));
        assert_eq!(rich.queue, 256 * 1024);
        let red = Red { probability: 0.2, ..Red::of(256 * 1024) };
        assert_eq!(rich.discipline, Discipline::Red(red));
        assert_eq!(rich.cross, Some(Cross::of(Rate::from_bits(1e6))));
        assert!((rich.jitter, rich.reorders) == (Duration::from_millis(5), true));
        let model = GilbertElliott { to_bad: 0.01, to_good: 0.5, good: 0.0, bad: 1.0 };
        assert_eq!(rich.loss, Loss::Bursts(model));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = |text| format!("{:#}", options(text).unwrap_err());
        assert_eq!(error("delay = \"1ms\""), "needs one of rate, steps and trace");
        let both = "rate = \"1mbit\"\ntrace = \"x\"";
        assert_eq!(error(both), "needs one of rate, steps and trace");
        assert_eq!(error("rate = \"1mbit\"\nloss = 2.0"), "a probability is between 0 and 1");
        assert_eq!(error("steps = [[\"1s\", \"1mbit\"]]"), "the first step must be at 0");
        assert!(error("rate = \"fast\"").contains("\"fast\" is no rate"));
        assert!(error("trace = \"of/nothing\"").starts_with("cannot read the trace"));
    }
}
