//! Two hosts, edge and cloud, joined by one link: of the kernel, whose directions can be limited, or emulated.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::host::Host;
use super::stage::Stage;
use super::wire::Wire;
use super::{NetError, run};
use crate::link::Options;

/// The link's card, in both namespaces.
const CARD: &str = "uplink";

tidegate_types::named! {
    /// A side of the link.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Side {
        /// Where records are made.
        Edge = "edge",
        /// Where they are used.
        Cloud = "cloud",
    }
}

impl Side {
    /// Its address on the link; the namespaces are private, so it can always be the same.
    pub fn address(self) -> Ipv4Addr {
        match self {
            Side::Edge => Ipv4Addr::new(10, 211, 0, 1),
            Side::Cloud => Ipv4Addr::new(10, 211, 0, 2),
        }
    }
}

/// A token bucket at one side's egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub bits_per_second: u64,
    /// Bytes that may go at once.
    pub burst: u32,
    /// Longest time that a packet may wait in the buffer; the next ones are dropped.
    pub latency_ms: u32,
}

impl Limit {
    /// 2 Mbit/s with the small bucket and the 100 ms of buffer that every measurement here uses.
    pub const TWO_MEGABIT: Limit =
        Limit { bits_per_second: 2_000_000, burst: 8 * 1024, latency_ms: 100 };
}

/// The two hosts. Dropping it ends every process on them and removes them.
#[derive(Debug)]
pub struct Link {
    stage: Stage,
}

impl Link {
    /// Removes what dead runs left, then makes two hosts and the link between them, unlimited.
    pub fn new() -> Result<Link, NetError> {
        Link::joined(|hosts| {
            let [edge, cloud] = hosts.map(Host::namespace);
            let ends = ["link", "add", CARD, "netns", edge, "type", "veth"];
            run("ip", &[&ends[..], &["peer", "name", CARD, "netns", cloud]].concat())?;
            for (host, side) in hosts.into_iter().zip(Side::ALL) {
                host.ip(&["address", "add", &format!("{}/24", side.address()), "dev", CARD])?;
                // One packet at a time: with segment offload a "packet" of 64 KB would defeat the bucket.
                host.ip(&["link", "set", CARD, "up", "gso_max_segs", "1"])?;
            }
            Ok(None)
        })
    }

    /// Two hosts and an emulated link between them, which behaves as `options` say: from the edge to the
    /// cloud, and back.
    ///
    /// # Errors
    /// Not permitted here, `ip` is missing, or there are no TUN devices.
    pub fn emulated(options: [Options; 2], seed: u64) -> Result<Link, NetError> {
        let addresses = Side::ALL.map(Side::address);
        Link::joined(|hosts| {
            let wire = Wire::between(hosts, CARD, addresses, options, seed)?;
            Ok(Some((CARD.to_owned(), wire)))
        })
    }

    fn joined(
        link: impl FnOnce([&Host; 2]) -> Result<Option<(String, Wire)>, NetError>,
    ) -> Result<Link, NetError> {
        let ends = Side::ALL.map(|side| (side.name(), side.address()));
        Ok(Link { stage: Stage::pair(ends, link)? })
    }

    /// The same as the stage of a world, with the hosts `edge` and `cloud`.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The emulated link; `None` where it is the kernel's.
    pub fn wire(&self) -> Option<&Wire> {
        self.stage.wire(CARD).ok()
    }

    /// Whether links can be made here.
    pub fn probe() -> Result<(), NetError> {
        Link::new()?.limit(Side::Edge, Limit::TWO_MEGABIT)
    }

    /// Limits what leaves a side, in place of what limited it before.
    ///
    /// # Errors
    /// The kernel has no token bucket (`tbf`), or `tc` is missing.
    pub fn limit(&self, side: Side, limit: Limit) -> Result<(), NetError> {
        let rate = format!("{}bit", limit.bits_per_second);
        let burst = format!("{}b", limit.burst);
        let latency = format!("{}ms", limit.latency_ms);
        let namespace = self.host(side).namespace();
        let bucket = ["tbf", "rate", &rate, "burst", &burst, "latency", &latency];
        let place = ["-n", namespace, "qdisc", "replace", "dev", CARD, "root"];
        run("tc", &[&place[..], &bucket].concat()).map(drop)
    }

