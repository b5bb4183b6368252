//! Tasks that belong together: whoever started them hears which of them failed.

use tokio::task::JoinSet;

/// Tasks of the inputs or of the outputs of a node.
pub type Tasks = JoinSet<anyhow::Result<()>>;
