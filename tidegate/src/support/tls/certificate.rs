//! What Tidegate asks of a certificate itself: whose it is, what its holder may be, and until when.
//!
//! Whether it is genuine is rustls's question. Here only the outer structure is walked (X.509, RFC 5280,
//! 4.1, in DER), total on any bytes.

use crate::support::time::days_from_civil;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Common name of its subject; `None` where it has none, or not exactly one.
    pub common_name: Option<String>,
    /// What its holder may be; empty where it was issued without roles.
    pub roles: Vec<Role>,
    /// Seconds since 1970 before which it is not valid.
    pub valid_from: i64,
    /// Seconds since 1970 after which it is not valid.
    pub valid_until: i64,
}

tidegate_types::named! {
    /// What the holder of a certificate may be: an organizational unit of its subject, as `tidegate:node,operator`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
    pub enum Role {
        /// A node: of links, mirrors, groups and fleets.
        Node = "node",
        /// An orchestrator of a fleet.
        Orchestrator = "orchestrator",
        /// A person or program that asks an orchestrator about its fleet, and drains nodes.
        Operator = "operator",
        /// A client that publishes and subscribes.
        Client = "client",
    }
}

impl Role {
    /// Roles as they stand in a subject.
    pub(super) fn unit(roles: &[Role]) -> String {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        format!("{UNIT}{}", names.join(","))
    }
}

/// The bytes are no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a certificate (X.509 in DER)")]
pub struct CertificateError;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xA0;
/// 2.5.4.3, the common name.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// 2.5.4.11, an organizational unit.
const ORGANIZATIONAL_UNIT: [u8; 3] = [0x55, 0x04, 0x0B];
/// Units that are roles begin so.
const UNIT: &str = "tidegate:";
/// `UTF8String`, `PrintableString` and `IA5String`: text that is UTF-8 as it stands.
const TEXTS: [u8; 3] = [0x0C, 0x13, 0x16];

impl Certificate {
    /// Reads the DER bytes of a certificate.
    ///
    /// # Errors
    /// They are none.
    pub fn read(der: &[u8]) -> Result<Certificate, CertificateError> {
        let mut whole = Walk(der);
        let mut outer = Walk(whole.take(SEQUENCE)?);
        let mut inner = Walk(outer.take(SEQUENCE)?);
        if inner.0.first() == Some(&VERSION) {
            inner.any()?;
        }
        // Serial number, algorithm, issuer.
        for _ in 0..3 {
            inner.any()?;
        }
        let mut validity = Walk(inner.take(SEQUENCE)?);
        let (valid_from, valid_until) = (time(validity.any()?)?, time(validity.any()?)?);
        let subject = inner.take(SEQUENCE)?;
        // A second common name could be meant for another reader.
        let common_name = match &texts(subject, COMMON_NAME)?[..] {
            [only] => only.clone(),
            _ => None,
        };
        let units = texts(subject, ORGANIZATIONAL_UNIT)?;
        let units = units.iter().flatten().filter_map(|unit| unit.strip_prefix(UNIT));
        let names: Vec<&str> = units.flat_map(|unit| unit.split(',')).collect();
        let is_there = |role: &Role| names.contains(&role.name());
        let roles = Role::ALL.into_iter().filter(is_there).collect();
        Ok(Certificate { common_name, roles, valid_from, valid_until })
    }

    /// Whether its holder may be this. One without roles is of a time before there were any, or of another
    /// authority: it may be everything that need not be asked for.
    pub fn may_be(&self, role: Role) -> bool {
        self.roles.is_empty() || self.roles.contains(&role)
    }
}

/// The values of one kind in a distinguished name; `None` for one that is no text.
fn texts(name: &[u8], kind: [u8; 3]) -> Result<Vec<Option<String>>, CertificateError> {
    let mut found = Vec::new();
    let mut sets = Walk(name);
    while !sets.0.is_empty() {
        let mut set = Walk(sets.take(SET)?);
        while !set.0.is_empty() {
            let mut pair = Walk(set.take(SEQUENCE)?);
            if pair.take(OBJECT_ID)? == kind {
                let (tag, text) = pair.any()?;
                let text = TEXTS.contains(&tag).then(|| String::from_utf8(text.to_vec()).ok());
                found.push(text.flatten());
            }
        }
    }
    Ok(found)
}

