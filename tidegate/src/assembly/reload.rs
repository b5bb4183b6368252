//! New rules for a running node: when its file changes, or at SIGHUP.
//!
//! `[[stream]]`, `[[script]]`, `[[operator]]`, `[[input]]`, `[limits]` and `[[quota]]`, with the files of these, can change
//! while a node runs. A file with a mistake changes nothing; what else has changed in a right one waits for the next start, and is
//! named. Certificates, authorities and users are followed where they are used.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use tidegate_broker::Scopes;
use tidegate_node::io::UplinkId;
use tidegate_node::options::UplinkOptions;
use tidegate_node::rules::{Rules, ScriptId};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::assembly;
use crate::assembly::read_with_files;
use crate::config::{
    Config, LimitsConfig, OperatorConfig, OutputConfig, ScriptConfig, read_file_again,
};
use crate::keys::key::Reload;
use crate::keys::table::Table;
use crate::script::{SCRIPTS_MAX, Script};

/// Between two looks at the file. A file that two looks find alike is not being written any more.
const PERIOD: Duration = Duration::from_secs(1);

/// What a reload applies, for people.
pub(crate) const APPLIES: &str = "[[stream]], [[script]], [[operator]], [[input]], [limits], [[quota]], which [[output]] there are, where one leads and how fast";

/// What a look at the files finds, the configuration first; nothing of one that is not there.
type Look = Vec<Option<(SystemTime, u64)>>;

/// Waits for the configuration to change.
#[derive(Debug)]
pub struct Watch {
    file: Option<PathBuf>,
    /// What the node works by.
    config: Config,
    hangup: Signal,
    looks: Interval,
    /// The file that was read last, and the one that the last look found.
    read: Look,
    seen: Look,
}

/// What a changed file says.
#[derive(Debug)]
pub struct Change {
    /// All that counts from now on.
    pub config: Config,
    /// Whether what every input is told of its node is new.
    pub around: bool,
    /// What becomes of outputs.
    pub outputs: OutputChanges,
    /// Uplinks that have another rate or law.
    pub governed: Vec<(UplinkId, UplinkOptions)>,
    /// The rules from now on.
    pub rules: Rules,
    /// The same for the node's own broker.
    pub scopes: Scopes,
    /// The scripts, loaded.
    pub scripts: Vec<Script>,
    /// The operators from now on.
    pub operators: Vec<OperatorConfig>,
}

/// Places of outputs that do not just stay.
#[derive(Debug, Default)]
pub struct OutputChanges {
    /// Those that begin anew.
    pub anew: Vec<usize>,
    /// Those that come.
    pub come: Vec<usize>,
    /// Those that go.
    pub go: Vec<usize>,
}

impl Watch {
    /// Of this file, from which `config` was read.
    ///
    /// # Errors
    /// The system gives no signal.
    pub fn new(file: Option<&Path>, config: &Config) -> anyhow::Result<Watch> {
        let mut looks = interval(PERIOD);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let look = look(file, config);
        Ok(Watch {
            file: file.map(Path::to_owned),
            config: config.clone(),
            hangup: signal(SignalKind::hangup()).context("listening for SIGHUP")?,
            looks,
            read: look.clone(),
            seen: look,
        })
    }

