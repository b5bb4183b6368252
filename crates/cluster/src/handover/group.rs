//! One member of a group: for each unit, what it owns, gives, takes, forwards and shows.

mod receive;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_types::record::RefuseReason;
use tidegate_types::units::Time;

use super::forward::{Forward, Taken};
use super::merge::Merge;
use super::{
    GroupInput, GroupMessage, GroupOutput, HandoverError, HandoverOptions, Member, UnitId,
    UnitOwner, earlier,
};

/// What a member has to do with a unit.
#[derive(Clone, Debug)]
enum Role<T> {
    /// Another one owns it.
    None,
    /// It is named as the owner, and waits until then for what the last owner's operators remembered.
    Named(Time),
    /// It owns it and takes records.
    Open,
    /// It owns it and ends what it has.
    Ending { to: Member, until: Time, is_asked: bool },
    /// It gave it away; the new owner has not said yet that it took it.
    Given { state: Option<T> },
}

impl<T> Role<T> {
    fn is_open(&self) -> bool {
        matches!(self, Role::Open)
    }
}

#[derive(Clone, Debug)]
struct Unit<T> {
    owner: UnitOwner,
    role: Role<T>,
    forward: Forward<T>,
    taken: Taken,
    merge: Merge<T>,
    /// Number of the last question for [`GroupOutput::Drain`].
    attempt: u64,
    /// The last epoch that was ours.
    made: u64,
}

/// See the folder's header.
#[derive(Clone, Debug)]
pub struct Group<T> {
    options: HandoverOptions,
    me: Member,
    members: Vec<Member>,
    units: Vec<Unit<T>>,
    /// Who has told what it knows, since we began.
    greeted: BTreeSet<Member>,
    has_started: bool,
    outputs: VecDeque<GroupOutput<T>>,
    /// What we say to ourselves.
    own: VecDeque<(UnitId, GroupMessage<T>)>,
}

impl<T: Clone> Group<T> {
    /// A member that starts, of so many in all. `owners` has each unit's owner, as far as is known.
    pub fn new(
        now: Time,
        options: HandoverOptions,
        me: Member,
        members: u16,
        owners: &[UnitOwner],
    ) -> Self {
        let until = now + options.start;
        let unit = |owner: &UnitOwner| Unit {
            owner: *owner,
            role: if owner.member == me { Role::Named(until) } else { Role::None },
            forward: Forward::new(owner.member),
            taken: Taken::default(),
            merge: Merge::new(),
            attempt: 0,
            made: owner.epoch,
        };
        let members = (0..members).map(Member).filter(|member| *member != me).collect();
        let units = owners.iter().map(unit).collect();
        let (outputs, own) = (VecDeque::new(), VecDeque::new());
        let greeted = BTreeSet::new();
        let has_started = false;
        let mut group = Group { options, me, members, units, greeted, has_started, outputs, own };
        group.begin_if_known(now);
        group
    }

    /// Who owns a unit, as far as is known here.
    pub fn owner(&self, unit: UnitId) -> Option<UnitOwner> {
        self.units.get(unit.0 as usize).map(|unit| unit.owner)
    }

    /// Whether a unit is ours and takes records.
    pub fn is_open(&self, unit: UnitId) -> bool {
        self.units.get(unit.0 as usize).is_some_and(|unit| unit.role.is_open())
    }

    /// How long an owner may take to end what it has, for moves that are asked for from now on.
    pub fn set_ending(&mut self, ending: Duration) {
        self.options.ending = ending;
    }

    /// What is to be told to a member that is there anew, after [`GroupInput::Restarted`].
    fn greet(&mut self, to: Member) {
        for place in 0..self.units.len() {
            let unit = UnitId(place as u32);
            let Unit { owner, role, .. } = &self.units[place];
            let message = match role {
                Role::Given { state } if owner.member == to => {
                    GroupMessage::Take(owner.epoch, state.clone())
                }
                role => GroupMessage::Table { owner: *owner, is_open: role.is_open() },
            };
            self.outputs.push_back(GroupOutput::Send { to, unit, message });
        }
        self.outputs.push_back(GroupOutput::Greet(to));
    }

