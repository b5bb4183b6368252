//! Envoy's messages, written by hand (docs/decisions/0033): what of `envoy.service.ext_proc.v3` is used here.
//!
//! Fields that are not named are passed over when they are read, as Protocol Buffers have it. Tags are those
//! of `external_processor.proto` in Envoy 1.40.

/// The only method.
pub(super) const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// `ProcessingRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProcessingRequest {
    #[prost(oneof = "Asked", tags = "2, 3, 4, 5, 6, 7")]
    pub(super) request: Option<Asked>,
    #[prost(bool, tag = "10")]
    pub(super) observability_mode: bool,
    /// In the first message of a stream only.
    #[prost(message, optional, tag = "11")]
    pub(super) protocol_config: Option<ProtocolConfiguration>,
}

/// `ProcessingRequest.request`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Asked {
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    #[prost(message, tag = "6")]
    RequestTrailers(HttpTrailers),
    #[prost(message, tag = "7")]
    ResponseTrailers(HttpTrailers),
}

/// `ProtocolConfiguration`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct ProtocolConfiguration {
    #[prost(enumeration = "BodySendMode", tag = "1")]
    pub(super) request_body_mode: i32,
    #[prost(enumeration = "BodySendMode", tag = "2")]
    pub(super) response_body_mode: i32,
}

/// `ProcessingMode.BodySendMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum BodySendMode {
    None = 0,
    Streamed = 1,
    Buffered = 2,
    BufferedPartial = 3,
    FullDuplexStreamed = 4,
    Grpc = 5,
}

/// `HttpHeaders`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    pub(super) headers: Option<HeaderMap>,
    #[prost(bool, tag = "3")]
    pub(super) end_of_stream: bool,
}

/// `HttpBody`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HttpBody {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) body: bytes::Bytes,
    #[prost(bool, tag = "2")]
    pub(super) end_of_stream: bool,
}

/// `HttpTrailers`: they pass as they are.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct HttpTrailers {}

/// `config.core.v3.HeaderMap`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(super) headers: Vec<HeaderValue>,
}

/// `config.core.v3.HeaderValue`: one of the two values is given.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) raw_value: bytes::Bytes,
}

/// `ProcessingResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProcessingResponse {
    #[prost(oneof = "Answer", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(super) response: Option<Answer>,
}

/// `ProcessingResponse.response`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Answer {
    #[prost(message, tag = "1")]
    RequestHeaders(PartResponse),
    #[prost(message, tag = "2")]
    ResponseHeaders(PartResponse),
    #[prost(message, tag = "3")]
    RequestBody(PartResponse),
    #[prost(message, tag = "4")]
    ResponseBody(PartResponse),
    #[prost(message, tag = "5")]
    RequestTrailers(TrailersResponse),
    #[prost(message, tag = "6")]
    ResponseTrailers(TrailersResponse),
    #[prost(message, tag = "7")]
    Immediate(ImmediateResponse),
}

/// `HeadersResponse` and `BodyResponse`, which are alike.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PartResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) response: Option<CommonResponse>,
}

/// `TrailersResponse`, without a change.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct TrailersResponse {}

/// `CommonResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CommonResponse {
    #[prost(enumeration = "ResponseStatus", tag = "1")]
    pub(super) status: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) header_mutation: Option<HeaderMutation>,
    #[prost(message, optional, tag = "3")]
    pub(super) body_mutation: Option<BodyMutation>,
    #[prost(bool, tag = "5")]
    pub(super) clear_route_cache: bool,
}

/// `CommonResponse.ResponseStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum ResponseStatus {
    Continue = 0,
    /// The message has the body that is told; what else of one would come is not asked for.
    ContinueAndReplace = 1,
}

/// `HeaderMutation`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderMutation {
    #[prost(message, repeated, tag = "1")]
    pub(super) set_headers: Vec<HeaderValueOption>,
    #[prost(string, repeated, tag = "2")]
    pub(super) remove_headers: Vec<String>,
}

/// `config.core.v3.HeaderValueOption`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<HeaderValue>,
    #[prost(enumeration = "AppendAction", tag = "3")]
    pub(super) append_action: i32,
}

/// `config.core.v3.HeaderValueOption.HeaderAppendAction`, of which two are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum AppendAction {
    AppendIfExistsOrAdd = 0,
    OverwriteIfExistsOrAdd = 2,
}

/// `BodyMutation`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BodyMutation {
    #[prost(oneof = "Mutation", tags = "1, 2, 3")]
    pub(super) mutation: Option<Mutation>,
}

/// `BodyMutation.mutation`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Mutation {
    #[prost(bytes = "bytes", tag = "1")]
    Body(bytes::Bytes),
    #[prost(bool, tag = "2")]
    ClearBody(bool),
    #[prost(message, tag = "3")]
    Streamed(HttpBody),
}

/// `ImmediateResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ImmediateResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<HttpStatus>,
    #[prost(message, optional, tag = "2")]
    pub(super) headers: Option<HeaderMutation>,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) body: bytes::Bytes,
    #[prost(message, optional, tag = "4")]
    pub(super) grpc_status: Option<GrpcStatus>,
    #[prost(string, tag = "5")]
    pub(super) details: String,
}

/// `type.v3.HttpStatus`: its code is that of HTTP.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
}

/// `GrpcStatus`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct GrpcStatus {
    #[prost(uint32, tag = "1")]
    pub(super) status: u32,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn bytes_are_those_of_envoy() {
        // Written by hand after the tags of the interface: request_headers { headers { headers { key: ":path",
        // raw_value: "/a" } } end_of_stream: true }, protocol_config { request_body_mode: BUFFERED }.
        let bytes = [
            b"\x12\x11\x0a\x0d\x0a\x0b\x0a\x05:path\x1a\x02/a\x18\x01".as_slice(),
            b"\x5a\x02\x08\x02",
        ]
        .concat();
        let read = ProcessingRequest::decode(&bytes[..]).unwrap();
        let Some(Asked::RequestHeaders(head)) = &read.request else { panic!("{read:?}") };
        let first = &head.headers.as_ref().unwrap().headers[0];
        assert_eq!((first.key.as_str(), &first.raw_value[..]), (":path", &b"/a"[..]));
        assert!(head.end_of_stream);
        assert_eq!(read.protocol_config.unwrap().request_body_mode(), BodySendMode::Buffered);
        assert_eq!(read.encode_to_vec(), bytes);
        let answer = ProcessingResponse {
            response: Some(Answer::Immediate(ImmediateResponse {
                status: Some(HttpStatus { code: 503 }),
                body: bytes::Bytes::from_static(b"no"),
                ..ImmediateResponse::default()
            })),
        };
        assert_eq!(answer.encode_to_vec(), b"\x3a\x09\x0a\x03\x08\xf7\x03\x1a\x02no");
    }
}
