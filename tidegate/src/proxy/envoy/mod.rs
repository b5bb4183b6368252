//! `tidegate ext-proc`: the proxy's queues behind Envoy, as its external processor.
//!
//! Envoy keeps the connections and the bytes; here its messages wait in the same queues and meet the same
//! scripts as in `tidegate proxy`. A listener is where Envoy comes by gRPC; each of its streams is one
//! exchange (`process.rs`). Upstreams are Envoy's clusters of the same names: a redirected request goes where a
//! header says. `advice/` writes Envoy's side, and looks at one that is there.

pub mod advice;
mod dialog;
mod head;
mod held;
mod process;
mod service;
mod wire;

pub use self::head::exercise;
pub(super) use self::service::answer;

#[cfg(test)]
mod tests;
