//! Elections: one leader at a time, whatever is lost, late or paused, and one soon after that.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_fleet::{Election, ElectionInput, ElectionOptions, ElectionOutput, KeyHolder};
use tidegate_testing::fleets::Random;
use tidegate_types::units::Time;

use crate::fleet::support::at;

const LEASE: Duration = Duration::from_secs(2);

fn outputs(election: &mut Election) -> Vec<ElectionOutput> {
    std::iter::from_fn(|| election.poll()).collect()
}

fn seen(number: u64, revision: u64, is_own: bool) -> ElectionInput {
    ElectionInput::Seen { number, holder: Some(KeyHolder { revision, is_own }) }
}

/// A candidate that leads since 30 ms under revision 7, with a lease of 2 s since 0.
fn leader() -> Election {
    let mut election = Election::new(ElectionOptions::default());
    election.handle(at(0), ElectionInput::Timeout);
    assert_eq!(outputs(&mut election), [ElectionOutput::Open { session: 1 }]);
    election.handle(at(10), ElectionInput::Opened { session: 1, lease: LEASE });
    assert_eq!(outputs(&mut election), [ElectionOutput::Look { number: 1 }]);
    election.handle(at(20), ElectionInput::Seen { number: 1, holder: None });
    assert_eq!(outputs(&mut election), [ElectionOutput::Claim { number: 2 }]);
    election.handle(at(30), seen(2, 7, true));
    assert_eq!(outputs(&mut election), [ElectionOutput::Lead { revision: 7 }]);
    election
}

#[test]
fn a_leader_stops_a_margin_before_its_lease_ends() {
    let mut election = leader();
    // Counted from the question, not from the answer.
    assert_eq!(election.leads(at(1799)), Some(7));
    assert_eq!(election.leads(at(1800)), None);
    election.handle(at(1800), ElectionInput::Timeout);
    let closed = [ElectionOutput::StepDown, ElectionOutput::Close { session: 1 }];
    assert_eq!(outputs(&mut election), closed);
    assert_eq!(election.next_timeout(), Some(at(2050)));
}

#[test]
fn a_renewal_counts_from_when_it_was_wanted() {
    let mut election = leader();
    election.handle(at(500), ElectionInput::Timeout);
    let asked =
        [ElectionOutput::Renew { session: 1, number: 3 }, ElectionOutput::Look { number: 4 }];
    assert_eq!(outputs(&mut election), asked);
    election.handle(at(900), ElectionInput::Renewed { session: 1, number: 3, lease: LEASE });
    assert_eq!((election.leads(at(2299)), election.leads(at(2300))), (Some(7), None));
    // An answer twice, and one to a question of nobody, change nothing.
    for number in [3, 99] {
        election.handle(at(950), ElectionInput::Renewed { session: 1, number, lease: LEASE });
    }
    assert_eq!(election.leads(at(2300)), None);
}

#[test]
fn who_was_paused_does_not_lead_when_it_wakes() {
    let mut election = leader();
    election.handle(at(500), ElectionInput::Timeout);
    outputs(&mut election);
    // The answer has waited for it all the time: it is too late.
    election.handle(at(9000), ElectionInput::Renewed { session: 1, number: 3, lease: LEASE });
    assert_eq!(outputs(&mut election)[0], ElectionOutput::StepDown);
    assert_eq!(election.leads(at(9000)), None);
}

#[test]
fn a_leader_whose_key_is_gone_steps_down() {
    for holder in [None, Some(KeyHolder { revision: 9, is_own: false })] {
        let mut election = leader();
        election.handle(at(500), ElectionInput::Timeout);
        outputs(&mut election);
        election.handle(at(510), ElectionInput::Seen { number: 4, holder });
        let closed = [ElectionOutput::StepDown, ElectionOutput::Close { session: 1 }];
        assert_eq!(outputs(&mut election), closed, "{holder:?}");
    }
}

#[test]
fn who_waits_looks_and_claims_nothing_that_another_has() {
    let mut election = Election::new(ElectionOptions::default());
    election.handle(at(0), ElectionInput::Timeout);
    election.handle(at(10), ElectionInput::Opened { session: 1, lease: LEASE });
    outputs(&mut election);
    election.handle(at(15), seen(1, 4, false));
    assert_eq!((outputs(&mut election).len(), election.next_timeout()), (0, Some(at(210))));
    election.handle(at(210), ElectionInput::Timeout);
    assert_eq!(outputs(&mut election), [ElectionOutput::Look { number: 2 }]);
    // No answer: it asks again, and what comes then to the first question is ignored.
    assert_eq!(election.next_timeout(), Some(at(500)));
    election.handle(at(1210), ElectionInput::Timeout);
    assert!(outputs(&mut election).contains(&ElectionOutput::Look { number: 4 }));
    election.handle(at(1211), ElectionInput::Seen { number: 2, holder: None });
    assert_eq!(outputs(&mut election), []);
}

