//! Outputs in the status.

use serde::{Deserialize, Serialize};
use tidegate_node::io::OutputId;
use tidegate_node::status::OutputStatus;

use super::Snapshot;

/// One output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputView {
    /// Its name.
    pub name: String,
    /// Its lanes that are up.
    pub lanes_up: usize,
    /// Its lanes.
    pub lanes: usize,
    /// Whether the far end has been refusing its records, though not for good.
    #[serde(default)]
    pub is_refusing: bool,
    /// Records sent and not confirmed.
    pub unconfirmed_records: u64,
    /// Why it cannot send, in the words of its last attempt; empty while it can.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trouble: String,
    /// The hosts to which its lanes lead, where its url names several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// When it confirms a record, which the log then forgets, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub confirms: String,
}

impl OutputView {
    /// Its state in a word or two, and whether it is as it should be.
    pub fn state(&self) -> (&'static str, bool) {
        match self {
            OutputView { lanes_up: 0, .. } => ("down", false),
            OutputView { is_refusing: true, .. } => ("refuses", false),
            OutputView { lanes_up, lanes, .. } if lanes_up < lanes => ("partly up", false),
            _ => ("up", true),
        }
    }
}

pub(super) fn output_views(snapshot: &Snapshot) -> Vec<OutputView> {
    let words = |id: OutputId| snapshot.confirms.get(usize::from(id.0)).copied();
    let outputs = snapshot.now.outputs.iter();
    outputs.map(|output| view(snapshot, output, words(output.id).unwrap_or_default())).collect()
}

fn view(snapshot: &Snapshot, output: &OutputStatus, confirms: &str) -> OutputView {
    let told = snapshot.troubles.get(&output.id);
    let hosts = snapshot.hosts.get(&output.id).into_iter().flatten();
    let trouble = match (output.lanes_up < output.lanes, output.is_refusing, told) {
        (true, _, Some(words)) => words.to_string(),
        (true, _, None) => paths(snapshot, &output.name).unwrap_or("not connected yet".into()),
        (false, true, _) => "the far end refuses its records".into(),
        (false, false, _) => String::new(),
    };
    OutputView {
        name: output.name.to_string(),
        lanes_up: output.lanes_up,
        lanes: output.lanes,
        is_refusing: output.is_refusing,
        unconfirmed_records: output.unconfirmed,
        trouble,
        hosts: hosts.map(|host| host.to_string()).collect(),
        confirms: confirms.to_owned(),
    }
}

/// The paths of an output's link and their states; `None` where it is no link.
fn paths(snapshot: &Snapshot, output: &str) -> Option<String> {
    let link = snapshot.links.iter().find(|link| link.is_output && link.name == output)?;
    let states = link.paths.iter().map(|path| format!("{} {}", path.name, path.state_name()));
    Some(format!("paths: {}", states.collect::<Vec<_>>().join(", ")))
}
