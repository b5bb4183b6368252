//! `[[script]]` in the reference.

use crate::config::ScriptConfig;
use crate::keys::reference::{File, quoted};

/// The section: commented, for a script needs a file.
pub(super) fn scripts(file: &mut File) {
    let ScriptConfig { time, memory, timeout, ordered, .. } = ScriptConfig::default();
    file.commented_section(
        "[[script]]",
        "A program in Luau that drops, moves, redirects, replaces or transforms what waits, bound to streams\n\
         by script = \"...\" (docs/SCRIPTS.md). It can be changed while the node runs.",
    );
    file.note("name", "\"shed\"", "What streams call it by. Required.");
    file.note("file", "\"/etc/tidegate/shed.luau\"", "Its text. Required.");
    file.note("helpers", "[\"/etc/tidegate/ladder.luau\"]", "Texts that are run before it.");
    file.note(
        "time",
        &quoted(time),
        "Bound on one call; nothing else is sent meanwhile. A call that takes longer changes nothing.",
    );
    file.note("memory", &quoted(memory), "Bound on what it holds.");
    file.note(
        "parameters",
        "{ required = 250000, ladder = [240, 480, 720] }",
        "Its global values: numbers, texts, true and false, lists, tables.",
    );
    file.note(
        "path",
        "\"^(%d+)/(.+)$\"",
        "A Lua pattern: header():get(\"path\") gives its captures. Default: the whole topic.",
    );
    file.note(
        "transform",
        "{ \"180p\" = \"http://127.0.0.1:8080/180p\" }",
        "Where transform(\"180p\") posts the payload; the answer takes its place. http:// or https://.",
    );
    file.note("notify", "[\"http://127.0.0.1:8080/notify\"]", "Where notify(text) posts to.");
    file.note(
        "tls",
        "{ ca = \"/etc/ssl/certs/ca-certificates.crt\" }",
        "TLS to addresses that are https://, as an upstream has it; name, certificate and key where they are needed.",
    );
    file.note(
        "ordered",
        &ordered.to_string(),
        "Whether nothing of a queue passes a record that is being transformed.",
    );
    file.note(
        "timeout",
        &quoted(timeout),
        "How long a transformation may take; then the original goes, or what on_failure says.",
    );
    file.note(
        "on_failure",
        "\"drop\"",
        "What becomes of a record on which it fails: \"pass\" (goes as it is; a script that keeps failing is\n\
         switched off), \"drop\" (reason script) or \"hold\" (waits until the script is changed, 16,384 records at\n\
         most; further ones are dropped). With the latter two it is never switched off. Default: \"drop\" where its\n\
         text changes a payload or a header other than the path, which may hide something; else \"pass\".",
    );
}
