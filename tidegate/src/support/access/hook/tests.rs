use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn rules() -> HookRules {
    HookRules {
        timeout: Duration::from_secs(10),
        cache: Duration::from_secs(60),
        cache_max: 2,
        allow_when_down: false,
    }
}

/// A server that knows one password; says how often it was asked.
async fn server() -> (Endpoint, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/login", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let count = count.clone();
            tokio::spawn(async move {
                let (mut text, mut buffer) = (String::new(), [0; 1024]);
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    text += std::str::from_utf8(&buffer[..read]).unwrap();
                    if !text.ends_with('}') {
                        continue;
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                    let (code, body) = match &text {
                        text if text.contains("\"plc-7\"") && text.contains("\"secret\"") => {
                            (200, r#"{"allow": true, "publish": ["a/%u"], "seconds": 100}"#)
                        }
                        text if text.contains("\"odd\"") => (200, r#"{"allow": 1}"#),
                        text if text.contains("\"no\"") => (200, r#"{"allow": false}"#),
                        _ => (403, ""),
                    };
                    let length = body.len();
                    let answer =
                        format!("HTTP/1.1 {code} X\r\nContent-Length: {length}\r\n\r\n{body}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    text.clear();
                }
            });
        }
    });
    (Endpoint::parse(&url).unwrap(), asked)
}

/// An address where nobody listens.
async fn nowhere() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap()
}

#[tokio::test]
async fn an_answer_counts_for_its_user_and_password_and_is_kept_within_a_bound() {
    let (endpoint, asked) = server().await;
    let hook = Hook::new(endpoint, rules());
    let yes = hook.ask("plc-7", b"secret", HERE).await.unwrap();
    let Verdict::Yes { allow, until } = &yes else { panic!("{yes:?}") };
    let expected = Allow::new(None, vec!["a/%u".into()], Vec::new()).unwrap();
    assert_eq!((allow.as_deref(), until.is_some()), (Some(&expected), true));
    assert_eq!(hook.ask("plc-7", b"secret", HERE).await, Ok(yes));
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it is known");
    for (user, password) in [("plc-7", "other"), ("plc-8", "secret"), ("no", "x")] {
        assert_eq!(hook.ask(user, password.as_bytes(), HERE).await, Ok(Verdict::No));
    }
    assert_eq!(hook.ask("plc-7", &[0xFF], HERE).await, Ok(Verdict::No), "no text");
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    assert_eq!(hook.state().kept.len(), 2);
    hook.ask("plc-7", b"secret", HERE).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 5, "two later answers have its place");
}

#[tokio::test]
async fn when_nobody_answers_what_is_configured_counts() {
    let hook = Hook::new(nowhere().await, rules());
    assert_eq!(hook.ask("plc-7", b"secret", HERE).await, Err(Unasked::Down));
    let open = Hook::new(nowhere().await, HookRules { allow_when_down: true, ..rules() });
    let yes = Verdict::Yes { allow: None, until: None };
    assert_eq!(open.ask("plc-7", b"secret", HERE).await, Ok(yes));
    let (endpoint, _) = server().await;
    let odd = Hook::new(endpoint, rules());
    assert_eq!(odd.ask("odd", b"x", HERE).await, Err(Unasked::Down), "no answer that is one");
    assert!(odd.state().kept.is_empty());
    assert_eq!(odd.ask("no", b"x", HERE).await, Ok(Verdict::No), "the server is there");
}

#[tokio::test]
async fn nobody_comes_in_by_a_login_that_the_server_stumbles_over() {
    let (endpoint, asked) = server().await;
    let open = Hook::new(endpoint, HookRules { allow_when_down: true, ..rules() });
    assert_eq!(open.ask("odd", b"x", HERE).await, Err(Unasked::Down));
    assert_eq!(open.ask("a\nb", b"x", HERE).await, Ok(Verdict::No), "no name");
    assert_eq!(open.ask("plc-7", &[b'x'; PASSWORD_MAX + 1], HERE).await, Ok(Verdict::No));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(open.ask("plc-7", b"secret", HERE).await.is_ok_and(|said| said != Verdict::No));
    let elsewhere = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));
    assert!(open.ask("plc-7", b"secret", elsewhere).await.is_ok());
    assert_eq!(asked.load(Ordering::SeqCst), 3, "an answer is that of its address");
}

#[tokio::test]
async fn who_waits_for_a_server_that_is_silent_keeps_nobody_from_being_told() {
    // It accepts, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let timeout = Duration::from_millis(50);
    let hook = Arc::new(Hook::new(endpoint, HookRules { timeout, ..rules() }));
    let key = ("known", &b"x"[..], HERE);
    let key = (hook.keys.0.hash_one(key), hook.keys.1.hash_one(key));
    hook.state().keep(key, Verdict::No, rules());
    let waiting: Vec<_> = (0..3 * UNDER_WAY)
        .map(|number| {
            let hook = hook.clone();
            tokio::spawn(async move { hook.ask(&format!("plc-{number}"), b"x", HERE).await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(hook.ask("known", b"x", HERE).await, Ok(Verdict::No));
    for task in waiting {
        assert_eq!(task.await.unwrap(), Err(Unasked::Down));
    }
    drop(listener);
}
