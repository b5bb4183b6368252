//! Borrowing, and going on alone.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tidegate::services::fleet::orchestrate::{self, Lead, OrchestrateOptions, Orchestrating};
use tidegate_fleet::FleetOptions;
use tidegate_testbed::wait_until_free;
use tidegate_types::record::Identity;
use tokio::time::{interval, timeout};

use crate::fleet::PATIENCE;
use crate::fleet::gate::{Gate, Load, Plan, tls};

/// Between two records of a busy node: twice what its uplink carries.
pub(crate) const PERIOD: Duration = Duration::from_millis(5);

pub(crate) async fn lead(plan: &Plan) -> Orchestrating {
    lead_under(plan, None).await
}

async fn lead_under(plan: &Plan, revision: Option<u64>) -> Orchestrating {
    wait_until_free(plan.orchestrators[0]);
    let options = OrchestrateOptions {
        listen: vec![([127, 0, 0, 1], plan.orchestrators[0]).into()],
        http: None,
        http_hosts: Vec::new(),
        tls: tls(&plan.authority, &plan.authority.issue("orchestrator")),
        operators: vec!["ops".into()],
        nodes: Vec::new(),
        needs_roles: false,
        fleet: FleetOptions::default(),
        lead: Lead::Alone(revision),
    };
    orchestrate::start(options).await.unwrap()
}

/// Keeps a node busy until a neighbour has carried so many of its records. Answers with all that arrived.
async fn busy_until_carried(
    busy: &mut Gate,
    idle: &mut Gate,
    load: &mut Load,
    carried: usize,
) -> Vec<Identity> {
    let mut arrived = Vec::new();
    let mut by_idle = 0;
    let mut period = interval(PERIOD);
    let all = async {
        while by_idle < carried {
            tokio::select! {
                _ = period.tick() => load.send("bulk/1").await,
                record = busy.carried.recv() => arrived.push(record.unwrap().identity.clone()),
                record = idle.carried.recv() => {
                    by_idle += 1;
                    arrived.push(record.unwrap().identity.clone());
                }
            }
        }
    };
    timeout(PATIENCE, all).await.expect("a neighbour carries records in time");
    arrived
}