    /// Takes what happened.
    pub fn handle(&mut self, now: Time, input: GroupInput<T>) {
        match input {
            GroupInput::Publish { unit, ticket, size, content } => {
                let most = self.options.held;
                let known = self.unit(unit);
                if !known.is_some_and(|it| it.forward.push(ticket, size, content, most)) {
                    let verdict = Err(RefuseReason::Full);
                    self.outputs.push_back(GroupOutput::Answer { ticket, verdict });
                }
                self.pump(now, unit);
            }
            GroupInput::Settled { unit, take, verdict } => {
                let answer = self.unit(unit).and_then(|it| it.taken.settled(take, verdict));
                if let Some((to, seq, verdict)) = answer {
                    self.say(to, unit, GroupMessage::Answered(seq, verdict));
                }
                self.drain(unit);
            }
            GroupInput::Made { unit, content } => {
                let Some(made) = self.unit(unit).map(|it| it.made) else { return };
                self.say_all(unit, &GroupMessage::Result(made, content));
            }
            GroupInput::Drained { unit, attempt, state } => self.drained(now, unit, attempt, state),
            GroupInput::Heard { from, unit, message } => self.heard(now, from, unit, message),
            GroupInput::Restarted(member) => {
                for place in 0..self.units.len() {
                    self.units[place].forward.restarted(member);
                    self.units[place].taken.restarted(member);
                }
                self.greet(member);
                self.pump_all(now);
            }
            GroupInput::Greeted(member) => {
                self.greeted.insert(member);
                self.begin_if_known(now);
            }
            GroupInput::Move { unit, to } => self.give(now, unit, to),
            GroupInput::Seize(unit) => {
                let me = self.me;
                if let Some(it) = self.unit(unit).filter(|it| !it.role.is_open()) {
                    it.owner = UnitOwner { epoch: it.owner.epoch + 1, member: me };
                    let state = match std::mem::replace(&mut it.role, Role::None) {
                        // Nobody is known to have gone on with it.
                        Role::Given { state } => state,
                        _ => None,
                    };
                    self.begin(now, unit, state);
                }
            }
            GroupInput::Tick => {}
        }
        self.tick(now);
        while let Some((unit, message)) = self.own.pop_front() {
            self.heard(now, self.me, unit, message);
        }
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<GroupOutput<T>> {
        self.outputs.pop_front()
    }

    /// When [`GroupInput::Tick`] is due.
    pub fn next_timeout(&self) -> Option<Time> {
        let of = |unit: &Unit<T>| {
            let role = match unit.role {
                Role::Named(until) | Role::Ending { until, .. } => Some(until),
                Role::None | Role::Open | Role::Given { .. } => None,
            };
            earlier(role, earlier(unit.merge.next_timeout(), unit.forward.next_timeout()))
        };
        self.units.iter().filter_map(of).min()
    }

    fn unit(&mut self, unit: UnitId) -> Option<&mut Unit<T>> {
        self.units.get_mut(unit.0 as usize)
    }

    fn say(&mut self, to: Member, unit: UnitId, message: GroupMessage<T>) {
        if to == self.me {
            self.own.push_back((unit, message));
        } else {
            self.outputs.push_back(GroupOutput::Send { to, unit, message });
        }
    }

    fn say_all(&mut self, unit: UnitId, message: &GroupMessage<T>) {
        for &to in &self.members {
            let message = message.clone();
            self.outputs.push_back(GroupOutput::Send { to, unit, message });
        }
    }

    fn show(&mut self, unit: UnitId, contents: Vec<T>) {
        let show = |content| GroupOutput::Show { unit, content };
        self.outputs.extend(contents.into_iter().map(show));
    }

    fn tick(&mut self, now: Time) {
        for place in 0..self.units.len() {
            let unit = UnitId(place as u32);
            let handing = self.options.handing;
            let it = &mut self.units[place];
            let shown = it.merge.tick(now, handing);
            it.forward.tick(now, handing, it.owner.member);
            let role = it.role.clone();
            self.show(unit, shown);
            match role {
                Role::Named(until) if now >= until => self.begin(now, unit, None),
                Role::Ending { until, .. } if now >= until => {
                    self.units[place].role = Role::Open;
                    self.announce(unit);
                    let result = Err(HandoverError::NotDrained);
                    self.outputs.push_back(GroupOutput::Moved { unit, result });
                }
                _ => {}
            }
        }
        self.pump_all(now);
    }

    fn pump_all(&mut self, now: Time) {
        (0..self.units.len()).for_each(|place| self.pump(now, UnitId(place as u32)));
    }

    /// Sends records on to the owner.
    fn pump(&mut self, now: Time, unit: UnitId) {
        while let Some(it) = self.unit(unit)
            && let Some((round, seq, content)) = it.forward.next(it.owner.member)
        {
            let to = it.owner.member;
            if to == self.me {
                self.forwarded(now, self.me, unit, (round, seq, content));
            } else {
                let message = GroupMessage::Forward { round, seq, content };
                self.outputs.push_back(GroupOutput::Send { to, unit, message });
            }
        }
    }

    /// Takes records of what is ours from now on.
    fn begin(&mut self, now: Time, unit: UnitId, state: Option<T>) {
        let Some(it) = self.unit(unit) else { return };
        let owner = it.owner;
        it.role = Role::Open;
        it.made = owner.epoch;
        it.forward.is_waiting = false;
        let shown = it.merge.reach(owner.epoch);
        self.show(unit, shown);
        self.outputs.push_back(GroupOutput::Owned { unit, owner });
        self.outputs.push_back(GroupOutput::Begin { unit, state });
        self.announce(unit);
        self.pump(now, unit);
    }

    fn announce(&mut self, unit: UnitId) {
        let Some(it) = self.unit(unit) else { return };
        it.forward.is_waiting = false;
        let owner = it.owner;
        self.say_all(unit, &GroupMessage::Table { owner, is_open: true });
    }

    /// All others have told what they know: what is ours after that is ours.
    fn begin_if_known(&mut self, now: Time) {
        if self.has_started || self.greeted.len() < self.members.len() {
            return;
        }
        self.has_started = true;
        for place in 0..self.units.len() {
            if matches!(self.units[place].role, Role::Named(_)) {
                self.begin(now, UnitId(place as u32), None);
            }
        }
    }

    fn give(&mut self, now: Time, unit: UnitId, to: Member) {
        let until = now + self.options.ending;
        let (me, is_member) = (self.me, self.members.contains(&to));
        let Some(it) = self.unit(unit) else { return };
        let wrong = match it.role {
            Role::Open if to == me => Some(HandoverError::There),
            Role::Open if is_member => None,
            Role::Ending { .. } | Role::Given { .. } => Some(HandoverError::Busy),
            Role::Open | Role::None | Role::Named(_) => Some(HandoverError::NotOwner),
        };
        if let Some(error) = wrong {
            return self.outputs.push_back(GroupOutput::Moved { unit, result: Err(error) });
        }
        it.role = Role::Ending { to, until, is_asked: false };
        self.drain(unit);
    }

    /// Asks for what is worked on, when all records that were taken are settled.
    fn drain(&mut self, unit: UnitId) {
        let Some(it) = self.unit(unit) else { return };
        if let Role::Ending { is_asked, .. } = &mut it.role
            && it.taken.is_empty()
            && !std::mem::replace(is_asked, true)
        {
            it.attempt += 1;
            let attempt = it.attempt;
            self.outputs.push_back(GroupOutput::Drain { unit, attempt });
        }
    }

    /// Nothing is left: hands over.
    fn drained(&mut self, now: Time, unit: UnitId, attempt: u64, state: Option<T>) {
        let Some(it) = self.unit(unit).filter(|it| it.attempt == attempt) else { return };
        let Role::Ending { to, .. } = it.role else { return };
        let ended = it.owner.epoch;
        let owner = UnitOwner { epoch: ended + 1, member: to };
        it.owner = owner;
        it.role = Role::Given { state: state.clone() };
        let shown = it.merge.reach(owner.epoch);
        self.show(unit, shown);
        self.outputs.push_back(GroupOutput::Owned { unit, owner });
        self.say_all(unit, &GroupMessage::Ended(ended));
        self.say(to, unit, GroupMessage::Take(owner.epoch, state));
        self.pump(now, unit);
    }
}
