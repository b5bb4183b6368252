//! Holds the repository to its conventions.

mod tidy;
