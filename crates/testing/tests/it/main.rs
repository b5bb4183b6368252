//! The node and the log together, through crashes at every step.

mod crash;
