//! The letters of a node (`tidegate_link::letter`): those that it writes, those that it got and hands on,
//! and which process of each log came last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustls::SignatureScheme;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use tidegate_link::delegation::{self, CHAIN_MAX, Delegation, SignedDelegation};
use tidegate_link::lineage::{Lineage, LineageCheck};
use tidegate_types::record::{DeliveryId, Origin};
use tokio::sync::watch;

use super::wire::Wire;
use crate::support::complaints::Complaints;
use crate::support::tls::{Certificate, Trust};

/// Origins whose letters are kept, and logs whose processes are remembered.
const ORIGINS_MAX: usize = 4096;
/// How we sign: what keys of certificates can be here, the usual ones first.
const SCHEMES: [SignatureScheme; 4] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

/// Whose log this is.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    /// The node's name.
    pub(crate) node: Arc<str>,
    /// Which life of its log, or of the process where it has none.
    pub(crate) incarnation: u64,
    /// This process; 0 without a log.
    pub(crate) boot: u64,
    /// The one that wrote the log before; 0 where nobody knows.
    pub(crate) previous: u64,
}

/// A log: its node, and which life.
type LogName = (Arc<str>, u64);

#[derive(Debug)]
struct Line {
    lineage: Lineage,
    /// The process that came last.
    current: watch::Sender<u64>,
}

