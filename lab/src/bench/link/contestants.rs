//! Who carries the records over the paths, and how each is set up.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use tokio::time::Instant;

use super::{Load, PATHS, scene};
use crate::load::records::{Kind, ReceiveRecords, SendRecords};
use crate::load::stamp::wall_ns;
use crate::load::{Job, READY, ReceiveDatagrams, SendDatagrams};
use crate::net::process::Process;
use crate::net::run;
use crate::net::scratch::Scratch;
use crate::net::stage::Stage;
use crate::rig::{self, CONNECT};
use crate::world;

/// Where the far end receives.
const PORT: u16 = 7100;
/// Where the far node's link input listens.
const LINK_PORT: u16 = 7443;
/// The kernel's buffers may grow to this.
const BUFFER: &str = "4096 131072 33554432";
/// How long a sender has to connect before the load begins.
const LEAD: Duration = Duration::from_secs(1);

tidegate_types::named! {
    /// A way from a sender at the edge to a receiver in the cloud.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Contestant: "contestant" {
        /// MQTT clients -> Tidegate -> link by all paths -> Tidegate -> MQTT.
        Tidegate = "tidegate",
        /// One connection of the kernel's MPTCP with BBR.
        MptcpBbr = "mptcp-bbr",
        /// The same with cubic.
        MptcpCubic = "mptcp-cubic",
        /// One connection of TCP with BBR on the fastest path.
        TcpBbr = "tcp-bbr",
        /// The same with cubic.
        TcpCubic = "tcp-cubic",
        /// Datagrams of bare QUIC on all paths, paced, none repeated: the library below a link.
        Quinn = "quinn",
    }
}

impl Contestant {
    /// Who carries records.
    pub(super) const RIVALS: [Contestant; 5] = [
        Contestant::Tidegate,
        Contestant::MptcpBbr,
        Contestant::MptcpCubic,
        Contestant::TcpBbr,
        Contestant::TcpCubic,
    ];
    /// Whose processor time is told.
    pub(super) const COST: [Contestant; 2] = [Contestant::Tidegate, Contestant::Quinn];

    fn kind(self, buffer: Option<usize>) -> Option<Kind> {
        let (multipath, congestion) = match self {
            Contestant::Tidegate | Contestant::Quinn => return None,
            Contestant::MptcpBbr => (true, "bbr"),
            Contestant::MptcpCubic => (true, "cubic"),
            Contestant::TcpBbr => (false, "bbr"),
            Contestant::TcpCubic => (false, "cubic"),
        };
        Some(Kind { multipath, congestion: congestion.into(), buffer })
    }
}

/// A contestant under load.
pub(super) struct Rig {
    pub(super) sender: Process,
    pub(super) receiver: Process,
    /// When the load begins.
    pub(super) begin: Instant,
    /// Processes whose CPU counts.
    pub(super) workers: Vec<u32>,
    _servers: Vec<crate::net::process::Quiet>,
}

/// Starts a contestant, then the load.
pub(super) async fn start(
    contestant: Contestant,
    stage: &Stage,
    scratch: &Scratch,
    load: &Load,
) -> anyhow::Result<Rig> {
    if contestant == Contestant::Quinn {
        return quinn(stage, scratch, load).await;
    }
    let kind = contestant.kind(load.buffer);
    let is_node = kind.is_none();
    // The far node and its consumer are one host.
    let far = if is_node { Ipv4Addr::LOCALHOST } else { cloud(contestant, stage)? };
    let at = SocketAddrV4::new(far, PORT);
    let job =
        Job::ReceiveRecords(ReceiveRecords { at, kind: kind.clone(), settled: load.seconds / 3.0 });
    let mut receiver = Process::start("receiver", stage.job("cloud", &job)?)?;
    receiver.says(READY, CONNECT).await?;
    let (mut servers, mut workers) = (Vec::new(), Vec::new());
    let to = match is_node {
        true => {
            let nodes = nodes(stage, scratch, load).await?;
            workers.extend(nodes.iter().filter_map(Process::id));
            servers.extend(nodes.into_iter().map(Process::quietly));
            SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1883)
        }
        false => at,
    };
    let begin_ns = wall_ns() + LEAD.as_nanos() as u64;
    let begin = Instant::now() + LEAD;
    let job = Job::SendRecords(SendRecords {
        to,
        kind,
        rate: load.rate,
        begin_ns,
        seconds: load.seconds,
        streams: load.streams,
        most: load.most,
        seed: 1,
    });
    let sender = Process::start("sender", stage.job(load.edge(), &job)?)?;
    if !is_node {
        workers.extend([sender.id(), receiver.id()].into_iter().flatten());
    }
    Ok(Rig { sender, receiver, begin, workers, _servers: servers })
}

