//! The runs of a script: one at a time, in turns of its `time`.
//!
//! A run that takes longer is suspended and goes on at a later turn, with the node as it is by then. What it has
//! decided is done at the end of each turn, unless nothing may go without the script: then all at the end of the run.
//! A run that cannot be suspended, or comes to no end, is ended; what its last turn decided is undone.

use std::collections::VecDeque;
use std::time::Duration;

use mlua::{Function, Thread};
use tidegate_node::io::{Control, Edit, Input, QueueId};
use tidegate_types::record::DeliveryId;

use super::Side;
use super::api::QueueHandle;
use super::program::{Call, Ran, Script};
use super::seat::{Moment, Seat};
use super::stage::{Effects, Left};
use super::vm::Failure;

/// Turns of one run, where little waits.
const TURNS_MAX: u32 = 10;
/// What a run may take longer for each record that waits for it: ten times what Fig. 9 needs.
const PER_RECORD: Duration = Duration::from_micros(10);

/// A record that came, and is to be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    queue: QueueId,
    id: DeliveryId,
    /// Whether it does not go before.
    is_held: bool,
}

/// A call that takes turns.
#[derive(Debug)]
struct Run {
    call: Call,
    thread: Thread,
    /// The records that came.
    serves: Vec<Arrival>,
    used: Duration,
    /// How long it may take in all: known once it was suspended.
    limit: Duration,
}

/// What a script has to do.
#[derive(Debug, Default)]
pub(super) struct Runs {
    current: Option<Run>,
    /// What came while it was busy.
    arrivals: VecDeque<Arrival>,
    /// Changes that it is to be told.
    changes: VecDeque<Call>,
    /// The machine's part of a run that has ended, for the next one.
    idle: Option<Thread>,
}

impl Runs {
    /// Whether there is something to go on with.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.arrivals.is_empty() || !self.changes.is_empty()
    }

    /// Whether a run is suspended.
    pub(super) fn is_suspended(&self) -> bool {
        self.current.is_some()
    }

    /// All records that it has not looked at, or not to the end.
    pub(super) fn unserved(&self) -> impl Iterator<Item = (QueueId, DeliveryId)> + '_ {
        let begun = self.current.iter().flat_map(|run| &run.serves);
        begun.chain(&self.arrivals).map(|arrival| (arrival.queue, arrival.id))
    }
}

/// How a turn ended.
enum End {
    Done,
    Suspended,
    Failed(Failure),
}

impl Script {
    /// A record came and waits for its run. It does not go before, unless it would wait for one that takes long
    /// and only helps.
    pub(super) fn defer(&mut self, queue: QueueId, id: DeliveryId, ran: &mut Ran) {
        let is_held = self.is_needed() || !self.runs.is_suspended();
        if is_held {
            ran.inputs.push(Input::Edits { queue, operations: vec![Edit::Wait(id)] });
        }
        self.runs.arrivals.push_back(Arrival { queue, id, is_held });
    }

    /// A change is to be told.
    pub(super) fn tell(&mut self, change: Call) {
        self.runs.changes.push_back(change);
    }

    /// Goes on with what there is, for one turn.
    pub(super) fn work(&mut self, seat: &mut Seat, moment: Moment, ran: &mut Ran) {
        if self.runs.current.is_some() {
            return self.turn(seat, moment, ran);
        }
        if let Some(change) = self.runs.changes.pop_front() {
            return self.begin(seat, moment, change, Vec::new(), ran);
        }
        let arrivals = std::mem::take(&mut self.runs.arrivals);
        let waits = |arrival: &Arrival| seat.is_waiting(arrival.queue, arrival.id);
        let (mut waiting, gone): (VecDeque<Arrival>, VecDeque<Arrival>) =
            arrivals.into_iter().partition(waits);
        // What has another queue by new rules is shown to the script that it has there.
        give(gone.into_iter().filter(|arrival| arrival.is_held), Edit::Show, ran);
        let Some(first) = waiting.pop_front() else { return };
        let mut serves = vec![first];
        if self.is_for_all {
            let side = seat.script_of(first.queue);
            let is_same = |arrival: &Arrival| seat.script_of(arrival.queue) == side;
            let (same, others): (VecDeque<Arrival>, _) = waiting.into_iter().partition(is_same);
            serves.extend(same);
            waiting = others;
        }
        self.runs.arrivals = waiting;
        self.begin(seat, moment, Call::Message(first.queue, first.id), serves, ran);
    }

