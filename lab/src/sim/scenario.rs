//! A scenario: a node, its loads, the link below it, and a list of described steps.

use serde::{Deserialize, Serialize};
use tidegate_core::capacity::LawName;
use tidegate_core::schedule::SchedulerName;

use super::quantity::{Amount, Span, Speed};

/// Everything that a run is made of; the seed comes beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Label in tables and figures.
    pub name: String,
    /// How long the loads last.
    pub length: Span,
    /// How long the node may go on afterwards to deliver what it holds.
    #[serde(default)]
    pub drain: Span,
    /// The node.
    #[serde(default)]
    pub node: NodeSpec,
    /// Its connections.
    #[serde(default)]
    pub connection: ConnectionSpec,
    /// The link that all share.
    pub link: LinkSpec,
    /// What the node is offered.
    pub load: Vec<LoadSpec>,
    /// Who else uses the link.
    #[serde(default)]
    pub flow: Vec<FlowSpec>,
    /// What happens, and when.
    #[serde(default)]
    pub step: Vec<Step>,
    /// Parts of the run with a row of their own in the table; without one, the whole.
    #[serde(default)]
    pub phase: Vec<Phase>,
}

/// The node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct NodeSpec {
    /// Its scheduler, by name.
    pub scheduler: String,
    /// Its law of capacity, by name.
    pub law: String,
    /// A configured rate.
    pub rate: Option<Speed>,
    /// What a record that it sends costs its only processor; nothing else costs anything.
    pub cost: Span,
}

impl Default for NodeSpec {
    fn default() -> Self {
        let scheduler = SchedulerName::default().name().into();
        NodeSpec {
            scheduler,
            law: LawName::default().name().into(),
            rate: None,
            cost: Span::default(),
        }
    }
}

/// How the node's connections behave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ConnectionSpec {
    /// In which order bytes reach the far end.
    pub order: Order,
    /// Whether something below the node limits what is in flight.
    pub window: Window,
    /// How acknowledgements come back.
    pub feedback: Feedback,
}

/// In which order bytes reach the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As they were sent: what is lost holds up the rest of its connection (TCP).
    #[default]
    Kept,
    /// As they come (packets of a link).
    None,
}

/// Whether something below the node limits what is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Window {
    /// Nothing: the node alone decides.
    #[default]
    Open,
    /// A loss-based congestion window (Reno).
    Reno,
}

/// How acknowledgements come back to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// Each packet's at once.
    #[default]
    Each,
    /// Together, after a random time between these.
    Batched(Span, Span),
    /// None during the first span of each second span.
    Held(Span, Span),
    /// When somebody looks, once a span (`TCP_INFO`).
    Polled(Span),
}

/// The link that all share: one first-in-first-out queue that drops what does not fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkSpec {
    /// Its rate; ignored with a trace.
    #[serde(default)]
    pub rate: Speed,
    /// A file in mahimahi's format: a line a chance to send 1500 bytes, in milliseconds.
    #[serde(default)]
    pub trace: Option<String>,
    /// Propagation, one way.
    pub delay: Span,
    /// Bytes that its queue holds.
    #[serde(default = "default_queue")]
    pub queue: Amount,
    /// Part of the packets that is lost at random.
    #[serde(default)]
    pub loss: f64,
}

fn default_queue() -> Amount {
    Amount(256 * 1024)
}

/// What one source offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadSpec {
    /// Its name, and the first level of its keys.
    pub name: String,
    /// Bound on residence.
    pub latency: Span,
    /// Payload, from and to (evenly distributed).
    pub size: (Amount, Amount),
    /// When records come.
    pub arrivals: Arrivals,
    /// First record.
    #[serde(default)]
    pub from: Span,
    /// Last record; without it the end of the run.
    #[serde(default)]
    pub until: Option<Span>,
}

/// When records come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// So many a second, evenly.
    Constant(f64),
    /// So many a second on average, independently.
    Poisson(f64),
    /// Always one more than the node takes.
    Backlogged,
}

/// Somebody else on the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FlowSpec {
    /// What it does.
    pub kind: FlowKind,
    /// From when.
    #[serde(default)]
    pub from: Span,
    /// Until when; without it the end of the run.
    #[serde(default)]
    pub until: Option<Span>,
}

/// What a competing flow does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowKind {
    /// A constant rate.
    Constant(Speed),
    /// A loss-based flow without end.
    Reno,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Step {
    /// When.
    pub at: Span,
    /// What.
    pub change: Change,
}

/// What a step changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The link's rate; 0 for an outage that no connection notices.
    Rate(Speed),
    /// The link's propagation, one way.
    Delay(Span),
    /// The part of the packets that is lost.
    Loss(f64),
    /// All connections break.
    Down,
    /// They are there again.
    Up,
}

/// A part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phase {
    /// Label in the table.
    pub name: String,
    /// From when.
    pub from: Span,
    /// Until when.
    pub until: Span,
    /// The link's rate in it, for shares; without it the link's first rate.
    #[serde(default)]
    pub rate: Option<Speed>,
}

impl Scenario {
    /// The law of its node.
    ///
    /// # Errors
    /// No such law.
    pub fn law(&self) -> Result<LawName, String> {
        self.node.law.parse()
    }

    /// The scheduler of its node.
    ///
    /// # Errors
    /// No such scheduler.
    pub fn scheduler(&self) -> Result<SchedulerName, String> {
        self.node.scheduler.parse()
    }

    /// The same with another law; `known` knows the link's first rate.
    #[must_use]
    pub fn with_law(mut self, law: LawName) -> Self {
        self.node.law = law.name().into();
        self.node.rate = (law == LawName::Known).then_some(self.link.rate).or(self.node.rate);
        self
    }

    /// The same with another scheduler.
    #[must_use]
    pub fn with_scheduler(mut self, scheduler: SchedulerName) -> Self {
        self.node.scheduler = scheduler.name().into();
        self
    }
}
