//! `tidegate run`: a node, until it is told to stop.

use clap::Args;

use super::file::OptionalFile;

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    /// The configuration.
    pub file: OptionalFile,
}

pub(super) const RUN_HELP: &str = "\
Without a file the node listens for MQTT on 127.0.0.1:1883 and [::1]:1883, writes what comes to
./tidegate-data/ and shows itself at http://127.0.0.1:7070. Try it:
  mosquitto_pub -t hello -m world -q 1

The first SIGINT (Ctrl-C) or SIGTERM stops it gently: it accepts nothing more, delivers what it
holds for at most node.stop_timeout, tells what became of everything and exits with 0. A second
signal ends it at once.";
