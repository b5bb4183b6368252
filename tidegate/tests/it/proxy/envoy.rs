//! `tidegate ext-proc` with an unpatched Envoy, where `scripts/rivals.sh` has installed one, with the
//! configuration that `tidegate envoy-config` writes.

use std::process::{Child, Command, Stdio};

use super::{BufRead, BufReader, PathBuf, Proxy, Read, TcpListener, TcpStream, Write, curl, has};

/// Processor, Envoy and their folder.
struct Rig {
    _processor: Proxy,
    envoy: Child,
    address: String,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.envoy.kill();
        let _ = self.envoy.wait();
    }
}

fn free_address() -> String {
    format!("127.0.0.1:{}", tidegate_testbed::free_port())
}

/// A server that answers with its name, the path and the body that it was asked with.
fn server(name: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap(), name));
        }
    });
    address
}

/// One request, whose body comes in one piece with a length, or in chunks.
fn answer(stream: TcpStream, name: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        is_chunked |= header.starts_with("transfer-encoding:");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    while is_chunked {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).unwrap();
        body.extend_from_slice(&chunk[..size]);
        is_chunked = size > 0;
    }
    let shown = if body.len() > 100 {
        format!("{} bytes", body.len())
    } else {
        String::from_utf8(body).unwrap()
    };
    let text = format!("{name} {path} {shown}");
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
}

impl Rig {
    /// `None` where there is no Envoy; a line says so.
    fn start(name: &str, script: &str, upstreams: [&str; 2], route: &str) -> Option<Rig> {
        let envoy =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/rivals/envoy/bin/envoy");
        if !envoy.exists() || !has("curl") {
            eprintln!("skipped: needs Envoy and curl, not found: scripts/rivals.sh");
            return None;
        }
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let (listen, clients) = (free_address(), free_address());
        let [text, file] = ["proxy.toml", "s.luau"].map(|name| folder.join(name));
        std::fs::write(&file, script).unwrap();
        let [cloud, edge] = upstreams;
        let config = format!(
            "[http]\nlisten = []\n[[proxy.listener]]\nlisten = \"{listen}\"\n\
             [[proxy.upstream]]\nname = \"cloud\"\nto = [\"{cloud}\"]\n\
             [[proxy.upstream]]\nname = \"edge\"\nto = [\"{edge}\"]\n\
             [[proxy.route]]\nscript = \"s\"\n{route}\n[[script]]\nname = \"s\"\nfile = {:?}\n\
             time = \"100ms\"\n",
            file.display().to_string()
        );
        std::fs::write(&text, config).unwrap();
        let tidegate = || Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let mut command = tidegate();
        command.args(["--log", "info", "ext-proc", "-c"]).arg(&text);
        let processor = Proxy::start(&mut command);
        let written = tidegate()
            .args(["envoy-config", "--listen", &clients, "-c"])
            .arg(&text)
            .output()
            .unwrap();
        assert!(written.status.success(), "{written:?}");
        let file = folder.join("envoy.yaml");
        std::fs::write(&file, &written.stdout).unwrap();
        let checked =
            tidegate().args(["envoy-config", "-c"]).arg(&text).arg("--check").arg(&file).output();
        assert!(checked.unwrap().status.success());
        let mut command = Command::new(envoy);
        command.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "info", "-c"]);
        let mut child = command.arg(&file).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        loop {
            let Some(Ok(line)) = lines.next() else { panic!("envoy ended: {said:#?}") };
            if line.contains("starting main dispatch loop") {
                break;
            }
            said.push(line);
        }
        std::thread::spawn(move || lines.for_each(drop));
        Some(Rig { _processor: processor, envoy: child, address: clients })
    }

    fn ask(&self, path: &str, more: &[&str]) -> String {
        let url = format!("http://{}{path}", self.address);
        let output = curl(&[&["--include", &url], more].concat());
        String::from_utf8(output.stdout).unwrap()
    }
}

const SCRIPT: &str = "function on_message(h)
  local m, path = h:message(), h:header():get('path')
  if m:size() > 0 then m:setBody(string.upper(m:bytes(1, -1))) end
  if path == '/edge' then h:redirect('edge') end
  if path == '/drop' then h:drop() end
  if path == '/path' then h:header():replace('path', '/other') end
end
function on_response(h)
  local m = h:message()
  h:header():set('x-answer', 'seen')
  if m:size() > 0 then m:setBody('[' .. m:bytes(1, -1) .. ']') end
end
";

#[test]
fn an_envoy_obeys_scripts() {
    let (cloud, edge) = (server("cloud"), server("edge"));
    let Some(rig) = Rig::start("envoy-obeys", SCRIPT, [&cloud, &edge], "dropped = 429") else {
        return;
    };
    let answer = rig.ask("/a", &[]);
    assert!(answer.contains("200 OK") && answer.contains("x-answer: seen"), "{answer}");
    assert!(answer.ends_with("[cloud /a ]"), "{answer}");
    let answer = rig.ask("/edge", &[]);
    assert!(answer.ends_with("[edge /edge ]"), "{answer}");
    // What a client says of upstreams counts for nothing.
    let answer = rig.ask("/a", &["--header", "x-tidegate-upstream: edge"]);
    assert!(answer.ends_with("[cloud /a ]"), "{answer}");
    let answer = rig.ask("/drop", &[]);
    assert!(answer.contains("429") && answer.contains("x-tidegate-reason: script"), "{answer}");
    let answer = rig.ask("/path", &[]);
    assert!(answer.ends_with("[cloud /other ]"), "{answer}");
    let answer = rig.ask("/b", &["--data", "body"]);
    assert!(answer.ends_with("[cloud /b BODY]"), "{answer}");
    let answer = rig.ask("/edge", &["--data", "body"]);
    assert!(answer.ends_with("[edge /edge BODY]"), "{answer}");
}

#[test]
fn an_envoy_lets_long_bodies_pass() {
    let (cloud, edge) = (server("cloud"), server("edge"));
    let Some(rig) = Rig::start("envoy-long", SCRIPT, [&cloud, &edge], "") else { return };
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("envoy-long/body");
    std::fs::write(&file, vec![b'x'; 5 << 20]).unwrap();
    let data = format!("@{}", file.display());
    let answer = rig.ask("/long", &["--data-binary", &data]);
    assert!(answer.ends_with("[cloud /long 5242880 bytes]"), "{answer}");
}

#[test]
fn an_envoy_does_not_answer_for_what_waits() {
    // Behind an upstream that nobody reaches, requests go to the other as soon as that is known.
    let edge = server("edge");
    let script = "function on_message(h)\n local m = h:message()\n\
                  if m:state() == 'down' then h:redirect('edge') end end";
    let dead = free_address();
    let Some(rig) = Rig::start("envoy-down", script, [&dead, &edge], "") else { return };
    let answer = rig.ask("/first", &[]);
    assert!(answer.contains("503"), "{answer}");
    let answer = rig.ask("/second", &[]);
    assert!(answer.ends_with("edge /second "), "{answer}");
}