    /// Waits until there is something to read. Cancel-safe.
    pub async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => break,
                _ = self.looks.tick() => {}
            }
            let now = look(self.file.as_deref(), &self.config);
            let is_settled = self.seen == now;
            self.seen.clone_from(&now);
            // A file that is gone for a moment is being replaced.
            if is_settled && now.iter().all(Option::is_some) && now != self.read {
                break;
            }
        }
        self.read = look(self.file.as_deref(), &self.config);
    }

    /// Reads the file. Also says which sections differ and need a new start.
    ///
    /// # Errors
    /// There is none, or it is not right: then nothing changes.
    pub fn change(&self) -> anyhow::Result<(Change, Vec<String>)> {
        let file = self.file.as_deref().context("the node was started without a file")?;
        let text = read_file_again(file).map_err(anyhow::Error::msg)?;
        let reading = read_with_files(&text);
        let told = reading.render(&file.display().to_string(), &text);
        anyhow::ensure!(reading.counts().0 == 0, "{told}");
        let new = reading.config.completed();
        let mut waiting = differences(&self.config, &new);
        let script = in_place(&self.config.script, new.script)?;
        let around = (&self.config.quota, &self.config.limits) != (&new.quota, &new.limits);
        let first = new.output[0].label().to_owned();
        // A member of a fleet has outputs behind these, to its neighbours.
        let is_fixed = self.config.fleet.is_set();
        let (output, outputs) = match outputs(&self.config.output, new.output, is_fixed) {
            Some(changed) => changed,
            None => {
                waiting.push("[[output]]".into());
                (self.config.output.clone(), OutputChanges::default())
            }
        };
        let Config { mut stream, operator, input, quota, .. } = new;
        // One that cannot come yet is not the first either.
        let is_there = |known: &&OutputConfig| !known.is_gone;
        let named = output.iter().filter(is_there).find(|known| known.label() == first);
        let first = named.or(output.iter().find(is_there)).map_or(first, |it| it.label().into());
        if output[0].label() != first {
            let unsaid = stream.iter_mut().filter(|stream| stream.to.is_none());
            unsaid.for_each(|stream| stream.to = Some(vec![first.clone()]));
        }
        // What subscribers have, and what is retained, was divided at the start.
        let LimitsConfig { subscriber, retained, .. } = self.config.limits;
        if (subscriber, retained) != (new.limits.subscriber, new.limits.retained) {
            waiting.push("[limits] subscriber and retained".into());
        }
        let limits = LimitsConfig { subscriber, retained, ..new.limits };
        let config = Config {
            stream,
            script,
            operator,
            input,
            output,
            quota,
            limits,
            ..self.config.clone()
        };
        // Whether the node takes it all is known before anything changes.
        assembly::node_options(&config.with_peers(), 1, 1)?;
        let rules = assembly::rules(&config)?;
        let scopes = assembly::scopes(&config)?;
        let specs = config.script_specs().map_err(anyhow::Error::msg)?;
        let load = |(place, spec)| Script::load(spec, ScriptId(place as u16));
        let scripts = specs.into_iter().enumerate().map(load).collect::<Result<_, _>>()?;
        let operators = config.operator.clone();
        let governed = governed(&self.config.output, &config.output);
        let change =
            Change { config, around, outputs, governed, rules, scopes, scripts, operators };
        Ok((change, waiting))
    }

    /// This configuration is in force now.
    pub fn adopt(&mut self, config: Config) {
        self.config = config;
    }
}

