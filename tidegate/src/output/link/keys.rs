//! The keys of a link output: what they say, what is wrong with them, and what comes of them.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_link::predict::PredictorName;
use tidegate_link::{BACK_OFF, GUARD_SHARE, LinkOptions, PATHS_MAX, RedundancyName, SPARE_SHARED};
use tidegate_types::units::{Ratio, Size};

use super::{Fallback, LinkOptionsOut};
use crate::keys::both_ends;
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::keys::table::{choices, keys};
use crate::keys::url::host_and_port;
use crate::keys::values::{Choice, Shape};
use crate::link::Binding;
use crate::output::kind::{Below, Driver, OutputKind, Surroundings};
use crate::support::tls::{self, ClientFiles, ClientTls};

/// Records sent and not confirmed at once where the configuration does not say: many small records are under
/// way on several long paths, and what comes twice is known by its name.
const UNCONFIRMED_MAX: u32 = 16_384;

keys! {
    /// `link` of an `[[output]]`.
    pub struct LinkOutputConfig {
        /// host:port of its link input.
        pub to: Option<String>; required() sample("hq.example:7443"),
        /// Authorities of the other end's certificate.
        pub ca: Option<PathBuf>; required() sample("ca.pem"),
        /// The certificate of this node.
        pub certificate: Option<PathBuf>; required() sample("node.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; required() sample("node.key"),
        /// Interfaces, which may come and go, or addresses of them. Default: one path by the routing table ("auto").
        pub paths: Option<Vec<String>>; sample(r#"["wlan0", "wwan0"]"#),
        /// Which path takes the next packet. `fd-mvqs-paper` is for comparisons only: the paper whole, with its predictor,
        /// windows that every loss halves, neither repairs nor copies; a path that loses packets carries little.
        pub schedule: Option<String>;
            usually(PathSchedulerName::default().name().to_owned()) one_of(schedules),
        /// How the next delay of each path is predicted.
        pub predictor: Option<String>;
            usually(PredictorName::default().name().to_owned()) one_of(predictors),
        /// Whether of paths that go through one bottleneck only one carries data, so that others there keep their part.
        pub spare_shared: bool = SPARE_SHARED,
        /// Whether losses of congestion halve a path for a round trip, beside others in its bottleneck.
        pub back_off: bool = BACK_OFF,
        /// How records for whose repeat their bound leaves no time are sent: with repairs, as many as the paths lose;
        /// on a second path, too; as all others.
        pub guard: Option<String>;
            usually(RedundancyName::default().name().to_owned()) one_of(guards),
        /// What that may cost at most, for each byte of a record.
        pub guard_share: Option<f64>; usually(GUARD_SHARE),
        /// When TCP stands in for UDP.
        pub tcp: Tcp = Tcp::Auto,
        inner {
            /// Whether it leads to a neighbour that relays (`[[fleet.peer]]`).
            pub is_peer: bool,
            /// Whether it dials neighbours that the leader names, one after the other.
            pub is_place: bool,
        }
    }
}

fn schedules() -> Shape {
    Shape::Choice(
        PathSchedulerName::ALL.map(|one| Choice::new(one.name(), &[one.about()])).to_vec(),
    )
}

fn predictors() -> Shape {
    Shape::Choice(PredictorName::ALL.map(|one| Choice::new(one.name(), &[])).to_vec())
}

fn guards() -> Shape {
    Shape::Choice(
        RedundancyName::ALL.into_iter().rev().map(|one| Choice::new(one.name(), &[])).collect(),
    )
}

choices! {
    /// `tcp` of a `link`.
    pub enum Tcp: Copy, Eq {
        /// Where UDP is blocked.
        Auto = "auto",
        /// Not at all.
        Never = "never",
        /// In place of UDP.
        Always = "always",
    }
}

impl LinkOutputConfig {
    /// Host and port.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn far(&self) -> Result<(String, u16), String> {
        const EXAMPLE: &str =
            "write \"host:port\", as in \"hq.example:7443\" or \"[2001:db8::1]:7443\"";
        let text = self.to.as_deref().ok_or("no far node: give to = \"hq.example:7443\"")?;
        match host_and_port(text) {
            Some((host, Some(port))) => Ok((host.into(), port)),
            Some((_, None)) => Err(format!("{text:?} has no port: {EXAMPLE}")),
            None => Err(format!("{text:?} is no host and port: {EXAMPLE}")),
        }
    }

    /// Its paths, in order.
    ///
    /// # Errors
    /// The place of the first that is none, and what is wrong.
    pub fn bindings(&self) -> Result<Vec<Binding>, (usize, String)> {
        let Some(paths) = &self.paths else { return Ok(vec![Binding::Route]) };
        let binding = |(place, text): (usize, &String)| {
            Binding::from_str(text).map_err(|error| (place, error))
        };
        paths.iter().enumerate().map(binding).collect()
    }

    /// Which path takes the next packet.
    ///
    /// # Errors
    /// No schedule has the name.
    pub fn schedule(&self) -> Result<PathSchedulerName, String> {
        self.schedule.as_deref().map_or(Ok(PathSchedulerName::default()), str::parse)
    }

    /// What the paper has, where its schedule is asked for.
    fn papers(&self) -> Option<LinkOptions> {
        let is_papers = self.schedule() == Ok(PathSchedulerName::FdMvqsPaper);
        is_papers.then(|| LinkOptions::of_paper(1, 1))
    }

    /// How the next delay of each path is predicted; the paper's way beside its schedule, unless told otherwise.
    ///
    /// # Errors
    /// No predictor has the name.
    pub fn predictor(&self) -> Result<PredictorName, String> {
        let usual = self.papers().map_or(PredictorName::default(), |paper| paper.predictor);
        self.predictor.as_deref().map_or(Ok(usual), str::parse)
    }

    /// How records for whose repeat there is no time are guarded, and what that may cost.
    ///
    /// # Errors
    /// The key, and what is wrong: no guard has the name, or the share is not in [0, 1].
    pub fn guard(&self) -> Result<(RedundancyName, Ratio), (&'static str, String)> {
        let usual = self.papers().map_or(RedundancyName::default(), |paper| paper.guard);
        let name = self.guard.as_deref().map_or(Ok(usual), str::parse);
        let name = name.map_err(|error| ("guard", error))?;
        let share = self.guard_share.unwrap_or(GUARD_SHARE);
        if !(0.0..=1.0).contains(&share) {
            return Err(("guard_share", format!("{share} is no share: give 0 to 1, as in 0.45")));
        }
        Ok((name, Ratio::new(share)))
    }

    /// What the link is told.
    ///
    /// # Errors
    /// A file of TLS cannot be read.
    pub fn options(&self, surroundings: &Surroundings) -> anyhow::Result<LinkOptionsOut> {
        let files = self.tls_files().context("ca, certificate and key are missing")?;
        let nobody = || Ok((String::new(), 0));
        let far = if self.is_place { nobody() } else { self.far() };
        let (host, port) = far.map_err(anyhow::Error::msg)?;
        Ok(LinkOptionsOut {
            links: surroundings.links.clone(),
            name: surroundings.output.clone(),
            host,
            port,
            paths: self.bindings().map_err(|(_, error)| anyhow::Error::msg(error))?,
            tls: ClientTls::new(files)?,
            schedule: self.schedule().map_err(anyhow::Error::msg)?,
            predictor: self.predictor().map_err(anyhow::Error::msg)?,
            spare_shared: self.spare_shared,
            back_off: self.back_off,
            guard: self.guard().map_err(|(_, error)| anyhow::Error::msg(error))?,
            fallback: match self.tcp {
                Tcp::Auto => Fallback::Auto,
                Tcp::Never => Fallback::Never,
                Tcp::Always => Fallback::Always,
            },
            bounds: surroundings.bounds.clone(),
            is_peer: self.is_peer,
            is_place: self.is_place,
            unconfirmed_max: surroundings.unconfirmed_max,
        })
    }
}

impl OutputKind for LinkOutputConfig {
    fn name(&self) -> &'static str {
        "link"
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        let key = if self.to.is_some() { place.to("to") } else { place.clone() };
        match self.far() {
            Err(text) => findings.error(key, text),
            Ok((host, _)) => {
                if let Err(text) = tls::server_name(&host) {
                    findings.error(key, text);
                }
            }
        }
        both_ends::check([&self.ca, &self.certificate, &self.key], place, findings);
        let paths = place.to("paths");
        match self.bindings() {
            Err((index, text)) => findings.error(paths.to(index), text),
            Ok(bindings) if bindings.is_empty() => {
                let text = "nothing could be sent: name an interface, or leave it out for one path";
                findings.error(paths, text);
            }
            Ok(bindings) if bindings.len() > PATHS_MAX => {
                findings.error(paths, format!("{} paths: at most {PATHS_MAX}", bindings.len()));
            }
            Ok(bindings) => {
                for (index, binding) in bindings.iter().enumerate() {
                    if bindings[..index].contains(binding) {
                        let text =
                            format!("{binding} stands above: two paths by one way gain nothing");
                        findings.error(paths.to(index), text);
                    }
                }
            }
        }
        if let Err(text) = self.schedule() {
            findings.error(place.to("schedule"), text);
        }
        if let Err(text) = self.predictor() {
            findings.error(place.to("predictor"), text);
        }
        if let Err((key, text)) = self.guard() {
            findings.error(place.to(key), text);
        }
    }

    fn tls_files(&self) -> Option<ClientFiles> {
        let own = self.certificate.clone().zip(self.key.clone())?;
        Some(ClientFiles { ca: self.ca.clone()?, own: Some(own) })
    }

    fn destination(&self) -> String {
        let paths = self.paths.clone().unwrap_or_else(|| vec!["auto".into()]);
        format!("{}, by {}", self.to.as_deref().unwrap_or_default(), paths.join(", "))
    }

    fn confirms(&self) -> &'static str {
        "when the far node accepts it: on disk, unless the far stream's accept says otherwise"
    }

    fn below(&self) -> Below {
        Below::Paths
    }

    fn overhead(&self) -> Size {
        Size(40)
    }

    fn unconfirmed_max(&self) -> u32 {
        UNCONFIRMED_MAX
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        Ok(Box::new(self.options(surroundings)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_schedule_comes_with_the_rest_of_the_paper_unless_told_otherwise() {
        let of = |schedule: &str, predictor: Option<&str>, guard: Option<&str>| {
            let text = |text: &str| text.to_owned();
            let config = LinkOutputConfig {
                schedule: Some(text(schedule)),
                predictor: predictor.map(text),
                guard: guard.map(text),
                ..LinkOutputConfig::default()
            };
            (config.predictor().unwrap(), config.guard().unwrap().0)
        };
        let whole = of("fd-mvqs-paper", None, None);
        assert_eq!(whole, (PredictorName::Chaos, RedundancyName::Off));
        let told = of("fd-mvqs-paper", Some("ewma"), Some("copy"));
        assert_eq!(told, (PredictorName::Ewma, RedundancyName::Copy));
        let usual = (PredictorName::default(), RedundancyName::default());
        assert_eq!(of("low-rtt", None, None), usual);
    }
}
