//! `tidegate proxy` as users run it: by its command line, with curl, and with connections that are led to it.

#![cfg(target_os = "linux")]
mod envoy;
mod reload;
mod transparent;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A running proxy, killed with the test.
struct Proxy {
    child: Child,
    /// Where it listens.
    address: String,
}

impl Proxy {
    /// Waits until it listens.
    fn start(command: &mut Command) -> Proxy {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else { panic!("it ended: {said:#?}") };
            if let Some((_, rest)) = line.split_once("requests at ") {
                break rest.split_whitespace().next().unwrap().to_owned();
            }
            said.push(line);
        };
        std::thread::spawn(move || lines.for_each(drop));
        Proxy { child, address }
    }

    /// Asks it to end; answers with whether it ended well.
    fn stop(mut self) -> bool {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["--log", "info", "proxy"]);
    command
}

/// A server that answers each connection's first request with a text, and closes it.
fn server(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let length = text.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
            );
        }
    });
    address
}

fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn curl(words: &[&str]) -> Output {
    Command::new("curl").args(["--silent", "--max-time", "60"]).args(words).output().unwrap()
}

#[test]
fn curl_speaks_through_it() {
    if !has("curl") {
        println!("skipped: needs curl, not found");
        return;
    }
    let to = server("hello\n");
    let proxy = Proxy::start(tidegate().args(["--listen", "127.0.0.1:0", "--to", &to]));
    let url = format!("http://{}/a", proxy.address);
    for version in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
        let output = curl(&[version, &url]);
        assert_eq!(output.stdout, b"hello\n", "{version}: {output:?}");
    }
    assert!(proxy.stop(), "it ends by a signal without an error");
}

#[test]
fn it_answers_in_its_own_version_and_lets_other_protocols_pass() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    // An upstream of the last century, which says back what is no HTTP.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            let mut first = [0; 4096];
            let count = stream.read(&mut first).unwrap();
            let answer: &[u8] = match first.starts_with(b"GET ") {
                true => b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
                false => &first[..count],
            };
            stream.write_all(answer).unwrap();
        }
    });
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("proxy-other.toml");
    let listener = "[[proxy.listener]]\nlisten = \"127.0.0.1:0\"\n";
    let upstream = format!("[[proxy.upstream]]\nname = \"app\"\nto = [{to:?}]\n");
    let talk = |proxy: &Proxy, words: &[u8]| {
        let mut client = TcpStream::connect(&proxy.address).unwrap();
        client.write_all(words).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let other = b"*1\r\n$4\r\nPING\r\n";
    for more in ["", "other = \"app\"\n"] {
        std::fs::write(&file, format!("{listener}{more}{upstream}")).unwrap();
        let proxy = Proxy::start(tidegate().arg("-c").arg(&file));
        let answer = talk(&proxy, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok"), "{answer}");
        let answer = talk(&proxy, other);
        match more {
            "" => assert!(answer.starts_with("HTTP/1.1 400"), "{answer}"),
            _ => assert_eq!(answer.as_bytes(), other),
        }
    }
}

#[test]
fn a_mistake_is_told_with_its_line() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("proxy-wrong.toml");
    std::fs::write(&file, "[[proxy.listener]]\nlisten = \"127.0.0.1:0\"\nmod = \"redirect\"\n")
        .unwrap();
    let output = tidegate().arg("-c").arg(&file).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("did you mean \"mode\"?") && told.contains(":3:"), "{told}");
}