/// See the file's header. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Letters(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    own: OnceLock<Own>,
    /// Chains that lead to us, the certificates with them, by what the names of records bear.
    chains: Mutex<BTreeMap<LogName, Bytes>>,
    lines: Mutex<BTreeMap<LogName, Line>>,
    complaints: OnceLock<Complaints>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Letters {
    /// Whose letters these are: once, before the first is written.
    pub(crate) fn are_of(&self, own: Own) {
        // A second time it would be the same.
        let _ = self.0.own.set(own);
    }

    /// What proves to `to` that we may bring records of this origin; `None` where nothing does.
    pub(crate) fn proof(&self, origin: &Origin, key: &CertifiedKey, to: &str) -> Option<Bytes> {
        let own = self.0.own.get()?;
        let written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let of = Delegation {
            node: own.node.clone(),
            incarnation: own.incarnation,
            boot: own.boot,
            previous: own.previous,
            written,
            to: to.into(),
        };
        let (mut chain, letter) = match of.is_of(&origin.node, origin.incarnation) {
            true => (Vec::new(), of),
            false => {
                let name = (origin.node.clone(), origin.incarnation);
                let chain = delegation::decode(lock(&self.0.chains).get(&name)?).ok()?;
                let first = chain.first()?.letter.clone();
                (chain, Delegation { previous: 0, written, to: to.into(), ..first })
            }
        };
        if chain.len() == CHAIN_MAX {
            return None;
        }
        let signer = key.key.choose_scheme(&SCHEMES)?;
        let signature = signer.sign(&letter.content()).ok()?.into();
        let scheme = u16::from(signer.scheme());
        // The connection shows the certificate.
        chain.push(SignedDelegation { letter, scheme, signature, certificate: Bytes::new() });
        Some(delegation::encode(&chain))
    }

    /// What an origin says by a chain that `peer` brings; its letters are kept. `None` where they prove nothing.
    pub(crate) fn check(
        &self,
        proof: &Bytes,
        (peer, certificate): (&str, &CertificateDer<'_>),
        trust: &Trust,
    ) -> Option<(Delegation, bool)> {
        let mut chain = delegation::decode(proof).ok()?;
        let last = chain.last_mut()?;
        last.certificate = Bytes::copy_from_slice(certificate);
        let mut signers = Vec::with_capacity(chain.len());
        for one in &chain {
            let scheme = SignatureScheme::from(one.scheme);
            trust.check(&one.certificate, scheme, &one.letter.content(), &one.signature).ok()?;
            signers.push(Certificate::read(&one.certificate).ok()?.common_name?);
        }
        let signers: Vec<&str> = signers.iter().map(String::as_str).collect();
        let first = delegation::holds(&chain, &signers, peer)?.clone();
        self.keep(&chain);
        Some((first, chain.len() == 1))
    }

    /// Keeps letters that were believed.
    fn keep(&self, chain: &[SignedDelegation]) {
        let Some(SignedDelegation { letter: first, .. }) = chain.first() else { return };
        let mut chains = lock(&self.0.chains);
        for number in [first.incarnation, first.boot] {
            let name = (first.node.clone(), number);
            if chains.len() < ORIGINS_MAX || chains.contains_key(&name) {
                chains.insert(name, delegation::encode(chain));
            }
        }
    }

    /// The letters about a log that were believed, to be kept on a disk.
    pub(crate) fn about(&self, node: &str, incarnation: u64) -> Option<Bytes> {
        lock(&self.0.chains).get(&(node.into(), incarnation)).cloned()
    }

    /// Takes back what was kept on a disk.
    pub(crate) fn remember(&self, kept: &Bytes) {
        if let Ok(chain) = delegation::decode(kept) {
            self.keep(&chain);
        }
    }

    /// A process of a log has come by a connection of its own: what it is, and who came last from now on.
    pub(crate) fn comes(&self, letter: &Delegation) -> (LineageCheck, watch::Receiver<u64>) {
        let mut lines = lock(&self.0.lines);
        let name = (letter.node.clone(), letter.incarnation);
        if lines.len() >= ORIGINS_MAX && !lines.contains_key(&name) {
            return (LineageCheck::Same, watch::channel(letter.boot).1);
        }
        let new = || Line { lineage: Lineage::default(), current: watch::channel(0).0 };
        let line = lines.entry(name).or_insert_with(new);
        let coming = line.lineage.comes(letter.boot, letter.previous);
        if coming == LineageCheck::Next {
            line.current.send_replace(letter.boot);
        }
        let current = line.current.subscribe();
        drop(lines);
        if coming == LineageCheck::Copy {
            self.tell_of_copy(letter);
        }
        (coming, current)
    }

    /// Errors are bounded.
    fn tell_of_copy(&self, letter: &Delegation) {
        let complaints = self.0.complaints.get_or_init(|| Complaints::new(Instant::now()));
        if let Some(withheld) = complaints.allow(Instant::now()) {
            let (node, incarnation) = (&letter.node, letter.incarnation);
            tracing::error!(
                withheld,
                "two machines use one log of {node} ({incarnation:016x}): one is a copy, and what comes from the \
                 one that came later is refused; at the copy remove the log's folder and issue another certificate"
            );
        }
    }
}

/// The key of a client's certificate, to sign letters with.
pub(crate) fn key_of(tls: &rustls::ClientConfig) -> Option<Arc<CertifiedKey>> {
    tls.client_auth_cert_resolver.resolve(&[], &SCHEMES)
}

/// What a link shows of origins to the node that it leads to, until that has it.
#[derive(Debug)]
pub(crate) struct Proofs {
    letters: Letters,
    tls: Arc<rustls::ClientConfig>,
    /// That of the certificate which the present connection has shown.
    key: Option<Arc<CertifiedKey>>,
    /// Who is there, if it reads letters.
    to: Option<Arc<str>>,
    /// The letters about each origin, until they have come.
    open: BTreeMap<Arc<Origin>, Bytes>,
    done: BTreeSet<Arc<Origin>>,
    /// Records that carry some.
    carried: BTreeMap<DeliveryId, Arc<Origin>>,
}

impl Proofs {
    /// For links with this TLS.
    pub(crate) fn new(letters: Letters, tls: Arc<rustls::ClientConfig>) -> Self {
        let key = key_of(&tls);
        let (open, done, carried) = <(BTreeMap<_, _>, BTreeSet<_>, BTreeMap<_, _>)>::default();
        Proofs { letters, tls, key, to: None, open, done, carried }
    }

    /// A connection is there.
    pub(crate) fn meet(&mut self, wire: &Wire) {
        let met = wire.met();
        // The files of the certificate are followed: a new connection may have shown another one.
        let key = key_of(&self.tls);
        if self.key.as_ref().map(Arc::as_ptr) != key.as_ref().map(Arc::as_ptr) {
            self.key = key;
            self.open.clear();
        }
        self.to = met.name.clone().filter(|_| met.reads_letters);
    }

    /// Another life of the link begins: nothing is known to have come.
    pub(crate) fn begin_anew(&mut self) {
        self.to = None;
        self.open.clear();
        self.done.clear();
        self.carried.clear();
    }

    /// What goes with a record of this origin.
    pub(crate) fn of(&mut self, id: DeliveryId, origin: &Arc<Origin>) -> Option<Bytes> {
        let (to, key) = (self.to.as_ref()?, self.key.as_ref()?);
        if self.done.contains(origin) {
            return None;
        }
        if self.open.len() >= ORIGINS_MAX {
            self.open.clear();
        }
        let proof = match self.open.get(origin) {
            Some(known) => known.clone(),
            None => {
                let proof = self.letters.proof(origin, key, to)?;
                self.open.insert(origin.clone(), proof.clone());
                proof
            }
        };
        self.carried.insert(id, origin.clone());
        Some(proof)
    }

    /// The far end has answered for a record, and has read what went with it.
    pub(crate) fn settled(&mut self, id: DeliveryId) {
        let Some(origin) = self.carried.remove(&id) else { return };
        self.open.remove(&origin);
        if self.done.len() >= ORIGINS_MAX {
            self.done.clear();
        }
        self.done.insert(origin);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::support::tls::authority::Authority;
    use crate::support::tls::{ClientFiles, certificates, client};

    /// An authority of the test's own, in a folder that goes with it.
    struct Town(PathBuf, Authority);

    impl Town {
        fn new(name: &str) -> Town {
            let folder = format!("tidegate-letters-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            let authority = Authority::at(&folder);
            authority.init().unwrap();
            Town(folder, authority)
        }

        fn node(&self, name: &str) -> Node {
            let issued = self.1.issue(name, &[], 9).unwrap();
            let ca = self.0.join("ca.pem");
            let own = Some((issued.certificate.clone(), issued.key));
            let tls = client(&ClientFiles { ca: ca.clone(), own }).unwrap();
            let letters = Letters::default();
            let (incarnation, boot, previous) = (7, 9, 8);
            letters.are_of(Own { node: name.into(), incarnation, boot, previous });
            Node {
                name: name.into(),
                certificate: certificates(&issued.certificate).unwrap()[0].clone(),
                key: key_of(&tls).unwrap(),
                tls,
                trust: Trust::read(&ca).unwrap(),
                letters,
            }
        }
    }

    impl Drop for Town {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    struct Node {
        name: Arc<str>,
        certificate: CertificateDer<'static>,
        key: Arc<CertifiedKey>,
        tls: Arc<rustls::ClientConfig>,
        trust: Trust,
        letters: Letters,
    }

    impl Node {
        fn proof(&self, origin: &Origin, to: &Node) -> Option<Bytes> {
            self.letters.proof(origin, &self.key, &to.name)
        }

        /// What this node believes of what `peer` brings.
        fn hears(&self, proof: &Bytes, peer: &Node) -> Option<(Delegation, bool)> {
            self.letters.check(proof, (&peer.name, &peer.certificate), &self.trust)
        }
    }

    fn of(node: &str) -> Origin {
        Origin { node: node.into(), incarnation: 7 }
    }

    #[test]
    fn letters_lead_from_an_origin_over_nodes_that_relay() {
        let town = Town::new("chain");
        let [gate, relay, hub, far] = ["gate-7", "relay", "hub", "far"].map(|name| town.node(name));
        let first = gate.proof(&of("gate-7"), &relay).unwrap();
        let (letter, is_own) = relay.hears(&first, &gate).unwrap();
        assert!(is_own && letter.is_of("gate-7", 7) && letter.is_of("gate-7", 9));
        let second = relay.proof(&of("gate-7"), &hub).unwrap();
        let (letter, is_own) = hub.hears(&second, &relay).unwrap();
        assert!(!is_own && letter.is_of("gate-7", 7));
        let third = hub.proof(&of("gate-7"), &far).unwrap();
        assert!(far.hears(&third, &hub).is_some());
        assert!(hub.proof(&of("gate-8"), &far).is_none(), "nobody has written for that one");
        // What was believed can be kept on a disk.
        let again = Node { letters: Letters::default(), ..town.node("relay") };
        again.letters.are_of(relay.letters.0.own.get().unwrap().clone());
        again.letters.remember(&relay.letters.about("gate-7", 7).unwrap());
        let later = again.proof(&of("gate-7"), &far).unwrap();
        assert!(far.hears(&later, &relay).is_none(), "it was signed with another key");
        let later = Node { key: relay.key.clone(), ..again }.proof(&of("gate-7"), &far).unwrap();
        assert!(far.hears(&later, &relay).is_some());
        assert!(first.len() < 200, "{} bytes of a direct peer", first.len());
    }

    #[test]
    fn a_letter_is_of_no_use_to_anybody_else() {
        let town = Town::new("stolen");
        let [gate, relay, evil, far] =
            ["gate-7", "relay", "evil", "far"].map(|name| town.node(name));
        let letter = gate.proof(&of("gate-7"), &relay).unwrap();
        assert!(far.hears(&letter, &evil).is_none(), "evil shows what gate-7 wrote for relay");
        relay.hears(&letter, &gate).unwrap();
        let passed = relay.proof(&of("gate-7"), &far).unwrap();
        assert!(far.hears(&passed, &evil).is_none(), "or what relay handed on");
        // A node that calls itself gate-7, with a certificate of its own.
        let pretender = Node { letters: gate.letters.clone(), ..town.node("evil") };
        let forged = pretender.proof(&of("gate-7"), &far).unwrap();
        assert!(far.hears(&forged, &pretender).is_none());
        // An authority that is not believed here.
        let abroad = Town::new("abroad");
        let other = abroad.node("gate-7");
        let foreign = other.proof(&of("gate-7"), &far).unwrap();
        assert!(far.hears(&foreign, &other).is_none());
        // A signature over something else.
        let mut chain = delegation::decode(&letter).unwrap();
        chain[0].letter.to = "evil".into();
        assert!(far.hears(&delegation::encode(&chain), &gate).is_none());
    }

    #[test]
    fn who_reads_no_letters_gets_none_and_each_origin_shows_them_until_one_is_answered_for() {
        let town = Town::new("once");
        let gate = town.node("gate-7");
        let mut proofs = Proofs {
            letters: gate.letters.clone(),
            tls: gate.tls.clone(),
            key: Some(gate.key.clone()),
            to: None,
            open: BTreeMap::new(),
            done: BTreeSet::new(),
            carried: BTreeMap::new(),
        };
        let origin = Arc::new(of("gate-7"));
        assert!(proofs.of(DeliveryId(1), &origin).is_none());
        proofs.to = Some("far".into());
        let [first, second] = [2, 3].map(|id| proofs.of(DeliveryId(id), &origin));
        assert!(first.is_some() && first == second, "signed once");
        proofs.settled(DeliveryId(1));
        assert!(proofs.of(DeliveryId(4), &origin).is_some(), "that one carried nothing");
        proofs.settled(DeliveryId(3));
        assert!(proofs.of(DeliveryId(5), &origin).is_none());
    }
}
