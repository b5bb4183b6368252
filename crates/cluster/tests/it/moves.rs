//! Whole groups, simulated: messages that overtake each other between different members, owners that are slow,
//! moves at any moment, members that die and come back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_cluster::handover::{
    Group, GroupInput, GroupMessage, GroupOutput, HandoverError, HandoverOptions, Member, UnitId,
    UnitOwner,
};
use tidegate_types::random::SplitMix;
use tidegate_types::record::RefuseReason;
use tidegate_types::units::{Size, Time};

const UNIT: UnitId = UnitId(0);

/// What goes from one member to another.
#[derive(Clone, Debug)]
enum Wire {
    Said(UnitId, GroupMessage<u64>),
    Greeted,
}

/// One process, and the node in it.
#[derive(Debug)]
struct Process {
    group: Group<u64>,
    /// Taken and not settled.
    taken: VecDeque<(u64, u64)>,
    /// What operators have to work on.
    pool: VecDeque<u64>,
    /// What they remember: how many records they saw.
    memory: u64,
    drain: Option<u64>,
    /// Tickets of this life that have no answer.
    open: BTreeMap<u64, u64>,
}

struct World {
    now: Time,
    random: SplitMix,
    options: HandoverOptions,
    processes: Vec<Option<Process>>,
    wires: BTreeMap<(u16, u16), VecDeque<Wire>>,
    /// What of each member is on its disk.
    disks: Vec<UnitOwner>,
    has_disks: bool,
    published: Vec<u64>,
    tickets: u64,
    /// What owners' logs have, in order.
    logged: Vec<u64>,
    answered: BTreeSet<u64>,
    shown: Vec<Vec<u64>>,
    moves: Vec<Result<(), HandoverError>>,
}

impl World {
    fn new(seed: u64, members: u16, has_disks: bool) -> World {
        let first = UnitOwner { epoch: 0, member: Member(0) };
        let mut world = World {
            now: Time::ZERO,
            random: SplitMix(seed),
            options: HandoverOptions::default(),
            processes: (0..members).map(|_| None).collect(),
            wires: BTreeMap::new(),
            disks: vec![first; usize::from(members)],
            has_disks,
            published: vec![0; usize::from(members)],
            tickets: 0,
            logged: Vec::new(),
            answered: BTreeSet::new(),
            shown: vec![Vec::new(); usize::from(members)],
            moves: Vec::new(),
        };
        (0..members).for_each(|member| world.start(member));
        world
    }

    fn chance(&mut self, of: usize) -> usize {
        self.random.below(of)
    }

    fn members(&self) -> u16 {
        self.processes.len() as u16
    }

    fn start(&mut self, member: u16) {
        let owner = match self.has_disks {
            true => self.disks[usize::from(member)],
            false => UnitOwner { epoch: 0, member: Member(0) },
        };
        let group = Group::new(self.now, self.options, Member(member), self.members(), &[owner]);
        self.processes[usize::from(member)] = Some(Process {
            group,
            taken: VecDeque::new(),
            pool: VecDeque::new(),
            memory: 0,
            drain: None,
            open: BTreeMap::new(),
        });
        self.obey(member);
        for other in (0..self.members()).filter(|other| *other != member) {
            if self.processes[usize::from(other)].is_some() {
                self.input(member, GroupInput::Restarted(Member(other)));
                self.input(other, GroupInput::Restarted(Member(member)));
            }
        }
    }

    fn kill(&mut self, member: u16) {
        self.processes[usize::from(member)] = None;
        self.wires.retain(|(from, to), _| *from != member && *to != member);
    }

    fn input(&mut self, member: u16, input: GroupInput<u64>) {
        let now = self.now;
        if let Some(process) = &mut self.processes[usize::from(member)] {
            process.group.handle(now, input);
            self.obey(member);
        }
    }

