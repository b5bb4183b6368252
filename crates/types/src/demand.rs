//! What a node measures of itself, for whoever shares uplinks out: a word between the node and its fleet.

use std::time::Duration;

use crate::units::{Rate, Size};

/// Time in which a backlog is to be gone at the least: JANUS's bound of 50 ms would ask for twenty times
/// what a short backlog needs, and it is gone before anybody has answered.
const CLEARING: Duration = Duration::from_secs(1);

/// What a class wants, whoever carries it: its arrivals, and what clears its backlog within its bound, but
/// a second at least. input: bytes/s; backlog: bytes; bound > 0. JANUS Eq. 22 in our reading.
pub fn gross_demand(input: Rate, backlog: Size, bound: Duration) -> Rate {
    input + Rate::of(backlog, bound.max(CLEARING))
}

/// What a node measures of itself, a few times a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What its uplink carries.
    pub capacity: Rate,
    /// What each class wants: arrivals, and what would clear the backlog in good time.
    pub demand: Vec<Rate>,
    /// What its own records use of its own uplink.
    pub output: Rate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_backlog_of_the_most_urgent_does_not_ask_for_the_world() {
        // 134 records of 100 bytes: in 50 ms they would want 268 kB/s.
        let demand = |bound| {
            gross_demand(Rate::new(3000.0), Size(13_400), Duration::from_millis(bound)).as_f64()
        };
        assert_eq!([demand(50), demand(1000), demand(2000)], [16_400.0, 16_400.0, 9700.0]);
    }
}
