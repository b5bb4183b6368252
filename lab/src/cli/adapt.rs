//! The command line of the case studies of scripts.

use std::path::PathBuf;

use clap::Subcommand;

use super::bench::on_wires;
use crate::bench::adapt;
use crate::report::Findings;
use crate::sim::adapt::hls;

#[derive(Debug, Subcommand)]
pub(super) enum Adapt {
    /// BumbleBee's three scripts as printed, in the node, in the HTTP sidecar and behind Envoy: do they do what the paper says?
    #[command(name = "adapt-paper")]
    Paper,
    /// Detection of vehicles over an uplink that breaks and that is too slow: stock scripts in the HTTP sidecar
    #[command(name = "adapt-traffic")]
    Traffic(adapt::traffic::Options),
    /// A live stream once in a real browser (hls.js), over an uplink that falls: by itself and with a script
    #[command(name = "adapt-browser")]
    Browser(adapt::browser::Options),
    /// What other traffic of a node and of a proxy waits more while a script means harm
    #[command(name = "adapt-hostile")]
    Hostile(adapt::hostile::Options),
    /// The Yahoo streaming benchmark's events in a burst, before a worker that cannot do them all: load is shed
    #[command(name = "adapt-yahoo")]
    Yahoo(adapt::yahoo::Options),
    /// A live stream over recorded paths: stalls and resolution with a player's own choice and with scripts
    #[command(name = "adapt-hls")]
    Hls {
        /// Folder of sizes of chunks and of recordings
        #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
        data: PathBuf,
        #[command(flatten)]
        options: hls::Options,
    },
}

impl Adapt {
    pub(super) async fn run(self) -> anyhow::Result<Option<Findings>> {
        match self {
            Adapt::Paper => Ok(Some(adapt::paper::run().await?)),
            Adapt::Traffic(options) => on_wires(adapt::traffic::run(options)).await,
            Adapt::Hls { data, options } => {
                let run = move || hls::run(&data, &options);
                let (lines, broken) = tokio::task::spawn_blocking(run).await??;
                Ok(Some(Findings { broken, ..lines.into() }))
            }
            Adapt::Browser(options) => on_wires(adapt::browser::run(options)).await,
            Adapt::Hostile(options) => Ok(Some(adapt::hostile::run(options).await?)),
            Adapt::Yahoo(options) => Ok(Some(adapt::yahoo::run(options).await?)),
        }
    }
}
