//! A decision tree that was trained elsewhere.

use std::sync::Arc;

use serde_json::Value as Json;

use super::chain::StepInstance;
use super::json::field as value_of;
use super::value::{Item, StepError, Value};

/// Nodes of one tree.
const NODES_MAX: usize = 100_000;

/// What is wrong with a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Not even JSON.
    #[error("no JSON: {0}")]
    Json(String),
    /// A node that is neither a leaf nor a question.
    #[error(
        "a node is {{\"leaf\": value}} or {{\"field\": name, \"at_most\": number, \"then\": node, \"else\": node}}, and this one is not: {0}"
    )]
    Node(String),
    /// Too many.
    #[error("more than {NODES_MAX} nodes")]
    TooMany,
}

#[derive(Clone, Debug, PartialEq)]
enum TreeNode {
    Leaf(Value),
    /// At most so much: the first place, else the second.
    Question(Arc<str>, f64, usize, usize),
}

/// A tree, and where what it says goes.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionTree {
    nodes: Arc<[TreeNode]>,
    into: Arc<str>,
}

impl DecisionTree {
    /// Reads a tree from JSON, one of the two kinds of node that [`TreeError::Node`] names.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn read(text: &str, into: Arc<str>) -> Result<DecisionTree, TreeError> {
        let json: Json =
            serde_json::from_str(text).map_err(|error| TreeError::Json(error.to_string()))?;
        let mut nodes = Vec::new();
        // The parser bounds the depth.
        add(&json, &mut nodes)?;
        Ok(DecisionTree { nodes: nodes.into(), into })
    }
}

/// Adds a node behind those under it; returns its place.
fn add(json: &Json, nodes: &mut Vec<TreeNode>) -> Result<usize, TreeError> {
    let wrong = || TreeError::Node(json.to_string().chars().take(80).collect());
    let node = match (json.get("leaf"), json.get("field"), json.get("at_most")) {
        (Some(leaf), None, None) => TreeNode::Leaf(value_of(leaf).ok_or_else(wrong)?),
        (None, Some(field), Some(at_most)) => {
            let field = field.as_str().ok_or_else(wrong)?;
            let at_most = at_most.as_f64().ok_or_else(wrong)?;
            let then = add(json.get("then").ok_or_else(wrong)?, nodes)?;
            let other = add(json.get("else").ok_or_else(wrong)?, nodes)?;
            TreeNode::Question(field.into(), at_most, then, other)
        }
        _ => return Err(wrong()),
    };
    if nodes.len() >= NODES_MAX {
        return Err(TreeError::TooMany);
    }
    nodes.push(node);
    Ok(nodes.len() - 1)
}

impl StepInstance for DecisionTree {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        // Each node stands behind those under it: the places fall, and it ends.
        let mut place = self.nodes.len() - 1;
        let leaf = loop {
            match &self.nodes[place] {
                TreeNode::Leaf(value) => break value.clone(),
                TreeNode::Question(field, at_most, then, other) => {
                    place = if row.number(field)? <= *at_most { *then } else { *other };
                }
            }
        };
        row.set(self.into.clone(), leaf);
        out.push(item);
        Ok(())
    }
}
