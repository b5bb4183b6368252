//! Carries records between two nodes over several unequal, lossy and failing paths. Each record has a deadline. Records are
//! in order within their stream, never across streams.
//!
//! A *path* is one interface's way to the peer. A record travels as *pieces*, each in a *packet*; *parity* pieces restore
//! lost ones. A *path scheduler* chooses the path of each piece. *Redundancy* is what the link spends on a record for whose
//! repeat its deadline leaves no time. *Custody* says who answers for a record.
//!
//! A driver tells a [`Link`] which paths exist (`path_up`, `path_down`) and what arrived on them (`receive`). After each
//! call, and at `next_timeout` (`tick`), it sends what `poll_transmit` returns for each path until that is `None`, and takes
//! every `poll_event`.
//!
//! | file | what |
//! |---|---|
//! | `options.rs`, `limits.rs`, `error.rs` | what a link is built from, its bounds, and what can be wrong with a peer's bytes |
//! | `link.rs` | one end of a link: the state machine, the assignment of pieces to paths, and the content of packets |
//! | `outbox.rs`, `outgoing_record.rs` | records from the offer to the peer's answer; one record under way |
//! | `path_scheduler.rs` | which path takes the next piece: FD-MVQS, and baselines by name |
//! | `redundancy.rs`, `erasure_code.rs` | how a record is protected: copies, hedges, Reed-Solomon parity |
//! | `path.rs`, `in_flight.rs`, `rate_control.rs`, `startup.rs` | one path: its estimates, unacknowledged packets, rate, first round trips |
//! | `round_trip.rs`, `arrival_delay.rs`, `loss_rate.rs`, `marks.rs`, `predict.rs` | what a path measures, and predictors of the next arrival delay |
//! | `shared_bottleneck.rs` | which paths go through one bottleneck |
//! | `packet.rs`, `piece.rs` | a packet byte by byte |
//! | `received.rs`, `reassembly.rs` | packets to acknowledge; records from their pieces, each once and in order |
//! | `envelope.rs`, `handover.rs` | a record with its identity on the link; the node's cuts and the link's whole records |
//! | `delegation.rs`, `claims.rs`, `lineage.rs` | who may carry whose records, under which identity, and whether a log was copied |
//!
//! ```
//! use tidegate_link::{Link, LinkEvent, LinkOptions, Outgoing, PathOptions};
//! use tidegate_types::units::Time;
//!
//! let mut ends = [1, 2].map(|incarnation| Link::new(LinkOptions::new(incarnation, 1)));
//! ends.iter_mut().for_each(|end| end.path_up(0, Time::ZERO, PathOptions::default()));
//! let deadline = Time::from_millis(50);
//! let bytes = bytes::Bytes::from_static(b"alarm");
//! let mut waiting = Some(Outgoing { token: 1, stream: 7, content: bytes, deadline, expires: None });
//! let mut arrived = None;
//! for millis in 1..200 {
//!     let now = Time::from_millis(millis);
//!     // The link takes a record when it knows the peer's window.
//!     if waiting.clone().is_some_and(|record| ends[0].offer(record).is_ok()) {
//!         waiting = None;
//!     }
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         ends[from].tick(now);
//!         while let Some(packet) = ends[from].poll_transmit(0, now) {
//!             ends[to].receive(0, &packet, now).unwrap();
//!         }
//!     }
//!     while let Some(event) = ends[1].poll_event() {
//!         if let LinkEvent::Arrived { content, .. } = event {
//!             arrived = Some(content);
//!         }
//!     }
//! }
//! assert_eq!(arrived.as_deref(), Some(&b"alarm"[..]));
//! ```

#![forbid(unsafe_code)]

pub mod arrival_delay;
pub mod claims;
pub mod delegation;
pub mod envelope;
mod erasure_code;
mod error;
pub mod handover;
mod in_flight;
mod limits;
pub mod lineage;
mod link;
pub mod loss_rate;
mod marks;
mod options;
mod outbox;
mod outgoing_record;
pub mod packet;
mod path;
pub mod path_scheduler;
mod piece;
pub mod predict;
mod rate_control;
mod reassembly;
mod received;
mod redundancy;
mod round_trip;
mod shared_bottleneck;
mod startup;

pub use self::error::WireError;
pub use self::limits::PATHS_MAX;
pub use self::link::Link;
pub use self::options::{
    BACK_OFF, GUARD_SHARE, LinkCounts, LinkEvent, LinkOptions, OfferError, Outgoing, PathCounts,
    PathHealth, PathOptions, PathStatus, SPARE_SHARED,
};
pub use self::reassembly::READ_MAX;
pub use self::redundancy::RedundancyName;
