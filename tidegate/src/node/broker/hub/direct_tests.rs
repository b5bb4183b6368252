use std::pin::pin;
use std::task::{Context, Waker};

use super::tests::{record, subscribed};
use super::*;
use crate::node::broker::{DirectLine, LineOwner};

/// A line into a socket that takes so many bytes.
#[derive(Debug, Default)]
struct Narrow {
    buffer: Vec<u8>,
    stops_short: bool,
    room: Arc<Mutex<usize>>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl DirectLine for Narrow {
    fn encode(
        &mut self,
        outbox: &mut Outbox,
        _: &mut Vec<(u32, std::time::Duration)>,
    ) -> (usize, bool) {
        let before = self.buffer.len();
        while let Some(tidegate_broker::NextSend::Publish { delivery, .. }) =
            outbox.next(Time::ZERO)
        {
            self.buffer.extend_from_slice(&delivery.message.payload);
        }
        (self.buffer.len() - before, self.stops_short)
    }

    fn write(&mut self) -> bool {
        let mut room = self.room.lock().unwrap();
        let taken = self.buffer.len().min(*room);
        *room -= taken;
        self.written.lock().unwrap().extend(self.buffer.drain(..taken));
        self.buffer.is_empty()
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

/// A subscriber whose connection waits, what it was sent, and how much its socket takes.
struct Waiting {
    subscriber: Subscriber,
    owner: LineOwner,
    room: Arc<Mutex<usize>>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Waiting {
    fn new(hub: &Hub, filter: &str) -> Waiting {
        let subscriber = subscribed(hub, filter);
        let waiting = Waiting {
            owner: LineOwner::new(subscriber.seat()),
            subscriber,
            room: Arc::new(Mutex::new(usize::MAX)),
            written: Arc::default(),
        };
        assert!(waiting.lend());
        let is_shared = filter.starts_with("$share");
        assert!(waiting.is_rung() != is_shared, "there may be something retained");
        waiting
    }

    /// As a connection does that has found nothing.
    fn lend(&self) -> bool {
        assert!(!self.subscriber.seat().outbox().has_ready(Time::ZERO));
        let (room, written) = (self.room.clone(), self.written.clone());
        let line = || Some(Box::new(Narrow { room, written, ..Narrow::default() }) as Box<_>);
        self.owner.lend(&mut Vec::new(), line)
    }

    fn written(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.written.lock().unwrap())).unwrap()
    }

    /// Whether its connection is told.
    fn is_rung(&self) -> bool {
        let bell = pin!(self.subscriber.seat().rung());
        bell.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

fn publish(hub: &Hub, topic: &str, payload: &str) {
    hub.publisher().publish_all([(&record(topic, payload, false), 1)].into_iter());
}

#[test]
fn who_publishes_to_one_who_waits_writes_by_himself() {
    let hub = Hub::default();
    let one = Waiting::new(&hub, "a");
    publish(&hub, "a", "1");
    publish(&hub, "a", "2");
    assert_eq!((one.written(), one.is_rung()), ("12".into(), false));
    assert_eq!(hub.status().delivered, 2);
    assert!(one.owner.reclaim().is_empty());
    publish(&hub, "a", "3");
    assert_eq!((one.written(), one.is_rung()), (String::new(), true), "it works now");
}

#[test]
fn many_and_much_are_for_the_tasks_of_those_who_get_it() {
    let hub = Hub::default();
    let few: Vec<Waiting> = (0..8).map(|_| Waiting::new(&hub, "+")).collect();
    publish(&hub, "a", "for eight");
    assert!(few.iter().all(|one| !one.is_rung() && one.written() == "for eight"));
    let _one_too_many = Waiting::new(&hub, "a");
    publish(&hub, "a", "for nine");
    assert!(few.iter().all(|one| one.is_rung() && one.written().is_empty()));
    let much = Waiting::new(&hub, "much/#");
    publish(&hub, "much/a", &"x".repeat(5000));
    assert!(much.is_rung() && much.written().is_empty());
}

#[test]
fn what_a_socket_does_not_take_is_first_when_the_connection_goes_on() {
    let hub = Hub::default();
    let one = Waiting::new(&hub, "a");
    *one.room.lock().unwrap() = 3;
    publish(&hub, "a", "12345");
    assert_eq!((one.written(), one.is_rung()), ("123".into(), true));
    publish(&hub, "a", "6");
    assert_eq!(one.written(), "", "nobody overtakes the rest");
    assert_eq!(one.owner.reclaim(), b"45");
    let next = one.subscriber.seat().outbox().next(Time::ZERO).is_some();
    assert!(next, "the later one waits");
}

#[test]
fn nobody_writes_to_a_connection_that_has_ended() {
    let hub = Hub::default();
    let one = Waiting::new(&hub, "a");
    let Waiting { subscriber, owner, room, written } = one;
    // As when its task is dropped in the middle of its wait.
    drop(owner);
    assert_eq!(Arc::strong_count(&room), 1, "the socket is not held");
    publish(&hub, "a", "1");
    assert!(written.lock().unwrap().is_empty() && subscriber.seat().outbox().has_ready(Time::ZERO));
}

#[test]
fn the_next_connection_of_a_session_is_written_to_in_place_of_the_one_before() {
    let hub = Hub::default();
    let mut one = Waiting::new(&hub, "a");
    let before = std::mem::take(&mut one.written);
    let former = std::mem::replace(&mut one.owner, LineOwner::new(one.subscriber.seat()));
    assert!(!former.lend(&mut Vec::new(), || panic!("its time is over")));
    assert!(one.lend());
    assert!(former.reclaim().is_empty());
    drop(former);
    publish(&hub, "a", "1");
    assert_eq!((one.written(), one.is_rung()), ("1".into(), false));
    assert!(before.lock().unwrap().is_empty());
}

#[test]
fn groups_count_among_the_few_and_a_run_to_them_is_for_their_tasks() {
    let hub = Hub::default();
    let few: Vec<Waiting> = (0..8).map(|n| Waiting::new(&hub, &format!("$share/{n}/a"))).collect();
    publish(&hub, "a", "1");
    assert!(few.iter().all(|one| !one.is_rung() && one.written() == "1"));
    let record = record("a", "2", false);
    hub.publisher().publish_all([(&record, 1), (&record, 1)].into_iter());
    assert!(few.iter().all(|one| one.is_rung() && one.written().is_empty()));
}

#[test]
fn who_has_the_line_already_is_not_waited_for() {
    let hub = Hub::default();
    let one = Waiting::new(&hub, "a");
    let mut times = Vec::new();
    let busy = one.subscriber.seat().direct.encode(&mut one.subscriber.seat().outbox(), &mut times);
    publish(&hub, "a", "1");
    assert_eq!((one.written(), one.is_rung()), (String::new(), true));
    drop(busy);
}

#[test]
fn a_connection_is_told_of_what_did_not_go_at_once() {
    let hub = Hub::default();
    let one = Waiting::new(&hub, "a");
    one.owner.reclaim();
    let (room, written) = (one.room.clone(), one.written.clone());
    let owner = LineOwner::new(one.subscriber.seat());
    let line =
        || Some(Box::new(Narrow { room, written, stops_short: true, ..Narrow::default() }) as _);
    assert!(owner.lend(&mut Vec::new(), line));
    publish(&hub, "a", "1");
    assert_eq!((one.written(), one.is_rung()), ("1".into(), true));
}
