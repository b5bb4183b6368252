//! A request that may be sent once more: who sends it by a connection that was kept cannot know whether the far end
//! closes that at the same moment.
//!
//! RFC 9112, 9.3.1 and RFC 9110, 9.2.2 allow it for methods that may be repeated. Of a body nothing is kept, so only a
//! request without one is sent again, by a new connection, and that once.

use hyper::Request;
use hyper::body::Body;

use crate::proxy::body::Passing;

/// The same request; none where it must not be sent twice.
pub(super) fn copy(request: &Request<Passing>) -> Option<Request<Passing>> {
    if !request.method().is_idempotent() || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(Passing::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
