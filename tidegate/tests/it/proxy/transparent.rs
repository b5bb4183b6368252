//! Connections that are led to the proxy by the kernel, in network namespaces: a client, a gate and a server.

use std::process::{Child, Command, Stdio};

use super::{BufRead, BufReader, PathBuf, Proxy, has};

/// The user as which the proxy runs, whose own connections are left alone.
const USER: &str = "1337";
const SERVER: &str = "10.80.2.2";
/// A server that says who asked for what.
const PYTHON: &str = "
import http.server as h
class H(h.BaseHTTPRequestHandler):
  def do_GET(s):
    b = (s.client_address[0] + ' ' + s.path).encode()
    s.send_response(200); s.send_header('content-length', str(len(b))); s.end_headers(); s.wfile.write(b)
  def log_message(s, *a): pass
v = h.HTTPServer(('0.0.0.0', 80), H); print('ready'); v.serve_forever()
";

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}

/// The three hosts, and the server on the last.
struct Hosts {
    names: [String; 3],
    server: Option<Child>,
}

impl Hosts {
    /// `None` where they cannot be made; a line says why.
    fn new(test: &str) -> Option<Hosts> {
        for program in ["curl", "python3", "iptables", "setpriv"] {
            if !has(program) {
                eprintln!("skipped: needs {program}, not found");
                return None;
            }
        }
        let name = |host: &str| format!("tgp-{}-{test}-{host}", std::process::id());
        let names = ["client", "gate", "server"].map(name);
        let hosts = Hosts { names, server: None };
        if !hosts.names.iter().all(|name| ip(&format!("netns add {name}"))) {
            eprintln!("skipped: needs the right to make network namespaces, not found");
            return None;
        }
        let [client, gate, server] = &hosts.names;
        for command in [
            format!("link add wan netns {client} type veth peer name lan netns {gate}"),
            format!("link add wan netns {gate} type veth peer name lan netns {server}"),
            format!("-n {client} addr add 10.80.1.2/24 dev wan"),
            format!("-n {gate} addr add 10.80.1.1/24 dev lan"),
            format!("-n {gate} addr add 10.80.2.1/24 dev wan"),
            format!("-n {server} addr add {SERVER}/24 dev lan"),
            format!("-n {client} link set wan up"),
            format!("-n {client} link set lo up"),
            format!("-n {gate} link set lan up"),
            format!("-n {gate} link set wan up"),
            format!("-n {gate} link set lo up"),
            format!("-n {server} link set lan up"),
            format!("-n {client} route add default via 10.80.1.1"),
            format!("-n {server} route add default via 10.80.2.1"),
        ] {
            assert!(ip(&command), "ip {command}");
        }
        hosts.run(1, "sysctl", &["-qw", "net.ipv4.ip_forward=1"]);
        Some(hosts)
    }

    fn on(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host]]);
        command
    }

    fn run(&self, host: usize, program: &str, words: &[&str]) -> String {
        let output = self.on(host).arg(program).args(words).output().unwrap();
        assert!(output.status.success(), "{program} {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn iptables(&self, host: usize, rule: &str) -> bool {
        let output = self.on(host).arg("iptables").args(rule.split_whitespace()).output();
        output.is_ok_and(|output| output.status.success())
    }

    fn serve(&mut self) {
        let mut command = self.on(2);
        command.args(["python3", "-u", "-c", PYTHON]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.server = Some(child);
        assert_eq!(line, "ready\n");
    }

    fn curl(&self, url: &str) -> String {
        self.run(0, "curl", &["--silent", "--max-time", "60", url])
    }

    /// A proxy on a host, and its access log.
    fn proxy(&self, host: usize, user: Option<&str>, mode: &str) -> (Proxy, PathBuf) {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&self.names[host]);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let log = folder.join("access.log");
        let text = format!(
            "[http]\nlisten = []\n[proxy]\naccess_log = {:?}\naccess_format = \"json\"\n\
             [[proxy.listener]]\nname = \"led\"\nlisten = \"0.0.0.0:15001\"\nmode = \"{mode}\"\n\
             [[proxy.upstream]]\nname = \"outside\"\nto = [\"original\"]\n",
            log.display().to_string()
        );
        let file = folder.join("proxy.toml");
        std::fs::write(&file, text).unwrap();
        std::fs::write(&log, "").unwrap();
        let mut command = self.on(host);
        if let Some(user) = user {
            for path in [&folder, &log] {
                assert!(Command::new("chown").arg(user).arg(path).status().unwrap().success());
            }
            command.args(["setpriv", "--reuid", user, "--clear-groups"]);
        }
        command.arg(env!("CARGO_BIN_EXE_tidegate")).args(["--log", "info", "proxy", "-c"]);
        command.arg(&file);
        (Proxy::start(&mut command), log)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // It may have ended by itself.
            let _ = server.kill();
            let _ = server.wait();
        }
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

/// What the log says of the only request.
fn only_line(log: &PathBuf) -> serde_json::Value {
    let text = std::fs::read_to_string(log).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn redirect_leads_what_this_host_sends() {
    let Some(mut hosts) = Hosts::new("redirect") else { return };
    let rule = format!(
        "-t nat -A OUTPUT -p tcp --dport 80 -m owner ! --uid-owner {USER} -j REDIRECT --to-ports 15001"
    );
    if !hosts.iptables(0, &rule) {
        eprintln!("skipped: needs iptables with REDIRECT and owner, not found");
        return;
    }
    hosts.serve();
    let (proxy, log) = hosts.proxy(0, Some(USER), "redirect");
    assert_eq!(hosts.curl(&format!("http://{SERVER}/a?b")), "10.80.1.2 /a?b");
    assert!(proxy.stop(), "the log is written to its end");
    let line = only_line(&log);
    assert_eq!((&line["status"], &line["upstream"]), (&200.into(), &"outside".into()), "{line}");
    assert_eq!(line["path"], "/a?b");
}

#[test]
fn who_comes_by_himself_wanted_no_other_place() {
    let Some(hosts) = Hosts::new("direct") else { return };
    let (proxy, _) = hosts.proxy(0, None, "redirect");
    let words = ["--silent", "--include", "--max-time", "60", "http://127.0.0.1:15001/"];
    let answer = hosts.run(0, "curl", &words);
    assert!(
        answer.contains("502") && answer.contains("x-tidegate-reason: misdirected"),
        "{answer}"
    );
    assert!(proxy.stop());
}

#[test]
fn tproxy_leads_what_passes_and_sees_the_client() {
    let Some(mut hosts) = Hosts::new("tproxy") else { return };
    let rule = "-t mangle -A PREROUTING -i lan -p tcp --dport 80 -j TPROXY --on-port 15001 \
                --tproxy-mark 1";
    if !hosts.iptables(1, rule) {
        eprintln!("skipped: needs iptables with TPROXY, not found");
        return;
    }
    for command in ["rule add fwmark 1 lookup 100", "route add local 0.0.0.0/0 dev lo table 100"] {
        assert!(ip(&format!("-n {} {command}", hosts.names[1])), "ip {command}");
    }
    hosts.serve();
    let (proxy, log) = hosts.proxy(1, None, "tproxy");
    assert_eq!(hosts.curl(&format!("http://{SERVER}/a")), "10.80.2.1 /a", "the gate asks");
    assert!(proxy.stop(), "the log is written to its end");
    let line = only_line(&log);
    assert_eq!((&line["status"], &line["client"]), (&200.into(), &"10.80.1.2".into()), "{line}");
}
