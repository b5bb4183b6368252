//! Topics on nodes: where each is placed, how it moves while it is used, and when it should.
//!
//! | file | what |
//! |---|---|
//! | `place` | predicts each topic's p90 latency among its neighbours, and packs topics on the fewest nodes |
//! | `place/keep` | compares what was measured with what was promised, and repairs the plan by few moves |
//! | `moves` | hands a topic from one owner to the next: no record lost, repeated or out of order |

#![forbid(unsafe_code)]

pub mod handover;
pub mod place;
