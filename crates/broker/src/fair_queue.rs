//! Whose turn it is at something dear that strangers ask for, such as the check of a password: every
//! network has the same right, and within a network every name.
//!
//! Source: P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queueing", SIGCOMM 1996, section 2: a ring of
//! networks, and a ring of names in each.
//! Inputs: askers, wrong answers, the time. Outputs: who is next, who is turned away. O(log askers) a turn.
//! Deviations: who arrived first wins a tie; the past of a ring ends when nobody waits; a turn costs more
//! for who was wrong of late (docs/ALGORITHMS.md#turns).
//! Limits: `FairQueueLimits`, `PAST_MAX`, `DEBTORS_MAX`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use tidegate_types::units::Time;

/// Members of a ring whose last turn is remembered while nothing of theirs waits.
const PAST_MAX: usize = 4096;
/// Askers whose wrong answers are remembered.
const DEBTORS_MAX: usize = 8192;
/// A wrong answer counts half after this.
const HALF_LIFE: Duration = Duration::from_secs(30);
/// A turn costs one more for each wrong answer of late, up to this: who is wrong all the time has a
/// sixteenth of the turns of who is not, and never none.
const DEBT_MAX: u64 = 15;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requester {
    network: u64,
    name: u64,
}

impl Requester {
    /// A client at this address. `name` stands for what it calls itself: a hash that strangers cannot
    /// steer. An IPv6 client can have any address of its /64, which is therefore one network.
    pub fn new(address: IpAddr, name: u64) -> Self {
        const IPV4: u64 = 0xFFFF << 32;
        let network = match address.to_canonical() {
            IpAddr::V4(address) => IPV4 | u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        };
        Requester { network, name }
    }
}

/// How many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairQueueLimits {
    /// In all. One more turns away the newest of the network of which most wait.
    pub all: usize,
    /// Of one network.
    pub network: usize,
    /// Of one network under one name.
    pub name: usize,
}

/// Members that wait, each with the virtual time of its next turn.
#[derive(Debug)]
struct Ring<K> {
    clock: u64,
    arrivals: u64,
    /// The start tag of each member, and its place among equals.
    waiting: BTreeMap<K, (u64, u64)>,
    order: BTreeMap<(u64, u64), K>,
    /// Finish tags of members of whom nothing waits, beyond the clock.
    past: BTreeMap<K, u64>,
}

impl<K> Default for Ring<K> {
    fn default() -> Self {
        let (waiting, order, past) = Default::default();
        Ring { clock: 0, arrivals: 0, waiting, order, past }
    }
}

impl<K: Ord + Copy> Ring<K> {
    /// A member waits, if it does not already.
    fn enter(&mut self, member: K) {
        if self.waiting.contains_key(&member) {
            return;
        }
        let finish = self.past.remove(&member).unwrap_or_default();
        self.place(member, finish.max(self.clock));
    }

    fn place(&mut self, member: K, start: u64) {
        let tag = (start, self.arrivals);
        self.arrivals += 1;
        self.waiting.insert(member, tag);
        self.order.insert(tag, member);
    }

    /// The member whose turn it is.
    fn first(&self) -> Option<K> {
        self.order.first_key_value().map(|(_, member)| *member)
    }

    /// It had its turn, at this cost.
    fn served(&mut self, member: K, cost: u64, has_more: bool) {
        let Some(tag) = self.waiting.remove(&member) else { return };
        self.order.remove(&tag);
        self.clock = self.clock.max(tag.0);
        let finish = tag.0 + cost;
        if has_more {
            self.place(member, finish);
        } else if self.order.is_empty() {
            self.past.clear();
        } else {
            self.past.insert(member, finish);
            if self.past.len() > PAST_MAX {
                let clock = self.clock;
                self.past.retain(|_, finish| *finish > clock + 1);
                if self.past.len() > PAST_MAX / 2 {
                    self.past.clear();
                }
            }
        }
    }

    /// Nothing of it waits any more, and it had no turn.
    fn leave(&mut self, member: K) {
        if let Some(tag) = self.waiting.remove(&member) {
            self.order.remove(&tag);
        }
    }
}

/// What waits of one network.
#[derive(Debug)]
struct Network<T> {
    ring: Ring<u64>,
    queues: BTreeMap<u64, VecDeque<T>>,
    waiting: usize,
}

/// Wrong answers of late.
#[derive(Debug, Default)]
struct Debts {
    /// By network, and by network and name.
    of: BTreeMap<(u64, Option<u64>), (u64, Time)>,
    by_time: BTreeSet<(Time, (u64, Option<u64>))>,
}

impl Debts {
    fn read(&self, now: Time, debtor: (u64, Option<u64>)) -> u64 {
        let Some((wrong, at)) = self.of.get(&debtor) else { return 0 };
        let halvings = now.since(*at).as_secs() / HALF_LIFE.as_secs();
        wrong.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }

