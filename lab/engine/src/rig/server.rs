//! A program that listens on loopback: its process, its configuration, its CPU and memory.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::raw;
use crate::net::scratch::Scratch;
use crate::net::usage::{on_processor, resident_kib};

/// A contestant's process; ended when dropped.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
    _folder: Scratch,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts a program with these arguments and this configuration in a folder of its own, and waits until it
    /// takes connections at `address`.
    pub fn launch(
        (program, arguments): (&Path, &[&str]),
        address: SocketAddr,
        text: &str,
        speaks_tls: bool,
    ) -> io::Result<Self> {
        Server::launch_with((program, arguments), "-c", address, text, speaks_tls)
    }

    /// The same for a program that takes its configuration by this argument.
    pub fn launch_with(
        (program, arguments): (&Path, &[&str]),
        by: &str,
        address: SocketAddr,
        text: &str,
        speaks_tls: bool,
    ) -> io::Result<Self> {
        let folder = Scratch::new().map_err(io::Error::other)?;
        let file = folder.file("config", text).map_err(io::Error::other)?;
        let process = spawn(program, arguments, by, &file, folder.path())?;
        let server = Server { process, address, _folder: folder };
        wait_until_up(address, speaks_tls)?;
        Ok(server)
    }

    /// Processor time of the process so far.
    pub fn cpu(&self) -> io::Result<Duration> {
        on_processor(self.process.id())
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> io::Result<u64> {
        Ok(resident_kib(self.process.id())?[0])
    }
}

/// Both limits of open files must be above the idle connections; the shell sets the child's.
fn spawn(
    program: &Path,
    arguments: &[&str],
    by: &str,
    file: &Path,
    folder: &Path,
) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", "ulimit -n 65536 2>/dev/null; exec \"$@\"", "sh"])
        .arg(program)
        .args(arguments)
        .arg(by)
        .arg(file)
        .current_dir(folder)
        .env("TIDEGATE_LAB_KEY", "5a".repeat(32))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn wait_until_up(address: SocketAddr, speaks_tls: bool) -> io::Result<()> {
    let start = Instant::now();
    loop {
        let answer = match speaks_tls {
            true => TcpStream::connect(address).map(drop),
            false => raw::log_in(address, "probe").map(drop),
        };
        match answer {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > Duration::from_secs(20) => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
