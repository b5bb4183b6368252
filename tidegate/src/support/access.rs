//! Who may come in, and what they may publish.
//!
//! A listener asks [`Access::login`] once for each client and keeps the [`Grants`] that it answers. Who
//! nobody is, and which topics whom, the configuration says; passwords are in [`users`].

mod acl;
pub mod hook;
pub mod keys;
mod quotas;
pub mod token;
mod tokens;
pub mod users;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tidegate_broker::fair_queue::FairQueueLimits;
use tidegate_mqtt::session::{Claim, Denied};
use tokio::time::Instant;

pub use self::acl::{Allow, Grants, Proof, is_of_server};
use self::hook::{Hook, Unasked, Verdict};
pub use self::quotas::{Quota, QuotaRule, Quotas};
use self::token::Shown;
pub use self::tokens::Tokens;
use self::users::UserFile;
use crate::support::tls::Certificate;
use crate::support::turns::Desk;

/// Passwords that are checked at once, at most. One takes some 20 MB and 20 ms of a processor, off the
/// threads that carry records.
const CHECKS_MAX: usize = 4;
/// Who may wait for such a check: as many as are done before a client gives up.
const WAITING: FairQueueLimits = FairQueueLimits { all: 512, network: 256, name: 64 };

/// Who a client is.
#[derive(Debug)]
pub enum Identification {
    /// Nobody asks.
    Nobody,
    /// By name and password.
    Password {
        /// The users.
        users: UserFile,
        /// Whether clients without a name may come in too, as nobody.
        anonymous: bool,
    },
    /// By the common name of its certificate.
    Certificate,
    /// By a token, or by what a server answers.
    Elsewhere {
        /// Whether clients without a name may come in too, as nobody.
        anonymous: bool,
    },
}

/// The rules of one listener.
#[derive(Debug)]
pub struct Access {
    identification: Identification,
    /// `None` allows everything.
    allow: Option<Vec<Allow>>,
    checks: Arc<Desk>,
    /// What checks passwords that are tokens.
    tokens: Option<Tokens>,
    /// Whom to ask about users that are not known here.
    hook: Option<Hook>,
}

impl Default for Access {
    fn default() -> Self {
        Access::new(Identification::Nobody, None)
    }
}

impl Access {
    /// These rules.
    pub fn new(identification: Identification, allow: Option<Vec<Allow>>) -> Access {
        // A flood of logins must leave most processors to the records.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let checks = Desk::new((processors / 4).clamp(1, CHECKS_MAX), WAITING);
        Access { identification, allow, checks, tokens: None, hook: None }
    }

    /// The same, where passwords may be tokens, and a server may be asked. Neither counts where certificates name the
    /// users.
    #[must_use]
    pub fn asking(self, tokens: Option<Tokens>, hook: Option<Hook>) -> Access {
        Access { tokens, hook, ..self }
    }

    /// Lets a client at this address in, or not. `certificate` is the one that it proved to have.
    ///
    /// # Errors
    /// Why not.
    pub async fn login(
        &self,
        claim: Claim,
        certificate: Option<&[u8]>,
        address: IpAddr,
    ) -> Result<Grants, Denied> {
        let (user, proof) = match &self.identification {
            Identification::Nobody => (None, Proof::Nothing),
            Identification::Certificate => (Some(named(certificate)?), Proof::Certificate),
            Identification::Password { anonymous, .. }
            | Identification::Elsewhere { anonymous } => match (claim.user, claim.password) {
                (None, None) if *anonymous => (None, Proof::Nothing),
                (_, Some(token)) if self.tokens.is_some() && token::is_token(&token) => {
                    return self.by_token(&token).await;
                }
                (None, _) => return Err(Denied::Anonymous),
                (Some(name), password) => {
                    let password = password.ok_or(Denied::Password)?;
                    let Some(users) = self.users_of(&name) else {
                        return self.by_hook(&name, &password, address).await;
                    };
                    let mark = self.check(users, name.clone(), password, address).await?;
                    (Some(name), Proof::Password(mark))
                }
            },
        };
        Ok(Grants::new(self.allow.as_deref(), user.as_deref()).by(proof))
    }

    /// The file that a user's password is in; `None` where a server knows him, and the file does not.
    fn users_of(&self, name: &str) -> Option<&UserFile> {
        match &self.identification {
            Identification::Password { users, .. } => {
                let is_here = self.hook.is_none() || users.current().mark(name).is_some();
                is_here.then_some(users)
            }
            _ => None,
        }
    }

    /// Lets in whom a token names.
    async fn by_token(&self, token: &[u8]) -> Result<Grants, Denied> {
        let tokens = self.tokens.as_ref().ok_or(Denied::Password)?;
        let Shown { user, until, key, allow } = tokens.check(token).await.map_err(Denied::Token)?;
        let own = allow.map(Arc::new);
        let grants = Grants::with(self.allow.as_deref(), own, Some(&user));
        Ok(grants.by(Proof::Token(key)).until(Some(moment(until))))
    }

