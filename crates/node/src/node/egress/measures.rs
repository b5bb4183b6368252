//! Rates, loads and states: what schedulers are told, and what scripts and people may know.
//!
//! Deviation from BumbleBee's Table I: `observedBW` is what the queue's uplink could carry for it now, not
//! the rate at which it happens to send: a queue that sends little is not a path that carries little. Before anything was
//! measured it is what is known.

use std::time::Duration;

use tidegate_schedule::allocate::{Allocation, Demand, allocate, wanted_rate};
use tidegate_schedule::estimate::ProcessingDelay;
use tidegate_schedule::queue::QueueKey;
use tidegate_schedule::{ClassLoad, UplinkLoad};
use tidegate_types::class::ClassId;
use tidegate_types::units::{Rate, Size, Time};

use super::Egress;
use super::state::{OutputState, UplinkState};
use crate::adapt::{QueueFacts, QueueState};
use crate::io::{OutputId, TcpState};
use crate::node::base::Base;
use crate::options::{OutputOptions, UplinkOptions};
use crate::status::{OutputStatus, UplinkStatus};

/// For schedulers that grant rates ahead.
impl Egress {
    /// Lets the uplink's scheduler divide it anew, if it is time.
    pub(super) fn reallocate(&mut self, base: &Base, processing: ProcessingDelay, uplink: usize) {
        let is_time = |at: Time| at <= base.now;
        if !self.uplinks[uplink].scheduler.next_reallocation().is_some_and(is_time) {
            return;
        }
        let classes: Vec<ClassLoad> = (0..base.options.classes.len())
            .map(|class| self.load_of(base, uplink, ClassId(class as u8)))
            .collect();
        let state = &mut self.uplinks[uplink];
        let load = UplinkLoad {
            capacity: state.uplink.capacity(),
            pace: state.uplink.pace(),
            processing: processing.get(),
            classes: &classes,
        };
        state.scheduler.reallocate(base.now, &load);
    }

    fn load_of(&mut self, base: &Base, uplink: usize, class: ClassId) -> ClassLoad {
        let backlog = backlog_on(base, uplink, class) + self.begun_on(base, uplink, class);
        let (input, _) = &mut self.uplinks[uplink].meters[class.index()];
        ClassLoad { arrived: input.total(), input: input.rate(base.now), backlog }
    }

    /// Bytes of records that are begun and not wholly picked. They wait as the others do: a class that has
    /// nothing else must be given a rate to end them.
    fn begun_on(&self, base: &Base, uplink: usize, class: ClassId) -> Size {
        let own = self.outputs.iter().filter(|output| output.uplink == uplink);
        let lanes = own.flat_map(|output| &output.lanes);
        let begun = lanes.filter_map(|lane| base.holdings.delivery(lane.current?.0));
        let of_class = begun.filter(|delivery| delivery.spec.class == class);
        of_class.map(|delivery| delivery.size - delivery.progress.picked).sum()
    }

    /// What the classes want of an uplink and get; where the scheduler grants rates, what it granted.
    pub(crate) fn allocations(&mut self, base: &Base) -> Vec<Allocation> {
        let uplinks = self.uplinks.iter_mut().enumerate();
        uplinks.map(|(index, state)| allocation(base, index, state)).collect()
    }

    /// Bytes/s and records/s of a class that come, and bytes/s that leave, over all uplinks.
    pub(crate) fn rates_of(&mut self, now: Time, class: ClassId) -> (Rate, f64, Rate) {
        let (mut arrival, mut records, mut departure) = (Rate::ZERO, 0.0, Rate::ZERO);
        for state in &mut self.uplinks {
            let (input, output) = &mut state.meters[class.index()];
            arrival = arrival + input.rate(now);
            records += input.records_per_second(now);
            departure = departure + output.rate(now);
        }
        (arrival, records, departure)
    }
}

/// What the classes want of one uplink and get.
fn allocation(base: &Base, uplink: usize, state: &mut UplinkState) -> Allocation {
    if let Some(shares) = state.scheduler.shares() {
        return Allocation { rates: shares.rates.clone(), spare: shares.spare.total() };
    }
    let mut demands = Vec::new();
    for (class, spec) in base.options.classes.iter() {
        let backlog = backlog_on(base, uplink, class);
        let input = state.meters[class.index()].0.rate(base.now);
        let wanted = wanted_rate(input, backlog, spec.latency);
        demands.push(Demand { wanted, min_share: spec.min_share, cap: spec.cap });
    }
    allocate(state.uplink.capacity(), &demands)
}

