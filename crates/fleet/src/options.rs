//! What a fleet is tuned by. The defaults are measured (`lab sim fleet-damping`).

use std::time::Duration;

use tidegate_types::units::Ratio;

use super::{Amount, MatchingName};

/// Of agents and orchestrators alike.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetOptions {
    /// Classes of every node.
    pub classes: usize,
    /// What a node's uplink has at most: who claims more is not believed.
    pub uplink_max: Amount,
    /// Who decides who carries what.
    pub matching: MatchingName,
    /// Part of an uplink that is not lent anew: a provider's own surprises fit in it.
    pub headroom: Ratio,
    /// How far a demand may drift from what is granted before the grant follows.
    pub slack: Ratio,
    /// Time constant of what a beat says.
    pub smoothing: Duration,
    /// Longest time between two beats, and shortest.
    pub beats: (Duration, Duration),
    /// Change of a tuple, as a part of the capacity, that is told at once.
    pub change: Ratio,
    /// Time between two decisions at least.
    pub decisions: Duration,
    /// How long a grant lasts unless it is renewed: longer than a leader's lease and its election.
    pub lease: Duration,
    /// How much longer the provider keeps it: what the receiver sent at its end still has a place.
    pub lease_extra: Duration,
    /// Time after which a directive is repeated, in answer to a beat.
    pub renewal: Duration,
    /// Time without a beat after which a node is gone.
    pub silence: Duration,
    /// Part of a provider's capacity that its neighbours hold standing permits for, all together.
    pub standing: Ratio,
    /// How long a standing permit lasts unless it is renewed; zero: there are none.
    pub standing_lease: Duration,
    /// What a receiver may have in a provider's queue, as a time of its grant.
    pub credit: Duration,
    /// When a grant is judged.
    pub trial: Duration,
    /// How long a pair that did not help each other is left alone.
    pub apart: Duration,
}

impl Default for FleetOptions {
    fn default() -> Self {
        FleetOptions {
            classes: 3,
            // 10 Gbit/s: no uplink that is worth lending has more.
            uplink_max: Amount(1_250_000_000),
            matching: MatchingName::default(),
            headroom: Ratio::new(0.05),
            slack: Ratio::new(0.1),
            smoothing: Duration::from_secs(1),
            beats: (Duration::from_secs(1), Duration::from_millis(200)),
            change: Ratio::new(0.1),
            decisions: Duration::from_millis(200),
            lease: Duration::from_secs(5),
            lease_extra: Duration::from_secs(1),
            renewal: Duration::from_millis(750),
            silence: Duration::from_secs(3),
            standing: Ratio::new(0.1),
            standing_lease: Duration::from_secs(600),
            credit: Duration::from_millis(250),
            trial: Duration::from_secs(2),
            apart: Duration::from_secs(60),
        }
    }
}
