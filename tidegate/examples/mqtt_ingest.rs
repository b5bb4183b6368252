//! What the MQTT input costs: CPU time a record of listener, connections and a loop that accepts and
//! discards, beside Mosquitto without subscribers, under the same load; and what idle connections cost.
//!
//! `cargo run --release -p tidegate --example mqtt_ingest [records a connection] [idle connections] [threads]`
//!
//! Prints `FIGURE` lines. The load runs in a process of its own. Linux only: it reads /proc.

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidegate::input::mqtt::{self, MqttOptions};
use tidegate::node::contract::{Arrival, Clock, Intake, Notice, NoticeSender};
use tidegate_node::io::Input;
use tidegate_types::record::SourceId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};

const CONNECTIONS: usize = 4;
const PAYLOAD: usize = 64;
/// QoS 1 publishes under way, a connection.
const WINDOW: usize = 500;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let all = std::thread::available_parallelism()?.get();
    let role = arguments.first().map(String::as_str);
    let wanted = arguments.get(2).filter(|_| role != Some("load"));
    let workers = wanted.and_then(|text| text.parse().ok()).unwrap_or(all);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    match role {
        Some("load") => runtime.block_on(load(&arguments[1..])),
        Some("idle") => runtime.block_on(idle(&arguments[1..])),
        _ => runtime.block_on(measure(&arguments)),
    }
}

async fn measure(arguments: &[String]) -> Result<()> {
    let number = |place: usize, default: usize| {
        arguments.get(place).map_or(Ok(default), |text| text.parse()).context("not a number")
    };
    let records = number(0, 500_000)?;
    let connections = number(1, 2000)?;
    let address = serve().await?;
    let me = format!("/proc/{}", std::process::id());
    for round in 1..=3 {
        for (qos, records) in [("0", records), ("1", records), ("1alone", records / 20)] {
            let (cpu, rate) = under_load(&me, address, qos, records).await?;
            println!("FIGURE tidegate_qos{qos}_round{round} {cpu:.3} us_cpu_per_record");
            println!("FIGURE tidegate_qos{qos}_round{round}_rate {rate:.0} records/s");
        }
        if let Some(mut mosquitto) = Mosquitto::start().await {
            let folder = format!("/proc/{}", mosquitto.child.id());
            for (qos, records) in [("0", records / 5), ("1", records / 5), ("1alone", records / 20)]
            {
                let (cpu, rate) = under_load(&folder, mosquitto.address, qos, records).await?;
                println!("FIGURE mosquitto_qos{qos}_round{round} {cpu:.3} us_cpu_per_record");
                println!("FIGURE mosquitto_qos{qos}_round{round}_rate {rate:.0} records/s");
            }
            mosquitto.child.kill()?;
            mosquitto.child.wait()?;
        } else {
            println!("skipped: needs mosquitto, not found");
        }
    }
    let before = resident(&me)?;
    let mut clients = child(&["idle", &address.to_string(), &connections.to_string()])?;
    let mut line = String::new();
    let output = clients.stdout.take().context("no output")?;
    tokio::task::spawn_blocking(move || {
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
    })
    .await??;
    let grown = resident(&me)?.saturating_sub(before);
    println!("FIGURE resident_before_idle {before} bytes");
    println!("FIGURE idle_connection {} bytes", grown / connections);
    clients.kill()?;
    clients.wait()?;
    Ok(())
}

/// A listener and a loop that accepts everything and keeps nothing.
async fn serve() -> Result<SocketAddr> {
    let listener = mqtt::bind(MqttOptions::new(vec!["127.0.0.1:0".parse()?])).await?;
    let address = listener.local_addrs()[0];
    let (arrivals, inbox) = mpsc::channel(64);
    tokio::spawn(accept_all(inbox));
    let (stop, stopped) = watch::channel(false);
    let running = listener.run(Intake::new(arrivals, Clock::start()), stopped);
    tokio::spawn(async move {
        let _stop = stop;
        running.await;
    });
    Ok(address)
}

async fn accept_all(mut inbox: mpsc::Receiver<Arrival>) {
    let mut sources: Vec<NoticeSender> = Vec::new();
    while let Some(arrival) = inbox.recv().await {
        match arrival {
            Arrival::Open { notices, reply, .. } => {
                let _ = reply.send(SourceId(sources.len() as u32));
                sources.push(notices);
            }
            Arrival::Input(Input::Arrived(records)) => {
                for record in records {
                    if let Some(token) = record.token {
                        let notices = &sources[record.source.0 as usize];
                        notices.send(Notice::Accept(token, Ok(())));
                    }
                }
            }
            _ => {}
        }
    }
}

struct Mosquitto {
    child: Child,
    address: SocketAddr,
}