    /// Lets in whom a server lets in.
    async fn by_hook(
        &self,
        name: &str,
        password: &[u8],
        address: IpAddr,
    ) -> Result<Grants, Denied> {
        let hook = self.hook.as_ref().ok_or(Denied::Password)?;
        // Boxed: every connection would have the room for it while it logs in.
        match Box::pin(hook.ask(name, password, address)).await {
            Ok(Verdict::Yes { allow, until }) => {
                let grants = Grants::with(self.allow.as_deref(), allow, Some(name));
                Ok(grants.by(Proof::Hook).until(until))
            }
            Ok(Verdict::No) => Err(Denied::Password),
            Err(Unasked::Down) => Err(Denied::Unasked),
            Err(Unasked::Busy) => Err(Denied::Busy),
        }
    }

    /// What a client that was let in under other rules, or before its user changed, may do from now on.
    ///
    /// # Errors
    /// It would not be let in now.
    pub fn review(&self, had: &Grants, certificate: Option<&[u8]>) -> Result<Grants, Denied> {
        let proof = match (&self.identification, had.user()) {
            (Identification::Nobody, _) => had.proof(),
            (Identification::Certificate, user) => match named(certificate)? {
                name if user == Some(&name) => Proof::Certificate,
                _ => return Err(Denied::Certificate),
            },
            (
                Identification::Password { anonymous, .. }
                | Identification::Elsewhere { anonymous },
                None,
            ) => anonymous.then_some(Proof::Nothing).ok_or(Denied::Anonymous)?,
            (_, Some(user)) => {
                let proof = had.proof();
                let is_good = match proof {
                    Proof::Password(_) => self.users_of(user).is_some_and(|users| {
                        users.current().mark(user).map(Proof::Password) == Some(proof)
                    }),
                    Proof::Token(key) => self.tokens.as_ref().is_some_and(|all| all.trust(key)),
                    Proof::Hook => self.hook.is_some(),
                    Proof::Nothing | Proof::Certificate => false,
                };
                is_good.then_some(proof).ok_or(Denied::Password)?
            }
        };
        let grants = Grants::with(self.allow.as_deref(), had.own(), had.user());
        Ok(grants.by(proof).until(had.end()))
    }

    /// What was heard under the rules before counts under these.
    pub fn inherit(&self, before: &Access) {
        if let (Some(now), Some(before)) = (&self.tokens, &before.tokens) {
            now.inherit(before);
        }
    }

    /// Changes when clients that are in must be looked at again.
    pub fn edition(&self) -> u64 {
        let users = match &self.identification {
            Identification::Password { users, .. } => users.edition(),
            _ => 0,
        };
        // Both only grow.
        users + self.tokens.as_ref().map_or(0, Tokens::edition)
    }

    /// Checks a password and returns the mark of what it was checked against. What was right or wrong before is told at once; for the rest, addresses take
    /// turns, and names at an address.
    async fn check(
        &self,
        users: &UserFile,
        name: String,
        password: Vec<u8>,
        address: IpAddr,
    ) -> Result<u64, Denied> {
        let users = users.current();
        let mark = users.mark(&name);
        if let Some(is_right) = users.recall(&name, &password) {
            return mark.filter(|_| is_right).ok_or(Denied::Password);
        }
        let asker = self.checks.asker(address, &name);
        let turn = self.checks.turn(asker).await.map_err(|_| Denied::Busy)?;
        let checks = self.checks.clone();
        let check = move || {
            // Held until the work is done, also where nobody waits for it any more.
            let _turn = turn;
            // Another client of the same name may have asked meanwhile.
            if let Some(is_right) = users.recall(&name, &password) {
                return is_right;
            }
            let is_right = users.verify(&name, &password);
            if is_right {
                checks.right(asker)
            } else {
                checks.wrong(asker)
            }
            is_right
        };
        match tokio::task::spawn_blocking(check).await {
            Ok(true) => mark.ok_or(Denied::Password),
            // An error: the process is stopping.
            Ok(false) | Err(_) => Err(Denied::Password),
        }
    }
}

/// The moment of these seconds since 1970, by today's clock.
fn moment(seconds: u64) -> Instant {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let left = Duration::from_secs(seconds).saturating_sub(now);
    // A token of a century is one for ever.
    Instant::now() + left.min(Duration::from_secs(100 * 365 * 86_400))
}

/// The name that a certificate says.
fn named(certificate: Option<&[u8]>) -> Result<String, Denied> {
    let read = certificate.and_then(|der| Certificate::read(der).ok());
    let name = read.and_then(|certificate| certificate.common_name);
    name.filter(|name| !name.is_empty()).ok_or(Denied::Certificate)
}

/// Takes what issuers of tokens and servers that are asked about logins may say: for fuzzing. The parts stand between zeros:
/// keys, a token that they may have signed, an answer. What is taken names a user and filters.
///
/// # Panics
/// A promise is broken.
pub fn exercise(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&byte| byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let rules = token::TokenRules {
        user: "sub".into(),
        topics: Some("topics".into()),
        subscribe: Some("subscribe".into()),
        ..token::TokenRules::default()
    };
    let (keys, password) = (keys::Keys::parse(part(), false).unwrap_or_default(), part());
    // Of which time it is the fuzzed bytes have no say: what was good a second ago is so now.
    if let Ok(shown) = token::check(password, &keys, &rules, 1_800_000_000) {
        assert!(token::is_name(&shown.user) && shown.until > 1_800_000_000);
        assert!(keys.have(shown.key), "a key of ours has signed it");
    }
    if let Ok(Verdict::Yes { allow, .. }) = hook::read(part()) {
        Grants::with(None, allow, Some("u"));
    }
}

#[cfg(test)]
mod tests;
