//! What each command needs, how long it takes here, and when it last ran: `lab list`.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::cli::Cli;
use crate::net::namespace::Link;
use crate::net::wire;
use crate::report::{Archive, HISTORY, Machine, Summary};
use crate::rig::versions::Program;
use crate::sim::SCENARIOS;

/// Something that not every machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Links between network namespaces: root and iproute2.
    Links,
    /// Links that are emulated in user space: also TUN devices.
    Wires,
    Program(Program),
    /// A file or folder, and how to get it.
    File(&'static str, &'static str),
    /// A folder of data, in that of `--data`.
    Data(&'static str),
    /// The cargo feature `stores`.
    Stores,
}

use Need::{Data, File, Links, Stores, Wires};

const TIDEGATE: Need = Need::Program(Program::Tidegate);
const RABBITMQ: Need = Need::Program(Program::RabbitMq);
const MOSQUITTO: Need = Need::Program(Program::Mosquitto);
const NATS: Need = Need::Program(Program::Nats);
const ETCD: Need = File("/usr/bin/etcd", "etcd-server");
const NGINX: Need = File("/usr/sbin/nginx", "nginx-light");
const CHROMIUM: Need = File("/usr/bin/chromium-headless-shell", "chromium-headless-shell");
const PYTHON: Need = File("target/python/bin/python", "scripts/python.sh");

/// Without what a command has nothing to show. Rivals are no need: one that is absent is left out by its command, which
/// says so.
const NEEDS: [(&str, &[Need]); 44] = [
    ("demo", &[Links, TIDEGATE, RABBITMQ]),
    ("net selftest", &[Wires]),
    ("net run", &[Wires]),
    ("bench hol", &[Links, TIDEGATE, RABBITMQ]),
    ("bench ingest", &[TIDEGATE, MOSQUITTO]),
    ("bench broker", &[TIDEGATE, MOSQUITTO]),
    ("bench sensitivity", &[TIDEGATE]),
    ("bench place-live", &[TIDEGATE]),
    ("bench model", &[TIDEGATE]),
    ("bench move", &[TIDEGATE]),
    ("bench kill9", &[Links, TIDEGATE, RABBITMQ]),
    ("bench sessions-kill9", &[TIDEGATE]),
    ("bench power-cut", &[Links, TIDEGATE]),
    ("bench hostile", &[TIDEGATE]),
    ("bench backlog", &[Links, Wires, TIDEGATE, RABBITMQ]),
    ("bench link-h", &[Links, Wires, TIDEGATE]),
    ("bench link-l", &[Links, Wires, TIDEGATE]),
    ("bench link-buffer", &[Links, Wires, TIDEGATE]),
    ("bench link-death", &[Links, Wires, TIDEGATE]),
    ("bench link-cpu", &[Links, Wires, TIDEGATE]),
    ("bench load", &[Links, TIDEGATE]),
    ("bench overhead", &[Links, TIDEGATE, RABBITMQ]),
    ("bench sidecar", &[TIDEGATE]),
    ("bench adapt-paper", &[TIDEGATE]),
    ("bench adapt-traffic", &[Wires, TIDEGATE, Data("vision")]),
    ("bench adapt-browser", &[Wires, TIDEGATE, NGINX, CHROMIUM]),
    ("bench adapt-hostile", &[TIDEGATE]),
    ("bench adapt-yahoo", &[TIDEGATE, Data("stream_benchmark")]),
    ("bench adapt-hls", &[Data("video_sizes")]),
    ("bench frames-ladder", &[TIDEGATE, PYTHON, Data("vision")]),
    ("bench frames-step", &[Links, Wires, TIDEGATE]),
    ("bench frames-hop", &[TIDEGATE, NATS]),
    ("bench frames-nodes", &[Links, Wires, TIDEGATE, NATS]),
    ("bench spool", &[Stores]),
    ("bench janus-4g", &[Wires, TIDEGATE, RABBITMQ]),
    ("bench lte-traces", &[Wires, TIDEGATE, RABBITMQ, Data("net/mahimahi")]),
    ("bench fleet", &[Wires, TIDEGATE, RABBITMQ, ETCD]),
    ("bench fleet-faults", &[Wires, TIDEGATE, RABBITMQ, ETCD]),
    ("bench fleet-outage", &[Wires, TIDEGATE, MOSQUITTO]),
    ("bench orchestrator", &[TIDEGATE]),
    ("bench core", &[]),
    ("bench FILE.toml", &[Wires]),
    ("sim FILE.toml", &[]),
    ("report", &[]),
];

impl Need {
    fn name(self) -> String {
        match self {
            Need::Links => "links (root, iproute2)".into(),
            Need::Wires => "wires (root, TUN)".into(),
            Need::Program(program) => program.name().into(),
            Need::File(path, _) => path.rsplit('/').next().unwrap_or(path).into(),
            Need::Data(folder) => format!("data {folder}"),
            Need::Stores => "feature stores".into(),
        }
    }

