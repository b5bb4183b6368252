//! Which connection speaks for which client id, and what is kept of the sessions of those that are
//! away: a newer connection of the same user takes over. One table for all inputs of a node, for a client id
//! is one client.

mod estate;
mod payers;
mod presence;
mod roll;
mod worth;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_log::{SessionOwner as Owner, SessionState};
use tokio::sync::oneshot;

pub(super) use self::estate::{Estate, Heritage, Line, Takeover};
use self::payers::Payers;
pub(super) use self::presence::Caller;
use self::presence::Presence;
pub use self::roll::ClientStatus;
use self::worth::{Age, Worth};
use super::revive::NO_DOOR;
use super::session::Memory;
use super::sockets::Sockets;
use super::traffic::Traffic;
use super::woken::Woken;

/// Packet identifiers that all kept sessions together may remember: some 20 MB.
const KEPT_IDS_MAX: usize = 1 << 20;

/// Why a client id is not given to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// An input that is itself a client has it.
    Reserved,
    /// It has a session of another user, live or kept.
    Foreign,
    /// Its user has as many connections as he may.
    Share,
}

/// A client's claim on its id.
#[derive(Clone, Debug)]
struct Claim {
    owner: Owner,
    payer: Arc<str>,
    number: u64,
    age: Age,
    /// Sessions that its payer may have kept.
    sessions: Option<u32>,
}

#[derive(Debug)]
enum Entry {
    Live {
        owner: Owner,
        payer: Arc<str>,
        door: u64,
        number: u64,
        age: Age,
        kick: oneshot::Sender<Takeover>,
    },
    Kept {
        claim: Claim,
        memory: Memory,
        until: Instant,
    },
    /// It is that of an input that is a client of another broker.
    Reserved,
}

/// Sessions by the end of their time.
type ByEnd = BTreeSet<(Instant, u64, Arc<str>)>;

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Arc<str>, Entry>,
    presence: Presence,
    /// The kept ones, by the end of their time.
    by_end: ByEnd,
    /// The same by who has them, in the order in which they make room.
    payers: Payers,
    /// Packet identifiers in them.
    ids: usize,
    /// Clients whose sessions are over, and of which the node has not heard.
    gone: Vec<Arc<str>>,
}

impl Table {
    /// Whether somebody may have a client id.
    fn admits(&self, client: &Arc<str>, user: &Owner) -> Result<(), Taken> {
        match self.entries.get(client) {
            Some(Entry::Reserved) => Err(Taken::Reserved),
            Some(Entry::Live { owner, .. } | Entry::Kept { claim: Claim { owner, .. }, .. })
                if owner != user && *owner != Owner::Unknown =>
            {
                Err(Taken::Foreign)
            }
            _ => Ok(()),
        }
    }

    /// Whether one connection more is within the share of who comes, and within his quota. One that takes over
    /// another of his is none more.
    fn has_place(&self, client: &Arc<str>, caller: &Caller) -> bool {
        let Caller { payer, quota, door, .. } = caller;
        if let Some(Entry::Live { payer: older, door: by, .. }) = self.entries.get(client)
            && older == payer
            && (by == door || *by == NO_DOOR)
        {
            return true;
        }
        self.presence.admits(payer, *door, quota.connections)
    }

    /// Takes the entry of a client out.
    fn take(&mut self, client: &Arc<str>) -> Option<Entry> {
        let entry = self.entries.remove(client)?;
        match &entry {
            Entry::Kept { claim, memory, until } => {
                self.by_end.remove(&(*until, claim.number, client.clone()));
                let worth = Worth::of(claim.age, memory, *until);
                self.payers.remove(&claim.payer, worth, client);
                self.ids -= memory.len();
            }
            Entry::Live { payer, door, .. } => self.presence.leave(payer, *door),
            Entry::Reserved => {}
        }
        Some(entry)
    }

