//! Adaptation scripts: small Luau programs that edit what waits (BumbleBee, §III).
//!
//! A driver of a node calls [`Scripts::run`] where the node says `Output::RunScript`, hands the inputs that
//! it returns to the node before it polls again, and calls [`Scripts::fire`] at [`Scripts::next_timer`].
//! What a script decides on a call that fails counts for nothing: the record goes as it is.

mod allowance;
mod api;
pub mod board;
pub mod budget;
mod cursors;
mod effects;
mod fields;
pub mod fuzz;
mod handles;
mod program;
mod rates;
pub mod rehearsal;
mod runs;
mod seat;
pub mod spec;
mod stage;
mod verdict;
pub mod vm;

use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::{Edit, Input, QueueId};
use tidegate_node::rules::ScriptId;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::Time;

use self::allowance::Allowance;
use self::board::ScriptBoard;
pub use self::effects::ScriptNotice;
use self::program::Call;
pub use self::program::{LoadError, Ran, Script};
pub use self::seat::{Moment, Seat};
pub use self::spec::ScriptSpec;
pub use self::verdict::Verdict;
use crate::link::Links;
use crate::support::http::endpoint::Endpoint;

/// Scripts of one node.
pub const SCRIPTS_MAX: usize = 64;
/// Endpoints of one script.
pub const ENDPOINTS_MAX: usize = 64;
/// Between two looks for changes.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Which function of a script looks at a queue. A rule names a script and a side by one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one for what comes: `on_message`, `envoy_on_request`; the only one of a node.
    Request,
    /// The one for answers: `on_response`, `envoy_on_response`.
    Response,
}

impl Side {
    /// The number of a script's side, from the script's place.
    pub fn of(self, place: usize) -> ScriptId {
        ScriptId((place + if self == Side::Response { SCRIPTS_MAX } else { 0 }) as u16)
    }

    /// The side and the script's place, from a number.
    pub fn split(id: ScriptId) -> (Side, usize) {
        match usize::from(id.0) {
            place if place < SCRIPTS_MAX => (Side::Request, place),
            place => (Side::Response, place - SCRIPTS_MAX),
        }
    }
}

/// All scripts of a node, each at its place in the configuration.
#[derive(Debug, Default)]
pub struct Scripts {
    all: Vec<Script>,
    board: ScriptBoard,
    links: Links,
    /// What runs that can wait may take.
    allowance: Allowance,
    /// Whose turn it is to go on.
    turn: usize,
    /// When to look for changes again.
    look_at: Option<Time>,
}

