//! One account of the memory that others can make us hold: bytes are reserved before they are held, and
//! what does not fit is refused.
//!
//! An [`Account`] has one bound. A share of it has a bound of its own beside that of all above it. The bound of a
//! fair share moves with what is free above it, as dynamic thresholds of switches do (Choudhury and Hahne, IEEE/ACM
//! Transactions on Networking 6(2), 1998), but with its square: holders give back late here, and a bound in proportion
//! would give each newcomer a fixed part of the rest, so that five would have all. After n that take all they can
//! 1/(3n) to 1/(4n) is free, and the next may have about 1/(3n^2). A listener has a share of the account, and each of its
//! users a fair share of that. A [`Reservation`] gives back what it has when it is dropped. Figures are of the whole
//! account, by kind.
//!
//! Limits: the bounds of the account and of its shares. A reservation costs an atomic exchange for each
//! bound that it counts against, so what is held in a buffer is reserved by the buffer and not by the record. Where
//! threads take at the same moment, a fair share may pass its bound by what they take; no other bound is ever passed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::shares::fair_part;

/// Names whose shares are gone are forgotten when there are twice as many as there were after the last time.
const NAMES_MIN: usize = 64;

crate::named! {
    /// What bytes are held for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[repr(usize)]
    pub enum Kind {
        /// Sessions, here or away, and what they remember.
        Sessions = "sessions",
        /// Subscriptions and the tree that finds them.
        Subscriptions = "subscriptions",
        /// Messages that wait for subscribers or for their acknowledgements.
        Messages = "messages",
        /// Retained messages.
        Retained = "retained",
        /// Wills.
        Wills = "wills",
        /// The newest frames of cameras, for who missed them.
        Frames = "frames",
        /// Packets that are not complete, and heads and bodies of HTTP.
        Packets = "packets",
        /// What the windows of a connection let its peer send, and what libraries hold for it.
        Windows = "windows",
    }
}

/// Whose bound it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// That of the whole account.
    All,
    /// That of one kind of things.
    Kind,
    /// That of all who come by one listener.
    Listener,
    /// That of one user.
    User,
}

impl Level {
    /// A word for people.
    pub fn name(self) -> &'static str {
        match self {
            Level::All => "the node",
            Level::Kind => "its kind",
            Level::Listener => "the listener",
            Level::User => "the user",
        }
    }
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes more for {} are beyond the {bound} bytes of {}", .kind.name(), .level.name())]
pub struct Refusal {
    /// Whose bound it is.
    pub level: Level,
    /// The bound, in bytes.
    pub bound: usize,
    /// What the bytes were for.
    pub kind: Kind,
    /// How many.
    pub wanted: usize,
}

/// What an account holds at one moment, and what it refused so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The bound of the whole account.
    pub bound: usize,
    /// Bytes, in the order of [`Kind::ALL`].
    pub bytes: [usize; Kind::ALL.len()],
    /// Refusals, in the same order.
    pub refused: [u64; Kind::ALL.len()],
}

impl Figures {
    /// Bytes of one kind.
    pub fn of(&self, kind: Kind) -> usize {
        self.bytes[kind as usize]
    }

    /// Refusals of one kind.
    pub fn refused(&self, kind: Kind) -> u64 {
        self.refused[kind as usize]
    }

    /// Bytes of all kinds.
    pub fn total(&self) -> usize {
        self.bytes.iter().sum()
    }
}

#[derive(Debug, Default)]
struct Book {
    bytes: [AtomicUsize; Kind::ALL.len()],
    refused: [AtomicU64; Kind::ALL.len()],
}

/// One bound.
#[derive(Debug)]
struct Share {
    level: Level,
    bound: usize,
    is_fair: bool,
    used: AtomicUsize,
    above: Option<Account>,
    book: Arc<Book>,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    known: BTreeMap<Arc<str>, Weak<Share>>,
    /// From how many names on those are looked for that are gone.
    full: usize,
}

