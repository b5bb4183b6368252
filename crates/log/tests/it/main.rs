//! The promises of `log`, each with a test that fails without it: one program, so that it is linked once.

mod log;
