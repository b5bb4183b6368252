use std::process::Command;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use ring::{digest, hmac};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::*;

const NOW: u64 = 1_800_000_000;

enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    /// None where there is no openssl: ring makes no keys of RSA.
    fn rsa() -> Option<Signer> {
        let made = Command::new("openssl").args(["genrsa", "2048"]).output().ok();
        let Some(made) = made.filter(|made| made.status.success()) else {
            println!("skipped: needs openssl, not found");
            return None;
        };
        let key = PrivateKeyDer::from_pem_slice(&made.stdout).unwrap();
        let key = match &key {
            PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
            other => RsaKeyPair::from_der(other.secret_der()),
        };
        Some(Signer::Rsa(key.unwrap()))
    }

    fn p256() -> Signer {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Signer::P256(EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).unwrap())
    }

    fn ed25519(seed: u8) -> Signer {
        Signer::Ed25519(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Signer::Rsa(_) => "RS256",
            Signer::P256(_) => "ES256",
            Signer::Ed25519(_) => "EdDSA",
        }
    }

    /// Its public key as an entry of a set.
    fn entry(&self, name: &str) -> Value {
        match self {
            Signer::Rsa(key) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                let (n, e) = (encoded(public.n), encoded(public.e));
                serde_json::json!({"kty": "RSA", "kid": name, "n": n, "e": e, "alg": "RS256"})
            }
            Signer::P256(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
                serde_json::json!({"kty": "EC", "crv": "P-256", "kid": name, "x": x, "y": y})
            }
            Signer::Ed25519(key) => {
                let x = encoded(key.public_key());
                serde_json::json!({"kty": "OKP", "crv": "Ed25519", "kid": name, "x": x})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Signer::P256(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Signer::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with this header and these claims.
    fn token(&self, header: &Value, claims: &Value) -> Vec<u8> {
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = encoded(self.sign(signed.as_bytes()));
        format!("{signed}.{signature}").into_bytes()
    }

    fn good(&self, name: &str) -> Vec<u8> {
        self.token(&serde_json::json!({"alg": self.algorithm(), "kid": name}), &claims())
    }
}

fn claims() -> Value {
    serde_json::json!({"sub": "plc-7", "iss": "plant", "aud": ["mqtt", "other"], "exp": NOW + 60})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn rules() -> TokenRules {
    TokenRules {
        issuer: Some("plant".into()),
        audience: vec!["mqtt".into()],
        leeway: Duration::from_secs(5),
        user: "sub".into(),
        topics: None,
        subscribe: None,
    }
}

fn keys(signers: &[(&Signer, &str)]) -> Keys {
    let entries: Vec<Value> = signers.iter().map(|(signer, name)| signer.entry(name)).collect();
    Keys::parse(serde_json::json!({"keys": entries}).to_string().as_bytes(), false).unwrap()
}

fn refused(token: &[u8], keys: &Keys) -> &'static str {
    match check(token, keys, &rules(), NOW).unwrap_err() {
        TokenError::UnknownKey => "unknown key",
        TokenError::Bad(why) => why,
    }
}

#[test]
fn tokens_of_each_algorithm_are_taken() {
    let signers: Vec<Signer> = [Some(Signer::p256()), Some(Signer::ed25519(1)), Signer::rsa()]
        .into_iter()
        .flatten()
        .collect();
    let named: Vec<(&Signer, &str)> = signers.iter().zip(["a", "b", "c"]).collect();
    let keys = keys(&named);
    for (signer, name) in named {
        let token = signer.good(name);
        assert!(is_token(&token));
        let shown = check(&token, &keys, &rules(), NOW).unwrap();
        assert_eq!((shown.user.as_str(), shown.until), ("plc-7", NOW + 65));
        assert!(keys.have(shown.key));
        // One that names no key is tried with each that fits.
        let nameless = signer.token(&serde_json::json!({"alg": signer.algorithm()}), &claims());
        assert_eq!(check(&nameless, &keys, &rules(), NOW).unwrap().key, shown.key);
    }
}

#[test]
fn no_token_chooses_how_it_is_checked() {
    let Some(rsa) = Signer::rsa() else { return };
    let keys = keys(&[(&rsa, "a"), (&Signer::ed25519(1), "b")]);
    let header = |algorithm: &str, name: &str| serde_json::json!({"alg": algorithm, "kid": name});
    let another = "its algorithm is not its key's";
    for algorithm in ["none", "None", "HS256", "RS512", "PS256", "ES256", "EdDSA", "rs256"] {
        assert_eq!(refused(&rsa.token(&header(algorithm, "a"), &claims()), &keys), another);
    }
    // Without a signature.
    let body = encoded(claims().to_string());
    let unsigned = format!("{}.{body}.", encoded(header("none", "a").to_string()));
    assert_eq!(refused(unsigned.as_bytes(), &keys), another);
    let unsigned = format!("{}.{body}.", encoded(header("RS256", "a").to_string()));
    assert_eq!(refused(unsigned.as_bytes(), &keys), "its signature is wrong");
    // By HMAC, with what everybody knows of the key as its secret.
    let entry = rsa.entry("a");
    for secret in [entry.to_string().as_bytes(), entry["n"].as_str().unwrap().as_bytes()] {
        let signed = format!("{}.{body}", encoded(header("HS256", "a").to_string()));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
        assert_eq!(refused(format!("{signed}.{}", encoded(tag)).as_bytes(), &keys), another);
    }
    // A digest is no signature either.
    let signed = format!("{}.{body}", encoded(header("EdDSA", "b").to_string()));
    let digest = digest::digest(&digest::SHA512, signed.as_bytes());
    let token = format!("{signed}.{}", encoded(digest));
    assert_eq!(refused(token.as_bytes(), &keys), "its signature is wrong");
}

#[test]
fn what_a_token_says_must_hold() {
    let (signer, stranger) = (Signer::ed25519(1), Signer::ed25519(2));
    let keys = keys(&[(&signer, "a")]);
    let header = serde_json::json!({"alg": "EdDSA", "kid": "a"});
    let because = |claims: &Value| refused(&signer.token(&header, claims), &keys);
    assert_eq!(because(&with("exp", (NOW - 6).into())), "it has expired (exp)");
    assert_eq!(because(&with("exp", (NOW - 5).into())), "it has expired (exp)");
    assert_eq!(because(&with("exp", Value::Null)), "its end is no time (exp)");
    assert_eq!(because(&with("exp", "2100".into())), "its end is no time (exp)");
    assert_eq!(because(&serde_json::json!({"sub": "plc-7"})), "it says no end (exp)");
    assert_eq!(because(&with("nbf", (NOW + 6).into())), "it does not count yet (nbf)");
    assert_eq!(because(&with("iss", "other".into())), "it is of another issuer (iss)");
    assert_eq!(because(&with("aud", "other".into())), "it is for somebody else (aud)");
    assert_eq!(because(&with("aud", Value::Null)), "it is for somebody else (aud)");
    for name in [Value::Null, "".into(), 7.into(), "a\nb".into()] {
        let why = "its claim of the user's name is missing, or no name";
        assert_eq!(because(&with("sub", name)), why);
    }
    for good in [with("exp", (NOW - 4).into()), with("nbf", (NOW + 5).into())] {
        assert!(check(&signer.token(&header, &good), &keys, &rules(), NOW).is_ok(), "{good}");
    }
    let forged = stranger.token(&header, &claims());
    assert_eq!(refused(&forged, &keys), "its signature is wrong");
    assert_eq!(refused(&stranger.good("b"), &keys), "unknown key");
    let critical = serde_json::json!({"alg": "EdDSA", "kid": "a", "crit": ["b64"]});
    let why = "it demands an extension that is not known here (crit)";
    assert_eq!(refused(&signer.token(&critical, &claims()), &keys), why);
}

#[test]
fn a_token_may_bring_its_rights() {
    let signer = Signer::ed25519(1);
    let keys = keys(&[(&signer, "a")]);
    let rules =
        TokenRules { topics: Some("pub".into()), subscribe: Some("sub2".into()), ..rules() };
    let of = |value: Value| {
        check(&signer.token(&serde_json::json!({"alg": "EdDSA"}), &value), &keys, &rules, NOW)
    };
    let expected = Allow::new(None, vec!["a/%u/#".into()], Vec::new()).unwrap();
    assert_eq!(of(with("pub", serde_json::json!(["a/%u/#"]))).unwrap().allow, Some(expected));
    for wrong in [serde_json::json!("a/#"), serde_json::json!(["a/#/b"]), serde_json::json!([1])] {
        let why = TokenError::Bad("its claims of topics are no list of filters");
        assert_eq!(of(with("pub", wrong)), Err(why));
    }
}

#[test]
fn keys_are_those_that_can_have_signed_a_token() {
    let p256 = Signer::p256();
    let mut entry = p256.entry("a");
    for (key, value) in [("alg", "ES384"), ("use", "enc")] {
        entry[key] = value.into();
        let text = serde_json::json!({"keys": [entry]}).to_string();
        assert!(Keys::parse(text.as_bytes(), false).is_err(), "{key}");
        entry = p256.entry("a");
    }
    let secret = serde_json::json!({"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"});
    let text = serde_json::json!({"keys": [secret, p256.entry("a")]}).to_string();
    let keys = Keys::parse(text.as_bytes(), false).unwrap();
    assert!(check(&p256.good("a"), &keys, &rules(), NOW).is_ok());
    assert_eq!(Keys::parse(b"{\"keys\": []}", false), Ok(Keys::default()), "all are withdrawn");
    for wrong in ["", "{}", "words", "-----BEGIN PUBLIC KEY-----\nAA==\n"] {
        assert!(Keys::parse(wrong.as_bytes(), false).is_err(), "{wrong}");
    }
}

#[test]
fn keys_stand_in_pem_files_too() {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let own = EcdsaKeyPair::from_pkcs8(kind, &key.serialize_der(), &SystemRandom::new()).unwrap();
    let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let text = other.public_key_pem() + &key.public_key_pem();
    let keys = Keys::parse(text.as_bytes(), false).unwrap();
    assert!(check(&Signer::P256(own).good("any"), &keys, &rules(), NOW).is_ok());
    let weak = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    assert!(
        Keys::parse(weak.public_key_pem().as_bytes(), false).unwrap_err().contains("of no use")
    );
}

#[test]
fn any_bytes_are_answered() {
    let signer = Signer::ed25519(1);
    let keys = keys(&[(&signer, "a")]);
    let good = signer.good("a");
    for end in 0..good.len() {
        assert!(check(&good[..end], &keys, &rules(), NOW).is_err(), "{end}");
    }
    for place in 0..good.len() {
        let mut token = good.clone();
        token[place] = if token[place] == b'A' { b'B' } else { b'A' };
        // The last character has bits that say nothing; the decoder refuses them too.
        assert!(check(&token, &keys, &rules(), NOW).is_err(), "{place}");
    }
}