    fn obey(&mut self, member: u16) {
        let place = usize::from(member);
        while let Some(process) = &mut self.processes[place]
            && let Some(output) = process.group.poll()
        {
            match output {
                GroupOutput::Send { to, unit, message } => {
                    self.send(member, to, Wire::Said(unit, message))
                }
                GroupOutput::Greet(to) => self.send(member, to, Wire::Greeted),
                GroupOutput::Answer { ticket, verdict } => {
                    let content = process.open.remove(&ticket).expect("each is answered once");
                    assert_eq!(verdict, Ok(()));
                    self.answered.insert(content);
                }
                GroupOutput::Work { take, content, .. } => {
                    process.pool.push_back(content);
                    process.taken.push_back((take, content));
                }
                GroupOutput::Show { content, .. } => self.shown[place].push(content),
                GroupOutput::Drain { attempt, .. } => process.drain = Some(attempt),
                GroupOutput::Begin { state, .. } => process.memory = state.unwrap_or_default(),
                GroupOutput::Owned { owner, .. } => {
                    if owner.member != Member(member) {
                        process.memory = 0;
                    }
                    self.disks[place] = owner;
                }
                GroupOutput::Moved { result, .. } => self.moves.push(result),
            }
        }
    }

    fn send(&mut self, from: u16, to: Member, wire: Wire) {
        // What is said to the dead is not heard.
        if self.processes[usize::from(to.0)].is_some() {
            self.wires.entry((from, to.0)).or_default().push_back(wire);
        }
    }

    fn publish(&mut self, member: u16) {
        let place = usize::from(member);
        let Some(process) = &mut self.processes[place] else { return };
        self.published[place] += 1;
        self.tickets += 1;
        let content = u64::from(member) << 32 | self.published[place];
        process.open.insert(self.tickets, content);
        let (ticket, size) = (self.tickets, Size(1));
        self.input(member, GroupInput::Publish { unit: UNIT, ticket, size, content });
    }

    /// One thing happens in a process: a record is settled, or an operator has worked on one.
    fn work(&mut self, member: u16) {
        let settles = self.chance(2) == 0;
        let place = usize::from(member);
        let Some(process) = &mut self.processes[place] else { return };
        if settles && let Some((take, content)) = process.taken.pop_front() {
            self.logged.push(content);
            let verdict = Ok(());
            return self.input(member, GroupInput::Settled { unit: UNIT, take, verdict });
        }
        if let Some(content) = process.pool.pop_front() {
            process.memory += 1;
            self.shown[place].push(content);
            self.input(member, GroupInput::Made { unit: UNIT, content });
        } else if process.taken.is_empty()
            && let Some(attempt) = process.drain.take()
        {
            let state = Some(process.memory);
            self.input(member, GroupInput::Drained { unit: UNIT, attempt, state });
        }
    }

