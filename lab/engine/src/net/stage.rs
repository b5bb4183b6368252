//! The hosts and links of a world as namespaces and emulated links, with routes between all of them.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::NetError;
use super::host::{self, Host};
use super::pump::Way;
use super::wire::{self, LINKS_MAX, Wire};
use crate::link::Change;
use crate::load::Job;
use crate::world::{World, fill};

/// The hosts and links. Dropping it ends what runs there and removes them.
#[derive(Debug)]
pub struct Stage {
    // In this order: a link ends before its hosts.
    wires: BTreeMap<String, Wire>,
    hosts: BTreeMap<String, Host>,
    addresses: BTreeMap<String, Ipv4Addr>,
}

impl Stage {
    /// Removes what dead runs left, then makes hosts and links. Traces are named from `folder` on.
    ///
    /// # Errors
    /// Not permitted here, a program is missing, a trace cannot be read.
    pub fn new(world: &World, folder: &Path) -> anyhow::Result<Stage> {
        ensure!(world.link.len() <= LINKS_MAX, "a world has at most {LINKS_MAX} links");
        let mut stage = Stage::hosts(world.hosts.iter().map(String::as_str))?;
        for (index, link) in world.link.iter().enumerate() {
            let place = || format!("link {}", link.name);
            let uplink = link.uplink.options(folder).with_context(place)?;
            let downlink = link.back().options(folder).with_context(place)?;
            let [first, second] = &link.ends;
            let ends = [stage.host(first)?, stage.host(second)?];
            let seed = world.seed ^ (index as u64 + 1) << 32;
            let wire = Wire::new(ends, &link.name, index, [uplink, downlink], seed)?;
            for (name, address) in link.ends.iter().zip(wire.addresses()) {
                stage.addresses.entry(name.clone()).or_insert(address);
                stage.addresses.insert(format!("{name}.{}", link.name), address);
            }
            stage.wires.insert(link.name.clone(), wire);
        }
        for route in routes(world) {
            let [to, by] = [route.to, route.by].map(|address| address.to_string());
            let host = stage.host(&route.host)?;
            host.ip(&["route", "add", &to, "via", &by, "dev", &route.link])?;
        }
        stage.hosts.values().try_for_each(Host::forward)?;
        Ok(stage)
    }

    /// Removes what dead runs left, then makes hosts that nothing joins.
    fn hosts<'n>(names: impl Iterator<Item = &'n str>) -> Result<Stage, NetError> {
        host::remove_stale()?;
        let run = host::next_run();
        let made = |name: &str| Ok((name.to_owned(), Host::new(run, name)?));
        let hosts = names.map(made).collect::<Result<_, NetError>>()?;
        Ok(Stage { wires: BTreeMap::new(), hosts, addresses: BTreeMap::new() })
    }

    /// Two hosts whose addresses are known before the link between them is made, and that link by its name, where it is
    /// emulated.
    pub(super) fn pair(
        ends: [(&str, Ipv4Addr); 2],
        wire: impl FnOnce([&Host; 2]) -> Result<Option<(String, Wire)>, NetError>,
    ) -> Result<Stage, NetError> {
        let mut stage = Stage::hosts(ends.into_iter().map(|(name, _)| name))?;
        stage.addresses = ends.map(|(name, address)| (name.to_owned(), address)).into();
        stage.wires = wire(ends.map(|(name, _)| &stage.hosts[name]))?.into_iter().collect();
        Ok(stage)
    }

    /// Recordings and rates in steps begin now, with the loads: what runs on the hosts took a while to come up,
    /// each time another.
    ///
    /// # Errors
    /// A trace cannot be read, or a link is not there.
    pub fn begin(&self, world: &World, folder: &Path) -> anyhow::Result<()> {
        for link in &world.link {
            let ways = [link.uplink.options(folder)?, link.back().options(folder)?];
            for (way, options) in Way::ALL.into_iter().zip(ways) {
                self.wire(&link.name)?.change(way, Change::Service(options.service));
            }
        }
        Ok(())
    }

    pub fn host(&self, name: &str) -> anyhow::Result<&Host> {
        self.hosts.get(name).with_context(|| format!("no host {name:?}"))
    }

    pub fn wire(&self, name: &str) -> anyhow::Result<&Wire> {
        self.wires.get(name).with_context(|| format!("no link {name:?}"))
    }

    /// A text with addresses filled in.
    pub fn fill(&self, text: &str) -> anyhow::Result<String> {
        fill(text, &self.addresses)
    }

    pub fn address(&self, host: &str) -> anyhow::Result<Ipv4Addr> {
        let address = self.addresses.get(host).copied();
        address.with_context(|| format!("host {host:?} has no address: it has no link"))
    }

    /// A command that does a job on a host.
    pub fn job(&self, host: &str, job: &Job) -> anyhow::Result<Command> {
        let program = std::env::current_exe().context("could not find the lab's program")?;
        let mut command = self.host(host)?.command(program);
        job.add_to(&mut command);
        Ok(command)
    }

    /// A command that will run on a host, addresses filled in.
    pub fn command(&self, host: &str, words: &[String]) -> anyhow::Result<Command> {
        let filled = words.iter().map(|word| self.fill(word));
        let filled = filled.collect::<anyhow::Result<Vec<String>>>()?;
        let (program, arguments) = filled.split_first().context("needs a command")?;
        let mut command = self.host(host)?.command(program);
        command.args(arguments);
        Ok(command)
    }
}

