//! What accepting a record costs: CPU of the whole process a record, beside Mosquitto in the same run.
//!
//! Equal work on both sides: each accepts and discards, then each forwards to one local consumer. The
//! contestants take turns; medians are printed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::load::raw::{self, Splitter};

/// Publishing connections.
const PUBLISHERS: u64 = 4;
/// Payload bytes.
const PAYLOAD: [u8; 64] = [b'x'; 64];
/// Kernel ticks a second in `/proc`: fixed in the ABI of Linux on every common platform.
const TICKS_PER_SECOND: f64 = 100.0;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `tidegate` binary.
    pub tidegate: std::path::PathBuf,
    /// Records of one measurement.
    pub records: u64,
    /// Measurements of each contestant.
    pub repetitions: usize,
    /// Idle connections for the memory figure; 0 leaves it out.
    pub connections: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    Tidegate,
    Mosquitto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Discard,
    Forward,
}

/// A contestant's process; ended when dropped.
struct Server {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(contestant: Contestant, work: Work, sink: SocketAddr, options: &Options) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let address = free_address()?;
        let file = folder.path().join("config");
        let (program, text) = match contestant {
            Contestant::Tidegate => (options.tidegate.clone(), tidegate_config(address, work, sink)),
            Contestant::Mosquitto => ("mosquitto".into(), mosquitto_config(address)),
        };
        std::fs::write(&file, text)?;
        let arguments: &[&str] = match contestant {
            Contestant::Tidegate => &["run"],
            Contestant::Mosquitto => &[],
        };
        let process = spawn(&program, arguments, &file, folder.path())?;
        let server = Server { process, address, _folder: folder };
        wait_until_up(address)?;
        Ok(server)
    }

    /// User and system time of the process so far.
    fn cpu(&self) -> io::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let after_name = text.rsplit(')').next().unwrap_or_default();
        let ticks = |place: usize| {
            after_name.split_whitespace().nth(place).and_then(|field| field.parse::<f64>().ok())
        };
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
            return Err(io::Error::other("/proc has no CPU times"));
        };
        Ok(Duration::from_secs_f64((user + system) / TICKS_PER_SECOND))
    }

    /// Resident memory in KiB.
    fn resident_kib(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = text.lines().find(|line| line.starts_with("VmRSS:"));
        let field = line.and_then(|line| line.split_whitespace().nth(1));
        field.and_then(|field| field.parse().ok()).ok_or_else(|| io::Error::other("no VmRSS"))
    }
}

/// Both limits of open files must be above the idle connections; the shell sets the child's.
fn spawn(program: &Path, arguments: &[&str], file: &Path, folder: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", "ulimit -n 65536 2>/dev/null; exec \"$@\"", "sh"])
        .arg(program)
        .args(arguments)
        .arg("-c")
        .arg(file)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn tidegate_config(address: SocketAddr, work: Work, sink: SocketAddr) -> String {
    let output = match work {
        Work::Discard => "sink = { discard = true }".to_owned(),
        Work::Forward => format!("mqtt = {{ url = \"mqtt://{sink}\" }}"),
    };
    format!(
        "[node]\nname = \"bench\"\n[http]\nlisten = \"off\"\n[[input]]\nmqtt = {{ listen = \"{address}\" }}\n\
         [[output]]\nname = \"far\"\n{output}\n"
    )
}

