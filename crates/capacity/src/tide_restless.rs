//! `tide` for radio links whose rate swings: it drains and paces a restless path less (docs/decisions/0127-restless-paths.md).
//! Source: own.
//! Inputs, outputs, cost: those of `tide`.
//! Deviations: none.
//! Limits: alarms wait longer than with `tide` where packets that are lost stall others (`lab sim node-steps`).

use super::controller::Build;

/// How one is made.
pub(crate) const ENTRY: Build = super::tide::RESTLESS;
