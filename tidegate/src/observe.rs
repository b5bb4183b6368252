//! What people and machines see of a node: status, metrics, the HTTP server, logs, and what the service manager hears.

pub mod http;
pub mod logs;
pub mod metrics;
pub mod orchestrator;
pub mod status;
pub(crate) mod sys;
pub mod systemd;
