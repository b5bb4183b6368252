//! `tidegate proxy` as users run it: by its command line, with curl, and with connections that are led to it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

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
fn a_mistake_is_told_with_its_line() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("proxy-wrong.toml");
    std::fs::write(&file, "[[proxy.listener]]\nlisten = \"127.0.0.1:0\"\nmod = \"redirect\"\n")
        .unwrap();
    let output = tidegate().arg("-c").arg(&file).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("did you mean \"mode\"?") && told.contains(":3:"), "{told}");
    assert!(told.contains("no [[proxy.upstream]]"), "{told}");
}

/// Runs a shell script in a network of its own; nothing where that cannot be.
fn in_own_network(script: &str) -> Option<Output> {
    let may =
        Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|done| done.success());
    if !may || !has("iptables") || !has("curl") {
        println!("skipped: needs root, unshare, iptables and curl, not found");
        return None;
    }
    let program = env!("CARGO_BIN_EXE_tidegate");
    let script = format!("set -e\nip link set lo up\n{script}");
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", &script]).env("TIDEGATE", program);
    Some(command.output().unwrap())
}

/// The proxy, and a server that says who asked and whom.
const WORLD: &str = r#"
folder=$(mktemp -d)
trap 'kill $proxy $server 2>/dev/null; rm -rf "$folder"' EXIT
ip addr add 10.9.9.9/32 dev lo
cat >"$folder/server.py" <<'END'
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = ("host %s at %s\n" % (self.headers["host"], self.connection.getsockname()[0])).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
http.server.ThreadingHTTPServer(("0.0.0.0", 80), Handler).serve_forever()
END
python3 "$folder/server.py" 2>/dev/null & server=$!
cat >"$folder/proxy.toml" <<END
[http]
listen = []
[[proxy.listener]]
listen = "0.0.0.0:15001"
mode = "$mode"
[[proxy.upstream]]
name = "outside"
to = ["original"]
END
"$TIDEGATE" --log info proxy -c "$folder/proxy.toml" 2>"$folder/log" & proxy=$!
while ! grep -q "ready" "$folder/log"; do kill -0 $proxy || { cat "$folder/log"; exit 1; }; done
while ! curl --silent --max-time 5 http://127.0.0.1:80/ >/dev/null; do kill -0 $server; done
"#;

#[test]
fn connections_to_others_are_led_here_by_redirect() {
    // Only what goes to the other address, and not what the proxy sends there itself.
    let script = format!(
        "mode=redirect\n{WORLD}\n\
         iptables -t nat -A OUTPUT -p tcp -d 10.9.9.9 --dport 80 -m owner --uid-owner 65534 -j REDIRECT --to-ports 15001\n\
         setpriv --reuid 65534 --clear-groups curl --silent --max-time 30 -i http://10.9.9.9/x\n"
    );
    let Some(output) = in_own_network(&script) else { return };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_unable = String::from_utf8_lossy(&output.stderr).contains("iptables");
    if is_unable && !output.status.success() {
        println!("skipped: needs a kernel with NAT, not found");
        return;
    }
    assert!(said.contains("host 10.9.9.9 at 10.9.9.9"), "{output:?}");
}