    fn deliver(&mut self) {
        let ready: Vec<_> = self.wires.keys().copied().collect();
        if ready.is_empty() {
            return;
        }
        let (from, to) = ready[self.chance(ready.len())];
        let wire = self.wires.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        self.wires.retain(|_, wires| !wires.is_empty());
        match wire {
            Some(Wire::Said(unit, message)) => {
                self.input(to, GroupInput::Heard { from: Member(from), unit, message });
            }
            Some(Wire::Greeted) => self.input(to, GroupInput::Greeted(Member(from))),
            None => {}
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(100);
        for member in 0..self.members() {
            let process = &self.processes[usize::from(member)];
            let due = process.as_ref().and_then(|process| process.group.next_timeout());
            if due.is_some_and(|due| due <= self.now) {
                self.input(member, GroupInput::Tick);
            }
        }
        match self.chance(3) {
            0 => {
                for member in 0..self.members() {
                    self.work(member);
                }
            }
            _ => self.deliver(),
        }
    }

    fn give(&mut self) {
        let to = Member(self.chance(self.processes.len()) as u16);
        for member in 0..self.members() {
            let is_open = self.processes[usize::from(member)]
                .as_ref()
                .is_some_and(|process| process.group.is_open(UNIT));
            if is_open && self.processes[usize::from(to.0)].is_some() {
                self.input(member, GroupInput::Move { unit: UNIT, to });
            }
        }
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..400_000 {
            self.step();
            let is_quiet = |process: &Option<Process>| {
                let Some(process) = process else { return false };
                process.open.is_empty()
                    && process.taken.is_empty()
                    && process.pool.is_empty()
                    && process.drain.is_none()
                    && process.group.next_timeout().is_none()
            };
            if self.wires.is_empty() && self.processes.iter().all(is_quiet) {
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.processes);
    }

    fn owners(&self) -> Vec<Option<UnitOwner>> {
        let all = self.processes.iter().flatten();
        all.map(|process| process.group.owner(UNIT)).collect()
    }

    fn open(&self) -> usize {
        let all = self.processes.iter().flatten();
        all.filter(|process| process.group.is_open(UNIT)).count()
    }
}

/// The records of each publisher, in the order in which they are in `all`.
fn by_publisher(all: &[u64]) -> BTreeMap<u64, Vec<u64>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for content in all {
        found.entry(content >> 32).or_default().push(content & 0xFFFF_FFFF);
    }
    found
}

#[test]
fn records_come_once_and_in_order_while_a_unit_moves() {
    for seed in 0..300 {
        let mut world = World::new(seed, 3, true);
        for step in 0..8000 {
            world.step();
            assert!(world.open() <= 1, "seed {seed}: two owners");
            if step % 16 == 0 {
                let member = world.chance(3) as u16;
                world.publish(member);
            }
            if step % 300 == 0 {
                world.give();
            }
        }
        world.settle();
        let all: u64 = world.published.iter().sum();
        assert!(world.moves.iter().filter(|moved| moved.is_ok()).count() > 3, "seed {seed}");
        for shown in &world.shown {
            for (publisher, seen) in by_publisher(shown) {
                let count = world.published[publisher as usize];
                assert!(seen.iter().copied().eq(1..=count), "seed {seed}: {publisher}: {seen:?}");
            }
            assert_eq!(shown.len() as u64, all, "seed {seed}");
        }
        assert_eq!(world.logged.len() as u64, all, "seed {seed}: an owner took one twice");
        let owner = world.owners()[0].map_or(0, |owner| owner.member.0);
        let memory = world.processes[usize::from(owner)].as_ref().map(|process| process.memory);
        assert_eq!(memory, Some(all), "seed {seed}: what operators remember moved with the unit");
    }
}

/// Members die at any moment, those that give and those that take with them.
fn members_die(has_disks: bool) {
    for seed in 0..300 {
        let mut world = World::new(seed, 3, has_disks);
        for step in 0..4000 {
            world.step();
            if has_disks {
                assert!(world.open() <= 1, "seed {seed}: two owners");
            }
            if step % 16 == 0 {
                let member = world.chance(3) as u16;
                world.publish(member);
            }
            if step % 300 == 0 {
                world.give();
            }
            if step % 400 == 170 {
                let member = world.chance(3) as u16;
                world.kill(member);
            }
            if step % 400 == 300 {
                let dead = (0..3).find(|&member| world.processes[usize::from(member)].is_none());
                dead.into_iter().for_each(|member| world.start(member));
            }
        }
        (0..3).for_each(|member| {
            if world.processes[usize::from(member)].is_none() {
                world.start(member);
            }
        });
        world.settle();
        let logged: BTreeSet<u64> = world.logged.iter().copied().collect();
        assert!(world.answered.is_subset(&logged), "seed {seed}: an accepted record is lost");
        let owners = world.owners();
        assert!(owners.iter().all(|owner| *owner == owners[0]), "seed {seed}: {owners:?}");
        assert_eq!(world.open(), 1, "seed {seed}");
    }
}

#[test]
fn what_was_accepted_is_with_an_owner_whoever_dies() {
    members_die(true);
}

#[test]
fn a_group_without_disks_finds_one_owner_again() {
    members_die(false);
}

#[test]
fn an_owner_that_cannot_end_keeps_the_unit() {
    let mut world = World::new(1, 2, true);
    (0..200).for_each(|_| world.step());
    world.input(0, GroupInput::Move { unit: UNIT, to: Member(1) });
    world.publish(1);
    (0..4).for_each(|_| world.deliver());
    assert_eq!(world.open(), 0, "it takes nothing while it ends");
    world.now += world.options.ending;
    world.input(0, GroupInput::Tick);
    assert_eq!(world.moves, [Err(HandoverError::NotDrained)]);
    world.settle();
    assert_eq!(world.shown[1], [1 << 32 | 1]);
    world.input(0, GroupInput::Move { unit: UNIT, to: Member(0) });
    world.input(1, GroupInput::Move { unit: UNIT, to: Member(0) });
    assert_eq!(world.moves[1..], [Err(HandoverError::There), Err(HandoverError::NotOwner)]);
}

#[test]
fn a_unit_is_seized_where_its_owner_is_gone() {
    let mut world = World::new(1, 3, true);
    (0..200).for_each(|_| world.step());
    world.publish(1);
    (0..200).for_each(|_| world.step());
    world.kill(0);
    world.publish(1);
    world.input(2, GroupInput::Seize(UNIT));
    for _ in 0..50_000 {
        world.step();
    }
    assert_eq!(world.answered.len(), 2);
    world.start(0);
    world.settle();
    assert_eq!(world.owners(), [Some(UnitOwner { epoch: 1, member: Member(2) }); 3]);
    assert_eq!(world.open(), 1);
}

#[test]
fn who_gave_a_unit_to_the_dead_goes_on_with_what_it_remembers() {
    let mut world = World::new(1, 3, true);
    (0..200).for_each(|_| world.step());
    (0..5).for_each(|_| world.publish(2));
    world.settle();
    world.input(0, GroupInput::Move { unit: UNIT, to: Member(1) });
    while world.owners()[0].is_none_or(|owner| owner.epoch == 0) {
        world.work(0);
    }
    world.kill(1);
    let memory = |world: &World| world.processes[0].as_ref().map(|process| process.memory);
    assert_eq!(memory(&world), Some(0), "it has let go of it");
    world.input(0, GroupInput::Seize(UNIT));
    assert_eq!(memory(&world), Some(5));
    world.start(1);
    world.settle();
    assert_eq!(world.owners(), [Some(UnitOwner { epoch: 2, member: Member(0) }); 3]);
    assert_eq!(memory(&world), Some(5));
}

#[test]
fn what_waits_is_bounded() {
    let options = HandoverOptions { held: Size(10), ..HandoverOptions::default() };
    let owner = UnitOwner { epoch: 0, member: Member(1) };
    let mut group = Group::new(Time::ZERO, options, Member(0), 2, &[owner]);
    let mut publish = |ticket, size| {
        let (unit, content) = (UNIT, 0u64);
        group.handle(Time::ZERO, GroupInput::Publish { unit, ticket, size: Size(size), content });
        std::iter::from_fn(|| group.poll())
            .find(|output| matches!(output, GroupOutput::Answer { .. }))
    };
    assert_eq!(publish(1, 8), None);
    let verdict = Err(RefuseReason::Full);
    assert_eq!(publish(2, 3), Some(GroupOutput::Answer { ticket: 2, verdict }));
    assert_eq!(publish(3, 2), None);
}

mod wire {
    use bytes::{Bytes, BytesMut};
    use proptest::prelude::*;
    use tidegate_cluster::handover::wire::{MemberFrame, MemberFrameError, VERSION, digest};

