//! Finds the first node with room for a load, without looking at the others.
//! Source: own; the tree of maxima with which first fit is done in O(n log n) (Johnson, 1973).
//! Inputs: what each node has left. Outputs: a node. O(log n).
//! Deviations: none.
//! Limits: none.

/// What each node has left, in a tree of maxima: O(log n) for a change and for each node found.
#[derive(Clone, Debug, Default)]
pub(super) struct Residual {
    /// Leaves behind their parents; the number of leaves is a power of two.
    tree: Vec<f64>,
    leaves: usize,
}

impl Residual {
    /// Sets what a node has left; negative where it takes nothing more.
    pub(super) fn set(&mut self, node: usize, left: f64) {
        if node >= self.leaves {
            self.grow(node + 1);
        }
        let mut place = self.leaves + node;
        self.tree[place] = left;
        while place > 1 {
            place /= 2;
            self.tree[place] = self.tree[2 * place].max(self.tree[2 * place + 1]);
        }
    }

    fn grow(&mut self, nodes: usize) {
        let leaves = nodes.next_power_of_two();
        let mut tree = vec![f64::NEG_INFINITY; 2 * leaves];
        let old = self.leaves;
        if old > 0 {
            tree[leaves..leaves + old].copy_from_slice(&self.tree[old..]);
        }
        for place in (1..leaves).rev() {
            tree[place] = tree[2 * place].max(tree[2 * place + 1]);
        }
        (self.tree, self.leaves) = (tree, leaves);
    }

    /// The first node from `from` on with at least so much left.
    pub(super) fn first(&self, from: usize, wanted: f64) -> Option<usize> {
        if from >= self.leaves {
            return None;
        }
        let mut place = self.leaves + from;
        // Up, as long as nothing to the right has enough.
        while self.tree[place] < wanted {
            while place & 1 == 1 {
                place /= 2;
                if place <= 1 {
                    return None;
                }
            }
            place += 1;
        }
        while place < self.leaves {
            place *= 2;
            if self.tree[place] < wanted {
                place += 1;
            }
        }
        Some(place - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_look_at_all_finds(
            sets in prop::collection::vec((0..40usize, -1..20i32), 0..80),
            from in 0..50usize, wanted in 0..20i32,
        ) {
            let (mut tree, mut plain) = (Residual::default(), vec![f64::NEG_INFINITY; 40]);
            for (node, left) in sets {
                tree.set(node, f64::from(left));
                plain[node] = f64::from(left);
            }
            let wanted = f64::from(wanted);
            let first = (from..40).find(|&node| plain[node] >= wanted);
            prop_assert_eq!(tree.first(from, wanted), first);
        }
    }
}
