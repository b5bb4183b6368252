//! What the whole nodes of a world are made of.

use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{
    BacklogOrder, FleetSeat, LogOptions, NodeOptions, OutputOptions, UplinkOptions,
};
use tidegate_node::rules::{Rule, Rules};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{ClassId, ClassSpec, Classes, default_classes};
use tidegate_types::record::AcceptMode;
use tidegate_types::units::{Rate, Ratio, Size};

/// Keys of the classes' records.
pub(super) const CLASSES: [&str; 3] = ["ls", "nm", "lt"];
/// The class of neighbours' records.
const RELAYED: ClassId = ClassId(3);
const MEMORY: Size = Size::from_mib(64);

/// A node's own uplink, which it is told to carry so many bytes/s, and a line to each other node.
pub(super) fn options(place: usize, nodes: usize, told: f64, boot: u64) -> NodeOptions {
    let mut specs = default_classes();
    specs.push(ClassSpec::new("relay", Duration::from_secs(2)));
    specs.iter_mut().for_each(|spec| spec.min_share = Ratio::ZERO);
    let classes = Classes::new(specs).expect("four classes");
    let uplink = |name: &str, controller, cap| UplinkOptions {
        name: name.into(),
        controller,
        cap,
        ..UplinkOptions::default()
    };
    let own = uplink("wan", RateControllerName::Known, Some(Rate::new(told)));
    let lines = (1..nodes).map(|_| uplink("lan", RateControllerName::Unlimited, None));
    let output = |(at, name): (u16, String)| OutputOptions {
        name: name.as_str().into(),
        uplink: UplinkId(at),
        overhead: Size::ZERO,
        unconfirmed_max: 10_000,
        one_lane: false,
        is_gone: false,
    };
    let peers = (0..nodes).filter(|&peer| peer != place).map(|peer| format!("gate-{peer}"));
    let names = std::iter::once("cloud".to_owned()).chain(peers);
    NodeOptions {
        name: format!("gate-{place}").into(),
        incarnation: 1,
        rules: rules(&classes),
        classes,
        uplinks: std::iter::once(own).chain(lines).collect(),
        outputs: (0..).zip(names).map(output).collect(),
        scheduler: SchedulerName::Tidegate,
        memory: MEMORY,
        inbound: None,
        record_max: Size::from_mib(1),
        log: Some(LogOptions {
            boot,
            bound: MEMORY,
            segment: Size(100_000),
            backlog: BacklogOrder::OldestFirst,
        }),
        fleet: Some(FleetSeat { output: OutputId(0), relayed: RELAYED }),
    }
}

/// Durable streams of its own; neighbours' are theirs.
fn rules(classes: &Classes) -> Rules {
    let all = Rule { bound: MEMORY, ..Rule::catch_all(classes, vec![OutputId(0)]) };
    let own = CLASSES.into_iter().zip([50, 500, 1000]).map(|(name, bound)| {
        let rule = Rule { accept: AcceptMode::Durable, ..all.clone() };
        rule.for_topics(classes, name, &[name], Duration::from_millis(bound)).expect("a topic")
    });
    let relay = |of| {
        let (of, to) = (ClassId(of), OutputId(0));
        [Rule::reserved(classes, of, to), Rule::relay(classes, of, RELAYED, to)]
            .map(|rule| Rule { bound: MEMORY, ..rule })
    };
    Rules::new(own.chain((0..3).flat_map(relay)).collect()).expect("nine rules")
}
