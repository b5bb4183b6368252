//! Between Envoy's headers and a record's: what comes, and what of it a script changed.

use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use hyper::http::{request, response};
use hyper::{Method, Request, Response, StatusCode, Uri};
use prost::Message;
use tidegate_types::record::Properties;

use super::wire::{
    AppendAction, Asked, HeaderMap, HeaderMutation, HeaderValue as Pair, HeaderValueOption,
    ProcessingRequest,
};

/// The header that names the upstream, where a script or the configuration chose one. Routes of Envoy take
/// their cluster from it; what a client says in it counts for nothing.
pub(crate) const UPSTREAM: &str = "x-tidegate-upstream";
/// What Envoy sets on answers of upstreams, and not on its own.
const SERVICE_TIME: &str = "x-envoy-upstream-service-time";

/// The value of a header: newer versions send bytes, older ones text.
fn value_of(pair: &Pair) -> &[u8] {
    if pair.raw_value.is_empty() { pair.value.as_bytes() } else { &pair.raw_value }
}

fn find<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    headers.headers.iter().find(|pair| pair.key == name).map(value_of)
}

/// The part of the head that is no pseudo header, into another map.
fn copy(from: &HeaderMap, to: &mut hyper::HeaderMap) {
    for pair in from.headers.iter().filter(|pair| !pair.key.starts_with(':')) {
        let name = HeaderName::from_bytes(pair.key.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value_of(pair))) {
            to.append(name, value);
        }
    }
    to.remove(UPSTREAM);
}

/// The head of a request.
pub(super) fn of_request(headers: &HeaderMap) -> request::Parts {
    let mut parts = Request::new(()).into_parts().0;
    let method = find(headers, ":method").and_then(|value| Method::from_bytes(value).ok());
    parts.method = method.unwrap_or_default();
    let path = Bytes::copy_from_slice(find(headers, ":path").unwrap_or(b"/"));
    let mut uri = Uri::builder().path_and_query(&path[..]);
    if let Some(authority) = find(headers, ":authority") {
        uri = uri.scheme("http").authority(authority);
    }
    // An authority that is none is left out; the path counts.
    parts.uri = uri.build().or_else(|_| Uri::from_maybe_shared(path)).unwrap_or_default();
    copy(headers, &mut parts.headers);
    parts
}

/// The head of a response.
pub(super) fn of_response(headers: &HeaderMap) -> response::Parts {
    let mut parts = Response::new(()).into_parts().0;
    let status = find(headers, ":status").and_then(|value| StatusCode::from_bytes(value).ok());
    parts.status = status.unwrap_or_default();
    copy(headers, &mut parts.headers);
    parts
}

/// Whether this answer is Envoy's own, because it did not reach the upstream.
pub(super) fn is_unreachable(parts: &response::Parts) -> bool {
    matches!(parts.status.as_u16(), 503 | 504) && !parts.headers.contains_key(SERVICE_TIME)
}

/// The client: Envoy adds its address at the end of this header.
pub(super) fn client(parts: &request::Parts) -> Option<std::net::IpAddr> {
    let all = parts.headers.get("x-forwarded-for")?.to_str().ok()?;
    all.rsplit(',').next()?.trim().parse().ok()
}

/// What Envoy has to change so that `old` becomes `new`. A header that is there several times is taken away
/// first: Envoy takes away before it adds.
pub(super) fn mutation(old: &Properties, new: &Properties) -> HeaderMutation {
    let mut mutation = HeaderMutation::default();
    if old == new {
        return mutation;
    }
    let mut names: Vec<&Bytes> = old.iter().chain(new.iter()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of = |all: &Properties| -> Vec<Bytes> {
            all.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
        };
        let (before, after) = (of(old), of(new));
        let Ok(text) = std::str::from_utf8(name) else { continue };
        // Its length is a matter between Envoy and the body that goes.
        if before == after || text == CONTENT_LENGTH.as_str() {
            continue;
        }
        if before.len() > 1 || after.is_empty() {
            mutation.remove_headers.push(text.to_owned());
        }
        for (place, value) in after.into_iter().enumerate() {
            mutation.set_headers.push(set(text, value, place == 0));
        }
    }
    mutation
}

/// One header that is set, or added to those of its name.
pub(super) fn set(name: &str, value: Bytes, is_first: bool) -> HeaderValueOption {
    let action = match is_first {
        true => AppendAction::OverwriteIfExistsOrAdd,
        false => AppendAction::AppendIfExistsOrAdd,
    };
    HeaderValueOption {
        header: Some(Pair { key: name.to_owned(), value: String::new(), raw_value: value }),
        append_action: action as i32,
    }
}

