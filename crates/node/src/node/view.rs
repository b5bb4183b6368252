//! What the world may see of a node: its records, its queues, its figures. Nothing here changes anything.

use std::sync::Arc;

use tidegate_log::SessionState;
use tidegate_schedule::allocate::{Allocation, wanted_rate};
use tidegate_schedule::estimate::queue_delay;
use tidegate_schedule::queue::{QueueKey, Queues};
use tidegate_types::class::{ClassId, ClassSpec};
use tidegate_types::demand::Measured;
use tidegate_types::record::{DeliveryId, Record, StreamId};
use tidegate_types::units::{Size, Time};

use super::Node;
use super::base::Base;
use crate::adapt::{QueueFacts, QueueState};
use crate::io::{OutputId, QueueId};
use crate::options::NodeOptions;
use crate::rules::{Rule, ScriptId};
use crate::status::{ClassStatus, Counts, NodeStatus, RuleStatus, Stages, UplinkStatus};

/// Records.
impl Node {
    /// The record of a delivery; `None` for a stale handle.
    pub fn record(&self, id: DeliveryId) -> Option<&Arc<Record>> {
        self.base.holdings.content(id.into())
    }

    /// The (last) delivery of the record that was accepted last: a driver that offers one record learns from
    /// it what to call it.
    pub fn newest(&self) -> Option<DeliveryId> {
        self.base.holdings.newest().map(DeliveryId::from)
    }

    /// The output for which a delivery waits; `None` where it does not wait.
    pub fn waits_for(&self, id: DeliveryId) -> Option<OutputId> {
        let delivery = self.base.holdings.delivery(id.into())?;
        self.base.holdings.is_waiting(id.into()).then_some(delivery.spec.output)
    }

    /// The class of a delivery's record, as the far end is told it: of a neighbour's, that which it has
    /// there. `None` for a stale handle.
    pub fn class_of(&self, id: DeliveryId) -> Option<ClassId> {
        let spec = self.base.holdings.delivery(id.into())?.spec;
        Some(self.base.options.rules.get(spec.rule).relays.unwrap_or(spec.class))
    }

    /// The size of a delivery: the scale of `Output::Transmit`'s range; `None` for a stale handle.
    pub fn size_of(&self, id: DeliveryId) -> Option<Size> {
        self.base.holdings.delivery(id.into()).map(|delivery| delivery.size)
    }

    /// The options it was made of, with the rules that are in force now.
    pub fn options(&self) -> &NodeOptions {
        &self.base.options
    }

    /// The sessions whose clients are away: each with how long it still lasts, and the QoS 2 packet
    /// identifiers that its client has not released. After a start these are the ones of the log.
    pub fn sessions(&self, now: Time) -> impl Iterator<Item = SessionState> + '_ {
        self.durability.sessions(now)
    }

    /// How far a reader has got in a stream, as the log has it or will have it.
    pub fn position(&self, session: &Arc<str>, stream: StreamId) -> Option<u64> {
        self.durability.log().news().position(session, stream)
    }
}

/// Queues.
impl Node {
    /// Everything that waits, for whoever decides about it.
    pub fn waiting_queues(&self) -> &Queues {
        self.base.holdings.queues()
    }

    /// All queues, for whoever edits them.
    pub fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.base.holdings.queues().queues().map(QueueId::from)
    }

    /// What waits in a queue: late records first, each list from its front. Nothing for a stale handle.
    pub fn waiting(&self, queue: QueueId) -> impl Iterator<Item = DeliveryId> + '_ {
        self.base.holdings.queues().waiting(queue.into()).map(DeliveryId::from)
    }

    /// What waits behind a record of its queue, or first in it: one step of [`Node::waiting`].
    pub fn waiting_after(&self, queue: QueueId, before: Option<DeliveryId>) -> Option<DeliveryId> {
        let queues = self.base.holdings.queues();
        queues.waiting_after(queue.into(), before.map(Into::into)).map(Into::into)
    }

    /// Records that wait in a queue; 0 for a stale handle.
    pub fn queue_length(&self, queue: QueueId) -> u64 {
        self.base.holdings.queues().backlog_of(queue.into()).records()
    }

    /// Whether an edit of a record in this queue can have an effect.
    pub fn is_waiting(&self, queue: QueueId, id: DeliveryId) -> bool {
        self.base.holdings.queues().is_waiting_in(queue.into(), id.into())
    }

    /// The script of a queue.
    pub fn script_of(&self, queue: QueueId) -> Option<ScriptId> {
        let spec = self.base.holdings.queues().spec(queue.into())?;
        self.base.options.rules.get(spec.rule).script
    }

    /// Grows whenever [`Node::queues_of`] may answer differently, but for new rules.
    pub fn queue_changes(&self) -> u64 {
        self.base.holdings.queues().changes()
    }

    /// The queues that a script looks at, in the order of their handles.
    pub fn queues_of(&self, script: ScriptId) -> impl Iterator<Item = QueueId> + '_ {
        self.queues().filter(move |queue| self.script_of(*queue) == Some(script))
    }

    /// What scripts may know of a queue: BumbleBee, Table I (metrics). `None` for a stale handle.
    pub fn queue_facts(&mut self, now: Time, queue: QueueId) -> Option<QueueFacts> {
        let key = QueueKey::from(queue);
        let latency = self.preparation.latency(key);
        self.base.now = now;
        self.egress.queue_facts(&self.base, key, latency)
    }

    /// Whether what is handed to an output gets there.
    pub fn queue_state(&self, now: Time, output: OutputId) -> QueueState {
        self.egress.queue_state(now, output)
    }
}

