//! MJPEG over HTTP/1.1, as network cameras offer it: JPEGs one after the other, whatever stands between them.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tidegate_frames::Splitter;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{SILENCE, Taker};

/// For a connection and for an answer's head.
const ANSWER: Duration = Duration::from_secs(10);

/// Reads until the camera ends it or says nothing for long.
pub(super) async fn read(uri: &Uri, taker: &mut Taker) -> anyhow::Result<()> {
    let authority = uri.authority().context("it names no host")?;
    let (user, at) = match authority.as_str().rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.as_str()),
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let connect = TcpStream::connect((host.to_owned(), uri.port_u16().unwrap_or(80)));
    let stream = timeout(ANSWER, connect).await.context("no connection in time")?;
    let stream = TokioIo::new(stream.context("no connection")?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    // It is aborted with us.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(path).header(HOST, at);
    if let Some(user) = user {
        request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(user)));
    }
    let answer = timeout(ANSWER, sender.send_request(request.body(Empty::<Bytes>::new())?)).await;
    let answer = answer.context("no answer in time")??;
    if answer.status() == StatusCode::UNAUTHORIZED {
        bail!("it wants a password: write http://USER:PASSWORD@HOST/ (Basic is what can be used)");
    }
    ensure!(answer.status().is_success(), "it answers {}", answer.status());
    let mut body = answer.into_body();
    let mut splitter = Splitter::default();
    loop {
        let next = timeout(SILENCE, body.frame()).await;
        let Some(next) = next.with_context(|| format!("nothing came for {SILENCE:?}"))? else {
            ensure!(taker.taken > 0, "no JPEG was in its answer");
            return Ok(());
        };
        let Ok(data) = next?.into_data() else { continue };
        let mut bytes = &data[..];
        while let Some((frame, taken)) = splitter.push(bytes) {
            taker.frame(frame);
            bytes = &bytes[taken..];
        }
    }
}