/// What an Envoy may say of heads, a message behind its length (two bytes, little-endian): for tests and fuzzing.
///
/// # Panics
/// A promise is broken: what a client says of an upstream counts, or a change of headers does not make the new ones.
pub fn exercise(mut data: &[u8]) {
    let mut before = Properties::default();
    while let Some((&[low, high], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (message, rest) = rest.split_at(length);
        data = rest;
        let Ok(request) = ProcessingRequest::decode(message) else { continue };
        let headers = match request.request {
            Some(Asked::RequestHeaders(headers)) => {
                let parts = of_request(&headers.headers.clone().unwrap_or_default());
                assert!(!parts.headers.contains_key(UPSTREAM));
                let _ = client(&parts);
                headers
            }
            Some(Asked::ResponseHeaders(headers)) => {
                let parts = of_response(&headers.headers.clone().unwrap_or_default());
                assert!(!parts.headers.contains_key(UPSTREAM));
                let _ = is_unreachable(&parts);
                headers
            }
            _ => continue,
        };
        let pairs = headers.headers.unwrap_or_default().headers;
        let pair = |pair: &Pair| (Bytes::from(pair.key.clone()), value_of(pair).to_vec().into());
        let after = Properties::new(pairs.iter().map(pair).collect());
        let told = mutation(&before, &after);
        let is_there = |name: &str| after.iter().any(|(known, _)| known == name);
        for option in &told.set_headers {
            assert!(option.header.as_ref().is_some_and(|header| is_there(&header.key)));
        }
        assert_eq!(mutation(&after, &after), HeaderMutation::default());
        before = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |&(key, value): &(&str, &str)| Pair {
            key: key.into(),
            value: String::new(),
            raw_value: Bytes::copy_from_slice(value.as_bytes()),
        };
        HeaderMap { headers: pairs.iter().map(pair).collect() }
    }

    fn properties(pairs: &[(&'static str, &'static str)]) -> Properties {
        let pair = |&(name, value): &(&'static str, &'static str)| {
            (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes()))
        };
        Properties::new(pairs.iter().map(pair).collect())
    }

    #[test]
    fn a_head_is_read() {
        let parts = of_request(&map(&[
            (":method", "POST"),
            (":path", "/a?b"),
            (":authority", "h.example:80"),
            ("x-forwarded-for", "10.0.0.1, 10.0.0.7"),
            (UPSTREAM, "forged"),
            ("x", "1"),
            ("x", "2"),
        ]));
        assert_eq!((parts.method.as_str(), parts.uri.host()), ("POST", Some("h.example")));
        assert_eq!(parts.uri.path_and_query().unwrap().as_str(), "/a?b");
        assert_eq!(parts.headers.get_all("x").iter().count(), 2);
        assert!(!parts.headers.contains_key(UPSTREAM));
        assert_eq!(client(&parts), Some("10.0.0.7".parse().unwrap()));
        let odd = of_request(&map(&[(":path", "/a"), (":authority", "a b")]));
        assert_eq!(odd.uri.path(), "/a");
        let text = Pair { key: ":status".into(), value: "404".into(), ..Pair::default() };
        assert_eq!(of_response(&HeaderMap { headers: vec![text] }).status, 404);
    }

    #[test]
    fn envoys_own_answers_are_told_apart() {
        let own = of_response(&map(&[(":status", "503")]));
        let theirs = of_response(&map(&[(":status", "503"), (SERVICE_TIME, "3")]));
        assert!(is_unreachable(&own) && !is_unreachable(&theirs));
    }

    #[test]
    fn only_what_changed_is_told() {
        let old = properties(&[(":method", "GET"), ("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")]);
        let new = properties(&[(":method", "PUT"), ("a", "3"), ("c", "1"), ("d", "1"), ("d", "2")]);
        let mutation = mutation(&old, &new);
        assert_eq!(mutation.remove_headers, ["a", "b"]);
        let set: Vec<(String, Bytes, i32)> = mutation
            .set_headers
            .into_iter()
            .map(|option| {
                let header = option.header.unwrap();
                (header.key, header.raw_value, option.append_action)
            })
            .collect();
        let one = |name: &str, value: &'static str, action| (name.into(), value.into(), action);
        assert_eq!(
            set,
            [one(":method", "PUT", 2), one("a", "3", 2), one("d", "1", 2), one("d", "2", 0)]
        );
        assert_eq!(super::mutation(&old, &old), HeaderMutation::default());
    }
}
