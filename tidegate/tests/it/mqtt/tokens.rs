//! Logins by tokens and by a server that is asked.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rmqtt_codec::v5;
use tidegate::support::access::hook::{Hook, HookRules};
use tidegate::support::access::token::TokenRules;
use tidegate::support::access::{Access, Identification, Tokens};
use tidegate::support::http::endpoint::Endpoint;

use crate::mqtt::PATIENCE;
use crate::mqtt::client::{Client, publish_v311};
use crate::mqtt::node::Node;
use crate::support::certificates::Authority;

fn key(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

/// A file with the public keys of these seeds.
fn keys(folder: &Authority, seeds: &[u8]) -> PathBuf {
    let entry = |seed: &u8| {
        let x = URL_SAFE_NO_PAD.encode(key(*seed).public_key());
        format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"k{seed}","x":"{x}"}}"#)
    };
    let entries: Vec<String> = seeds.iter().map(entry).collect();
    let file = folder.file("jwks.json");
    std::fs::write(&file, format!(r#"{{"keys":[{}]}}"#, entries.join(","))).unwrap();
    file
}

/// A token of plc-7 that the key of this seed signed, and that counts for so many seconds.
fn token(seed: u8, seconds: u64) -> String {
    let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + seconds;
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"EdDSA","kid":"k{seed}"}}"#));
    let claims = format!(r#"{{"sub":"plc-7","exp":{until},"may":["a/%u/#"]}}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(key(seed).sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

async fn node(tokens: Option<Tokens>, hook: Option<Hook>) -> Node {
    let by = Identification::Elsewhere { anonymous: false };
    let access = Access::new(by, None).asking(tokens, hook);
    Node::with(|options| options.access = Arc::new(access)).await
}

fn tokens(file: &std::path::Path) -> Tokens {
    let rules =
        TokenRules { user: "sub".into(), topics: Some("may".into()), ..TokenRules::default() };
    Tokens::of_file(rules, file).unwrap()
}

async fn login(node: &Node, id: &str, user: &str, password: &str) -> (Client, u8) {
    let connect = v5::Connect {
        clean_start: true,
        client_id: id.to_owned().into(),
        username: Some(user.to_owned().into()),
        password: Some(password.to_owned().into()),
        ..v5::Connect::default()
    };
    let (client, ack) = Client::v5(node.address(), connect).await;
    (client, ack.reason_code.into())
}

/// The answer to a QoS 1 publish.
async fn publish(client: &mut Client, topic: &str) -> u8 {
    client.send(&publish_v311(topic, Some(7), b"\0x")).await;
    let answer = client.packet().await;
    assert_eq!((answer[0], &answer[2..4]), (0x40, &[0, 7][..]));
    answer.get(4).copied().unwrap_or_default()
}

#[tokio::test]
async fn a_token_names_its_user_and_his_rights_until_it_expires_or_its_key_is_gone() {
    let folder = Authority::new("tokens");
    let file = keys(&folder, &[1, 2]);
    let node = node(Some(tokens(&file)), None).await;
    // The name in the CONNECT says nothing.
    let (mut stays, code) = login(&node, "stays", "anybody", &token(1, 3600)).await;
    assert_eq!(code, 0);
    assert_eq!(publish(&mut stays, "a/plc-7/b").await, 0);
    assert_eq!(publish(&mut stays, "a/anybody/b").await, 0x87);
    for wrong in [token(3, 3600), token(1, 0), "eyJ.eyJ.".into(), "secret".into()] {
        assert_eq!(login(&node, "wrong", "plc-7", &wrong).await.1, 0x86, "{wrong}");
    }
    let denied = node.counts.read().denied;
    assert_eq!((denied["token"], denied["password"]), (3, 1));
    let (mut expires, code) = login(&node, "expires", "", &token(1, 2)).await;
    assert_eq!(code, 0);
    assert_eq!(expires.dismissed().await, 0x87);
    let (mut goes, code) = login(&node, "goes", "", &token(2, 3600)).await;
    assert_eq!(code, 0);
    keys(&folder, &[1]);
    assert_eq!(goes.dismissed().await, 0x87);
    assert_eq!(publish(&mut stays, "a/plc-7/b").await, 0);
    node.stop().await;
}

/// Answers each question with `answer`, on a connection of its own.
fn server(answer: &'static str) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/login", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut text, mut buffer) = (stream.unwrap(), Vec::new(), [0; 1024]);
            while !text.ends_with(b"}") {
                let count = stream.read(&mut buffer).unwrap();
                text.extend(&buffer[..count]);
            }
            let length = answer.len();
            let head =
                format!("HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all((head + answer).as_bytes()).unwrap();
        }
    });
    Endpoint::parse(&url).unwrap()
}

fn rules() -> HookRules {
    HookRules { timeout: PATIENCE, cache: PATIENCE, cache_max: 10, allow_when_down: false }
}

#[tokio::test]
async fn a_server_says_who_comes_in_and_may_do_what() {
    let yes = server(r#"{"allow": true, "publish": ["b/%u"]}"#);
    let node = node(None, Some(Hook::new(yes, rules()))).await;
    let (mut client, code) = login(&node, "one", "plc-7", "secret").await;
    assert_eq!(code, 0);
    assert_eq!(publish(&mut client, "b/plc-7").await, 0);
    assert_eq!(publish(&mut client, "b/plc-8").await, 0x87);
    node.stop().await;
}

#[tokio::test]
async fn a_server_that_is_silent_delays_nobody_who_is_in() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let hook = Hook::new(Endpoint::parse(&url).unwrap(), rules());
    let folder = Authority::new("silent");
    let node = node(Some(tokens(&keys(&folder, &[1]))), Some(hook)).await;
    let mut waiting = Vec::new();
    for number in 0..100 {
        let mut client = Client::open(node.address()).await;
        let connect = v5::Connect {
            client_id: format!("c{number}").into(),
            username: Some("plc-8".to_owned().into()),
            password: Some("secret".to_owned().into()),
            ..v5::Connect::default()
        };
        client.send(&crate::mqtt::client::v5(connect.into())).await;
        waiting.push(client);
    }
    // The server has been asked, and says nothing.
    let (_asked, _) = silent.accept().unwrap();
    let (mut client, code) = login(&node, "in", "", &token(1, 3600)).await;
    assert_eq!(code, 0);
    assert_eq!(publish(&mut client, "a/plc-7/b").await, 0);
    drop(waiting);
    node.stop().await;
}