impl Mosquitto {
    async fn start() -> Option<Self> {
        let free = tidegate_testbed::free_address();
        let child = Command::new("mosquitto")
            .args(["-p", &free.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        for _ in 0..100 {
            if TcpStream::connect(free).await.is_ok() {
                return Some(Mosquitto { child, address: free });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }
}

fn child(arguments: &[&str]) -> Result<Child> {
    let me = std::env::current_exe()?;
    Ok(Command::new(me).args(arguments).stdout(Stdio::piped()).spawn()?)
}

/// CPU microseconds a record of the process, and records a second.
async fn under_load(
    process: &str,
    address: SocketAddr,
    qos: &str,
    records: usize,
) -> Result<(f64, f64)> {
    let before = cpu(process)?;
    let start = Instant::now();
    let mut load = child(&["load", &address.to_string(), qos, &records.to_string()])?;
    let status = tokio::task::spawn_blocking(move || load.wait()).await??;
    ensure!(status.success(), "the load failed");
    let all = (records * CONNECTIONS) as f64;
    Ok(((cpu(process)? - before) * 1e6 / all, all / start.elapsed().as_secs_f64()))
}

/// CPU seconds of a process, user and system.
fn cpu(process: &str) -> Result<f64> {
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string(format!("{process}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / TICKS)
}

/// Resident bytes of a process.
fn resident(process: &str) -> Result<usize> {
    const PAGE: usize = 4096;
    let text = std::fs::read_to_string(format!("{process}/statm"))?;
    let pages: usize = text.split_whitespace().nth(1).context("no figure")?.parse()?;
    Ok(pages * PAGE)
}

fn connect(client: &str) -> Vec<u8> {
    let mut packet = vec![0x10, 12 + client.len() as u8];
    packet.extend(b"\0\x04MQTT\x04\x02\0\x3C");
    packet.extend((client.len() as u16).to_be_bytes());
    packet.extend(client.as_bytes());
    packet
}

fn publish(id: Option<u16>) -> Vec<u8> {
    const TOPIC: &[u8] = b"factory/line-1/plc/42";
    let mut packet = vec![if id.is_some() { 0x32 } else { 0x30 }, 0, 0, TOPIC.len() as u8];
    packet.extend(TOPIC);
    packet.extend(id.iter().flat_map(|id| id.to_be_bytes()));
    packet.extend([7; PAYLOAD]);
    packet[1] = (packet.len() - 2) as u8;
    packet
}

async fn open(address: &str, client: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&connect(client)).await?;
    stream.read_exact(&mut [0; 4]).await?;
    Ok(stream)
}

async fn load(arguments: &[String]) -> Result<()> {
    let [address, qos, records] = arguments else { anyhow::bail!("load ADDRESS QOS RECORDS") };
    let records: usize = records.parse()?;
    let mut running = tokio::task::JoinSet::new();
    for number in 0..CONNECTIONS {
        let stream = open(address, &format!("load-{number}")).await?;
        match qos.as_str() {
            "0" => running.spawn(at_most_once(stream, records)),
            "1alone" => running.spawn(one_by_one(stream, records)),
            _ => running.spawn(at_least_once(stream, records)),
        };
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

async fn at_most_once(mut stream: TcpStream, records: usize) -> Result<()> {
    const CHUNK: usize = 500;
    let chunk = publish(None).repeat(CHUNK);
    for _ in 0..records / CHUNK {
        stream.write_all(&chunk).await?;
    }
    // The answer to a ping says that everything before it was read.
    stream.write_all(&[0xC0, 0]).await?;
    stream.read_exact(&mut [0; 2]).await?;
    Ok(())
}

/// Each publish waits for the answer to the one before: nothing can be done in batches.
async fn one_by_one(mut stream: TcpStream, records: usize) -> Result<()> {
    let packet = publish(Some(1));
    for _ in 0..records {
        stream.write_all(&packet).await?;
        stream.read_exact(&mut [0; 4]).await?;
    }
    Ok(())
}

async fn at_least_once(stream: TcpStream, records: usize) -> Result<()> {
    const CHUNK: usize = 50;
    let room = Arc::new(Semaphore::new(WINDOW));
    let (mut reader, mut writer) = stream.into_split();
    let given = room.clone();
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 16 * 1024];
        let (mut bytes, mut answered) = (0, 0);
        while answered < records / CHUNK * CHUNK {
            bytes += reader.read(&mut buffer).await?;
            let answers = bytes / 4 - answered;
            answered += answers;
            given.add_permits(answers);
        }
        anyhow::Ok(())
    });
    let mut id = 0_u16;
    for _ in 0..records / CHUNK {
        room.acquire_many(CHUNK as u32).await?.forget();
        let mut chunk = Vec::with_capacity(CHUNK * 100);
        for _ in 0..CHUNK {
            id = id % 60_000 + 1;
            chunk.extend(publish(Some(id)));
        }
        writer.write_all(&chunk).await?;
    }
    reading.await?
}

async fn idle(arguments: &[String]) -> Result<()> {
    let [address, count] = arguments else { anyhow::bail!("idle ADDRESS COUNT") };
    let mut streams = Vec::new();
    for number in 0..count.parse()? {
        let mut stream = open(address, &format!("idle-{number}")).await?;
        stream.write_all(&publish(None)).await?;
        stream.write_all(&[0xC0, 0]).await?;
        stream.read_exact(&mut [0; 2]).await?;
        streams.push(stream);
    }
    println!("connected");
    tokio::time::sleep(Duration::from_secs(600)).await;
    Ok(())
}
