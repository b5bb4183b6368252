//! Serves the most urgent class, keeps every class's minimum share and drains late records beside.
//! Source: own; the order of service is that of papers/janus.txt, Alg. 2.
//! Inputs: the next piece of each class's live and late list, bytes sent. Outputs: the class and list to
//! serve. O(classes) a pick.
//! Deviations: JANUS grants rates an interval ahead; here nothing is granted ahead, so what a class
//! leaves unused is lent downward at once (docs/ALGORITHMS.md#tidegate).
//! Limits: CLASSES_MAX; credits are bounded by `CREDIT_MAX`, or one cut where that is more.

use tidegate_types::class::{ClassId, Classes};
use tidegate_types::units::{Rate, Ratio, Size, Time};

use crate::queue::{Ranking, Timing};
use crate::scheduler::{Choice, ClassView, NextCut, Scheduler, SchedulerEntry};

/// How the node uses it.
pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    build: |classes| Box::new(Tidegate::new(classes)),
    ranking: Ranking::Deadline,
    has_classes: true,
    favours_alarms: true,
};

/// Bound on what a class can save up or owe, in bytes: a quarter of a second of 2 Mbit/s.
const CREDIT_MAX: f64 = 64.0 * 1024.0;

/// The bound for one class: at high rates a single cut is larger, and must be within reach.
fn credit_max(view: &ClassView) -> f64 {
    let piece = |piece: Option<NextCut>| piece.map_or(0.0, |piece| piece.size.as_f64());
    CREDIT_MAX.max(piece(view.live)).max(piece(view.late))
}

/// The rule, in order:
/// 1. a class with a backlog that is owed more than its next piece by its minimum share;
/// 2. class by class, most urgent first: its live records, then its late ones as far as their share
///    reaches (before the live ones, once the whole credit is saved up);
/// 3. late records, most urgent class first.
#[derive(Debug)]
struct Tidegate {
    classes: Vec<ClassState>,
}

#[derive(Debug)]
struct ClassState {
    min_share: Ratio,
    late_share: Ratio,
    cap: Option<Rate>,
    /// Bytes that the class is owed by its minimum share.
    owed: f64,
    /// Bytes that its late list may take ahead of less urgent live records.
    late_credit: f64,
    /// When its cap lets it send again.
    capped_until: Time,
}

impl Tidegate {
    /// For these classes, nothing owed.
    fn new(classes: &Classes) -> Self {
        let state = |(_, spec): (ClassId, &tidegate_types::class::ClassSpec)| ClassState {
            min_share: spec.min_share,
            late_share: spec.late_share,
            cap: spec.cap,
            owed: 0.0,
            late_credit: CREDIT_MAX / 2.0,
            capped_until: Time::ZERO,
        };
        Tidegate { classes: classes.iter().map(state).collect() }
    }
}

impl ClassState {
    fn is_capped(&self, now: Time) -> bool {
        self.capped_until > now
    }

    fn choose(&self, view: &ClassView) -> Option<Timing> {
        let late = view.late.map(|piece| piece.size.as_f64());
        match (view.live, late) {
            (Some(_), Some(_)) if self.late_credit >= credit_max(view) => Some(Timing::Late),
            (Some(_), _) => Some(Timing::Live),
            (None, Some(piece)) if self.late_credit >= piece => Some(Timing::Late),
            _ => None,
        }
    }
}

impl Scheduler for Tidegate {
    fn next(&mut self, now: Time, views: &[ClassView]) -> Option<Choice> {
        let classes = || {
            let pairs = self.classes.iter().zip(views).enumerate();
            pairs.filter(|(_, (state, _))| !state.is_capped(now))
        };
        let choice = |(place, timing)| Choice { class: ClassId(place as u8), timing };
        let owed = classes().find_map(|(place, (state, view))| {
            let (piece, timing) = match (view.live, view.late) {
                (Some(piece), _) => (piece, Timing::Live),
                (None, Some(piece)) => (piece, Timing::Late),
                (None, None) => return None,
            };
            (state.owed >= piece.size.as_f64()).then_some((place, timing))
        });
        let urgent =
            || classes().find_map(|(place, (state, view))| Some((place, state.choose(view)?)));
        let leftover =
            || classes().find_map(|(place, (_, view))| view.late.map(|_| (place, Timing::Late)));
        owed.or_else(urgent).or_else(leftover).map(choice)
    }

    fn sent(&mut self, now: Time, choice: Choice, bytes: Size, views: &[ClassView]) {
        let bytes = bytes.as_f64();
        for (state, view) in self.classes.iter_mut().zip(views) {
            if view.has_live || view.has_late {
                state.owed += bytes * state.min_share.as_f64();
            } else {
                state.owed = state.owed.min(0.0);
            }
            if view.has_late {
                state.late_credit += bytes * state.late_share.as_f64();
            } else {
                state.late_credit = CREDIT_MAX / 2.0;
            }
        }
        let served = &mut self.classes[choice.class.index()];
        served.owed -= bytes;
        if choice.timing == Timing::Late {
            served.late_credit -= bytes;
        }
        if let Some(cap) = served.cap {
            let earliest = served.capped_until.max(now);
            served.capped_until = earliest + cap.time_for(Size(bytes as u64));
        }
        for (state, view) in self.classes.iter_mut().zip(views) {
            let most = credit_max(view);
            state.owed = state.owed.clamp(-most, most);
            state.late_credit = state.late_credit.clamp(-most, most);
        }
    }

