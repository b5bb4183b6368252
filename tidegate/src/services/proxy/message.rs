//! Between HTTP and records: what a script sees of a request or response, and what it changed.
//!
//! A message's key is the request's path with its query. Its properties are the parts of the first line
//! (`:method`, `:authority`, `:status`, as HTTP/2 has them) and the headers, in their order.

use bytes::{BufMut, Bytes, BytesMut};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::http::{request, response};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use tidegate_types::record::Properties;

/// The path of a request, as a key.
pub(super) fn key_of(uri: &Uri) -> Bytes {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    Bytes::copy_from_slice(path.as_bytes())
}

/// What a script sees of a request beside path and body.
pub(super) fn of_request(parts: &request::Parts) -> Properties {
    let host = parts.headers.get(HOST).map(HeaderValue::as_bytes);
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = authority.or(host).unwrap_or_default();
    properties(
        &[(":method", parts.method.as_str().as_bytes()), (":authority", host)],
        &parts.headers,
    )
}

/// What a script sees of a response beside path and body.
pub(super) fn of_response(parts: &response::Parts) -> Properties {
    properties(&[(":status", parts.status.as_str().as_bytes())], &parts.headers)
}

/// All pairs in one piece of memory.
fn properties(first: &[(&str, &[u8])], headers: &HeaderMap) -> Properties {
    let all = || {
        let of_first = first.iter().map(|(name, value)| (name.as_bytes(), *value));
        let of_headers =
            headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        of_first.chain(of_headers)
    };
    let length = all().map(|(name, value)| name.len() + value.len()).sum();
    let mut text = BytesMut::with_capacity(length);
    for (name, value) in all() {
        text.put_slice(name);
        text.put_slice(value);
    }
    let mut text = text.freeze();
    let cut =
        |(name, value): (&[u8], &[u8])| (text.split_to(name.len()), text.split_to(value.len()));
    Properties::new(all().map(cut).collect())
}

/// Puts what a script changed into a request.
pub(super) fn change_request(parts: &mut request::Parts, new: &Properties) {
    parts.headers = headers(new);
    if let Some(method) = new.find(":method").and_then(|value| Method::from_bytes(value).ok()) {
        parts.method = method;
    }
    if let Some(host) = new.find(":authority")
        && let Ok(host) = HeaderValue::from_maybe_shared(host.clone())
        && !host.is_empty()
    {
        parts.headers.insert(HOST, host);
    }
}

/// Puts what a script changed into a response.
pub(super) fn change_response(parts: &mut response::Parts, new: &Properties) {
    parts.headers = headers(new);
    if let Some(status) = new.find(":status").and_then(|value| StatusCode::from_bytes(value).ok()) {
        parts.status = status;
    }
}

/// Another path. One without its first slash, as in the paper's Fig. 13, is given it.
pub(super) fn change_path(uri: &mut Uri, key: &Bytes) {
    let key = match key.first() {
        Some(b'/' | b'*') => key.clone(),
        _ => Bytes::from([b"/", &key[..]].concat()),
    };
    if let Ok(path) = PathAndQuery::from_maybe_shared(key) {
        let mut parts = std::mem::take(uri).into_parts();
        parts.path_and_query = Some(path);
        *uri = Uri::from_parts(parts).unwrap_or_default();
    }
}

/// The body is another one, or its length is not known any more.
pub(super) fn change_length(headers: &mut HeaderMap, length: usize) {
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
}

/// Names and values that HTTP does not know were refused when the script gave them.
fn headers(pairs: &Properties) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.iter().filter(|(name, _)| !name.starts_with(b":")) {
        let pair = (HeaderName::from_bytes(name), HeaderValue::from_maybe_shared(value.clone()));
        if let (Ok(name), Ok(value)) = pair {
            headers.append(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[test]
    fn a_request_is_a_record_and_back() {
        let request = Request::post("http://h:80/a?b=c").header("x-a", "1").header("x-a", "2");
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let properties = of_request(&parts);
        let all: Vec<(&[u8], &[u8])> =
            properties.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(
            all,
            [
                (&b":method"[..], &b"POST"[..]),
                (b":authority", b"h:80"),
                (b"x-a", b"1"),
                (b"x-a", b"2")
            ]
        );
        assert_eq!(key_of(&parts.uri), "/a?b=c");
        let pairs = properties.iter().cloned().map(|(name, value)| match &name[..] {
            b":method" => (name, Bytes::from_static(b"PUT")),
            b":authority" => (name, Bytes::from_static(b"g")),
            _ => (name, value),
        });
        change_request(&mut parts, &Properties::new(pairs.collect()));
        assert_eq!((parts.method.as_str(), &parts.headers["host"]), ("PUT", &"g".parse().unwrap()));
        assert_eq!(parts.headers.get_all("x-a").iter().count(), 2);
        change_path(&mut parts.uri, &Bytes::from_static(b"240/7.ts"));
        assert_eq!(parts.uri.path(), "/240/7.ts");
        change_path(&mut parts.uri, &Bytes::from_static(b"/a b"));
        assert_eq!(parts.uri.path(), "/240/7.ts", "what is no path changes nothing");
    }
}
