//! Endpoints that are there, that are not, that restart, and that speak TLS.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const SECOND: Duration = Duration::from_secs(10);

/// Answers one request with `answer`; gives the address, and what was asked.
async fn server(address: &str, answer: &'static [u8]) -> (String, tokio::task::JoinHandle<String>) {
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
    let endpoint = Endpoint::parse("https://h/a").unwrap();
    assert_eq!((endpoint.port, endpoint.is_tls()), (443, true));
    for wrong in ["", "h:80", "http://a:b@h/", "http:///x", "ftp://h"] {
        let text = Endpoint::parse(wrong).unwrap_err();
        assert!(text.contains("write http://host:port/path"), "{wrong}: {text}");
    }
}

/// Answers every request of every connection with its number and that of the request, until it is dropped.
struct Counting {
    address: std::net::SocketAddr,
    _tasks: JoinSet<()>,
}

impl Counting {
    async fn start(address: &str, tls: Option<Arc<rustls::ServerConfig>>) -> Counting {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 1.. {
                let (stream, _) = listener.accept().await.unwrap();
                let tls = tls.clone();
                connections.spawn(async move {
                    match tls {
                        None => count(stream, number).await,
                        Some(tls) => {
                            // Who does not trust it goes away.
                            let shaken = tokio_rustls::TlsAcceptor::from(tls).accept(stream).await;
                            if let Ok(stream) = shaken {
                                count(stream, number).await;
                            }
                        }
                    }
                });
            }
        });
        Counting { address, _tasks: tasks }
    }
}

/// Whether a request came: false at the end of the connection.
async fn is_asked(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let (mut asked, mut buffer) = (Vec::new(), [0; 1024]);
    while !asked.ends_with(b"payload") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return false,
            Ok(count) => asked.extend(&buffer[..count]),
        }
    }
    true
}

async fn count(mut stream: impl AsyncRead + AsyncWrite + Unpin, connection: u32) {
    let mut request = 0;
    while is_asked(&mut stream).await {
        request += 1;
        let text = format!("{connection}/{request}");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", text.len());
        if stream.write_all(format!("{head}{text}").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn ask_again(postman: &Postman, endpoint: &Endpoint) -> Result<Bytes, AskError> {
    postman.ask(endpoint, Bytes::from_static(b"payload"), SECOND).await
}

#[tokio::test]
async fn a_connection_is_kept_and_a_restarted_endpoint_is_found_again() {
    let server = Counting::start("127.0.0.1:0", None).await;
    let address = server.address.to_string();
    let endpoint = Endpoint::parse(&format!("http://{address}/")).unwrap();
    let postman = Postman::new(1000);
    assert_eq!(ask_again(&postman, &endpoint).await.unwrap(), "1/1");
    // A clone, as every request has one, uses the same connections.
    assert_eq!(ask_again(&postman, &endpoint.clone()).await.unwrap(), "1/2");
    let (one, other) = tokio::join!(ask_again(&postman, &endpoint), ask_again(&postman, &endpoint));
    let mut both = [one.unwrap(), other.unwrap()];
    both.sort();
    assert_eq!(both, ["1/3", "2/1"], "one request at a time");
    drop(server);
    // The connections are kept, and their far ends are gone: with nobody there it fails,
    // and works as soon as somebody is.
    assert!(matches!(ask_again(&postman, &endpoint).await, Err(AskError::Connect(_))));
    let _server = Counting::start(&address, None).await;
    assert_eq!(ask_again(&postman, &endpoint).await.unwrap(), "1/1");
    assert_eq!(ask_again(&postman, &endpoint).await.unwrap(), "1/2");
}

#[tokio::test]
async fn an_endpoint_that_closed_while_it_was_asked_is_asked_once_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let server = tokio::spawn(async move {
        let mut said = Vec::new();
        for answers in [1, 2] {
            let (mut stream, _) = listener.accept().await.unwrap();
            for _ in 0..answers {
                assert!(is_asked(&mut stream).await);
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
            }
            // The next request is read, and not answered.
            said.push(is_asked(&mut stream).await);
        }
        said
    });
    let postman = Postman::new(1000);
    for _ in 0..2 {
        assert_eq!(ask_again(&postman, &endpoint).await.unwrap(), "");
    }
    drop((ask_again(&postman, &endpoint).await.unwrap(), endpoint));
    assert_eq!(server.await.unwrap(), [true, false]);
}

#[tokio::test]
async fn what_is_idle_for_long_is_closed() {
    let server = Counting::start("127.0.0.1:0", None).await;
    let endpoint = Endpoint::parse(&format!("http://{}/", server.address)).unwrap();
    let postman = Postman::new(1000);
    assert_eq!(ask_again(&postman, &endpoint).await.unwrap(), "1/1");
    tokio::time::pause();
    tokio::time::advance(IDLE_TIMEOUT).await;
    tokio::time::resume();
    assert_eq!(ask_again(&postman, &endpoint).await.unwrap(), "2/1");
}

#[tokio::test]
async fn an_endpoint_with_tls_is_asked_if_it_is_the_one() {
    use crate::support::tls::authority::Authority;
    use crate::support::tls::{ClientFiles, ServerFiles};
    let folder = std::env::temp_dir().join(format!("tidegate-endpoint-{}", std::process::id()));
    let authorities = ["ours", "other"].map(|name| folder.join(name));
    for place in &authorities {
        std::fs::create_dir_all(place).unwrap();
        let authority = Authority::at(place);
        authority.init().unwrap();
        authority.issue("endpoint", &["endpoint.example".to_owned()], 10).unwrap();
    }
    let own = |name: &str| authorities[0].join(name);
    let files = ServerFiles {
        certificate: own("endpoint.pem"),
        key: own("endpoint.key"),
        client_ca: None,
        crl: None,
    };
    let server = Counting::start("127.0.0.1:0", Some(tls::server(&files).unwrap())).await;
    let endpoint = Endpoint::parse(&format!("https://{}/small", server.address)).unwrap();
    let trusting = |place: usize, name: Option<&str>| {
        let files = ClientFiles { ca: authorities[place].join("ca.pem"), own: None };
        let tls = (ClientTls::new(files).unwrap(), name.map(str::to_owned));
        endpoint.clone().with_tls(Some(tls))
    };
    let postman = Postman::new(1000);
    let good = trusting(0, Some("endpoint.example"));
    for wanted in ["1/1", "1/2"] {
        assert_eq!(ask_again(&postman, &good).await.unwrap(), wanted);
    }
    for (endpoint, wanted) in [
        (Endpoint::parse(&endpoint.to_string()).unwrap(), "no authority is trusted"),
        (trusting(0, None), "for another name"),
        // Authorities of ours all have one name.
        (trusting(1, Some("endpoint.example")), "BadSignature"),
    ] {
        let error = ask_again(&postman, &endpoint).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
