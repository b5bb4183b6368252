//! What comes of what a client has received.

/// How far `receive` came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// More bytes are needed, this many in all at least.
    Read(usize),
    /// The batch is full: offer it and come again.
    Offer,
    /// As many records are unanswered as may be: come again after an answer.
    Wait,
}