    /// Runs it at once for a record that came, a timer or a change.
    pub(super) fn run(&mut self, seat: &mut Seat, moment: Moment, call: Call, ran: &mut Ran) {
        if self.budget.is_spent() {
            self.counts.unadapted += 1;
            return;
        }
        let serves = match call {
            Call::Message(queue, id) => vec![Arrival { queue, id, is_held: false }],
            _ => Vec::new(),
        };
        self.begin(seat, moment, call, serves, ran);
    }

    fn begin(
        &mut self,
        seat: &mut Seat,
        moment: Moment,
        call: Call,
        serves: Vec<Arrival>,
        ran: &mut Ran,
    ) {
        let side = match call {
            Call::Message(queue, _) => seat.script_of(queue).map(|id| Side::split(id).0),
            _ => None,
        };
        let Some(function) = self.function(call, side) else {
            return give(serves.into_iter().filter(|arrival| arrival.is_held), Edit::Ready, ran);
        };
        self.counts.runs += 1;
        let came = serves.iter().map(|arrival| (arrival.queue, arrival.id)).collect();
        self.on_stage(|stage| stage.begin(came, side));
        let used = self.runs.idle.take();
        match self.vm.prepare(&function, used) {
            Ok(thread) => {
                let (used, limit) = (Duration::ZERO, Duration::ZERO);
                self.runs.current = Some(Run { call, thread, serves, used, limit });
                self.turn(seat, moment, ran);
            }
            Err(failure) => self.failed(failure, &serves, ran),
        }
    }

    fn function(&self, call: Call, side: Option<Side>) -> Option<Function> {
        match call {
            Call::Message(..) => self.entry(side.unwrap_or(Side::Request)).cloned(),
            Call::Timer(place) => self.timers.get(place).map(|timer| timer.function.clone()),
            Call::Change(place, _) => self.watches.get(place).map(|(_, function)| function.clone()),
        }
    }

    /// One turn of the run that there is.
    fn turn(&mut self, seat: &mut Seat, moment: Moment, ran: &mut Ran) {
        let Some(mut run) = self.runs.current.take() else { return };
        self.on_stage(|stage| stage.enter(seat, moment));
        let root = self.root.clone();
        let (result, took) = match (run.call, run.used) {
            (Call::Change(_, queue), Duration::ZERO) => {
                match self.vm.lua().create_userdata(QueueHandle(queue)) {
                    Ok(queue) => self.vm.turn(&run.thread, (root, queue)),
                    Err(_) => {
                        let failure = Failure::Memory(self.spec.limits.memory);
                        (Err(failure), Duration::ZERO)
                    }
                }
            }
            (_, Duration::ZERO) => self.vm.turn(&run.thread, root),
            _ => self.vm.turn(&run.thread, ()),
        };
        // A run that goes on has begun, however little it took.
        run.used += took.max(Duration::from_nanos(1));
        self.counts.time += took;
        ran.took += took;
        let end = match result {
            Ok(true) => End::Done,
            Ok(false) => {
                // More may have come since.
                run.limit = run.limit.max(self.longest());
                let is_short = run.used < run.limit;
                if is_short { End::Suspended } else { End::Failed(Failure::Time(run.limit)) }
            }
            Err(failure) => End::Failed(failure),
        };
        self.end_turn(seat, run, end, ran);
    }

    /// How long a run may take.
    fn longest(&self) -> Duration {
        let waiting = self.on_stage(|stage| stage.waiting());
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        self.spec.limits.time.saturating_mul(TURNS_MAX) + PER_RECORD.saturating_mul(waiting)
    }

