//! A node and its log: what is promised, what a broken disk does, what a restart finds.

mod logging;
mod remembering;
