//! A process of a world as a program on its host: any command, a node, a broker, a client of the lab, a part of zenoh.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::brokers::{self, MQTT_PORT, NATS_PORT, USER};
use super::versions::{self, Program as Versioned};
use crate::load;
use crate::net::NetError;
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::stage::Stage;
use crate::world::{self, Broker, Program};

/// Time for a process to be ready: a broker's virtual machine is slow to boot on a busy machine.
const READY: Duration = Duration::from_secs(90);
/// The variable in which a node finds the password of the lab's brokers.
const PASSWORD: &str = "BROKER_PASSWORD";
/// zenoh's routers and clients: sessions of its package for Python.
const ZENOH: &str = include_str!("zenoh.py");

/// Starts a process and waits until it is ready; its files stand in the scratch folder.
///
/// # Errors
/// Its program is not here, or it does not come up.
pub async fn raise(
    process: &world::Process,
    stage: &Stage,
    scratch: &Scratch,
) -> anyhow::Result<Process> {
    let mut running = Process::start(&process.name, command(process, stage, scratch)?)?;
    if let Some(ready) = ready(process) {
        running.says(ready, READY).await?;
    }
    Ok(running)
}

/// The command of a process, its addresses filled in.
///
/// # Errors
/// A program that is not here, and an address of nobody.
pub fn command(
    process: &world::Process,
    stage: &Stage,
    scratch: &Scratch,
) -> anyhow::Result<Command> {
    let settings = stage.fill(process.settings.as_deref().unwrap_or_default())?;
    let file = |kind: &str, text: &str| scratch.file(&format!("{}.{kind}", process.name), text);
    let on_host = |program: &Path| anyhow::Ok(stage.host(&process.host)?.command(program));
    let mut command = match process.program() {
        Program::Command(words) => {
            let mut words = words.to_vec();
            let is_missing = |word: &&String| !word.contains('/') && !versions::is_installed(word);
            if let Some(program) = words.first().filter(is_missing) {
                let (program, package) = (program.clone(), "of the same name");
                return Err(NetError::Missing { program, package }.into());
            }
            if process.settings.is_some() {
                let file = file("conf", &settings)?.display().to_string();
                words.iter_mut().for_each(|word| *word = word.replace("{settings}", &file));
            }
            return stage.command(&process.host, &words);
        }
        Program::Tidegate(configuration) => {
            let mut command = on_host(&super::tidegate_program()?)?;
            command.args(["run", "-c"]).arg(file("toml", &stage.fill(configuration)?)?);
            command.env(PASSWORD, USER);
            command
        }
        Program::Broker(broker) => {
            let mut command = on_host(&versioned(broker).path()?)?;
            let text = match broker {
                Broker::Rabbitmq => {
                    brokers::set_up_rabbitmq(&mut command, &settings, scratch)?;
                    return Ok(command);
                }
                Broker::Mosquitto => {
                    format!("listener {MQTT_PORT} 0.0.0.0\nallow_anonymous true\n{settings}")
                }
                Broker::Nats => format!("listen: \"0.0.0.0:{NATS_PORT}\"\n{settings}"),
            };
            command.arg("-c").arg(file("conf", &text)?);
            command
        }
        Program::Client(job) => {
            let mut command = on_host(&std::env::current_exe()?)?;
            command.arg(load::COMMAND).arg(stage.fill(&job.to_string())?);
            command
        }
        Program::Zenoh(job) => {
            let mut command = on_host(&Versioned::Zenoh.path()?)?;
            command.arg(file("py", ZENOH)?).arg(stage.fill(&job.to_string())?);
            command
        }
    };
    command.current_dir(scratch.path());
    Ok(command)
}

/// The name of its program and which version of that is here; `None` where it is the lab itself.
pub fn version(process: &world::Process) -> Option<(String, String)> {
    let program = match process.program() {
        Program::Client(_) => return None,
        Program::Command(words) => {
            let name = words.first()?;
            return Some((name.clone(), versions::of_command(name)));
        }
        Program::Tidegate(_) => Versioned::Tidegate,
        Program::Broker(broker) => versioned(broker),
        Program::Zenoh(_) => Versioned::Zenoh,
    };
    Some((program.name().into(), program.version()))
}

fn versioned(broker: Broker) -> Versioned {
    match broker {
        Broker::Rabbitmq => Versioned::RabbitMq,
        Broker::Mosquitto => Versioned::Mosquitto,
        Broker::Nats => Versioned::Nats,
    }
}

/// What a process says when it can serve.
fn ready(process: &world::Process) -> Option<&str> {
    let usual = match process.program() {
        Program::Command(_) => None,
        Program::Tidegate(_) => Some("output is up"),
        Program::Broker(Broker::Rabbitmq) => Some("Server startup complete"),
        Program::Broker(Broker::Mosquitto) => Some("running"),
        Program::Broker(Broker::Nats) => Some("Server is ready"),
        Program::Client(_) | Program::Zenoh(_) => Some(load::READY),
    };
    process.ready.as_deref().or(usual)
}
