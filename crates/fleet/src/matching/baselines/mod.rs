//! What the paper and its rivals do, selectable by name beside the default matching.

pub(crate) mod best_fit;
pub(crate) mod fcfs;
pub(crate) mod lrfs;
pub(crate) mod pmrfs;
pub(crate) mod pmrfs_text;
pub(crate) mod random;
