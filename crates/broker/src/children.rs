//! The nodes below a node of the tree of subscriptions: small where they are few, for most nodes have one, and
//! found as fast where they are many.

use std::collections::BTreeMap;

/// More stand in a map.
const FEW: usize = 16;

/// Nodes by their level.
#[derive(Debug)]
pub(super) enum Children<Node> {
    /// In order.
    Few(Vec<(Box<str>, Node)>),
    Many(BTreeMap<Box<str>, Node>),
}

impl<Node> Default for Children<Node> {
    fn default() -> Self {
        Children::Few(Vec::new())
    }
}

impl<Node: Default> Children<Node> {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Children::Few(few) => few.is_empty(),
            Children::Many(many) => many.is_empty(),
        }
    }

    pub(super) fn find(&self, level: &str) -> Option<&Node> {
        match self {
            Children::Few(few) => place(few, level).ok().map(|place| &few[place].1),
            Children::Many(many) => many.get(level),
        }
    }

    pub(super) fn find_mut(&mut self, level: &str) -> Option<&mut Node> {
        match self {
            Children::Few(few) => place(few, level).ok().map(|place| &mut few[place].1),
            Children::Many(many) => many.get_mut(level),
        }
    }

    pub(super) fn get_or_insert(&mut self, level: &str) -> &mut Node {
        if let Children::Few(few) = self
            && few.len() == FEW
            && place(few, level).is_err()
        {
            *self = Children::Many(std::mem::take(few).into_iter().collect());
        }
        match self {
            Children::Few(few) => {
                let place = place(few, level).unwrap_or_else(|place| {
                    few.reserve_exact(1);
                    few.insert(place, (level.into(), Node::default()));
                    place
                });
                &mut few[place].1
            }
            Children::Many(many) => many.entry(level.into()).or_default(),
        }
    }

    pub(super) fn remove(&mut self, level: &str) {
        match self {
            Children::Few(few) => {
                if let Ok(place) = place(few, level) {
                    few.remove(place);
                    few.shrink_to_fit();
                }
            }
            Children::Many(many) => {
                many.remove(level);
                if many.len() <= FEW / 2 {
                    *self = Children::Few(std::mem::take(many).into_iter().collect());
                }
            }
        }
    }
}

fn place<Node>(few: &[(Box<str>, Node)], level: &str) -> Result<usize, usize> {
    few.binary_search_by(|(known, _)| (**known).cmp(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_become_many_and_few_again() {
        let mut children = Children::<u64>::default();
        let level = |number: usize| number.to_string();
        for count in 1..=2 * FEW {
            children.get_or_insert(&level(count));
            children.get_or_insert(&level(count));
            assert!((1..=count).all(|number| children.find(&level(number)).is_some()), "{count}");
            assert!(children.find("x").is_none());
        }
        assert!(matches!(children, Children::Many(_)));
        for count in (1..=2 * FEW).rev() {
            assert!(children.find_mut(&level(count)).is_some());
            children.remove(&level(count));
            assert!(children.find(&level(count)).is_none());
        }
        assert!(children.is_empty() && matches!(children, Children::Few(_)));
    }
}
