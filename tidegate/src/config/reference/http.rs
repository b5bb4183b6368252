//! `[http]` in the reference.

use super::{File, quoted};
use crate::config::HttpConfig;

/// The section.
pub(super) fn http(file: &mut File) {
    let HttpConfig { listen, header_timeout, keep_alive, write_timeout, .. } =
        HttpConfig::default();
    file.standing("[http]", "Status page, /status, /metrics, /healthz and /readyz.");
    let listen = listen.0.first().map(ToString::to_string).unwrap_or_default();
    file.key("listen", &quoted(listen), "One address or a list; [] for none.");
    file.example(
        "hosts",
        "[\"gate-7.example\"]",
        "Names by which it is asked, beside addresses, localhost and the machine's own name. Default: none.",
    );
    file.key(
        "header_timeout",
        &quoted(header_timeout),
        "How long a client may take for the head of a request.",
    );
    file.key("keep_alive", &quoted(keep_alive), "How long a connection without a request is kept.");
    file.key(
        "write_timeout",
        &quoted(write_timeout),
        "How long a client may read nothing of its answer.",
    );
}