    /// Ends the sessions of one that are beyond his quota: those that make room first. Says how many.
    fn trim(&mut self, payer: &Arc<str>, most: Option<u32>) -> usize {
        let Some(most) = most else { return 0 };
        let mut ended = 0;
        while self.payers.count(payer) > most as usize
            && let Some(client) = self.payers.first_of(payer)
        {
            self.take(&client);
            self.gone.push(client);
            ended += 1;
        }
        ended
    }

    fn keep(&mut self, client: Arc<str>, claim: Claim, memory: Memory, until: Instant) {
        self.ids += memory.len();
        self.by_end.insert((until, claim.number, client.clone()));
        self.payers.insert(&claim.payer, Worth::of(claim.age, &memory, until), &client);
        self.entries.insert(client, Entry::Kept { claim, memory, until });
    }

    /// The session that makes room for packet identifiers: the first that has any, of whoever has most sessions.
    fn first_with_ids(&self) -> Option<Arc<str>> {
        let has_ids = |client: &Arc<str>| match self.entries.get(client) {
            Some(Entry::Kept { memory, .. }) => !memory.is_empty(),
            _ => false,
        };
        self.payers.by_most().find(|client| has_ids(client)).cloned()
    }

    /// Drops what is over, and while there is too much, what makes room.
    fn tidy(&mut self, now: Instant, most: usize) {
        while let Some((until, _, client)) = self.by_end.first() {
            let client = if *until <= now {
                Some(client.clone())
            } else if self.by_end.len() > most {
                self.payers.first_of_most()
            } else if self.ids > KEPT_IDS_MAX {
                self.first_with_ids()
            } else {
                None
            };
            let Some(client) = client else { break };
            self.take(&client);
            self.gone.push(client);
        }
    }
}

/// The client ids in use and the sessions that are kept. Bounded by the number of connections and of
/// sessions.
#[derive(Debug)]
pub struct Clients {
    table: Mutex<Table>,
    numbers: AtomicU64,
    started: u64,
    woken: Woken,
    traffic: Arc<Traffic>,
    /// Where they can connect.
    pub(super) sockets: Sockets,
}

impl Default for Clients {
    fn default() -> Self {
        Self::new()
    }
}

