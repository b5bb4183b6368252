//! `[[operator]]` in the reference.

use crate::config::operators::OperatorConfig;
use crate::keys::reference::{File, quoted};

/// The section: commented, for an operator needs topics.
pub(super) fn operators(file: &mut File) {
    let OperatorConfig { queue, keys, .. } = OperatorConfig::default();
    file.commented_section(
        "[[operator]]",
        "What records of a topic go through on their way to another one (docs/OPERATORS.md). It can be changed\n\
         while the node runs.",
    );
    file.note("name", "\"clean\"", "Label in status and metrics. Required.");
    file.note("from", "[\"plant/+/raw\"]", "Filters of the topics that it takes. Required.");
    file.note(
        "to",
        "\"plant/%2/clean\"",
        "Topic of the results: %t is the topic of the record, %1 to %9 are its levels. Required.",
    );
    file.note(
        "do",
        "[{ parse = \"json\" }, { range = { field = \"temperature\", min = -40, max = 85 } }]",
        "Steps, one after another: parse, write, range, bloom, interpolate, join, annotate, window, kalman,\n\
         regression, linear, tree, block-average, error, anonymise, luau, process. Required.",
    );
    file.note(
        "order",
        "\"per-key\"",
        "\"per-key\": records with one key are worked on one after another, those of different keys side by\n\
         side; \"serial\": all one after another.",
    );
    file.note("key", "2", "Which level of the topic is the key. Default: the whole topic.");
    file.note(
        "bound",
        &quoted("100ms"),
        "When a result should be there, from the record's arrival. Default: the latency of its stream.",
    );
    file.note(
        "queue",
        &queue.to_string(),
        "Records that wait. A full queue drops the oldest with the same key, or the new one where none waits.",
    );
    file.note("keys", &keys.to_string(), "Keys that it remembers while nothing of theirs waits.");
}
