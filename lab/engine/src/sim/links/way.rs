//! One direction of a path: an emulated one, or one that replays recorded round trips.

use std::time::Duration;

use tidegate_types::units::Time;

use crate::link::{Change, Direction, Options, Outcome};

/// What crosses a way.
#[derive(Clone, Debug)]
pub enum Parcel {
    /// A packet of the link to this end.
    Link {
        /// The end that it goes to.
        to: usize,
        path: usize,
        /// Its bytes.
        packet: Vec<u8>,
    },
    /// A packet of a neighbour, by its number.
    Neighbour { flow: usize, number: u64 },
}

/// Recorded times from one end to the other and back, evenly spaced; `None` was never answered.
#[derive(Clone, Debug)]
pub struct Recording {
    pub trips: Vec<Option<Duration>>,
    /// Time between two of them.
    pub step: Duration,
    /// When the first one began.
    pub from: Time,
}

impl Recording {
    /// What a packet meets that is sent now; before and after the recording its first and last entry.
    fn at(&self, now: Time) -> Option<Duration> {
        let place = now.since(self.from).as_nanos() / self.step.as_nanos();
        let place = usize::try_from(place).unwrap_or(usize::MAX).min(self.trips.len() - 1);
        self.trips[place]
    }
}

#[derive(Debug)]
pub enum Way {
    /// A queue, a rate, losses: the model of `crate::link`.
    Emulated(Box<Direction<Parcel>>),
    /// Half of a recorded round trip; what was never answered is lost on the way there.
    Recorded {
        recording: Recording,
        /// Whether it loses what was never answered.
        loses: bool,
        /// What is under way, by arrival.
        flight: Vec<(Time, Parcel)>,
        /// The longest round trip so far, for packets back of one that was lost.
        last: Duration,
    },
}

impl Way {
    pub fn emulated(options: Options, seed: u64) -> Self {
        Way::Emulated(Box::new(Direction::new(options, seed)))
    }

    pub fn recorded(recording: Recording, loses: bool) -> Self {
        let last = Duration::from_millis(50);
        Way::Recorded { recording, loses, flight: Vec::new(), last }
    }

    /// Changes something of an emulated one.
    pub fn change(&mut self, now: Time, change: Change) {
        if let Way::Emulated(direction) = self {
            direction.change(now, change);
        }
    }

    /// Takes a packet of so many bytes.
    pub fn offer(&mut self, now: Time, bytes: u64, parcel: Parcel) {
        match self {
            Way::Emulated(direction) => direction.offer(now, bytes, parcel),
            Way::Recorded { recording, loses, flight, last } => {
                let trip = recording.at(now);
                *last = trip.unwrap_or(*last);
                if trip.is_some() || !*loses {
                    flight.push((now + *last / 2, parcel));
                }
            }
        }
    }

    /// The next packet that has arrived by now.
    pub fn poll(&mut self, now: Time) -> Option<Parcel> {
        match self {
            Way::Emulated(direction) => loop {
                match direction.poll(now)? {
                    Outcome::Arrived { item, .. } => return Some(item),
                    Outcome::Lost { .. } => {}
                }
            },
            Way::Recorded { flight, .. } => {
                let due = flight.iter().enumerate().filter(|(_, (at, _))| *at <= now);
                let (place, _) = due.min_by_key(|(_, (at, _))| *at)?;
                Some(flight.remove(place).1)
            }
        }
    }

    /// When to poll at the latest.
    pub fn next_timeout(&self) -> Option<Time> {
        match self {
            Way::Emulated(direction) => direction.next_timeout(),
            Way::Recorded { flight, .. } => flight.iter().map(|(at, _)| *at).min(),
        }
    }
}
