//! A connection on which two nodes say things to each other: frames, one behind the other.

use std::error::Error;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tidegate_types::account::{Account, Kind, Refusal, Reservation};
use tokio::time::{Instant, sleep, timeout};

use super::tls::Stream;

/// Bytes read by one call.
const READ: usize = 64 * 1024;
/// How long the other end may take for bytes that are to be written, and for its first words.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How often a connection that waits for memory asks again, and how long it waits. It is shorter than what its users wait
/// for a frame, so that the cause is told.
const MEMORY_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// What is said on a connection.
pub(crate) trait Said: Sized {
    /// What came is none.
    type Malformed: Error + Send + Sync + 'static;
    /// Bytes of the longest of the first words: of an end that has proven nothing no more is taken.
    const FIRST_MAX: usize;

    /// Writes it behind what there is.
    fn put(&self, to: &mut BytesMut);

    /// Takes the next one of at most so many bytes off the front; `None` while it is not whole.
    ///
    /// # Errors
    /// It is none, or longer.
    fn take_within(from: &mut BytesMut, most: usize) -> Result<Option<Self>, Self::Malformed>;
}

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Talk<S> {
    stream: Stream,
    input: BytesMut,
    output: BytesMut,
    /// Bytes of the longest frame that is taken.
    most: usize,
    /// What the account has for the input. Before the other end is trusted the input is at most two reads long.
    memory: Option<Reservation>,
    says: PhantomData<fn() -> S>,
}

impl<S: Said> Talk<S> {
    /// On a connection whose handshake is done: first words are taken only.
    pub(crate) fn new(stream: Stream) -> Self {
        let (input, output, says) = (BytesMut::new(), BytesMut::new(), PhantomData);
        Talk { stream, input, output, most: S::FIRST_MAX, memory: None, says }
    }

    /// The other end has proven who it is: from now on its frames may be of up to `most` bytes.
    pub(crate) fn trust(&mut self, most: usize) {
        self.most = most;
    }

    /// The other end has proven who it is: from now on its frames may be as long as their format allows, and are on this
    /// account while they come. Where there is no memory, nothing more is read for a while.
    pub(crate) fn trust_on(&mut self, account: &Account) {
        self.most = usize::MAX;
        self.memory = Some(account.empty(Kind::Packets));
    }

    /// The next frame. Cancel-safe.
    ///
    /// # Errors
    /// The connection ended, or what came is no frame.
    pub(crate) async fn hear(&mut self) -> io::Result<S> {
        loop {
            if let Some(frame) = self.heard()? {
                return Ok(frame);
            }
            self.wait_for_memory().await?;
            self.stream.readable().await?;
            self.read()?;
        }
    }

    /// A frame that the kernel has already.
    ///
    /// # Errors
    /// As [`Talk::hear`].
    pub(crate) fn try_hear(&mut self) -> io::Result<Option<S>> {
        match self.heard()? {
            Some(frame) => Ok(Some(frame)),
            // Who waits for memory does so in `hear`.
            None if self.reserve().is_err() => Ok(None),
            None => {
                self.read()?;
                self.heard()
            }
        }
    }

    /// Reserves what the input takes with one more read. What was taken off it is given back.
    fn reserve(&mut self) -> Result<(), Refusal> {
        let next = self.input.len() + READ.min(self.most);
        self.memory.as_mut().map_or(Ok(()), |memory| memory.resize(next))
    }

    async fn wait_for_memory(&mut self) -> io::Result<()> {
        let (pause, patience) = MEMORY_WAIT;
        let begun = Instant::now();
        while let Err(refusal) = self.reserve() {
            if begun.elapsed() >= patience {
                let why = format!("no memory for what it says: {refusal} (limits.memory)");
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
            }
            sleep(pause).await;
        }
        Ok(())
    }

    /// A frame that has been read already.
    ///
    /// # Errors
    /// What came is no frame.
    pub(crate) fn heard(&mut self) -> io::Result<Option<S>> {
        S::take_within(&mut self.input, self.most)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn read(&mut self) -> io::Result<()> {
        self.input.reserve(READ.min(self.most));
        match self.stream.try_read(&mut self.input) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts a frame behind those that are to be written.
    pub(crate) fn put(&mut self, frame: &S) {
        frame.put(&mut self.output);
    }

    /// Puts the bytes of a frame behind them.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Bytes that are to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.output.len()
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// The connection ended, or the other end takes nothing for long.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() || self.stream.has_to_write() {
            timeout(PATIENCE, self.stream.writable())
                .await
                .map_err(|_| io::ErrorKind::TimedOut)??;
            match self.stream.try_write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says something, and waits until the kernel has it.
    ///
    /// # Errors
    /// As [`Talk::flush`].
    pub(crate) async fn say(&mut self, frame: &S) -> io::Result<()> {
        self.put(frame);
        self.flush().await
    }

    /// Bytes that what has come takes in memory.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.input.capacity()
    }
}