/// The cloud's address for a rival: on the first path, by which MPTCP begins; on the fastest for the others.
fn cloud(contestant: Contestant, stage: &Stage) -> anyhow::Result<Ipv4Addr> {
    let is_multipath = matches!(contestant, Contestant::MptcpBbr | Contestant::MptcpCubic);
    let path = if is_multipath { PATHS[0] } else { PATHS[PATHS.len() - 1] };
    Ok(stage.wire(path)?.addresses()[1])
}

/// What the kernel needs at both ends for all contestants: other ways to the first path's address, and
/// subflows on them.
pub(super) fn prepare(stage: &Stage) -> anyhow::Result<()> {
    for name in ["edge", "cloud"] {
        let host = stage.host(name)?;
        host.ip(&["mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8"])?;
        let namespace = host.namespace();
        for setting in [
            format!("net.ipv4.tcp_rmem={BUFFER}"),
            format!("net.ipv4.tcp_wmem={BUFFER}"),
            "net.ipv4.tcp_no_metrics_save=1".into(),
            "net.ipv4.conf.all.rp_filter=0".into(),
        ] {
            run("ip", &["netns", "exec", namespace, "sysctl", "-qw", &setting])?;
        }
    }
    let edge = stage.host("edge")?;
    let target = stage.wire(PATHS[0])?.addresses()[1].to_string();
    for (place, path) in PATHS.iter().enumerate().skip(1) {
        let [near, far] = stage.wire(path)?.addresses().map(|address| address.to_string());
        let metric = (100 + place).to_string();
        edge.ip(&["route", "add", &target, "via", &far, "dev", path, "metric", &metric])?;
        edge.ip(&["mptcp", "endpoint", "add", &near, "dev", path, "subflow"])?;
    }
    Ok(())
}

/// Both nodes, joined by a link on all paths.
async fn nodes(stage: &Stage, scratch: &Scratch, load: &Load) -> anyhow::Result<Vec<Process>> {
    let target = ways(stage, load)?[0].1.to_string();
    let keys = scratch.path().join("keys");
    rig::keys(&rig::tidegate_program()?, &keys, &[("hq", Some(&target)), ("edge", None)])?;
    let keys = keys.display();
    let window = load.buffer.map_or_else(String::new, |bytes| format!(", window = \"{bytes}B\""));
    let files = |name: &str| {
        format!(
            "ca = \"{keys}/ca.pem\", certificate = \"{keys}/{name}.pem\", key = \"{keys}/{name}.key\""
        )
    };
    let limits = limits(load);
    let far = format!(
        "[node]\nname = \"hq\"\n{limits}\
         [[stream]]\nstrict_order = true\n\
         [[input]]\nlink = {{ listen = \"0.0.0.0:{LINK_PORT}\", {}{window} }}\n\
         [[output]]\nunconfirmed_max = 4096\nmqtt = {{ url = \"mqtt://127.0.0.1:{PORT}\" }}\n",
        files("hq")
    );
    let bindings = ways(stage, load)?.into_iter().zip(PATHS);
    let binding = |((from, _), path): ((Ipv4Addr, _), &str)| match load.is_local {
        true => format!("\"{from}\""),
        false => format!("{path:?}"),
    };
    let paths: Vec<String> = bindings.map(binding).collect();
    let edge = format!(
        "[node]\nname = \"edge\"\n{limits}\
         [[input]]\nmqtt = {{ listen = \"127.0.0.1:1883\" }}\n\
         [[stream]]\nmemory = \"1MiB\"\nblock_max = \"1h\"\nstrict_order = true\n\
         [[output]]\nlink = {{ to = \"{target}:{LINK_PORT}\", {}, paths = [{}], tcp = \"never\" }}\n",
        files("edge"),
        paths.join(", ")
    );
    let mut nodes = Vec::new();
    for (name, host, text) in [("hq", "cloud", far), ("edge", load.edge(), edge)] {
        let (name, host, tidegate) = (name.into(), host.into(), Some(text));
        let node = world::Process { name, host, tidegate, ..world::Process::default() };
        nodes.push(rig::process::raise(&node, stage, scratch).await?);
    }
    Ok(nodes)
}

