//! What files are taken, and what a stream does, over loopback.

#[path = "../../../tests/it/support/certificates.rs"]
mod certificates;

use std::pin::pin;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;

use self::certificates::{Authority, Issued};
use super::*;

fn server_files(own: &Issued, client_ca: Option<PathBuf>) -> ServerFiles {
    ServerFiles { certificate: own.certificate.clone(), key: own.key.clone(), client_ca, crl: None }
}

#[test]
fn errors_name_the_file_and_the_cure() {
    let authority = Authority::new("errors");
    let (one, two) = (authority.issue("one"), authority.issue("two"));
    assert!(server(&server_files(&one, Some(authority.ca()))).is_ok());
    let told = |files: ServerFiles| {
        let folder = authority.file("");
        server(&files).unwrap_err().to_string().replace(folder.to_str().unwrap(), "")
    };
    let crossed = Issued { key: two.key.clone(), ..one.clone() };
    assert_eq!(
        told(server_files(&crossed, None)),
        "two.key: another key than the certificate's: give the key of one.pem (ECDSA P-256 or \
         P-384, Ed25519, or RSA of 2048 bits or more)"
    );
    let gone = Issued { key: authority.file("gone.key"), ..one.clone() };
    assert_eq!(told(server_files(&gone, None)), "gone.key: No such file or directory (os error 2)");
    let swapped = Issued { certificate: one.key.clone(), key: one.certificate.clone() };
    assert_eq!(
        told(server_files(&swapped, None)),
        "one.key: holds no certificate: give a PEM file with a section CERTIFICATE"
    );
    let keyless = Issued { key: one.certificate.clone(), ..one.clone() };
    assert_eq!(
        told(server_files(&keyless, None)),
        "one.pem: holds no private key: give a PEM file with a section PRIVATE KEY"
    );
    let broken = authority.file("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    assert_eq!(
        told(server_files(&one, Some(broken))),
        "broken.pem: certificate 1: not a certificate (X.509 in DER)"
    );
}

/// Both ends of a connection with TLS agreed on.
async fn pair(authority: &Authority) -> (Stream, Stream) {
    let own = authority.issue("far");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let trust = ClientFiles { ca: authority.ca(), own: None };
    let name = server_name("127.0.0.1").unwrap();
    let mut near = Stream::client(tcp, client(&trust).unwrap(), name).unwrap();
    let mut far = Stream::server(far, server(&server_files(&own, None)).unwrap()).unwrap();
    let (first, second) = tokio::join!(near.handshake(), far.handshake());
    first.unwrap();
    second.unwrap();
    (near, far)
}

async fn read(stream: &mut Stream, count: usize) -> Vec<u8> {
    let mut bytes = BytesMut::with_capacity(1000);
    while bytes.len() < count {
        stream.readable().await.unwrap();
        match stream.try_read(&mut bytes) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    bytes.to_vec()
}

#[tokio::test]
async fn bytes_cross_both_ways_and_the_end_is_seen() {
    let authority = Authority::new("cross");
    let (mut near, mut far) = pair(&authority).await;
    let sent: Vec<u8> = (0..3_000_000_u32).map(|place| (place % 251) as u8).collect();
    let writing = async {
        near.write_all(&sent).await.unwrap();
        near.shutdown().await.unwrap();
    };
    let ((), came) = tokio::join!(writing, read(&mut far, usize::MAX));
    assert!(came == sent);
    far.write_all(b"thanks").await.unwrap();
    assert_eq!(read(&mut near, 6).await, b"thanks");
    assert!(far.peer_certificate().is_none() && near.peer_certificate().is_some());
}

#[tokio::test]
async fn what_is_counted_is_what_the_kernel_has() {
    let authority = Authority::new("counted");
    let (mut near, far) = pair(&authority).await;
    let before = near.handed();
    let bytes = vec![7; 100_000_000];
    let mut written = 0;
    // Nobody reads: at some time nothing more is taken.
    loop {
        match near.try_write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    let handed = near.handed() - before;
    // Less than one record is handed over and not yet counted.
    assert!(handed >= written as u64 && handed < written as u64 * 101 / 100 + 10_000);
    drop(far);
}

#[tokio::test]
async fn a_stream_without_tls_is_the_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    let mut near = Stream::from(tcp);
    near.handshake().await.unwrap();
    near.write_all(b"plain").await.unwrap();
    let mut bytes = [0; 5];
    far.read_exact(&mut bytes).await.unwrap();
    assert_eq!((&bytes, near.handed()), (b"plain", 5));
}

#[tokio::test]
async fn a_listener_of_grpc_shows_and_believes_what_its_files_say_by_then() {
    let (authority, other) = (Authority::new("grpc"), Authority::new("grpc-other"));
    let (own, theirs) = (authority.issue("far"), other.issue("far"));
    let ca = authority.file("believed.pem");
    std::fs::copy(authority.ca(), &ca).unwrap();
    let files = grpc::FleetTls { ca: ca.clone(), certificate: own.certificate, key: own.key };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = TcpListenerStream::new(listener);
    let mut all = pin!(grpc::handshakes(files.server().unwrap(), incoming));
    // Who is issued by, and believes, this authority.
    let dial = async |by: &Authority| {
        let Issued { certificate, key } = by.issue("node");
        let files = ClientFiles { ca: by.ca(), own: Some((certificate, key)) };
        let tcp = TcpStream::connect(address).await.unwrap();
        let name = server_name("127.0.0.1").unwrap();
        TlsConnector::from(client(&files).unwrap()).connect(name, tcp).await
    };
    let first = dial(&authority).await.unwrap();
    let mut served = all.next().await.unwrap().unwrap();
    assert!(dial(&other).await.is_err());
    std::fs::copy(other.ca(), &ca).unwrap();
    std::fs::copy(&theirs.certificate, &files.certificate).unwrap();
    std::fs::copy(&theirs.key, &files.key).unwrap();
    assert!(dial(&authority).await.is_err());
    let _second = dial(&other).await.unwrap();
    let next = all.next().await.unwrap().unwrap();
    assert!(next.get_ref().1.peer_certificates().is_some());
    // Who was there before is still served.
    let (mut first, mut bytes) = (first, [0; 2]);
    served.write_all(b"hi").await.unwrap();
    served.flush().await.unwrap();
    first.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hi");
}
