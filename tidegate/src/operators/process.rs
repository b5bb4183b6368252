//! A step outside: a child process that reads a line for each record and answers with one. It is started when
//! the first record comes, and again, after waits, when it ended or did not answer in time.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_stream::{
    Item, ItemContent, OperatorStep, StepError, StepInstance, read_json, write_json,
};

/// Longest line, both ways.
const LINE_MAX: u64 = 1 << 20;
/// Waits before it is started again, doubled each time it ends without an answer.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// A process, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessStep {
    /// Program and arguments.
    pub(super) command: Vec<String>,
    /// How long an answer may take.
    pub(super) timeout: Duration,
}

impl OperatorStep for ProcessStep {
    fn start(&self) -> Box<dyn StepInstance> {
        Box::new(ProcessRun { step: self.clone(), child: None, wait: WAITS.0, again_at: None })
    }
}

struct ProcessRun {
    step: ProcessStep,
    child: Option<Running>,
    wait: Duration,
    again_at: Option<Instant>,
}

/// A child, and the threads that write to it and read from it: neither may hold up a worker for longer than an
/// answer may take.
struct Running {
    child: Child,
    lines: SyncSender<Vec<u8>>,
    answers: Receiver<Vec<u8>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ProcessRun {
    fn child(&mut self) -> Option<&Running> {
        if self.child.is_none() {
            if self.again_at.is_some_and(|at| Instant::now() < at) {
                return None;
            }
            match start(&self.step.command) {
                Ok(child) => self.child = Some(child),
                Err(error) => self.fail(&error.to_string()),
            }
        }
        self.child.as_ref()
    }

    fn fail(&mut self, why: &str) {
        self.child = None;
        let name = self.step.command.first().map(String::as_str).unwrap_or_default();
        tracing::warn!("the process {name:?} of an operator: {why}; again in {:?}", self.wait);
        self.again_at = Some(Instant::now() + self.wait);
        self.wait = (self.wait * 2).min(WAITS.1);
    }

    fn ask(&mut self, line: Vec<u8>) -> Result<Vec<u8>, StepError> {
        let timeout = self.step.timeout;
        let child = self.child().ok_or(StepError::Process)?;
        let answer = match child.lines.send(line) {
            Ok(()) => child.answers.recv_timeout(timeout).ok(),
            Err(_) => None,
        };
        match answer {
            Some(answer) => {
                self.wait = WAITS.0;
                Ok(answer)
            }
            None => {
                self.fail("it ended, or gave no answer in time");
                Err(StepError::Process)
            }
        }
    }
}

fn start(command: &[String]) -> std::io::Result<Running> {
    let (program, arguments) = command.split_first().ok_or(std::io::ErrorKind::NotFound)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut input, output) = (child.stdin.take(), child.stdout.take());
    let (lines, to_write) = sync_channel::<Vec<u8>>(1);
    let (to_answer, answers) = sync_channel(1);
    let running = Running { child, lines, answers };
    let name = || thread::Builder::new().name("operator-pipe".into());
    name().spawn(move || {
        while let (Ok(line), Some(input)) = (to_write.recv(), &mut input) {
            if input.write_all(&line).and_then(|()| input.flush()).is_err() {
                break;
            }
        }
    })?;
    name().spawn(move || {
        let Some(output) = output else { return };
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read = output.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
            // Its end, or no line at all.
            if read.is_err() || line.pop() != Some(b'\n') || to_answer.send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(running)
}

impl StepInstance for ProcessRun {
    fn run(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let (mut line, is_row) = match &item.content {
            ItemContent::Payload(payload) => (payload.to_vec(), false),
            ItemContent::Row(row) => (write_json(row), true),
        };
        if line.contains(&b'\n') {
            return Err(StepError::Parse);
        }
        if line.len() as u64 >= LINE_MAX {
            return Err(StepError::Bound);
        }
        line.push(b'\n');
        let answer = self.ask(line)?;
        if answer.is_empty() {
            return Ok(());
        }
        if is_row {
            let rows = read_json(&answer)?;
            out.extend(
                rows.into_iter().map(|row| Item { at: item.at, content: ItemContent::Row(row) }),
            );
        } else {
            out.push(Item { at: item.at, content: ItemContent::Payload(Bytes::from(answer)) });
        }
        Ok(())
    }
}
