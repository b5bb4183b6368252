//! The world of `fleet-outage`, in `lab/worlds/fleet-outage.toml`, with the keys of its nodes and its outages.

use std::path::Path;
use std::time::Duration;

use tidegate::support::tls::authority::Authority;

use super::{Failure, OUTAGE, Party, begins, length};
use crate::net::scratch::Scratch;
use crate::net::wire;
use crate::sim::quantity::{Span, Speed};
use crate::world::{ChangeSpec, Fault, World};

const WORLD: &str = include_str!("../../../../worlds/fleet-outage.toml");
/// Of an uplink that is idle.
pub(super) const RTT: Duration = Duration::from_millis(40);
/// The classes.
pub(super) const CLASSES: [&str; 3] = ["ls", "nm", "lt"];
/// What a node has to carry, and the letter with which its hosts begin.
pub(super) const LOADS: [(&str, char); 2] = [("light", 'l'), ("busy", 'b')];
/// Certificates are good for a day.
const DAYS: u64 = 1;

/// The name of the source of a class of a party.
pub(super) fn source(class: &str, letter: char, party: Party) -> String {
    format!("{class}{}", host(letter, party))
}

/// The same of the neighbour's.
pub(super) fn lender(class: &str, letter: char) -> String {
    format!("{class}{letter}lend")
}

fn host(letter: char, party: Party) -> String {
    let name = match party {
        Party::Fleet => "own",
        Party::Alone => "alone",
        Party::Bridge => "bridge",
    };
    format!("{letter}{name}")
}

/// The world, and the folder with its keys, which must outlive it. `program` leads its fleets.
pub(super) fn world(
    failure: Failure,
    (outages, seed): (u64, u64),
    program: &Path,
) -> anyhow::Result<(World, Scratch)> {
    let scratch = Scratch::new()?;
    let authority = Authority::at(scratch.path());
    authority.init()?;
    for (place, (_, letter)) in LOADS.into_iter().enumerate() {
        let [own, lender] = wire::addresses(place).map(|address| [address.to_string()]);
        authority.issue(&format!("{letter}own"), &own, DAYS)?;
        authority.issue(&format!("{letter}lend"), &lender, DAYS)?;
        authority.issue(&format!("{letter}orch"), &lender, DAYS)?;
    }
    let [keys, program] = [scratch.path(), program].map(|path| path.display().to_string());
    let mut world = World::varied(WORLD, &[("keys", &*keys), ("program", &*program)])?;
    (world.length, world.seed) = (Some(Span::seconds(length(outages))), seed);
    for (_, letter) in LOADS {
        for party in Party::ALL {
            world.fault.extend(faults(failure, outages, &host(letter, party)));
        }
    }
    Ok((world, scratch))
}

fn faults(failure: Failure, outages: u64, host: &str) -> Vec<Fault> {
    let (link, process, changes) = match failure {
        Failure::Stalled => {
            let rate = |megabits| ChangeSpec::Rate(Speed::megabits(megabits));
            (Some(format!("up{host}")), None, [rate(0.0), rate(2.0)])
        }
        Failure::Refused => {
            let changes = [ChangeSpec::Kill, ChangeSpec::Restart];
            (None, Some(format!("door{host}")), changes)
        }
    };
    let fault = |at: u64, change: &ChangeSpec| {
        let (link, process, change) = (link.clone(), process.clone(), change.clone());
        Fault { at: Span::seconds(at), link, way: None, process, change }
    };
    let both = |at| [fault(at, &changes[0]), fault(at + OUTAGE, &changes[1])];
    begins(outages).flat_map(both).collect()
}
