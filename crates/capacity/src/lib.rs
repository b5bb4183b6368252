//! Finds the rate of an uplink, and limits the bytes that may stand below the scheduler.
//!
//! Each uplink has one *rate controller*. A controller sees byte-level feedback only: samples of `TCP_INFO` or the
//! acknowledgements of a link's packets. Confirmations of whole records never reach it, because a broker's confirmations
//! also measure its disk and come in lumps as large as a record. The controller answers with a *window* (bytes that may be
//! unacknowledged) and a *pace* (bytes/s). A *path* is one connection of the uplink; a *sample* is its feedback.
//!
//! | file | what |
//! |---|---|
//! | `controller.rs` | the `RateController` trait and what it sees: `PathSample`, `Ack` |
//! | `names.rs` | `UplinkOptions`, and the controller that they ask for |
//! | `uplink.rs` | one uplink: its controller, its pacer, and the exact count of bytes below the scheduler |
//! | `pace.rs` | the pacer: when the next piece may go, and how large a cut is |
//! | `tide.rs` | the default controller: keeps a small standing queue |
//! | `tide/start.rs`, `tide/modes.rs` | its first round trips; what it does about a queue that lasts |
//! | `round_trip.rs`, `standing_queue.rs`, `delivery_rate.rs`, `swing.rs`, `peak.rs`, `route_change.rs` | what `tide` observes: path, queue, acknowledged rate, how restless it is, what it carried a moment ago, a path that became longer |
//! | `target.rs` | how long a queue it keeps |
//! | `carried.rs` | what the link carries when it is ours |
//! | `losses.rs` | what lost bytes tell it |
//! | `tide_beside.rs`, `rival.rs` | `tide`, holding its part beside one who fills the queue |
//! | `marks.rs`, `prague.rs` | what marks of congestion do to its window |
//! | `max_rate.rs`, `window_filter.rs` | windowed maximum and minimum |
//! | `known.rs`, `unlimited.rs`, `reported.rs`, `capped.rs` | controllers without a search, and the cap of a configured rate |
//! | `baselines/` | BBR, Copa and LEDBAT, selectable by name |
//! | `coupled.rs` | MPTCP's windows, for a link that does what FD-MVQS's paper does |
//!
//! ```
//! use tidegate_capacity::uplink::Uplink;
//! use tidegate_capacity::{PathSample, RateControllerName, UplinkOptions, build};
//! use tidegate_types::units::{Rate, Size, Time};
//!
//! let options = UplinkOptions {
//!     name: "wan".into(),
//!     controller: RateControllerName::Known,
//!     cap: Some(Rate::from_bits(8e6)),
//!     ..UplinkOptions::default()
//! };
//! let mut uplink = Uplink::new(&options, build(&options), 1);
//! let (now, piece) = (Time::from_millis(1), Size(1000));
//! assert!(uplink.is_free(now, piece, None));
//! uplink.picked_for(now, 0, piece);
//! uplink.handed(0, piece, piece);
//! assert_eq!(uplink.in_flight(), piece);
//! let sample = PathSample { delivered: piece, ..PathSample::default() };
//! uplink.sample(Time::from_millis(21), 0, &sample);
//! assert_eq!(uplink.in_flight(), Size::ZERO);
//! ```

#![forbid(unsafe_code)]

mod capped;
mod carried;
mod controller;
mod delivery_rate;
mod losses;
mod marks;
mod max_rate;
mod names;
pub mod pace;
mod peak;
mod prague;
mod rival;
mod round_trip;
mod route_change;
mod standing_queue;
mod swing;
mod target;
#[cfg(test)]
mod test_link;
pub mod uplink;
pub mod window_filter;

pub use self::controller::{Ack, PathSample, RateController, TcpState};
pub use self::names::{UplinkOptions, build};
pub use self::prague::Prague;
pub use self::target::QueueBelow;

tidegate_types::algorithms! {
    /// The rate controllers, by name. A new one is a file in `baselines/`, and a line here.
    pub enum RateControllerName: "rate controller" -> controller::Build {
        mod {
            #[default]
            Tide = "tide" in tide: "Keeps a small standing queue.",
            TideBeside = "tide-beside" in tide_beside: "As tide, and holds a part of the link beside loss-based flows.",
        }
        mod baselines {
            Bbr = "bbr" in bbr: "BBR: paces at the largest delivery rate seen lately.",
            Bbr3 = "bbr3" in bbr3: "BBR, version 3: a probe each few seconds, bounded by what losses showed.",
            Copa = "copa" in copa: "Copa: steers by the standing queue.",
            Ledbat = "ledbat" in ledbat: "LEDBAT: steers to a fixed queueing delay.",
        }
        mod {
            Known = "known" in known: "Paces at 92 % of the configured rate.",
            Unlimited = "unlimited" in unlimited: "No network below: a fixed window, no pace.",
        }
    }
    unlisted {
        Coupled = "coupled" in coupled: "MPTCP's windows (RFC 6356): for a link's paths.",
        Reported = "told" in reported: "A link below has found its own capacity and reports it.",
    }
    gone { "tide-restless" => "write \"tide\", or leave it out: the default law does what it did", }
}
