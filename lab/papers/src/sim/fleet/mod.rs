//! Whole fleets: matchings at scale (`fleet-scale`), grants over time (`fleet-damping`),
//! whole nodes that redirect (`janus-tables`, `janus-recorded`, `fleet-shootout`), and what fails (`fleet-faults-oracle`).

mod damping;
mod faults;
mod fluid;
mod member;
mod nodes;
mod random;
mod scale;
mod shootout;
mod sizes;
mod tables;
mod tally;
mod traffic;

pub use self::damping::run as damping;
pub use self::faults::run as faults_oracle;
pub use self::scale::run as scale;
pub use self::shootout::run as shootout;
pub use self::tables::run as tables;
pub use self::tables::{Point, four_g, over_recorded};
