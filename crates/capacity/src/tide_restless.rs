//! Finds the rate of a radio link, which swings: as `tide`, but drains and paces a restless path less.
//! Source: own (docs/decisions/0127-restless-paths.md).
//! Inputs: those of `tide`. Outputs: the same.
//! Deviations: none.
//! Limits: those of `tide`; alarms wait longer where a lost packet holds up others (`lab sim node-steps`).

use super::controller::Build;

/// How one is made.
pub(crate) const ENTRY: Build = super::tide::RESTLESS;
