//! Who stands between player and server: nobody, or the product's engine with a script, as in `tidegate proxy`:
//! requests in one queue, the heads of answers in another, which is done with an answer at its last byte.

use bytes::Bytes;
use tidegate::script::{ScriptSpec, Side};
use tidegate_node::io::OutputId;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::Time;

use super::ladder::RUNGS;
use crate::sim::adapt::stage::{Stage, Stream};

/// The streams, and their outputs.
const REQUESTS: usize = 0;
const ANSWERS: usize = 1;
const AT_ONCE: usize = 1024;
/// Between the node's zero and the player's.
const BEFORE_MS: u64 = 1000;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Middle {
    stage: Option<Box<Stage>>,
    /// The answer that is under way.
    under_way: Option<(OutputId, DeliveryId)>,
    path: String,
    /// When the last transfer began, and its rate in bits/s: what the paper's middlebox measures.
    begun: usize,
    rate: Option<f64>,
}

impl Middle {
    pub(super) fn none() -> Middle {
        Middle { stage: None, under_way: None, path: String::new(), begun: 0, rate: None }
    }

    pub(super) fn with(script: ScriptSpec) -> anyhow::Result<Middle> {
        let streams = [
            Stream { name: "video", side: Side::Request, to: 0, is_adapted: true },
            Stream { name: "video-responses", side: Side::Response, to: 1, is_adapted: true },
        ];
        let outputs = [("origin", AT_ONCE), ("clients", AT_ONCE)];
        let stage = Box::new(Stage::new(Some(script), &streams, &outputs)?);
        Ok(Middle { stage: Some(stage), ..Middle::none() })
    }

    /// A request for a chunk; answers with the quality that the server is asked for.
    pub(super) fn ask(&mut self, now: usize, rung: usize, chunk: u64) -> anyhow::Result<usize> {
        self.advance(now);
        let Some(stage) = &mut self.stage else { return Ok(rung) };
        let rate = self.rate.map(|rate| format!("{rate:.0}"));
        let headers = rate.as_ref().map(|rate| ("bw-est", rate.as_str()));
        let path = format!("/{}/{chunk}.ts", RUNGS[rung].0);
        stage.offer(REQUESTS, &path, headers.as_slice(), Bytes::new());
        let went = stage.went();
        let [went] = &went[..] else { anyhow::bail!("{path}: {} requests went", went.len()) };
        stage.confirm(went.output, went.id);
        self.path = String::from_utf8_lossy(&went.record.key).into_owned();
        self.under_way = None;
        let lines = self.path.split('/').find_map(|part| part.parse().ok());
        let place = RUNGS.iter().position(|(known, _)| Some(*known) == lines);
        place.ok_or_else(|| anyhow::anyhow!("{path} became {}", self.path))
    }

    /// The first byte of an answer is here.
    pub(super) fn head(&mut self, now: usize, bytes: u64) -> anyhow::Result<()> {
        self.begun = now;
        self.advance(now);
        let Some(stage) = &mut self.stage else { return Ok(()) };
        let length = bytes.to_string();
        let headers = [(":status", "200"), ("content-length", length.as_str())];
        stage.offer(ANSWERS, &self.path, &headers, Bytes::new());
        let went = stage.went();
        let [went] = &went[..] else { anyhow::bail!("{} answers went", went.len()) };
        self.under_way = Some((went.output, went.id));
        Ok(())
    }

    /// Its last byte is here.
    pub(super) fn done(&mut self, now: usize, bytes: f64) {
        self.rate = Some(bytes * 8e3 / (now - self.begun).max(1) as f64);
        if let (Some(stage), Some((output, id))) = (&mut self.stage, self.under_way.take()) {
            stage.confirm(output, id);
        }
    }

    pub(super) fn advance(&mut self, now: usize) {
        if let Some(stage) = &mut self.stage {
            stage.advance(Time::from_millis(now as u64 + BEFORE_MS));
        }
    }

    pub(super) fn end(&self) -> anyhow::Result<()> {
        let failure = self.stage.as_ref().and_then(|stage| stage.failure());
        failure.map_or(Ok(()), |failure| Err(anyhow::anyhow!("the script fails: {failure}")))
    }
}
