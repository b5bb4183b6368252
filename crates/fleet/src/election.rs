//! Which of several orchestrators leads: one candidate for a key that etcd keeps as long as a lease lives.
//!
//! etcd counts a lease from when it hears that it is wanted; a candidate counts from when it asked, which is
//! earlier, and stops a margin before the end. So it has stopped to lead before etcd lets another one begin,
//! whatever is lost, late or paused, as long as no clock runs more than the margin's part of the lease too
//! slow. What a deposed leader said before is refused by the revision of its claim ([`super::Fence`]).
//! It looks who leads before it claims: looking costs etcd no write.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::units::Time;

/// Renewals whose answer may be under way.
const RENEWALS_MAX: usize = 16;

/// Times of an election. Defaults: a lease of 2 s, of which a leader uses all but 200 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionOptions {
    /// How long a leader may be silent before another one follows.
    pub lease: Duration,
    /// How much earlier it stops by itself.
    pub margin: Duration,
    /// Time between two renewals.
    pub renewal: Duration,
    /// Time between two looks of one who waits; the leader looks as often as it renews.
    pub look: Duration,
    /// When an answer to a look is no longer waited for.
    pub patience: Duration,
    /// Time between the end of a lease and the wish for the next one.
    pub pause: Duration,
}

impl Default for ElectionOptions {
    fn default() -> Self {
        ElectionOptions {
            lease: Duration::from_secs(2),
            margin: Duration::from_millis(200),
            renewal: Duration::from_millis(500),
            look: Duration::from_millis(200),
            patience: Duration::from_secs(1),
            pause: Duration::from_millis(250),
        }
    }
}

/// Who has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    /// Of the claim: larger than that of every claim before.
    pub revision: u64,
    /// Whether the claim was made with the lease that this candidate has now.
    pub is_own: bool,
}

/// What a driver tells a candidate. Each answer names what it answers; others are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionInput {
    /// The lease of a session is there.
    Opened {
        /// Which.
        session: u64,
        /// How long it lasts without a renewal.
        lease: Duration,
    },
    /// The lease was renewed.
    Renewed {
        /// Of which session.
        session: u64,
        /// By which renewal.
        number: u64,
        /// How long it lasts from that.
        lease: Duration,
    },
    /// The lease of a session is over, or was never given.
    Lost {
        /// Which.
        session: u64,
    },
    /// Who has the key: an answer to a look or a claim.
    Seen {
        /// Of the look or the claim.
        number: u64,
        /// Nobody, or this.
        holder: Option<KeyHolder>,
    },
    /// It is to lead no longer, for good: whoever waits follows at once.
    Resign,
    /// Time has come.
    Timeout,
}

/// What a candidate tells its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionOutput {
    /// Ask for a lease.
    Open {
        /// Name of the session, for the answer.
        session: u64,
    },
    /// Renew it.
    Renew {
        /// Of this session.
        session: u64,
        /// For the answer.
        number: u64,
    },
    /// Look who has the key.
    Look {
        /// For the answer.
        number: u64,
    },
    /// Take the key, with the lease of the session, if nobody has it; look who has it then.
    Claim {
        /// For the answer.
        number: u64,
    },
    /// Give the lease of the session back.
    Close {
        /// Which.
        session: u64,
    },
    /// It leads from now on.
    Lead {
        /// Of its claim.
        revision: u64,
    },
    /// It no longer leads.
    StepDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Without a lease until then.
    Out {
        until: Time,
    },
    /// It asked for one.
    Opening {
        since: Time,
    },
    /// It has one, and not the key.
    Standing,
    Leading {
        revision: u64,
    },
    /// For good.
    Resigned,
}

/// The state machine of one candidate.
#[derive(Debug)]
pub struct Election {
    options: ElectionOptions,
    stage: Stage,
    session: u64,
    /// End of the lease.
    until: Time,
    renewal_due: Time,
    /// Renewals without an answer, and when each was wanted.
    renewals: VecDeque<(u64, Time)>,
    look_due: Time,
    /// The look or claim whose answer is waited for, and since when: one at a time, so none is stale.
    look: Option<(u64, Time)>,
    /// Renewals, looks and claims so far.
    number: u64,
    outputs: VecDeque<ElectionOutput>,
}

