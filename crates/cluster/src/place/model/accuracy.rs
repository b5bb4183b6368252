//! How right predictions were: in size, and in what they would have decided.
//! Source: papers/topic-placement.txt, §VI-B for R2 of the logarithm; the rest own.
//! Inputs: predicted and measured 90th percentile and bound of each topic. Outputs: shares. O(n).
//! Deviations: the paper's accuracy is R2 alone, which says little of decisions near the bound (docs/algorithms-place.md#verdict).
//! Limits: none.

/// A topic that was predicted and measured, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionCase {
    /// 90th percentile as predicted; infinite where the machine was said not to keep up.
    pub predicted: f64,
    /// As measured.
    pub measured: f64,
    /// Its bound.
    pub bound: f64,
}

/// How right predictions were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PredictionAccuracy {
    /// Topics.
    pub cases: usize,
    /// R2 of the logarithm; predictions and measurements beyond ten bounds count as that.
    pub r2: f64,
    /// Topics whose measured p90 was between half and twice the bound.
    pub near: usize,
    /// Part of these whose bound was kept, or missed, as predicted.
    pub near_right: f64,
    /// The same of all.
    pub right: f64,
    /// Part of those that missed their bound that were predicted to keep it.
    pub missed: f64,
    /// Part of those that were predicted to keep it that missed it.
    pub miss: f64,
    /// Part of those that kept it that were predicted to miss it.
    pub refused: f64,
}

/// So many bounds, and all beyond them, are alike: how late overload makes records is a matter of how long it lasts.
pub(super) const SAME: f64 = 10.0;

/// Judges predictions.
pub fn judge(cases: &[PredictionCase]) -> PredictionAccuracy {
    let misses = |p90: f64, bound: f64| p90 > bound;
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    let count = |of: &dyn Fn(&PredictionCase) -> bool| cases.iter().filter(|case| of(case)).count();
    let is_near = |case: &PredictionCase| (0.5..=2.0).contains(&(case.measured / case.bound));
    let is_right = |case: &PredictionCase| {
        misses(case.predicted, case.bound) == misses(case.measured, case.bound)
    };
    let violates = |case: &PredictionCase| misses(case.measured, case.bound);
    let is_fine = |case: &PredictionCase| !misses(case.predicted, case.bound);
    let wrongly_fine = count(&|case| violates(case) && is_fine(case));
    let near = count(&is_near);
    let kept = count(&|case| !violates(case));
    PredictionAccuracy {
        cases: cases.len(),
        r2: r2(cases),
        near,
        near_right: share(count(&|case| is_near(case) && is_right(case)), near),
        right: share(count(&is_right), cases.len()),
        missed: share(wrongly_fine, count(&violates)),
        miss: share(wrongly_fine, count(&is_fine)),
        refused: share(count(&|case| !violates(case) && !is_fine(case)), kept),
    }
}

fn r2(cases: &[PredictionCase]) -> f64 {
    let log = |p90: f64, bound: f64| p90.clamp(1e-9, SAME * bound).ln();
    let measured = |case: &PredictionCase| log(case.measured, case.bound);
    let mean = cases.iter().map(measured).sum::<f64>() / cases.len().max(1) as f64;
    let square = |of: &dyn Fn(&PredictionCase) -> f64| {
        cases.iter().map(|case| of(case).powi(2)).sum::<f64>()
    };
    let left = square(&|case| log(case.predicted, case.bound) - measured(case));
    1.0 - left / square(&|case| measured(case) - mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(predicted: f64, measured: f64) -> PredictionCase {
        PredictionCase { predicted, measured, bound: 1.0 }
    }

    #[test]
    fn decisions_are_counted_by_hand() {
        let cases = [
            case(0.9, 0.8),
            case(0.7, 1.2),
            case(1.1, 1.3),
            case(1.1, 0.9),
            case(0.1, 0.1),
            case(f64::INFINITY, 30.0),
        ];
        let verdict = judge(&cases);
        assert_eq!((verdict.cases, verdict.near), (6, 4));
        assert!((verdict.near_right - 0.5).abs() < 1e-12, "{verdict:?}");
        assert!((verdict.right - 4.0 / 6.0).abs() < 1e-12);
        assert!(
            (verdict.missed - 1.0 / 3.0).abs() < 1e-12 && (verdict.miss - 1.0 / 3.0).abs() < 1e-12
        );
        assert!((verdict.refused - 1.0 / 3.0).abs() < 1e-12);
        // ln 0.9/0.8, 0.7/1.2, 1.1/1.3, 1.1/0.9, and two that are the same.
        assert!(verdict.r2 > 0.9 && verdict.r2 < 1.0);
    }

    #[test]
    fn what_is_predicted_as_measured_is_all_right() {
        let verdict = judge(&[case(0.5, 0.5), case(2.0, 2.0)]);
        assert_eq!((verdict.r2, verdict.right, verdict.missed), (1.0, 1.0, 0.0));
    }
}
