//! Another configuration at work: by SIGHUP and by the file alone, under kept connections that never stop asking.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::tidegate;

const CONNECTIONS: usize = 200;
const CLIENTS: usize = 4;
/// For what comes at once where nothing is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that keeps connections and answers with a word.
fn keeping(word: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Behind a change all connections come at once; the usual queue of 128 would drop some for a second and more.
    SockRef::from(&listener).listen(1024).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                // Requests come one by one, each in one piece.
                while stream.read(&mut head).is_ok_and(|count| count > 0) {
                    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{word}");
                }
            });
        }
    });
    address
}

/// Asks on all of these connections in turn until it is told to stop; what it was answered.
fn ask_on(
    mut streams: Vec<TcpStream>,
    stops: &AtomicBool,
    answers: &[AtomicU64; 2],
) -> Vec<String> {
    let mut wrong = Vec::new();
    while !stops.load(Ordering::Relaxed) {
        for stream in &mut streams {
            stream.write_all(b"GET /a HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        }
        for stream in &mut streams {
            let (mut answer, mut count) = ([0; 4096], 0);
            // The body has one byte.
            let is_whole =
                |bytes: &[u8]| bytes.windows(4).rev().skip(1).any(|four| four == b"\r\n\r\n");
            while !is_whole(&answer[..count]) {
                match stream.read(&mut answer[count..]) {
                    Ok(more @ 1..) => count += more,
                    ended => {
                        wrong.push(format!("{ended:?}"));
                        return wrong;
                    }
                }
            }
            let text = String::from_utf8_lossy(&answer[..count]).into_owned();
            match (text.starts_with("HTTP/1.1 200"), text.chars().last()) {
                (true, Some('a')) => _ = answers[0].fetch_add(1, Ordering::Relaxed),
                (true, Some('b')) => _ = answers[1].fetch_add(1, Ordering::Relaxed),
                _ => wrong.push(text),
            }
        }
    }
    wrong
}

/// A proxy and what it says, killed with the test.
struct Heard {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Heard {
    fn start(file: &Path) -> Heard {
        let mut child = tidegate().arg("-c").arg(file).stderr(Stdio::piped()).spawn().unwrap();
        let (say, lines) = mpsc::channel();
        let all = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || all.map_while(Result::ok).for_each(|line| _ = say.send(line)));
        Heard { child, lines }
    }

    /// The next line with this in it.
    fn says(&self, what: &str) -> String {
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(what) => return line,
                Ok(line) => said.push(line),
                Err(error) => panic!("{what:?} is not said: {error}: {said:#?}"),
            }
        }
    }

    fn hang_up(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kept_connections_lose_no_request_while_the_configuration_changes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, script) = (folder.join("proxy-reload.toml"), folder.join("proxy-reload.luau"));
    std::fs::write(&script, "function on_message(h) h:message():age() end").unwrap();
    let [a, b] = ["a", "b"].map(keeping);
    let text = |to: &str, address: &str, more: &str| {
        format!(
            "[http]\nlisten = []\n[proxy]\nthreads = 2\n[[proxy.listener]]\nlisten = \"127.0.0.1:0\"\n\
             [[proxy.upstream]]\nname = \"{to}\"\nto = [\"{address}\"]\n[[proxy.route]]\n{more}\n\
             [[script]]\nname = \"s\"\nfile = {:?}\n",
            script.display().to_string()
        )
    };
    std::fs::write(&file, text("a", &a, "")).unwrap();
    let proxy = Heard::start(&file);
    let line = proxy.says("requests at ");
    let address = line.split_once("requests at ").unwrap().1.split_whitespace().next().unwrap();
    proxy.says("ready");
    let stops = Arc::new(AtomicBool::new(false));
    let answers: Arc<[AtomicU64; 2]> = Arc::default();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let connect = |_| TcpStream::connect(address).unwrap();
            let streams: Vec<TcpStream> = (0..CONNECTIONS / CLIENTS).map(connect).collect();
            let (stops, answers) = (stops.clone(), answers.clone());
            for stream in &streams {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
            }
            std::thread::spawn(move || ask_on(streams, &stops, &answers))
        })
        .collect();
    let counted = |place: usize| answers[place].load(Ordering::Relaxed);
    // As often as two rounds of all, or until a client has given up: it says why at the end.
    let until_answered = |place: usize| {
        let (wanted, since) = (counted(place) + 2 * CONNECTIONS as u64, Instant::now());
        let all_go_on = || clients.iter().all(|client| !client.is_finished());
        while counted(place) < wanted && all_go_on() && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        assert!(counted(place) >= wanted || !all_go_on(), "server {place} is not asked");
    };
    for (place, more) in [(1, ""), (0, "script = \"s\""), (1, "latency = \"50ms\""), (0, "")] {
        let (to, at) = if place == 0 { ("a", &a) } else { ("b", &b) };
        std::fs::write(&file, text(to, at, more)).unwrap();
        proxy.hang_up();
        proxy.says("is in force");
        until_answered(place);
        // A mistake changes nothing.
        std::fs::write(&file, text(to, at, "path = \"no-slash\"")).unwrap();
        proxy.hang_up();
        proxy.says("is not used");
    }
    // Without a signal, too.
    std::fs::write(&file, text("b", &b, "")).unwrap();
    proxy.says("is in force");
    until_answered(1);
    stops.store(true, Ordering::Relaxed);
    let wrong: Vec<String> =
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert_eq!(wrong, [""; 0], "of {} and {}", counted(0), counted(1));
}
