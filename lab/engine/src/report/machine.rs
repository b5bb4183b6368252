//! On what a run ran: the machine, and the build of the programs.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// A computer, as far as figures depend on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of its processor.
    pub processor: String,
    /// CPUs that the run could use.
    pub cpus: usize,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Kernel and its version.
    pub kernel: String,
    /// Distribution and its version.
    pub system: String,
    /// Runnable processes, mean of the last minute before the run.
    pub load_before: f64,
}

impl Machine {
    /// This one, now.
    pub fn this() -> Machine {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let memory: u64 = value(&read("/proc/meminfo"), "MemTotal", ':')
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
            .unwrap_or(0);
        let load = read("/proc/loadavg");
        let kernel = read("/proc/sys/kernel/osrelease");
        Machine {
            processor: value(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory / 1024,
            kernel: format!("Linux {}", kernel.split('-').next().unwrap_or_default().trim()),
            system: value(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_default(),
            load_before: load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0),
        }
    }

    /// In one line.
    pub fn text(&self) -> String {
        let Machine { processor, cpus, memory_mib, kernel, system, load_before } = self;
        format!(
            "{processor}, {cpus} CPUs, {memory_mib} MiB, {kernel}, {system}, load {load_before:.1} before"
        )
    }

    /// Whether figures of both may be compared: the load may differ.
    pub fn is_like(&self, other: &Machine) -> bool {
        let kind = |machine: &Machine| (machine.processor.clone(), machine.cpus);
        kind(self) == kind(other)
    }
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// The sources' commit; empty where it is not known.
    pub commit: String,
    /// Whether the sources differ from that commit.
    pub is_changed: bool,
    /// Whether the lab was built for release: figures of other builds say nothing.
    pub is_release: bool,
}

impl Build {
    /// This program, run in a folder of its sources.
    pub fn this() -> Build {
        let git = |words: &[&str]| {
            let output = Command::new("git").args(words).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            output.status.success().then_some(text)
        };
        Build {
            commit: git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default(),
            is_changed: git(&["status", "--porcelain", "--untracked-files=no"])
                .is_some_and(|text| !text.is_empty()),
            is_release: !cfg!(debug_assertions),
        }
    }

    /// In a few words.
    pub fn text(&self) -> String {
        let commit = if self.commit.is_empty() { "unknown" } else { &self.commit };
        let changed = if self.is_changed { " with changes" } else { "" };
        let kind = if self.is_release { "release" } else { "**debug**" };
        format!("commit {commit}{changed}, {kind} build")
    }
}

/// What stands behind a name in lines of `name<mark>value`.
fn value(text: &str, name: &str, mark: char) -> Option<String> {
    let found = text.lines().find_map(|line| {
        let (key, value) = line.split_once(mark)?;
        (key.trim() == name).then_some(value)
    });
    found.map(|value| value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_their_names() {
        let text = "model name\t: A B\nPRETTY_NAME=\"D 12\"\nmodel name\t: C\n";
        assert_eq!(value(text, "model name", ':').unwrap(), "A B");
        assert_eq!(value(text, "PRETTY_NAME", '=').unwrap(), "D 12");
        assert_eq!(value(text, "name", ':'), None);
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::this();
        assert!(machine.cpus > 0 && machine.memory_mib > 0 && machine.kernel.len() > 6);
        assert!(machine.is_like(&Machine { load_before: 9.0, ..machine.clone() }));
        assert!(!machine.is_like(&Machine { cpus: 1000, ..machine.clone() }));
        assert!(machine.text().contains("CPUs"));
    }
}
