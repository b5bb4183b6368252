//! Why a unit moves, and why one stays: as people read it.
//! Source: own.
//! Inputs: reasons. Outputs: words. O(1).
//! Deviations: none.
//! Limits: none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a unit moves.
#[derive(Clone, Debug, PartialEq)]
pub enum MoveReason {
    /// A unit of its node misses its bound.
    Missed {
        /// Which one.
        unit: Arc<str>,
        /// Measured part of its records that was late; `None` where the model alone says so.
        late: Option<f64>,
        /// Its 90th percentile, measured or else predicted, seconds.
        p90: f64,
        /// Its bound.
        bound: Duration,
    },
    /// Its node drains.
    Drains,
    /// Its node is gone.
    Gone {
        /// It said nothing for so long.
        silent: Duration,
    },
    /// Its node has more to do than the other one.
    Spread {
        /// Part of the node's processors that is busy.
        from: f64,
        /// The same of the other node.
        to: f64,
    },
}

impl MoveReason {
    /// For machines.
    pub fn name(&self) -> &'static str {
        match self {
            MoveReason::Missed { .. } => "missed",
            MoveReason::Drains => "drains",
            MoveReason::Gone { .. } => "gone",
            MoveReason::Spread { .. } => "spread",
        }
    }
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveReason::Missed { unit, late, p90, bound } => {
                write!(f, "{}", Miss { unit, late: *late, p90: *p90, bound: *bound })
            }
            MoveReason::Drains => write!(f, "its node drains"),
            MoveReason::Gone { silent } => {
                write!(f, "its node has said nothing for {} s", silent.as_secs())
            }
            MoveReason::Spread { from, to } => {
                let (from, to) = (100.0 * from, 100.0 * to);
                write!(f, "its node is {from:.0} % busy, the other one {to:.0} %")
            }
        }
    }
}

struct Miss<'a> {
    unit: &'a str,
    late: Option<f64>,
    p90: f64,
    bound: Duration,
}

impl fmt::Display for Miss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Miss { unit, late, p90, bound } = self;
        let bound = 1e3 * bound.as_secs_f64();
        match (late, p90.is_finite()) {
            (Some(late), true) => {
                let (late, p90) = (100.0 * late, 1e3 * p90);
                write!(f, "{unit}: {late:.0} % later than its bound of {bound} ms, p90 {p90:.1} ms")
            }
            (Some(late), false) => {
                write!(f, "{unit}: {:.0} % later than its bound of {bound} ms", 100.0 * late)
            }
            (None, true) => {
                write!(f, "{unit}: p90 will be {:.1} ms of {bound} ms", 1e3 * p90)
            }
            (None, false) => write!(f, "{unit}: its node cannot keep up with its load"),
        }
    }
}

/// Why a unit stays where it should not.
#[derive(Clone, Debug, PartialEq)]
pub enum StayReason {
    /// What could leave has moved a short while ago.
    Rests,
    /// More moves would be needed than a round may have.
    Later,
    /// No other node has room for what would have to leave; a node more with so many processors would have.
    NoRoom {
        /// Processors.
        cores: f64,
    },
    /// It would miss its bound on an empty node.
    Alone {
        /// The highest rate at which it would keep it, records/s.
        rate: f64,
    },
    /// Its owner takes no records now.
    Closed,
    /// Nothing is known of its load yet.
    Unknown,
}

impl fmt::Display for StayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StayReason::Rests => {
                write!(f, "what could leave has moved a short while ago, and rests")
            }
            StayReason::Later => {
                write!(f, "this round has moved enough; it goes in one of the next")
            }
            StayReason::NoRoom { cores } => write!(
                f,
                "no other node could host what would have to leave and keep all bounds: another node with {cores} processors could"
            ),
            StayReason::Alone { rate } => write!(
                f,
                "it would miss its bound on an empty node too: it keeps it up to {rate:.1} records/s; divide its topics, or give it a longer bound"
            ),
            StayReason::Closed => write!(f, "its owner takes no records now"),
            StayReason::Unknown => write!(f, "its load is not known yet"),
        }
    }
}

/// What is wrong, and stays so in this round.
#[derive(Clone, Debug, PartialEq)]
pub enum RebalanceRemark {
    /// A unit misses its bound.
    Missed {
        /// It, and how far it is from its bound.
        miss: MoveReason,
        /// Why nothing is done.
        why: StayReason,
    },
    /// A node drains, and still owns a unit.
    Left {
        /// The unit.
        unit: Arc<str>,
        /// The node.
        node: Arc<str>,
        /// Why.
        why: StayReason,
    },
    /// Subscribers get results of a unit late, though they are there in time.
    Slow {
        /// The unit.
        unit: Arc<str>,
    },
    /// A node works off what has waited, and is late with it.
    Behind {
        /// The node.
        node: Arc<str>,
    },
    /// A node does not answer.
    Away {
        /// The node.
        node: Arc<str>,
        /// Since so long.
        silent: Duration,
        /// Units that wait for it.
        units: Vec<Arc<str>>,
    },
}

impl RebalanceRemark {
    /// For machines.
    pub fn name(&self) -> &'static str {
        match self {
            RebalanceRemark::Missed { .. } => "missed",
            RebalanceRemark::Left { .. } => "left",
            RebalanceRemark::Slow { .. } => "slow",
            RebalanceRemark::Behind { .. } => "behind",
            RebalanceRemark::Away { .. } => "away",
        }
    }

    /// What it is about; the same as long as it stays so.
    pub fn key(&self) -> String {
        let why = |why: &StayReason| std::mem::discriminant(why);
        match self {
            RebalanceRemark::Missed { miss, why: stay } => match miss {
                MoveReason::Missed { unit, .. } => format!("missed {unit} {:?}", why(stay)),
                _ => String::new(),
            },
            RebalanceRemark::Left { unit, why: stay, .. } => format!("left {unit} {:?}", why(stay)),
            RebalanceRemark::Slow { unit } => format!("slow {unit}"),
            RebalanceRemark::Behind { node } => format!("behind {node}"),
            RebalanceRemark::Away { node, units, .. } => format!("away {node} {}", units.len()),
        }
    }
}

impl fmt::Display for RebalanceRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RebalanceRemark::Missed { miss, why } => write!(f, "{miss}: {why}"),
            RebalanceRemark::Left { unit, node, why } => write!(f, "{unit} stays at {node}: {why}"),
            RebalanceRemark::Slow { unit } => write!(
                f,
                "{unit}: subscribers take results too slowly, which were there in time: no move helps"
            ),
            RebalanceRemark::Behind { node } => write!(
                f,
                "{node} works off records that have waited, faster than others come: its topics are late until then"
            ),
            RebalanceRemark::Away { node, silent, units } if units.is_empty() => {
                write!(f, "{node} has not answered for {} s", silent.as_secs())
            }
            RebalanceRemark::Away { node, silent, units } => write!(
                f,
                "{node} has not answered for {} s and owns {}: if it is gone for good, take them by `tidegate move NAME --to NODE --seize` or `tidegate place --seize-after`",
                silent.as_secs(),
                units.join(", "),
            ),
        }
    }
}
