//! Where the results of an operator enter the node: a connection like those of inputs, which obeys `Pause`.

use tidegate_types::record::{Offered, SourceId};
use tokio::sync::mpsc;

use crate::node::contract::{Notice, Source};

/// Results that wait for the node.
const RESULTS_MAX: usize = 1024;
/// Records of one offer.
const OFFER_MAX: usize = 64;

/// The end that threads hold. The task ends with it.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) source: SourceId,
    results: mpsc::Sender<Offered>,
}

impl Outlet {
    /// Hands a result over; false where there is no room. Never waits: a full output must not hold up a thread
    /// that works for others too.
    pub(super) fn offer(&self, record: Offered) -> bool {
        self.results.try_send(record).is_ok()
    }
}

/// Starts the task.
pub(super) fn start(source: Source) -> Outlet {
    let (results, inbox) = mpsc::channel(RESULTS_MAX);
    let id = source.id();
    tokio::spawn(run(source, inbox));
    Outlet { source: id, results }
}

async fn run(mut source: Source, mut inbox: mpsc::Receiver<Offered>) {
    let mut is_paused = false;
    let mut records = Vec::new();
    loop {
        tokio::select! {
            count = inbox.recv_many(&mut records, OFFER_MAX), if !is_paused => {
                // The loop takes an offer soon, whatever becomes of it.
                if count == 0 || source.offer_all(&mut records).await.is_err() {
                    return;
                }
            }
            notice = source.notice() => match notice {
                Some(Notice::Pause) => is_paused = true,
                Some(Notice::Resume) => is_paused = false,
                Some(_) => {}
                None => return,
            },
        }
    }
}
