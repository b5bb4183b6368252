use std::sync::atomic::AtomicUsize;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn key(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn set(seeds: &[u8]) -> String {
    let entry = |seed: &u8| {
        let x = URL_SAFE_NO_PAD.encode(key(*seed).public_key());
        format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"k{seed}","x":"{x}"}}"#)
    };
    let entries: Vec<String> = seeds.iter().map(entry).collect();
    format!(r#"{{"keys":[{}]}}"#, entries.join(","))
}

/// A token that the key of this seed signed, and that says so.
fn token(seed: u8) -> Vec<u8> {
    token_with(seed, &format!(r#"{{"alg":"EdDSA","kid":"k{seed}"}}"#))
}

fn token_with(seed: u8, header: &str) -> Vec<u8> {
    let header = URL_SAFE_NO_PAD.encode(header);
    let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"plc-7","exp":99999999999}"#);
    let signed = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(key(seed).sign(signed.as_bytes()));
    format!("{signed}.{signature}").into_bytes()
}

fn rules() -> TokenRules {
    TokenRules { user: "sub".into(), ..TokenRules::default() }
}

/// A server of what is in `answer`, or of nothing; says how often it was asked.
async fn server(answer: Arc<Mutex<String>>) -> (Endpoint, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 1024];
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(buffer[..read].starts_with(b"GET /keys HTTP/1.1"));
            count.fetch_add(1, Ordering::SeqCst);
            let body = answer.lock().unwrap().clone();
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all((head + &body).as_bytes()).await.unwrap();
        }
    });
    (Endpoint::parse(&url).unwrap(), asked)
}

#[tokio::test]
async fn an_address_is_asked_for_a_key_that_is_not_known_once_a_minute() {
    let answer = Arc::new(Mutex::new(set(&[1])));
    let (endpoint, asked) = server(answer.clone()).await;
    let tokens = Tokens::of_address(rules(), endpoint);
    assert_eq!(tokens.check(&token(1)).await.unwrap().user, "plc-7");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    *answer.lock().unwrap() = set(&[1, 2]);
    for _ in 0..5 {
        let why = tokens.check(&token(2)).await.unwrap_err();
        assert_eq!(why, "no key is known here that it names (kid) or that has signed it");
        tokens.check(&token(1)).await.unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "within the minute");
    let Source::Address(asked_of) = &tokens.source else { panic!() };
    let last = Instant::now().checked_sub(UNKNOWN).unwrap();
    *asked_of.last.lock().await = Some(last);
    let before = tokens.edition();
    tokens.check(&token(2)).await.unwrap();
    assert_eq!((asked.load(Ordering::SeqCst), tokens.edition()), (2, before + 1));
    // What it said counts while it says nothing that is of use.
    *answer.lock().unwrap() = "down".into();
    *asked_of.last.lock().await = Some(last);
    tokens.check(&token(3)).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let shown = tokens.check(&token(2)).await.unwrap();
    // After a reload that leaves the address as it is, nobody has to be asked again.
    let same = Endpoint::parse(&asked_of.endpoint.to_string()).unwrap();
    let next = Tokens::of_address(rules(), same);
    assert!(!next.trust(shown.key));
    next.inherit(&tokens);
    assert!(next.trust(shown.key));
    next.check(&token(2)).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn an_address_is_asked_too_for_the_key_of_a_token_that_names_none() {
    let answer = Arc::new(Mutex::new(set(&[1])));
    let (endpoint, asked) = server(answer.clone()).await;
    let tokens = Tokens::of_address(rules(), endpoint);
    let nameless = |seed| token_with(seed, r#"{"alg":"EdDSA"}"#);
    tokens.check(&nameless(1)).await.unwrap();
    *answer.lock().unwrap() = set(&[2]);
    tokens.check(&nameless(2)).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 1, "within the minute");
    let Source::Address(asked_of) = &tokens.source else { panic!() };
    *asked_of.last.lock().await = Some(Instant::now().checked_sub(UNKNOWN).unwrap());
    tokens.check(&nameless(2)).await.unwrap();
    // A set without a key withdraws all of them.
    let shown = tokens.check(&token(2)).await.unwrap();
    *answer.lock().unwrap() = set(&[]);
    *asked_of.last.lock().await = Some(Instant::now().checked_sub(UNKNOWN).unwrap());
    tokens.check(&nameless(3)).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert!(!tokens.trust(shown.key));
}

/// A sound set with an entry that nobody can sign with here.
const FOREIGN: &str = r#"{"keys":[{"kty":"EC","crv":"P-521","kid":"k9","x":"AA","y":"AA"}]}"#;

#[tokio::test]
async fn a_set_of_which_nothing_is_of_use_withdraws_the_keys_before_and_is_none_at_the_start() {
    let answer = Arc::new(Mutex::new(FOREIGN.to_owned()));
    let (endpoint, _) = server(answer.clone()).await;
    let tokens = Tokens::of_address(rules(), endpoint);
    let Source::Address(asked) = &tokens.source else { panic!() };
    asked.ask_now(Duration::ZERO).await;
    assert_eq!(tokens.edition(), 0);
    *answer.lock().unwrap() = set(&[1]);
    asked.ask_now(Duration::ZERO).await;
    let shown = tokens.check(&token(1)).await.unwrap();
    *answer.lock().unwrap() = FOREIGN.to_owned();
    asked.ask_now(Duration::ZERO).await;
    assert!(!tokens.trust(shown.key));

    let file = std::env::temp_dir().join(format!("tidegate-foreign-{}", std::process::id()));
    std::fs::write(&file, FOREIGN).unwrap();
    assert!(Tokens::of_file(rules(), &file).is_err());
    std::fs::write(&file, set(&[1])).unwrap();
    let tokens = Tokens::of_file(rules(), &file).unwrap();
    tokens.check(&token(1)).await.unwrap();
    std::fs::write(&file, FOREIGN).unwrap();
    assert!(tokens.check(&token(1)).await.is_err());
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn a_file_of_keys_is_followed() {
    let file = std::env::temp_dir().join(format!("tidegate-jwks-{}", std::process::id()));
    std::fs::write(&file, set(&[1])).unwrap();
    let tokens = Tokens::of_file(rules(), &file).unwrap();
    let shown = tokens.check(&token(1)).await.unwrap();
    assert!(tokens.check(&token(2)).await.is_err() && tokens.trust(shown.key));
    std::fs::write(&file, set(&[2]) + " ").unwrap();
    tokens.check(&token(2)).await.unwrap();
    assert!(tokens.check(&token(1)).await.is_err() && !tokens.trust(shown.key));
    std::fs::remove_file(&file).unwrap();
}