fn mosquitto_config(address: SocketAddr) -> String {
    format!(
        "listener {} {}\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n\
         set_tcp_nodelay true\nlog_dest none\n",
        address.port(),
        address.ip()
    )
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn wait_until_up(address: SocketAddr) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match raw::log_in(address, "probe") {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > Duration::from_secs(20) => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A consumer that counts: a server that acknowledges every PUBLISH, or a client that subscribed.
struct Consumer {
    address: SocketAddr,
    count: Arc<AtomicU64>,
}

impl Consumer {
    fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let count = Arc::new(AtomicU64::new(0));
        let counter = count.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counter = counter.clone();
                thread::spawn(move || consume(stream, &counter));
            }
        });
        Ok(Consumer { address, count })
    }

    fn subscribe(address: SocketAddr, qos: u8) -> io::Result<Self> {
        let mut stream = raw::log_in(address, "consumer")?;
        stream.write_all(&raw::subscribe_packet("#", qos))?;
        let count = Arc::new(AtomicU64::new(0));
        let counter = count.clone();
        thread::spawn(move || consume(stream, &counter));
        Ok(Consumer { address, count })
    }

    fn wait_for(&self, records: u64) -> u64 {
        let start = Instant::now();
        let mut last = (0, Instant::now());
        loop {
            let count = self.count.load(Ordering::Relaxed);
            if count != last.0 {
                last = (count, Instant::now());
            }
            // Nothing for two seconds: what is missing was lost on the way.
            let is_quiet = last.1.elapsed() > Duration::from_secs(2);
            if count >= records || is_quiet || start.elapsed() > Duration::from_secs(120) {
                return count;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Answers CONNECT (3.1.1 or 5), PUBLISH with QoS 1 and PINGREQ until the connection ends.
fn consume(mut stream: TcpStream, count: &AtomicU64) {
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut answer = Vec::new();
    let _ = stream.set_read_timeout(None);
    while let Ok(length) = stream.read(&mut buffer) {
        if length == 0 {
            return;
        }
        splitter.push(&buffer[..length]);
        answer.clear();
        while let Some((first, body)) = splitter.next() {
            match first & 0xf0 {
                0x10 if body.get(6) == Some(&5) => answer.extend([0x20, 3, 0, 0, 0]),
                0x10 => answer.extend([0x20, 2, 0, 0]),
                0x30 => {
                    count.fetch_add(1, Ordering::Relaxed);
                    let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
                    if first & 0x06 != 0 {
                        answer.extend([0x40, 2, body[topic + 2], body[topic + 3]]);
                    }
                }
                0xc0 => answer.extend([0xd0, 0]),
                _ => {}
            }
        }
        if !answer.is_empty() && stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Microseconds of CPU a record, and the part of the records that arrived.
fn measure(contestant: Contestant, work: Work, qos: u8, options: &Options) -> io::Result<(f64, f64)> {
    let sink = Consumer::listen()?;
    let server = Server::start(contestant, work, sink.address, options)?;
    let consumer = match (work, contestant) {
        (Work::Discard, _) => None,
        (Work::Forward, Contestant::Tidegate) => Some(sink),
        (Work::Forward, Contestant::Mosquitto) => Some(Consumer::subscribe(server.address, qos)?),
    };
    let before = server.cpu()?;
    let each = options.records / PUBLISHERS;
    let address = server.address;
    let publishers = (0..PUBLISHERS).map(|number| {
        thread::spawn(move || -> io::Result<()> {
            let mut stream = raw::log_in(address, &format!("publisher-{number}"))?;
            raw::saturate(&mut stream, &format!("bench/{number}"), qos, &PAYLOAD, each)
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        publisher.join().expect("a publisher does not panic")?;
    }
    let sent = each * PUBLISHERS;
    let arrived = consumer.map_or(sent, |consumer| consumer.wait_for(sent));
    let cpu = server.cpu()? - before;
    Ok((cpu.as_secs_f64() * 1e6 / sent as f64, arrived as f64 / sent as f64))
}

/// Resident KiB of an idle process, and bytes for each idle connection.
fn memory(contestant: Contestant, options: &Options) -> io::Result<(u64, f64)> {
    let sink = free_address()?;
    let server = Server::start(contestant, Work::Discard, sink, options)?;
    let idle = server.resident_kib()?;
    let mut connections = Vec::with_capacity(options.connections);
    for number in 0..options.connections {
        connections.push(raw::log_in(server.address, &format!("idle-{number}"))?);
    }
    let held = server.resident_kib()?.saturating_sub(idle) * 1024;
    Ok((idle, held as f64 / options.connections.max(1) as f64))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs the benchmark and prints its table and figures.
///
/// # Errors
/// A process that does not start or a connection that breaks.
#[expect(clippy::print_stdout, reason = "a command of the lab")]
pub fn run(options: &Options) -> io::Result<()> {
    println!("CPU of the whole process a record, us; {} records of 64 B, {PUBLISHERS} publishers,", options.records);
    println!("median of {} runs in turn\n", options.repetitions);
    println!("{:<22}{:>10}{:>11}{:>8}{:>10}", "work", "tidegate", "mosquitto", "ratio", "arrived");
    let mut figures = Vec::new();
    for (work, name) in [(Work::Discard, "discard"), (Work::Forward, "forward")] {
        for qos in [0, 1] {
            let mut cpu = [Vec::new(), Vec::new()];
            let mut arrived = [1.0f64; 2];
            for _ in 0..options.repetitions {
                for (place, contestant) in [Contestant::Tidegate, Contestant::Mosquitto].into_iter().enumerate() {
                    let (micros, part) = measure(contestant, work, qos, options)?;
                    cpu[place].push(micros);
                    arrived[place] = arrived[place].min(part);
                }
            }
            let [ours, theirs] = cpu.map(median);
            let shown = format!("{:.2}/{:.2}", arrived[0], arrived[1]);
            println!("{:<22}{ours:>10.2}{theirs:>11.2}{:>8.2}{shown:>10}", format!("{name} qos {qos}"), ours / theirs);
            figures.push(format!("FIGURE ingest_{name}_qos{qos}_cpu {ours:.2} us"));
            figures.push(format!("FIGURE ingest_{name}_qos{qos}_ratio {:.2} of_mosquitto", ours / theirs));
        }
    }
    if options.connections > 0 {
        for (contestant, name) in [(Contestant::Tidegate, "tidegate"), (Contestant::Mosquitto, "mosquitto")] {
            let (idle, each) = memory(contestant, options)?;
            println!("\n{name}: {:.1} MiB idle, {:.1} KiB a connection ({} idle ones)", idle as f64 / 1024.0, each / 1024.0, options.connections);
            figures.push(format!("FIGURE resident_idle_{name} {:.1} MiB", idle as f64 / 1024.0));
            figures.push(format!("FIGURE resident_connection_{name} {:.2} KiB", each / 1024.0));
        }
    }
    println!();
    figures.iter().for_each(|figure| println!("{figure}"));
    Ok(())
}
