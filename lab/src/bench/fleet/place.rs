//! The world of four nodes, in `lab/worlds/fleet.toml`, and the keys of everybody in it.

use std::path::Path;

use tidegate::support::tls::authority::Authority;

use crate::net::scratch::Scratch;
use crate::net::wire;
use crate::world::World;

const WORLD: &str = include_str!("../../../worlds/fleet.toml");
/// Nodes, the busy one first.
pub(super) const NODES: usize = 4;
/// Members of etcd, and orchestrators.
const CONTROL: usize = 3;
/// The number of the link to the orchestrators: after those of the local network.
const CONTROL_LINK: usize = NODES;
/// The classes.
pub(super) const CLASSES: [&str; 3] = ["ls", "nm", "lt"];
/// Certificates are good for a day.
const DAYS: u64 = 1;

/// The world with so many records a second of the busy node's classes and other values, and the folder with its keys,
/// which must outlive it. `program` leads it.
pub(super) fn world(
    busy: [f64; 3],
    values: &[(&str, &str)],
    program: &Path,
) -> anyhow::Result<(World, Scratch)> {
    let scratch = Scratch::new()?;
    let authority = Authority::at(scratch.path());
    authority.init()?;
    for gate in 1..=NODES {
        let host = wire::addresses(gate - 1)[0].to_string();
        authority.issue(&format!("gate{gate}"), &[host], DAYS)?;
    }
    let host = [wire::addresses(CONTROL_LINK)[1].to_string()];
    for place in 1..=CONTROL {
        authority.issue(&format!("etcd{place}"), &host, DAYS)?;
        authority.issue(&format!("orch{place}"), &host, DAYS)?;
    }
    let [keys, program] = [scratch.path(), program].map(|path| path.display().to_string());
    let values = [&[("keys", &*keys), ("program", &*program)], values].concat();
    let mut world = World::varied(WORLD, &values)?;
    for (source, rate) in world.source.iter_mut().zip(busy) {
        source.per_second = rate;
    }
    Ok((world, scratch))
}
