//! `tidegate ext-proc`: the proxy's queues behind Envoy, as its external processor.
//!
//! Envoy keeps the connections and the bytes; here its messages wait in the same queues and meet the same
//! scripts as in `tidegate proxy`. A listener is where Envoy comes by gRPC; each of its streams is one
//! exchange (`process.rs`). Upstreams are Envoy's clusters of the same names: a redirected request goes where a
//! header says. `tidegate envoy-config` writes Envoy's side, and looks at one that is there.

mod dialog;
pub(crate) mod head;
mod held;
pub(crate) mod needs;
mod process;
mod service;
mod wire;

pub use self::head::exercise;
pub(super) use self::service::answer;

#[cfg(test)]
mod tests;
