//! What a listener and its connections hear while they work: that it is over, and on which terms clients are in from
//! now on.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

use super::listener::Shared;
use super::options::MqttOptions;
use super::session::End;
use super::sockets::{Bound, MqttError, bound};

/// What all connections of a listener hear.
#[derive(Clone)]
pub(super) struct Word {
    /// What all connections end with, when the listener ends.
    pub(super) over: Option<End>,
    /// On these terms new connections begin, and those that are there are looked at again.
    pub(super) terms: Arc<Shared>,
    /// Changes with each look that connections must have at themselves.
    pub(super) look: u64,
}

/// Waits until the listener ends, and says what with. An error means that whoever runs it is gone.
pub(super) async fn over(word: &mut watch::Receiver<Word>) -> End {
    let over = word.wait_for(|word| word.over.is_some()).await;
    over.ok().and_then(|word| word.over.clone()).unwrap_or(End::Stopping)
}

/// What ends the wait of a session whose client is away.
pub(super) enum Ending {
    /// The end of the listener that it came by.
    Listener(watch::Receiver<Word>),
    /// That of the node.
    Node(watch::Receiver<bool>),
}

impl Ending {
    /// Waits for it. An error means that whoever runs it is gone.
    pub(super) async fn over(&mut self) -> End {
        match self {
            Ending::Listener(word) => over(word).await,
            Ending::Node(stop) => {
                let _ = stop.wait_for(|stop| *stop).await;
                End::Stopping
            }
        }
    }
}

/// What one connection hears from outside while it is served.
#[derive(Default)]
pub(super) struct Orders {
    /// A newer connection has the client id.
    pub(super) is_replaced: AtomicBool,
    /// Whether there are `terms`.
    has_terms: AtomicBool,
    terms: Mutex<Option<Arc<Shared>>>,
}

impl Orders {
    /// The connection is to look whether it may still be there.
    pub(super) fn review(&self, terms: Arc<Shared>) {
        *self.terms.lock().unwrap_or_else(PoisonError::into_inner) = Some(terms);
        self.has_terms.store(true, Ordering::Relaxed);
    }

    /// Whether it is to look.
    pub(super) fn has_terms(&self) -> bool {
        self.has_terms.load(Ordering::Relaxed)
    }

    /// The terms by which it looks, once.
    pub(super) fn take_terms(&self) -> Option<Arc<Shared>> {
        if !self.has_terms.swap(false, Ordering::Relaxed) {
            return None;
        }
        self.terms.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Changes a listener while it works.
#[derive(Clone, Debug)]
pub struct MqttControl(pub(super) mpsc::UnboundedSender<Order>);

/// What a listener is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// To go on with these options, and to accept here too.
    Change(Box<MqttOptions>, Vec<Bound>),
    /// To end: other listeners take its clients.
    Remove,
}

impl MqttControl {
    /// From now on these options count, but for what all listeners of a node have together. Addresses that are new are
    /// bound at once, and used when the answer is called; those that are gone are given up then.
    ///
    /// # Errors
    /// An option is out of range, or a new address cannot be listened on: nothing changes.
    pub fn change(
        &self,
        options: MqttOptions,
        before: &[SocketAddr],
    ) -> Result<impl FnOnce() + Send + use<>, MqttError> {
        let options = options.speaking();
        let added = bound(&options, |address| !before.contains(&address))?;
        let orders = self.0.clone();
        Ok(move || {
            // An error means that the node is gone.
            let _ = orders.send(Order::Change(Box::new(options), added));
        })
    }

    /// Ends the listener and its connections. Sessions stay, for the listeners that stay.
    pub fn remove(&self) {
        let _ = self.0.send(Order::Remove);
    }
}
