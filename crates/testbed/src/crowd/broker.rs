//! A broker that is killed.

use std::io;
use std::process::{Child, Command, Stdio};

/// A broker's process; it is killed when this is dropped.
#[derive(Debug)]
pub struct CrowdBroker(Child);

impl CrowdBroker {
    /// Starts one.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(command: &mut Command) -> io::Result<CrowdBroker> {
        let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        silent.spawn().map(CrowdBroker)
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for CrowdBroker {
    fn drop(&mut self) {
        // One that has ended by itself is dead as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