impl Share {
    /// What would be left of it after `bytes` more; none where they are beyond its bound or one above it.
    fn left(&self, bytes: usize) -> Option<usize> {
        let used = self.used.load(Ordering::Relaxed).checked_add(bytes)?;
        let above = match &self.above {
            Some(Account(above)) => above.left(bytes)?,
            None => usize::MAX,
        };
        let limit = if self.is_fair { self.fair_part(above) } else { self.bound };
        Some(limit.checked_sub(used)?.min(above))
    }

    /// What a fair share may hold while so much is free above it.
    fn fair_part(&self, free: usize) -> usize {
        usize::try_from(fair_part(free as u64, self.bound as u64)).unwrap_or(usize::MAX)
    }

    /// Its bound at this moment.
    fn limit(&self) -> usize {
        match &self.above {
            Some(Account(above)) if self.is_fair => self.fair_part(above.left(0).unwrap_or(0)),
            _ => self.bound,
        }
    }

    fn take(&self, bytes: usize) -> bool {
        if self.is_fair && self.left(bytes).is_none() {
            return false;
        }
        // What was refused changes nothing, so the sum never passes the bound, not for a moment either.
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.bound);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn give(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more is given back than was taken");
    }
}

/// A bound on bytes, that of the whole or of a share. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Account(Arc<Share>);

impl Account {
    /// An account with nothing on it.
    pub fn new(bound: usize) -> Self {
        let (used, names, book) = (AtomicUsize::new(0), Mutex::default(), Arc::default());
        let (level, is_fair, above) = (Level::All, false, None);
        Account(Arc::new(Share { level, bound, is_fair, used, above, book, names }))
    }

    fn below(&self, level: Level, bound: usize, is_fair: bool) -> Self {
        let (used, names) = (AtomicUsize::new(0), Mutex::default());
        let (above, book) = (Some(self.clone()), self.0.book.clone());
        Account(Arc::new(Share { level, bound, is_fair, used, above, book, names }))
    }

    /// A share: what is reserved of it counts here too.
    pub fn share(&self, level: Level, bound: usize) -> Account {
        self.below(level, bound, false)
    }

    /// A share whose bound follows what is free here: however many take all they can, something is left to others.
    pub fn fair(&self, level: Level) -> Account {
        self.below(level, self.bound(), true)
    }

    /// The fair share of this name, the same one as long as anything is reserved of it or somebody has it.
    pub fn fair_named(&self, level: Level, name: &str) -> Account {
        self.find(name, || self.fair(level))
    }

    /// The share of this name, the same one as long as anything is reserved of it or somebody has it.
    pub fn named(&self, level: Level, name: &str, bound: usize) -> Account {
        self.find(name, || self.share(level, bound))
    }

    fn find(&self, name: &str, new: impl FnOnce() -> Account) -> Account {
        // It changes by whole steps.
        let mut names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = names.known.get(name).and_then(Weak::upgrade) {
            return Account(share);
        }
        if names.known.len() >= names.full.max(NAMES_MIN) {
            names.known.retain(|_, share| share.strong_count() > 0);
            names.full = 2 * names.known.len();
        }
        let share = new();
        names.known.insert(name.into(), Arc::downgrade(&share.0));
        share
    }

