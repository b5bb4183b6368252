//! The promises of `log`, each with a test that fails without it: one program, so that it is linked once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod log;
