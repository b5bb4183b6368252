//! Schedulers that grant rates ahead, in the whole node.

use tidegate_node::options::NodeOptions;
use tidegate_schedule::SchedulerName;
use tidegate_testing::Wire;

use crate::node::support::*;

const GRANTING: [SchedulerName; 2] = [SchedulerName::JanusPaper, SchedulerName::Janus];

fn on_two_megabit(scheduler: SchedulerName) -> Wire {
    up(NodeOptions { scheduler, ..narrow(rules()) })
}

fn allocated(wire: &mut Wire) -> f64 {
    wire.status().classes.iter().map(|class| class.allocated_rate.as_f64()).sum()
}

#[test]
fn everything_arrives_in_the_order_of_its_class() {
    for scheduler in GRANTING {
        let mut wire = on_two_megabit(scheduler);
        let mut offered = Vec::new();
        for turn in 0..200 {
            for class in ["lt", "nm", "ls"] {
                let key = format!("{class}/{turn}");
                wire.offer(&key, 900);
                offered.push(key);
            }
            wire.advance(ms(1));
        }
        // Past every deadline: in these queues nothing is late.
        wire.run(ms(20_000));
        let status = wire.status();
        assert_eq!((status.counts.confirmed, status.held), (600, 0), "{scheduler:?}");
        for class in ["ls", "nm", "lt"] {
            let of_class = |keys: Vec<String>| -> Vec<String> {
                keys.into_iter().filter(|key| key.starts_with(class)).collect()
            };
            assert_eq!(of_class(wire.keys()), of_class(offered.clone()), "{scheduler:?}");
        }
        assert!(wire.history.iter().any(|cut| cut.path == lane(LT)), "a lane a class");
    }
}

#[test]
fn what_is_granted_is_told_and_is_no_more_than_there_is() {
    for scheduler in GRANTING {
        let mut wire = on_two_megabit(scheduler);
        let capacity = wire.status().uplinks[0].capacity.as_f64();
        for turn in 0..500 {
            wire.offer(if turn % 3 == 0 { "ls/a" } else { "lt/a" }, 3_000);
            wire.run(ms(5));
            let allocated = allocated(&mut wire);
            assert!(allocated > 0.0 && allocated <= capacity * 1.000_001, "{scheduler:?}");
        }
    }
}

#[test]
fn a_class_is_held_to_its_rate_though_the_wire_is_free() {
    // Even shares: bulk alone gets a third until its second is over.
    let mut wire = on_two_megabit(SchedulerName::JanusPaper);
    (0..70).for_each(|_| wire.offer("lt/a", 900));
    let capacity = wire.status().uplinks[0].capacity;
    wire.run(ms(500));
    let bytes: u64 = wire.history.iter().map(|cut| cut.range.end - cut.range.start).sum();
    let third = capacity.as_f64() * 0.5 / 3.0;
    assert!((bytes as f64) < third * 1.3, "{bytes} of {third}");
    wire.run(ms(4_000));
    assert_eq!(wire.status().held, 0);
}

#[test]
fn without_a_known_capacity_nothing_is_held_back() {
    for scheduler in GRANTING {
        let mut wire = down(NodeOptions { scheduler, ..options(rules()) });
        for key in ["lt/1", "nm/2", "ls/3"] {
            wire.offer(key, 1_000);
        }
        wire.up();
        wire.carry();
        assert_eq!(wire.status().held, 0, "{scheduler:?}");
    }
}

#[test]
fn bulk_leaves_alarms_room_among_the_unconfirmed() {
    for scheduler in GRANTING {
        let mut options = NodeOptions { scheduler, ..options(rules()) };
        options.outputs[0].unconfirmed_max = 10;
        let mut wire = up(options);
        for _ in 0..20 {
            wire.offer("lt/a", 1);
            while wire.send() {}
        }
        wire.offer("ls/a", 1);
        assert!(wire.keys().contains(&"ls/a".into()), "{scheduler:?}");
    }
}
