//! Logins that a server decides which is asked by HTTP: who comes in, and what he may do.
//!
//! It is asked by POST with JSON, `{"user", "password", "address"}`, and answers with JSON, `{"allow": true}` or false, and
//! what else it wants to say: `publish` and `subscribe` (filters, beside those of the configuration) and `seconds` (how
//! long that counts). 401 and 403 are a no. Any other answer is none about that login. Where no answer comes at all, what
//! the configuration says for that case counts.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tidegate_broker::fair_queue::FairQueueLimits;
use tokio::time::Instant;

use super::acl::Allow;
use super::token::is_name;
use crate::support::http::endpoint::{AskError, Endpoint, Postman};
use crate::support::turns::Desk;

/// Longest password that somebody is asked about.
const PASSWORD_MAX: usize = 4096;
/// Longest answer.
const ANSWER_MAX: usize = 64 * 1024;
/// Most filters of an answer.
const FILTERS_MAX: usize = 256;
/// Questions under way, and who may wait for one: addresses take turns.
const UNDER_WAY: usize = 64;
const WAITING: FairQueueLimits = FairQueueLimits { all: 4096, network: 1024, name: 64 };
/// After a question without an answer none is asked for so long: everybody would wait for the same.
const PAUSE: Duration = Duration::from_secs(1);

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookRules {
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long an answer counts for the same user, password and address.
    pub cache: Duration,
    /// Answers that are kept.
    pub cache_max: usize,
    /// Whether clients come in that nobody could be asked about.
    pub allow_when_down: bool,
}

/// Asks about logins.
#[derive(Debug)]
pub struct Hook {
    endpoint: Endpoint,
    postman: Postman,
    rules: HookRules,
    desk: Arc<Desk>,
    state: Mutex<State>,
    keys: (RandomState, RandomState),
}

#[derive(Debug, Default)]
struct State {
    /// By user, password and address, as hashes with keys of this process.
    kept: BTreeMap<(u64, u64), (Instant, Verdict)>,
    order: VecDeque<((u64, u64), Instant)>,
    /// Nobody is asked before.
    paused_until: Option<Instant>,
    /// When the server answered last, with whatever.
    answered: Option<Instant>,
}

/// What it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    No,
    Yes {
        allow: Option<Arc<Allow>>,
        /// Until when that counts.
        until: Option<Instant>,
    },
}

/// Nobody could be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    Down,
    Busy,
}

#[derive(Deserialize)]
struct Answer {
    allow: bool,
    publish: Option<Vec<String>>,
    subscribe: Option<Vec<String>>,
    seconds: Option<u32>,
}

impl Hook {
    /// Asks there.
    pub fn new(endpoint: Endpoint, rules: HookRules) -> Hook {
        Hook {
            endpoint,
            postman: Postman::new(ANSWER_MAX),
            rules,
            desk: Desk::new(UNDER_WAY, WAITING),
            state: Mutex::default(),
            keys: (RandomState::new(), RandomState::new()),
        }
    }

    /// Whether a user comes in with this password, and with which rights.
    pub(super) async fn ask(
        &self,
        user: &str,
        password: &[u8],
        address: IpAddr,
    ) -> Result<Verdict, Unasked> {
        // What is no name is nobody's, and is not held while others are asked about.
        if !is_name(user) || password.len() > PASSWORD_MAX {
            return Ok(Verdict::No);
        }
        let asked = (user, password, address.to_canonical());
        let key = (self.keys.0.hash_one(asked), self.keys.1.hash_one(asked));
        if let Some(known) = self.known(key) {
            return known;
        }
        let Ok(password) = std::str::from_utf8(password) else { return Ok(Verdict::No) };
        let turn = self.desk.turn(self.desk.asker(address, user)).await;
        let _turn = turn.map_err(|_| Unasked::Busy)?;
        // Another client of the same name may have asked meanwhile.
        if let Some(known) = self.known(key) {
            return known;
        }
        let body = serde_json::json!({
            "user": user,
            "password": password,
            "address": address.to_canonical().to_string(),
        });
        let body = Bytes::from(body.to_string());
        let begun = Instant::now();
        let answer = self.postman.ask_json(&self.endpoint, body, self.rules.timeout).await;
        let (verdict, is_there) = match answer {
            Ok(answer) => (read(&answer), true),
            Err(AskError::Refused(401 | 403)) => (Ok(Verdict::No), true),
            Err(error @ (AskError::Refused(_) | AskError::Body)) => (Err(error.to_string()), true),
            Err(error) => (Err(error.to_string()), false),
        };
        let mut state = self.state();
        if is_there {
            state.answered = Some(Instant::now());
        }
        match verdict {
            Ok(verdict) => {
                state.keep(key, verdict.clone(), self.rules);
                Ok(verdict)
            }
            // A server that answers is not down: what it says wrong about one login is that login's alone.
            Err(error) if state.answered.is_some_and(|at| at >= begun) => {
                tracing::debug!(user, "no answer about a login at {}: {error}", self.endpoint);
                Err(Unasked::Down)
            }
            Err(error) => {
                let until = Instant::now() + PAUSE;
                if state.paused_until.replace(until).is_none_or(|last| last + PAUSE < until) {
                    tracing::warn!("logins cannot be asked about at {}: {error}", self.endpoint);
                }
                drop(state);
                self.down()
            }
        }
    }

    fn known(&self, key: (u64, u64)) -> Option<Result<Verdict, Unasked>> {
        let state = self.state();
        let now = Instant::now();
        if let Some((until, verdict)) = state.kept.get(&key)
            && now < *until
        {
            return Some(Ok(verdict.clone()));
        }
        state.paused_until.is_some_and(|until| now < until).then(|| self.down())
    }

    fn down(&self) -> Result<Verdict, Unasked> {
        match self.rules.allow_when_down {
            true => Ok(Verdict::Yes { allow: None, until: None }),
            false => Err(Unasked::Down),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, key: (u64, u64), verdict: Verdict, rules: HookRules) {
        self.paused_until = None;
        let mut until = Instant::now() + rules.cache;
        if let Verdict::Yes { until: Some(end), .. } = verdict {
            until = until.min(end);
        }
        self.kept.insert(key, (until, verdict));
        self.order.push_back((key, until));
        // One that was kept again has a later entry of its own.
        while self.kept.len() > rules.cache_max || self.order.len() > 2 * rules.cache_max {
            let Some((oldest, until)) = self.order.pop_front() else { break };
            if self.kept.get(&oldest).is_some_and(|(kept, _)| *kept == until) {
                self.kept.remove(&oldest);
            }
        }
    }
}

pub(super) fn read(answer: &[u8]) -> Result<Verdict, String> {
    let answer: Answer = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    if !answer.allow {
        return Ok(Verdict::No);
    }
    let until = answer.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
    let brings = answer.publish.is_some() || answer.subscribe.is_some();
    let (publish, subscribe) =
        (answer.publish.unwrap_or_default(), answer.subscribe.unwrap_or_default());
    if publish.len() + subscribe.len() > FILTERS_MAX {
        return Err(format!("more than {FILTERS_MAX} filters"));
    }
    let allow = Allow::new(None, publish, subscribe).map_err(|error| error.to_string())?;
    Ok(Verdict::Yes { allow: brings.then(|| Arc::new(allow)), until })
}

#[cfg(test)]
mod tests;
