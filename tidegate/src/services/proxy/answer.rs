//! The proxy's own answers: a status, a line for people, and `x-tidegate-reason` for programs.
//!
//! | status | reason | when |
//! |---|---|---|
//! | 400 | `bad-host` | no host, two, or one that is none |
//! | 400 | `bad-target` | the path, the scheme, or `*` where it says nothing |
//! | 400 | `body-broken` | the client's body broke off, or was no HTTP |
//! | 404 | `no-route` | no route takes the request |
//! | 405 | `no-tunnel` | CONNECT: this is no forward proxy |
//! | 408 | `body-timeout` | the client did not send the body in time |
//! | 501 | `coding` | a transfer coding that we do not know |
//! | 503 | `full` | too much waits |
//! | 503 or `dropped` | `script` | a script dropped the message |
//! | 503 | `down`, `unreachable` | the upstream is known to be down, or cannot be connected to |
//! | 503 | `stopping` | the proxy is stopping |
//! | 502 | `broken` | the upstream broke off, or sent no HTTP |
//! | 502 | `unasked` | the upstream changed the protocol, and nobody had asked for that |
//! | 502 | `misdirected` | a script sent the message where none can go |
//! | 504 | `expired` | it waited longer than `wait` |
//! | 504 | `timeout` | the upstream did not answer within `timeout` |
//!
//! To gRPC the same is `UNAVAILABLE` (14) or `DEADLINE_EXCEEDED` (4) in a response that is all head.

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Response, StatusCode};
use tidegate_types::record::{DropReason, RefuseReason};

use super::body::Passing;

/// Why the client does not get the upstream's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    NoRoute,
    NoTunnel,
    BadHost,
    BadTarget,
    Coding,
    Unasked,
    BodyTimeout,
    BodyBroken,
    Full,
    Dropped(u16),
    Down,
    Unreachable,
    Stopping,
    Broken,
    Misdirected,
    Expired,
    Timeout,
}

/// The header that says why.
const REASON: HeaderName = HeaderName::from_static("x-tidegate-reason");

impl Failure {
    /// What the hall says, in this module's words.
    pub(super) fn refused(reason: RefuseReason, dropped: u16) -> Failure {
        match reason {
            RefuseReason::Dropped(DropReason::Expired) => Failure::Expired,
            RefuseReason::Dropped(DropReason::Script) => Failure::Dropped(dropped),
            RefuseReason::Stopping | RefuseReason::Dropped(DropReason::Stopped) => {
                Failure::Stopping
            }
            RefuseReason::Dropped(DropReason::Refused) => Failure::Down,
            _ => Failure::Full,
        }
    }

    /// Label in the log and in `x-tidegate-reason`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Failure::NoRoute => "no-route",
            Failure::NoTunnel => "no-tunnel",
            Failure::BadHost => "bad-host",
            Failure::BadTarget => "bad-target",
            Failure::Coding => "coding",
            Failure::Unasked => "unasked",
            Failure::BodyTimeout => "body-timeout",
            Failure::BodyBroken => "body-broken",
            Failure::Full => "full",
            Failure::Dropped(_) => "script",
            Failure::Down => "down",
            Failure::Unreachable => "unreachable",
            Failure::Stopping => "stopping",
            Failure::Broken => "broken",
            Failure::Misdirected => "misdirected",
            Failure::Expired => "expired",
            Failure::Timeout => "timeout",
        }
    }

    pub(super) fn status(self) -> StatusCode {
        match self {
            Failure::NoRoute => StatusCode::NOT_FOUND,
            Failure::NoTunnel => StatusCode::METHOD_NOT_ALLOWED,
            Failure::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Failure::BodyBroken | Failure::BadHost | Failure::BadTarget => StatusCode::BAD_REQUEST,
            Failure::Coding => StatusCode::NOT_IMPLEMENTED,
            Failure::Dropped(status) => {
                StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
            }
            Failure::Full | Failure::Down | Failure::Unreachable | Failure::Stopping => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Failure::Broken | Failure::Misdirected | Failure::Unasked => StatusCode::BAD_GATEWAY,
            Failure::Expired | Failure::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Failure::NoRoute => "no route takes this request",
            Failure::NoTunnel => "CONNECT is not served here",
            Failure::BadHost => "the request must name one host",
            Failure::BadTarget => "the target of the request can be read in more than one way",
            Failure::Coding => "chunked is the only transfer coding that is known here",
            Failure::Unasked => "the upstream changed the protocol and was not asked to",
            Failure::BodyTimeout => "the body did not come in time",
            Failure::BodyBroken => "the body broke off",
            Failure::Full => "too many messages wait",
            Failure::Dropped(_) => "a script dropped the message",
            Failure::Down => "the upstream is down",
            Failure::Unreachable => "the upstream cannot be reached",
            Failure::Stopping => "the proxy is stopping",
            Failure::Broken => "the upstream broke off",
            Failure::Misdirected => "a script sent the message where none can go",
            Failure::Expired => "the message waited too long",
            Failure::Timeout => "the upstream did not answer in time",
        }
    }

    /// Whether asking again a little later may help.
    pub(super) fn may_pass(self) -> bool {
        self.status() == StatusCode::SERVICE_UNAVAILABLE
            || self.status() == StatusCode::TOO_MANY_REQUESTS
    }

    /// The answer.
    pub(super) fn answer(self, is_grpc: bool) -> Response<Passing> {
        let status = self.status();
        let is_empty = is_grpc || status == StatusCode::NO_CONTENT;
        let body = match is_empty {
            true => Passing::empty(),
            false => Passing::whole(format!("{}\n", self.words()).into()),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(REASON, HeaderValue::from_static(self.name()));
        if is_grpc {
            let code = if status == StatusCode::GATEWAY_TIMEOUT { "4" } else { "14" };
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert("grpc-status", HeaderValue::from_static(code));
            headers.insert("grpc-message", HeaderValue::from_static(self.words()));
            return response;
        }
        if !is_empty {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        }
        if self.may_pass() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        *response.status_mut() = status;
        response
    }
}

/// Whether a message is one of gRPC.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_why() {
        let answer = Failure::Dropped(429).answer(false);
        assert_eq!(answer.status(), 429);
        assert_eq!(answer.headers()["x-tidegate-reason"], "script");
        assert_eq!(answer.headers()["retry-after"], "1");
        let answer = Failure::Expired.answer(true);
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["grpc-status"]),
            (200, &"4".parse().unwrap())
        );
        assert_eq!(Failure::refused(RefuseReason::Full, 503), Failure::Full);
    }
}