/// Our address and theirs on each path.
fn ways(stage: &Stage, load: &Load) -> anyhow::Result<Vec<(Ipv4Addr, Ipv4Addr)>> {
    if load.is_local {
        return Ok((1..=3)
            .map(|last| (Ipv4Addr::new(127, 0, 0, last), Ipv4Addr::LOCALHOST))
            .collect());
    }
    let wires = PATHS.into_iter().map(|path| stage.wire(path).map(|wire| wire.addresses().into()));
    wires.collect()
}

/// Bare QUIC on all paths: in place of nodes, clients and their MQTT.
async fn quinn(stage: &Stage, scratch: &Scratch, load: &Load) -> anyhow::Result<Rig> {
    /// Payload of what heavy loss leaves of the paths, in bits a second.
    const FULL: f64 = 120e6;
    let ways = ways(stage, load)?;
    let keys = scratch.path().join("keys");
    let name = ways[0].1.to_string();
    rig::keys(&rig::tidegate_program()?, &keys, &[("hq", Some(&name))])?;
    let file = |name: &str| keys.join(name);
    let at = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, LINK_PORT);
    let job = ReceiveDatagrams { at, certificate: file("hq.pem"), key: file("hq.key") };
    let job = Job::ReceiveDatagrams(job);
    let mut receiver = Process::start("receiver", stage.job("cloud", &job)?)?;
    receiver.says(READY, CONNECT).await?;
    let whole: f64 = scene::PATHS.iter().map(|path| path.0 as f64).sum();
    let path = |((from, to), of): ((Ipv4Addr, Ipv4Addr), &(u64, u64, u64))| {
        (from, SocketAddrV4::new(to, LINK_PORT), of.0 as f64 / whole)
    };
    let paths = ways.into_iter().zip(&scene::PATHS).map(path).collect();
    let (begin_ns, begin) = (wall_ns() + LEAD.as_nanos() as u64, Instant::now() + LEAD);
    let rate = if load.is_local { load.rate } else { load.rate.or(Some(FULL)) };
    let (ca, seconds) = (file("ca.pem"), load.seconds);
    let job = Job::SendDatagrams(SendDatagrams { paths, ca, name, rate, begin_ns, seconds });
    let sender = Process::start("sender", stage.job(load.edge(), &job)?)?;
    let workers = [sender.id(), receiver.id()].into_iter().flatten().collect();
    Ok(Rig { sender, receiver, begin, workers, _servers: Vec::new() })
}

/// What both nodes have in common. Each stream keeps its order, also where records are late.
fn limits(load: &Load) -> String {
    let latency = load.within.map_or_else(|| "1h".into(), |ms| format!("{ms}ms"));
    format!(
        "[[class]]\nname = \"media\"\nlatency = \"{latency}\"\n\
         [limits]\nmemory = \"256MiB\"\nrecord_max = \"64KiB\"\n\
         [http]\nlisten = []\n"
    )
}
