//! What the service manager hears of a node: that it is ready, that it stops, and that its loop turns.
//!
//! Outside systemd (no `NOTIFY_SOCKET`) nothing happens.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::node::event_loop::StatusHandle;

/// The service manager, as long as the node is ready. Dropping it ends the signs of life.
#[derive(Debug)]
pub struct Manager {
    watchdog: Option<JoinHandle<()>>,
}

impl Manager {
    /// Tells that the node is ready, and from now on, as often as the manager wants it, that the loop
    /// behind `handle` answers: a loop that hangs gives no sign, and the manager starts the node anew.
    pub fn ready(handle: StatusHandle) -> Manager {
        tell(&[NotifyState::Ready]);
        // Twice in each period, so that one late sign does not end the node.
        let signs = |period: Duration| tokio::spawn(give_signs(handle, period / 2));
        Manager { watchdog: sd_notify::watchdog_enabled().map(signs) }
    }

    /// Tells that the node delivers what it holds, for at most `most`, and then ends.
    pub fn stopping(self, most: Duration) {
        // The signs end with the loop; the manager must not take that for a hang.
        let micros = u32::try_from(most.as_micros()).unwrap_or(u32::MAX);
        tell(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(micros)]);
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.abort();
        }
    }
}

async fn give_signs(handle: StatusHandle, period: Duration) {
    let mut ticks = interval(period.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if handle.get().await.is_err() {
            return;
        }
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told (NOTIFY_SOCKET)");
    }
}