    use super::*;

    fn frames() -> Vec<MemberFrame> {
        let owner = UnitOwner { epoch: 7, member: Member(2) };
        let content = Bytes::from_static(b"\x01record");
        let messages = [
            GroupMessage::Forward { round: 3, seq: 9, content: content.clone() },
            GroupMessage::Answered(9, Ok(())),
            GroupMessage::Answered(9, Err(RefuseReason::Storage)),
            GroupMessage::Refused { seq: 9, owner, is_open: true },
            GroupMessage::Result(7, content.clone()),
            GroupMessage::Ended(7),
            GroupMessage::Take(8, None),
            GroupMessage::Take(8, Some(content)),
            GroupMessage::Table { owner, is_open: false },
        ];
        let said = messages.map(|message| MemberFrame::Said(UnitId(4), message));
        let others = [
            MemberFrame::Hello { node: "edge-1".into(), incarnation: 5, digest: 6 },
            MemberFrame::Welcome { incarnation: 5, received: 70 },
            MemberFrame::Refused("why".into()),
            MemberFrame::Greeted,
            MemberFrame::Received(70),
            MemberFrame::Alive,
            MemberFrame::Order {
                unit: "taxi-7".into(),
                to: "edge-2".into(),
                seize: true,
                patient: false,
            },
            MemberFrame::Done(Ok(true)),
            MemberFrame::Done(Err("why not".into())),
            MemberFrame::Ask("edge-2".into()),
            MemberFrame::Order {
                unit: "t".into(),
                to: "edge-2".into(),
                seize: false,
                patient: true,
            },
            MemberFrame::Tell,
            MemberFrame::Drain { is_over: true },
        ];
        said.into_iter().chain(others).collect()
    }

