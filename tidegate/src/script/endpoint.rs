//! Endpoints of `transform` and `notify`: HTTP POST, to addresses of the configuration only.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Requests under way at once, of all scripts of a node: more are not made.
const UNDER_WAY_MAX: usize = 256;
/// How long an endpoint may take to hear of a notice.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where to post to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    uri: Uri,
}

/// Why an endpoint did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Too many requests are under way.
    #[error("{UNDER_WAY_MAX} requests are under way already")]
    Busy,
    /// It took too long.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// It is not there.
    #[error("connecting: {0}")]
    Connect(#[from] std::io::Error),
    /// It speaks no HTTP.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// It answered with another code than 2xx.
    #[error("it answered {0}")]
    Refused(u16),
    /// Its answer is longer than a record may be, or broke off.
    #[error("its answer is too long or broke off")]
    Body,
}

impl Endpoint {
    /// Reads `http://host[:port][/path]`.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let example = "write http://host:port/path";
        let uri: Uri = text.parse().map_err(|error| format!("{text:?}: {error}: {example}"))?;
        if uri.scheme_str() != Some("http") {
            return Err(format!("{text:?} is no http:// address: {example}"));
        }
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        if authority.contains('@') {
            return Err(format!("user and password do not belong in an address: {example}"));
        }
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(format!("{text:?} has no host: {example}"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Endpoint { host, port: uri.port_u16().unwrap_or(80), uri })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

/// Posts for scripts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Postman {
    under_way: Arc<Semaphore>,
    answer_max: usize,
}

impl Postman {
    /// One that takes answers up to this length.
    pub fn new(answer_max: usize) -> Postman {
        Postman { under_way: Arc::new(Semaphore::new(UNDER_WAY_MAX)), answer_max }
    }

    /// Posts a payload and waits for what comes back.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn ask(
        &self,
        endpoint: &Endpoint,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, AskError> {
        let _permit = self.under_way.try_acquire().map_err(|_| AskError::Busy)?;
        let asking = self.post(endpoint, body);
        tokio::time::timeout(timeout, asking).await.map_err(|_| AskError::TimedOut(timeout))?
    }

    /// Posts a notice.
    ///
    /// # Errors
    /// It was not taken.
    pub async fn tell(&self, endpoint: &Endpoint, text: String) -> Result<(), AskError> {
        self.ask(endpoint, text.into(), NOTICE_TIMEOUT).await.map(|_| ())
    }

    async fn post(&self, endpoint: &Endpoint, body: Bytes) -> Result<Bytes, AskError> {
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with this call, whatever comes of it.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = match endpoint.uri.path_and_query() {
            Some(path) => Uri::from(path.clone()),
            None => Uri::from_static("/"),
        };
        let authority = endpoint.uri.authority().map_or("", |authority| authority.as_str());
        if let Ok(host) = HeaderValue::from_str(authority) {
            request.headers_mut().insert(HOST, host);
        }
        let kind = HeaderValue::from_static("application/octet-stream");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(AskError::Refused(response.status().as_u16()));
        }
        if response.body().size_hint().lower() > self.answer_max as u64 {
            return Err(AskError::Body);
        }
        let answer = Limited::new(response.into_body(), self.answer_max).collect().await;
        answer.map(|answer| answer.to_bytes()).map_err(|_| AskError::Body)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const SECOND: Duration = Duration::from_secs(10);

    /// Answers one request with `answer`; gives the address, and what was asked.
    async fn server(
        address: &str,
        answer: &'static [u8],
    ) -> (String, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}/small?q=1", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut asked, mut buffer) = (Vec::new(), [0; 1024]);
            while !asked.ends_with(b"payload") {
                let count = stream.read(&mut buffer).await.unwrap();
                asked.extend(&buffer[..count]);
            }
            stream.write_all(answer).await.unwrap();
            // Until the client has it all.
            let _ = stream.read(&mut buffer).await;
            String::from_utf8(asked).unwrap()
        });
        (url, task)
    }

    async fn ask(url: &str) -> Result<Bytes, AskError> {
        let endpoint = Endpoint::parse(url).unwrap();
        Postman::new(1000).ask(&endpoint, Bytes::from_static(b"payload"), SECOND).await
    }

    #[tokio::test]
    async fn a_payload_is_posted_and_its_answer_read() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsmall";
            let (url, task) = server(address, answer).await;
            assert_eq!(ask(&url).await.unwrap(), "small");
            let asked = task.await.unwrap();
            assert!(asked.starts_with("POST /small?q=1 HTTP/1.1\r\n"), "{asked}");
            assert!(asked.contains("host: ") && asked.ends_with("payload"), "{asked}");
        }
    }

    #[tokio::test]
    async fn what_is_no_answer_is_an_error() {
        let (url, _task) =
            server("127.0.0.1:0", b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await;
        assert!(matches!(ask(&url).await, Err(AskError::Refused(503))));
        let (url, _task) = server("127.0.0.1:0", b"nonsense\r\n\r\n").await;
        assert!(matches!(ask(&url).await, Err(AskError::Http(_))));
        let long = b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n";
        let (url, _task) = server("127.0.0.1:0", long).await;
        assert!(matches!(ask(&url).await, Err(AskError::Body)));
        assert!(matches!(ask("http://127.0.0.1:1/").await, Err(AskError::Connect(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_answer_is_not_waited_for() {
        let (url, _task) = server("127.0.0.1:0", b"").await;
        assert!(matches!(ask(&url).await, Err(AskError::TimedOut(_) | AskError::Http(_))));
    }

    #[tokio::test]
    async fn requests_under_way_are_bounded() {
        let postman = Postman::new(1000);
        let _all = postman.under_way.try_acquire_many(UNDER_WAY_MAX as u32).unwrap();
        let endpoint = Endpoint::parse("http://127.0.0.1:1").unwrap();
        let error = postman.ask(&endpoint, Bytes::new(), SECOND).await.unwrap_err();
        assert!(matches!(error, AskError::Busy));
    }

    #[test]
    fn addresses_are_read() {
        let endpoint = Endpoint::parse("http://[::1]:8080/a").unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("::1", 8080));
        assert_eq!(Endpoint::parse("http://h").unwrap().port, 80);
        for wrong in ["", "h:80", "https://h/", "http://a:b@h/", "http:///x", "ftp://h"] {
            let text = Endpoint::parse(wrong).unwrap_err();
            assert!(text.contains("write http://host:port/path"), "{wrong}: {text}");
        }
    }
}
