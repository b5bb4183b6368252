//! What subscribers are sent.

use std::sync::MutexGuard;
use std::time::Duration;

use tidegate_broker::{NextSend, Outbox};
use tidegate_types::units::Time;

use super::outward::Aliases;
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
        let (count, times) = (0, Vec::new());
        let mut writer =
            PublishWriter { version, maximum, aliases: &mut outward.aliases, now, count, times };
        let has_more = loop {
            if !writer.write(&mut outbox, out) {
                break true;
            }
            // Read as it is taken, and looked for again where there was nothing yet.
            let has_more = subscriber.refill(now, &mut outbox);
            if !outbox.has_ready(now) {
                break has_more;
            }
        };
        let (drops, news) = (outbox.take_drops(), outbox.take_news());
        drop(outbox);
        if !news.is_empty() {
            subscriber.note(news);
        }
        subscriber.delivered(writer.count, drops, &writer.times);
        has_more
    }

    /// How others may write for it what its subscriber is to get; none where only the session knows how.
    pub fn layout(&self) -> Option<PublishLayout> {
        let version = self.version.filter(|_| self.outward.aliases.is_none())?;
        Some(PublishLayout { version, maximum: self.client_maximum as usize })
    }
}

/// How a client wants publishes, where it keeps nothing in mind for them.
#[derive(Clone, Copy, Debug)]
pub struct PublishLayout {
    version: Version,
    maximum: usize,
}

impl PublishLayout {
    /// Writes what may go of an outbox, up to a bound. Says how much it was, and adds the times of what operators made.
    pub fn write(
        self,
        now: Time,
        outbox: &mut Outbox,
        out: &mut Vec<u8>,
        times: &mut Vec<(u32, Duration)>,
    ) -> usize {
        let PublishLayout { version, maximum } = self;
        let aliases = &mut Aliases::default();
        let mut writer =
            PublishWriter { version, maximum, aliases, now, count: 0, times: Vec::new() };
        writer.write(outbox, out);
        times.append(&mut writer.times);
        writer.count
    }
}

/// Writes messages of an outbox as packets.
struct PublishWriter<'a> {
    version: Version,
    maximum: usize,
    aliases: &'a mut Aliases,
    now: Time,
    /// Publishes that it wrote.
    count: usize,
    /// What operators made: by whose figures, and how long it took.
    times: Vec<(u32, Duration)>,
}

impl PublishWriter<'_> {
    /// False at the bound; else nothing more may go.
    fn write(&mut self, outbox: &mut Outbox, out: &mut Vec<u8>) -> bool {
        let PublishWriter { version, maximum, now, .. } = *self;
        let is_new = version == Version::V5;
        let has_aliases = is_new && !self.aliases.is_none();
        while out.len() < OUT_MAX {
            if let Some(run) = outbox.whole_run().filter(|_| !has_aliases)
                && deliver::publish_run(out, version, run, (maximum, OUT_MAX))
            {
                self.count += run.messages().len();
                outbox.take_whole_run();
                continue;
            }
            match outbox.next(now) {
                None => return true,
                Some(NextSend::Release(id)) => write::release(out, id),
                Some(NextSend::Publish { delivery, id, again }) => {
                    let message = &delivery.message;
                    let alias = self.aliases.of(&message.topic).filter(|_| is_new);
                    let expires = message.expires.filter(|_| is_new);
                    // A second that has begun counts: 0 would be "not at all".
                    let expiry = expires.map(|at| at.since(now).as_secs_f64().ceil() as u32);
                    let publish =
                        deliver::Outward { delivery: &delivery, id, again, alias, expiry };
                    if deliver::publish(out, version, &publish, maximum) {
                        self.count += 1;
                        let meter = message.meter.filter(|_| !again);
                        self.times.extend(meter.map(|meter| (meter, now.since(message.arrived))));
                        continue;
                    }
                    if alias.is_some_and(|alias| !alias.is_known) {
                        self.aliases.forget(&message.topic);
                    }
                    let (class, kept) = (message.class, id.map(|id| (id, delivery.qos)));
                    drop(delivery);
                    outbox.give_up(class, kept);
                }
            }
        }
        false
    }
}
