//! Shares of owners: nobody fills the table of streams or the log alone.

use std::time::Duration;

use tidegate_log::SessionOwner;
use tidegate_node::io::Control;
use tidegate_node::options::{LogOptions, NodeOptions};
use tidegate_node::rules::{FullPolicy, Rule};
use tidegate_testing::{Wire, offer};
use tidegate_types::limits::STREAMS_MAX;
use tidegate_types::record::{Offered, Owner, Quota, RefuseReason, SourceId, Token};
use tidegate_types::units::Size;

use tidegate_testing::support::*;

const TOO_MANY: Result<(), RefuseReason> = Err(RefuseReason::TooManyStreams);
const FULL: Result<(), RefuseReason> = Err(RefuseReason::Full);

fn user(name: &str) -> Owner {
    Owner::User(name.into())
}

/// A connection on somebody's account.
fn open(wire: &mut Wire, source: u32, name: &str, owner: Owner, quota: Quota) {
    wire.open(source, name);
    wire.control(Control::Charge { source: SourceId(source), owner, quota });
}

/// Whether a record of a connection is taken.
fn takes(wire: &mut Wire, source: u32, size: usize) -> Result<(), RefuseReason> {
    wire.answers.clear();
    wire.ask(source, 1, "ls/a", size);
    wire.sync();
    wire.answers.last().unwrap().2
}

#[test]
fn one_owner_cannot_fill_the_table_of_streams() {
    let mut wire = down(options(rules()));
    let mallory = Owner::Address("at 10.0.0.1".into());
    let mut refused = 0;
    for number in 1..STREAMS_MAX as u32 {
        open(&mut wire, number, &format!("c{number}"), mallory.clone(), Quota::default());
        refused += u32::from(takes(&mut wire, number, 1) == TOO_MANY);
        wire.control(Control::Close(SourceId(number)));
        wire.forget_history();
    }
    assert!(refused > STREAMS_MAX as u32 / 3, "a third is left for others: {refused}");
    open(&mut wire, 0, "newcomer", Owner::Address("at 10.0.0.2".into()), Quota::default());
    assert_eq!(takes(&mut wire, 0, 1), Ok(()));
    open(&mut wire, 0, "another", mallory.clone(), Quota::default());
    assert_eq!(takes(&mut wire, 0, 1), TOO_MANY);
    // What is sent makes room.
    wire.up();
    wire.carry();
    open(&mut wire, 0, "another", mallory, Quota::default());
    assert_eq!(takes(&mut wire, 0, 1), Ok(()));
}

#[test]
fn a_user_has_as_many_streams_as_his_quota_says() {
    let mut wire = down(options(rules()));
    let quota = Quota { streams: Some(2), log: None };
    for (source, expected) in [(1, Ok(())), (2, Ok(())), (3, TOO_MANY)] {
        open(&mut wire, source, &format!("c{source}"), user("alice"), quota);
        assert_eq!(takes(&mut wire, source, 1), expected, "stream {source}");
    }
    open(&mut wire, 4, "c4", user("bob"), quota);
    assert_eq!(takes(&mut wire, 4, 1), Ok(()));
    // A stream that was there is no new one.
    assert_eq!(takes(&mut wire, 1, 1), Ok(()));
}

/// A log of 8 MiB, of which records fill seven.
fn small_log(full: FullPolicy) -> NodeOptions {
    let log = LogOptions { bound: Size::from_mib(8), segment: Size::from_kib(256), ..log() };
    let wide = |rule: Rule| Rule { full, ..durable(rule) };
    NodeOptions { log: Some(log), ..options(rules().into_iter().map(wide).collect()) }
}

/// Offers records of 16 KiB until one is refused; answers with how many were taken.
fn fill(wire: &mut Wire, source: u32) -> usize {
    (0..1000).take_while(|_| takes(wire, source, 16 * 1024) == Ok(())).count()
}

#[test]
fn one_owner_cannot_fill_the_log() {
    let mut wire = down(small_log(FullPolicy::Reject));
    open(&mut wire, 1, "mallory", user("mallory"), Quota::default());
    let taken = fill(&mut wire, 1);
    // 61 % of 7 MiB are 273 records of 16 KiB; each has some bytes more.
    assert!((260..=273).contains(&taken), "{taken}");
    // Another name of the same owner finds nothing more.
    open(&mut wire, 2, "mallory-2", user("mallory"), Quota::default());
    assert_eq!(takes(&mut wire, 2, 16 * 1024), FULL);
    open(&mut wire, 3, "alice", user("alice"), Quota::default());
    assert!(fill(&mut wire, 3) > 40, "a third is left for others");
    open(&mut wire, 4, "bob", user("bob"), Quota::default());
    assert_eq!(takes(&mut wire, 4, 16 * 1024), Ok(()));
    wire.up();
    wire.carry();
    wire.sync();
    wire.up();
    assert_eq!(takes(&mut wire, 1, 16 * 1024), Ok(()), "what was sent makes room");
}

#[test]
fn a_users_quota_of_the_log_holds() {
    let mut wire = down(small_log(FullPolicy::Reject));
    let quota = Quota { streams: None, log: Some(Size::from_kib(100)) };
    open(&mut wire, 1, "alice", user("alice"), quota);
    assert_eq!(fill(&mut wire, 1), 6);
    open(&mut wire, 2, "bob", user("bob"), Quota::default());
    assert_eq!(takes(&mut wire, 2, 16 * 1024), Ok(()));
}

#[test]
fn who_waits_for_his_share_of_the_log_holds_nobody_up() {
    let mut wire = down(small_log(FullPolicy::Block(Duration::from_secs(60))));
    let quota = Quota { streams: None, log: Some(Size::from_kib(100)) };
    open(&mut wire, 1, "alice", user("alice"), quota);
    for token in 1..=10 {
        wire.ask(1, token, "ls/a", 16 * 1024);
    }
    wire.sync();
    assert_eq!(wire.answers.len(), 6, "the others wait");
    open(&mut wire, 2, "bob", user("bob"), Quota::default());
    assert_eq!(takes(&mut wire, 2, 16 * 1024), Ok(()));
    wire.answers.clear();
    wire.up();
    wire.carry();
    wire.sync();
    wire.carry();
    wire.sync();
    assert_eq!(wire.answers.iter().filter(|(.., result)| result.is_ok()).count(), 4);
}

#[test]
fn a_session_is_its_users_after_a_crash() {
    let mut wire = down(options(all_durable()));
    let lasts = Duration::from_secs(3600);
    let owners = [user("alice"), Owner::Address("at 10.0.0.1".into())];
    for (source, owner) in (1..).zip(owners) {
        open(&mut wire, source, &format!("c{source}"), owner, Quota::default());
        let source = SourceId(source);
        wire.control(Control::Session { source, lasts, is_new: true });
        let plain = offer(wire.now, source.0, "ls/a", 1);
        wire.offer_all(vec![Offered { token: Some(Token(7)), packet: Some(7), ..plain }]);
    }
    wire.sync();
    let known = |wire: &Wire| -> Vec<_> {
        wire.node.sessions(wire.now).map(|state| (state.client.to_string(), state.owner)).collect()
    };
    let expected = vec![
        ("c1".to_owned(), SessionOwner::User("alice".into())),
        ("c2".to_owned(), SessionOwner::Anonymous),
    ];
    let mut wire = restart(wire, options(all_durable()));
    assert_eq!(known(&wire), expected);
    // The first checkpoint of this process is all that the next one knows.
    takes(&mut wire, 0, 1).unwrap();
    let wire = restart(wire, options(all_durable()));
    assert_eq!(known(&wire), expected);
}
