//! Where a request wants to go: one host and one path, by which a route is found and which the upstream is told.
//!
//! The host is that of the request's target where there is one, else that of its `Host` line (RFC 9112, 3.2.2; RFC
//! 9113, 8.3.1). In a path `%2e` is a dot, and segments `.` and `..` are taken out (RFC 3986, 5.2.4). An encoded slash
//! stays as it is, for to many applications it is part of a name; a path that climbs once its slashes are decoded
//! (`..%2f`) is refused, and so is one with a backslash or a zero in it: applications read them in several ways.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{
    CONTENT_LENGTH, COOKIE, Entry, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Uri, Version};

use super::answer::Failure;

/// Makes a request say one thing. `HOST` is there afterwards, and the path is normal.
///
/// # Errors
/// It says two things, or nothing that can be sent on.
pub(super) fn settle(parts: &mut Parts) -> Result<(), Failure> {
    coding_is_known(&parts.headers)?;
    if let Some(host) = host(parts)? {
        parts.headers.insert(HOST, host);
    } else if !parts.headers.contains_key(HOST) {
        // Only HTTP/1.0 may name none, and what goes out is 1.1 (RFC 9112, 3.2).
        parts.headers.insert(HOST, HeaderValue::from_static(""));
    }
    join_cookies(&mut parts.headers);
    let path = parts.uri.path();
    if path == "*" && parts.method == Method::OPTIONS {
        return Ok(());
    }
    if !path.starts_with('/') {
        return Err(Failure::BadTarget);
    }
    if let Cow::Owned(path) = normal(path).ok_or(Failure::BadTarget)? {
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = PathAndQuery::from_maybe_shared(Bytes::from(path + &query));
        let mut uri = std::mem::take(&mut parts.uri).into_parts();
        uri.path_and_query = Some(path.map_err(|_| Failure::BadTarget)?);
        parts.uri = Uri::from_parts(uri).map_err(|_| Failure::BadTarget)?;
    }
    Ok(())
}

/// Makes a response end in one way: where it comes in chunks its length says nothing (RFC 9112, 6.3).
///
/// # Errors
/// It is coded in a way that we cannot take apart.
pub(super) fn settle_answer(headers: &mut HeaderMap) -> Result<(), Failure> {
    if headers.contains_key(TRANSFER_ENCODING) {
        coding_is_known(headers).map_err(|_| Failure::Broken)?;
        headers.remove(CONTENT_LENGTH);
    }
    Ok(())
}

/// Chunks are all that we can take apart (RFC 9112, 6.1).
fn coding_is_known(headers: &HeaderMap) -> Result<(), Failure> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Failure::Coding),
    }
}

/// The host with its port, where it is not the `Host` line that tells it.
fn host(parts: &Parts) -> Result<Option<HeaderValue>, Failure> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let authority = parts.uri.authority();
    let is_lacking = match parts.version {
        Version::HTTP_2 => authority.is_none() && host.is_none(),
        Version::HTTP_11 => host.is_none(),
        _ => false,
    };
    if second.is_some() || is_lacking {
        return Err(Failure::BadHost);
    }
    let is_web = |scheme: &Scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS;
    if parts.uri.scheme().is_some_and(|scheme| !is_web(scheme)) {
        return Err(Failure::BadTarget);
    }
    if host.is_some_and(|host| !host.is_empty() && !is_authority(host.as_bytes())) {
        return Err(Failure::BadHost);
    }
    match authority.map(Authority::as_str) {
        None => Ok(None),
        Some(authority) if is_authority(authority.as_bytes()) => {
            Ok(Some(HeaderValue::from_str(authority).map_err(|_| Failure::BadHost)?))
        }
        Some(_) => Err(Failure::BadHost),
    }
}

/// Whether it is a host, with a port or without, and with nothing before it.
fn is_authority(text: &[u8]) -> bool {
    let is_named = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(byte);
    let is_numbered = |byte: &u8| byte.is_ascii_hexdigit() || b":.".contains(byte);
    let (host, port, is_good) = match text.strip_prefix(b"[") {
        None => {
            let end = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
            let (host, port) = text.split_at(end);
            (host, port, host.iter().all(is_named))
        }
        Some(rest) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            (&rest[..end], &rest[end + 1..], rest[..end].iter().all(is_numbered))
        }
    };
    let is_port = port.is_empty() || port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit);
    is_good && is_port && !host.is_empty()
}

