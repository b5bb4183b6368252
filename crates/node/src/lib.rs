//! One node: which record is accepted, where it waits, what goes next, and how each record ends.
//!
//! [`node::Node`] is a state machine without clock, socket or file: `handle(now, Input)`, then
//! `poll(now)` until `None`, and `next_timeout()`. The same inputs at the same times give the same outputs.
//!
//! | file | what |
//! |---|---|
//! | `options`, `rules` | what a node is made of; which stream a record belongs to |
//! | `io` | everything that goes in and comes out |
//! | `node` | the state machine, and its parts in the order in which a record meets them |
//! | `inbound` | how fast records may come in |
//! | `adapt` | what a script may see and order |
//! | `status` | what a node tells of itself |

#![forbid(unsafe_code)]

pub mod adapt;
pub mod inbound;
pub mod io;
pub mod node;
pub mod options;
pub mod rules;
pub mod status;
