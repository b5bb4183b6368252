//! The processes of a world: any program, nodes of given configurations, brokers of the lab.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::net::process::Process;
use crate::net::pump::Way;
use crate::net::scratch::Scratch;
use crate::net::stage::Stage;
use crate::rig::{self, brokers, versions};
use crate::world::{self, Broker, Program, Target, World};

/// Time for a process to be ready: a broker's virtual machine is slow to boot on a busy machine.
const READY: Duration = Duration::from_secs(90);
/// Lines that may wait to be printed; beyond it a process waits.
const LINES_MAX: usize = 1024;
/// The variable in which a node finds the password of the lab's brokers.
const PASSWORD: &str = "BROKER_PASSWORD";

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
        let command = self.command(process, stage)?;
        let mut running = Process::start(name, command)?;
        if let Some(ready) = ready(process) {
            running.says(ready, READY).await?;
        }
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

    fn command(&self, process: &world::Process, stage: &Stage) -> anyhow::Result<Command> {
        let scratch = &self.scratch;
        match process.program() {
            Program::Command(words) => stage.command(&process.host, words),
            Program::Tidegate(configuration) => {
                let text = stage.fill(configuration)?;
                let file = scratch.file(&format!("{}.toml", process.name), &text)?;
                let mut command = stage.host(&process.host)?.command(rig::tidegate_program()?);
                command.args(["run", "-c"]).arg(file);
                command.env(PASSWORD, brokers::USER).current_dir(scratch.path());
                Ok(command)
            }
            Program::Broker(broker) => {
                let host = stage.host(&process.host)?;
                let settings = stage.fill(process.settings.as_deref().unwrap_or_default())?;
                match broker {
                    Broker::Rabbitmq => {
                        let mut command = host.command(versions::Program::RabbitMq.path()?);
                        brokers::set_up_rabbitmq(&mut command, &settings, scratch)?;
                        Ok(command)
                    }
                    Broker::Mosquitto => {
                        let port = brokers::MQTT_PORT;
                        let text =
                            format!("listener {port} 0.0.0.0\nallow_anonymous true\n{settings}");
                        let file = scratch.file(&format!("{}.conf", process.name), &text)?;
                        let mut command = host.command("mosquitto");
                        command.arg("-c").arg(file);
                        Ok(command)
                    }
                }
            }
        }
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

/// What a process says when it can serve.
fn ready(process: &world::Process) -> Option<&str> {
    let usual = match process.program() {
        Program::Command(_) => None,
        Program::Tidegate(_) => Some("output is up"),
        Program::Broker(Broker::Rabbitmq) => Some(brokers::RABBITMQ_READY),
        Program::Broker(Broker::Mosquitto) => Some("running"),
    };
    process.ready.as_deref().or(usual)
}