    /// Cuts the link, or joins it again.
    pub fn set_up(&self, is_up: bool) -> Result<(), NetError> {
        let state = if is_up { "up" } else { "down" };
        self.host(Side::Edge).ip(&["link", "set", CARD, state]).map(drop)
    }

    /// Kills the processes of a side whose program is called `name`, and waits until they are gone.
    pub async fn kill(&self, side: Side, name: &str) -> Result<(), NetError> {
        loop {
            // A process that is dead and not yet waited for is in no namespace any more.
            let processes = run("ip", &["netns", "pids", self.host(side).namespace()])?;
            let is_named = |id: &&str| {
                let text = std::fs::read_to_string(format!("/proc/{id}/comm"));
                text.is_ok_and(|text| text.trim_end() == name)
            };
            let ids: Vec<&str> = processes.split_whitespace().filter(is_named).collect();
            if ids.is_empty() {
                return Ok(());
            }
            // One that ended in the meantime is as good.
            let _ = run("kill", &[&["-9"], &ids[..]].concat());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A command that will run inside a side; its process is the program itself, not `ip`.
    pub fn command(&self, side: Side, program: impl AsRef<Path>) -> Command {
        self.host(side).command(program)
    }

    /// Starts a thread that is on a side: sockets that it makes are that side's.
    ///
    /// # Errors
    /// The system has no thread, or the namespace cannot be entered.
    pub fn thread(&self, side: Side, work: impl FnOnce() + Send + 'static) -> Result<(), NetError> {
        self.host(side).thread(work)
    }

    fn host(&self, side: Side) -> &Host {
        self.stage.host(side.name()).expect("both sides are there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The link, or `None` with the reason printed.
    fn link() -> Option<Link> {
        let link = Link::probe().and_then(|()| Link::new());
        link.inspect_err(|error| println!("skipped: {error}")).ok()
    }

    #[test]
    fn the_sides_reach_each_other_and_nothing_is_left() {
        let Some(link) = link() else { return };
        let names = Side::ALL.map(|side| link.host(side).namespace().to_owned());
        let route = link.command(Side::Edge, "ip").args(["route", "get", "10.211.0.2"]).output();
        assert!(String::from_utf8_lossy(&route.unwrap().stdout).contains("dev uplink"));
        let mut sleeper = link.command(Side::Cloud, "sleep").arg("600").spawn().unwrap();
        // It is inside when it is listed.
        while run("ip", &["netns", "pids", &names[1]]).unwrap().trim().is_empty() {
            std::thread::yield_now();
        }
        drop(link);
        assert!(!sleeper.wait().unwrap().success(), "it was ended with its namespace");
        let left = run("ip", &["netns", "list"]).unwrap();
        assert!(names.iter().all(|name| !left.contains(name.as_str())), "{left}");
    }

    #[test]
    fn an_emulated_link_has_the_same_addresses() {
        let options = || Options::new(1_000_000, Duration::from_millis(1), 10_000);
        let link = match crate::net::wire::probe() {
            Ok(()) => Link::emulated([options(), options()], 1).unwrap(),
            Err(error) => return println!("skipped: {error}"),
        };
        for (from, to) in [(Side::Edge, Side::Cloud), (Side::Cloud, Side::Edge)] {
            let to = to.address().to_string();
            let route = link.command(from, "ip").args(["route", "get", &to]).output().unwrap();
            let text = String::from_utf8_lossy(&route.stdout).into_owned();
            assert!(text.contains(&format!("dev {CARD} src {}", from.address())), "{text}");
        }
        assert!(link.wire().is_some());
    }

    #[test]
    fn a_limit_can_be_set_and_changed() {
        let Some(link) = link() else { return };
        link.limit(Side::Edge, Limit::TWO_MEGABIT).unwrap();
        let slower = Limit { bits_per_second: 500_000, ..Limit::TWO_MEGABIT };
        link.limit(Side::Edge, slower).unwrap();
        let shown =
            run("tc", &["-n", link.host(Side::Edge).namespace(), "qdisc", "show", "dev", CARD]);
        assert!(shown.unwrap().contains("tbf"), "the bucket is there");
    }
}