/// How a host reaches an address that is at none of its own links.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    host: String,
    to: Ipv4Addr,
    by: Ipv4Addr,
    link: String,
}

/// Over the fewest links; of several such ways, the one by the first link.
fn routes(world: &World) -> Vec<Route> {
    let addresses = |index: usize| wire::addresses(index);
    let mut routes = Vec::new();
    for host in &world.hosts {
        // The first step towards each host that is known: by which address, over which link.
        let mut steps: BTreeMap<&String, Option<(Ipv4Addr, &String)>> = [(host, None)].into();
        let mut near = VecDeque::from([host]);
        while let Some(at) = near.pop_front() {
            for (index, link) in world.link.iter().enumerate() {
                let Some(end) = link.ends.iter().position(|end| end == at) else { continue };
                let next = &link.ends[1 - end];
                let step = steps[at].unwrap_or((addresses(index)[1 - end], &link.name));
                if !steps.contains_key(next) {
                    steps.insert(next, Some(step));
                    near.push_back(next);
                }
                // Seen from this end first, so by the shorter way.
                let is_own = at == host || link.ends.contains(host);
                for to in addresses(index).into_iter().filter(|_| !is_own) {
                    if routes.iter().all(|route: &Route| (&route.host, route.to) != (host, to)) {
                        let (by, link) = (step.0, step.1.clone());
                        routes.push(Route { host: host.clone(), to, by, link });
                    }
                }
            }
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(links: &[(&str, &str, &str)]) -> World {
        let mut text = "name = \"t\"\nhosts = [\"a\", \"b\", \"c\", \"d\"]\n".to_owned();
        for (name, first, second) in links {
            text += &format!("[[link]]\nname = \"{name}\"\nends = [\"{first}\", \"{second}\"]\n");
            text += "uplink = { rate = \"100mbit\", delay = \"1ms\" }\n";
        }
        World::parse(&text).unwrap()
    }

    #[test]
    fn hosts_that_are_not_joined_have_the_shortest_way() {
        let routes = routes(&world(&[("x", "a", "b"), ("y", "b", "c"), ("z", "c", "d")]));
        let of = |host: &str| {
            let own = routes.iter().filter(|route| route.host == host);
            let show = |route: &Route| format!("{} by {} {}", route.to, route.by, route.link);
            own.map(show).collect::<Vec<_>>()
        };
        let by = "by 10.212.0.2 x";
        let all = ["10.212.1.1", "10.212.1.2", "10.212.2.1", "10.212.2.2"];
        assert_eq!(of("a"), all.map(|to| format!("{to} {by}")));
        assert_eq!(of("b"), ["10.212.2.1 by 10.212.1.2 y", "10.212.2.2 by 10.212.1.2 y"]);
        assert_eq!(of("c"), ["10.212.0.1 by 10.212.1.1 y", "10.212.0.2 by 10.212.1.1 y"]);
    }

    #[test]
    fn a_recording_begins_again_with_the_loads() {
        // It carries for a millisecond, then nothing: only from its beginning a packet crosses.
        let mut world = world(&[("x", "a", "b")]);
        world.link[0].uplink.rate = None;
        let open = vec![("0s", "100mbit"), ("1ms", "0mbit")];
        let step = |(at, rate): (&str, &str)| (at.parse().unwrap(), rate.parse().unwrap());
        world.link[0].uplink.steps = open.into_iter().map(step).collect();
        let stage = match Stage::new(&world, Path::new(".")) {
            Ok(stage) => stage,
            Err(error) => return println!("skipped: {error:#}"),
        };
        let address = |host: &str| std::net::SocketAddrV4::new(stage.addresses[host], 7000);
        let [far, near] =
            ["b", "a"].map(|host| stage.host(host).unwrap().udp(address(host)).unwrap());
        near.send_to(b"waits", address("b")).unwrap();
        while stage.wire("x").unwrap().report(Way::Uplink).unwrap().counts.offered == 0 {}
        stage.begin(&world, Path::new(".")).unwrap();
        let mut buffer = [0; 10];
        assert_eq!(far.recv(&mut buffer).unwrap(), 5);
    }

    #[test]
    fn everybody_reaches_everybody() {
        let world = world(&[("x", "a", "b"), ("y", "b", "c"), ("z", "c", "d")]);
        let stage = match Stage::new(&world, Path::new(".")) {
            Ok(stage) => stage,
            Err(error) => return println!("skipped: {error:#}"),
        };
        let far = std::net::SocketAddrV4::new(stage.addresses["d"], 7000);
        let receiver = stage.host("d").unwrap().udp(far).unwrap();
        let near = std::net::SocketAddrV4::new(stage.addresses["a"], 7000);
        let sender = stage.host("a").unwrap().udp(near).unwrap();
        sender.send_to(b"there", far).unwrap();
        let mut buffer = [0; 10];
        let (length, from) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!(from, near.into());
        receiver.send_to(&buffer[..length], from).unwrap();
        assert_eq!(sender.recv(&mut buffer).unwrap(), 5);
        let command = stage.command("a", &["echo".into(), "{d.z}".into()]).unwrap().output();
        assert_eq!(String::from_utf8_lossy(&command.unwrap().stdout), "10.212.2.2\n");
    }
}
