//! Users, their file, and who gets in.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use argon2::password_hash::{PasswordHasher, SaltString};
use argon2::{Argon2, Params};
use tokio::task::JoinSet;

use super::users::{UserFile, Users};
use super::*;

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-users-{name}-{}", std::process::id()))
}

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn claim(user: &str, password: &str) -> Claim {
    Claim { user: Some(user.into()), password: Some(password.into()) }
}

#[test]
fn users_are_added_verified_and_removed() {
    let file = file("file");
    let mut users = Users::default();
    users.add("plc-7", b"secret").unwrap();
    users.add("plc-8", b"other").unwrap();
    users.write(&file).unwrap();
    let mut users = Users::read(&file).unwrap();
    assert_eq!(users.names().collect::<Vec<_>>(), ["plc-7", "plc-8"]);
    assert_eq!(users.recall("plc-7", b"secret"), None);
    assert!(users.verify("plc-7", b"secret"));
    assert_eq!(users.recall("plc-7", b"secret"), Some(true));
    assert!(!users.verify("plc-7", b"other") && !users.verify("plc-9", b"secret"));
    assert_eq!(users.recall("plc-7", b"other"), Some(false));
    assert_eq!((users.recall("plc-8", b"secret"), users.recall("plc-8", b"other")), (None, None));
    assert!(users.remove("plc-8") && !users.remove("plc-8"));
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn wrong_lines_are_named() {
    let mut users = Users::default();
    users.add("a", b"x").unwrap();
    let path = file("lines");
    users.write(&path).unwrap();
    let line = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(Users::parse(&format!("# users\n\n{line}")).is_ok());
    let wrong = |text: &str| Users::parse(text).unwrap_err();
    assert_eq!(wrong(&format!("{line}{line}")), (2, "this user stands above already"));
    assert_eq!(wrong("\nplc-7").0, 2);
    assert_eq!(wrong("plc-7:secret"), (1, "no Argon2id hash: `tidegate user add` makes one"));
    assert!(wrong(&line.replace("m=19456", "m=9999999")).1.contains("costs more"));
    assert!(wrong(&line.replacen("a:", "a/b:", 1)).1.contains("no : / + #"));
    for name in ["", "a:b", "+", "x\n", " x", "#x"] {
        assert!(users.add(name, b"x").is_err(), "{name:?}");
    }
    assert!(users.add("b", b"").is_err());
}

#[tokio::test]
async fn who_may_come_in() {
    let path = file("login");
    let mut users = Users::default();
    users.add("plc-7", b"secret").unwrap();
    users.write(&path).unwrap();
    let rules = vec![Allow::new(Some("plc-*".into()), vec!["f/%u".into()], Vec::new()).unwrap()];
    let by_password =
        |anonymous| Identification::Password { users: UserFile::open(&path).unwrap(), anonymous };
    let access = Access::new(by_password(false), Some(rules.clone()));
    let mut grants = access.login(claim("plc-7", "secret"), None, HERE).await.unwrap();
    assert!(grants.allows(&"f/plc-7".into()) && !grants.allows(&"f/plc-8".into()));
    let denied = async |access: &Access, claim| access.login(claim, None, HERE).await.unwrap_err();
    assert_eq!(denied(&access, claim("plc-7", "wrong")).await, Denied::Password);
    assert_eq!(denied(&access, claim("plc-8", "secret")).await, Denied::Password);
    let nameless = Claim { user: Some("plc-7".into()), password: None };
    assert_eq!(denied(&access, nameless).await, Denied::Password);
    assert_eq!(denied(&access, Claim::default()).await, Denied::Anonymous);
    let open = Access::new(by_password(true), Some(rules));
    let mut grants = open.login(Claim::default(), None, HERE).await.unwrap();
    assert!(!grants.allows(&"f/plc-7".into()));
    assert_eq!(denied(&open, claim("plc-7", "wrong")).await, Denied::Password);
    // A changed file counts at once.
    users.remove("plc-7");
    users.add("plc-9", b"new").unwrap();
    users.write(&path).unwrap();
    assert_eq!(denied(&access, claim("plc-7", "secret")).await, Denied::Password);
    assert!(access.login(claim("plc-9", "new"), None, HERE).await.is_ok());
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn a_certificate_names_its_user() {
    let access = Access::new(Identification::Certificate, None);
    assert_eq!(access.login(claim("a", "b"), None, HERE).await.unwrap_err(), Denied::Certificate);
    let wrong = access.login(Claim::default(), Some(b"no certificate"), HERE).await;
    assert_eq!(wrong.unwrap_err(), Denied::Certificate);
}

/// Password checks of one network fill its turns, and not those of another: whoever floods, the right
/// password of a user who is not remembered waits for a few checks, however many there are.
#[tokio::test]
async fn a_flood_of_wrong_passwords_delays_the_right_one_by_a_few_checks() {
    const FLOOD: usize = 60;
    let path = file("flood");
    // The cheapest hash that there is: of "secret".
    let (hasher, salt) = cheap();
    let hash = hasher.hash_password(b"secret", &salt).unwrap().to_string();
    std::fs::write(&path, format!("plc-7:{hash}\nplc-8:{hash}\n")).unwrap();
    let users = UserFile::open(&path).unwrap();
    let access = Arc::new(Access::new(Identification::Password { users, anonymous: false }, None));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut flood = JoinSet::new();
    for number in 0..FLOOD {
        let (access, answered) = (access.clone(), answered.clone());
        flood.spawn(async move {
            // Under the victim's own name, too.
            let name = ["plc-7", "plc-8"][number % 2];
            let wrong = access.login(claim(name, &format!("wrong {number}")), None, HERE).await;
            assert_eq!(wrong.unwrap_err(), Denied::Password);
            answered.fetch_add(1, Ordering::SeqCst);
        });
    }
    // All of them wait now, or have a turn.
    tokio::task::yield_now().await;
    let there = IpAddr::from([127, 0, 0, 2]);
    let right = (access.clone(), answered.clone());
    // A task like theirs, so that tasks run in the order of their answers: the runtime may let many of them run
    // before it comes back to this test.
    let right = tokio::spawn(async move {
        let (access, answered) = right;
        let before = answered.load(Ordering::SeqCst);
        access.login(claim("plc-7", "secret"), None, there).await.unwrap();
        answered.load(Ordering::SeqCst) - before
    });
    let before = right.await.unwrap();
    assert!(before <= 3 * CHECKS_MAX, "{before} of {FLOOD} wrong ones went first");
    flood.join_all().await;
    // The same ones again cost no check: nobody waits for them.
    let again = access.login(claim("plc-8", "wrong 1"), None, HERE);
    let again = tokio::time::timeout(Duration::ZERO, again).await;
    assert_eq!(again.unwrap().unwrap_err(), Denied::Password);
    std::fs::remove_file(path).unwrap();
}

fn cheap() -> (Argon2<'static>, SaltString) {
    let params = Params::new(Params::MIN_M_COST, 1, 1, None).unwrap();
    let hasher = Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    (hasher, SaltString::from_b64("c29tZSBzYWx0IGhlcmU").unwrap())
}