/// Figures.
impl Node {
    /// A snapshot. It walks all streams: at most about once a second.
    pub fn status(&mut self, now: Time) -> NodeStatus {
        self.base.now = now;
        let allocations = self.egress.allocations(&self.base);
        let rules = self.rule_status();
        let classes = self.base.options.classes.clone();
        let class_status =
            |(class, spec)| self.class_status(now, class, spec, &allocations, &rules);
        let classes = classes.iter().map(class_status).collect();
        let Node { base, egress, durability, .. } = &*self;
        let Base { options, holdings, .. } = base;
        NodeStatus {
            name: options.name.clone(),
            incarnation: options.incarnation,
            now,
            classes,
            rules,
            uplinks: egress.uplink_status(base),
            outputs: egress.output_status(base),
            held_bytes: holdings.bytes(),
            memory: options.memory,
            held: holdings.deliveries(),
            counts: holdings.total(),
            log: durability.log().status(holdings.stored()),
        }
    }

    fn class_status(
        &mut self,
        now: Time,
        class: ClassId,
        spec: &ClassSpec,
        allocations: &[Allocation],
        rules: &[RuleStatus],
    ) -> ClassStatus {
        let (input_rate, input_records_per_second, output_rate) = self.egress.rates_of(now, class);
        let outputs = 0..self.base.options.outputs.len();
        let queues = self.base.holdings.queues();
        let waiting = queues.backlog_over(class, outputs.clone());
        let allocated_rate = allocations.iter().map(|given| given.rates[class.index()]).sum();
        let served = output_rate.max(allocated_rate);
        let (mut counts, mut stages) = (Counts::default(), Stages::default());
        for rule in rules.iter().filter(|rule| rule.class == spec.name) {
            counts.add(&rule.counts);
            stages.add(&rule.stages);
        }
        ClassStatus {
            name: spec.name.clone(),
            bound: spec.latency,
            backlog_records: waiting.records(),
            backlog: waiting.bytes,
            late_records: waiting.late_records,
            overdue_records: queues.overdue_over(class, outputs),
            input_rate,
            input_records_per_second,
            output_rate,
            wanted_rate: wanted_rate(input_rate, waiting.bytes, spec.latency),
            allocated_rate,
            queue_delay: queue_delay(waiting.bytes, served, self.admission.processing.get()),
            counts,
            stages,
            coflows: self.base.holdings.coflow_status(class),
        }
    }

    fn rule_status(&self) -> Vec<RuleStatus> {
        let mut streams = vec![(0, 0, Size::ZERO); self.base.options.rules.len()];
        for stream in self.base.holdings.streams().in_use() {
            let (count, held, bytes) = &mut streams[usize::from(stream.rule.0)];
            *count += 1;
            *held += stream.account.deliveries();
            *bytes += stream.account.bytes();
        }
        let status = |((rule, own), (counts, stages)): ((&Rule, _), &(Counts, Stages))| {
            let (streams, held, held_bytes) = own;
            RuleStatus {
                name: rule.name.clone(),
                class: self.base.options.classes.spec(rule.class).name.clone(),
                bound: rule.latency,
                streams,
                held,
                held_bytes,
                counts: counts.clone(),
                stages: stages.clone(),
            }
        };
        let rules = self.base.options.rules.iter().map(|(_, rule)| rule);
        rules.zip(streams).zip(self.base.holdings.of_rules()).map(status).collect()
    }

    /// All counts since start.
    pub fn counts(&self) -> Counts {
        self.base.holdings.total()
    }

    /// Bytes held in memory: keys, properties and payloads.
    pub fn held_bytes(&self) -> Size {
        self.base.holdings.bytes()
    }

    /// Deliveries held: waiting, unconfirmed, or only in the log.
    pub fn held(&self) -> u64 {
        self.base.holdings.deliveries()
    }

    /// Accepted - confirmed - dropped - held, in deliveries since start: 0, or records were lost.
    pub fn audit(&self) -> i128 {
        self.base.holdings.total().lost(self.base.holdings.deliveries())
    }

    /// Deliveries that only the log holds, and bytes of its segments.
    pub fn log_use(&self) -> (u64, Size) {
        (self.base.holdings.stored(), self.durability.log().segments().bytes())
    }

    /// The uplinks' part of the snapshot, for who looks often.
    pub fn uplinks(&self) -> Vec<UplinkStatus> {
        self.egress.uplink_status(&self.base)
    }

    /// What an agent of the fleet wants to know: of the uplink, and of our own classes on it. `None` where
    /// the node is no part of a fleet.
    pub fn measured(&mut self, now: Time) -> Option<Measured> {
        self.base.now = now;
        self.egress.measured(&self.base)
    }
}
