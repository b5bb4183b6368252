//! Room for what a client's connection makes us hold: heads and bodies, in either direction.
//!
//! A connection has a little of its own, for which nobody is asked: `limits.connections` bounds it. So ordinary
//! requests are served whoever has taken the account. What is more is on the account of `limits.memory`: the
//! listener's share of it, and of that a fair share of the client's address.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use tidegate_types::account::{Account, Kind, Level, Reservation};

use super::answer::Failure;
use crate::support::places::address;

/// Bytes of bodies that are among what a connection costs, all of its messages together.
const OWN: usize = 8 << 10;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Room {
    account: Account,
    /// What of [`OWN`] is free.
    own: Cell<usize>,
}

/// Room for one message, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    room: Rc<Room>,
    own: usize,
    reserved: Option<Reservation>,
}

impl Room {
    /// That of a connection of this client.
    pub(super) fn new(listener: &Account, client: IpAddr) -> Rc<Room> {
        Room::of(listener.fair_named(Level::User, &address(client)))
    }

    /// That of a connection that brings the messages of all clients.
    pub(super) fn of(account: Account) -> Rc<Room> {
        Rc::new(Room { account, own: Cell::new(OWN) })
    }

    /// Room for so many bytes.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn hold(self: &Rc<Self>, bytes: u64) -> Result<Share, Failure> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut share = Share { room: self.clone(), own: 0, reserved: None };
        match self.own.get().checked_sub(bytes) {
            Some(rest) => {
                self.own.set(rest);
                share.own = bytes;
            }
            None => {
                let reserved = self.account.reserve(Kind::Packets, bytes);
                share.reserved = Some(reserved.map_err(|_| Failure::Full)?);
            }
        }
        Ok(share)
    }
}

/// The account of heads that are not complete: who asked for nothing yet takes nothing of the room of those who did.
pub(super) fn heads(listener: &Account, client: IpAddr) -> Account {
    listener.fair_named(Level::User, &format!("heads {}", address(client)))
}

impl Share {
    /// It turned out to be so many bytes or less.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        if let Some(reserved) = &mut self.reserved {
            reserved.shrink(reserved.bytes().saturating_sub(bytes));
        }
        let spare = self.own.saturating_sub(bytes);
        self.own -= spare;
        self.room.own.set(self.room.own.get() + spare);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.own.set(self.room.own.get() + self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_message_needs_nothing_of_what_others_have_taken() {
        let listener = Account::new(1 << 20);
        let client = IpAddr::from([10, 0, 0, 1]);
        let others = listener.reserve(Kind::Packets, 1 << 20).unwrap();
        let room = Room::new(&listener, client);
        let mut first = room.hold(6 << 10).unwrap();
        assert_eq!(room.hold(4 << 10).unwrap_err(), Failure::Full, "both are more than it has");
        first.shrink_to(1 << 10);
        let second = room.hold(4 << 10).unwrap();
        assert_eq!(room.own.get(), 3 << 10);
        drop((first, second));
        assert_eq!(room.own.get(), OWN);
        drop(others);
        let mut large = room.hold(64 << 10).unwrap();
        large.shrink_to(100);
        assert_eq!((listener.used(), room.own.get()), (100, OWN));
        drop(large);
        assert_eq!(listener.used(), 0);
    }

    #[test]
    fn clients_of_other_addresses_and_complete_requests_find_room() {
        let listener = Account::new(1 << 20);
        let at = |host: u8| IpAddr::from([10, 0, 0, host]);
        let mut held = Vec::new();
        while let Ok(head) = heads(&listener, at(1)).reserve(Kind::Packets, 64 << 10) {
            held.push(head);
        }
        assert_eq!(held.len(), 9, "one address alone has less than the whole");
        assert!(Room::new(&listener, at(1)).hold(64 << 10).is_ok(), "a request that is complete");
        assert!(Room::new(&listener, at(2)).hold(64 << 10).is_ok(), "another client");
    }
}
