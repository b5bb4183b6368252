//! What any room may use: TLS, access, time, files, and limits on what strangers may take.

pub mod access;
pub mod backoff;
pub mod complaints;
pub mod disk;
pub mod places;
pub mod tcp_info;
pub mod time;
pub mod tls;
pub mod turns;