impl Clients {
    /// No client at all.
    pub fn new() -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clients {
            table: Mutex::default(),
            numbers: AtomicU64::new(0),
            started: started.as_millis() as u64,
            woken: Woken::default(),
            traffic: Arc::default(),
            sockets: Sockets::default(),
        }
    }

    /// What all of them said and were told.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Which of its clients' connections have something to read.
    pub(super) fn woken(&self) -> &Woken {
        &self.woken
    }

    /// Keeps the sessions that a log knows, each for the time that it still lasts.
    pub fn restore(&self, sessions: impl IntoIterator<Item = SessionState>) {
        let (now, mut table) = (Instant::now(), self.lock());
        for SessionState { client, owner, lasts, packets, .. } in sessions {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            if let Some(until) = now.checked_add(lasts) {
                // That of a client without a name counts alone: the log does not know its address.
                let payer =
                    if let Owner::User(user) = &owner { user.clone() } else { client.clone() };
                let age = Age { begun: number, is_resumed: true };
                let claim = Claim { owner, payer, number, age, sessions: None };
                table.keep(client, claim, Memory::restored(packets), until);
            }
        }
    }

    /// Keeps the session of a client of an earlier process for so long.
    pub(super) fn restore_kept(
        &self,
        client: Arc<str>,
        caller: Caller,
        memory: Memory,
        lasting: Duration,
    ) {
        let Caller { owner, payer, .. } = caller;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        if let Some(until) = Instant::now().checked_add(lasting) {
            let age = Age { begun: number, is_resumed: true };
            let claim = Claim { owner, payer, number, age, sessions: None };
            self.lock().keep(client, claim, memory, until);
        }
    }

    /// Keeps a client id for an input that is itself a client, for good; answers with what is known of its
    /// session.
    pub(super) fn reserve(&self, client: &Arc<str>) -> Memory {
        let mut table = self.lock();
        let older = table.take(client);
        table.entries.insert(client.clone(), Entry::Reserved);
        match older {
            Some(Entry::Kept { memory, .. }) => memory,
            _ => Memory::default(),
        }
    }

    /// Clients whose sessions are over since the last time that this was asked.
    pub(super) fn take_gone(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.lock().gone)
    }

    /// Ends the sessions whose time is over.
    pub(super) fn tidy(&self, sessions_max: usize) {
        self.lock().tidy(Instant::now(), sessions_max);
    }

    /// A client id for a client that has none: not used by any other client, nor by an earlier run.
    pub(super) fn assign(&self) -> Arc<str> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        format!("auto-{:x}-{number}", self.started).into()
    }

    /// Takes a client id for its user, and what is left of its session. Where another connection of the user has
    /// it, that one is told to end. At most `sessions_max` sessions stay.
    ///
    /// # Errors
    /// The id is somebody else's, who does not hear of it; or the user has as many connections as he may.
    pub(super) fn register(
        self: &Arc<Self>,
        client: &Arc<str>,
        caller: Caller,
        is_clean: bool,
        sessions_max: usize,
    ) -> Result<(Registration, Heritage), Taken> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (kick, kicked) = oneshot::channel();
        let mut table = self.lock();
        table.tidy(Instant::now(), sessions_max);
        table.admits(client, &caller.owner)?;
        if !table.has_place(client, &caller) {
            return Err(Taken::Share);
        }
        let older = table.take(client);
        let mut age = Age { begun: number, is_resumed: false };
        if let Some(
            Entry::Kept { claim: Claim { age: older, .. }, .. } | Entry::Live { age: older, .. },
        ) = &older
            && !is_clean
        {
            age = Age { is_resumed: true, ..*older };
        }
        let Caller { owner, payer, quota, door } = caller;
        table.presence.enter(&payer, door);
        let live =
            Entry::Live { owner: owner.clone(), payer: payer.clone(), door, number, age, kick };
        let claim = Claim { owner, payer, number, age, sessions: quota.sessions };
        table.entries.insert(client.clone(), live);
        drop(table);
        let heritage = match older {
            Some(Entry::Kept { memory, .. }) if !is_clean => Heritage::Kept(memory),
            Some(Entry::Live { kick, .. }) => {
                let (heir, left) = oneshot::channel();
                match kick.send(Takeover { is_clean, heir }) {
                    Ok(()) => Heritage::Awaited(left),
                    Err(_) => Heritage::Nothing,
                }
            }
            _ => Heritage::Nothing,
        };
        let clients = self.clone();
        let client = client.clone();
        Ok((Registration { clients, client, claim, sessions_max, kicked }, heritage))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // The table is consistent after any panic: what could panic stands before the changes.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's claim on its client id; given up when dropped.
#[derive(Debug)]
pub(super) struct Registration {
    clients: Arc<Clients>,
    client: Arc<str>,
    claim: Claim,
    sessions_max: usize,
    /// Resolves when a newer connection takes the client id.
    pub(super) kicked: oneshot::Receiver<Takeover>,
}

impl Registration {
    /// The client id.
    pub(super) fn client(&self) -> &Arc<str> {
        &self.client
    }

    /// Gives the claim up and keeps the session for so long, or leaves it to a newer connection. Answers with how
    /// many sessions of the same user were ended for his quota.
    pub(super) fn keep(mut self, memory: Memory, lasting: Duration) -> usize {
        let mut table = self.clients.lock();
        if self.is_current(&table) {
            let now = Instant::now();
            table.take(&self.client);
            if let Some(until) = now.checked_add(lasting) {
                table.keep(self.client.clone(), self.claim.clone(), memory, until);
            }
            let ended = table.trim(&self.claim.payer, self.claim.sessions);
            table.tidy(now, self.sessions_max);
            return ended;
        }
        drop(table);
        if let Ok(Takeover { is_clean: false, heir }) = self.kicked.try_recv() {
            // An heir that is gone has no use for it.
            let _ = heir.send(Estate { memory, line: None });
        }
        0
    }

