//! A program that runs beside the lab and ends with it, whose lines are read as they come.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

use super::NetError;

/// Lines kept to explain a failure.
const LAST_LINES: usize = 12;
/// Lines that may wait to be read; beyond it the program waits.
const LINES_MAX: usize = 1024;

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    lines: mpsc::Receiver<String>,
    last: VecDeque<String>,
}

impl Process {
    /// Starts it without input; output and errors are read as one stream of lines.
    pub fn start(name: &str, command: std::process::Command) -> Result<Process, NetError> {
        let mut command = Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let doing = || format!("could not start {name}");
        let started = command.kill_on_drop(true).spawn();
        let mut child = started.map_err(|source| NetError::Io { doing: doing(), source })?;
        let (sender, lines) = mpsc::channel(LINES_MAX);
        if let Some(output) = child.stdout.take() {
            tokio::spawn(forward(output, sender.clone()));
        }
        if let Some(errors) = child.stderr.take() {
            tokio::spawn(forward(errors, sender));
        }
        Ok(Process { name: name.into(), child, lines, last: VecDeque::new() })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks it to end, as `kill` does.
    pub fn terminate(&self) -> Result<(), NetError> {
        let id = self.id().unwrap_or_default().to_string();
        super::run("kill", &["-TERM", &id]).map(drop)
    }

    /// Its next line; `None` when it has closed its outputs. Cancel-safe.
    pub async fn line(&mut self) -> Option<String> {
        let line = self.lines.recv().await?;
        self.last.truncate(LAST_LINES - 1);
        self.last.push_front(line.clone());
        Some(line)
    }

    /// Waits for a line that contains `expected` and returns it.
    pub async fn says(&mut self, expected: &str, within: Duration) -> Result<String, NetError> {
        let search = async {
            loop {
                match self.line().await {
                    Some(line) if line.contains(expected) => break Some(line),
                    Some(_) => {}
                    None => break None,
                }
            }
        };
        let found = tokio::time::timeout(within, search).await;
        let how = match &found {
            Ok(_) => "ended before it said".to_owned(),
            Err(_) => format!("did not within {} s say", within.as_secs()),
        };
        found.ok().flatten().ok_or_else(|| NetError::Silent {
            name: self.name.clone(),
            how,
            expected: expected.into(),
            said: self.last_lines(),
        })
    }

    /// What it said last, oldest first.
    pub fn last_lines(&self) -> String {
        self.last.iter().rev().map(|line| format!("    {line}\n")).collect()
    }

    /// Reads and forgets its lines from now on, so that it never waits for a reader. Dropping the
    /// answer kills it, as dropping the process would.
    pub fn quietly(mut self) -> Quiet {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let read = async { while self.line().await.is_some() {} };
            let is_told = tokio::select! {
                told = stopped => told.is_ok(),
                () = read => false,
            };
            if is_told {
                // An error means that it has ended.
                let _ = self.child.kill().await;
            }
        });
        Quiet { stop: Some(stop), task }
    }
}

/// A process that nobody listens to. Dropping it kills it.
#[derive(Debug)]
pub struct Quiet {
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

impl Quiet {
    /// Kills it; when this returns it is gone, and with it all that it held.
    pub async fn kill(mut self) {
        // A task that has ended by itself hears nothing.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = (&mut self.task).await;
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(output: impl AsyncRead + Unpin, lines: mpsc::Sender<String>) {
    let mut reader = BufReader::new(output).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        if lines.send(line).await.is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> std::process::Command {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn its_words_are_heard_and_its_silence_is_explained() {
        let script = "echo starting; echo ready at 7 >&2; exec sleep 600";
        let mut process = Process::start("a server", shell(script)).unwrap();
        assert_eq!(process.says("ready", Duration::from_secs(60)).await.unwrap(), "ready at 7");
        let mut process = Process::start("a server", shell("echo no such port")).unwrap();
        let error = process.says("ready", Duration::from_secs(60)).await.unwrap_err().to_string();
        assert!(error.contains("no such port"), "{error}");
    }

    #[tokio::test]
    async fn it_ends_with_its_owner() {
        let process = Process::start("a server", shell("exec sleep 600")).unwrap();
        let id = process.id().unwrap();
        drop(process);
        // A killed process is a zombie until tokio reaps it: either way it runs no more.
        let path = format!("/proc/{id}/stat");
        let runs = |text: String| !text.contains(") Z ") && !text.contains(") X ");
        while std::fs::read_to_string(&path).is_ok_and(runs) {
            tokio::task::yield_now().await;
        }
    }
}
