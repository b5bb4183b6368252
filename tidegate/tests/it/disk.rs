//! A node whose log lies on a disk in trouble: full, read-only, not its own. Needs the right to mount.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_testbed::free_port;

use crate::support::process::Node;

/// How often a status is asked for.
const POLL: Duration = Duration::from_millis(50);
/// MQTT 5: quota exceeded.
const QUOTA: u8 = 0x97;
/// What a test says where it may not mount.
const SKIPPED: &str = "skipped: needs the right to mount a disk, not found";

/// A small disk, and what is mounted over its folders; all goes with the test.
struct Disk {
    path: PathBuf,
    mounts: Vec<PathBuf>,
}

impl Disk {
    /// One of so many KiB; `None` where we may not make one.
    fn new(name: &str, kib: u32) -> Option<Disk> {
        let name = format!("tidegate-disk-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        let mut disk = Disk { path: path.clone(), mounts: Vec::new() };
        let options = format!("size={kib}k,mode=755");
        let made = disk.mount(&["-t", "tmpfs", "-o", &options, "tidegate-test"], &path);
        made.then_some(disk)
    }

    fn mount(&mut self, arguments: &[&str], at: &Path) -> bool {
        let mount = Command::new("mount").args(arguments).arg(at).output();
        let is_made = mount.is_ok_and(|mount| mount.status.success());
        if is_made {
            self.mounts.push(at.into());
        }
        is_made
    }

    fn unmount(&mut self) {
        let at = self.mounts.pop().unwrap();
        assert!(Command::new("umount").arg(at).status().unwrap().success());
    }

    /// Takes all the room that is left; what is answered goes to give it back.
    fn fill(&self) -> PathBuf {
        let filler = self.path.join("filler");
        // Until there is not one byte more.
        let filled = fs::write(&filler, vec![0; 1 << 22]);
        assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        filler
    }

    /// The folder of the log: new names in it are refused until `unmount`.
    fn make_read_only(&mut self) {
        let log = self.log();
        assert!(self.mount(&["--bind", log.to_str().unwrap()], &log));
        let options = ["-o", "remount,bind,ro"];
        assert!(Command::new("mount").args(options).arg(&log).status().unwrap().success());
    }

    fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// A node with its log here, whose far end is at a port of this machine.
    fn node(&self, name: &str, port: u16, log: &str) -> String {
        format!(
            "[node]\nname = \"{name}\"\nstop_timeout = \"30s\"\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
             [[output]]\nname = \"out\"\nmqtt = {{ url = \"mqtt://127.0.0.1:{port}\" }}\n\
             [http]\nlisten = \"127.0.0.1:0\"\n[log]\ndirectory = {:?}\n{log}",
            self.log()
        )
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for at in self.mounts.iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(at).status();
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A publisher with MQTT 5 that hears why it is refused.
struct Publisher(TcpStream);

impl Publisher {
    fn connect(address: &str) -> Publisher {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x01p").unwrap();
        let mut publisher = Publisher(stream);
        let (kind, connack) = publisher.packet();
        assert_eq!((kind, connack[1]), (0x20, 0));
        publisher
    }

    fn packet(&mut self) -> (u8, Vec<u8>) {
        let mut byte = || {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            byte[0]
        };
        let kind = byte();
        let (mut length, mut shift) = (0, 0);
        loop {
            let digit = byte();
            length |= usize::from(digit & 0x7f) << shift;
            shift += 7;
            if digit < 0x80 {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (kind, body)
    }

    /// Publishes 4000 bytes with QoS 1; the reason code of the answer.
    fn publish(&mut self) -> u8 {
        // Topic "t", packet 1, no properties: 6 bytes before the payload.
        let mut packet = vec![0x32, 0xa6, 0x1f, 0, 1, b't', 0, 1, 0];
        packet.extend([b'x'; 4000]);
        self.0.write_all(&packet).unwrap();
        let (kind, puback) = self.packet();
        assert_eq!((kind, &puback[..2]), (0x40, &[0, 1][..]));
        puback.get(2).copied().unwrap_or(0)
    }

    /// Publishes until it is refused for want of room; answers with how many were accepted.
    fn publish_until_refused(&mut self) -> u64 {
        let mut accepted = 0;
        loop {
            match self.publish() {
                0 => accepted += 1,
                code => {
                    assert_eq!(code, QUOTA);
                    return accepted;
                }
            }
            assert!(accepted < 10_000, "the disk is never full");
        }
    }
}

/// Asks a node over HTTP.
fn fetch(page: &str, path: &str) -> String {
    let mut site = TcpStream::connect(page).unwrap();
    site.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    site.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Waits until a node holds nothing and its log works; answers with its status.
fn wait_until_well(page: &str) -> serde_json::Value {
    loop {
        let status: serde_json::Value = serde_json::from_str(&fetch(page, "/status")).unwrap();
        if status["held_deliveries"] == 0 && status["log"]["is_working"] == true {
            return status;
        }
        std::thread::sleep(POLL);
    }
}

fn far_end(name: &str, port: u16) -> Node {
    let config = format!(
        "[[input]]\nmqtt = {{ listen = \"127.0.0.1:{port}\" }}\n\
         [[output]]\nsink = {{ discard = true }}\n[http]\nlisten = []\n"
    );
    let mut node = Node::start(name, &config);
    node.wait_for("ready");
    node
}

/// The node fills the disk, refuses, delivers what it holds, and accepts again.
fn a_full_disk_is_lived_through(disk: &Disk, name: &str, log: &str) {
    let port = free_port();
    let mut node = Node::start(name, &disk.node(name, port, log));
    let mqtt = node.wait_for("MQTT at ");
    let page = node.wait_for("status page at http://");
    let mut publisher = Publisher::connect(&mqtt);
    let accepted = publisher.publish_until_refused();
    assert!(accepted > 100, "{accepted}");
    node.wait_for("durable records are refused");
    assert!(!fetch(&page, "/metrics").contains("tidegate_log_failed_commits_total 0\n"));
    let _far = far_end(&format!("{name}-far"), port);
    let status = wait_until_well(&page);
    assert!(status["counts"]["confirmed"].as_u64().unwrap() >= accepted, "{status}");
    assert_eq!(status["counts"]["dropped"]["storage"], 0, "{status}");
    assert!(status["log"]["bytes"].as_u64().unwrap() < 512 * 1024, "{status}");
    assert_eq!(publisher.publish(), 0, "there is room again");
    node.signal();
    let told = node.wait_for("stopped: ");
    assert!(told.contains("dropped 0, held 0, lost 0"), "{told}");
    assert_eq!(node.end().code(), Some(0));
    let empty = |entry: &fs::DirEntry| entry.metadata().unwrap().len() == 0;
    let left = fs::read_dir(disk.log()).unwrap().map(Result::unwrap).filter(empty).count();
    assert_eq!(left, 1, "only the lock is an empty file");
}

#[test]
fn a_disk_that_fills_up_is_emptied_by_delivery() {
    let Some(disk) = Disk::new("full", 1024) else {
        println!("{SKIPPED}");
        return;
    };
    a_full_disk_is_lived_through(&disk, "full", "segment = \"64KiB\"\n");
}

#[test]
fn a_disk_smaller_than_a_segment_is_emptied_by_delivery() {
    let Some(disk) = Disk::new("narrow", 1024) else {
        println!("{SKIPPED}");
        return;
    };
    a_full_disk_is_lived_through(&disk, "narrow", "");
}

#[test]
fn a_start_on_a_full_disk_waits_for_room() {
    let Some(disk) = Disk::new("filled", 1024) else {
        println!("{SKIPPED}");
        return;
    };
    let filler = disk.fill();
    let config = disk.node("filled", 1, "");
    let mut node = Node::start("filled", &config);
    node.wait_for("durable records are refused until it can");
    let mqtt = node.wait_for("MQTT at ");
    let mut publisher = Publisher::connect(&mqtt);
    assert_eq!(publisher.publish(), QUOTA);
    fs::remove_file(filler).unwrap();
    node.wait_for("the log works again");
    assert_eq!(publisher.publish(), 0);
}

#[test]
fn a_folder_that_becomes_read_only_refuses_until_it_is_writable() {
    let Some(mut disk) = Disk::new("read-only", 8192) else {
        println!("{SKIPPED}");
        return;
    };
    let port = free_port();
    let config = disk.node("read-only", port, "segment = \"64KiB\"\n");
    let mut node = Node::start("read-only", &config);
    let mqtt = node.wait_for("MQTT at ");
    let page = node.wait_for("status page at http://");
    let mut publisher = Publisher::connect(&mqtt);
    assert_eq!(publisher.publish(), 0);
    disk.make_read_only();
    let accepted = publisher.publish_until_refused();
    node.wait_for("Read-only file system");
    node.wait_for("durable records are refused");
    assert_eq!(publisher.publish(), QUOTA, "as long as nothing has changed");
    let _far = far_end("read-only-far", port);
    disk.unmount();
    node.wait_for("the log works again");
    let status = wait_until_well(&page);
    assert!(status["counts"]["confirmed"].as_u64().unwrap() > accepted, "{status}");
    assert_eq!(publisher.publish(), 0);
    node.signal();
    let told = node.wait_for("stopped: ");
    assert!(told.contains("dropped 0, held 0, lost 0"), "{told}");
    assert_eq!(node.end().code(), Some(0));
}

#[test]
fn a_folder_that_may_not_be_written_is_told_with_its_cure() {
    let Some(mut disk) = Disk::new("forbidden", 1024) else {
        println!("{SKIPPED}");
        return;
    };
    let config = disk.node("forbidden", 1, "");
    // Somebody who is nobody, as the binary may be read by everybody.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.uid(65_534).gid(65_534);
    let mut node = Node::start_by(command, "forbidden", &config);
    let told = node.wait_for("tidegate: log: ");
    let folder = disk.log();
    assert!(
        told.contains(folder.to_str().unwrap()) && told.contains("Permission denied"),
        "{told}"
    );
    assert!(told.contains("chown"), "{told}");
    assert_eq!(node.end().code(), Some(1));
    fs::create_dir_all(&folder).unwrap();
    disk.make_read_only();
    let mut node = Node::start("forbidden", &config);
    let told = node.wait_for("tidegate: log: ");
    assert!(told.contains("Read-only file system") && told.contains("writable"), "{told}");
    assert_eq!(node.end().code(), Some(1));
}
