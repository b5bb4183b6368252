//! A second handle of a connection's socket, for whoever else may write to it.

use std::io;

use tokio::net::tcp::OwnedWriteHalf;

/// A second handle for writing, for whoever writes while the owner does not; dropping it does not shut the socket down.
#[derive(Debug)]
pub struct WriteHandle(pub(super) Option<OwnedWriteHalf>);

impl WriteHandle {
    /// As [`super::Stream::try_write`].
    ///
    /// # Errors
    /// As there.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_ref().ok_or(io::ErrorKind::NotConnected)?.try_write(bytes)
    }
}

impl Drop for WriteHandle {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(OwnedWriteHalf::forget);
    }
}
