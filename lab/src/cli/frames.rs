//! The command line of benchmarks with cameras.

use clap::Subcommand;

use super::bench::on_tuns;
use crate::bench::{frames, rungs};
use crate::report::Findings;

#[derive(Debug, Subcommand)]
pub(super) enum Frames {
    /// Bytes of frames at equal accuracy, beside the Mez paper's five knobs on PNG; what making a rung costs
    #[command(name = "frames-ladder")]
    Ladder(rungs::Options),
    /// A camera's channel falls from 40 to 4 Mbit/s and rises: how long until frames are in time again?
    #[command(name = "frames-step")]
    Step(frames::step::Options),
    /// A frame of a megabyte through one node to one and to eight subscribers, beside NATS
    #[command(name = "frames-hop")]
    Hop(frames::hop::Options),
    /// One to five cameras on one wireless channel, one to eight subscribers of each, beside NATS
    #[command(name = "frames-nodes")]
    Nodes(frames::nodes::Options),
}

impl Frames {
    pub(super) async fn run(self) -> anyhow::Result<Option<Findings>> {
        match self {
            Frames::Ladder(options) => {
                Ok(Some(tokio::task::spawn_blocking(move || rungs::run(&options)).await??))
            }
            Frames::Step(options) => on_tuns(frames::step::run(options)).await,
            Frames::Hop(options) => Ok(Some(frames::hop::run(options).await?)),
            Frames::Nodes(options) => on_tuns(frames::nodes::run(options)).await,
        }
    }
}
