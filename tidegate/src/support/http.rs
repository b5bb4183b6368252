//! What every HTTP server here needs: the clocks of a connection, so that nobody holds a place by being slow. And a
//! client: who is asked and told by HTTP.

pub mod endpoint;
mod heads;
mod meter;
mod pace;

pub(crate) use self::meter::{Busy, Meter, Over, Patience, Watched, watch};
pub(crate) use self::pace::{Answer, Pace};
