//! A node as a process of its own, and a client of it.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

/// A node that runs; ends with the test.
pub(crate) struct Node {
    pub(crate) process: Child,
    log: Option<BufReader<ChildStderr>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Node {
    pub(crate) fn start(name: &str, config: &str) -> Node {
        Node::start_by(Command::new(env!("CARGO_BIN_EXE_tidegate")), name, config)
    }

    /// With a command that ends in the program.
    pub(crate) fn start_by(command: Command, name: &str, config: &str) -> Node {
        Node::start_as("run", command, name, config)
    }

    /// The orchestrator of a fleet.
    pub(crate) fn orchestrator(name: &str, config: &str) -> Node {
        Node::start_as("orchestrate", Command::new(env!("CARGO_BIN_EXE_tidegate")), name, config)
    }

    fn start_as(what: &str, mut command: Command, name: &str, config: &str) -> Node {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let file = folder.join(format!("{name}.toml"));
        std::fs::write(&file, config).unwrap();
        let mut process = command
            .args([what, "-c"])
            .arg(file)
            .current_dir(folder)
            .env_remove("TIDEGATE_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        Node { process, log: Some(log) }
    }

    /// Reads the log up to the first line with `text`; returns what follows it there.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let log = self.log.as_mut().unwrap();
            assert!(log.read_line(&mut line).unwrap() > 0, "no {text:?} in\n{seen}");
            if let Some((_, after)) = line.split_once(text) {
                return after.trim_end().to_owned();
            }
            seen.push_str(&line);
        }
    }

    /// Reads the log until each of these was in a line of it, in whatever order.
    pub(crate) fn wait_for_all(&mut self, texts: &[&str]) {
        let (mut seen, log) = (String::new(), self.log.as_mut().unwrap());
        while texts.iter().any(|text| !seen.contains(text)) {
            assert!(log.read_line(&mut seen).unwrap() > 0, "not all of {texts:?} in\n{seen}");
        }
    }

    /// The rest of the log, for who reads it elsewhere.
    pub(crate) fn take_log(&mut self) -> BufReader<ChildStderr> {
        self.log.take().unwrap()
    }

    pub(crate) fn signal(&self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    /// Another configuration, which it reads at once; returns when it is in force.
    pub(crate) fn reload(&mut self, name: &str, config: &str) {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(folder.join(format!("{name}.toml")), config).unwrap();
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        self.wait_for("the configuration was read again and is in force");
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

/// Publishes one record with QoS 1 by MQTT 3.1.1 and waits for its PUBACK.
pub(crate) fn publish(address: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a").unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"\x20\x02\x00\x00");
    client.write_all(b"\x32\x07\x00\x01t\x00\x01hi").unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"\x40\x02\x00\x01");
    client
}