fn look(file: Option<&Path>, config: &Config) -> Look {
    let of = |file: &Path| {
        let metadata = file.metadata().ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    let scripts = config.script.iter().flat_map(ScriptConfig::files);
    let operators = config.operator.iter().flat_map(OperatorConfig::files);
    file.into_iter().chain(scripts).chain(operators).map(of).collect()
}

/// The scripts of a new configuration, those that are there already at their places: rules know scripts by
/// their place, and what still waits under a rule that is gone must meet no other one.
pub(crate) fn in_place(
    old: &[ScriptConfig],
    new: Vec<ScriptConfig>,
) -> anyhow::Result<Vec<ScriptConfig>> {
    let mut all = old.to_vec();
    for script in new {
        match all.iter_mut().find(|known| known.label() == script.label()) {
            Some(known) => *known = script,
            None => all.push(script),
        }
    }
    let count = all.len();
    anyhow::ensure!(
        count <= SCRIPTS_MAX,
        "{count} scripts, with those that are gone: a new start takes them"
    );
    Ok(all)
}

/// The outputs of a new configuration, those that are there already at their places, and what becomes of them; nothing
/// where one cannot change so, or where they `are_fixed` and others come or go. A rate and a law are the uplink's: an
/// output does not notice.
fn outputs(
    old: &[OutputConfig],
    new: Vec<OutputConfig>,
    are_fixed: bool,
) -> Option<(Vec<OutputConfig>, OutputChanges)> {
    let (mut all, mut changes) = (old.to_vec(), OutputChanges::default());
    let mut is_named = vec![false; old.len()];
    for output in new {
        let Some(place) = old.iter().position(|known| known.label() == output.label()) else {
            changes.come.push(all.len());
            all.push(output);
            continue;
        };
        is_named[place] = true;
        let OutputConfig { rate, law, .. } = output.clone();
        let governed = OutputConfig { rate, law, is_gone: false, ..old[place].clone() };
        if old[place].is_gone {
            changes.come.push(place);
        } else if governed != output {
            changes.anew.push(place);
        }
        if governed != output && !governed.can_become(&output) {
            return None;
        }
        all[place] = output;
    }
    for (place, _) in is_named.iter().enumerate().filter(|(_, is_named)| !**is_named) {
        if !std::mem::replace(&mut all[place].is_gone, true) {
            changes.go.push(place);
        }
    }
    let mut others = changes.come.iter().chain(&changes.go).map(|place| &all[*place]);
    let can_all = others.all(|output| !are_fixed && output.comes_and_goes());
    can_all.then_some((all, changes))
}

/// The uplinks of outputs whose rate or law has changed.
fn governed(old: &[OutputConfig], new: &[OutputConfig]) -> Vec<(UplinkId, UplinkOptions)> {
    let (old, new) = (assembly::all_outputs(old).1, assembly::all_outputs(new).1);
    let all = (0..).map(UplinkId).zip(old.iter().zip(new));
    all.filter(|(_, (old, new))| (old.controller, old.cap) != (new.controller, new.cap))
        .map(|(uplink, (_, new))| (uplink, new))
        .collect()
}

/// Sections that are not the same, and of which a reload applies nothing.
fn differences(old: &Config, new: &Config) -> Vec<String> {
    let differ = old.differences(new).into_iter();
    // Outputs are looked at one by one.
    let waiting = differ.filter(|key| key.reload != Some(Reload::Applies) && key.name != "output");
    waiting.map(|key| key.header("")).collect()
}

#[cfg(test)]
mod tests {
    use tidegate_types::units::Size;

    use super::*;
    use crate::config::read;
    use crate::config::units::ByteSize;

    fn config(text: &str) -> Config {
        read(text).config.completed()
    }

    async fn watch(name: &str, text: &str) -> (PathBuf, Watch) {
        let file =
            std::env::temp_dir().join(format!("tidegate-{name}-{}.toml", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let watch = Watch::new(Some(&file), &config(text)).unwrap();
        (file, watch)
    }

    #[tokio::test]
    async fn streams_change_and_the_rest_is_named() {
        let (file, mut watch) = watch("streams", "[[stream]]\ntopics = [\"a\"]\n").await;
        let text = "[[stream]]\ntopics = [\"b\"]\nlatency = \"50ms\"\n[limits]\nmemory = \"1GiB\"\nretained = \"1MiB\"\n\
             [http]\nlisten = []\n";
        std::fs::write(&file, text).unwrap();
        watch.next().await;
        let (Change { rules, config, .. }, waiting) = watch.change().unwrap();
        let Config { limits, .. } = config;
        let mib = |count| ByteSize(Size::from_mib(count));
        assert_eq!((limits.memory, limits.retained), (mib(1024), mib(64)));
        assert!(rules.find("b").is_some_and(|rule| &*rules.get(rule).name == "b"));
        assert_eq!(waiting, ["[http]", "[limits] subscriber and retained"]);
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn a_script_changes_with_its_file() {
        let name = format!("tidegate-reload-{}.luau", std::process::id());
        let script = std::env::temp_dir().join(name);
        std::fs::write(&script, "function on_message(h) end").unwrap();
        let text = format!(
            "[[script]]\nname = \"s\"\nfile = {:?}\n[[stream]]\nscript = \"s\"\n",
            script.display().to_string()
        );
        let (file, mut watch) = watch("script", &text).await;
        std::fs::write(&script, "function on_message(h) h:drop() end").unwrap();
        watch.next().await;
        let (Change { config, rules, scripts, .. }, waiting) = watch.change().unwrap();
        watch.adopt(config);
        assert_eq!((scripts.len(), waiting.len()), (1, 0));
        assert!(scripts[0].spec().texts[0].1.contains("h:drop()"));
        assert_eq!(rules.get(tidegate_node::rules::RuleId(0)).script, Some(ScriptId(0)));
        // A wrong one is told with its line, and changes nothing.
        std::fs::write(&script, "function on_message(h)\n  if\nend").unwrap();
        watch.next().await;
        let error = format!("{:#}", watch.change().unwrap_err());
        assert!(error.contains(".luau:3:"), "{error}");
        // Another one before it, and none of its name: it keeps its place.
        std::fs::write(&script, "function on_message(h) end").unwrap();
        let text = text.replace("\"s\"", "\"t\"");
        std::fs::write(&file, text).unwrap();
        watch.next().await;
        let (Change { rules, scripts, .. }, _) = watch.change().unwrap();
        let names: Vec<&str> = scripts.iter().map(|script| &*script.spec().name).collect();
        assert_eq!(names, ["s", "t"]);
        assert_eq!(rules.get(tidegate_node::rules::RuleId(0)).script, Some(ScriptId(1)));
        std::fs::remove_file(file).unwrap();
        std::fs::remove_file(script).unwrap();
    }

    #[tokio::test]
    async fn outputs_that_cannot_change_are_in_nobodys_way() {
        let sink =
            |name: &str| format!("[[output]]\nname = \"{name}\"\nsink = {{ discard = true }}\n");
        let other = "[[output]]\nname = \"a\"\nmqtt = { url = \"mqtt://127.0.0.1:1\" }\n";
        let (file, watch) = watch("fixed", other).await;
        // Another one is the first now, and the known one has another kind.
        let text = format!("[[stream]]\ntopics = [\"b\"]\n{}{}", sink("b"), sink("a"));
        std::fs::write(&file, text).unwrap();
        let (Change { rules, .. }, waiting) = watch.change().unwrap();
        assert_eq!(waiting, ["[[output]]"]);
        let rule = rules.get(rules.find("b").unwrap());
        assert_eq!(rule.to, [tidegate_node::io::OutputId(0)]);
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn a_wrong_file_changes_nothing() {
        let (file, watch) = watch("wrong", "").await;
        let before = watch.config.clone();
        std::fs::write(&file, "[[stream]]\ntopic = [\"b\"]\n").unwrap();
        let error = watch.change().unwrap_err().to_string();
        assert!(error.contains("did you mean \"topics\"?"), "{error}");
        // A class that the node does not know, though the file does.
        std::fs::write(
            &file,
            "[[class]]\nname = \"x\"\nlatency = \"1s\"\n[[stream]]\nclass = \"x\"\n",
        )
        .unwrap();
        let error = format!("{:#}", watch.change().unwrap_err());
        assert!(error.contains("no class \"x\""), "{error}");
        for nothing in ["", "# a comment\n\n  \n"] {
            std::fs::write(&file, nothing).unwrap();
            let error = watch.change().unwrap_err().to_string();
            assert!(error.contains("it says nothing"), "{error}");
        }
        assert_eq!(watch.config, before);
        std::fs::remove_file(file).unwrap();
        assert!(watch.change().is_err());
    }
}
