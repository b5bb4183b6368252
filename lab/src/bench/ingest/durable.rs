//! What accepting a record costs that is to be kept: nobody takes it now, and who acknowledged it must still have
//! it later. Each contestant keeps its own promise, which the table names.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use tidegate_testbed::free_address;

use super::{Options, PAYLOAD, PUBLISHERS, median};
use crate::load::raw;
use crate::progress::Progress;
use crate::report::{Figure, figure};
use crate::rig::server::Server;
use crate::rig::versions::Program;

/// Topics of one level: NATS has topics of its own below others.
const FILTER: &str = "+";

tidegate_types::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Keeper {
        Tidegate = "tidegate",
        /// The same, each entry sealed.
        Sealed = "tidegate-sealed",
        Mosquitto = "mosquitto",
        Nats = "nats-stream",
        /// The same with a sync for each message.
        NatsSynced = "nats-stream-synced",
    }
}

impl Keeper {
    /// What an acknowledgement means, with this configuration and by its maker's documentation.
    fn promise(self) -> &'static str {
        match self {
            Keeper::Tidegate => "it is on disk (fdatasync)",
            Keeper::Sealed => "it is on disk, encrypted",
            Keeper::Mosquitto => "it is in memory; all is written once a second",
            Keeper::Nats => "it is in a file; synced every two minutes",
            Keeper::NatsSynced => "it is on disk (sync_interval: always)",
        }
    }

    fn program(self) -> Program {
        match self {
            Keeper::Tidegate | Keeper::Sealed => Program::Tidegate,
            Keeper::Mosquitto => Program::Mosquitto,
            Keeper::Nats | Keeper::NatsSynced => Program::Nats,
        }
    }

    fn start(self) -> io::Result<Server> {
        let address = free_address();
        let program = self.program().path().map_err(io::Error::other)?;
        let arguments: &[&str] = if self.program() == Program::Tidegate { &["run"] } else { &[] };
        let text = match self {
            Keeper::Tidegate => tidegate(address, ""),
            Keeper::Sealed => tidegate(address, "key_env = \"TIDEGATE_LAB_KEY\"\n"),
            Keeper::Mosquitto => format!(
                "listener {} {}\nallow_anonymous true\nuser root\nmax_queued_messages 0\n\
                 set_tcp_nodelay true\nlog_dest none\npersistence true\n\
                 persistence_location ./\nautosave_interval 1\n",
                address.port(),
                address.ip()
            ),
            Keeper::Nats => nats(address, "")?,
            Keeper::NatsSynced => nats(address, ", sync_interval: always")?,
        };
        let server = Server::launch((&program, arguments), address, &text, false)?;
        if self.program() != Program::Tidegate {
            raw::subscribe_for_later(address, "later", FILTER)?;
        }
        Ok(server)
    }
}

/// A node whose output never comes up.
fn tidegate(address: SocketAddr, key: &str) -> String {
    format!(
        "[node]\nname = \"bench\"\n[http]\nlisten = []\n[[input]]\nmqtt = {{ listen = \"{address}\" }}\n\
         [[output]]\nname = \"far\"\nmqtt = {{ url = \"mqtt://127.0.0.1:1\" }}\n\
         [log]\ndirectory = \"log\"\n{key}"
    )
}

fn nats(address: SocketAddr, more: &str) -> io::Result<String> {
    let clients = free_address();
    Ok(format!(
        "server_name: bench\nlisten: \"{clients}\"\njetstream {{ store_dir: \"./stream\"{more} }}\n\
         mqtt {{ listen: \"{address}\" }}\n"
    ))
}

/// Records a second that are acknowledged, and microseconds of CPU for each.
fn measure(keeper: Keeper, options: &Options) -> io::Result<(f64, f64)> {
    // What the one before left to be written is not this one's.
    rustix::fs::syncfs(std::fs::File::open(std::env::temp_dir())?)?;
    let server = keeper.start()?;
    let (before, begun) = (server.cpu()?, Instant::now());
    let each = options.records / PUBLISHERS;
    raw::saturate_by(server.address, PUBLISHERS, "p", 1, &PAYLOAD, each)?;
    let sent = (each * PUBLISHERS) as f64;
    let rate = sent / begun.elapsed().as_secs_f64();
    Ok((rate, (server.cpu()? - before).as_secs_f64() * 1e6 / sent))
}

/// Measures all of them in turn; lines and figures.
pub(super) fn run(
    options: &Options,
    progress: &Progress,
) -> io::Result<(Vec<String>, Vec<Figure>)> {
    let mut runs = Keeper::ALL.map(|_| Vec::new());
    let mut lines = vec![format!(
        "kept for later, QoS 1: {:<20}{:>12}{:>10}  an acknowledgement means",
        "", "records/s", "us CPU"
    )];
    let mut missing = Vec::new();
    for _ in 0..options.runs {
        for (runs, keeper) in runs.iter_mut().zip(Keeper::ALL) {
            progress.step(&format!("{}, kept", keeper.name()), None);
            match measure(keeper, options) {
                Ok(run) => runs.push(run),
                Err(error) if keeper.program() == Program::Tidegate => return Err(error),
                // An older version may not know its configuration, and ends.
                Err(error) => missing.push(format!(
                    "skipped: {}: {error}: is its version that of scripts/rivals.sh?",
                    keeper.name()
                )),
            }
        }
    }
    missing.dedup();
    let mut figures = Vec::new();
    for (runs, keeper) in runs.iter().zip(Keeper::ALL).filter(|(runs, _)| !runs.is_empty()) {
        let (name, promise) = (keeper.name(), keeper.promise());
        let rate = median(runs.iter().map(|run| run.0).collect());
        let cpu = median(runs.iter().map(|run| run.1).collect());
        lines.push(format!("  {name:<41}{rate:>12.0}{cpu:>10.2}  {promise}"));
        figures.push(figure(&format!("ingest_kept_{name}_rate"), rate, "records/s"));
        figures.push(figure(&format!("ingest_kept_{name}_cpu"), cpu, "us"));
    }
    lines.append(&mut missing);
    Ok((lines, figures))
}