    fn add(&mut self, now: Time, debtor: (u64, Option<u64>)) {
        let wrong = (self.read(now, debtor) + 1).min(DEBT_MAX);
        self.remove(debtor);
        self.of.insert(debtor, (wrong, now));
        self.by_time.insert((now, debtor));
        if self.of.len() > DEBTORS_MAX
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.of.remove(&oldest);
        }
    }

    fn remove(&mut self, debtor: (u64, Option<u64>)) {
        if let Some((_, at)) = self.of.remove(&debtor) {
            self.by_time.remove(&(at, debtor));
        }
    }
}

/// Who waits for a turn.
#[derive(Debug)]
pub struct FairQueue<T> {
    bounds: FairQueueLimits,
    ring: Ring<u64>,
    networks: BTreeMap<u64, Network<T>>,
    waiting: usize,
    debts: Debts,
}

impl<T> FairQueue<T> {
    /// Nobody waits.
    pub fn new(bounds: FairQueueLimits) -> Self {
        let (ring, networks, debts) = Default::default();
        FairQueue { bounds, ring, networks, waiting: 0, debts }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Waits for a turn. Returns who is turned away for want of room: `item` itself, or another.
    pub fn ask(&mut self, asker: Requester, item: T) -> Option<T> {
        let Requester { network, name } = asker;
        let FairQueueLimits { all, network: of_network, name: of_name } = self.bounds;
        let known = self.networks.get(&network);
        let of_this = known.map_or(0, |known| known.waiting);
        let of_both = known.and_then(|known| known.queues.get(&name)).map_or(0, VecDeque::len);
        if of_this >= of_network || of_both >= of_name {
            return Some(item);
        }
        let mut turned_away = None;
        if self.waiting >= all {
            let most = self.networks.iter().max_by_key(|(_, network)| network.waiting);
            match most.map(|(most, network)| (*most, network.waiting)) {
                Some((most, waiting)) if waiting > of_this + 1 => {
                    turned_away = self.turn_away(most);
                }
                _ => return Some(item),
            }
        }
        self.ring.enter(network);
        let fresh = || Network { ring: Ring::default(), queues: BTreeMap::new(), waiting: 0 };
        let queues = self.networks.entry(network).or_insert_with(fresh);
        queues.ring.enter(name);
        queues.queues.entry(name).or_default().push_back(item);
        queues.waiting += 1;
        self.waiting += 1;
        turned_away
    }

    /// Takes the newest of the name of which most wait. More than one waits of this network.
    fn turn_away(&mut self, network: u64) -> Option<T> {
        let known = self.networks.get_mut(&network)?;
        let (name, queue) = known.queues.iter_mut().max_by_key(|(_, queue)| queue.len())?;
        let (name, item) = (*name, queue.pop_back()?);
        if queue.is_empty() {
            known.queues.remove(&name);
            known.ring.leave(name);
        }
        known.waiting -= 1;
        self.waiting -= 1;
        Some(item)
    }

    /// Who has the next turn.
    pub fn next(&mut self, now: Time) -> Option<T> {
        let network = self.ring.first()?;
        let known = self.networks.get_mut(&network)?;
        let name = known.ring.first()?;
        let queue = known.queues.get_mut(&name)?;
        let item = queue.pop_front();
        let has_more = !queue.is_empty();
        if !has_more {
            known.queues.remove(&name);
        }
        known.waiting -= 1;
        self.waiting -= 1;
        known.ring.served(name, 1 + self.debts.read(now, (network, Some(name))), has_more);
        let has_more = known.waiting > 0;
        if !has_more {
            self.networks.remove(&network);
        }
        self.ring.served(network, 1 + self.debts.read(now, (network, None)), has_more);
        item
    }

    /// A turn was spent on a wrong answer: the next ones of this network come later, and those under
    /// this name later still. The same name in another network is not touched.
    pub fn wrong(&mut self, now: Time, asker: Requester) {
        self.debts.add(now, (asker.network, None));
        self.debts.add(now, (asker.network, Some(asker.name)));
    }

    /// The answer was right: the name is forgiven, but not its network.
    pub fn right(&mut self, asker: Requester) {
        self.debts.remove((asker.network, Some(asker.name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: FairQueueLimits = FairQueueLimits { all: 64, network: 48, name: 40 };
    const NOW: Time = Time::ZERO;

    fn asker(host: u8, name: u64) -> Requester {
        Requester::new(IpAddr::from([10, 0, 0, host]), name)
    }

    fn waiting(askers: &[(u8, u64)]) -> FairQueue<(u8, u64)> {
        let mut turns = FairQueue::new(BOUNDS);
        for (host, name) in askers {
            assert_eq!(turns.ask(asker(*host, *name), (*host, *name)), None);
        }
        turns
    }

    fn all(turns: &mut FairQueue<(u8, u64)>, now: Time) -> Vec<(u8, u64)> {
        std::iter::from_fn(|| turns.next(now)).collect()
    }

    #[test]
    fn networks_take_turns_and_within_them_names() {
        let mut turns = waiting(&[(1, 1), (1, 1), (1, 1), (1, 2), (2, 1), (2, 1)]);
        assert_eq!(turns.len(), 6);
        let order = [(1, 1), (2, 1), (1, 2), (2, 1), (1, 1), (1, 1)];
        assert_eq!(all(&mut turns, NOW), order);
        assert!(turns.is_empty() && turns.networks.is_empty());
    }

    #[test]
    fn a_newcomer_waits_for_one_turn_of_each_network_at_most() {
        let flood: Vec<(u8, u64)> = (0..40).map(|number| (1, number)).collect();
        let mut turns = waiting(&flood);
        for _ in 0..7 {
            turns.next(NOW);
        }
        turns.ask(asker(9, 7), (9, 7));
        let until = all(&mut turns, NOW).iter().position(|item| *item == (9, 7));
        assert!(until <= Some(1), "{until:?}");
    }

    #[test]
    fn who_comes_back_at_once_is_not_before_who_waited() {
        let mut turns = waiting(&[(1, 1), (2, 1), (2, 1)]);
        assert_eq!(turns.next(NOW), Some((1, 1)));
        // It had its turn, and 2 has not: it is behind, though its queue was empty.
        turns.ask(asker(1, 1), (1, 1));
        assert_eq!(all(&mut turns, NOW), [(2, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn who_is_wrong_all_the_time_gets_a_sixteenth_and_only_in_its_own_network() {
        let mut turns = waiting(&[]);
        for _ in 0..100 {
            turns.wrong(NOW, asker(1, 7));
        }
        for _ in 0..32 {
            turns.ask(asker(1, 7), (1, 7));
            turns.ask(asker(2, 7), (2, 7));
        }
        let order = all(&mut turns, NOW);
        let of_first = order[..34].iter().filter(|(host, _)| *host == 1).count();
        assert_eq!(of_first, 2, "in 34 turns {order:?}");
        // The network has paid for it, its other names among each other have not.
        for name in [7, 7, 8, 8] {
            turns.ask(asker(1, name), (1, name));
        }
        assert_eq!(all(&mut turns, NOW), [(1, 7), (1, 8), (1, 8), (1, 7)]);
    }

    #[test]
    fn wrong_answers_fade_and_a_right_one_forgives_its_name() {
        let mut turns: FairQueue<()> = FairQueue::new(BOUNDS);
        let (own, network) = ((asker(1, 7).network, Some(7)), (asker(1, 7).network, None));
        for _ in 0..4 {
            turns.wrong(NOW, asker(1, 7));
        }
        assert_eq!(turns.debts.read(NOW, own), 4);
        assert_eq!(turns.debts.read(NOW + HALF_LIFE, own), 2);
        assert_eq!(turns.debts.read(NOW + HALF_LIFE * 70, own), 0);
        turns.right(asker(1, 7));
        assert_eq!((turns.debts.read(NOW, own), turns.debts.read(NOW, network)), (0, 4));
    }

    #[test]
    fn a_flood_is_turned_away_before_others_are() {
        let flood: Vec<(u8, u64)> = (0..48).map(|number| (1, number)).collect();
        let mut turns = waiting(&flood);
        assert_eq!(turns.ask(asker(1, 99), (1, 99)), Some((1, 99)), "48 of one network");
        for name in 0..16 {
            assert_eq!(turns.ask(asker(2, name), (2, name)), None);
        }
        let turned_away = turns.ask(asker(3, 1), (3, 1));
        assert!(turned_away.is_some_and(|(host, _)| host == 1), "{turned_away:?}");
        assert_eq!(turns.len(), BOUNDS.all);
        assert_eq!(all(&mut turns, NOW).len(), BOUNDS.all);
        let mut turns = waiting(&[(1, 1); 40]);
        assert_eq!(turns.ask(asker(1, 1), (1, 1)), Some((1, 1)), "40 of one name");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut turns = FairQueue::new(BOUNDS);
        turns.ask(asker(0, 0), 0);
        turns.ask(asker(0, 0), 0);
        for number in 0..20_000_u32 {
            let stranger = Requester::new(IpAddr::from(number.to_be_bytes()), 1);
            turns.ask(stranger, number);
            turns.next(NOW);
            turns.wrong(NOW, stranger);
        }
        assert!(turns.ring.past.len() <= PAST_MAX);
        assert!(turns.debts.of.len() <= DEBTORS_MAX);
        assert_eq!(turns.debts.of.len(), turns.debts.by_time.len());
    }

    #[test]
    fn one_ipv6_customer_is_one_network() {
        let network = |text: &str| Requester::new(text.parse().unwrap(), 1).network;
        assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff::9"));
        assert_ne!(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    }
}
