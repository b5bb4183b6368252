//! Holds the repository to its conventions.

mod newcomers;
mod protobuf;
mod tidy;