    fn next_timeout(&self, now: Time, views: &[ClassView]) -> Option<Time> {
        let waits = |(state, view): (&ClassState, &ClassView)| {
            let has_some = view.live.is_some() || view.late.is_some();
            (has_some && state.is_capped(now)).then_some(state.capped_until)
        };
        self.classes.iter().zip(views).filter_map(waits).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_types::class::{ClassSpec, default_classes};

    use super::*;

    const PIECE: Option<NextCut> = Some(NextCut { size: Size(1000), order: 0 });
    const NONE: ClassView = ClassView { live: None, late: None, has_live: false, has_late: false };
    const LIVE: ClassView = ClassView { live: PIECE, has_live: true, ..NONE };
    const LATE: ClassView = ClassView { late: PIECE, has_late: true, ..NONE };
    const BOTH: ClassView = ClassView { late: PIECE, has_late: true, ..LIVE };

    fn with(change: impl Fn(&mut ClassSpec)) -> Tidegate {
        let mut specs = default_classes();
        specs.iter_mut().for_each(change);
        Tidegate::new(&Classes::new(specs).unwrap())
    }

    /// Bytes that each (class, list) got of `picks` pieces while the views stay as they are.
    fn serve(scheduler: &mut Tidegate, views: &[ClassView; 3], picks: u64) -> [[u64; 2]; 3] {
        let mut got = [[0; 2]; 3];
        for _ in 0..picks {
            let choice = scheduler.next(Time::ZERO, views).unwrap();
            scheduler.sent(Time::ZERO, choice, Size(1000), views);
            got[choice.class.index()][choice.timing as usize] += 1000;
        }
        got
    }

    #[test]
    fn the_urgent_live_record_goes_first() {
        let mut scheduler = with(|_| ());
        let first =
            |scheduler: &mut Tidegate, views: [ClassView; 3]| scheduler.next(Time::ZERO, &views);
        let choice = |class, timing| Some(Choice { class: ClassId(class), timing });
        assert_eq!(first(&mut scheduler, [LIVE, LIVE, LIVE]), choice(0, Timing::Live));
        assert_eq!(first(&mut scheduler, [NONE, LIVE, LIVE]), choice(1, Timing::Live));
        assert_eq!(first(&mut scheduler, [BOTH, LIVE, NONE]), choice(0, Timing::Live));
        assert_eq!(first(&mut scheduler, [NONE, NONE, NONE]), None);
    }

    #[test]
    fn a_few_late_alarms_go_before_fresh_bulk() {
        let mut scheduler = with(|_| ());
        let choice = scheduler.next(Time::ZERO, &[LATE, NONE, LIVE]).unwrap();
        assert_eq!(choice, Choice { class: ClassId(0), timing: Timing::Late });
    }

    #[test]
    fn a_long_backlog_drains_at_its_share_and_delays_nobody_more() {
        let mut scheduler = with(|_| ());
        let got = serve(&mut scheduler, &[LATE, NONE, LIVE], 10_000);
        // 10 % of 10 MB, and the credit saved up at the start.
        assert!((1_000_000..1_100_000).contains(&got[0][1]), "{got:?}");
        let got = serve(&mut scheduler, &[BOTH, NONE, NONE], 10_000);
        assert!((900_000..1_100_000).contains(&got[0][1]), "{got:?}");
    }

    #[test]
    fn a_minimum_share_is_kept_under_any_urgency() {
        let mut scheduler = with(|spec| spec.min_share = Ratio::new(0.05));
        let got = serve(&mut scheduler, &[LIVE, LIVE, LATE], 10_000);
        assert!(got[1][0] >= 495_000 && got[2][1] >= 495_000, "{got:?}");
        assert!(got[0][0] >= 8_900_000, "{got:?}");
    }

    #[test]
    fn what_is_unused_is_lent_and_a_cap_is_a_cap() {
        let mut scheduler = with(|spec| spec.cap = Some(Rate::new(10_000.0)));
        let mut now = Time::ZERO;
        let mut sent = 0;
        let end = Time::from_millis(2000);
        while now < end {
            match scheduler.next(now, &[NONE, NONE, LIVE]) {
                Some(choice) => {
                    sent += 1000;
                    scheduler.sent(now, choice, Size(1000), &[NONE, NONE, LIVE]);
                }
                None => now = scheduler.next_timeout(now, &[NONE, NONE, LIVE]).unwrap(),
            }
        }
        assert_eq!(sent, 20_000);
        assert_eq!(now.since(end), Duration::ZERO);
    }
}
