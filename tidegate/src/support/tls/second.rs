//! A second handle of a connection's socket, for whoever else may write to it.

use std::io;

use tokio::net::tcp::OwnedWriteHalf;

/// By this somebody else writes to the connection, while its owner does not. Its end closes nothing.
#[derive(Debug)]
pub struct SecondHand(pub(super) Option<OwnedWriteHalf>);

impl SecondHand {
    /// As [`super::Stream::try_write`].
    ///
    /// # Errors
    /// As there.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_ref().ok_or(io::ErrorKind::NotConnected)?.try_write(bytes)
    }
}

impl Drop for SecondHand {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(OwnedWriteHalf::forget);
    }
}
