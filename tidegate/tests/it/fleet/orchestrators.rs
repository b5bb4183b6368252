//! Orchestrators as processes of their own, and what they log.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fleet::PATIENCE;
use crate::support::certificates::Authority;

/// What a leader logs when it begins, and when it ends.
const LEADS: &str = "leading from now on";
const STEPS_DOWN: &str = "no longer leading";

/// The orchestrators of a fleet, each at a port of its own.
pub(crate) struct Orchestrators {
    processes: Vec<Child>,
    /// Who logged what.
    lines: mpsc::UnboundedReceiver<(usize, String)>,
    /// Lines that nobody waited for yet.
    seen: Vec<(usize, String)>,
}

impl Orchestrators {
    pub(crate) fn start(authority: &Authority, ports: &[u16], etcd: &[String]) -> Orchestrators {
        let (sender, lines) = mpsc::unbounded_channel();
        let start = |(place, port): (usize, &u16)| {
            let own = authority.issue(&format!("orchestrator-{place}"));
            let text = format!(
                "[orchestrator]\nlisten = \"127.0.0.1:{port}\"\nadvertise = \"localhost:{port}\"\n\
                 operators = [\"ops\"]\netcd = {etcd:?}\nca = {:?}\ncertificate = {:?}\nkey = {:?}\n",
                authority.ca(),
                own.certificate,
                own.key
            );
            let file = authority.file(&format!("orchestrator-{place}.toml"));
            std::fs::write(&file, text).unwrap();
            let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
                .args(["orchestrate", "-c"])
                .arg(file)
                .env_remove("TIDEGATE_LOG")
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let log = BufReader::new(process.stderr.take().unwrap());
            let sender = sender.clone();
            thread::spawn(move || {
                for line in log.lines().map_while(Result::ok) {
                    let _ = sender.send((place, line));
                }
            });
            process
        };
        let processes = ports.iter().enumerate().map(start).collect();
        Orchestrators { processes, lines, seen: Vec::new() }
    }

    /// The next of them that logs this.
    async fn says(&mut self, wanted: impl Fn(usize, &str) -> bool) -> usize {
        let found = async {
            loop {
                let (place, line) = self.lines.recv().await.expect("they run");
                self.seen.push((place, line));
                let (place, line) = self.seen.last().expect("just now");
                if wanted(*place, line) {
                    return *place;
                }
            }
        };
        match timeout(PATIENCE, found).await {
            Ok(place) => place,
            Err(_) => panic!("nobody says it: {:#?}", self.seen),
        }
    }

    /// The next one that leads.
    pub(crate) async fn leader(&mut self) -> usize {
        self.says(|_, line| line.contains(LEADS)).await
    }

    /// Waits until all that do not lead have heard who is drained.
    pub(crate) async fn know_who_is_drained(&mut self, leader: usize) {
        let mut missing: BTreeSet<usize> = (0..self.processes.len()).collect();
        missing.remove(&leader);
        while !missing.is_empty() {
            let place =
                self.says(|_, line| line.contains("drained nodes, as the leader says")).await;
            missing.remove(&place);
        }
    }

    /// Waits until this one no longer leads.
    pub(crate) async fn deposed(&mut self, place: usize) {
        self.says(|other, line| other == place && line.contains(STEPS_DOWN)).await;
    }

    /// `STOP`, `CONT`, `KILL` or `TERM`.
    pub(crate) fn signal(&self, place: usize, name: &str) {
        let id = self.processes[place].id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }
}

impl Drop for Orchestrators {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
