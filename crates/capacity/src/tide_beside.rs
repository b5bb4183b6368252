//! `tide`, holding a part of the link beside loss-based flows that fill a tail-drop queue.
//! Source: own (docs/ALGORITHMS.md#tide, docs/decisions/0142).
//! Inputs: as `tide`. Outputs: as `tide`.
//! Deviations: none.
//! Limits: on a path whose rate falls to a part while nobody else is there it may take its own queue for a rival's.

use super::controller::Build;
use super::rival::Rival;
use super::tide::Tide;

/// How one is made.
pub(crate) const ENTRY: Build =
    |known| Box::new(Tide::beside(Rival::sought(), known.remembered, known.queue));
