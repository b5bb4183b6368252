//! `tidegate proxy`: an HTTP sidecar whose requests and responses wait in queues that scripts edit.
//!
//! The queues are a node's: every client and route is a source, every upstream an output, and so are the
//! clients of a listener for responses. So what schedules, paces, bounds and counts records does it for
//! requests, and what runs scripts runs them here.
//!
//! The path of one request, in the order of reading:
//!
//! 1. `listener.rs` takes the connection and finds where its client wanted to go; `connection.rs` speaks HTTP on it,
//!    as long as its clocks let it; requests of HTTP/2 begin by turns (`starts.rs`).
//! 2. `exchange.rs` is the request's life from here on: it settles for which host and path it is (`target.rs`), finds
//!    the route (`routes.rs`), reads a short body (`body.rs`) for which there is room (`room.rs`), and makes a record of
//!    it (`message.rs`).
//! 3. `hall/` has it wait: the node takes it, its script sees it, and where nothing holds it up it may go
//!    before `enter` returns, without a task or a timer.
//! 4. `upstream/` sends it on a kept connection and waits for the response.
//! 5. The response waits in the hall as well, in its listener's queue, and is handed to the client.
//! 6. Whatever ends the exchange, `exit.rs` tells the hall, the counters and the access log.
//!
//! A request stays on one thread (`threads.rs`), whose connections and view of what is in force nobody shares (`worker.rs`);
//! the hall is one for all. `sockets.rs` has the listeners' sockets; `reload.rs` puts another configuration in force.

mod access_log;
mod answer;
mod body;
mod connection;
mod counts;
pub mod envoy;
mod exchange;
mod exit;
mod hall;
mod inserted;
mod listener;
mod message;
mod other;
mod plan;
mod reload;
mod room;
mod routes;
mod run;
mod sockets;
mod sources;
mod starts;
mod target;
mod threads;
mod upgrade;
mod upload;
mod upstream;
mod worker;

pub use self::counts::{ProxyCounts, ProxyFigures};
pub(crate) use self::listener::Guest;
pub(crate) use self::run::{Running, start};

#[cfg(test)]
mod tests;
