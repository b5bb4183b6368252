//! The node's snapshot of itself.

use tidegate_schedule::allocate::{Allocation, Demand, allocate, wanted_rate};
use tidegate_schedule::estimate::queue_delay;
use tidegate_types::class::{ClassId, ClassSpec};
use tidegate_types::units::{Rate, Size, Time};

use super::Node;
use super::forward::OutputState;
use crate::io::OutputId;
use crate::options::OutputOptions;
use crate::status::{
    ClassStatus, Counts, LogStatus, NodeStatus, OutputStatus, RuleStatus, Stages, UplinkStatus,
};

impl Node {
    /// A snapshot. It walks all streams: at most about once a second.
    pub fn status(&mut self, now: Time) -> NodeStatus {
        let allocations: Vec<Allocation> =
            (0..self.uplinks.len()).map(|uplink| self.allocation(now, uplink)).collect();
        let rules = self.rule_status();
        let classes = self.options.classes.clone();
        let class_status =
            |(class, spec)| self.class_status(now, class, spec, &allocations, &rules);
        let classes = classes.iter().map(class_status).collect();
        NodeStatus {
            name: self.options.name.clone(),
            incarnation: self.options.incarnation,
            now,
            classes,
            rules,
            uplinks: self.uplinks(),
            outputs: self.output_status(now),
            held_bytes: self.held_bytes,
            memory: self.options.memory,
            held: self.held(),
            counts: self.tally.total(),
            log: self.log_status(),
        }
    }

    fn log_status(&self) -> Option<LogStatus> {
        let status = self.store.as_ref()?.status();
        Some(LogStatus { left_deliveries: self.backlog.deliveries, ..status })
    }

    /// All counts since start.
    pub fn counts(&self) -> Counts {
        self.tally.total()
    }

    /// Bytes held: keys, properties and payloads.
    pub fn held_bytes(&self) -> Size {
        self.held_bytes
    }

    /// Accepted - confirmed - dropped - held, in deliveries since start: 0, or records were lost.
    pub fn audit(&self) -> i128 {
        self.tally.total().lost(self.held())
    }

    /// What the classes want of an uplink and get; where the scheduler grants rates, what it granted.
    fn allocation(&mut self, now: Time, uplink: usize) -> Allocation {
        if let Some(shares) = self.uplinks[uplink].scheduler.shares() {
            return Allocation { rates: shares.rates.clone(), spare: shares.spare.total() };
        }
        let mut demands = Vec::new();
        for (class, spec) in self.options.classes.iter() {
            let backlog = self.backlog_on(uplink, class);
            let input = self.uplinks[uplink].meters[class.index()].0.rate(now);
            let wanted = wanted_rate(input, backlog, spec.latency);
            demands.push(Demand { wanted, min_share: spec.min_share, cap: spec.cap });
        }
        let capacity = self.uplinks[uplink].uplink.capacity();
        allocate(capacity, &demands)
    }

    /// Bytes of a class that wait for an uplink.
    pub(super) fn backlog_on(&self, uplink: usize, class: ClassId) -> Size {
        let outputs = self.options.outputs.iter().enumerate();
        let own = outputs.filter(|(_, output)| usize::from(output.uplink.0) == uplink);
        own.map(|(place, _)| self.queues.backlog(class, OutputId(place as u16)).bytes).sum()
    }

