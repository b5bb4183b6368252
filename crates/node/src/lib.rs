//! One node: which record is accepted, where it waits, what goes next, and how each record ends.
//!
//! [`node::Node`] is a state machine without clock, socket or file. A driver calls `handle(now, Input)`, then
//! `poll(now)` until it answers `None`, and both again at `next_timeout()`. The same inputs at the same times give
//! the same outputs.
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | offer | a record as an input has read it; it is accepted, refused, or waits for room with its connection |
//! | stream | the records of one source under one rule: they are numbered, bounded and counted together |
//! | delivery | one record on its way to one output; each delivery gets one fate, confirmed or dropped for a reason |
//! | leg | a delivery of a durable record, as the log knows it |
//! | stored | held by the log only, to be read back when there is memory |
//! | full | a stream that found no room: it drops or refuses at once until there is room again |
//! | lane | one connection of an output; each class has its own, or all share one |
//! | cut | the bytes of a record that go to a lane at once |
//! | permit | a neighbour's grant to carry records of a class by its own uplink |
//!
//! # Files, in the order of reading
//!
//! | file | what it decides |
//! |---|---|
//! | `options.rs`, `rules.rs` | what a node is made of; which rule a record belongs to, and what that promises |
//! | `io.rs`, `io/` | everything that goes in and comes out |
//! | `node/mod.rs` | the composition: an input goes to its part, the next thing to do is asked for |
//! | `node/base.rs`, `node/sources.rs`, `node/outbox.rs` | what all parts stand on: time, options, connections, what the driver is to hear |
//! | `node/owners.rs` | on whose account connections are, and what each owner may have |
//! | `node/arrive.rs` | an offer finds its stream; it is accepted, refused, or waits |
//! | `node/admission.rs` | when a stream is full, and when no longer |
//! | `node/admission/room.rs` | whether a record fits |
//! | `node/holdings.rs` | what is held: records, deliveries, streams; the only writer of counts and bytes |
//! | `node/holdings/enqueue.rs` | a record comes into its queues |
//! | `node/holdings/` | the others: accounts, tables, what is picked, moved or laid out anew |
//! | `node/durability/write.rs` | a record, a fate, a checkpoint go to the log |
//! | `node/egress/choice.rs` | the uplink is free: which record goes |
//! | `node/egress.rs` | how bytes of it are handed over |
//! | `node/egress/answers.rs` | what comes back from a connection |
//! | `node/egress/` | the others: neighbours that carry records, an uplink that carries nothing, figures |
//! | `node/feedback.rs` | how a delivery ends |
//! | `node/durability.rs` | what the log has, and what it is owed |
//! | `node/durability/` | the others: segments, the backlog and its reading, sessions of publishers |
//! | `node/durable.rs` | a record leaves memory for the log and is read back |
//! | `node/deeds.rs` | what acted on a delivery, told to the log with its fate |
//! | `node/preparation.rs`, `node/change.rs` | what scripts, endpoints and new rules change of what waits |
//! | `node/reserved.rs`, `node/lending.rs` | what of our uplink is reserved for neighbours' records; what becomes of these |
//! | `node/restore.rs`, `node/view.rs`, `node/ahead.rs` | a start from a log; what the world may see; a batch is read side by side |
//! | `inbound.rs` | how fast records may come in |
//! | `adapt.rs`, `status.rs` | what a script may see and order; what people are shown |
//!
//! # One record
//!
//! ```
//! use tidegate_capacity::RateControllerName;
//! use tidegate_node::io::{Control, Destination, Input, Output, OutputId, PathId, PathState, UplinkId};
//! use tidegate_node::node::Node;
//! use tidegate_node::options::{NodeOptions, OutputOptions, UplinkOptions};
//! use tidegate_node::rules::{Rule, Rules};
//! use tidegate_schedule::SchedulerName;
//! use tidegate_types::class::{Classes, default_classes};
//! use tidegate_types::record::{Offered, Properties, SourceId};
//! use tidegate_types::units::{Size, Time};
//!
//! let classes = Classes::new(default_classes())?;
//! let options = NodeOptions {
//!     name: "gate-7".into(),
//!     incarnation: 1,
//!     rules: Rules::new(vec![Rule::catch_all(&classes, vec![OutputId(0)])])?,
//!     classes,
//!     uplinks: vec![UplinkOptions {
//!         name: "modem".into(),
//!         controller: RateControllerName::Unlimited,
//!         cap: None,
//!         ..UplinkOptions::default()
//!     }],
//!     outputs: vec![OutputOptions {
//!         name: "cloud".into(),
//!         uplink: UplinkId(0),
//!         overhead: Size(40),
//!         unconfirmed_max: 1000,
//!         one_lane: false,
//!         is_gone: false,
//!     }],
//!     scheduler: SchedulerName::Tidegate,
//!     memory: Size::from_mib(16),
//!     inbound: None,
//!     record_max: Size::from_mib(1),
//!     log: None,
//!     fleet: None,
//! };
//! let (mut node, now) = (Node::new(options)?, Time::from_millis(5));
//!
//! // A sensor connects and offers a record. All lanes of the output are down: it waits.
//! let source = SourceId(1);
//! node.handle(now, Input::Control(Control::Open { source, name: "plc-3".into(), relays: None }));
//! node.handle(now, Input::Arrived(vec![Offered {
//!     source,
//!     token: None,
//!     key: "factory/plc/3".into(),
//!     properties: Properties::default(),
//!     payload: "21.5".into(),
//!     read_at: now,
//!     source_unix_ns: None,
//!     ttl: None,
//!     foreign: None,
//!     packet: None,
//! }]));
//! assert!(node.poll(now).is_none());
//!
//! // The lanes come up: the record goes, is sent and confirmed.
//! for lane in 0..3 {
//!     let path = PathId { output: OutputId(0), lane };
//!     node.handle(now, Input::PathState { path, state: PathState::Up });
//! }
//! let transmit = std::iter::from_fn(|| node.poll(now)).find_map(|output| match output {
//!     Output::Transmit { id, range, .. } => Some((id, range)),
//!     _ => None,
//! });
//! let (id, range) = transmit.expect("the record is ready");
//! node.handle(now, Input::Sent { id, bytes: Size(range.end - range.start) });
//! node.handle(now, Input::Confirmed { destination: Destination::Output(OutputId(0)), ids: vec![id] });
//! assert_eq!((node.counts().confirmed, node.held(), node.audit()), (1, 0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod adapt;
pub mod inbound;
pub mod io;
pub mod node;
pub mod options;
pub mod rules;
pub mod status;
