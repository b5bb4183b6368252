//! A broker that refuses what clouds' brokers refuse, in the way in which they do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate::support::tls::{self, ServerFiles};
use tidegate_mqtt::frame::{Front, front};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::support::PATIENCE;
use crate::support::certificates::Authority;

/// What it insists on.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The only protocol by TLS (ALPN); none is taken for another service.
    pub(crate) alpn: Option<&'static str>,
    /// The only client identifiers.
    pub(crate) clients: &'static [&'static str],
    /// Whether it speaks MQTT 5; else 3.1.1, and hangs up on 5.
    pub(crate) is_new: bool,
    /// User name and the password of now.
    pub(crate) login: Option<(&'static str, watch::Receiver<String>)>,
    /// Publishes that it takes unacknowledged.
    pub(crate) receive_maximum: u16,
    /// Whether it retains.
    pub(crate) retains: bool,
    /// Whether it acknowledges only when it is told to.
    pub(crate) holds: bool,
}

impl Rules {
    /// A broker that takes these clients.
    pub(crate) fn of(clients: &'static [&'static str]) -> Rules {
        Rules {
            alpn: None,
            clients,
            is_new: true,
            login: None,
            receive_maximum: 100,
            retains: true,
            holds: false,
        }
    }
}

/// What has come to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A client is in, under this identifier and with this password.
    In(String, String),
    /// It is gone.
    Out(String),
    /// A record of this topic, with these flags of a PUBLISH.
    Publish(String, u8),
    /// It has refused something.
    Refused(&'static str),
}

/// See the file's header.
pub(crate) struct Cloud {
    pub(crate) port: u16,
    seen: mpsc::UnboundedReceiver<Seen>,
    release: Arc<Notify>,
    present: Present,
}

/// Who is there, and how that is ended.
type Present = Arc<Mutex<BTreeMap<String, Arc<Notify>>>>;

impl Cloud {
    /// Starts one whose certificate is of `authority`, which wants certificates of it.
    pub(crate) async fn start(authority: &Authority, rules: Rules) -> Cloud {
        let own = authority.issue("cloud");
        let client_ca = rules.login.is_none().then(|| authority.ca());
        let files =
            ServerFiles { certificate: own.certificate, key: own.key, client_ca, crl: None };
        let mut config = tls::server(&files).unwrap();
        if let Some(alpn) = rules.alpn {
            config = tls::speaking(config, &[alpn]);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, seen) = mpsc::unbounded_channel();
        let (release, present) = (Arc::<Notify>::default(), Present::default());
        let house =
            House { rules, seen: sender, release: release.clone(), present: present.clone() };
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(config);
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, house) = (acceptor.clone(), house.clone());
                tokio::spawn(async move { house.welcome(acceptor, stream).await });
            }
        });
        Cloud { port, seen, release, present }
    }

    /// What comes next.
    pub(crate) async fn next(&mut self) -> Seen {
        let next = timeout(PATIENCE, self.seen.recv()).await.expect("something comes in time");
        next.expect("the broker runs")
    }

    /// Whether somebody who was there has gone, as far as has come; what has come is passed over.
    pub(crate) fn has_left(&mut self) -> bool {
        let mut all = std::iter::from_fn(|| self.seen.try_recv().ok());
        all.any(|seen| matches!(seen, Seen::Out(_)))
    }

    /// The tokens of all who are there have ended.
    pub(crate) fn expire(&self) {
        self.present.lock().unwrap().values().for_each(|one| one.notify_one());
    }

    /// Whether something has come that nobody has looked at.
    pub(crate) fn is_busy(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Acknowledges what it has held back, and all from now on.
    pub(crate) fn release(&self) {
        self.release.notify_one();
    }
}

#[derive(Clone)]
struct House {
    rules: Rules,
    seen: mpsc::UnboundedSender<Seen>,
    release: Arc<Notify>,
    /// Who is there; a second one of an identifier ends the first.
    present: Present,
}

impl House {
    async fn welcome(self, acceptor: TlsAcceptor, stream: TcpStream) {
        let Ok(mut stream) = acceptor.accept(stream).await else {
            return self.tell(Seen::Refused("tls"));
        };
        let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        if let Some(alpn) = self.rules.alpn
            && protocol.as_deref() != Some(alpn.as_bytes())
        {
            return self.tell(Seen::Refused("no protocol"));
        }
        let mut client = Client::default();
        let Some((_, connect)) = client.packet(&mut stream).await else { return };
        let answer = self.login(&connect);
        if let Err((why, answer)) = answer {
            self.tell(Seen::Refused(why));
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
            return;
        }
        let Ok((id, password)) = answer else { return };
        let ends = Arc::<Notify>::default();
        let before = self.present.lock().unwrap().insert(id.clone(), ends.clone());
        if let Some(before) = before {
            before.notify_one();
        }
        stream.write_all(&self.connack()).await.unwrap();
        self.tell(Seen::In(id.clone(), password));
        tokio::select! {
            () = ends.notified() => self.tell(Seen::Refused("no longer")),
            () = self.serve(&mut client, &mut stream) => {}
        }
        let _ = stream.shutdown().await;
        self.tell(Seen::Out(id));
    }

