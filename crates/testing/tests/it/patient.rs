//! An uplink that sends a backlog is patient.

use std::time::Duration;

use tidegate_node::io::{Input, OutputId};
use tidegate_node::node::Node;
use tidegate_node::options::NodeOptions;
use tidegate_node::rules::{Rule, Rules};
use tidegate_testing::{Disk, Wire, offer, trial_options};
use tidegate_types::record::AcceptMode;
use tidegate_types::units::Size;

/// A roomy node whose every record is durable.
fn options(boot: u64) -> NodeOptions {
    let mut options = trial_options(0);
    let all = Rule::catch_all(&options.classes, vec![OutputId(0)]);
    let rule = Rule { accept: AcceptMode::Durable, ..all };
    options.rules = Rules::new(vec![rule]).unwrap();
    options.memory = Size::from_mib(8);
    let log = options.log.as_mut().unwrap();
    (log.boot, log.bound, log.segment) = (boot, Size::from_mib(8), Size::from_mib(1));
    options
}

fn offer_many(wire: &mut Wire) {
    for _ in 0..300 {
        wire.handle(Input::Arrived(vec![offer(wire.now, 0, "state", 1_500)]));
    }
    wire.sync();
}

#[test]
fn an_uplink_is_patient_while_a_backlog_is_sent() {
    let mut wire = Wire::new(Node::new(options(1)).unwrap());
    wire.poll();
    wire.sync();
    wire.open(0, "sensor");
    offer_many(&mut wire);
    let empty = Disk::new(Wire::log_name(&wire.node), Vec::new());
    let disk = std::mem::replace(&mut wire.disk, empty);
    let node = Node::resume(options(2), disk.recover().unwrap()).unwrap();
    let name = Wire::log_name(&node);
    let mut wire = Wire::on(node, disk.boot(name));
    wire.poll();
    wire.sync();
    wire.open(0, "sensor");
    wire.up();
    let is_patient = |wire: &Wire| wire.node.uplinks()[0].is_patient;
    assert!(!is_patient(&wire));
    while wire.read_back() {
        wire.run(Duration::from_millis(5));
    }
    assert!(is_patient(&wire), "a backlog of 450 kB went");
    offer_many(&mut wire);
    wire.run(Duration::from_millis(5));
    assert!(!is_patient(&wire), "as much that is fresh went");
}