    fn is_current(&self, table: &Table) -> bool {
        let entry = table.entries.get(&self.client);
        matches!(entry, Some(Entry::Live { number, .. }) if *number == self.claim.number)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.clients.lock();
        if self.is_current(&table) {
            table.take(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::access::Quota;

    const HOUR: Duration = Duration::from_secs(3600);
    const MOST: usize = 2;

    fn caller(owner: Owner) -> Caller {
        let payer =
            if let Owner::User(user) = &owner { user.clone() } else { "at 10.0.0.1".into() };
        Caller { owner, payer, quota: Quota::default(), door: 0 }
    }

    fn awaited(heritage: Heritage) -> oneshot::Receiver<Estate> {
        let Heritage::Awaited(left) = heritage else { panic!("{heritage:?}") };
        left
    }

    #[test]
    fn the_newer_connection_waits_for_the_older_one() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "plc-1".into();
        let (mut older, nobody) =
            clients.register(&id, caller(Owner::Anonymous), true, MOST).unwrap();
        assert!(matches!(nobody, Heritage::Nothing));
        let (newer, gone) = clients.register(&id, caller(Owner::Anonymous), true, MOST).unwrap();
        let mut gone = awaited(gone);
        let takeover = older.kicked.try_recv().unwrap();
        assert!(gone.try_recv().is_err());
        drop(older);
        assert_eq!(clients.lock().entries.len(), 1, "the claim is the newer one's");
        drop(takeover);
        assert!(matches!(gone.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        drop(newer);
        assert_eq!(clients.lock().entries.len(), 0);
    }

    #[test]
    fn a_dead_connection_is_not_waited_for() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "plc-1".into();
        let (older, _) = clients.register(&id, caller(Owner::Anonymous), true, MOST).unwrap();
        drop(older);
        assert!(matches!(
            clients.register(&id, caller(Owner::Anonymous), true, MOST).unwrap().1,
            Heritage::Nothing
        ));
    }

    #[test]
    fn a_kept_session_is_for_who_wants_it() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "plc-1".into();
        for (is_clean, lasting, is_kept) in
            [(false, HOUR, true), (true, HOUR, false), (false, Duration::ZERO, false)]
        {
            clients
                .register(&id, caller(Owner::Anonymous), true, MOST)
                .unwrap()
                .0
                .keep(Memory::default(), lasting);
            let (registration, heritage) =
                clients.register(&id, caller(Owner::Anonymous), is_clean, MOST).unwrap();
            assert_eq!(matches!(heritage, Heritage::Kept(_)), is_kept);
            drop(registration);
            assert!(clients.lock().by_end.is_empty());
        }
    }

    #[test]
    fn a_session_goes_to_a_newer_connection_that_came_meanwhile() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "plc-1".into();
        let (older, _) = clients.register(&id, caller(Owner::Anonymous), false, MOST).unwrap();
        let (_newer, heritage) =
            clients.register(&id, caller(Owner::Anonymous), false, MOST).unwrap();
        older.keep(Memory::default(), HOUR);
        assert!(awaited(heritage).try_recv().is_ok());
    }

    #[test]
    fn kept_sessions_are_bounded() {
        let clients = Arc::new(Clients::new());
        for (id, lasting) in [("a", 2 * HOUR), ("b", HOUR), ("c", 3 * HOUR)] {
            clients
                .register(&id.into(), caller(Owner::Anonymous), false, MOST)
                .unwrap()
                .0
                .keep(Memory::default(), lasting);
        }
        for (id, is_kept) in [("a", true), ("b", true), ("c", false)] {
            let (_, heritage) =
                clients.register(&id.into(), caller(Owner::Anonymous), false, MOST).unwrap();
            assert_eq!(matches!(heritage, Heritage::Kept(_)), is_kept, "{id}");
        }
    }

    #[test]
    fn who_has_most_sessions_makes_room_with_his_own() {
        const MOST: usize = 10;
        let clients = Arc::new(Clients::new());
        let anonymous =
            |address: &str| Caller { payer: address.into(), ..caller(Owner::Anonymous) };
        let keep = |id: &str, who: Caller, lasting| {
            let (registration, _) = clients.register(&id.into(), who, false, MOST).unwrap();
            registration.keep(Memory::default(), lasting);
        };
        let stays = |id: &str| clients.lock().entries.contains_key(id);
        keep("victim", caller(Owner::new(Some("alice"))), HOUR);
        keep("neighbour", anonymous("at 10.0.0.2"), HOUR);
        for number in 0..100 {
            keep(&format!("by-user-{number}"), caller(Owner::new(Some("bob"))), 2 * HOUR);
            keep(&format!("by-address-{number}"), anonymous("at 10.0.0.3"), 3 * HOUR);
        }
        assert!(stays("victim") && stays("neighbour"), "they have fewer than those who flood");
        assert!(stays("by-user-0") && stays("by-address-0") && !stays("by-user-99"));
        let table = clients.lock();
        assert_eq!((table.by_end.len(), table.gone.len()), (MOST, 202 - MOST));
        table.payers.check();
    }

    #[test]
    fn nobody_drives_out_a_session_in_use_by_beginning_others() {
        const MOST: usize = 10;
        let keep = |clients: &Arc<Clients>, id: &str, holds: bool, lasting| {
            let caller = caller(Owner::Anonymous);
            let (registration, heritage) =
                clients.register(&id.into(), caller, false, MOST).unwrap();
            let mut memory = match heritage {
                Heritage::Kept(memory) => memory,
                _ => Memory::default(),
            };
            if holds {
                memory.begin(1);
            }
            registration.keep(memory, lasting);
        };
        for flood_holds in [false, true] {
            let clients = Arc::new(Clients::new());
            keep(&clients, "new", true, HOUR);
            keep(&clients, "in-use", true, HOUR);
            keep(&clients, "in-use", true, HOUR);
            for number in 0..100 {
                keep(&clients, &format!("flood-{number}"), flood_holds, 2 * HOUR);
            }
            let stays = |id: &str| clients.lock().entries.contains_key(id);
            // Both came before the flood, and end before it.
            assert!(stays("new") && stays("in-use"));
            assert!(stays("flood-7") && !stays("flood-8") && !stays("flood-99"));
            // Those that come back go on, whatever begins meanwhile.
            (0..8).for_each(|number| keep(&clients, &format!("flood-{number}"), true, HOUR));
            keep(&clients, "late", true, 2 * HOUR);
            assert!(stays("in-use") && !stays("late"));
            assert_eq!(clients.lock().by_end.len(), MOST);
        }
    }

    #[test]
    fn packet_identifiers_are_bounded_at_those_who_have_some() {
        let clients = Arc::new(Clients::new());
        let sessions = KEPT_IDS_MAX / 50_000 + 1;
        for number in 0..sessions {
            let id: Arc<str> = format!("many-{number}").into();
            let (registration, _) =
                clients.register(&id, caller(Owner::Anonymous), false, 1000).unwrap();
            registration.keep(Memory::restored(0..50_000), HOUR);
            let id: Arc<str> = format!("none-{number}").into();
            let (registration, _) =
                clients.register(&id, caller(Owner::Anonymous), false, 1000).unwrap();
            registration.keep(Memory::default(), HOUR);
        }
        let table = clients.lock();
        assert!(table.ids <= KEPT_IDS_MAX);
        assert_eq!((table.gone.len(), table.by_end.len()), (1, 2 * sessions - 1));
        assert!(table.gone[0].starts_with("many-"));
    }

    #[test]
    fn assigned_ids_differ() {
        let clients = Clients::new();
        assert_ne!(clients.assign(), clients.assign());
    }

    #[test]
    fn a_client_id_is_its_users_while_it_has_a_session() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "alice-1".into();
        let come = |owner| clients.register(&id, caller(owner), true, MOST);
        let users = || [Owner::Anonymous, Owner::new(Some("bob")), Owner::new(Some("alice"))];
        for (place, owner) in users().into_iter().enumerate() {
            let (mut live, _) = come(owner.clone()).unwrap();
            let others = || users().into_iter().enumerate().filter(move |other| other.0 != place);
            for (_, other) in others() {
                assert_eq!(come(other).unwrap_err(), Taken::Foreign);
            }
            assert!(live.kicked.try_recv().is_err(), "it did not hear of them");
            live.keep(Memory::default(), HOUR);
            for (_, other) in others() {
                assert_eq!(come(other).unwrap_err(), Taken::Foreign);
            }
            assert_eq!(clients.lock().by_end.len(), 1);
            // Who has no session any more has no client id any more.
            drop(come(owner).unwrap());
        }
    }

