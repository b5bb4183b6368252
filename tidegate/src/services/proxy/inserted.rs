//! Messages that scripts made: they go like requests, and nobody waits for an answer.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use hyper::Request;
use hyper::header::CONTENT_LENGTH;
use tidegate_types::record::{DeliveryId, DropReason};
use tokio::time::timeout;

use super::answer::is_grpc;
use super::body::Passing;
use super::hall::{Ending, Passed};
use super::worker::WorkerContext;
use super::{message, upgrade};

/// How long the answer to what a script made is waited for.
const INSERTED_TIMEOUT: Duration = Duration::from_secs(10);

impl WorkerContext {
    /// Sends a message that a script made; whoever answers it is not heard.
    pub(super) async fn send_inserted(self: Rc<WorkerContext>, id: DeliveryId, passed: Passed) {
        let Passed { output, record } = passed;
        let ending = match self.routes_now().upstream(output) {
            // A response that nobody asked for goes nowhere.
            None => Ending::Failed(DropReason::Unroutable),
            Some(upstream) => {
                let mut parts = Request::new(()).into_parts().0;
                message::change_request(&mut parts, &record.properties);
                message::change_path(&mut parts.uri, &record.key);
                upgrade::strip(&mut parts.headers);
                parts.headers.remove(CONTENT_LENGTH);
                let is_grpc = is_grpc(&parts.headers);
                let request = Request::from_parts(parts, Passing::whole(record.payload.clone()));
                let sending = upstream.send(request, None::<SocketAddr>, is_grpc);
                match timeout(INSERTED_TIMEOUT, sending).await {
                    Ok(Ok(_)) => Ending::Answered,
                    _ => Ending::Failed(DropReason::Refused),
                }
            }
        };
        self.hall.end_inserted(id, output, ending);
    }
}
