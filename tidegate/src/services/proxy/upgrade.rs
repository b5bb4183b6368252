//! Connections that become something else than HTTP: WebSocket, and what a route's `upgrades` names.
//!
//! The request waits and is sent like any other; once the far end agrees, bytes pass both ways as they come. Nothing
//! else passes: after `h2c` a client could ask its upstream for anything, and no route would see it.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE,
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::other::between;
use crate::support::http::Meter;

/// Headers that belong to one connection and not to a message (RFC 9110, 7.6.1).
const OWN: [HeaderName; 5] = [
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("transfer-encoding"),
    HeaderName::from_static("upgrade"),
];

/// What a message wants its connection to become: the first of its wishes that is allowed.
pub(super) fn wanted(headers: &HeaderMap, allowed: &[impl AsRef<str>]) -> Option<HeaderValue> {
    let has = |token: &str| token.eq_ignore_ascii_case("upgrade");
    if !headers.contains_key(UPGRADE) || !tokens(headers, &CONNECTION).any(has) {
        return None;
    }
    let is_allowed =
        |wish: &&str| allowed.iter().any(|one| one.as_ref().eq_ignore_ascii_case(wish));
    HeaderValue::from_str(tokens(headers, &UPGRADE).find(is_allowed)?).ok()
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Takes out what belongs to the connection that a message came by.
pub(super) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            // Nobody may take these from a message: they say where it goes, and where it ends.
            .filter(|name| *name != HOST && *name != CONTENT_LENGTH)
            .collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    for name in OWN {
        headers.remove(name);
    }
    // Whether trailers are welcome is true for the whole way: gRPC asks for it.
    let mut wanted = headers.get_all(TE).iter();
    if wanted.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"trailers")) {
        headers.remove(TE);
    }
}

/// Puts back what [`wanted`] found.
pub(super) fn restore(headers: &mut HeaderMap, upgrade: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, upgrade);
}

/// Lets bytes pass both ways until both ends have closed, or neither has said anything for so long.
pub(super) fn join(
    client: OnUpgrade,
    upstream: OnUpgrade,
    place: OwnedSemaphorePermit,
    meter: Arc<Meter>,
    patience: Duration,
) {
    spawn_local(async move {
        let _place = place;
        // An end that never agrees is silent as well.
        let Ok(Ok((client, upstream))) =
            timeout(patience, async { tokio::try_join!(client, upstream) }).await
        else {
            return;
        };
        between(TokioIo::new(client), TokioIo::new(upstream), &meter, patience).await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        all.iter().map(pair).collect()
    }

    #[test]
    fn what_belongs_to_a_connection_stays_on_it() {
        let mut all = headers(&[
            ("connection", "keep-alive, X-Own"),
            ("keep-alive", "timeout=5"),
            ("x-own", "1"),
            ("te", "gzip"),
            ("x-other", "2"),
        ]);
        assert_eq!(wanted(&all, &["websocket"]), None);
        strip(&mut all);
        assert_eq!(all, headers(&[("x-other", "2")]));
        let mut all = headers(&[("te", "trailers")]);
        strip(&mut all);
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn an_upgrade_must_be_named_twice() {
        assert_eq!(wanted(&headers(&[("upgrade", "websocket")]), &["websocket"]), None);
        let mut all = headers(&[("upgrade", "websocket"), ("connection", "Upgrade")]);
        let upgrade = wanted(&all, &["websocket"]).unwrap();
        strip(&mut all);
        assert!(all.is_empty());
        restore(&mut all, upgrade);
        assert_eq!(all, headers(&[("connection", "upgrade"), ("upgrade", "websocket")]));
    }

    #[test]
    fn only_what_is_allowed_passes_and_alone() {
        let all = headers(&[("upgrade", "h2c, WebSocket"), ("connection", "Upgrade")]);
        assert_eq!(wanted(&all, &["websocket"]).unwrap(), "WebSocket");
        assert_eq!(wanted(&all, &["tls"]), None);
        assert_eq!(wanted(&all, &[] as &[&str]), None);
    }
}
