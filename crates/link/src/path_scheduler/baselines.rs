//! What papers and rivals do, selectable by name beside the default path scheduler.

pub(crate) mod blest;
pub(crate) mod dpsaf;
pub(crate) mod ecf;
pub(crate) mod low_rtt;
pub(crate) mod mvqs_paper;
pub(crate) mod redundant;
pub(crate) mod round_robin;
