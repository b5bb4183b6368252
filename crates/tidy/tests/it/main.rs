//! Holds the repository to its conventions.

mod newcomers;
mod tidy;