    fn class_status(
        &mut self,
        now: Time,
        class: ClassId,
        spec: &ClassSpec,
        allocations: &[Allocation],
        rules: &[RuleStatus],
    ) -> ClassStatus {
        let mut status = ClassStatus {
            name: spec.name.clone(),
            bound: spec.latency,
            backlog_records: 0,
            backlog: Size::ZERO,
            late_records: 0,
            input_rate: Rate::ZERO,
            input_records_per_second: 0.0,
            output_rate: Rate::ZERO,
            wanted_rate: Rate::ZERO,
            allocated_rate: allocations.iter().map(|given| given.rates[class.index()]).sum(),
            queue_delay: self.processing.get(),
            counts: Counts::default(),
            stages: Stages::default(),
        };
        for output in 0..self.outputs.len() {
            let backlog = self.queues.backlog(class, OutputId(output as u16));
            status.backlog_records += backlog.live_records + backlog.late_records;
            status.late_records += backlog.late_records;
            status.backlog += backlog.bytes;
        }
        for state in &mut self.uplinks {
            let (input, output) = &mut state.meters[class.index()];
            status.input_rate = status.input_rate + input.rate(now);
            status.input_records_per_second += input.records_per_second(now);
            status.output_rate = status.output_rate + output.rate(now);
        }
        status.wanted_rate = wanted_rate(status.input_rate, status.backlog, spec.latency);
        let served = status.allocated_rate.max(status.output_rate);
        status.queue_delay = queue_delay(status.backlog, served, self.processing.get());
        for rule in rules.iter().filter(|rule| rule.class == spec.name) {
            status.counts.add(&rule.counts);
            status.stages.add(&rule.stages);
        }
        status
    }

    fn rule_status(&self) -> Vec<RuleStatus> {
        let mut streams = vec![(0, 0, Size::ZERO); self.options.rules.len()];
        for stream in self.streams.iter() {
            let (count, held, bytes) = &mut streams[usize::from(stream.rule.0)];
            *count += 1;
            *held += stream.held;
            *bytes += stream.bytes;
        }
        let status = |((_, rule), (own, tally)): ((_, &crate::rules::Rule), _)| {
            let ((streams, held, held_bytes), (counts, stages)): (
                (u64, u64, Size),
                &(Counts, Stages),
            ) = (own, tally);
            RuleStatus {
                name: rule.name.clone(),
                class: self.options.classes.spec(rule.class).name.clone(),
                bound: rule.latency,
                streams,
                held,
                held_bytes,
                counts: counts.clone(),
                stages: stages.clone(),
            }
        };
        self.options
            .rules
            .iter()
            .zip(streams.into_iter().zip(&self.tally.rules))
            .map(status)
            .collect()
    }

    /// Deliveries held: waiting, unconfirmed, or only in the log.
    pub fn held(&self) -> u64 {
        self.queues.len() as u64 + self.backlog.deliveries
    }

    /// Deliveries that only the log holds, and bytes of its segments.
    pub fn log_use(&self) -> (u64, Size) {
        let bytes = self.store.as_ref().map_or(Size::ZERO, |store| store.bytes());
        (self.backlog.deliveries, bytes)
    }

    /// The uplinks' part of the snapshot, for who looks often.
    pub fn uplinks(&self) -> Vec<UplinkStatus> {
        let status = |(options, state): (&crate::options::UplinkOptions, &super::UplinkState)| {
            UplinkStatus {
                name: options.name.clone(),
                capacity: state.uplink.capacity(),
                window: state.uplink.window(),
                in_flight: state.uplink.in_flight(),
                min_rtt: state.uplink.min_rtt(),
                rtt: state.uplink.rtt(),
                is_patient: state.uplink.is_patient(),
            }
        };
        self.options.uplinks.iter().zip(&self.uplinks).map(status).collect()
    }

    fn output_status(&self, now: Time) -> Vec<OutputStatus> {
        let options = self.options.outputs.iter().zip(&self.outputs);
        let status = |(place, (options, state)): (usize, (&OutputOptions, &OutputState))| {
            let output = OutputId(place as u16);
            OutputStatus {
                name: options.name.clone(),
                lanes_up: state.lanes.iter().filter(|lane| lane.is_up).count(),
                lanes: state.lanes.len(),
                is_refusing: state.is_refusing(now) && self.has_work(output, state),
                unconfirmed: state.unconfirmed() as u64,
                redirected_records: state.redirected.0,
                redirected: state.redirected.1,
            }
        };
        options.enumerate().map(status).collect()
    }

    /// Whether anything is to be sent by an output, or is under way.
    fn has_work(&self, output: OutputId, state: &OutputState) -> bool {
        let waits = |(class, _)| self.queues.backlog(class, output).bytes > Size::ZERO;
        state.unconfirmed() > 0 || self.options.classes.iter().any(waits)
    }
}
