//! The end of a connection, as its client sees it.

use std::time::Duration;

use tidegate_broker::journal::Note;
use tokio::time::timeout;

use super::Connection;
use crate::input::mqtt::buffer::discard;
use crate::input::mqtt::clients::Line;
use crate::input::mqtt::session::End;
use crate::node::broker::Subscriber;
use crate::node::contract::Source;

/// How long a close waits for the client to take its last packet.
const CLOSE_WAIT: Duration = Duration::from_millis(500);
/// Bytes that a close reads and discards: closing over unread bytes resets the connection, and the
/// client would never see why.
const DISCARD_MAX: usize = 256 * 1024;

impl Connection<'_> {
    /// A will that is not to be published is over before its client sees the connection close: a crash behind that must
    /// not bring it back.
    pub(super) async fn forget_will(&mut self, end: &End) {
        if end.publishes_will() || self.session.will().is_none() {
            return;
        }
        let place = self.session.subscriber().map(Subscriber::id);
        if let Some((session, journal)) = place.zip(self.door.hub().journal()) {
            let mark = journal.write(&Note::WillOver(session));
            // Where the disk takes nothing, it closes nevertheless.
            let _ = timeout(CLOSE_WAIT, journal.safe(mark)).await;
        }
        self.session.take_will();
    }

    /// Says goodbye: last answers, the reason.
    pub(super) async fn finish(&mut self, end: &End, line: &mut Option<Line>) {
        if let (End::Stopping | End::Removed, Some(Line { source, .. })) = (end, line) {
            // A timeout is fine: what stays unanswered is sent again by the client.
            let _ = timeout(self.shared.options.stop_grace, self.last_answers(source)).await;
        }
        self.session.end(end, &mut self.effects.out);
        let free = self.free();
        if let Some(mark) = self.gates.last()
            && let Some(journal) = self.door.hub().journal()
            && timeout(CLOSE_WAIT, journal.safe(mark)).await.is_err()
        {
            // Better no word than one that is not true after a crash.
            self.effects.out.truncate(free);
        }
        let farewell = async {
            self.stream.write_all(&self.effects.out).await?;
            self.stream.shutdown().await
        };
        // Neither a client that does not read nor one that is gone changes what follows.
        let _ = timeout(CLOSE_WAIT, farewell).await;
    }

    async fn last_answers(&mut self, source: &mut Source) {
        let mut paused = false;
        while self.session.unanswered() > 0 {
            match source.notice().await {
                Some(notice) => self.heed(notice, &mut paused),
                None => return,
            }
            if self.session.acknowledge(&mut self.effects.out).is_err() {
                return;
            }
            // Its subscribers have it before the word that says so.
            self.publish_accepted();
        }
    }

    /// Gives the client time to read why its connection ends.
    pub(super) async fn linger(&mut self, end: &End) {
        if matches!(
            end,
            End::Violation { .. }
                | End::TakenOver
                | End::Stopping
                | End::Elsewhere(_)
                | End::Revoked(_)
                | End::Removed
                | End::Refused { .. }
                | End::Untrusted(_)
                | End::NoWebSocket(_)
                | End::NoRoom(_)
                | End::Denied(_)
                | End::Reserved
                | End::Foreign
        ) {
            let _ = timeout(CLOSE_WAIT, discard(&mut self.stream, DISCARD_MAX)).await;
        }
    }
}
