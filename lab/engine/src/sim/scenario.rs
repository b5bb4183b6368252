//! A scenario: a node, its loads, the link below it, and a list of described steps.

use tidegate_capacity::{QueueBelow, RateControllerName};
use tidegate_node::options::NodeOptions;
use tidegate_schedule::SchedulerName;
use tidegate_types::units::Rate;

use super::quantity::{Amount, Span, Speed};
use crate::link;

/// Everything that a run is made of; the seed comes beside it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Label in tables and figures.
    pub name: String,
    /// How long the loads last.
    pub length: Span,
    /// How long the node may go on afterwards to deliver what it holds.
    pub drain: Span,
    pub node: NodeSpec,
    pub connection: ConnectionSpec,
    /// The link that all share.
    pub link: LinkSpec,
    /// What the node is offered.
    pub load: Vec<LoadSpec>,
    /// Who else uses the link.
    pub flow: Vec<FlowSpec>,
    /// What happens, and when.
    pub step: Vec<Step>,
    /// Parts of the run with a row of their own in the table; without one, the whole.
    pub phase: Vec<Phase>,
}

#[derive(Clone, Debug, Default)]
pub struct NodeSpec {
    pub scheduler: SchedulerName,
    /// Its law of capacity.
    pub law: RateControllerName,
    pub queue: QueueBelow,
    /// A configured rate.
    pub rate: Option<Speed>,
    /// What a record that it sends costs its only processor; nothing else costs anything.
    pub cost: Span,
    /// All of a node that has a configuration of its own; scheduler, law and rate are of no use then.
    pub options: Option<Box<NodeOptions>>,
}

/// How the node's connections behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionSpec {
    /// In which order bytes reach the far end.
    pub order: Order,
    /// Whether something below the node limits what is in flight.
    pub window: Window,
    /// How acknowledgements come back.
    pub feedback: Feedback,
    /// Payload of a packet.
    pub segment: u64,
    /// Headers of a packet, as the link counts it.
    pub headers: u64,
    /// Whether packets can be marked, and what a mark means.
    pub ecn: link::Ecn,
}

impl Default for ConnectionSpec {
    /// Without headers, so that a share of the link is one of payload.
    fn default() -> Self {
        ConnectionSpec {
            order: Order::default(),
            window: Window::default(),
            feedback: Feedback::default(),
            segment: 1460,
            headers: 0,
            ecn: link::Ecn::default(),
        }
    }
}

/// In which order bytes reach the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they were sent: what is lost holds up the rest of its connection (TCP).
    #[default]
    Kept,
    /// As they come (packets of a link).
    None,
}

/// Whether something below the node limits what is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// Nothing: the node alone decides.
    #[default]
    Open,
    /// A loss-based congestion window.
    Reno,
    Cubic,
}

/// How acknowledgements come back to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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

/// The link that all share.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// From the node to the far end.
    pub uplink: link::Options,
    /// The way of acknowledgements.
    pub downlink: link::Options,
}

/// Bits a second of a way on which nothing ever waits.
const FREE: u64 = 1_000_000_000_000_000;

impl LinkSpec {
    /// A constant rate, a queue that drops what does not fit, and the same propagation back; there
    /// acknowledgements never wait.
    pub fn new(speed: Speed, delay: Span, queue: Amount) -> Self {
        LinkSpec {
            uplink: link::Options::new(crate::world::bits(speed), delay.0, queue.0),
            downlink: link::Options::new(FREE, delay.0, u64::MAX),
        }
    }

    /// What the uplink could carry in a part of the run that begins with it, in bytes.
    pub fn room(&self, phase: &Phase) -> f64 {
        let (from, until) = (phase.from.0, phase.until.0);
        match phase.rate {
            Some(Speed(rate)) => rate.as_f64() * until.saturating_sub(from).as_secs_f64(),
            None => self.uplink.service.room(from, until),
        }
    }
}

/// What one source offers.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSpec {
    pub name: String,
    /// Key of its records.
    pub key: String,
    /// Bound on residence, where the node has no configuration that says it.
    pub latency: Span,
    /// Payload, from and to (evenly distributed).
    pub size: (Amount, Amount),
    pub arrivals: Arrivals,
    pub from: Span,
    /// Last record; without it the end of the run.
    pub until: Option<Span>,
}

impl LoadSpec {
    /// A source with a key of its own, from the begin to the end: a bound in milliseconds, and bytes of payload.
    pub fn steady(name: &str, latency: u64, size: u64, arrivals: Arrivals) -> LoadSpec {
        LoadSpec {
            name: name.into(),
            key: name.into(),
            latency: Span::millis(latency),
            size: (Amount(size), Amount(size)),
            arrivals,
            from: Span::default(),
            until: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// So many a second, evenly.
    Constant(f64),
    /// So many a second on average, independently.
    Poisson(f64),
    /// Always one more than the node takes.
    Backlogged,
}

/// Somebody else on the link.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    pub kind: FlowKind,
    pub from: Span,
    /// Until when; without it the end of the run.
    pub until: Option<Span>,
}

/// What a competing flow does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowKind {
    Constant(Speed),
    /// A loss-based flow without end.
    Reno,
    Cubic,
    /// One whose answer to marks is Prague's.
    Prague,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub at: Span,
    pub change: Change,
}

/// What a step changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Something of the link, on each way (uplink, downlink) or one.
    Link([bool; 2], link::Change),
    Down,
    /// They are there again.
    Up,
}

impl Change {
    /// The uplink's rate; 0 for an outage that no connection notices.
    pub fn rate(speed: Speed) -> Self {
        let profile = link::Profile::constant(crate::world::bits(speed));
        Change::Link([true, false], link::Change::Service(link::Service::Rate(profile)))
    }

    /// The link's propagation, one way.
    pub fn delay(delay: Span) -> Self {
        Change::Link([true, true], link::Change::Delay(delay.0, std::time::Duration::ZERO))
    }

    /// The part of the uplink's packets that is lost.
    pub fn loss(part: f64) -> Self {
        Change::Link([true, false], link::Change::Loss(link::Loss::Random(part)))
    }
}

/// A part of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Label in the table.
    pub name: String,
    pub from: Span,
    pub until: Span,
    /// The link's rate in it, for shares; without it what the link began with.
    pub rate: Option<Speed>,
}

impl Scenario {
    /// The same with another law; `known` knows the mean of what the link carries.
    #[must_use]
    pub fn with_law(mut self, law: RateControllerName) -> Self {
        self.node.law = law;
        if law == RateControllerName::Known {
            let whole = Phase {
                name: String::new(),
                from: Span::default(),
                until: self.length,
                rate: None,
            };
            let mean = self.link.room(&whole) / self.length.as_secs_f64();
            self.node.rate = Some(Speed(Rate::new(mean)));
        }
        self
    }

    /// The same with another scheduler.
    #[must_use]
    pub fn with_scheduler(mut self, scheduler: SchedulerName) -> Self {
        self.node.scheduler = scheduler;
        self
    }
}