    fn tell(&self, seen: Seen) {
        let _ = self.seen.send(seen);
    }

    fn connack(&self) -> Vec<u8> {
        if !self.rules.is_new {
            return vec![0x20, 2, 0, 0];
        }
        let [high, low] = self.rules.receive_maximum.to_be_bytes();
        let retains = u8::from(self.rules.retains);
        // Receive maximum; the highest QoS is 1; whether it retains.
        vec![0x20, 10, 0, 0, 7, 0x21, high, low, 0x24, 1, 0x25, retains]
    }

    /// Identifier and password, or what is refused and how.
    fn login(&self, connect: &[u8]) -> Result<(String, String), (&'static str, Vec<u8>)> {
        let mut fields = Fields(connect);
        assert_eq!(fields.text(), "MQTT");
        let (version, flags) = (fields.byte(), fields.byte());
        fields.take(2);
        if (version == 5) != self.rules.is_new {
            return Err(("version", Vec::new()));
        }
        if version == 5 {
            fields.properties();
        }
        let id = fields.text();
        let user = (flags & 0x80 != 0).then(|| fields.text());
        let password = if flags & 0x40 != 0 { fields.text() } else { String::new() };
        // "Not authorized" of the two versions.
        let refused = if version == 5 { vec![0x20, 3, 0, 0x87, 0] } else { vec![0x20, 2, 0, 5] };
        if !self.rules.clients.contains(&id.as_str()) {
            return Err(("client id", refused));
        }
        if let Some((name, token)) = &self.rules.login
            && (user.as_deref() != Some(name) || *token.borrow() != password)
        {
            return Err(("login", refused));
        }
        Ok((id, password))
    }

    async fn serve(&self, client: &mut Client, stream: &mut TlsStream<TcpStream>) {
        let mut held: Vec<[u8; 2]> = Vec::new();
        let mut holds = self.rules.holds;
        loop {
            let packet = tokio::select! {
                packet = client.packet(stream) => packet,
                () = self.release.notified(), if holds => {
                    holds = false;
                    for [high, low] in held.drain(..) {
                        stream.write_all(&[0x40, 2, high, low]).await.unwrap();
                    }
                    continue;
                }
            };
            let Some((first, body)) = packet else { return };
            match first >> 4 {
                3 => {
                    let mut fields = Fields(&body);
                    let topic = fields.text();
                    self.tell(Seen::Publish(topic, first & 0x0F));
                    let refusal = match first & 0x07 {
                        flags if flags & 1 == 1 && !self.rules.retains => Some(("retained", 0x9A)),
                        flags if flags >> 1 == 2 => Some(("qos 2", 0x9B)),
                        _ if held.len() >= usize::from(self.rules.receive_maximum) => {
                            Some(("more than it takes", 0x93))
                        }
                        _ => None,
                    };
                    if let Some((why, code)) = refusal {
                        self.tell(Seen::Refused(why));
                        if self.rules.is_new {
                            let _ = stream.write_all(&[0xE0, 2, code, 0]).await;
                        }
                        return;
                    }
                    let id = [fields.byte(), fields.byte()];
                    match holds {
                        true => held.push(id),
                        false => stream.write_all(&[0x40, 2, id[0], id[1]]).await.unwrap(),
                    }
                }
                12 => stream.write_all(&[0xD0, 0]).await.unwrap(),
                14 => return,
                kind => panic!("packet type {kind} of a publisher"),
            }
        }
    }
}

#[derive(Default)]
struct Client {
    buffer: Vec<u8>,
}

impl Client {
    /// The next packet: its first byte and its body. Cancel-safe.
    async fn packet(&mut self, stream: &mut TlsStream<TcpStream>) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Ok(Front::Complete(frame)) = front(&self.buffer, 1 << 20) {
                let (first, body, size) = (frame.first, frame.body.to_vec(), frame.size);
                self.buffer.drain(..size);
                return Some((first, body));
            }
            let read = stream.read_buf(&mut self.buffer).await;
            if read.ok()? == 0 {
                return None;
            }
        }
    }
}

/// Fields of a packet, one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn text(&mut self) -> String {
        let length = u16::from_be_bytes([self.byte(), self.byte()]);
        String::from_utf8(self.take(length.into()).to_vec()).unwrap()
    }

    /// Passes over properties, which are short here.
    fn properties(&mut self) {
        let length = self.byte();
        assert!(length < 0x80);
        self.take(length.into());
    }
}