    /// Reserves bytes.
    ///
    /// # Errors
    /// One of the bounds would be passed; then nothing is reserved.
    pub fn reserve(&self, kind: Kind, bytes: usize) -> Result<Reservation, Refusal> {
        let mut reservation = self.empty(kind);
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// A reservation of nothing, which may grow.
    pub fn empty(&self, kind: Kind) -> Reservation {
        Reservation { account: self.clone(), kind, bytes: 0 }
    }

    /// Its bound; of a fair share that of the account above it, which it never reaches.
    pub fn bound(&self) -> usize {
        self.0.bound
    }

    /// Bytes that are reserved of it.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Figures of the whole account that it is a share of.
    pub fn figures(&self) -> Figures {
        let mut top = self;
        while let Some(above) = &top.0.above {
            top = above;
        }
        let book = &self.0.book;
        Figures {
            bound: top.0.bound,
            bytes: book.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)),
            refused: book.refused.each_ref().map(|count| count.load(Ordering::Relaxed)),
        }
    }

    fn take(&self, kind: Kind, bytes: usize) -> Result<(), Refusal> {
        let mut next = Some(self);
        while let Some(Account(share)) = next {
            if !share.take(bytes) {
                self.give_up_to(Some(share), bytes);
                share.book.refused[kind as usize].fetch_add(1, Ordering::Relaxed);
                let (level, bound) = (share.level, share.limit());
                return Err(Refusal { level, bound, kind, wanted: bytes });
            }
            next = share.above.as_ref();
        }
        self.0.book.bytes[kind as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn give(&self, kind: Kind, bytes: usize) {
        self.give_up_to(None, bytes);
        self.0.book.bytes[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Gives back of every bound below `end`.
    fn give_up_to(&self, end: Option<&Arc<Share>>, bytes: usize) {
        let mut next = Some(self);
        while let Some(Account(share)) = next
            && end.is_none_or(|end| !Arc::ptr_eq(end, share))
        {
            share.give(bytes);
            next = share.above.as_ref();
        }
    }
}

/// Bytes that may be held. Given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    account: Account,
    kind: Kind,
    bytes: usize,
}

impl Reservation {
    /// Bytes that are reserved.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Of which bound.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Reserves more.
    ///
    /// # Errors
    /// One of the bounds would be passed; then it stays as it was.
    pub fn grow(&mut self, more: usize) -> Result<(), Refusal> {
        if more > 0 {
            self.account.take(self.kind, more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Gives some back: all of it where that is less.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.bytes);
        if less > 0 {
            self.bytes -= less;
            self.account.give(self.kind, less);
        }
    }

    /// Grows or shrinks to so many bytes.
    ///
    /// # Errors
    /// As of [`Reservation::grow`].
    pub fn resize(&mut self, bytes: usize) -> Result<(), Refusal> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_its_bound() {
        let all = Account::new(100);
        let user = all.share(Level::User, 60);
        let held = user.reserve(Kind::Wills, 50).unwrap();
        let refused = user.reserve(Kind::Wills, 11).unwrap_err();
        assert_eq!(
            refused,
            Refusal { level: Level::User, bound: 60, kind: Kind::Wills, wanted: 11 }
        );
        assert_eq!(all.reserve(Kind::Sessions, 51).unwrap_err().level, Level::All);
        let words = "11 bytes more for wills are beyond the 60 bytes of the user";
        assert_eq!(refused.to_string(), words);
        assert_eq!(all.figures().of(Kind::Wills), 50);
        assert_eq!((all.figures().refused(Kind::Wills), all.figures().total()), (1, 50));
        drop(held);
        assert_eq!((all.used(), user.used(), all.figures().total()), (0, 0, 0));
    }

    #[test]
    fn a_refusal_above_is_given_back_below() {
        let all = Account::new(10);
        let user = all.share(Level::User, 100);
        assert!(user.reserve(Kind::Messages, 11).is_err());
        assert_eq!((all.used(), user.used()), (0, 0));
        assert!(user.reserve(Kind::Messages, usize::MAX).is_err(), "sums do not overflow");
    }

    #[test]
    fn a_name_has_one_share_while_it_is_used() {
        let all = Account::new(1000);
        let alice = all.named(Level::User, "alice", 10);
        let held = alice.reserve(Kind::Sessions, 7).unwrap();
        drop(alice);
        assert_eq!(all.named(Level::User, "alice", 10).used(), 7);
        assert_eq!(all.named(Level::User, "bob", 10).used(), 0);
        drop(held);
        assert_eq!(all.named(Level::User, "alice", 20).bound(), 20, "a new one");
        for name in 0..10 * NAMES_MIN {
            drop(all.named(Level::User, &name.to_string(), 10));
        }
        assert!(all.0.names.lock().unwrap().known.len() <= NAMES_MIN, "names are forgotten");
    }

    #[test]
    fn something_is_left_however_many_take_all_they_can() {
        let all = Account::new(64 << 20);
        let listener = all.share(Level::Listener, 48 << 20);
        let fill = |client: &Account| {
            let mut held = client.empty(Kind::Packets);
            let mut step = 1 << 20;
            while step > 0 {
                match held.grow(step) {
                    Ok(()) => {}
                    Err(refused) => {
                        assert_eq!(refused.level, Level::User);
                        step /= 2;
                    }
                }
            }
            held
        };
        let mut held = vec![fill(&listener.fair_named(Level::User, "0"))];
        let alone = all.used() as f64 / listener.bound() as f64;
        assert!((0.6..0.62).contains(&alone), "{alone}");
        for name in 1..30 {
            held.push(fill(&listener.fair_named(Level::User, &name.to_string())));
        }
        let next = fill(&listener.fair_named(Level::User, "next"));
        assert!(next.bytes() > 8 << 10, "{}", next.bytes());
        // A listener leaves the others their part.
        let other = all.share(Level::Listener, 48 << 20).fair_named(Level::User, "0");
        let far = fill(&other);
        assert!(far.bytes() > 4 << 20, "{}", far.bytes());
        drop((held, next, far));
        assert_eq!(all.used(), 0);
    }

    #[test]
    fn a_fair_share_says_what_its_bound_is_now() {
        let all = Account::new(1000);
        let user = all.fair(Level::User);
        let _others = all.reserve(Kind::Wills, 200).unwrap();
        let _held = user.reserve(Kind::Wills, 400).unwrap();
        // Now 4 * 400 * 400 / 1000; with 100 bytes more 4 * 300 * 300 / 1000.
        let refused = user.reserve(Kind::Wills, 100).unwrap_err();
        assert_eq!((refused.level, refused.bound, user.bound()), (Level::User, 640, 1000));
        assert_eq!((user.used(), all.used()), (400, 600));
    }

    #[test]
    fn threads_never_pass_the_bound() {
        let all = Account::new(1000);
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let all = all.clone();
                scope.spawn(move || {
                    let share = all.named(Level::User, name, 600);
                    let mut held = Vec::new();
                    for step in 0..2000 {
                        held.extend(share.reserve(Kind::Packets, 1 + step % 97).ok());
                        assert!(all.used() <= 1000 && share.used() <= 600);
                        if step % 3 == 0 {
                            held.clear();
                        }
                    }
                });
            }
        });
        assert_eq!((all.used(), all.figures().total()), (0, 0));
    }

    proptest! {
        /// The sums are those of what is held, no bound is ever passed, and a refusal was due.
        #[test]
        fn the_sums_are_those_of_what_is_held(
            steps in prop::collection::vec((0..3usize, 0..4u8, 0..80usize), 1..200),
        ) {
            let all = Account::new(200);
            let shares = [all.clone(), all.share(Level::User, 90), all.share(Level::User, 150)];
            let mut held: Vec<Vec<Reservation>> = vec![Vec::new(), Vec::new(), Vec::new()];
            for (place, what, bytes) in steps {
                let share = &shares[place];
                let before = (share.used(), all.used());
                let fits = before.0 + bytes <= share.bound() && before.1 + bytes <= all.bound();
                match (what, held[place].last_mut()) {
                    (0, _) | (1, None) => match share.reserve(Kind::Messages, bytes) {
                        Ok(reservation) => { prop_assert!(fits); held[place].push(reservation); }
                        Err(_) => prop_assert!(!fits),
                    },
                    (1, Some(last)) => prop_assert_eq!(last.grow(bytes).is_ok(), fits),
                    (2, Some(last)) => last.shrink(bytes),
                    _ => drop(held[place].pop()),
                }
                let sums: Vec<usize> =
                    held.iter().map(|all| all.iter().map(Reservation::bytes).sum()).collect();
                prop_assert_eq!(shares[1].used(), sums[1]);
                prop_assert_eq!(shares[2].used(), sums[2]);
                prop_assert_eq!(all.used(), sums.iter().sum::<usize>());
                prop_assert_eq!(all.figures().total(), all.used());
                prop_assert!(shares.iter().all(|share| share.used() <= share.bound()));
            }
            held.clear();
            prop_assert_eq!((all.used(), all.figures().total()), (0, 0));
        }
    }
}
