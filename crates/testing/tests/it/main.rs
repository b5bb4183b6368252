//! The node with its log and its neighbours, and through crashes at every step.

mod crash;
mod lent;
mod logged;
