//! An emulated link between two hosts: a TUN device on each, addresses, and the pump between them.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::NetError;
use super::host::{self, Host};
use super::pump::{Pump, Report, Way};
use super::tun::Tun;
use crate::link::{Change, Options};

/// Links that one world can have: each has a network of its own below 10.212.
pub(crate) const LINKS_MAX: usize = 255;

/// The link. Dropping it removes it from its hosts.
#[derive(Debug)]
pub struct Wire {
    pump: Pump,
    addresses: [Ipv4Addr; 2],
}

impl Wire {
    /// Joins two hosts by their world's link number `index`, which is called `name` on both (15 letters
    /// at most). The uplink goes from the first to the second.
    ///
    /// # Errors
    /// No TUN devices here, or a name that the system refuses.
    pub fn new(
        ends: [&Host; 2],
        name: &str,
        index: usize,
        options: [Options; 2],
        seed: u64,
    ) -> Result<Wire, NetError> {
        Self::between(ends, name, addresses(index), options, seed)
    }

    /// The same with these addresses.
    ///
    /// # Errors
    /// No TUN devices here, or a name that the system refuses.
    pub fn between(
        ends: [&Host; 2],
        name: &str,
        addresses: [Ipv4Addr; 2],
        options: [Options; 2],
        seed: u64,
    ) -> Result<Wire, NetError> {
        let devices = [Tun::new(ends[0], name)?, Tun::new(ends[1], name)?];
        for (at, host) in ends.iter().enumerate() {
            let [own, peer] = [addresses[at], addresses[1 - at]].map(|address| address.to_string());
            host.ip(&["address", "add", &own, "peer", &peer, "dev", name])?;
            host.ip(&["link", "set", "dev", name, "up"])?;
        }
        Ok(Wire { pump: Pump::start(devices, options, seed)?, addresses })
    }

    /// The addresses of its two ends.
    pub fn addresses(&self) -> [Ipv4Addr; 2] {
        self.addresses
    }

    /// Changes a way from now on.
    pub fn change(&self, way: Way, change: Change) {
        self.pump.change(way, change);
    }

    /// What a way has done so far; `None` if its thread has ended, which only a mistake of ours can do.
    pub fn report(&self, way: Way) -> Option<Report> {
        self.pump.report(way)
    }
}

/// Whether links can be emulated here.
pub fn probe() -> Result<(), NetError> {
    host::remove_stale()?;
    let run = host::next_run();
    let [first, second] = [Host::new(run, "first")?, Host::new(run, "second")?];
    let options = || Options::new(1_000_000, Duration::ZERO, 10_000);
    Wire::new([&first, &second], "probe", 0, [options(), options()], 0).map(drop)
}

/// The addresses of a link's ends. The hosts are private, so they can always be the same.
///
/// Panics if `index` is not below [`LINKS_MAX`].
pub fn addresses(index: usize) -> [Ipv4Addr; 2] {
    assert!(index < LINKS_MAX, "a world has at most {LINKS_MAX} links");
    [1, 2].map(|end| Ipv4Addr::new(10, 212, index as u8, end))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddrV4, UdpSocket};

    use super::*;
    use crate::link::Loss;
    use crate::net::host::next_run;

    /// Two hosts and a link of 100 Mbit/s between them, or `None` with the reason printed.
    fn wire() -> Option<([Host; 2], Wire)> {
        let make = || {
            let run = next_run();
            let hosts = [Host::new(run, "edge")?, Host::new(run, "cloud")?];
            let options = || Options::new(100_000_000, Duration::from_millis(1), 100_000);
            let [edge, cloud] = &hosts;
            let wire = Wire::new([edge, cloud], "lte", 0, [options(), options()], 1)?;
            Ok((hosts, wire))
        };
        make().inspect_err(|error: &NetError| println!("skipped: {error}")).ok()
    }

    fn socket(host: &Host, address: Ipv4Addr) -> UdpSocket {
        host.udp(SocketAddrV4::new(address, 7000)).unwrap()
    }

    #[test]
    fn packets_cross_it_whole_and_are_counted() {
        let Some((hosts, wire)) = wire() else { return };
        let [near, far] = wire.addresses();
        let (edge, cloud) = (socket(&hosts[0], near), socket(&hosts[1], far));
        let mut buffer = [0; 2000];
        for size in [0, 1, 1000, 1472] {
            let packet: Vec<u8> = (0..size).map(|at: usize| at as u8).collect();
            edge.send_to(&packet, (far, 7000)).unwrap();
            let (length, from) = cloud.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.ip()), (&packet[..], near.into()));
            cloud.send_to(&packet, from).unwrap();
            assert_eq!(edge.recv(&mut buffer).unwrap(), size);
        }
        for way in Way::ALL {
            let report = wire.report(way).unwrap();
            // With 28 bytes of headers each.
            assert_eq!((report.counts.arrived, report.counts.arrived_bytes), (4, 2473 + 4 * 28));
            assert_eq!((report.refused, report.lateness.len()), (0, 4));
        }
    }

    #[test]
    fn what_changes_holds_for_the_next_packet() {
        let Some((hosts, wire)) = wire() else { return };
        let [near, far] = wire.addresses();
        let (edge, cloud) = (socket(&hosts[0], near), socket(&hosts[1], far));
        wire.change(Way::Uplink, Change::Loss(Loss::Random(1.0)));
        // The report comes after the change, and the packets after the report.
        assert_eq!(wire.report(Way::Uplink).unwrap().counts.offered, 0);
        edge.send_to(b"lost", (far, 7000)).unwrap();
        while wire.report(Way::Uplink).unwrap().counts.lost_wire == 0 {}
        wire.change(Way::Uplink, Change::Loss(Loss::Random(0.0)));
        assert_eq!(wire.report(Way::Uplink).unwrap().counts.arrived, 0);
        edge.send_to(b"kept", (far, 7000)).unwrap();
        let mut buffer = [0; 10];
        assert_eq!(cloud.recv(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"kept");
    }

    #[test]
    fn a_link_whose_host_is_gone_still_answers_and_ends() {
        let Some((hosts, wire)) = wire() else { return };
        drop(hosts);
        assert_eq!(wire.report(Way::Downlink).unwrap().counts, crate::link::Counts::default());
    }
}
