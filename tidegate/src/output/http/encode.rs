//! A record as the head of a request: all that stands before the payload.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use tidegate_types::headers::{self, CONTENT_TYPE};
use tidegate_types::record::DropReason;

use super::HttpOptions;
use crate::node::contract::Transmit;

/// Longest head: servers commonly take 8 to 64 KiB.
const HEAD_MAX: usize = 64 * 1024;
/// What stands before the names of the record's own properties, so that none can pose as a header of HTTP.
const PROPERTY: &str = "tidegate-property-";

/// Appends the head of a record's request.
///
/// # Errors
/// `Oversize` where the record's topic and properties are longer than a head may be.
pub(super) fn head(
    options: &HttpOptions,
    authority: &str,
    order: &Transmit,
    out: &mut BytesMut,
) -> Result<(), DropReason> {
    let record = &*order.record;
    let before = out.len();
    let target = &options.target;
    line(out, format_args!("POST {target} HTTP/1.1"));
    line(out, format_args!("host: {authority}"));
    if let Some(authorization) = &options.authorization {
        line(out, format_args!("authorization: {}", &**authorization));
    }
    let own_type = record.properties.find(CONTENT_TYPE).map(|value| &value[..]);
    field(
        out,
        CONTENT_TYPE,
        own_type.filter(|own| is_type(own)).unwrap_or(options.content_type.as_bytes()),
        is_text,
    );
    line(out, format_args!("content-length: {}", record.payload.len()));
    out.put_slice(b"idempotency-key: \"");
    escape(out, record.identity.to_string().as_bytes(), is_plain);
    out.put_slice(b"\"\r\n");
    field(out, "tidegate-topic", &record.key, is_plain);
    let class = options.classes.get(order.class.index()).map_or("", |name| name);
    for (name, value) in headers::of(record, class, order.again) {
        if name == CONTENT_TYPE {
            continue;
        }
        if !name.starts_with("tidegate-") && name != headers::SOURCE_TIME {
            out.put_slice(PROPERTY.as_bytes());
        }
        escape(out, name.as_bytes(), is_of_name);
        field(out, "", value.as_bytes(), is_plain);
    }
    out.put_slice(b"\r\n");
    if out.len() - before > HEAD_MAX {
        out.truncate(before);
        return Err(DropReason::Oversize);
    }
    Ok(())
}

fn line(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    // A BytesMut takes every text.
    let _ = out.write_fmt(text);
    out.put_slice(b"\r\n");
}

/// A header; where `name` is empty it stands there already.
fn field(out: &mut BytesMut, name: &str, value: &[u8], is_good: fn(u8) -> bool) {
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    escape(out, value, is_good);
    out.put_slice(b"\r\n");
}

/// Percent-encodes what is not good.
fn escape(out: &mut BytesMut, text: &[u8], is_good: fn(u8) -> bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if is_good(byte) {
            out.put_u8(byte);
        } else {
            let [high, low] = [byte >> 4, byte & 0xF].map(|digit| DIGITS[usize::from(digit)]);
            out.put_slice(&[b'%', high, low]);
        }
    }
}

/// A value can be percent-decoded: so `%` itself is encoded.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'%'
}

/// The text of a header's value.
fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

/// A header's name without `%` (RFC 9110, 5.6.2).
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte)
}

/// Whether a record's content type can stand in a header as it is.
fn is_type(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|&byte| is_text(byte))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use tidegate_types::record::{Properties, Record};

    use super::*;
    use crate::keys::url::Host;
    use crate::output::http::HttpOutputConfig;
    use crate::output::kind::OutputKind;
    use crate::output::test_protocol::{record, transmit, whole};

    pub(in crate::output::http) fn options() -> HttpOptions {
        HttpOptions {
            hosts: vec![Host::new("h", 80)],
            tls: None,
            target: "/in?a=b".into(),
            authorization: None,
            content_type: "application/octet-stream".into(),
            pipeline: 4,
            timeout: Duration::from_secs(30),
            classes: ["ls".into(), "lt".into()].into(),
        }
    }

    fn with(properties: Vec<(&'static str, &'static str)>, key: &'static str) -> Transmit {
        let pair = |(name, value): (&'static str, &'static str)| (name.into(), value.into());
        let properties = Properties::new(properties.into_iter().map(pair).collect());
        let record =
            Record { properties, key: Bytes::from_static(key.as_bytes()), ..record(7, b"x") };
        Transmit { record: Arc::new(record), again: true, ..transmit(7, b"x", 0..1, 1) }
    }

    fn text(options: &HttpOptions, order: &Transmit) -> String {
        let mut out = BytesMut::new();
        head(options, "h", order, &mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn a_record_is_the_head_of_a_request() {
        let order = with(vec![("unit", "°C 50%"), ("a b:", "x\r\ny")], "plant/ü 3");
        let options = HttpOptions { authorization: Some("Bearer t".into()), ..options() };
        assert_eq!(
            text(&options, &order),
            "POST /in?a=b HTTP/1.1\r\nhost: h\r\nauthorization: Bearer t\r\n\
             content-type: application/octet-stream\r\ncontent-length: 1\r\n\
             idempotency-key: \"gate-7/0000000000001c9f/12/7\"\r\ntidegate-topic: plant/%C3%BC%203\r\n\
             tidegate-property-unit: %C2%B0C%2050%25\r\ntidegate-property-a%20b%3A: x%0D%0Ay\r\n\
             tidegate-node: gate-7\r\ntidegate-incarnation: 0000000000001c9f\r\ntidegate-stream: 12\r\n\
             tidegate-seq: 7\r\ntidegate-class: ls\r\ntidegate-bound-ms: 50\r\n\
             source-time-ns: 1700000000123456789\r\ntidegate-again: 1\r\n\r\n"
        );
    }

    #[test]
    fn no_property_poses_as_a_header_of_http() {
        let order = with(
            vec![("host", "evil"), ("content-length", "9"), ("transfer-encoding", "chunked")],
            "t",
        );
        let text = text(&options(), &order);
        let own = |name: &str| text.matches(&format!("\r\n{name}: ")).count();
        assert_eq!((own("host"), own("content-length"), own("transfer-encoding")), (1, 1, 0));
        assert_eq!(own("tidegate-property-host"), 1);
    }

    #[test]
    fn the_type_of_a_record_is_its_own_if_it_can_be_said() {
        let said = |own| text(&options(), &with(vec![("content-type", own)], "t"));
        assert!(
            said("text/plain; charset=utf-8")
                .contains("\r\ncontent-type: text/plain; charset=utf-8\r\n")
        );
        for odd in ["", "a\r\nb: c", "ü"] {
            assert!(
                said(odd).contains("\r\ncontent-type: application/octet-stream\r\n"),
                "{odd:?}"
            );
        }
    }

    #[test]
    fn a_head_that_no_server_takes_is_not_sent() {
        let long: &'static str = "x".repeat(HEAD_MAX).leak();
        let mut out = BytesMut::from(&b"before"[..]);
        let result = head(&options(), "h", &with(vec![("a", long)], "t"), &mut out);
        assert_eq!((result, &out[..]), (Err(DropReason::Oversize), &b"before"[..]));
    }

    #[test]
    fn the_overhead_of_a_record_is_what_its_head_costs() {
        let keys = HttpOutputConfig { url: Some("http://h/in?a=b".into()), ..Default::default() };
        let order = whole(3, b"hot");
        let head = text(&options(), &order).len() - order.record.key.len();
        let overhead = keys.overhead().0 as usize;
        assert!(head.abs_diff(overhead) <= 16, "{head} bytes, {overhead} are counted");
    }
}
