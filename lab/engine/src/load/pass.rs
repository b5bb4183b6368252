//! A door before a server: connections go through it to the server, and killing it refuses and resets them while the
//! server goes on.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::{READY, say};

/// From where to where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The server.
    pub to: SocketAddr,
}

impl Pass {
    /// Passes connections on until the process is killed. Prints [`READY`] when it does.
    ///
    /// # Errors
    /// Somebody else listens there.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let listener = TcpListener::bind(self.listen).await?;
        say(READY);
        loop {
            let (mut outside, _) = listener.accept().await?;
            tokio::spawn(async move {
                // A connection that ends, from whichever side, concerns only itself.
                if let Ok(mut inside) = TcpStream::connect(self.to).await {
                    let _ = inside.set_nodelay(true).and(outside.set_nodelay(true));
                    let _ = copy_bidirectional(&mut outside, &mut inside).await;
                }
            });
        }
    }
}
