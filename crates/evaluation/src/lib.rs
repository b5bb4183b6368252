//! The best that could be done: optima and objectives that the lab holds decisions against, and models of what the product
//! does in another way. No room uses it.
//!
//! | file | what |
//! |---|---|
//! | `optimum` | the best allocation of one uplink among classes (JANUS, section IV-B.1) |
//! | `objective` | what a matching is worth to the whole network (JANUS, section IV-B.2) |
//! | `audit` | what a matching serves, and whether it keeps to what it was given |
//! | `credit`, `custody` | models of both ends of a redirection, for worlds whose nodes are models |

#![forbid(unsafe_code)]

pub mod audit;
pub mod credit;
pub mod custody;
pub mod objective;
pub mod optimum;
