//! The runtime of Tidegate: inputs, outputs and the loop that joins them to core.

pub mod access;
pub mod assemble;
pub mod calendar;
pub mod cli;
pub mod config;
pub mod demo;
pub mod drive;
pub mod http;
pub mod input;
pub mod inspect;
pub mod link;
pub mod logs;
pub mod metrics;
pub mod output;
pub mod parts;
pub mod port;
pub mod reload;
pub mod run;
pub mod screen;
pub mod secrets;
pub mod spool;
pub mod status;
pub mod systemd;
pub mod tls;
pub mod top;
