//! An etcd of the test's own: members on loopback with TLS, folders that go with it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_testbed::free_port;

use crate::support::certificates::{Authority, Issued};

static FOLDERS: AtomicUsize = AtomicUsize::new(0);

struct Member {
    client: u16,
    peer: u16,
    process: Option<Child>,
}

/// See the file's header.
pub(crate) struct Etcd {
    folder: PathBuf,
    /// Certificate of an authority that clients are to have, and its own.
    ca: PathBuf,
    own: Issued,
    members: Vec<Member>,
}

impl Etcd {
    /// Starts so many members; `None`, saying so, where it is not installed.
    pub(crate) fn start(count: usize, authority: &Authority) -> Option<Etcd> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: needs etcd (etcd-server), not found");
            return None;
        }
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-etcd-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let member = |_| Member { client: free_port(), peer: free_port(), process: None };
        let members = (0..count).map(member).collect();
        let (ca, own) = (authority.ca(), authority.issue("etcd"));
        let mut etcd = Etcd { folder, ca, own, members };
        (0..count).for_each(|place| etcd.start_member(place));
        Some(etcd)
    }

    /// Starts a member, with what it knew if it ran before.
    pub(crate) fn start_member(&mut self, place: usize) {
        let all: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .map(|(place, member)| format!("m{place}=http://127.0.0.1:{}", member.peer))
            .collect();
        let Member { client, peer, .. } = &self.members[place];
        let (client, peer) =
            (format!("https://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new("etcd");
        command.args(["--name", &format!("m{place}"), "--initial-cluster", &all.join(",")]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.arg("--data-dir").arg(self.folder.join(format!("m{place}")));
        command.arg("--trusted-ca-file").arg(&self.ca).arg("--client-cert-auth");
        command.arg("--cert-file").arg(&self.own.certificate).arg("--key-file").arg(&self.own.key);
        command.args(["--logger", "zap", "--log-level", "error"]);
        // Where Debian builds it and its authors do not test it.
        command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.members[place].process = Some(process.spawn().unwrap());
    }

    /// Ends a member as a power failure does.
    pub(crate) fn kill_member(&mut self, place: usize) {
        if let Some(mut process) = self.members[place].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// As an orchestrator's configuration has it.
    pub(crate) fn urls(&self) -> Vec<String> {
        let url = |member: &Member| format!("https://127.0.0.1:{}", member.client);
        self.members.iter().map(url).collect()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|place| self.kill_member(place));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