/// HTTP/2 may cut them into fields of their own (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&all.join(&b"; "[..]));
    if let (Ok(joined), Entry::Occupied(mut cookie)) = (joined, headers.entry(COOKIE)) {
        cookie.insert(joined);
    }
}

/// A path without dots that climb or stand still; none where it can be read in two ways.
fn normal(path: &str) -> Option<Cow<'_, str>> {
    let bytes = path.as_bytes();
    let is_plain = !bytes.contains(&b'%')
        && !bytes.contains(&b'\\')
        && !bytes.windows(2).any(|two| two == b"/.");
    if is_plain {
        return Some(Cow::Borrowed(path));
    }
    if bytes.contains(&b'\\') {
        return None;
    }
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let code = rest.get(at..at + 3)?;
        match &code[1..].to_ascii_lowercase()[..] {
            "2e" => text.push('.'),
            "00" | "5c" => return None,
            hex if hex.bytes().all(|digit| digit.is_ascii_hexdigit()) => text.push_str(code),
            _ => return None,
        }
        rest = &rest[at + 3..];
    }
    text.push_str(rest);
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_in_folder = false;
    for segment in text.split('/').skip(1) {
        let mut parts = segment.split("%2f").flat_map(|part| part.split("%2F"));
        let is_cut = segment.len() > 2 && segment.contains('%');
        if is_cut && parts.any(|part| part == "." || part == "..") {
            return None;
        }
        ends_in_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => _ = segments.pop(),
            _ => segments.push(segment),
        }
    }
    if ends_in_folder {
        segments.push("");
    }
    let normal = format!("/{}", segments.join("/"));
    Some(if normal == path { Cow::Borrowed(path) } else { Cow::Owned(normal) })
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[test]
    fn dot_segments_are_taken_out_rfc3986_5_2_4() {
        for (path, wanted) in [
            ("/a/b/c/./../../g", Some("/a/g")),
            ("/a/../../b", Some("/b")),
            ("/a/b/..", Some("/a/")),
            ("/a/.", Some("/a/")),
            ("/..", Some("/")),
            ("/public/%2e%2E/admin", Some("/admin")),
            ("/a/.%2e/b", Some("/b")),
            ("/a/...", Some("/a/...")),
            ("/a/.well-known", Some("/a/.well-known")),
            ("/a//b", Some("/a//b")),
            ("/a//../b", Some("/a/b")),
            ("/a%20b/%2e", Some("/a%20b/")),
            ("/@scope%2fname", Some("/@scope%2fname")),
            ("/a/..%2fadmin", None),
            ("/a/x%2F%2e%2e%2fadmin", None),
            ("/a%5c..%5cadmin", None),
            ("/a\\admin", None),
            ("/a%00", None),
            ("/a%", None),
            ("/a%g1", None),
        ] {
            assert_eq!(normal(path).as_deref(), wanted, "{path}");
        }
        let plain = normal("/a/b.c").unwrap();
        assert!(matches!(plain, Cow::Borrowed(_)), "nothing is copied");
    }

    #[test]
    fn a_normal_path_stays_as_it_is() {
        for path in ["/a/b/c/./../../g", "/%2e%2e//x/..", "/a%2fb/../%2e."] {
            let once = normal(path).unwrap().into_owned();
            assert_eq!(normal(&once).as_deref(), Some(&once[..]), "{path}");
        }
    }

    #[test]
    fn a_host_is_a_name_and_a_port() {
        for (text, is_good) in [
            ("a.example", true),
            ("a.example:80", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("a:", true),
            ("[::1", false),
            ("[::1]x", false),
            ("a:8x", false),
            ("a:80:80", false),
            ("", false),
            ("10.0.0.7", true),
            ("user@a", false),
            ("user:password@a", false),
            ("a b", false),
            ("a/b", false),
            ("a?b", false),
            (":80", false),
            ("[a@b]", false),
        ] {
            assert_eq!(is_authority(text.as_bytes()), is_good, "{text}");
        }
    }

    #[test]
    fn cookie_fields_are_joined_rfc9113_8_2_3() {
        let request = Request::get("http://a/").header("cookie", "a=1").header("cookie", "b=2");
        let (mut parts, ()) = request.version(Version::HTTP_2).body(()).unwrap().into_parts();
        settle(&mut parts).unwrap();
        let all: Vec<_> = parts.headers.get_all(COOKIE).iter().collect();
        assert_eq!(all, ["a=1; b=2"]);
        assert_eq!(parts.headers[HOST], "a");
    }
}