impl Scripts {
    /// Loads scripts.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub fn load(specs: &[Arc<ScriptSpec>]) -> Result<Scripts, LoadError> {
        let scripts = specs.iter().enumerate();
        let load = |(place, spec): (usize, &Arc<ScriptSpec>)| {
            Script::load(spec.clone(), ScriptId(place as u16))
        };
        let mut scripts =
            Scripts { all: scripts.map(load).collect::<Result<_, _>>()?, ..Scripts::default() };
        scripts.begin();
        Ok(scripts)
    }

    /// Lets them look at the node's links.
    pub fn see_links(&mut self, links: Links) {
        self.links = links;
        self.all.iter().for_each(|script| script.see_links(&self.links));
    }

    fn begin(&mut self) {
        self.all.iter().for_each(|script| script.see_links(&self.links));
        self.look_at = self.all.iter().any(Script::watches).then_some(Time::ZERO);
        self.board.truncate(self.all.len());
        (0..self.all.len()).for_each(|place| self.show(place));
    }

    /// Where they tell what they did.
    pub fn board(&self) -> ScriptBoard {
        self.board.clone()
    }

    /// Whether one has a run to go on with, or records to look at.
    pub fn is_busy(&self) -> bool {
        self.all.iter().any(|script| script.runs.is_busy())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The place of a script.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|script| *script.spec.name == *name)
    }

    /// All, by their places.
    pub fn all(&self) -> impl Iterator<Item = &Script> {
        self.all.iter()
    }

    /// A script by its place.
    pub fn get(&self, id: ScriptId) -> Option<&Script> {
        self.all.get(Side::split(id).1)
    }

    /// An endpoint that the node names, and its script.
    pub fn endpoint(&self, number: u16) -> Option<(&Script, &Endpoint)> {
        let script = self.get(ScriptId(number >> 8))?;
        Some((script, script.transform.get(usize::from(number & 0xff))?))
    }

    /// Runs the script of a queue on a record that came, or lets the record wait for a run that serves what
    /// came meanwhile: that is [`Scripts::fire`]'s.
    pub fn run(
        &mut self,
        seat: &mut Seat,
        moment: Moment,
        queue: QueueId,
        delivery: DeliveryId,
    ) -> Ran {
        let mut ran = Ran::default();
        let Some(id) = seat.script_of(queue) else { return ran };
        let (_, place) = Side::split(id);
        if let Some(script) = self.all.get_mut(place) {
            let is_patient = script.is_for_all && !script.budget.is_spent();
            if script.runs.is_busy() || is_patient && !self.allowance.is_open(moment.now) {
                script.defer(queue, delivery, &mut ran);
                return ran;
            }
            script.run(seat, moment, Call::Message(queue, delivery), &mut ran);
            self.pay(place, is_patient, moment, &ran);
        }
        ran
    }

    /// A script had a turn: what can wait is paid for.
    fn pay(&mut self, place: usize, was_patient: bool, moment: Moment, ran: &Ran) {
        if was_patient || self.all[place].runs.is_suspended() {
            self.allowance.spend(moment.now, ran.took);
        }
        self.show(place);
    }

    /// Goes on with a run that was suspended, or with what came meanwhile.
    fn go_on(&mut self, seat: &mut Seat, moment: Moment) -> Option<Ran> {
        let is_open = self.allowance.is_open(moment.now);
        for step in 0..self.all.len() {
            let place = (self.turn + step) % self.all.len();
            let script = &mut self.all[place];
            let is_patient = script.is_patient();
            if !script.runs.is_busy() || is_patient && !is_open {
                continue;
            }
            let mut ran = Ran::default();
            script.work(seat, moment, &mut ran);
            self.pay(place, is_patient, moment, &ran);
            self.turn = place + 1;
            return Some(ran);
        }
        None
    }

    /// When [`Scripts::fire`] wants to be called.
    pub fn next_timer(&self) -> Option<Time> {
        let on = || self.all.iter().filter(|script| !script.budget.is_spent());
        let idle = on().filter(|script| !script.runs.is_suspended());
        let timers = idle.flat_map(|script| script.timers.iter().map(|timer| timer.next));
        let busy = on()
            .filter(|script| script.runs.is_busy())
            .map(|script| if script.is_patient() { self.allowance.opens_at() } else { Time::ZERO });
        timers.chain(busy).chain(self.look_at).min()
    }

    /// Runs one function whose time has come; `None` if there is none. Call it until then, or until
    /// others want to be heard.
    pub fn fire(&mut self, seat: &mut Seat, moment: Moment) -> Option<Ran> {
        if let Some(ran) = self.go_on(seat, moment) {
            return Some(ran);
        }
        let mut ran = Ran::default();
        for place in 0..self.all.len() {
            let script = &mut self.all[place];
            if script.runs.is_suspended() {
                continue;
            }
            let is_due = |timer: &stage::Timer| timer.next <= moment.now;
            let Some(timer) = script.timers.iter().position(is_due) else { continue };
            let is_first = script.timers[timer].next == Time::ZERO;
            script.timers[timer].next = moment.now + script.timers[timer].period;
            if !is_first {
                script.run(seat, moment, Call::Timer(timer), &mut ran);
                self.pay(place, false, moment, &ran);
            }
            return Some(ran);
        }
        if self.look_at.is_none_or(|at| at > moment.now) {
            return None;
        }
        self.look_at = Some(moment.now + LOOK_PERIOD);
        for place in 0..self.all.len() {
            let script = &mut self.all[place];
            if script.watches() {
                let changes = script.changes(seat, moment.now);
                changes.into_iter().for_each(|change| script.tell(change));
            }
        }
        Some(self.go_on(seat, moment).unwrap_or_default())
    }

    /// Puts other scripts in the place of these. Those that are the same go on; a new one that fails on
    /// what waits changes nothing.
    ///
    /// # Errors
    /// Which one fails, and how.
    pub fn swap(
        &mut self,
        new: Vec<Script>,
        seat: &mut Seat,
        moment: Moment,
    ) -> Result<(), LoadError> {
        let mut new = new;
        self.try_on(&mut new, seat, moment)?;
        self.put(new, seat, moment);
        Ok(())
    }

    /// Tries those of other scripts that are new on what waits. Nothing changes.
    ///
    /// # Errors
    /// One fails.
    pub fn try_on(
        &self,
        new: &mut [Script],
        seat: &mut Seat,
        moment: Moment,
    ) -> Result<(), LoadError> {
        let is_new = |script: &&mut Script| self.all.iter().all(|old| old.spec != script.spec);
        new.iter_mut().filter(is_new).try_for_each(|script| script.try_on(seat, moment))
    }

    /// Puts other scripts in force, untried.
    pub fn put(&mut self, new: Vec<Script>, seat: &mut Seat, moment: Moment) {
        let mut old: Vec<Option<Script>> =
            std::mem::take(&mut self.all).into_iter().map(Some).collect();
        for (place, script) in new.into_iter().enumerate() {
            let is_it = |old: &&mut Option<Script>| {
                old.as_ref().is_some_and(|old| old.spec.name == script.spec.name)
            };
            let before = old.iter_mut().find(is_it).and_then(Option::take);
            let mut now = match before {
                Some(before) if before.spec == script.spec && !before.budget.is_spent() => before,
                Some(before) => {
                    show_again(&before, seat, moment);
                    let mut now = script;
                    now.counts = before.counts;
                    now
                }
                None => script,
            };
            now.sit_at(ScriptId(place as u16));
            self.all.push(now);
        }
        old.iter().flatten().for_each(|gone| show_again(gone, seat, moment));
        self.turn = 0;
        self.begin();
    }

    fn show(&self, place: usize) {
        let script = &self.all[place];
        let (name, counts) = (script.spec.name.clone(), script.counts.clone());
        self.board.write(place, name, !script.budget.is_spent(), counts);
    }
}

/// What a script has not looked at is shown to whichever there is now.
fn show_again(script: &Script, seat: &mut Seat, moment: Moment) {
    for (queue, id) in script.runs.unserved() {
        let operations = vec![Edit::Show(id)];
        seat.handle(moment.now, Input::Edits { queue, operations });
    }
}

#[cfg(test)]
mod tests;
