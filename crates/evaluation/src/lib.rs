//! The best that could be done: optima and objectives that the lab holds decisions against. No room uses it.
//!
//! | file | what |
//! |---|---|
//! | `optimum` | the best allocation of one uplink among classes (JANUS, section IV-B.1) |
//! | `objective` | what a matching is worth to the whole network (JANUS, section IV-B.2) |

#![forbid(unsafe_code)]

pub mod objective;
pub mod optimum;
