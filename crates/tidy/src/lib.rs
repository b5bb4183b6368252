//! Holds the repository to its conventions: see `tests/it/tidy.rs`.
