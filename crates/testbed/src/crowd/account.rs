//! What each of a crowd wants, and whether it got that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{fmt, io};

use super::client::published;
use super::{PUBLISHERS, Play, QUIET, RETAINED, TOPICS, Wills};

/// Groups of each kind.
const GROUPS: u64 = 5;
/// Faults that are told one by one.
const TOLD: usize = 10;

/// What a session subscribes to: all of a publisher, or a topic of all.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) filter: String,
    pub(super) qos: u8,
    publisher: Option<u64>,
    topic: Option<u64>,
    /// Who shares it: those that are alone have a group each.
    group: u64,
}

impl Wish {
    pub(super) fn of(number: u64, has_groups: bool) -> Wish {
        let (kind, part) = (number % 4, number / 4);
        let is_shared = kind > 1 && has_groups;
        let part = if is_shared { part % GROUPS } else { part };
        let what = if kind % 2 == 0 { part % PUBLISHERS } else { part % TOPICS };
        let filter = if kind % 2 == 0 { format!("s/{what}/+") } else { format!("s/+/{what}") };
        Wish {
            filter: if is_shared { format!("$share/g{kind}-{part}/{filter}") } else { filter },
            qos: 2 - (kind % 2) as u8,
            publisher: (kind % 2 == 0).then_some(what),
            topic: (kind % 2 == 1).then_some(what),
            group: if is_shared { (1 + kind) << 32 | part } else { number },
        }
    }

    fn has(&self, publisher: u64, number: u64) -> bool {
        self.publisher.is_none_or(|one| one == publisher)
            && self.topic.is_none_or(|one| one == number % TOPICS)
    }
}

/// What came of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrowdAccount {
    /// Messages that publishers were told to be safe.
    pub accepted: u64,
    /// Messages that came to subscribers.
    pub came: u64,
    /// Messages that a session, or a group, did not get.
    pub lost: u64,
    /// Messages of QoS 2 that it got more than once.
    pub twice: u64,
    /// Topics that do not have their last retained message.
    pub stale: u64,
    /// Wills that were not published.
    pub wills_lost: u64,
    /// Wills that were published more than once.
    pub wills_twice: u64,
    /// Sessions that were not there when their client came back.
    pub forgotten: u64,
    /// The longest time from a kill to the next CONNACK.
    pub start: Duration,
    /// The first of what is wrong, for people.
    pub told: Vec<String>,
}

impl CrowdAccount {
    pub(super) fn of(
        play: &Play,
        wishes: &[Wish],
        sent: &[u64],
        wills: &[Wills],
    ) -> io::Result<CrowdAccount> {
        let mut account = CrowdAccount {
            accepted: sent.iter().sum(),
            came: play.came.load(Relaxed),
            forgotten: play.forgotten.load(Relaxed),
            stale: stale(play, sent)?,
            ..CrowdAccount::default()
        };
        let mut groups: BTreeMap<u64, (&Wish, Vec<usize>)> = BTreeMap::new();
        for (place, wish) in wishes.iter().enumerate() {
            groups.entry(wish.group).or_insert((wish, Vec::new())).1.push(place);
        }
        for (wish, places) in groups.values() {
            let members: Vec<_> = places.iter().map(|place| play.seen(*place)).collect();
            for (publisher, count) in (0..).zip(sent) {
                for seq in (0..*count).filter(|seq| wish.has(publisher, *seq)) {
                    let number = publisher << 32 | seq;
                    let came: u32 = members.iter().filter_map(|seen| seen.get(&number)).sum();
                    account.lost += u64::from(came == 0);
                    let is_once = wish.qos == 2 && publisher % 2 == 1;
                    account.twice += u64::from(came > 1 && is_once);
                    if came == 0 || came > 1 && is_once {
                        account.tell(|| {
                            format!("{publisher}/{seq} came {came} times to {}", wish.filter)
                        });
                    }
                }
            }
        }
        let heard = play.seen(wishes.len());
        let came = |will: &u64| heard.get(will).copied().unwrap_or(0);
        for (sure, open) in wills {
            account.wills_lost += sure.iter().filter(|will| came(will) == 0).count() as u64;
            let all = sure.iter().chain(open);
            account.wills_twice += all.filter(|will| came(will) > 1).count() as u64;
            for will in sure.iter().filter(|will| came(will) != 1) {
                account.tell(|| {
                    format!("will {}/{} came {} times", will >> 32, *will as u32, came(will))
                });
            }
        }
        Ok(account)
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.told.len() < TOLD {
            self.told.push(what());
        }
    }

    /// All numbers by name: those behind `start_ms_max` are wrong where they are not 0.
    pub fn figures(&self) -> [(&'static str, u64); 9] {
        let CrowdAccount { accepted, came, start, .. } = self;
        let &CrowdAccount { lost, twice, stale, wills_lost, wills_twice, forgotten, .. } = self;
        [
            ("accepted", *accepted),
            ("came", *came),
            ("start_ms_max", start.as_millis() as u64),
            ("lost", lost),
            ("twice", twice),
            ("stale", stale),
            ("wills_lost", wills_lost),
            ("wills_twice", wills_twice),
            ("forgotten", forgotten),
        ]
    }

    /// Whether anything is wrong.
    pub fn is_wrong(&self) -> bool {
        self.figures()[3..].iter().any(|(_, count)| *count > 0)
    }
}

impl fmt::Display for CrowdAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures().map(|(name, count)| format!("{name} {count}"));
        f.write_str(&figures.join(", "))
    }
}

/// How many publishers' last retained messages are not there for who comes last.
fn stale(play: &Play, sent: &[u64]) -> io::Result<u64> {
    let mut client = play.enter("late", None)?;
    client.subscribe("s/+/0", 1)?;
    let last =
        |(publisher, count): (u64, &u64)| (publisher << 32) | ((count - 1) / RETAINED * RETAINED);
    let mut missing: BTreeSet<u64> =
        (0..).zip(sent).filter(|(_, count)| **count > 0).map(last).collect();
    while !missing.is_empty()
        && let Some((kind, body)) = client.next(QUIET)?
    {
        if let Some((_, payload)) = published(kind, &body) {
            payload.first_chunk().map(|number| missing.remove(&u64::from_be_bytes(*number)));
        }
    }
    Ok(missing.len() as u64)
}
