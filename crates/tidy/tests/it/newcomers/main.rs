//! Uses the three newcomers by their names.

use tidegate_capacity::{RateControllerName, UplinkOptions, build};
use tidegate_fleet::{Amount, Candidates, MatchingName, MatchingProblem};
use tidegate_schedule::{ClassView, NextCut, SchedulerName};
use tidegate_types::class::{ClassId, Classes, default_classes};
use tidegate_types::units::{Rate, Size, Time};

fn main() {
    let classes = Classes::new(default_classes()).unwrap();
    let mut scheduler = "newest".parse::<SchedulerName>().unwrap().build(&classes);
    let view = |order| ClassView::new(Some(NextCut { size: Size(1), order }), None);
    let choice = scheduler.next(Time::ZERO, &[view(1), view(3), view(2)]).unwrap();
    assert_eq!(choice.class, ClassId(1));

    let controller: RateControllerName = "steady".parse().unwrap();
    let cap = Some(Rate::from_bits(8e6));
    let options = UplinkOptions { name: "wan".into(), controller, cap, ..UplinkOptions::default() };
    assert_eq!(build(&options).rate(), Rate::from_bits(4e6));

    let mut candidates = Candidates::default();
    candidates.push(&[]);
    let problem = MatchingProblem::new(&candidates, vec![Amount(5); 3], vec![Amount(0)]);
    assert!("nobody".parse::<MatchingName>().unwrap().solve(&problem, 1).is_empty());
}
