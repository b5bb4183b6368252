//! Evaluates Tidegate: load, links in network namespaces, rivals on the same wires.

pub mod bench;
pub mod load;
pub mod net;
pub mod sim;
