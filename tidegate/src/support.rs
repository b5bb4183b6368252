//! What any room may use: TLS, access, time, files, and limits on what strangers may take.

pub(crate) mod acceptor;
pub mod access;
pub mod backoff;
pub mod complaints;
pub mod dial;
pub mod disk;
pub mod files;
pub mod followed;
pub mod http;
pub(crate) mod listen;
pub mod password;
pub mod places;
pub mod proxy_header;
pub(crate) mod talk;
pub mod tasks;
pub mod tcp_info;
pub mod time;
pub mod tls;
pub mod turns;
