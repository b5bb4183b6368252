//! Keeps the CPUs awake during a benchmark: one process a CPU that does nothing, at idle priority.
//!
//! The CPUs of a virtual machine take long to wake up, which shows as latency that no contestant has.
//! A `SCHED_IDLE` process gives way to everything else at once.

use std::process::{Child, Command, Stdio};

use super::NetError;

/// The hidden command of the lab's program that [`spin`]s.
pub const COMMAND: &str = "spin";

/// The running spinners. Dropping it ends them.
#[derive(Debug)]
pub struct Spinners(Vec<Child>);

impl Spinners {
    /// Starts one for each CPU.
    pub fn start() -> Result<Spinners, NetError> {
        let own =
            |source| NetError::Io { doing: "could not find the lab's program".into(), source };
        let program = std::env::current_exe().map_err(own)?;
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let mut spinners = Spinners(Vec::new());
        for _ in 0..count {
            let mut command = Command::new("chrt");
            command.args(["--idle", "0"]).arg(&program).arg(COMMAND).stdin(Stdio::null());
            command.arg(std::process::id().to_string());
            let missing = |_| NetError::Missing { program: "chrt".into(), package: "util-linux" };
            spinners.0.push(command.spawn().map_err(missing)?);
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            // Fails only if it has ended by itself.
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}

/// Spins until the process that started it, `parent`, is gone: a killed benchmark must not leave it behind.
/// It is told who that is: by the time it looks, another one may have inherited it.
pub fn spin(parent: u32) {
    /// Some tens of milliseconds between looks.
    const ROUNDS: u64 = 1 << 26;
    while std::os::unix::process::parent_id() == parent {
        for round in 0..ROUNDS {
            std::hint::black_box(round);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_inherited_before_it_looked_ends_at_once() {
        let own = std::os::unix::process::parent_id();
        spin(own + 1);
    }
}
