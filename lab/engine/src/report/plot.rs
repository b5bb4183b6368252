//! What a plot shows: axes with units, and curves.

use serde::{Deserialize, Serialize};

/// Points that a curve may have; more say nothing more on paper.
const POINTS_MAX: usize = 600;

/// Two axes and what lies between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows, in a line.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// At most seven can be told apart.
    pub curves: Vec<Curve>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// What it counts.
    pub label: String,
    /// In which unit.
    pub unit: String,
    /// Whether equal distances are equal ratios; values that are not positive are left out then.
    pub is_log: bool,
}

impl Axis {
    /// An axis whose equal distances are equal differences.
    pub fn linear(label: &str, unit: &str) -> Axis {
        Axis { label: label.into(), unit: unit.into(), is_log: false }
    }

    /// An axis whose equal distances are equal ratios.
    pub fn log(label: &str, unit: &str) -> Axis {
        Axis { is_log: true, ..Axis::linear(label, unit) }
    }
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// Straight from point to point.
    #[default]
    Line,
    /// A value holds until the next one.
    Steps,
    /// Only the points.
    Dots,
}

/// One contestant, or one quantity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// x and y, in the axes' units; x does not fall.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve of at most `POINTS_MAX` of these points; of a longer list every n-th and the last one are
    /// left, and of a time series the highest of each n.
    pub fn new(name: &str, mark: Mark, points: Vec<(f64, f64)>) -> Curve {
        let each = points.len().div_ceil(POINTS_MAX).max(1);
        let highest = |some: &[(f64, f64)]| some.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let points = points.chunks(each).filter_map(highest).collect();
        Curve { name: name.into(), mark, points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_keep_their_peaks() {
        let peak = |at: usize| if at == 4321 { 9.0 } else { 1.0 };
        let series = (0..10_000).map(|at| (at as f64, peak(at))).collect();
        let curve = Curve::new("a", Mark::Line, series);
        assert!(curve.points.len() <= POINTS_MAX && curve.points.contains(&(4321.0, 9.0)));
        assert_eq!(Curve::new("none", Mark::Line, Vec::new()).points, []);
    }
}
