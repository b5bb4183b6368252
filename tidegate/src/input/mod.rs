//! Inputs: what frames bytes of the world into records. One folder an external thing.

pub mod mqtt;
