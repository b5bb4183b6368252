//! Three orchestrators: one leads, another follows it when it is gone, and nodes need none of them.

use std::collections::BTreeSet;
use std::time::Instant;

use tidegate_testbed::free_port;
use tidegate_types::record::Identity;
use tokio::time::{interval, sleep, timeout};

use crate::fleet::PATIENCE;
use crate::fleet::etcd::Etcd;
use crate::fleet::gate::{Gate, Load, Plan};
use crate::fleet::orchestrators::Orchestrators;
use crate::fleet::together::{PERIOD, ask};

/// A busy node and two idle ones.
struct Fleet {
    busy: Gate,
    idle: [Gate; 2],
    load: Load,
    arrived: Vec<Identity>,
}

impl Fleet {
    async fn start(plan: &Plan) -> Fleet {
        let idle = [Gate::start(plan, "gate-2").await, Gate::start(plan, "gate-3").await];
        let busy = Gate::start(plan, "gate-1").await;
        let load = Load::open(&busy).await;
        Fleet { busy, idle, load, arrived: Vec::new() }
    }

    /// Keeps the busy node busy until its neighbours have carried so many more of its records.
    async fn redirect(&mut self, wanted: usize) {
        let mut carried = 0;
        let mut period = interval(PERIOD);
        let Fleet { busy, idle: [second, third], load, arrived } = self;
        let all = async {
            while carried < wanted {
                let (record, is_redirected) = tokio::select! {
                    _ = period.tick() => { load.send("bulk/1").await; continue }
                    record = busy.carried.recv() => (record, false),
                    record = second.carried.recv() => (record, true),
                    record = third.carried.recv() => (record, true),
                };
                carried += usize::from(is_redirected);
                arrived.push(record.unwrap().identity.clone());
            }
        };
        timeout(PATIENCE, all).await.expect("neighbours carry records in time");
    }

    /// The next record, whoever carried it: an alarm asks a neighbour soon.
    async fn record(&mut self) -> Identity {
        let [second, third] = &mut self.idle;
        let record = tokio::select! {
            record = self.busy.carried.recv() => record,
            record = second.carried.recv() => record,
            record = third.carried.recv() => record,
        };
        record.expect("nodes carry").identity.clone()
    }

    /// Sends more until `is_done`.
    async fn until(&mut self, is_done: impl Fn(&Fleet) -> bool) {
        let all = async {
            while !is_done(self) {
                self.load.send("alarm/1").await;
                let record = self.record().await;
                self.arrived.push(record);
            }
        };
        timeout(PATIENCE, all).await.expect("it comes in time");
    }

    /// All that was accepted has arrived, each record once.
    async fn finish(mut self) {
        let rest = async {
            while (self.arrived.len() as u64) < self.load.sent {
                let record = self.record().await;
                self.arrived.push(record);
            }
        };
        timeout(PATIENCE, rest).await.expect("all arrive in time");
        let Fleet { busy, idle: [second, third], load, arrived } = self;
        let distinct: BTreeSet<&Identity> = arrived.iter().collect();
        assert_eq!((distinct.len() as u64, arrived.len() as u64), (load.sent, load.sent));
        let status = busy.node.stop(PATIENCE).await;
        assert_eq!((status.counts.confirmed, status.held), (load.sent, 0));
        second.node.stop(PATIENCE).await;
        third.node.stop(PATIENCE).await;
    }
}

/// A fleet with three orchestrators that are found, and so many members of etcd; `None` without etcd.
fn several(name: &str, members: usize) -> Option<(Plan, Etcd)> {
    let mut plan = Plan::new(name, &["gate-1", "gate-2", "gate-3"]);
    plan.orchestrators.extend([free_port(), free_port()]);
    let etcd = Etcd::start(members, &plan.authority)?;
    Some((plan, etcd))
}

#[tokio::test(flavor = "multi_thread")]
async fn another_follows_a_leader_that_dies_or_sleeps() {
    let Some((plan, etcd)) = several("fleet-several", 1) else { return };
    let mut all = Orchestrators::start(&plan.authority, &plan.orchestrators, &etcd.urls());
    let first = all.leader().await;
    let mut fleet = Fleet::start(&plan).await;
    fleet.redirect(50).await;
    // Whom one asks does not matter: a standby names the leader.
    for port in &plan.orchestrators {
        let (is_answered, status) = ask(&plan, *port, &["status"]);
        assert!(is_answered && status.contains("3 nodes"), "{status}");
    }
    assert!(ask(&plan, plan.orchestrators[0], &["drain", "gate-3"]).0);
    all.know_who_is_drained(first).await;

    all.signal(first, "KILL");
    let killed = Instant::now();
    let second = all.leader().await;
    println!("another leads {:.2} s after a leader was killed", killed.elapsed().as_secs_f64());
    assert_ne!(second, first);
    fleet.redirect(50).await;
    // What only the dead one knew, its successor knows.
    let (_, why) = ask(&plan, plan.orchestrators[second], &["explain", "gate-3"]);
    assert!(why.contains("It is drained"), "{why}");

    all.signal(second, "STOP");
    let third = all.leader().await;
    assert!(![first, second].contains(&third));
    fleet.redirect(50).await;
    all.signal(second, "CONT");
    all.deposed(second).await;
    fleet.redirect(50).await;
    // It may hear a moment later who leads.
    let named = async {
        while !ask(&plan, plan.orchestrators[second], &["status"]).1.contains("3 nodes") {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, named).await.expect("the deposed one names the leader");

    // One that is asked to stop leaves the lead at once.
    all.signal(third, "TERM");
    assert_eq!(all.leader().await, second);
    fleet.redirect(20).await;
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_of_etcd_nodes_go_on_alone() {
    let Some((plan, mut etcd)) = several("fleet-majority", 3) else { return };
    let mut all = Orchestrators::start(&plan.authority, &plan.orchestrators, &etcd.urls());
    let first = all.leader().await;
    let mut fleet = Fleet::start(&plan).await;
    fleet.redirect(30).await;
    etcd.kill_member(0);
    etcd.kill_member(1);
    all.deposed(first).await;
    let figures = |gate: &Gate| gate.node.boards.fleet.read().unwrap();
    fleet.until(|fleet| !figures(&fleet.busy).has_leader).await;
    // What was granted lasts as long as its lease.
    fleet.until(|fleet| figures(&fleet.busy).borrowed == 0).await;
    etcd.start_member(0);
    etcd.start_member(1);
    all.leader().await;
    fleet.redirect(30).await;
    fleet.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orchestrators_wait_for_etcd() {
    let Some((plan, mut etcd)) = several("fleet-late-etcd", 1) else { return };
    etcd.kill_member(0);
    let mut all = Orchestrators::start(&plan.authority, &plan.orchestrators, &etcd.urls());
    let refused = async {
        loop {
            let (is_answered, why) = ask(&plan, plan.orchestrators[0], &["status"]);
            assert!(!is_answered);
            if why.contains("it does not lead, and knows nobody who does") {
                return;
            }
            sleep(PERIOD).await;
        }
    };
    timeout(PATIENCE, refused).await.expect("it says so");
    etcd.start_member(0);
    all.leader().await;
    let answered = async {
        while !ask(&plan, plan.orchestrators[0], &["status"]).0 {
            sleep(PERIOD).await;
        }
    };
    timeout(PATIENCE, answered).await.expect("it knows the leader");
}
