//! Messages of one topic that were published at once: one place in the outbox of each who gets them, and the same packets
//! for all to whom they go alike.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate_types::account::{Account, Kind, Reservation};
use tidegate_types::class::ClassId;

use super::message::Message;

/// Ways to write a packet that has neither an identifier nor properties: before MQTT 5, and since.
const LAYOUTS: usize = 2;
/// Bytes of such a packet beside topic and payload: the fixed header, and the lengths of topic and properties.
const HEAD: usize = 8;
/// Memory of a run beside its messages, and of the place of each.
const RUN: usize = 256;
const PLACE: usize = 16;

/// Two messages or more of one class, in the order in which they were published.
#[derive(Debug)]
pub struct MessageRun {
    messages: Vec<Arc<Message>>,
    /// Bytes of the messages, and of the memory that all of it takes.
    size: usize,
    footprint: usize,
    /// The largest packet without identifier and properties.
    packet_max: usize,
    /// The largest QoS.
    qos: u8,
    /// Whether a packet says no more than topic and payload.
    is_plain: bool,
    /// Where packets are reserved; none where one subscriber alone gets the run.
    account: Option<Account>,
    packets: [Packets; LAYOUTS],
}

/// Packets of all messages, one behind the other, and what is reserved for them.
#[derive(Debug, Default)]
struct Packets {
    is_begun: AtomicBool,
    made: OnceLock<(Vec<u8>, Reservation)>,
}

impl MessageRun {
    /// What many subscribers get, whose packets are reserved on this account; `None` is one subscriber. The messages come
    /// back where they make no run.
    ///
    /// # Errors
    /// There is only one message, or they are of several classes.
    pub fn new(
        messages: Vec<Arc<Message>>,
        account: Option<Account>,
    ) -> Result<MessageRun, Vec<Arc<Message>>> {
        let class = messages.first().map(|message| message.class);
        if messages.len() < 2 || messages.iter().any(|message| Some(message.class) != class) {
            return Err(messages);
        }
        let (mut size, mut footprint, mut largest) = (0, RUN + PLACE * messages.len(), 0);
        let (mut qos, mut is_plain) = (0, true);
        for message in &messages {
            let of_message = message.size();
            size += of_message;
            footprint += message.footprint();
            largest = of_message.max(largest);
            qos = message.qos.max(qos);
            is_plain &= message.is_plain();
        }
        let (packet_max, packets) = (largest + HEAD, Default::default());
        Ok(MessageRun { messages, size, footprint, packet_max, qos, is_plain, account, packets })
    }

    /// Its messages.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The class of all of them.
    pub fn class(&self) -> ClassId {
        self.messages[0].class
    }

    /// Bytes of all of them.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of memory that it takes without packets.
    pub fn footprint(&self) -> usize {
        self.footprint
    }

    /// Whether a subscription of this QoS gets packets without identifier and properties.
    pub fn is_plain_for(&self, qos: u8) -> bool {
        self.is_plain && self.qos.min(qos) == 0
    }

    /// Bytes that the largest of such packets has at most.
    pub fn packet_max(&self) -> usize {
        self.packet_max
    }

    /// Bytes that all of such packets have at most.
    pub fn packets_max(&self) -> usize {
        self.size + HEAD * self.messages.len()
    }

    /// Such packets in one of two layouts, made by whoever asks first and reserved before. `None` where one subscriber
    /// alone gets the run, another thread makes them at this moment, there is no memory for them, or `write` says so: then
    /// they are made anew.
    pub fn packets(
        &self,
        layout: usize,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Option<&[u8]> {
        let (account, packets) = (self.account.as_ref()?, &self.packets[layout]);
        if packets.made.get().is_none() && !packets.is_begun.swap(true, Ordering::Relaxed) {
            let held = account.reserve(Kind::Messages, self.packets_max()).ok()?;
            let mut bytes = Vec::with_capacity(self.packets_max());
            if write(&mut bytes) {
                // Nobody else began.
                let _ = packets.made.set((bytes, held));
            }
        }
        packets.made.get().map(|(bytes, _)| &bytes[..])
    }
}