    /// Why it is not here; `None` where it is.
    fn missing(self, data: &Path) -> Option<String> {
        let told = |is_here: bool, what: String| (!is_here).then_some(what);
        match self {
            Need::Links => Link::probe().err().map(|error| error.to_string()),
            Need::Wires => wire::probe().err().map(|error| error.to_string()),
            Need::Program(program) => program.path().err().map(|error| error.to_string()),
            Need::File(path, from) => {
                told(Path::new(path).exists(), format!("needs {path}, not found ({from})"))
            }
            Need::Data(folder) => {
                let folder = data.join(folder);
                told(folder.is_dir(), format!("needs {}, not found (--data)", folder.display()))
            }
            Need::Stores => {
                let what = "needs the cargo feature stores, not built in";
                told(cfg!(feature = "stores"), what.into())
            }
        }
    }
}

/// What a command needs, by its full name: `bench hol`.
fn needs(name: &str) -> Vec<Need> {
    if let Some((_, needs)) = NEEDS.iter().find(|(known, _)| *known == name) {
        return needs.to_vec();
    }
    let scenario = SCENARIOS.iter().find(|one| name.strip_prefix("sim ") == Some(one.name));
    scenario.and_then(|one| one.data).map(Data).into_iter().collect()
}

/// Why a command cannot run here: a line `needs ..`. Folders of data are not looked for: a command is told by `--data`
/// where they are.
pub(crate) fn obstacle(name: &str) -> Option<String> {
    let needs = needs(name).into_iter().filter(|need| !matches!(need, Data(_)));
    needs.into_iter().find_map(|need| need.missing(Path::new("")))
}

/// Every command with its sentence, in the order of `--help`.
fn commands() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let root = Cli::command();
    let about = |command: &Command| {
        let text = command.get_about().map(ToString::to_string).unwrap_or_default();
        text.split(':').next().unwrap_or_default().to_owned()
    };
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        if !command.has_subcommands() {
            all.push((name.into(), about(command)));
            continue;
        }
        let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
        all.extend(inner.map(|inner| (format!("{name} {}", inner.get_name()), about(inner))));
    }
    all
}

/// The full name of what a run's command line says: `bench hol` of `lab bench hol --runs 3`.
fn name_of(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').skip(1).take(2).collect();
    match words[..] {
        [first @ ("bench" | "sim"), second] if second.ends_with(".toml") => {
            format!("{first} FILE.toml")
        }
        [first @ ("bench" | "sim" | "net"), second] => format!("{first} {second}"),
        [first, ..] => first.into(),
        [] => String::new(),
    }
}

/// Lists every command: its sentence, how long its last run here took and when that began, what it needs, and what of
/// that is missing.
///
/// # Errors
/// A result or a line of the history that is none of ours.
pub(crate) fn list(archive: &Archive, data: &Path) -> anyhow::Result<Vec<String>> {
    let here = Machine::this();
    let history = Archive::history(Path::new(HISTORY))?;
    let own = history.into_iter().filter(|run| run.machine.is_like(&here));
    let mut last: BTreeMap<String, Summary> = BTreeMap::new();
    for run in own.chain(archive.all()?.into_iter().map(|kept| kept.summary)) {
        let entry = last.entry(name_of(&run.command)).or_insert_with(|| run.clone());
        if entry.started <= run.started {
            *entry = run;
        }
    }
    // A probe makes links: once for all.
    let mut missing: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut lines = vec![format!("{:<20} {:>8}  {:<20}  what it shows", "command", "took", "last")];
    for (name, sentence) in commands() {
        let (took, when) = match last.get(&name) {
            Some(run) => (format!("{:.0} s", run.took_seconds), run.started.clone()),
            None => ("?".into(), "never here".into()),
        };
        lines.push(format!("{name:<20} {took:>8}  {when:<20}  {sentence}"));
        let needs = needs(&name);
        if !needs.is_empty() {
            let names = needs.iter().map(|need| {
                let absent = missing.entry(need.name()).or_insert_with(|| need.missing(data));
                need.name() + if absent.is_some() { " (missing)" } else { "" }
            });
            lines.push(format!("{:<52} needs {}", "", names.collect::<Vec<_>>().join(", ")));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_sentence_and_every_need_a_command() {
        let commands = commands();
        for (name, sentence) in &commands {
            assert!(sentence.len() > 10, "{name} says nothing of itself");
        }
        for (name, _) in NEEDS {
            assert!(commands.iter().any(|(known, _)| known == name), "there is no {name}");
        }
        let benches = commands.iter().filter(|(name, _)| name.starts_with("bench "));
        for (name, _) in benches {
            assert!(NEEDS.iter().any(|(known, _)| known == name), "what does {name} need?");
        }
    }

    #[test]
    fn a_run_belongs_to_its_command() {
        assert_eq!(name_of("lab bench hol --runs 3"), "bench hol");
        assert_eq!(name_of("lab sim lab/worlds/hol.toml --seed 3"), "sim FILE.toml");
        assert_eq!(name_of("lab demo --seconds 3"), "demo");
    }

    #[test]
    fn data_that_is_not_there_is_named() {
        let told = needs("sim lte-traces")[0].missing(Path::new("no/such"));
        assert_eq!(told.as_deref(), Some("needs no/such/net/mahimahi, not found (--data)"));
        assert_eq!((obstacle("sim lte-traces"), obstacle("bench core")), (None, None));
    }
}