#[test]
fn who_resigns_leaves_the_key_to_others_for_good() {
    let mut election = leader();
    election.handle(at(100), ElectionInput::Resign);
    let closed = [ElectionOutput::StepDown, ElectionOutput::Close { session: 1 }];
    assert_eq!(outputs(&mut election), closed);
    election.handle(at(9000), ElectionInput::Timeout);
    assert_eq!((outputs(&mut election).len(), election.next_timeout()), (0, None));
}

/// etcd as far as an election needs it: leases by its own clock, a key, revisions.
#[derive(Default)]
struct Etcd {
    /// When each lease ends.
    leases: BTreeMap<(usize, u64), u64>,
    key: Option<((usize, u64), u64)>,
    revision: u64,
}

impl Etcd {
    fn expire(&mut self, now: u64) {
        self.leases.retain(|_, until| *until > now);
        if self.key.is_some_and(|(lease, _)| !self.leases.contains_key(&lease)) {
            self.key = None;
        }
    }

    /// Its answer; `session` is that of the candidate when it asked.
    fn answer(
        &mut self,
        now: u64,
        who: usize,
        session: u64,
        asked: ElectionOutput,
    ) -> Option<ElectionInput> {
        self.expire(now);
        let until = now + LEASE.as_millis() as u64;
        let own = (who, session);
        let holder = |etcd: &Etcd| {
            etcd.key.map(|(lease, revision)| KeyHolder { revision, is_own: lease == own })
        };
        match asked {
            ElectionOutput::Open { session } => {
                self.leases.insert((who, session), until);
                Some(ElectionInput::Opened { session, lease: LEASE })
            }
            ElectionOutput::Renew { session, number } => {
                Some(match self.leases.get_mut(&(who, session)) {
                    Some(end) => {
                        *end = until;
                        ElectionInput::Renewed { session, number, lease: LEASE }
                    }
                    None => ElectionInput::Lost { session },
                })
            }
            ElectionOutput::Look { number } => {
                Some(ElectionInput::Seen { number, holder: holder(self) })
            }
            ElectionOutput::Claim { number } => {
                if self.key.is_none() && self.leases.contains_key(&own) {
                    self.revision += 1;
                    self.key = Some((own, self.revision));
                }
                Some(ElectionInput::Seen { number, holder: holder(self) })
            }
            ElectionOutput::Close { session } => {
                self.leases.remove(&(who, session));
                self.expire(now);
                None
            }
            ElectionOutput::Lead { .. } | ElectionOutput::StepDown => None,
        }
    }
}

/// What is under way.
enum Letter {
    ToEtcd(u64, ElectionOutput),
    ToCandidate(ElectionInput),
}

struct Candidate {
    election: Election,
    session: u64,
    /// Its clock: offset in milliseconds, and how fast it runs.
    clock: (f64, f64),
    paused_until: u64,
    cut_until: u64,
    /// What its driver was told: it leads under this.
    leads: Option<u64>,
}

impl Candidate {
    fn now(&self, world: u64) -> Time {
        Time::from_nanos(((self.clock.0 + world as f64 * self.clock.1) * 1e6) as u64)
    }
}

