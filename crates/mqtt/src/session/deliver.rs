//! What subscribers are sent.

use std::sync::MutexGuard;
use std::time::Duration;

use tidegate_broker::{NextSend, Outbox};
use tidegate_types::units::Time;

use super::{Session, SessionSubscriber};
use crate::deliver;
use crate::{Version, write};

/// Bytes that are encoded before they are written: several writes' worth, and no more.
const OUT_MAX: usize = 64 * 1024;
impl<S: SessionSubscriber> Session<S> {
    /// The session's subscriptions, if it ever had any.
    pub fn subscriber(&self) -> Option<&S> {
        self.answers.memory.subscriber.as_ref()
    }

    /// How long the log is to know the session: not at all once it has subscribed, where subscriptions do not
    /// outlive the process: a client that found its session without them would wait in vain.
    pub fn logged_expiry(&self) -> Duration {
        let is_forgotten = self.subscriber().is_some() && !self.limits.keeps_subscriptions;
        if is_forgotten { Duration::ZERO } else { self.session_expiry() }
    }

    pub(super) fn outbox(&self) -> Option<MutexGuard<'_, Outbox>> {
        self.subscriber().map(S::outbox)
    }

    /// The session has subscribed for the first time.
    pub fn set_subscriber(&mut self, subscriber: S) {
        self.answers.memory.subscriber = Some(subscriber);
        self.begin_delivery();
    }

    /// The client takes messages from now on; what it has not acknowledged comes again.
    pub(super) fn begin_delivery(&mut self) {
        let receive_maximum = self.outward.receive_maximum;
        if let Some(subscriber) = self.subscriber() {
            subscriber.connect();
            subscriber.outbox().connect(receive_maximum);
        }
    }

    /// Writes what the subscriber is to get, up to a bound. True where there may be more at once.
    pub fn deliver(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Session { version, answers, outward, .. } = self;
        let (Some(version), Some(subscriber)) = (*version, &answers.memory.subscriber) else {
            return false;
        };
        let maximum = self.client_maximum as usize;
        let mut outbox = subscriber.outbox();
        let mut count = 0;
        let mut times = Vec::new();
        let has_aliases = version == Version::V5 && !outward.aliases.is_none();
        let has_more = loop {
            if out.len() >= OUT_MAX {
                break true;
            }
            if let Some(run) = outbox.whole_run().filter(|_| !has_aliases)
                && deliver::publish_run(out, version, run, (maximum, OUT_MAX))
            {
                count += run.messages().len();
                outbox.take_whole_run();
                continue;
            }
            match outbox.next(now) {
                None => {
                    // Read as it is taken, and looked for again where there was nothing yet.
                    let has_more = subscriber.refill(now, &mut outbox);
                    if outbox.has_ready(now) {
                        continue;
                    }
                    break has_more;
                }
                Some(NextSend::Release(id)) => write::release(out, id),
                Some(NextSend::Publish { delivery, id, again }) => {
                    let message = &delivery.message;
                    let is_new = version == Version::V5;
                    let alias = outward.aliases.of(&message.topic).filter(|_| is_new);
                    let expires = message.expires.filter(|_| is_new);
                    // A second that has begun counts: 0 would be "not at all".
                    let expiry = expires.map(|at| at.since(now).as_secs_f64().ceil() as u32);
                    let publish =
                        deliver::Outward { delivery: &delivery, id, again, alias, expiry };
                    if deliver::publish(out, version, &publish, maximum) {
                        count += 1;
                        let meter = message.meter.filter(|_| !again);
                        times.extend(meter.map(|meter| (meter, now.since(message.arrived))));
                        continue;
                    }
                    if alias.is_some_and(|alias| !alias.is_known) {
                        outward.aliases.forget(&message.topic);
                    }
                    let (class, kept) = (message.class, id.map(|id| (id, delivery.qos)));
                    drop(delivery);
                    outbox.give_up(class, kept);
                }
            }
        };
        let (drops, news) = (outbox.take_drops(), outbox.take_news());
        drop(outbox);
        if !news.is_empty() {
            subscriber.note(news);
        }
        subscriber.delivered(count, drops, &times);
        has_more
    }
}
