//! What boosted trees add to the logarithm of a prediction, inside of the hull of what they were trained with.
//! Source: Friedman, Greedy function approximation: a gradient boosting machine, 2001; trained by scikit-learn, evaluated here.
//! Inputs: features. Outputs: a summand, or nothing outside of the hull. O(trees x depth).
//! Deviations: none.
//! Limits: [`TREES_MAX`], [`NODES_MAX`].

use serde::{Deserialize, Serialize};

use super::ModelError;
use super::shape::FEATURES;

/// Trees at most.
pub(super) const TREES_MAX: usize = 1000;
/// Nodes of a tree at most.
pub(super) const NODES_MAX: usize = 1000;

/// Boosted trees as a file has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoostedTrees {
    /// Names of the features: those of this version, in their order.
    pub features: Vec<String>,
    /// The least value of each with which the trees were trained.
    pub low: Vec<f64>,
    /// The greatest.
    pub high: Vec<f64>,
    /// What is added to the sum of the trees.
    pub base: f64,
    /// The trees.
    pub trees: Vec<RegressionTree>,
}

/// A tree, by columns. Node 0 is the root; children stand behind their parents; a leaf has itself as both children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegressionTree {
    /// By which feature a node parts.
    pub feature: Vec<usize>,
    /// Up to and with this value it goes left.
    pub threshold: Vec<f64>,
    /// The left child.
    pub left: Vec<usize>,
    /// The right child.
    pub right: Vec<usize>,
    /// What a leaf adds.
    pub value: Vec<f64>,
}

impl BoostedTrees {
    /// # Errors
    /// Features that are not this version's, or trees that are none.
    pub(super) fn check(&self) -> Result<(), ModelError> {
        let wrong = |what: &str| Err(ModelError::Residual(what.into()));
        if self.features != FEATURES {
            return wrong("its features are not those of this version");
        }
        let bounds = [&self.low, &self.high];
        if bounds.iter().any(|side| side.len() != FEATURES.len()) {
            return wrong("a hull has a least and a greatest value of each feature");
        }
        let is_finite = bounds.iter().all(|side| side.iter().all(|value| value.is_finite()));
        if self.trees.len() > TREES_MAX || !is_finite || !self.base.is_finite() {
            return wrong("too many trees, or a number that is none");
        }
        if !self.trees.iter().all(RegressionTree::is_sound) {
            return wrong("a tree whose nodes do not fit together");
        }
        Ok(())
    }

    /// What is added to the logarithm; `None` outside of the hull.
    pub(super) fn of(&self, features: &[f64]) -> Option<f64> {
        let mut sides = features.iter().zip(self.low.iter().zip(&self.high));
        // A hair's breadth, for values that are the same by other arithmetic.
        let is_inside = sides.all(|(value, (low, high))| {
            let hair = 1e-9 * (1.0 + value.abs());
            (low - hair..=high + hair).contains(value)
        });
        let sum = || self.base + self.trees.iter().map(|tree| tree.of(features)).sum::<f64>();
        is_inside.then(sum)
    }
}

impl RegressionTree {
    fn is_sound(&self) -> bool {
        let nodes = self.feature.len();
        let columns = [self.threshold.len(), self.left.len(), self.right.len(), self.value.len()];
        let within = |place: usize| {
            let child = |child: usize| child < nodes && (child > place || self.is_leaf(place));
            self.feature[place] < FEATURES.len()
                && child(self.left[place])
                && child(self.right[place])
                && self.threshold[place].is_finite()
                && self.value[place].is_finite()
        };
        (1..=NODES_MAX).contains(&nodes)
            && columns.iter().all(|&column| column == nodes)
            && (0..nodes).all(within)
    }

    fn is_leaf(&self, place: usize) -> bool {
        self.left[place] == place && self.right[place] == place
    }

    fn of(&self, features: &[f64]) -> f64 {
        let mut place = 0;
        while !self.is_leaf(place) {
            let goes_left = features[self.feature[place]] <= self.threshold[place];
            place = if goes_left { self.left[place] } else { self.right[place] };
        }
        self.value[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residual() -> BoostedTrees {
        // By load: up to 0.5 a tenth less, above a fifth more.
        let tree = RegressionTree {
            feature: vec![1, 0, 0],
            threshold: vec![0.5, 0.0, 0.0],
            left: vec![1, 1, 2],
            right: vec![2, 1, 2],
            value: vec![0.0, -0.1, 0.2],
        };
        let features = FEATURES.map(str::to_owned).to_vec();
        let (low, high) = (vec![0.0; FEATURES.len()], vec![1.0; FEATURES.len()]);
        BoostedTrees { features, low, high, base: 0.05, trees: vec![tree.clone(), tree] }
    }

    #[test]
    fn trees_are_summed_inside_of_the_hull() {
        let residual = residual();
        residual.check().unwrap();
        let at = |load: f64| {
            let mut features = [0.5; FEATURES.len()];
            features[1] = load;
            residual.of(&features)
        };
        assert!(
            (at(0.5).unwrap() + 0.15).abs() < 1e-12 && (at(0.51).unwrap() - 0.45).abs() < 1e-12
        );
        assert_eq!((at(1.1), at(-0.1), at(f64::NAN)), (None, None, None));
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let break_it: [fn(&mut BoostedTrees); 6] = [
            |residual| residual.features[0] = "else".into(),
            |residual| residual.low.truncate(1),
            |residual| residual.base = f64::NAN,
            |residual| residual.trees[0].left[0] = 0,
            |residual| residual.trees[0].right[0] = 3,
            |residual| residual.trees[1].feature[0] = FEATURES.len(),
        ];
        for harm in break_it {
            let mut residual = residual();
            harm(&mut residual);
            assert!(residual.check().is_err(), "{residual:?}");
        }
    }
}
