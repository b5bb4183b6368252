//! What a script decides, and what it registers.

use std::time::Duration;

use mlua::Function;
use tidegate_node::adapt::Verdicts;
use tidegate_node::io::{Content, OutputId, QueueId};
use tidegate_node::options::OutputOptions;
use tidegate_schedule::queue::Queues;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::Time;

use super::{Stage, Timer, Told, Verdict, Watched, endpoint_number, wrong};
use crate::script::effects::ScriptNotice;

/// Lines and notices of one call.
const SAYINGS_MAX: usize = 16;
/// Longest line or notice.
const SAYING_MAX: usize = 1024;
/// Timers of one script.
const TIMERS_MAX: usize = 16;

impl Stage {
    /// Counts a verdict, and gives what it is about.
    fn decide(&mut self, verdict: Verdict) -> Told<(&mut Verdicts, &Queues)> {
        self.node()?;
        self.effects.verdicts[verdict as usize] += 1;
        let node = self.node.as_deref().expect("looked at above");
        Ok((&mut self.verdicts, node.waiting_queues()))
    }

    fn waits(&self, queue: QueueId, id: DeliveryId) -> Told<bool> {
        Ok(self.verdicts.is_waiting(self.node()?.waiting_queues(), queue, id))
    }

    pub(in crate::script) fn drop(&mut self, queue: QueueId, id: DeliveryId) -> Told<u64> {
        if !self.waits(queue, id)? {
            return self.length(queue);
        }
        let (verdicts, queues) = self.decide(Verdict::Drop)?;
        Ok(verdicts.drop(queues, queue, id))
    }

    pub(in crate::script) fn insert(
        &mut self,
        queue: QueueId,
        after: DeliveryId,
        content: Content,
    ) -> Told<u64> {
        if !self.waits(queue, after)? {
            return self.length(queue);
        }
        let (verdicts, queues) = self.decide(Verdict::Insert)?;
        Ok(verdicts.insert(queues, queue, after, content))
    }

    pub(in crate::script) fn redirect(
        &mut self,
        queue: QueueId,
        id: DeliveryId,
        to: &str,
    ) -> Told<()> {
        let outputs = &self.node()?.options().outputs;
        let is_it = |output: &OutputOptions| &*output.name == to && !output.is_gone;
        let Some(place) = outputs.iter().position(is_it) else {
            let those = outputs.iter().filter(|output| !output.is_gone);
            let names: Vec<&str> = those.map(|output| &*output.name).collect();
            return wrong(format!("no output {to:?}: there are {}", names.join(", ")));
        };
        if self.waits(queue, id)? {
            let (verdicts, queues) = self.decide(Verdict::Redirect)?;
            verdicts.redirect(queues, queue, id, OutputId(place as u16));
        }
        Ok(())
    }

    pub(in crate::script) fn transform(
        &mut self,
        queue: QueueId,
        id: DeliveryId,
        name: &str,
    ) -> Told<()> {
        let endpoint = place(name, "transform", &self.spec.transform)?;
        if self.waits(queue, id)? {
            let endpoint = endpoint_number(self.id, endpoint);
            let ordered = self.spec.ordered;
            let (verdicts, queues) = self.decide(Verdict::Transform)?;
            verdicts.transform(queues, queue, id, endpoint, ordered);
        }
        Ok(())
    }

    pub(in crate::script) fn move_to(
        &mut self,
        queue: QueueId,
        id: DeliveryId,
        is_front: bool,
    ) -> Told<()> {
        if self.waits(queue, id)? {
            let (verdicts, queues) = self.decide(Verdict::Move)?;
            match is_front {
                true => verdicts.move_to_front(queues, queue, id),
                false => verdicts.move_to_back(queues, queue, id),
            }
        }
        Ok(())
    }

    pub(in crate::script) fn replace(
        &mut self,
        queue: QueueId,
        id: DeliveryId,
        content: Content,
    ) -> Told<()> {
        if !self.waits(queue, id)? {
            return Ok(());
        }
        let known = self.changed.entry(id).or_default();
        known.key = content.key.clone().or(known.key.take());
        known.properties = content.properties.clone().or(known.properties.take());
        known.payload = content.payload.clone().or(known.payload.take());
        let (verdicts, queues) = self.decide(Verdict::Replace)?;
        verdicts.replace(queues, queue, id, content);
        Ok(())
    }

    /// Tells the endpoints that the configuration binds to a notification, or those of all without a name.
    pub(in crate::script) fn notify(&mut self, name: Option<&str>, text: String) -> Told<()> {
        let name = name.map(|name| place(name, "notification", &self.spec.notifications));
        let name = name.transpose()?;
        if self.effects.notices.len() < SAYINGS_MAX {
            self.effects.verdicts[Verdict::Notify as usize] += 1;
            self.effects.notices.push(ScriptNotice { name, text: cut(text) });
        }
        Ok(())
    }

    /// A line for the log.
    pub(in crate::script) fn log(&mut self, text: String) {
        if self.effects.lines.len() < SAYINGS_MAX {
            self.effects.lines.push(cut(text));
        }
    }

    pub(in crate::script) fn every(&mut self, period: Duration, function: Function) -> Told<()> {
        self.may_register(self.timers.len() + self.watches.len())?;
        self.timers.push(Timer { period, function, next: Time::ZERO });
        Ok(())
    }

    pub(in crate::script) fn watch(&mut self, what: Watched, function: Function) -> Told<()> {
        self.may_register(self.timers.len() + self.watches.len())?;
        self.watches.push((what, function));
        Ok(())
    }

    fn may_register(&self, count: usize) -> Told<()> {
        if !self.is_loading {
            return wrong("h:every and h:onChange belong in on_load: here they would pile up");
        }
        match count {
            TIMERS_MAX.. => wrong(format!("more than {TIMERS_MAX} timers")),
            _ => Ok(()),
        }
    }
}

fn cut(mut text: String) -> String {
    let mut end = SAYING_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// The place of a name that the configuration binds to endpoints.
fn place<T>(name: &str, what: &str, bound: &[(String, T)]) -> Told<usize> {
    if let Some(place) = bound.iter().position(|(known, _)| known == name) {
        return Ok(place);
    }
    let names: Vec<&str> = bound.iter().map(|(name, _)| &**name).collect();
    let known = if names.is_empty() { "none".into() } else { names.join(", ") };
    wrong(format!("no {what} {name:?}: the configuration has {known}"))
}
