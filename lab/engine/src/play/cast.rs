//! The processes of a world that run, and what faults do to them.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::net::pump::Way;
use crate::net::scratch::Scratch;
use crate::net::stage::Stage;
use crate::rig::process::raise;
use crate::world::{Program, Target, World};

/// Lines that may wait to be printed; beyond it a process waits.
const LINES_MAX: usize = 1024;

/// The processes of a world that run.
#[derive(Debug)]
pub(super) struct Cast {
    // In this order: processes end before their files.
    running: BTreeMap<String, Running>,
    lines: mpsc::Sender<String>,
    scratch: Scratch,
}

/// A process and who reads its lines. Dropping it kills the process.
#[derive(Debug)]
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cast {
    /// Nobody yet, and what they will say.
    pub(super) fn new() -> anyhow::Result<(Cast, mpsc::Receiver<String>)> {
        let (lines, receiver) = mpsc::channel(LINES_MAX);
        Ok((Cast { running: BTreeMap::new(), lines, scratch: Scratch::new()? }, receiver))
    }

    /// Starts a process and waits until it is ready.
    pub(super) async fn start(
        &mut self,
        world: &World,
        stage: &Stage,
        name: &str,
    ) -> anyhow::Result<()> {
        let process = world.process(name)?;
        let mut running = raise(process, stage, &self.scratch).await?;
        let (lines, name) = (self.lines.clone(), name.to_owned());
        let of_task = name.clone();
        // Brokers talk much of what concerns nobody here.
        let is_heard = !matches!(process.program(), Program::Broker(_));
        let task = tokio::spawn(async move {
            while let Some(line) = running.line().await {
                if is_heard {
                    // Who listened may be gone; then the process is killed in a moment.
                    let _ = lines.send(format!("[{of_task}] {line}")).await;
                }
            }
            let _ = lines.send(format!("[{of_task}] has ended")).await;
        });
        self.running.insert(name, Running(task));
        Ok(())
    }

    /// Does to a link or to a process what a fault says.
    pub(super) async fn apply(
        &mut self,
        world: &World,
        stage: &Stage,
        target: Target,
    ) -> anyhow::Result<()> {
        match target {
            Target::Link(name, met, change) => {
                let wire = stage.wire(&name)?;
                for (way, is_met) in Way::ALL.into_iter().zip(met) {
                    if is_met {
                        wire.change(way, change.clone());
                    }
                }
            }
            Target::Kill(name) => drop(self.running.remove(&name)),
            Target::Restart(name) => {
                if let Some(mut old) = self.running.remove(&name) {
                    old.0.abort();
                    // Its ports are free when it is dropped, which is before the task is over.
                    let _ = (&mut old.0).await;
                }
                self.start(world, stage, &name).await?;
            }
        }
        Ok(())
    }
}