struct World {
    random: Random,
    etcd: Etcd,
    etcd_down_until: u64,
    candidates: Vec<Candidate>,
    /// By time of arrival.
    letters: BTreeMap<(u64, u64), (usize, Letter)>,
    sent: u64,
    /// Revision of the newest leader.
    newest: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed, 0);
        let mut candidate = || Candidate {
            election: Election::new(ElectionOptions::default()),
            session: 0,
            // Days apart, and up to 4 % too fast or too slow.
            clock: (random.share() * 1e8, 0.96 + random.share() * 0.08),
            paused_until: 0,
            cut_until: 0,
            leads: None,
        };
        let candidates = (0..3).map(|_| candidate()).collect();
        World {
            random,
            etcd: Etcd::default(),
            etcd_down_until: 0,
            candidates,
            letters: BTreeMap::new(),
            sent: 0,
            newest: 0,
        }
    }

    fn post(&mut self, now: u64, who: usize, letter: Letter, has_faults: bool) {
        if has_faults && self.random.happens(0.05) {
            return;
        }
        let slow = has_faults && self.random.happens(0.05);
        let delay = self.random.between(1, if slow { 3000 } else { 30 });
        self.sent += 1;
        self.letters.insert((now + delay, self.sent), (who, letter));
    }

    /// One candidate goes on: everything that it says and is told.
    fn turn(&mut self, now: u64, who: usize, input: ElectionInput, has_faults: bool) {
        let candidate = &mut self.candidates[who];
        let own = candidate.now(now);
        candidate.election.handle(own, input);
        while let Some(output) = self.candidates[who].election.poll() {
            let candidate = &mut self.candidates[who];
            match output {
                ElectionOutput::Open { session } => candidate.session = session,
                ElectionOutput::Lead { revision } => {
                    assert!(revision > self.newest, "leaders come in the order of revisions");
                    self.newest = revision;
                    candidate.leads = Some(revision);
                }
                ElectionOutput::StepDown => candidate.leads = None,
                _ => {}
            }
            let session = self.candidates[who].session;
            self.post(now, who, Letter::ToEtcd(session, output), has_faults);
        }
    }

    fn fault(&mut self, now: u64) {
        let who = self.random.between(0, 2) as usize;
        let until = now + self.random.between(100, 6000);
        match self.random.between(0, 2) {
            0 => self.candidates[who].paused_until = until,
            1 => self.candidates[who].cut_until = until,
            _ => self.etcd_down_until = until,
        }
    }

    fn step(&mut self, now: u64, has_faults: bool) {
        self.etcd.expire(now);
        while let Some((&key, _)) = self.letters.range(..=(now, u64::MAX)).next() {
            let (who, letter) = self.letters.remove(&key).expect("just seen");
            let Candidate { paused_until, cut_until, .. } = self.candidates[who];
            match letter {
                _ if cut_until > now => {}
                Letter::ToEtcd(..) if self.etcd_down_until > now => {}
                Letter::ToEtcd(session, asked) => {
                    if let Some(answer) = self.etcd.answer(now, who, session, asked) {
                        self.post(now, who, Letter::ToCandidate(answer), has_faults);
                    }
                }
                // It lies in the socket until the process runs again.
                letter @ Letter::ToCandidate(_) if paused_until > now => {
                    self.letters.insert((paused_until, key.1), (who, letter));
                }
                Letter::ToCandidate(input) => self.turn(now, who, input, has_faults),
            }
        }
        for who in 0..self.candidates.len() {
            let candidate = &self.candidates[who];
            let is_due =
                candidate.election.next_timeout().is_some_and(|due| due <= candidate.now(now));
            if candidate.paused_until <= now && is_due {
                self.turn(now, who, ElectionInput::Timeout, has_faults);
            }
        }
    }

    /// Those that believe to lead, and could act now.
    fn leaders(&self, now: u64) -> usize {
        let leads = |candidate: &&Candidate| {
            candidate.paused_until <= now && candidate.election.leads(candidate.now(now)).is_some()
        };
        self.candidates.iter().filter(leads).count()
    }
}

/// Faults for 30 s, then none.
fn elect(seed: u64) {
    const FAULTS: u64 = 30_000;
    let mut world = World::new(seed);
    let mut elected_at = None;
    for now in (0..FAULTS + 15_000).step_by(5) {
        let has_faults = now < FAULTS;
        if has_faults && world.random.happens(0.004) {
            world.fault(now);
        }
        world.step(now, has_faults);
        let leaders = world.leaders(now);
        assert!(leaders <= 1, "{leaders} leaders at {now} ms, seed {seed}");
        for candidate in world.candidates.iter().filter(|one| one.paused_until <= now) {
            let told = candidate.leads.is_some();
            let truly = candidate.election.leads(candidate.now(now)).is_some();
            assert_eq!(told, truly, "the driver knows at {now} ms, seed {seed}");
        }
        if now >= FAULTS {
            elected_at = elected_at.or((leaders == 1).then_some(now));
        }
    }
    // What is late and what is paused is over after 6 s; then a lease, and asking.
    let elected_at = elected_at.unwrap_or(u64::MAX);
    assert!(elected_at < FAULTS + 10_000, "no leader before {elected_at} ms, seed {seed}");
    assert_eq!(world.leaders(FAULTS + 15_000), 1, "it stays, seed {seed}");
}

#[test]
fn the_next_one_follows_within_a_lease_and_a_look() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        let mut now = 0;
        while world.leaders(now) == 0 {
            now += 5;
            world.step(now, false);
        }
        let died = now;
        let old = world.candidates.iter().position(|one| one.leads.is_some()).unwrap();
        world.candidates[old].paused_until = u64::MAX;
        while world.leaders(now) == 0 {
            now += 5;
            world.step(now, false);
        }
        assert!(now - died <= 2000 + 300, "{} ms, seed {seed}", now - died);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn there_is_one_leader_at_a_time(seed: u64) {
        elect(seed);
    }
}
