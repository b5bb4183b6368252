//! Who may come in, and what they may publish.
//!
//! A listener asks [`Access::login`] once for each client and keeps the [`Grants`] that it answers. Who
//! nobody is, and which topics whom, the configuration says; passwords are in [`users`].

mod acl;
mod quotas;
pub mod users;

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_broker::fair_queue::FairQueueLimits;
use tidegate_mqtt::session::{Claim, Denied};

pub use self::acl::{Allow, Grants, Proof, is_of_server};
pub use self::quotas::{Quota, QuotaRule, Quotas};
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
}

/// The rules of one listener.
#[derive(Debug)]
pub struct Access {
    identification: Identification,
    /// `None` allows everything.
    allow: Option<Vec<Allow>>,
    checks: Arc<Desk>,
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
        Access { identification, allow, checks }
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
            Identification::Password { users, anonymous } => match (claim.user, claim.password) {
                (None, None) if *anonymous => (None, Proof::Nothing),
                (None, _) => return Err(Denied::Anonymous),
                (Some(name), password) => {
                    let password = password.ok_or(Denied::Password)?;
                    let mark = self.check(users, name.clone(), password, address).await?;
                    (Some(name), Proof::Password(mark))
                }
            },
        };
        Ok(Grants::new(self.allow.as_deref(), user.as_deref()).by(proof))
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
            (Identification::Password { anonymous: true, .. }, None) => Proof::Nothing,
            (Identification::Password { .. }, None) => return Err(Denied::Anonymous),
            (Identification::Password { users, .. }, Some(user)) => {
                let now = users.current().mark(user).map(Proof::Password);
                now.filter(|now| *now == had.proof()).ok_or(Denied::Password)?
            }
        };
        Ok(Grants::new(self.allow.as_deref(), had.user()).by(proof))
    }

    /// Changes when clients that are in must be looked at again.
    pub fn edition(&self) -> u64 {
        match &self.identification {
            Identification::Password { users, .. } => users.edition(),
            Identification::Nobody | Identification::Certificate => 0,
        }
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

/// The name that a certificate says.
fn named(certificate: Option<&[u8]>) -> Result<String, Denied> {
    let read = certificate.and_then(|der| Certificate::read(der).ok());
    let name = read.and_then(|certificate| certificate.common_name);
    name.filter(|name| !name.is_empty()).ok_or(Denied::Certificate)
}

#[cfg(test)]
mod tests;
