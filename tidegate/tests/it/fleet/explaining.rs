//! Why a record went through a neighbour.

use tokio::time::{interval, timeout};

use crate::fleet::PATIENCE;
use crate::fleet::gate::{Gate, Load, Plan};
use crate::fleet::together::{PERIOD, ask, lead};

#[tokio::test(flavor = "multi_thread")]
async fn a_record_hears_why_it_went_through_a_neighbour() {
    let nodes = ["gate-1", "gate-2"];
    let plan = Plan { is_named: false, has_logs: true, ..Plan::new("fleet-explain", &nodes) };
    let leader = lead(&plan).await;
    let mut idle = Gate::start(&plan, "gate-2").await;
    let mut busy = Gate::start(&plan, "gate-1").await;
    let mut load = Load::open(&busy).await;
    let mut period = interval(PERIOD);
    let all = async {
        loop {
            tokio::select! {
                _ = period.tick() => load.send("bulk/1").await,
                Some(record) = idle.carried.recv() => break record.identity.clone(),
            }
        }
    };
    let carried = timeout(PATIENCE, all).await.expect("a neighbour carries a record in time");
    let own = busy.record().await.identity.clone();
    busy.node.stop(PATIENCE).await;

    let log = plan.log("gate-1");
    let explain = |words: &[&str]| ask(&plan, plan.orchestrators[0], words).1;
    let log = log.to_str().unwrap();
    let why = explain(&["explain", &carried.to_string(), "-d", log]);
    assert!(why.contains("confirmed, carried by gate-2,"), "{why}");
    assert!(why.contains("It went by the uplink of gate-2. At "), "{why}");
    assert!(why.contains("lt was short of") && why.contains("to lend"), "{why}");
    let why = explain(&["explain", &own.to_string(), "-d", log]);
    assert!(why.contains("confirmed") && !why.contains("gate-2"), "{why}");
    leader.stop().await;
    idle.node.stop(PATIENCE).await;
}