impl Election {
    /// A candidate without a lease.
    ///
    /// # Panics
    /// Where the margin is not shorter than the lease.
    pub fn new(options: ElectionOptions) -> Self {
        assert!(options.margin < options.lease, "nothing of the lease would be left");
        Election {
            options,
            stage: Stage::Out { until: Time::ZERO },
            session: 0,
            until: Time::ZERO,
            renewal_due: Time::ZERO,
            renewals: VecDeque::new(),
            look_due: Time::ZERO,
            look: None,
            number: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Time, input: ElectionInput) {
        self.expire(now);
        match input {
            ElectionInput::Opened { session, lease } if session == self.session => {
                if let Stage::Opening { since } = self.stage {
                    self.stage = Stage::Standing;
                    self.until = since + lease;
                    (self.renewal_due, self.look_due) = (since + self.options.renewal, now);
                    self.expire(now);
                }
            }
            ElectionInput::Renewed { session, number, lease } if session == self.session => {
                let asked = self.renewals.iter().find(|(one, _)| *one == number);
                if let Some(at) = asked.map(|(_, at)| *at) {
                    self.renewals.retain(|(one, _)| *one != number);
                    self.until = self.until.max(at + lease);
                }
            }
            ElectionInput::Lost { session } if session == self.session => self.end(now),
            ElectionInput::Seen { number, holder } if self.awaits(number) => {
                self.look = None;
                self.see(now, holder);
            }
            ElectionInput::Resign => {
                self.end(now);
                self.stage = Stage::Resigned;
            }
            _ => {}
        }
        self.ask(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<ElectionOutput> {
        self.outputs.pop_front()
    }

    /// When time alone changes something.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.stage {
            Stage::Out { until } => Some(until),
            Stage::Opening { since } => Some(since + self.options.lease),
            Stage::Standing | Stage::Leading { .. } => {
                Some(self.renewal_due.min(self.next_look()).min(self.ends()))
            }
            Stage::Resigned => None,
        }
    }

    /// The revision of its claim, while it leads.
    pub fn leads(&self, now: Time) -> Option<u64> {
        match self.stage {
            Stage::Leading { revision } if now < self.ends() => Some(revision),
            _ => None,
        }
    }

    /// When it stops to believe in its lease.
    fn ends(&self) -> Time {
        self.until - self.options.margin
    }

    fn awaits(&self, number: u64) -> bool {
        self.look.is_some_and(|(asked, _)| asked == number)
    }

    fn next_look(&self) -> Time {
        let given_up = self.look.map_or(Time::ZERO, |(_, at)| at + self.options.patience);
        self.look_due.max(given_up)
    }

    fn expire(&mut self, now: Time) {
        let is_over = match self.stage {
            Stage::Standing | Stage::Leading { .. } => now >= self.ends(),
            Stage::Opening { since } => now >= since + self.options.lease,
            Stage::Out { .. } | Stage::Resigned => false,
        };
        if is_over {
            self.end(now);
        }
    }

    /// The session is over.
    fn end(&mut self, now: Time) {
        match self.stage {
            Stage::Out { .. } | Stage::Resigned => return,
            Stage::Leading { .. } => self.outputs.push_back(ElectionOutput::StepDown),
            Stage::Opening { .. } | Stage::Standing => {}
        }
        self.outputs.push_back(ElectionOutput::Close { session: self.session });
        self.stage = Stage::Out { until: now + self.options.pause };
        self.renewals.clear();
        self.look = None;
    }

    fn see(&mut self, now: Time, holder: Option<KeyHolder>) {
        match (self.stage, holder) {
            (Stage::Standing, Some(KeyHolder { revision, is_own: true })) => {
                self.stage = Stage::Leading { revision };
                self.outputs.push_back(ElectionOutput::Lead { revision });
            }
            (Stage::Standing, None) => {
                let number = self.next_number();
                self.look = Some((number, now));
                self.outputs.push_back(ElectionOutput::Claim { number });
            }
            (Stage::Leading { revision }, _)
                if holder.map(|one| one.revision) != Some(revision) =>
            {
                // Somebody took the key away.
                self.end(now);
            }
            _ => {}
        }
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Asks for what is due.
    fn ask(&mut self, now: Time) {
        if let Stage::Out { until } = self.stage
            && until <= now
        {
            self.session += 1;
            self.stage = Stage::Opening { since: now };
            self.outputs.push_back(ElectionOutput::Open { session: self.session });
        }
        let is_leader = match self.stage {
            Stage::Standing => false,
            Stage::Leading { .. } => true,
            _ => return,
        };
        if self.renewal_due <= now {
            let number = self.next_number();
            self.renewals.push_back((number, now));
            if self.renewals.len() > RENEWALS_MAX {
                self.renewals.pop_front();
            }
            self.renewal_due = now + self.options.renewal;
            self.outputs.push_back(ElectionOutput::Renew { session: self.session, number });
        }
        if self.next_look() <= now {
            let number = self.next_number();
            let ElectionOptions { look, renewal, .. } = self.options;
            self.look_due = now + if is_leader { renewal } else { look };
            self.look = Some((number, now));
            self.outputs.push_back(ElectionOutput::Look { number });
        }
    }
}
