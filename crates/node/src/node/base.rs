//! What every part of a node stands on: the time, the options, who is connected, what is held, and what the driver is
//! to hear.

use std::sync::Arc;

use tidegate_types::record::{Offered, RefuseReason, SourceId};
use tidegate_types::units::Time;

use super::holdings::{Holdings, StreamKey};
use super::outbox::{Outbox, ReplyTo};
use super::sources::Sources;
use crate::io::{Event, Output};
use crate::options::NodeOptions;
use crate::rules::{Rule, RuleId};

/// Common to all parts. Each of its fields guards what is its own.
#[derive(Debug)]
pub(super) struct Base {
    /// When the present input came, or the present question.
    pub(super) now: Time,
    /// The options that are in force: the parts share them.
    pub(super) options: Arc<NodeOptions>,
    pub(super) sources: Sources,
    pub(super) holdings: Holdings,
    pub(super) outbox: Outbox,
}

impl Base {
    pub(super) fn new(options: Arc<NodeOptions>) -> Self {
        let holdings = Holdings::new(options.clone());
        let (sources, outbox) = (Sources::default(), Outbox::default());
        Base { now: Time::ZERO, options, sources, holdings, outbox }
    }

    /// The rule of a stream's records.
    pub(super) fn rule_of(&self, stream: StreamKey) -> &Rule {
        self.options.rules.get(self.holdings.stream(stream).rule)
    }

    /// Tells a sender, if it waits and its connection is still there.
    pub(super) fn answer(&mut self, reply: Option<ReplyTo>, result: Result<(), RefuseReason>) {
        if let Some(reply) = reply.filter(|reply| self.sources.is_alive(reply)) {
            let ReplyTo { source, token, .. } = reply;
            self.outbox.push(Output::Accept { source, token, result });
        }
    }

    /// Refuses an offer.
    pub(super) fn refuse(&mut self, offered: &Offered, rule: Option<RuleId>, reason: RefuseReason) {
        self.holdings.count_refused(rule);
        if let Some(token) = offered.token {
            self.outbox.push(Output::Accept { source: offered.source, token, result: Err(reason) });
        }
    }

    /// People hear of an input that the driver should not have sent.
    pub(super) fn unsupported(&mut self, problem: &'static str) {
        self.outbox.report(Event::Unsupported(problem));
    }

    /// The stream that a connection feeds under this rule; `None` when the table of streams is full, or its
    /// owner's share of it.
    pub(super) fn stream_of(&mut self, source: SourceId, rule: RuleId) -> Option<StreamKey> {
        let state = self.sources.get_mut(source)?;
        if let Some(stream) = state.stream(rule) {
            return Some(stream);
        }
        let payer = self.sources.payer(source);
        let state = self.sources.get_mut(source)?;
        let stream = self.holdings.attach(rule, &state.name, payer)?;
        state.streams.push((rule, stream));
        Some(stream)
    }

    /// A connection ended. Records that it still waited to have accepted are gone with it: their sender was
    /// never told that they were accepted.
    pub(super) fn close(&mut self, source: SourceId) {
        let Some(mut state) = self.sources.close(source) else { return };
        self.outbox.forget(source);
        while state.next_pending().is_some() {
            self.holdings.count_refused(None);
        }
        for (_, stream) in state.streams {
            self.holdings.detach(stream);
        }
    }

    /// A connection is gone, and may stay open until its last records have room: those of them that it waited to hear of
    /// are refused, for it sends them again, or took them for lost. Whether others are left.
    pub(super) fn part(&mut self, source: SourceId) -> bool {
        let Some(state) = self.sources.get_mut(source) else { return false };
        let (refused, is_left) = (state.forget_asking(), state.has_pending());
        (0..refused).for_each(|_| self.holdings.count_refused(None));
        is_left
    }

    /// Refuses every waiting record: the node stops.
    pub(super) fn refuse_blocked(&mut self) {
        while let Some((_, source)) = self.sources.first_patience() {
            self.sources.end_wait(source);
            while let Some(offered) = self.sources.next_pending(source) {
                self.refuse(&offered, None, RefuseReason::Stopping);
            }
            self.outbox.push(Output::ResumeInput(source));
        }
    }
}
