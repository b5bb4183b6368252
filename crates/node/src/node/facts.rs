//! What scripts may know of a queue: BumbleBee, Table I (metrics).
//!
//! Deviation: `observedBW` is what the queue's uplink could carry for it now, not the rate at which it
//! happens to send: a queue that sends little is not a path that carries little.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_schedule::queue::{Delivery, Place, QueueKey};
use tidegate_types::limits::silence_max;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::{Rate, Size, Time};

use super::Node;
use crate::adapt::{QueueFacts, QueueState};
use crate::io::{OutputId, PathId, PathSample, QueueId};
use crate::rules::ScriptId;

/// Weight of the newest record in a queue's average latency: that of TCP's smoothed round trip (RFC 6298).
const NEWEST: f64 = 0.125;

/// Average latency of the queues that scripts look at, in seconds.
pub(super) type Latencies = BTreeMap<QueueKey, f64>;

/// Since when nothing of what a connection was handed has been acknowledged; nothing where nothing waits
/// for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    since: Option<Time>,
    delivered: Size,
}

impl Silence {
    /// Figures of the connection came.
    pub(super) fn note(&mut self, now: Time, sample: &PathSample) {
        if sample.in_flight == Size::ZERO {
            self.since = None;
        } else if sample.delivered > self.delivered || self.since.is_none() {
            self.since = Some(now);
        }
        self.delivered = sample.delivered;
    }
}

impl Node {
    /// A record was confirmed: its queue's average goes on.
    pub(super) fn note_latency(&mut self, now: Time, delivery: &Delivery) {
        if self.options.rules.get(delivery.spec.rule).script.is_none() {
            return;
        }
        let latency = now.since(delivery.arrived).as_secs_f64();
        let average = self.adapted.latencies.entry(delivery.queue).or_insert(latency);
        *average += NEWEST * (latency - *average);
    }

    /// Forgets an empty queue.
    pub(super) fn close_queue(&mut self, queue: QueueKey) {
        self.queues.close(queue);
        self.adapted.latencies.remove(&queue);
    }

    /// What is known of a queue; `None` for a stale handle.
    pub fn queue_facts(&mut self, now: Time, queue: QueueId) -> Option<QueueFacts> {
        let key = QueueKey::from(queue);
        let spec = self.queues.spec(key)?;
        let place = usize::from(self.options.outputs[usize::from(spec.output.0)].uplink.0);
        let state = self.queue_state(now, spec.output);
        let urgent = self.uplinks[place].meters[..spec.class.index()].iter_mut();
        let urgent: Rate = urgent.map(|(_, output)| output.rate(now)).sum();
        let uplink = &self.uplinks[place].uplink;
        let bandwidth = match state {
            QueueState::Down => Rate::ZERO,
            _ => Rate::new((uplink.observed().as_f64() - urgent.as_f64()).max(0.0)),
        };
        Some(QueueFacts {
            rule: spec.rule,
            output: spec.output,
            length: self.queue_length(queue),
            bytes: self.queues.backlog_of(key).bytes,
            latency: self.adapted.latencies.get(&key).map(|&s| Duration::from_secs_f64(s)),
            bandwidth,
            state,
            rtt: uplink.rtt(),
            min_rtt: uplink.min_rtt(),
            in_flight: uplink.in_flight(),
            window: uplink.window(),
            class: spec.class,
            rate: self.queues.rate(key),
        })
    }

    /// Whether what is handed to an output gets there.
    pub fn queue_state(&self, now: Time, output: OutputId) -> QueueState {
        let state = &self.outputs[usize::from(output.0)];
        let uplink =
            &self.uplinks[usize::from(self.options.outputs[usize::from(output.0)].uplink.0)];
        let patience = silence_max(uplink.uplink.rtt());
        let up = || state.lanes.iter().filter(|lane| lane.is_up);
        // Connections that nothing was handed to say nothing about the way.
        let asked: Vec<Time> = up().filter_map(|lane| lane.silence.since).collect();
        let silent = asked.iter().filter(|since| now.since(**since) >= patience).count();
        if state.is_down || up().count() == 0 || (silent > 0 && silent == asked.len()) {
            QueueState::Down
        } else if silent > 0 || up().count() < state.lanes.len() {
            QueueState::Degraded
        } else {
            QueueState::Up
        }
    }

    pub(super) fn note_silence(&mut self, now: Time, path: PathId, sample: &PathSample) {
        let output = self.outputs.get_mut(usize::from(path.output.0));
        let lane = output.and_then(|output| output.lanes.get_mut(usize::from(path.lane)));
        if let Some(lane) = lane {
            lane.silence.note(now, sample);
        }
    }

    /// Records that wait in a queue; 0 for a stale handle.
    pub fn queue_length(&self, queue: QueueId) -> u64 {
        let backlog = self.queues.backlog_of(queue.into());
        backlog.live_records + backlog.late_records
    }

    /// Whether an edit of a record in this queue can have an effect.
    pub fn is_waiting(&self, queue: QueueId, id: DeliveryId) -> bool {
        let is_there = |delivery: &Delivery| {
            QueueId::from(delivery.queue) == queue && matches!(delivery.place(), Place::Waiting(_))
        };
        self.queues.get(id.into()).is_some_and(is_there)
    }

    /// The script of a queue.
    pub fn script_of(&self, queue: QueueId) -> Option<ScriptId> {
        let spec = self.queues.spec(queue.into())?;
        self.options.rules.get(spec.rule).script
    }

    /// What waits behind a record of its queue, or first in it: one step of [`Node::waiting`].
    pub fn waiting_after(&self, queue: QueueId, before: Option<DeliveryId>) -> Option<DeliveryId> {
        self.queues.waiting_after(queue.into(), before.map(Into::into)).map(Into::into)
    }

    /// Grows whenever [`Node::queues_of`] may answer differently, but for new rules.
    pub fn queue_changes(&self) -> u64 {
        self.queues.changes()
    }

    /// The queues that a script looks at, in the order of their handles.
    pub fn queues_of(&self, script: ScriptId) -> impl Iterator<Item = QueueId> + '_ {
        let is_its = move |queue: &QueueKey| {
            let rule = self.queues.spec(*queue).map(|spec| self.options.rules.get(spec.rule));
            rule.is_some_and(|rule| rule.script == Some(script))
        };
        self.queues.queues().filter(is_its).map(QueueId::from)
    }
}