/// What a person is told.
pub(crate) fn ask(plan: &Plan, port: u16, words: &[&str]) -> (bool, String) {
    let own = plan.authority.issue("ops");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("fleet").args(words);
    command.args(["--at", &format!("localhost:{port}")]);
    command.arg("--ca").arg(plan.authority.ca());
    command.arg("--certificate").arg(own.certificate).arg("--key").arg(own.key);
    let output = command.output().unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// What a person is told of the fleet, its grants and the busy node, which stays busy: what is no longer wanted
/// is over at once.
async fn told_meanwhile(
    plan: &Arc<Plan>,
    [busy, idle]: [&mut Gate; 2],
    load: &mut Load,
    arrived: &mut Vec<Identity>,
) -> [String; 3] {
    let plan = plan.clone();
    let questions: [&[&str]; 3] = [&["status"], &["grants"], &["explain", "gate-1"]];
    let mut told = tokio::task::spawn_blocking(move || {
        questions.map(|words| ask(&plan, plan.orchestrators[0], words).1)
    });
    let mut period = interval(PERIOD);
    loop {
        let record = tokio::select! {
            told = &mut told => return told.unwrap(),
            _ = period.tick() => {
                load.send("bulk/1").await;
                continue;
            }
            record = busy.carried.recv() => record,
            record = idle.carried.recv() => record,
        };
        arrived.push(record.unwrap().identity.clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_borrows_an_uplink_and_every_record_arrives_once() {
    let plan = Arc::new(Plan::new("fleet-borrow", &["gate-1", "gate-2"]));
    let leader = lead(&plan).await;
    let mut idle = Gate::start(&plan, "gate-2").await;
    let mut busy = Gate::start(&plan, "gate-1").await;
    let mut load = Load::open(&busy).await;
    let mut arrived = busy_until_carried(&mut busy, &mut idle, &mut load, 100).await;

    let told = told_meanwhile(&plan, [&mut busy, &mut idle], &mut load, &mut arrived).await;
    let [status, grants, why] = told;
    assert!(status.contains("gate-1") && status.contains("gate-2"), "{status}");
    assert!(
        grants.lines().any(|line| line.starts_with("gate-1") && line.contains("gate-2")),
        "{grants}"
    );
    assert!(why.contains("Records of class lt go through gate-2"), "{why}");

    // Without a leader they go on, by what they hold and then alone.
    leader.stop().await;
    for _ in 0..50 {
        load.send("bulk/1").await;
    }
    let rest = async {
        while (arrived.len() as u64) < load.sent {
            let record = tokio::select! {
                record = busy.record() => record,
                record = idle.carried.recv() => record.unwrap(),
            };
            arrived.push(record.identity.clone());
        }
    };
    timeout(PATIENCE, rest).await.expect("all arrive in time");
    let distinct: BTreeSet<&Identity> = arrived.iter().collect();
    assert_eq!((distinct.len() as u64, arrived.len() as u64), (load.sent, load.sent));
    let status = busy.node.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (load.sent, 0));
    assert!(status.outputs[1].redirected_records >= 100);
    idle.node.stop(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_that_dies_gives_its_records_back() {
    let plan = Plan::new("fleet-death", &["gate-1", "gate-2"]);
    let leader = lead(&plan).await;
    let mut idle = Gate::start(&plan, "gate-2").await;
    let mut busy = Gate::start(&plan, "gate-1").await;
    let mut load = Load::open(&busy).await;
    let mut arrived = busy_until_carried(&mut busy, &mut idle, &mut load, 30).await;
    // Its process ends with redirected records in hand.
    let Gate { node, mut carried } = idle;
    node.stop(Duration::ZERO).await;
    let mut distinct: BTreeSet<Identity> = arrived.drain(..).collect();
    while let Ok(record) = carried.try_recv() {
        distinct.insert(record.identity.clone());
    }
    let rest = async {
        while (distinct.len() as u64) < load.sent {
            let record = busy.record().await;
            distinct.insert(record.identity.clone());
        }
    };
    timeout(PATIENCE, rest).await.expect("what the neighbour had goes by its own uplink");
    let status = busy.node.stop(PATIENCE).await;
    assert_eq!((status.counts.confirmed, status.held), (load.sent, 0));
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_orchestrators_are_away_works_alone() {
    let plan = Plan::new("fleet-alone", &["gate-1", "gate-2"]);
    let mut gate = Gate::start(&plan, "gate-1").await;
    let mut load = Load::open(&gate).await;
    for _ in 0..20 {
        load.send("alarm/1").await;
        gate.record().await;
    }
    let (is_answered, why) = ask(&plan, plan.orchestrators[0], &["status"]);
    assert!(!is_answered && why.contains("no orchestrator answers"), "{why}");
    gate.node.stop(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_lends_nothing_and_strangers_drain_nobody() {
    let plan = Plan::new("fleet-drain", &["gate-1", "gate-2"]);
    let leader = lead(&plan).await;
    let idle = Gate::start(&plan, "gate-2").await;
    let known = async {
        while !ask(&plan, plan.orchestrators[0], &["drain", "gate-2"]).0 {
            tokio::time::sleep(PERIOD).await;
        }
    };
    timeout(PATIENCE, known).await.expect("the orchestrator hears the node");
    let (_, why) = ask(&plan, plan.orchestrators[0], &["explain", "gate-2"]);
    assert!(why.contains("It is drained"), "{why}");
    assert!(ask(&plan, plan.orchestrators[0], &["drain", "gate-2", "--undo"]).0);
    let (is_answered, why) = ask(&plan, plan.orchestrators[0], &["drain", "gate-9"]);
    assert!(!is_answered && why.contains("hears no node called \"gate-9\""), "{why}");
    idle.node.stop(PATIENCE).await;
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_refuse_a_leader_of_the_past() {
    let plan = Plan::new("fleet-fence", &["gate-1", "gate-2"]);
    let leader = lead_under(&plan, Some(7)).await;
    let mut idle = Gate::start(&plan, "gate-2").await;
    let mut busy = Gate::start(&plan, "gate-1").await;
    let mut load = Load::open(&busy).await;
    busy_until_carried(&mut busy, &mut idle, &mut load, 20).await;
    leader.stop().await;
    let figures = |gate: &Gate| gate.node.boards.fleet.read().unwrap();
    let alone = async {
        while figures(&busy).has_leader {
            tokio::time::sleep(PERIOD).await;
        }
    };
    timeout(PATIENCE, alone).await.expect("it sees that the leader is gone");
    let obeyed = figures(&busy).obeyed;
    // Elected before the one that they know: it may grant what it likes.
    let leader = lead_under(&plan, Some(6)).await;
    let refused = async {
        while figures(&busy).refused == 0 || figures(&busy).borrowed > 0 {
            load.send("bulk/1").await;
        }
    };
    timeout(PATIENCE, refused).await.expect("its directives are refused");
    assert_eq!(figures(&busy).obeyed, obeyed);
    leader.stop().await;
    let leader = lead_under(&plan, Some(8)).await;
    busy_until_carried(&mut busy, &mut idle, &mut load, 20).await;
    leader.stop().await;
    busy.node.stop(Duration::ZERO).await;
    idle.node.stop(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_that_nobody_named_is_found_when_it_is_needed() {
    let plan = Plan { is_named: false, ..Plan::new("fleet-found", &["gate-1", "gate-2"]) };
    let leader = lead(&plan).await;
    let mut idle = Gate::start(&plan, "gate-2").await;
    let mut busy = Gate::start(&plan, "gate-1").await;
    let mut load = Load::open(&busy).await;
    let peers = |gate: &Gate| gate.node.boards.fleet.read().map_or(0, |one| one.peers);
    assert_eq!((peers(&busy), peers(&idle)), (0, 0));
    let mut arrived = busy_until_carried(&mut busy, &mut idle, &mut load, 50).await;
    assert_eq!((peers(&busy), peers(&idle)), (1, 0), "only who is short opens a link");
    let rest = async {
        while (arrived.len() as u64) < load.sent {
            let record = tokio::select! {
                record = busy.carried.recv() => record,
                record = idle.carried.recv() => record,
            };
            arrived.push(record.unwrap().identity.clone());
        }
    };
    timeout(PATIENCE, rest).await.expect("all arrive in time");
    let distinct: BTreeSet<&Identity> = arrived.iter().collect();
    assert_eq!((distinct.len() as u64, arrived.len() as u64), (load.sent, load.sent));
    leader.stop().await;
    busy.node.stop(PATIENCE).await;
    idle.node.stop(PATIENCE).await;
}
