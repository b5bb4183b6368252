//! Tokens as passwords: JSON Web Tokens (RFC 7519), signed by RS256, ES256 or `EdDSA`.
//!
//! By which algorithm a token is checked, its key says and never the token; the token's own word must agree. What is
//! signed by a secret, or by nothing, is no token here.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::acl::Allow;
use super::keys::{Key, Keys};

/// Longest token.
const LENGTH_MAX: usize = 16 * 1024;
/// Longest name of a user.
const NAME_MAX: usize = 256;
/// Most filters that a token may bring.
const FILTERS_MAX: usize = 256;

/// What a token must say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRules {
    /// Who issued it.
    pub issuer: Option<String>,
    /// Whom it is for: one of these.
    pub audience: Vec<String>,
    /// How far its times may be off.
    pub leeway: Duration,
    /// The claim with the user's name.
    pub user: String,
    /// The claim with filters that he may publish to.
    pub topics: Option<String>,
    /// The claim with filters that he may subscribe to.
    pub subscribe: Option<String>,
}

/// What a good token says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) user: String,
    /// Seconds since 1970 from which on it counts no more.
    pub(super) until: u64,
    /// The mark of the key that signed it.
    pub(super) key: u64,
    /// What it allows itself.
    pub(super) allow: Option<Allow>,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// No key of ours has the name that it says.
    UnknownKey,
    /// Anything else, for people.
    Bad(&'static str),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// Whether a password is a token by its looks.
pub(super) fn is_token(password: &[u8]) -> bool {
    password.starts_with(b"eyJ") && password.iter().filter(|byte| **byte == b'.').count() == 2
}

/// Checks a token at `now`, in seconds since 1970.
pub(super) fn check(
    token: &[u8],
    keys: &Keys,
    rules: &TokenRules,
    now: u64,
) -> Result<Shown, TokenError> {
    let bad = TokenError::Bad;
    let text = std::str::from_utf8(token).ok().filter(|text| text.len() <= LENGTH_MAX);
    let text = text.ok_or(bad("it is none, or too long"))?;
    let (signed, signature) = text.rsplit_once('.').ok_or(bad("it is none"))?;
    let (header, body) = signed.split_once('.').ok_or(bad("it is none"))?;
    let part = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| bad("it is none"));
    let (header, body, signature) = (part(header)?, part(body)?, part(signature)?);
    let header: Header = serde_json::from_slice(&header).map_err(|_| bad("its header is none"))?;
    if header.crit.is_some() {
        return Err(bad("it demands an extension that is not known here (crit)"));
    }
    let mut meant = keys.meant(header.kid.as_deref()).peekable();
    if meant.peek().is_none() {
        return Err(TokenError::UnknownKey);
    }
    // Who issues tokens without names of keys may have a new one.
    let other = match header.kid {
        None if Key::ALGORITHMS.contains(&&*header.alg) => TokenError::UnknownKey,
        _ if meant.all(|key| key.algorithm() != header.alg) => {
            return Err(bad("its algorithm is not its key's"));
        }
        _ => bad("its signature is wrong"),
    };
    let mut fitting = keys.meant(header.kid.as_deref()).filter(|key| key.algorithm() == header.alg);
    let key = fitting.find(|key| key.has_signed(signed.as_bytes(), &signature)).ok_or(other)?;
    let key = key.mark();
    let claims: Map<String, Value> =
        serde_json::from_slice(&body).map_err(|_| bad("its claims are none"))?;
    let until = times(&claims, rules.leeway.as_secs(), now)?;
    if let Some(issuer) = &rules.issuer
        && claims.get("iss").and_then(Value::as_str) != Some(issuer)
    {
        return Err(bad("it is of another issuer (iss)"));
    }
    if !rules.audience.is_empty() && !is_for(claims.get("aud"), &rules.audience) {
        return Err(bad("it is for somebody else (aud)"));
    }
    let user = claims.get(&rules.user).and_then(Value::as_str).filter(|user| is_name(user));
    let user = user.ok_or(bad("its claim of the user's name is missing, or no name"))?.to_owned();
    let allow = allow(&claims, rules)?;
    Ok(Shown { user, until, key, allow })
}

/// Until when it counts, if it does by now.
fn times(claims: &Map<String, Value>, leeway: u64, now: u64) -> Result<u64, TokenError> {
    let bad = TokenError::Bad;
    let seconds = |value: &Value| {
        let seconds = value.as_f64().filter(|seconds| (0.0..1e12).contains(seconds));
        seconds.map(|seconds| seconds as u64)
    };
    let until = claims.get("exp").ok_or(bad("it says no end (exp)"))?;
    let until = seconds(until).ok_or(bad("its end is no time (exp)"))?.saturating_add(leeway);
    if until <= now {
        return Err(bad("it has expired (exp)"));
    }
    if let Some(from) = claims.get("nbf") {
        let from = seconds(from).ok_or(bad("its beginning is no time (nbf)"))?;
        if from > now.saturating_add(leeway) {
            return Err(bad("it does not count yet (nbf)"));
        }
    }
    Ok(until)
}

fn is_for(audience: Option<&Value>, ours: &[String]) -> bool {
    let is_ours = |one: &Value| one.as_str().is_some_and(|one| ours.iter().any(|our| our == one));
    match audience {
        Some(Value::Array(all)) => all.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    }
}

pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.contains(char::is_control)
}

/// What a token allows itself. One filter that is none makes it a bad one: somebody meant something by it.
fn allow(claims: &Map<String, Value>, rules: &TokenRules) -> Result<Option<Allow>, TokenError> {
    let wrong = TokenError::Bad("its claims of topics are no list of filters");
    let filters = |claim: &Option<String>| {
        let Some(value) = claim.as_ref().and_then(|claim| claims.get(claim)) else {
            return Ok(Vec::new());
        };
        let all = value.as_array().filter(|all| all.len() <= FILTERS_MAX).ok_or(wrong)?;
        let all = all.iter().map(|one| one.as_str().map(str::to_owned));
        all.collect::<Option<Vec<String>>>().ok_or(wrong)
    };
    if rules.topics.is_none() && rules.subscribe.is_none() {
        return Ok(None);
    }
    let allow = Allow::new(None, filters(&rules.topics)?, filters(&rules.subscribe)?);
    allow.map(Some).map_err(|_| wrong)
}

#[cfg(test)]
mod tests;
