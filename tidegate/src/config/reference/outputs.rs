//! The keys of outputs.

use tidegate_capacity::RateControllerName;

use super::choices;
use crate::keys::reference::{File, quoted};
use crate::output::kind::UNCONFIRMED_MAX;
use crate::output::registry::OutputConfig;

pub(super) fn outputs(file: &mut File) {
    file.section(
        "[[output]]",
        "Where records go: any number of these, each of exactly one kind.\n\
         Default: a sink in ./tidegate-data.",
    );
    file.key("name", "\"cloud\"", "As in to = [\"cloud\"]. Default: its kind.");
    file.key(
        "rate",
        "\"auto\"",
        "\"auto\": the capacity is measured. Or a cap on what is measured, such as \"18mbit\". It counts\n\
         records with framing and TLS; TCP and IP headers (3 to 4 % of full packets) are not counted.",
    );
    file.key(
        "law",
        &quoted(RateControllerName::default().name()),
        &format!(
            "How the capacity is found. Default: tide; for a sink unlimited.{}",
            choices(RateControllerName::ALL.map(|one| (one.name(), one.about())))
        ),
    );
    file.key(
        "uplink",
        "\"uplink\"",
        "Outputs that name the same uplink share its capacity. Default: one for all, and for each\n\
         sink its own.",
    );
    file.key(
        "unconfirmed_max",
        &UNCONFIRMED_MAX.to_string(),
        "Records sent and not confirmed at once: what a lost connection sends twice at most.",
    );
    for (index, kind) in OutputConfig::of_every_kind().kinds().enumerate() {
        match index {
            0 => {}
            _ if kind.is_default() => {
                file.standing("[[output]]", "");
                file.example("name", &quoted(kind.example()), "");
            }
            _ => {
                file.section("[[output]]", "");
                file.key("name", &quoted(kind.example()), "");
            }
        }
        kind.explain(file);
    }
}
