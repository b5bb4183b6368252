//! What the paper and a plain router do, selectable by name beside the default scheduler.

pub(crate) mod janus;
pub(crate) mod janus_paper;
pub(crate) mod native;