/// Seconds since 1970 of `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn time((tag, text): (u8, &[u8])) -> Result<i64, CertificateError> {
    let text = std::str::from_utf8(text).map_err(|_| CertificateError)?;
    let digits = text.strip_suffix('Z').ok_or(CertificateError)?;
    let is_right = digits.bytes().all(|digit| digit.is_ascii_digit());
    let years = match (tag, digits.len()) {
        (UTC_TIME, 12) if is_right => 2,
        (GENERALIZED_TIME, 14) if is_right => 4,
        _ => return Err(CertificateError),
    };
    let number = |from: usize, to: usize| digits[from..to].parse::<i64>().unwrap_or_default();
    let two = |place: usize| number(years + 2 * place, years + 2 * place + 2);
    let year = match (years, number(0, years)) {
        (2, year) if year < 50 => 2000 + year,
        (2, year) => 1900 + year,
        (_, year) => year,
    };
    let days = days_from_civil(year, two(0), two(1));
    Ok(((days * 24 + two(2)) * 60 + two(3)) * 60 + two(4))
}

/// A public key as it stands in PEM files (RFC 5280, 4.1.2.7).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublicKey<'a> {
    /// Identifier of its algorithm.
    pub(crate) algorithm: &'a [u8],
    /// Identifier of its curve, where it has one.
    pub(crate) curve: Option<&'a [u8]>,
    /// The key itself.
    pub(crate) bits: &'a [u8],
}

/// Reads the DER bytes of a public key.
///
/// # Errors
/// They are none.
pub(crate) fn public_key(der: &[u8]) -> Result<PublicKey<'_>, CertificateError> {
    let mut whole = Walk(Walk(der).take(SEQUENCE)?);
    let mut kind = Walk(whole.take(SEQUENCE)?);
    let algorithm = kind.take(OBJECT_ID)?;
    let curve = kind.take(OBJECT_ID).ok();
    match whole.take(BIT_STRING)? {
        [0, bits @ ..] => Ok(PublicKey { algorithm, curve, bits }),
        _ => Err(CertificateError),
    }
}

impl<'a> PublicKey<'a> {
    /// Modulus and exponent of a key of RSA.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn of_rsa(&self) -> Result<(&'a [u8], &'a [u8]), CertificateError> {
        let mut numbers = Walk(Walk(self.bits).take(SEQUENCE)?);
        Ok((numbers.take(INTEGER)?, numbers.take(INTEGER)?))
    }
}

/// Goes over the elements of DER bytes.
struct Walk<'a>(&'a [u8]);

impl<'a> Walk<'a> {
    /// Tag and content of the next element.
    fn any(&mut self) -> Result<(u8, &'a [u8]), CertificateError> {
        let [tag, first, rest @ ..] = self.0 else { return Err(CertificateError) };
        let (length, rest) = match *first {
            short @ 0..=0x7F => (usize::from(short), rest),
            long @ 0x81..=0x84 => {
                let count = usize::from(long & 0x7F);
                let (bytes, rest) = rest.split_at_checked(count).ok_or(CertificateError)?;
                (bytes.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), rest)
            }
            _ => return Err(CertificateError),
        };
        let (content, rest) = rest.split_at_checked(length).ok_or(CertificateError)?;
        self.0 = rest;
        Ok((*tag, content))
    }

    /// Content of the next element, which must have this tag.
    fn take(&mut self, wanted: u8) -> Result<&'a [u8], CertificateError> {
        match self.any()? {
            (tag, content) if tag == wanted => Ok(content),
            _ => Err(CertificateError),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    fn made(names: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.distinguished_name.push(DnType::OrganizationName, "plant");
        params.not_before = date_time_ymd(2024, 2, 29);
        params.not_after = date_time_ymd(2051, 3, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn name_and_times_are_read() {
        let read = Certificate::read(&made(&["plc-7"])).unwrap();
        assert_eq!(read.common_name.as_deref(), Some("plc-7"));
        // date -u -d 2024-02-29 +%s, and 2051-03-01
        assert_eq!((read.valid_from, read.valid_until), (1_709_164_800, 2561241600));
        assert_eq!(Certificate::read(&made(&[])).unwrap().common_name, None);
    }

    #[test]
    fn any_bytes_are_answered() {
        let good = made(&["plc-7"]);
        for end in 0..good.len() {
            assert!(Certificate::read(&good[..end]).is_err(), "{end}");
        }
        for place in 0..good.len() {
            for value in [0, 0x30, 0x80, 0x84, 0xFF] {
                let mut bytes = good.clone();
                bytes[place] = value;
                let _ = Certificate::read(&bytes);
            }
        }
    }
}
