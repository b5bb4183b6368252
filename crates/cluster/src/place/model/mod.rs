//! Latency models that were measured: a broker's physics with the parameters of a machine, what trees learned beside them, and the paper's
//! models, as one file. Python trains them (`python/README.md`); this reads and asks them.

mod accuracy;
mod broker;
mod error;
mod fit;
mod measurement;
mod paper;
mod shape;
mod trees;

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

pub use self::accuracy::{PredictionAccuracy, PredictionCase, judge};
pub use self::broker::{Dispatch, MachineParameters};
use self::broker::{Foreseen, foresee};
pub use self::error::{ModelError, VERSION};
pub use self::fit::{fit, usual};
pub use self::measurement::{MeasuredTopic, Measurement};
pub use self::paper::{NetworkLayer, NeuralNetwork, PaperModel, Polynomial};
pub use self::shape::FEATURES;
pub use self::trees::{BoostedTrees, RegressionTree};
use super::physics::LOAD_MAX;
use super::{LatencyModel, Machine, Topic};

/// A latency model with all that it was trained for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedModel {
    /// Of the format.
    pub version: u32,
    /// With what, for people.
    pub measured: String,
    /// How that broker's records found a thread.
    pub scheduler: Dispatch,
    /// Its machine.
    pub machine: MachineParameters,
    /// How far measurements were from predictions.
    pub spread: ErrorQuantiles,
    /// What trees add; `None` where only the machine was calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<BoostedTrees>,
    /// The paper's models of the same broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<PaperModel>,
}

/// Logarithms of measured over predicted: their tenth and ninetieth percentile, for configurations that were held out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorQuantiles {
    /// Where the trees know what they say.
    pub inside: [f64; 2],
    /// Of the physics alone.
    pub outside: [f64; 2],
}

tidegate_types::named! {
    /// A model of a file by name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ModelKind {
        /// The physics and, where there are, the trees.
        #[default]
        Learned = "learned",
        /// The physics of the machine alone.
        Physics = "physics",
        /// The paper's models.
        Paper = "paper",
    }
}

impl TrainedModel {
    /// A model that knows only its machine: `left` are the errors of the logarithm that the fit has left over, in their order.
    pub fn calibrated(
        measured: String,
        scheduler: Dispatch,
        machine: MachineParameters,
        left: &[f64],
    ) -> Self {
        let at = |part: usize| left.get(left.len() * part / 10).copied().unwrap_or(0.0);
        let spread = [at(1), at(9)];
        TrainedModel {
            version: VERSION,
            measured,
            scheduler,
            machine,
            spread: ErrorQuantiles { inside: spread, outside: spread },
            residual: None,
            paper: None,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is none of this version, or what it says cannot be.
    pub fn read(text: &str) -> Result<TrainedModel, ModelError> {
        let shape = |error: serde_json::Error| ModelError::Shape(error.to_string());
        let value: serde_json::Value = serde_json::from_str(text).map_err(shape)?;
        // What is newer may have another shape: its number is asked for first.
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if let Some(version) = version.filter(|version| *version != u64::from(VERSION)) {
            return Err(ModelError::Version(version));
        }
        let learned: TrainedModel = serde_json::from_value(value).map_err(shape)?;
        learned.check()?;
        Ok(learned)
    }

    fn check(&self) -> Result<(), ModelError> {
        let MachineParameters {
            cores,
            contention,
            bias,
            overhead_seconds,
            copy_seconds,
            latency_seconds,
        } = self.machine;
        let limits = [
            ("cores", cores, 0.1, 1024.0),
            ("contention", contention, 0.0, 1.0),
            ("bias", bias, 0.01, 100.0),
            ("overhead_seconds", overhead_seconds, 0.0, 1.0),
            ("copy_seconds", copy_seconds, 0.0, 1.0),
            ("latency_seconds", latency_seconds, 0.0, 10.0),
        ];
        for (name, value, least, most) in limits {
            if !(least..=most).contains(&value) {
                return Err(ModelError::Parameter(name, value.to_string()));
            }
        }
        self.residual.as_ref().map_or(Ok(()), BoostedTrees::check)?;
        self.paper.as_ref().map_or(Ok(()), PaperModel::check)
    }

    /// One of its models.
    ///
    /// # Errors
    /// It has no such.
    pub fn by(&self, by: ModelKind) -> Result<LatencyPredictor<'_>, ModelError> {
        if by == ModelKind::Paper && self.paper.is_none() {
            return Err(ModelError::Missing(by.name()));
        }
        Ok(LatencyPredictor { learned: self, by, foreseen: RefCell::default() })
    }
}

/// A model of a file, for placement.
#[derive(Debug)]
pub struct LatencyPredictor<'a> {
    learned: &'a TrainedModel,
    by: ModelKind,
    foreseen: RefCell<Vec<Foreseen>>,
}

impl LatencyPredictor<'_> {
    /// What measurements were at most in nine of ten cases, over what is predicted.
    pub fn spread(&self) -> f64 {
        self.learned.spread.inside[1].exp()
    }

    /// The 90th percentile of each topic on the machine of the file, if it is under this load for so long and latencies grow no further.
    pub fn within(&self, seconds: f64, topics: &[&Topic], answer: &mut Vec<f64>) {
        self.ask(&self.learned.machine.machine(), seconds, topics, answer);
    }

    fn ask(&self, machine: &Machine, seconds: f64, topics: &[&Topic], answer: &mut Vec<f64>) {
        let TrainedModel { scheduler, residual, spread, paper, .. } = self.learned;
        if let (ModelKind::Paper, Some(paper)) = (self.by, paper) {
            paper.p90(topics, answer);
            return;
        }
        let Machine { cores, speed, contention, bias } = *machine;
        let parameters = MachineParameters { cores, contention, bias, ..self.learned.machine };
        let mut foreseen = self.foreseen.borrow_mut();
        let all = foresee(*scheduler, &parameters, (speed, seconds), topics, &mut foreseen);
        let residual = residual.as_ref().filter(|_| self.by == ModelKind::Learned);
        for (one, topic) in foreseen.iter().zip(topics) {
            let ln = residual.filter(|_| one.p90.is_finite()).map_or(0.0, |residual| {
                let features = shape::shape((topics.len(), cores), &all, one, topic);
                // Where the trees know nothing, the physics with what nine of ten keep.
                residual.of(&features).unwrap_or(spread.outside[1].max(0.0))
            });
            answer.push(one.p90 * ln.exp());
        }
    }
}

impl LatencyModel for LatencyPredictor<'_> {
    fn p90(&self, machine: &Machine, topics: &[&Topic], answer: &mut Vec<f64>) {
        self.ask(machine, f64::INFINITY, topics, answer);
    }

    fn load_max(&self, machine: &Machine, together: usize) -> f64 {
        if self.by == ModelKind::Paper {
            // It knows no machine; more work than there are processors is none's.
            return machine.cores * machine.speed;
        }
        let slower = 1.0 + machine.contention * (together as f64 - 1.0).max(0.0);
        machine.cores * machine.speed * LOAD_MAX / slower
    }
}

#[cfg(test)]
mod tests;
