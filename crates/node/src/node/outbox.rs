//! What the node has to say: things for its driver to do, in order, and reports for people and metrics.

use std::collections::VecDeque;

use tidegate_types::limits::REPORTS_MAX;
use tidegate_types::record::{SourceId, Token};

use crate::io::{Event, Output};

/// Who is to be told about an offer. The number of a connection is used again: an answer is given only
/// in the life in which it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyTo {
    pub(super) source: SourceId,
    pub(super) life: u64,
    pub(super) token: Token,
    /// Under which packet identifier the offer may come again (QoS 2).
    pub(super) packet: Option<u16>,
}

/// Outputs and reports that the driver has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    outputs: VecDeque<Output>,
    reports: VecDeque<Event>,
    lost_reports: u64,
}

impl Outbox {
    /// One more thing to do, after all that wait.
    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// The next thing to do.
    pub(super) fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Reports a change of state. A driver that does not poll must not make memory grow: beyond
    /// `REPORTS_MAX` the oldest reports are counted instead of kept.
    pub(super) fn report(&mut self, event: Event) {
        if self.reports.len() >= REPORTS_MAX {
            self.reports.pop_front();
            self.lost_reports += 1;
        }
        self.reports.push_back(event);
    }

    /// The next report; the number of lost ones comes first.
    pub(super) fn next_report(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.lost_reports) {
            0 => self.reports.pop_front(),
            lost => Some(Event::Overflow(lost)),
        }
    }

    /// Takes back what a connection was to be told: the next one of its number must not hear it.
    pub(super) fn forget(&mut self, source: SourceId) {
        self.outputs.retain(|output| match output {
            Output::Accept { source: other, .. } => *other != source,
            Output::PauseInput(other) | Output::ResumeInput(other) => *other != source,
            Output::SessionReady(other) | Output::Released(other, _) => *other != source,
            _ => true,
        });
    }
}
