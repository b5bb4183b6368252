//! What happens in a world, and when: to links and to processes.

use std::fmt;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::World;
use super::link::{BurstSpec, CrossSpec, WaySpec, bits, is_part};
use crate::link::{Change, Discipline, Loss, Profile, Service};
use crate::sim::{Amount, Span, Speed};

/// Something that happens to a link or to a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Fault {
    /// When.
    pub at: Span,
    /// To which link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Only this way of it: `uplink` or `downlink`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<WayName>,
    /// To which process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// What.
    pub change: ChangeSpec,
}

/// A way of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WayName {
    /// From its first end to the second.
    Uplink,
    /// Back.
    Downlink,
}

/// What changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeSpec {
    /// The link carries nothing; what waits is lost.
    Down,
    /// The link carries again.
    Up,
    /// The link's rate; 0 for an outage in which packets wait.
    Rate(Speed),
    /// The link's recording.
    Trace(String),
    /// The link's propagation.
    Delay(Span),
    /// The link's jitter and propagation.
    Jitter {
        /// Propagation.
        delay: Span,
        /// Up to so much more.
        jitter: Span,
    },
    /// The link's queue, drop-tail.
    Queue(Amount),
    /// The part of the packets that is lost.
    Loss(f64),
    /// The link's loss, in bursts.
    Bursts(BurstSpec),
    /// The others on the link; a rate of 0 for nobody.
    Cross(CrossSpec),
    /// The process is killed, as `kill -9` does.
    Kill,
    /// The process is killed if it runs, and started.
    Restart,
}

/// Whom a fault meets.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A link: its name, whether each way (uplink, downlink) is met, and the change.
    Link(String, [bool; 2], Change),
    /// A process that is killed.
    Kill(String),
    /// A process that is killed and started.
    Restart(String),
}

impl Fault {
    /// Whom it meets, and how; a trace is read from a file that is named from `folder` on.
    ///
    /// # Errors
    /// A trace that cannot be read, a change that does not suit.
    pub fn target(&self, folder: &Path) -> anyhow::Result<Target> {
        match (&self.link, &self.process, &self.change) {
            (None, Some(process), ChangeSpec::Kill) => Ok(Target::Kill(process.clone())),
            (None, Some(process), ChangeSpec::Restart) => Ok(Target::Restart(process.clone())),
            (None, Some(_), _) => bail!("a process knows only \"kill\" and \"restart\""),
            (Some(link), None, change) => {
                let ways = match self.way {
                    None => [true, true],
                    Some(WayName::Uplink) => [true, false],
                    Some(WayName::Downlink) => [false, true],
                };
                Ok(Target::Link(link.clone(), ways, change.of_link(folder)?))
            }
            _ => bail!("needs a link or a process"),
        }
    }

    pub(super) fn validate(&self, world: &World) -> anyhow::Result<()> {
        if let Some(link) = &self.link {
            ensure!(world.link(link).is_some(), "no link {link:?}");
        }
        if let Some(process) = &self.process {
            let is_there = world.process.iter().any(|one| one.name == *process);
            ensure!(is_there, "no process {process:?}");
            ensure!(self.way.is_none(), "a process has no way");
        }
        match self.change {
            ChangeSpec::Loss(part) => {
                ensure!(is_part(&part), "a probability is between 0 and 1");
            }
            ChangeSpec::Cross(cross) => {
                ensure!(cross.by_tcp().is_none(), "connections of cross traffic cannot change");
            }
            // Read when the world is brought up, as that of a link.
            ChangeSpec::Trace(_) => return Ok(()),
            _ => {}
        }
        self.target(Path::new("")).map(drop)
    }
}

/// As in its file: `lte, uplink: rate 1000000bit`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.link.as_ref().or(self.process.as_ref());
        f.write_str(target.map_or("", String::as_str))?;
        match self.way {
            Some(WayName::Uplink) => f.write_str(", uplink")?,
            Some(WayName::Downlink) => f.write_str(", downlink")?,
            None => {}
        }
        // The names of the file; braces and quotes are of no use here.
        let change = serde_json::to_string(&self.change).map_err(|_| fmt::Error)?;
        write!(f, ": {}", change.replace(['{', '}', '"'], "").replace([':', ','], " "))
    }
}

impl ChangeSpec {
    fn of_link(&self, folder: &Path) -> anyhow::Result<Change> {
        Ok(match self {
            ChangeSpec::Down => Change::Up(false),
            ChangeSpec::Up => Change::Up(true),
            ChangeSpec::Rate(rate) => {
                Change::Service(Service::Rate(Profile::constant(bits(*rate))))
            }
            ChangeSpec::Trace(name) => {
                let way = WaySpec { trace: Some(name.clone()), ..WaySpec::default() };
                Change::Service(way.options(folder).context("fault")?.service)
            }
            ChangeSpec::Delay(delay) => Change::Delay(delay.0, std::time::Duration::ZERO),
            ChangeSpec::Jitter { delay, jitter } => Change::Delay(delay.0, jitter.0),
            ChangeSpec::Queue(bytes) => Change::Queue(Discipline::DropTail, bytes.0),
            ChangeSpec::Loss(part) => Change::Loss(Loss::Random(*part)),
            ChangeSpec::Bursts(bursts) => Change::Loss(bursts.loss()),
            ChangeSpec::Cross(cross) => Change::Cross(Some(cross.by_model())),
            ChangeSpec::Kill | ChangeSpec::Restart => bail!("a link cannot be killed"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Result<Target, String> {
        let fault: Fault = toml::from_str(text).map_err(|error| error.to_string())?;
        fault.target(Path::new("")).map_err(|error| error.to_string())
    }

    #[test]
    fn faults_read_as_people_write_them() {
        let down = target("at = \"5s\"\nlink = \"lte\"\nchange = \"down\"");
        assert_eq!(down, Ok(Target::Link("lte".into(), [true, true], Change::Up(false))));
        let rate = "at = \"5s\"\nlink = \"lte\"\nway = \"downlink\"\nchange = { rate = \"8bit\" }";
        let slow = Change::Service(Service::Rate(Profile::constant(8)));
        assert_eq!(target(rate), Ok(Target::Link("lte".into(), [false, true], slow)));
        let kill = target("at = \"5s\"\nprocess = \"node\"\nchange = \"kill\"");
        assert_eq!(kill, Ok(Target::Kill("node".into())));
    }

    #[test]
    fn a_fault_can_be_told() {
        let text = "at = \"5s\"\nlink = \"lte\"\nway = \"downlink\"\nchange = { rate = \"8bit\" }";
        let fault: Fault = toml::from_str(text).unwrap();
        assert_eq!(fault.to_string(), "lte, downlink: rate 8bit");
        let kill: Fault =
            toml::from_str("at = \"5s\"\nprocess = \"node\"\nchange = \"kill\"").unwrap();
        assert_eq!(kill.to_string(), "node: kill");
    }

    #[test]
    fn what_does_not_suit_is_refused() {
        let refused = |text: &str| target(&format!("at = \"1s\"\n{text}")).unwrap_err();
        assert_eq!(refused("change = \"up\""), "needs a link or a process");
        let process = "process = \"node\"\nchange = \"up\"";
        assert_eq!(refused(process), "a process knows only \"kill\" and \"restart\"");
        assert_eq!(refused("link = \"lte\"\nchange = \"kill\""), "a link cannot be killed");
    }
}
