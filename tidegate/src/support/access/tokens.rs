//! Where the keys of tokens come from: a file that is followed, or an address that is asked.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::keys::{self, Keys};
use super::token::{self, Shown, TokenError, TokenRules};
use crate::support::followed::Followed;
use crate::support::http::endpoint::{Endpoint, Postman};

/// Between two questions for a key that is not known.
const UNKNOWN: Duration = Duration::from_secs(60);
/// After a question without an answer.
const FAILED: Duration = Duration::from_secs(5);
/// After so long the keys are asked for anew while the old ones are used: one that is withdrawn must go.
const AGE_MAX: Duration = Duration::from_secs(600);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Checks tokens.
#[derive(Debug)]
pub struct Tokens {
    rules: TokenRules,
    source: Source,
}

#[derive(Debug)]
enum Source {
    File(Followed<Keys>),
    Address(Arc<Asked>),
}

/// Keys that are asked for.
#[derive(Debug)]
struct Asked {
    endpoint: Endpoint,
    postman: Postman,
    /// Kept while nobody answers; and how often they were new.
    kept: Mutex<(u64, Arc<Keys>)>,
    /// When they were asked for last. Who asks holds it.
    last: tokio::sync::Mutex<Option<Instant>>,
}

impl Tokens {
    /// By the keys of a file.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn of_file(rules: TokenRules, file: &Path) -> Result<Tokens, String> {
        let path = file.to_owned();
        let has_some = AtomicBool::new(false);
        let read = move || -> Result<Keys, String> {
            let keys = Keys::read(&path, has_some.load(Ordering::Relaxed))?;
            has_some.store(!keys.is_empty(), Ordering::Relaxed);
            Ok(keys)
        };
        let followed = Followed::new("keys", vec![file.into()], read)?;
        Ok(Tokens { rules, source: Source::File(followed) })
    }

    /// By the keys that an address tells. It is asked when the first token comes.
    pub fn of_address(rules: TokenRules, endpoint: Endpoint) -> Tokens {
        let asked = Asked {
            endpoint,
            postman: Postman::new(keys::LENGTH_MAX),
            kept: Mutex::default(),
            last: tokio::sync::Mutex::default(),
        };
        Tokens { rules, source: Source::Address(Arc::new(asked)) }
    }

    /// Checks a token.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) async fn check(&self, token: &[u8]) -> Result<Shown, &'static str> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let check = |keys: &Keys| token::check(token, keys, &self.rules, now.as_secs());
        let checked = match (&self.source, check(&self.keys())) {
            (Source::Address(asked), Err(TokenError::UnknownKey)) => {
                asked.ask(UNKNOWN).await;
                check(&self.keys())
            }
            (Source::Address(asked), checked) => {
                asked.refresh();
                checked
            }
            (Source::File(_), checked) => checked,
        };
        checked.map_err(|error| match error {
            TokenError::UnknownKey => {
                "no key is known here that it names (kid) or that has signed it"
            }
            TokenError::Bad(why) => why,
        })
    }

    /// Whether the key of this mark still counts.
    pub(super) fn trust(&self, key: u64) -> bool {
        self.keys().have(key)
    }

    /// How often the keys were new.
    pub(super) fn edition(&self) -> u64 {
        match &self.source {
            Source::File(followed) => followed.edition().0,
            // A key that was withdrawn counts no more where nobody logs in, too.
            Source::Address(asked) => {
                asked.refresh();
                asked.kept().0
            }
        }
    }

    /// What was known under the rules before is known under these, where the keys come from the same address.
    pub(super) fn inherit(&self, before: &Tokens) {
        let (Source::Address(now), Source::Address(before)) = (&self.source, &before.source) else {
            return;
        };
        if now.endpoint.to_string() != before.endpoint.to_string() {
            return;
        }
        *now.kept.lock().unwrap_or_else(PoisonError::into_inner) = before.kept();
        if let (Ok(mut now), Ok(before)) = (now.last.try_lock(), before.last.try_lock()) {
            *now = *before;
        }
    }

    fn keys(&self) -> Arc<Keys> {
        match &self.source {
            Source::File(followed) => followed.current(),
            Source::Address(asked) => asked.kept().1,
        }
    }
}

impl Asked {
    fn kept(&self) -> (u64, Arc<Keys>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks, unless that was done within this time. Who comes meanwhile waits for the answer; who does not wait any more
    /// leaves the question to the others.
    async fn ask(self: &Arc<Self>, within: Duration) {
        let asked = self.clone();
        // An error: the process is stopping.
        let _ = tokio::spawn(async move { asked.ask_now(within).await }).await;
    }

    async fn ask_now(&self, within: Duration) {
        let mut last = self.last.lock().await;
        if last.is_some_and(|last| last.elapsed() < within) {
            return;
        }
        *last = Some(Instant::now());
        let answer = self.postman.get(&self.endpoint, TIMEOUT).await;
        let keys = match answer {
            Ok(answer) => Keys::parse(&answer, !self.kept().1.is_empty()),
            Err(error) => Err(error.to_string()),
        };
        match keys {
            Ok(keys) => {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                if *kept.1 != keys {
                    *kept = (kept.0 + 1, Arc::new(keys));
                }
            }
            Err(error) => {
                // A server that comes up later is asked sooner than one that has answered.
                *last = Instant::now().checked_sub(within.saturating_sub(FAILED));
                tracing::warn!("keys of {} stay as they were: {error}", self.endpoint);
            }
        }
    }

    /// Asks beside the login that noticed it, where the keys are old.
    fn refresh(self: &Arc<Self>) {
        let is_due = self
            .last
            .try_lock()
            .is_ok_and(|last| last.is_some_and(|last| last.elapsed() >= AGE_MAX));
        if is_due {
            let asked = self.clone();
            tokio::spawn(async move { asked.ask_now(AGE_MAX).await });
        }
    }
}

#[cfg(test)]
mod tests;