/// Bytes of a class that wait for an uplink.
pub(super) fn backlog_on(base: &Base, uplink: usize, class: ClassId) -> Size {
    let outputs = base.options.outputs.iter().enumerate();
    let own = outputs.filter(|(_, output)| usize::from(output.uplink.0) == uplink);
    let backlog = |index| base.holdings.queues().backlog(class, OutputId(index as u16)).bytes;
    own.map(|(index, _)| backlog(index)).sum()
}

/// For scripts and people.
impl Egress {
    /// What is known of a queue; `None` for a stale handle.
    pub(crate) fn queue_facts(
        &mut self,
        base: &Base,
        key: QueueKey,
        latency: Option<Duration>,
    ) -> Option<QueueFacts> {
        let queues = base.holdings.queues();
        let spec = queues.spec(key)?;
        let state = self.queue_state(base.now, spec.output);
        let output = &self.outputs[usize::from(spec.output.0)];
        let lanes = output.lanes.iter().filter(|lane| lane.is_up).filter_map(|lane| lane.tcp);
        let connections = TcpState::together(lanes);
        let lane = output.lanes.get(usize::from(base.options.lane_of(spec.output, spec.class)));
        let connection = lane.filter(|lane| lane.is_up).and_then(|lane| lane.tcp);
        let UplinkState { uplink, meters, .. } = &mut self.uplinks[output.uplink];
        let urgent = meters[..spec.class.index()].iter_mut();
        let urgent: Rate = urgent.map(|(_, output)| output.rate(base.now)).sum();
        let known = uplink.observed().or_else(|| connections.and_then(|all| all.rate()));
        // Zero is told of what is down, and of nothing else: a script takes it for a way that is cut.
        let left = known.map(|known| Rate::new((known.as_f64() - urgent.as_f64()).max(1.0)));
        let bandwidth = if state == QueueState::Down { Some(Rate::ZERO) } else { left };
        let backlog = queues.backlog_of(key);
        Some(QueueFacts {
            rule: spec.rule,
            output: spec.output,
            length: backlog.records(),
            bytes: backlog.bytes,
            latency,
            bandwidth,
            state,
            connections,
            connection,
            class: spec.class,
            rate: queues.rate(key),
        })
    }

    /// Whether what is handed to an output gets there.
    pub(crate) fn queue_state(&self, now: Time, output: OutputId) -> QueueState {
        let state = &self.outputs[usize::from(output.0)];
        let patience = self.patience(output);
        let up = || state.lanes.iter().filter(|lane| lane.is_up);
        let is_any_silent = up().any(|lane| lane.silence.lasts(now, patience));
        if self.dead_from(output).is_some_and(|at| at <= now) {
            QueueState::Down
        } else if is_any_silent || up().count() < state.lanes.len() {
            QueueState::Degraded
        } else {
            QueueState::Up
        }
    }

    /// The uplinks' part of the node's snapshot.
    pub(crate) fn uplink_status(&self, base: &Base) -> Vec<UplinkStatus> {
        let status = |(options, state): (&UplinkOptions, &UplinkState)| UplinkStatus {
            name: options.name.clone(),
            capacity: state.uplink.capacity(),
            window: state.uplink.window(),
            in_flight: state.uplink.in_flight(),
            min_rtt: state.uplink.min_rtt(),
            rtt: state.uplink.rtt(),
            is_patient: state.uplink.is_patient(),
        };
        base.options.uplinks.iter().zip(&self.uplinks).map(status).collect()
    }

    /// The outputs' part of the node's snapshot.
    pub(crate) fn output_status(&self, base: &Base) -> Vec<OutputStatus> {
        let has_work = |output: OutputId, state: &OutputState| {
            let waits =
                |(class, _)| base.holdings.queues().backlog(class, output).bytes > Size::ZERO;
            state.unconfirmed() > 0 || base.options.classes.iter().any(waits)
        };
        let status = |(index, (options, state)): (usize, (&OutputOptions, &OutputState))| {
            let output = OutputId(index as u16);
            OutputStatus {
                id: output,
                name: options.name.clone(),
                lanes_up: state.lanes.iter().filter(|lane| lane.is_up).count(),
                lanes: state.lanes.len(),
                is_refusing: state.is_refusing(base.now) && has_work(output, state),
                unconfirmed: state.unconfirmed() as u64,
                redirected_records: state.redirected.0,
                redirected: state.redirected.1,
            }
        };
        let all = base.options.outputs.iter().zip(&self.outputs).enumerate();
        all.filter(|(_, (options, _))| !options.is_gone).map(status).collect()
    }
}