    fn end_turn(&mut self, seat: &mut Seat, mut run: Run, end: End, ran: &mut Ran) {
        let is_suspended = matches!(end, End::Suspended);
        let keeps = is_suspended && self.is_needed();
        let (left, has_asked) =
            self.on_stage(|stage| (stage.leave(seat, is_suspended, keeps), stage.has_asked));
        match end {
            End::Suspended => {
                self.counts.suspended += 1;
                let held = run.serves.iter_mut().filter(|arrival| arrival.is_held != keeps);
                let edit = if keeps { Edit::Wait } else { Edit::Ready };
                let changed = held.map(|arrival| {
                    arrival.is_held = keeps;
                    *arrival
                });
                give(changed, edit, ran);
                self.take(left, ran);
                self.runs.current = Some(run);
            }
            End::Done => {
                self.budget.succeed();
                self.last_failure = None;
                if has_asked && run.serves.len() > 1 {
                    // It is for one record a call after all: the others have theirs.
                    self.is_for_all = false;
                    run.serves.drain(1..).rev().for_each(|one| self.runs.arrivals.push_front(one));
                }
                self.is_for_all &= !has_asked;
                give(run.serves.into_iter().filter(|arrival| arrival.is_held), Edit::Ready, ran);
                self.take(left, ran);
                self.runs.idle = Some(run.thread);
            }
            End::Failed(failure) => {
                for line in &left.effects.lines {
                    tracing::info!(script = %self.spec.name, "{line}");
                }
                self.failed(failure, &run.serves, ran);
                self.vm.give_up(&run.thread);
                self.runs.idle = Some(run.thread);
            }
        }
    }

    fn failed(&mut self, failure: Failure, serves: &[Arrival], ran: &mut Ran) {
        self.fail(failure);
        if self.is_needed() {
            let otherwise = self.otherwise;
            return give(serves.iter().copied(), |id| Edit::Fail(id, otherwise), ran);
        }
        give(serves.iter().copied().filter(|arrival| arrival.is_held), Edit::Ready, ran);
        if self.budget.is_spent() {
            self.runs.changes.clear();
            let arrivals = std::mem::take(&mut self.runs.arrivals);
            self.counts.unadapted += arrivals.len() as u64;
            give(arrivals.into_iter().filter(|arrival| arrival.is_held), Edit::Ready, ran);
        }
    }

    /// Passes on what a turn has left.
    fn take(&mut self, left: Left, ran: &mut Ran) {
        let Left { verdicts, effects: Effects { notices, lines, rates, verdicts: kinds } } = left;
        for line in &lines {
            tracing::info!(script = %self.spec.name, "{line}");
        }
        self.counts.verdicts.iter_mut().zip(kinds).for_each(|(all, new)| *all += new);
        ran.notices.extend(notices.into_iter().map(|notice| (self.id, notice)));
        ran.inputs.extend(verdicts.inputs());
        let pace = |(queue, rate)| Input::Control(Control::Pace { queue, rate });
        ran.inputs.extend(rates.into_iter().map(pace));
    }

    /// One turn on a record that waits, of which nothing is done: whether it fails.
    pub(super) fn rehearse(
        &mut self,
        seat: &mut Seat,
        moment: Moment,
        (queue, id): (QueueId, DeliveryId),
    ) -> Result<(), Failure> {
        let side = seat.script_of(queue).map(|id| Side::split(id).0);
        let Some(function) = self.function(Call::Message(queue, id), side) else { return Ok(()) };
        let thread = self.vm.prepare(&function, None)?;
        self.on_stage(|stage| {
            stage.begin(vec![(queue, id)], side);
            stage.enter(seat, moment);
        });
        let (result, _) = self.vm.turn(&thread, self.root.clone());
        self.on_stage(|stage| stage.leave(seat, false, false));
        result.map(|_| ())
    }
}

/// The same edit for some records.
fn give(arrivals: impl Iterator<Item = Arrival>, edit: impl Fn(DeliveryId) -> Edit, ran: &mut Ran) {
    for Arrival { queue, id, .. } in arrivals {
        match ran.inputs.last_mut() {
            Some(Input::Edits { queue: of, operations }) if *of == queue => {
                operations.push(edit(id))
            }
            _ => ran.inputs.push(Input::Edits { queue, operations: vec![edit(id)] }),
        }
    }
}
