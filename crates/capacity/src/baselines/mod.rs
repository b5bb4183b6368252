//! What others do, selectable by name beside the default rate controller.

pub(crate) mod bbr;
pub(crate) mod copa;
pub(crate) mod ledbat;
