//! What the tests of outputs share.

pub(crate) mod browser;
pub(crate) mod certificates;
pub(crate) mod consumer;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod process;
pub(crate) mod rabbit;
pub(crate) mod relay;

pub(crate) use tidegate_testbed::PATIENCE;