    #[test]
    fn what_is_said_is_heard() {
        let mut bytes = BytesMut::new();
        frames().iter().for_each(|frame| frame.put(&mut bytes));
        for frame in frames() {
            assert_eq!(MemberFrame::take(&mut bytes), Ok(Some(frame)));
        }
        assert_eq!(MemberFrame::take(&mut bytes), Ok(None));
    }

    /// Version 1, byte by byte: members of a group may be of different releases.
    #[test]
    fn version_1_stays_as_it_is() {
        let expected = [
            "1d00000004040000000103000000000000000900000000000000017265636f7264",
            "0f000000040400000002090000000000000000",
            "0f000000040400000002090000000000000003",
            "260000000404000000030900000000000000070000000000000002000000000000000100000000000000",
            "150000000404000000040700000000000000017265636f7264",
            "0e0000000404000000050700000000000000",
            "0e0000000404000000060800000000000000",
            "150000000404000000070800000000000000017265636f7264",
            "1e000000040400000008070000000000000002000000000000000000000000000000",
            "18000000010105000000000000000600000000000000656467652d31",
            "110000000205000000000000004600000000000000",
            "0400000003776879",
            "0100000005",
            "09000000064600000000000000",
            "0100000007",
            "12000000080106000000746178692d37656467652d32",
            "020000000901",
            "080000000a776879206e6f74",
            "070000000b656467652d32",
            "0d00000008020100000074656467652d32",
            "010000000c",
            "020000000e01",
        ];
        let hex = |frame: &MemberFrame| {
            let mut bytes = BytesMut::new();
            frame.put(&mut bytes);
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let found: Vec<String> = frames().iter().map(hex).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn another_version_and_other_members_are_told_apart() {
        let mut bytes = BytesMut::new();
        frames().swap_remove(9).put(&mut bytes);
        bytes[5] = VERSION + 1;
        assert_eq!(MemberFrame::take(&mut bytes), Err(MemberFrameError::Version(VERSION + 1)));
        let of = |texts: &[&'static str]| digest(texts.iter().copied());
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(of(&[]), 0xcbf2_9ce4_8422_2325);
    }

    proptest! {
        #[test]
        fn damaged_frames_are_read_or_refused(
            which in 0usize..22, at in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let mut bytes = BytesMut::new();
            frames()[which].put(&mut bytes);
            let place = at.index(bytes.len());
            bytes[place] ^= 1 << bit;
            while let Ok(Some(frame)) = MemberFrame::take(&mut bytes) {
                let mut again = BytesMut::new();
                frame.put(&mut again);
                prop_assert_eq!(MemberFrame::take(&mut again), Ok(Some(frame)));
            }
        }
    }
}
