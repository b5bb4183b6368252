//! Nodes that prove who they are to each other, and commands that need a proof.

use std::process::Command;
use std::time::Duration;

use crate::group::client::{Publisher, Subscriber};
use crate::group::{NAMES, Proof, Trio, told, wait_until};
use crate::support::certificates::Authority;
use crate::support::process::Node;

/// What operators remember goes along.
const SUMS: &str = "[[stream]]\nto = []\n\
    [[operator]]\nname = \"tens\"\nfrom = [\"t/a\", \"t/b\", \"t/c\"]\nto = \"t/tens/%2\"\n\
    do = [{ parse = { csv = { columns = [\"of\", \"x\"], separator = \":\" } } }, \
    { window = { field = \"x\", of = \"sum\", rows = 10 } }]\n";

/// `tidegate move t --to b` by a file of `c` that shows something else; what it said.
fn refused(trio: &Trio, proof: Option<Proof>) -> String {
    let others = Trio {
        name: trio.name,
        folder: trio.folder.clone(),
        ports: trio.ports.clone(),
        more: trio.more,
        proofs: proof.into_iter().cycle().take(NAMES.len()).collect(),
    };
    let file = trio.folder.join("stranger.toml");
    std::fs::write(&file, others.config(2)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["move", "t", "--to", "b", "-c"]).arg(file);
    let (is_done, out, errors) = told(command);
    assert!(!is_done && out.is_empty() && errors.contains("t stays where it is"), "{out}{errors}");
    errors
}

#[test]
fn topics_move_among_members_that_prove_who_they_are_and_by_nobody_else() {
    let authority = Authority::new("group-proving");
    let trio = Trio::proven("proving", SUMS, &authority);
    let _nodes: Vec<_> = (0..3).map(|place| trio.start(place)).collect();
    let raw: Vec<_> =
        (0..3).map(|place| Subscriber::start(trio.mqtt(place), "raw", "t/+")).collect();
    let publishers: Vec<_> = (0..3)
        .map(|place| Publisher::start(trio.mqtt(place), NAMES[place], Duration::from_millis(1)))
        .collect();
    let flows = |count| publishers.iter().all(|publisher| publisher.answered() >= count);
    wait_until("records to flow", || flows(50));

    let foreign = Authority::new("group-foreign");
    refused(&trio, None);
    refused(&trio, Some(Proof::of(&foreign, &foreign.issue("c"))));
    let by_no_member = refused(&trio, Some(Proof::of(&authority, &authority.issue("d"))));
    assert!(by_no_member.contains("commands need the certificate of a member"), "{by_no_member}");

    for (turn, to) in [1, 2, 0].into_iter().enumerate() {
        assert!(trio.give(to, &[]), "to {}", NAMES[to]);
        let least = publishers.iter().map(Publisher::answered).max().unwrap() + 50;
        wait_until(&format!("records after move {turn}"), || flows(least));
    }
    let counts: Vec<u64> = publishers.into_iter().map(Publisher::finish).collect();
    for raw in &raw {
        wait_until("all records", || raw.seen().len() as u64 >= counts.iter().sum());
        for (name, count) in NAMES.iter().zip(&counts) {
            assert!(raw.of(name).into_iter().eq(1..=*count), "{name}: {:?}", raw.of(name));
        }
    }
}

#[test]
fn a_node_with_the_certificate_of_another_is_no_member() {
    let authority = Authority::new("group-posing");
    let mut trio = Trio::proven("posing", "", &authority);
    trio.proofs[1] = Proof::of(&authority, &authority.issue("c"));
    let mut b = Node::start("group-posing-b", &trio.config(1));
    b.wait_for("ready;");
    let mut a = Node::start("group-posing-a", &trio.config(0));
    // Neither when it is dialled, nor when it dials.
    let said = loop {
        let said = a.wait_for(" of the group");
        if said.ends_with("member=b") {
            break said;
        }
    };
    assert!(said.contains("the certificate there is that of \"c\""), "{said}");
    b.wait_for("the name in the certificate is not the node's");
    let (is_done, _, errors) = told(trio.order(1, &[]));
    assert!(!is_done && errors.contains("the other node is away"), "{errors}");
}
