//! Public keys that tokens are checked by: of a PEM file, or a set of JSON Web Keys (RFC 7517).

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::support::files;

/// Longest file or answer.
pub(super) const LENGTH_MAX: usize = 1 << 20;
/// Most keys: a token that names none is tried with each.
const KEYS_MAX: usize = 64;
/// Bytes of the smallest RSA modulus.
const RSA_MIN: usize = 256;

/// Keys with which tokens may be signed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

/// One of them. What it signs with is its own, whatever a token says.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// By which name tokens mean it; those of a PEM file have none, and may be meant by any.
    name: Option<String>,
    public: Public,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Public {
    /// RSA by modulus and exponent: RS256.
    Rsa(Vec<u8>, Vec<u8>),
    /// A point of P-256: ES256.
    P256(Vec<u8>),
    /// Ed25519: `EdDSA`.
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

impl Keys {
    /// Reads a file: a set in JSON, or public keys in PEM. `has_some`: see [`Keys::parse`].
    ///
    /// # Errors
    /// It cannot be read, or has no key that is of use.
    pub fn read(file: &Path, has_some: bool) -> Result<Keys, String> {
        let of_file = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = files::read(file, LENGTH_MAX as u64).map_err(|error| of_file(&error))?;
        Keys::parse(&text, has_some).map_err(|error| of_file(&error))
    }

    /// Reads the bytes of a file, or of an answer. A set without an entry is one: whoever withdraws all keys means that no
    /// token counts. So does a set whose entries are all of no use here, where there are some keys before it (`has_some`).
    ///
    /// # Errors
    /// They have no key that is of use.
    pub fn parse(text: &[u8], has_some: bool) -> Result<Keys, String> {
        let (entries, keys) = match text.trim_ascii_start().first() {
            Some(b'{') => set(text)?,
            _ => (None, of_pem(text)?),
        };
        match entries {
            Some(0) => {}
            Some(entries) if keys.is_empty() && has_some => {
                tracing::warn!(
                    entries,
                    "a new set of keys has none of RS256, ES256 or EdDSA: the keys before it count no more"
                );
            }
            _ if keys.is_empty() => return Err("no key of RS256, ES256 or EdDSA is in it".into()),
            _ => {}
        }
        if keys.len() > KEYS_MAX {
            return Err(format!("{} keys: give at most {KEYS_MAX}", keys.len()));
        }
        Ok(Keys(keys))
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that a token may mean that names `name`, or none.
    pub(super) fn meant(&self, name: Option<&str>) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| match (&key.name, name) {
            (Some(own), Some(name)) => own == name,
            _ => true,
        })
    }

    /// Whether the key of this mark is among them.
    pub(super) fn have(&self, mark: u64) -> bool {
        self.0.iter().any(|key| key.mark() == mark)
    }
}

impl Key {
    /// All names of algorithms.
    pub(super) const ALGORITHMS: [&str; 3] = ["RS256", "ES256", "EdDSA"];

    /// The name of its algorithm in tokens.
    pub(super) fn algorithm(&self) -> &'static str {
        match self.public {
            Public::Rsa(..) => "RS256",
            Public::P256(_) => "ES256",
            Public::Ed25519(_) => "EdDSA",
        }
    }

    /// Whether it has signed this.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.public {
            Public::Rsa(n, e) => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Public::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Public::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
        };
        verified.is_ok()
    }

    /// What tells it from others.
    pub(super) fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.public.hash(&mut hasher);
        hasher.finish()
    }
}

/// How many entries a set has, and its keys. Those of other kinds are for others: they are passed over.
fn set(text: &[u8]) -> Result<(Option<usize>, Vec<Key>), String> {
    let set: Set = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    Ok((Some(set.keys.len()), set.keys.into_iter().filter_map(of_entry).collect()))
}

fn of_entry(entry: Entry) -> Option<Key> {
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    let public = match (entry.kty.as_str(), entry.crv.as_str()) {
        ("RSA", _) => Public::Rsa(bytes(&entry.n)?, bytes(&entry.e)?),
        ("EC", "P-256") => {
            let (x, y) = (bytes(&entry.x)?, bytes(&entry.y)?);
            (x.len() == 32 && y.len() == 32).then_some(())?;
            Public::P256([&[4][..], &x, &y].concat())
        }
        ("OKP", "Ed25519") => Public::Ed25519(bytes(&entry.x)?),
        _ => return None,
    };
    let key = Key { name: entry.kid, public: usable(public)? };
    let is_meant = entry.r#use.is_none_or(|what| what == "sig")
        && entry.alg.is_none_or(|name| name == key.algorithm());
    is_meant.then_some(key)
}

fn of_pem(text: &[u8]) -> Result<Vec<Key>, String> {
    const P256: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07];
    const ED25519: &[u8] = &[0x2B, 0x65, 0x70];
    let mut keys = Vec::new();
    for found in SubjectPublicKeyInfoDer::pem_slice_iter(text) {
        let der = found.map_err(|error| format!("neither JSON nor PEM: {error}"))?;
        let none = |_| "a public key that is none".to_owned();
        let (_, key) = SubjectPublicKeyInfo::from_der(&der).map_err(none)?;
        let bits = key.subject_public_key.data.to_vec();
        let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
        let public = match key.parsed() {
            Ok(PublicKey::RSA(key)) => {
                Some(Public::Rsa(key.modulus.to_vec(), key.exponent.to_vec()))
            }
            _ if key.algorithm.algorithm.as_bytes() == ED25519 => Some(Public::Ed25519(bits)),
            _ if curve.is_some_and(|curve| curve.as_bytes() == P256) => Some(Public::P256(bits)),
            _ => None,
        };
        let public = public.and_then(usable).ok_or(
            "a public key that is of no use: give one of RSA (2048 bits or more), P-256 or Ed25519",
        )?;
        keys.push(Key { name: None, public });
    }
    Ok(keys)
}

/// The key, if it can have signed anything.
fn usable(public: Public) -> Option<Public> {
    let trimmed = |number: Vec<u8>| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number[zeros..].to_vec()
    };
    let public = match public {
        Public::Rsa(n, e) => Public::Rsa(trimmed(n), trimmed(e)),
        other => other,
    };
    let is_so = match &public {
        Public::Rsa(n, e) => n.len() >= RSA_MIN && !e.is_empty(),
        Public::P256(point) => point.len() == 65,
        Public::Ed25519(key) => key.len() == 32,
    };
    is_so.then_some(public)
}