    #[test]
    fn a_session_of_which_the_log_says_no_owner_is_of_who_comes_first() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "alice-1".into();
        clients.restore([SessionState { lasts: HOUR, ..SessionState::over(id.clone()) }]);
        let (_first, heritage) =
            clients.register(&id, caller(Owner::new(Some("alice"))), false, MOST).unwrap();
        assert!(matches!(heritage, Heritage::Kept(_)));
        assert!(clients.register(&id, caller(Owner::Anonymous), false, MOST).is_err());
    }

    #[test]
    fn a_session_of_a_log_is_its_users_after_a_restart() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "alice-1".into();
        let state = SessionState {
            owner: Owner::new(Some("alice")),
            lasts: HOUR,
            ..SessionState::over(id.clone())
        };
        clients.restore([state]);
        let come = |owner| clients.register(&id, caller(owner), false, MOST);
        assert_eq!(come(Owner::new(Some("bob"))).unwrap_err(), Taken::Foreign);
        assert_eq!(come(Owner::Anonymous).unwrap_err(), Taken::Foreign);
        let (_registration, heritage) = come(Owner::new(Some("alice"))).unwrap();
        assert!(matches!(heritage, Heritage::Kept(_)));
    }

    #[test]
    fn one_address_cannot_take_all_connections_of_a_listener() {
        let clients = Arc::new(Clients::new());
        let door = clients.door(100);
        let come = |number: usize, payer: &str| {
            let caller = Caller { payer: payer.into(), door, ..caller(Owner::Anonymous) };
            let id = format!("{payer} {number}").into();
            clients.register(&id, caller, true, MOST).map(|(registration, _)| registration)
        };
        let mut flood: Vec<_> = (0..100).filter_map(|number| come(number, "a").ok()).collect();
        assert_eq!(flood.len(), 61);
        let others: Vec<_> = (0..100).filter_map(|number| come(number, "b").ok()).collect();
        assert!(others.len() > 12, "{}", others.len());
        assert!(come(0, "c").is_ok(), "there is always a place for who has none");
        assert_eq!(come(100, "a").unwrap_err(), Taken::Share);
        drop(others);
        assert!(come(0, "a").is_ok(), "who takes over his own needs no place");
        flood.truncate(50);
        assert!(come(100, "a").is_ok());
        drop(flood);
        let table = clients.lock();
        assert_eq!((table.entries.len(), table.presence.at(door)), (0, Some(0)));
        drop(table);
        clients.close_door(door);
        assert_eq!(
            clients.lock().presence.at(door),
            None,
            "a listener that is gone leaves nothing"
        );
    }

    #[test]
    fn quotas_of_connections_and_sessions_hold() {
        let clients = Arc::new(Clients::new());
        let quota = Quota { connections: Some(2), sessions: Some(1), ..Quota::default() };
        let alice = |door| Caller { quota, door, ..caller(Owner::new(Some("alice"))) };
        let come = |id: &str, caller: Caller| clients.register(&id.into(), caller, false, 10);
        let (first, _) = come("a", alice(0)).unwrap();
        let (second, _) = come("b", alice(1)).unwrap();
        assert_eq!(come("c", alice(0)).unwrap_err(), Taken::Share, "of all listeners together");
        assert!(come("d", caller(Owner::new(Some("bob")))).is_ok());
        assert_eq!(first.keep(Memory::default(), HOUR), 0);
        assert_eq!(second.keep(Memory::default(), 2 * HOUR), 1);
        assert_eq!(clients.take_gone(), ["b".into()], "of two that hold nothing the younger one");
        assert!(matches!(come("a", alice(0)).unwrap().1, Heritage::Kept(_)));
    }
}
