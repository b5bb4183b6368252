//! How a member begins.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex};

use tidegate_cluster::handover::wire::digest;
use tidegate_cluster::handover::{Group, HandoverOptions, Member, UnitId, UnitOwner};
use tidegate_types::account::Account;
use tidegate_types::record::Origin;
use tidegate_types::topic::Filter;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Event, GroupOptions, Task};
use crate::node::broker::Gate;
use crate::node::contract::Intake;
use crate::services::cluster::dial::{Dialer, Outgoing};
use crate::services::cluster::listen::Listener;
use crate::services::cluster::memory::{Memory, MemoryCounts};
use crate::services::cluster::{EVENTS_MAX, Handle, Inner, Unit, state};

/// Starts a member. It ends with the node.
///
/// # Errors
/// What it remembers cannot be read.
pub(crate) fn start(
    mut options: GroupOptions,
    intake: &Intake,
    tasks: &mut crate::support::tasks::Tasks,
) -> io::Result<Handle> {
    options.units.sort_by(|one, other| one.0.cmp(&other.0));
    let mut members: Vec<String> = options.peers.iter().map(|peer| peer.name.clone()).collect();
    members.push(options.me.to_string());
    members.sort();
    let units: Vec<String> = options.units.iter().map(|unit| unit.0.clone()).collect();
    let (owners, is_draining) = owners(&options, &members, &units)?;
    let topics = options.units.iter().flat_map(|unit| unit.1.iter().map(Filter::as_str));
    let digest = digest(members.iter().chain(&units).map(String::as_str).chain(topics));
    let me = Member(place(&members, &options.me) as u16);
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let (idle, idles) = mpsc::unbounded_channel();
    let (settle, settled) = mpsc::unbounded_channel();
    let (answers, saved) = mpsc::unbounded_channel();
    let handle = handle(&mut options, &members, &owners, (&events, &idle));
    let mut helpers = JoinSet::new();
    let account = intake.hub().account_of_listener();
    let outgoing = talk(&mut options, &members, digest, (&events, account), &mut helpers);
    let count = members.len() as u16;
    let task = Task {
        me,
        group: Group::new(intake.now(), HandoverOptions::default(), me, count, &owners),
        origin: Arc::new(Origin { node: options.me, incarnation: options.incarnation }),
        members,
        memory: Memory::new(options.operators, units.clone(), answers),
        units,
        handle: handle.clone(),
        outgoing,
        streams: options.streams,
        settle,
        publisher: intake.hub().publisher(),
        intake: intake.clone(),
        state: options.state,
        tickets: HashMap::new(),
        takes: HashMap::new(),
        given: 0,
        drains: BTreeMap::new(),
        orders: BTreeMap::new(),
        threads: options.threads,
        is_draining,
    };
    tasks.spawn(async move {
        task.run(inbox, settled, idles, saved).await;
        drop(helpers);
        Ok(())
    });
    Ok(handle)
}

fn place(members: &[String], name: &str) -> usize {
    members.iter().position(|member| member == name).unwrap_or_default()
}

/// Who owns what, as far as we know, and whether we drain.
fn owners(
    options: &GroupOptions,
    members: &[String],
    units: &[String],
) -> io::Result<(Vec<UnitOwner>, bool)> {
    let first = |owner: &str| UnitOwner { epoch: 0, member: Member(place(members, owner) as u16) };
    let owners: Vec<UnitOwner> = options.units.iter().map(|unit| first(&unit.2)).collect();
    match &options.state {
        Some(path) => state::read(path, units, members, &owners),
        None => Ok((owners, false)),
    }
}

fn handle(
    options: &mut GroupOptions,
    members: &[String],
    owners: &[UnitOwner],
    (events, idle): (&mpsc::Sender<Event>, &mpsc::UnboundedSender<UnitId>),
) -> Handle {
    let unit = |(number, (name, topics, _)): (usize, (String, Vec<Filter>, String))| {
        let unit = UnitId(number as u32);
        let gate = Gate::new(unit, idle.clone());
        Unit { name, topics, gate }
    };
    let peers = &options.peers;
    let clients = |name: &String| peers.iter().find(|peer| peer.name == *name)?.clients.clone();
    Handle(Arc::new(Inner {
        members: members.to_vec(),
        me: place(members, &options.me),
        clients: members.iter().map(clients).collect(),
        units: std::mem::take(&mut options.units).into_iter().enumerate().map(unit).collect(),
        owners: Mutex::new(owners.iter().map(|owner| (*owner, false)).collect()),
        events: events.clone(),
        forwarded: 0.into(),
        dropped: 0.into(),
        memory: MemoryCounts::default(),
        told: Mutex::default(),
    }))
}

/// Dials the other members, and listens to them.
fn talk(
    options: &mut GroupOptions,
    members: &[String],
    digest: u64,
    (events, account): (&mpsc::Sender<Event>, Account),
    helpers: &mut JoinSet<()>,
) -> Vec<Option<Arc<Outgoing>>> {
    let mut all: Vec<Option<Arc<Outgoing>>> = members.iter().map(|_| None).collect();
    let incarnation = options.incarnation;
    for peer in std::mem::take(&mut options.peers) {
        let place = place(members, &peer.name);
        let outgoing = Arc::<Outgoing>::default();
        all[place] = Some(outgoing.clone());
        let dialer = Dialer {
            me: options.me.clone(),
            incarnation,
            digest,
            member: Member(place as u16),
            peer,
            tls: options.tls.0.clone(),
            outgoing,
            events: events.clone(),
        };
        helpers.spawn(dialer.run());
    }
    let (tls, lives) = (options.tls.1.take(), (incarnation, digest));
    let shared = Arc::new(Listener::new(members.to_vec(), lives, tls, events.clone(), account));
    for listener in std::mem::take(&mut options.listeners) {
        helpers.spawn(shared.clone().run(listener));
    }
    all
}
