//! The `tidegate` program: rooms for what touches the world outside, around the decisions of the crates.
//!
//! The rooms, from the top down. A room uses those below it (`docs/decisions/0106-folders-lead-down.md`):
//!
//! | room | what it holds |
//! |---|---|
//! | `cli` | the commands, a file for each |
//! | `assembly` | from a configuration to a node that runs: what stands behind each key, start, reload, stop |
//! | `observe` | what people and machines see: status, metrics, the HTTP server, logs, the service manager |
//! | `services` | what a node does beside carrying records: fleet, cluster, operators, cameras, proxy, standby |
//! | `config` | the configuration: its keys, what they may say, the reference |
//! | `input`, `output` | where records come from, and where they go: a folder for each kind |
//! | `node` | the driver contract, the event loop that owns the node, the log store, the local broker |
//! | `script` | the Luau machine of adaptation scripts |
//! | `link` | the transport between nodes, below its input and its output |
//! | `keys` | what the keys of all sections have in common: their declaration, units, urls, places in the text, findings |
//! | `support` | what any room may use: TLS, access, time, files, limits on connections |

pub mod assembly;
pub mod cli;
pub mod config;
pub mod input;
pub mod keys;
pub mod link;
pub mod node;
pub mod observe;
pub mod output;
pub mod script;
pub mod services;
pub mod support;
