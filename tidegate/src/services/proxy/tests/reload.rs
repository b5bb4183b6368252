//! Another configuration while requests are under way.

use std::net::Ipv4Addr;
use std::time::Duration;

use tidegate_types::record::Properties;

use super::super::hall::Entry;
use super::super::plan::{plan, sides};
use super::super::sources::Name;
use super::peers::until;
use super::*;

/// A listener, these upstreams and routes.
fn text(upstreams: &[(&str, SocketAddr)], routes: &str) -> String {
    let upstream = |(name, to): &(&str, SocketAddr)| {
        format!("[[proxy.upstream]]\nname = \"{name}\"\nto = [\"{to}\"]\n")
    };
    let upstreams: String = upstreams.iter().map(upstream).collect();
    format!("[[proxy.listener]]\nlisten = \"PORT\"\n{upstreams}{routes}")
}

const TO_OLD: &str = "[[proxy.route]]\nto = \"old\"\n";
const TO_NEW: &str = "[[proxy.route]]\nto = \"new\"\n";

#[test]
fn a_request_ends_as_it_began_and_the_next_one_goes_by_the_new_routes() {
    on_one_thread(async {
        let (old, new) = (Upstream::start_silent().await, Upstream::start().await);
        let before = text(&[("old", old.address)], TO_OLD);
        let before = before.replace("[[proxy.route]]", "in_flight = 1\n[[proxy.route]]");
        let mut proxy = proxy(&before);
        let mut under_way = Client::connect(address(&proxy)).await;
        let first = under_way.begin(get("/under-way"));
        let mut waiting = Client::connect(address(&proxy)).await;
        let second = waiting.begin(get("/waits"));
        until(|| proxy.hall.status().held == 2).await;
        let at = address(&proxy);
        assert!(
            proxy.change(config(&text(&[("new", new.address)], TO_NEW))).await.unwrap().is_empty()
        );
        assert_eq!(address(&proxy), at, "the socket stays");
        let mut next = Client::connect(at).await;
        assert_eq!(next.send(get("/next")).await.status(), 200);
        assert_eq!(new.asked(), ["GET /next app.example"]);
        old.may_answer.add_permits(2);
        for answer in [first.await, second.await] {
            assert_eq!(text_of(answer.unwrap()).await.0, 200);
        }
        // On the connections that they came by.
        assert_eq!(under_way.send(get("/then")).await.status(), 200);
        assert_eq!(new.asked().len(), 2);
        until(|| is_settled(&proxy) && proxy.hall.status().outputs.len() == 2).await;
        let names = proxy.hall.status().outputs;
        let names: Vec<&str> = names.iter().map(|output| &*output.name).collect();
        assert_eq!(names, ["clients", "new"], "nobody goes by the old one any more");
        // It comes back, at its place.
        proxy.change(config(&before)).await.unwrap();
        old.may_answer.add_permits(1);
        assert_eq!(next.send(get("/back")).await.status(), 200);
        assert_eq!(old.asked().len(), 3);
        until(|| is_settled(&proxy)).await;
        assert_eq!(proxy.hall.status().counts.dropped_all(), 0);
    });
}

/// A thread may take the new routes at any moment from their publication on: the hall is ready for it by then.
#[test]
fn an_upstream_that_comes_is_up_before_its_route_is_known() {
    on_one_thread(async {
        let proxy = proxy(&text(&[("old", "127.0.0.1:1".parse().unwrap())], TO_OLD));
        let new = config(&text(&[("new", "127.0.0.1:1".parse().unwrap())], TO_NEW));
        let places = proxy.outputs.clone().with(&new.proxy);
        let options = plan(&new, &sides([].iter()), &places, Some(&proxy.hall.options())).unwrap();
        let to = places.upstream("new").unwrap();
        let rules = proxy.hall.change(Vec::new(), options, &[to], <[_]>::to_vec);
        let from = (Name { client: Ipv4Addr::LOCALHOST.into(), original: None }, rules[0]);
        let (key, payload) = (Bytes::from_static(b"/"), Bytes::new());
        let entry = Entry { from, key, properties: Properties::default(), payload };
        let ticket = proxy.hall.enter(entry);
        assert!(!ticket.waits_in_vain());
        assert_eq!(ticket.pass().await.unwrap().output, to);
    });
}

#[test]
fn what_cannot_be_used_changes_nothing() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let good = text(&[("old", upstream.address)], TO_OLD);
        let mut proxy = proxy(&good);
        let mut client = Client::connect(address(&proxy)).await;
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = format!("\"{}\"", taken.local_addr().unwrap());
        let tls = "tls = { certificate = \"/nowhere\", key = \"/nowhere\" }\n[[proxy.upstream]]";
        let class = format!("{TO_OLD}class = \"x\"\n[[class]]\nname = \"x\"\nlatency = \"1s\"\n");
        for (wrong, told) in [
            (good.replace("[[proxy.upstream]]", tls), "/nowhere"),
            (good.replace("\"PORT\"", &format!("[\"PORT\", {taken}]")), "choose another address"),
            (good.replace(TO_OLD, &class), "no class \"x\""),
            (
                good.replace(
                    "\"PORT\"\n",
                    &format!("[\"PORT\", {taken}]\n[[proxy.upstream]]\nname = \"x\"\nto = [\"127.0.0.1:1\"]\n"),
                ),
                "choose another address",
            ),
        ] {
            let error = format!("{:#}", proxy.change(config(&wrong)).await.unwrap_err());
            assert!(error.contains(told), "{error}");
            assert_eq!(client.send(get("/")).await.status(), 200);
            assert_eq!(proxy.config(), &config(&good));
            assert_eq!(proxy.counts.read().upstreams.len(), 1, "no other was in force");
        }
        let other = format!("[limits]\nconnections = 7\n[proxy]\nthreads = 2\n{good}");
        let waiting = proxy.change(config(&other)).await.unwrap();
        assert_eq!(waiting, ["[limits]", "proxy.threads"]);
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn clients_of_a_listener_that_goes_are_answered_and_end() {
    on_one_thread(async {
        let upstream = Upstream::start_silent().await;
        let both = "[[proxy.listener]]\nname = \"other\"\nlisten = \"PORT\"\n";
        let one = text(&[("app", upstream.address)], "");
        let mut proxy = proxy(&format!("{one}{both}"));
        let listens = proxy.listens();
        let [kept, goes] = [listens[0].0, listens[1].0];
        let (mut busy, mut idle) = (Client::connect(goes).await, Client::connect(goes).await);
        let mut stays = Client::connect(kept).await;
        let under_way = busy.begin(get("/under-way"));
        until(|| upstream.asked().len() == 1).await;
        proxy.change(config(&one)).await.unwrap();
        until(|| std::net::TcpStream::connect(goes).is_err()).await;
        upstream.may_answer.add_permits(2);
        let (status, body) = text_of(under_way.await.unwrap()).await;
        assert_eq!((status, &*body), (200, "GET /under-way app.example"));
        assert!(busy.is_over().await && idle.is_over().await);
        assert_eq!(stays.send(get("/")).await.status(), 200);
        until(|| is_settled(&proxy)).await;
        proxy.stop(Duration::ZERO).await;
    });
}

async fn text_of(response: Response<hyper::body::Incoming>) -> (u16, String) {
    let (status, body) = super::text(response).await;
    (status.as_u16(), body)
}

#[test]
fn a_script_and_a_rate_come_and_go() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let plain = text(&[("app", upstream.address)], "[[proxy.route]]\nname = \"r\"\n");
        let mut proxy = proxy(&plain);
        let mut client = Client::connect(address(&proxy)).await;
        assert_eq!(client.send(get("/1")).await.status(), 200);
        let script = ScriptFile::new("comes", "function on_message(h) h:drop() end");
        let scripted = format!("{plain}script = \"s\"\ndropped = 429\n{}", script.section(""));
        let paced = scripted.replace("[[proxy.route]]", "rate = \"10mbit\"\n[[proxy.route]]");
        proxy.change(config(&paced)).await.unwrap();
        assert_eq!(client.send(get("/2")).await.status(), 429);
        proxy.change(config(&plain)).await.unwrap();
        assert_eq!(client.send(get("/3")).await.status(), 200);
        assert_eq!(upstream.asked().len(), 2);
        let figures = proxy.counts.read();
        let counts: Vec<(&str, u64, u64)> =
            figures.routes.iter().map(|(name, by, _)| (&**name, by[2], by[4])).collect();
        assert_eq!(counts, [("r", 2, 1), ("none", 0, 0)], "counted on");
        assert_eq!(figures.upstreams[0].1, 1, "the connection was kept");
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn what_waits_on_any_thread_goes_to_an_upstream_that_comes() {
    on_one_thread(async {
        let (old, new) = (Upstream::start_silent().await, Upstream::start().await);
        let route = |to: &str| format!("[[proxy.route]]\nname = \"r\"\nto = \"{to}\"\n");
        let before = text(&[("old", old.address)], &route("old"));
        let before = before.replace("[[proxy.route]]", "in_flight = 1\n[[proxy.route]]");
        let mut proxy = proxy(&format!("[proxy]\nthreads = 2\n{before}"));
        let (mut clients, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            // They are handed to both threads in turn.
            let mut client = Client::connect(address(&proxy)).await;
            answers.push(client.begin(get("/waits")));
            clients.push(client);
        }
        until(|| proxy.hall.status().held == 8).await;
        let after = text(&[("new", new.address)], &route("new"));
        proxy.change(config(&format!("[proxy]\nthreads = 2\n{after}"))).await.unwrap();
        old.may_answer.add_permits(1);
        for answer in answers {
            assert_eq!(text_of(answer.await.unwrap()).await.0, 200);
        }
        assert_eq!((old.asked().len(), new.asked().len()), (1, 7));
        until(|| is_settled(&proxy) && proxy.hall.status().outputs.len() == 2).await;
    });
}

#[test]
fn what_waits_for_an_upstream_that_was_removed_goes_when_that_is_up() {
    on_one_thread(async {
        let new = Upstream::start().await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        drop(listener);
        let before = text(&[("old", at)], &format!("{TO_OLD}down = \"wait\"\n"));
        let health = "health = { every = \"10ms\" }\n[[proxy.route]]";
        let mut proxy = proxy(&before.replace("[[proxy.route]]", health));
        let is_down = || proxy.hall.status().outputs.iter().any(|output| output.lanes_up == 0);
        until(is_down).await;
        let mut waiting = Client::connect(address(&proxy)).await;
        let waits = waiting.begin(get("/waits"));
        until(|| proxy.hall.status().held == 1).await;
        proxy.change(config(&text(&[("new", new.address)], TO_NEW))).await.unwrap();
        let listener = tokio::net::TcpListener::bind(at).await.unwrap();
        tokio::task::spawn_local(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::task::spawn_local(async move {
                    // Who only looks whether it lives says nothing.
                    if stream.read(&mut [0; 4096]).await.is_ok_and(|count| count > 0) {
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nold";
                        stream.write_all(answer).await.unwrap();
                    }
                });
            }
        });
        assert_eq!(text_of(waits.await.unwrap()).await, (200, "old".to_owned()));
        until(|| is_settled(&proxy) && proxy.hall.status().outputs.len() == 2).await;
    });
}

#[test]
fn listeners_swap_addresses_and_modes() {
    on_one_thread(async {
        let (first, second) = (Upstream::start().await, Upstream::start().await);
        let [one, other] = [tidegate_testbed::free_port(), tidegate_testbed::free_port()];
        let by = |name: &str, port: u16, mode: &str, to: SocketAddr| {
            format!(
                "[[proxy.listener]]\nname = \"{name}\"\nlisten = \"127.0.0.1:{port}\"\nmode = \"{mode}\"\n\
                 [[proxy.upstream]]\nname = \"to-{name}\"\nto = [\"{to}\"]\n\
                 [[proxy.route]]\nlistener = [\"{name}\"]\nto = \"to-{name}\"\n"
            )
        };
        let text = |x: (u16, &str), y: (u16, &str)| {
            config(&[by("x", x.0, x.1, first.address), by("y", y.0, y.1, second.address)].concat())
        };
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut proxy =
            start(&text((one, "explicit"), (other, "explicit")), Guest::Client).unwrap();
        let mut before = Client::connect(at(one)).await;
        assert_eq!(before.send(get("/x")).await.status(), 200);
        for (turn, modes) in
            [["explicit", "explicit"], ["redirect", "explicit"], ["explicit", "redirect"]]
                .into_iter()
                .enumerate()
        {
            let ports = if turn % 2 == 0 { [other, one] } else { [one, other] };
            let new = text((ports[0], modes[0]), (ports[1], modes[1]));
            proxy.change(new).await.unwrap();
            let name = |name: &str| name.to_owned();
            assert_eq!(proxy.listens(), [(at(ports[0]), name("x")), (at(ports[1]), name("y"))]);
            for port in ports {
                assert_eq!(Client::connect(at(port)).await.send(get("/")).await.status(), 200);
            }
            assert_eq!((first.asked().len(), second.asked().len()), (turn + 2, turn + 1));
        }
        assert!(before.is_over().await, "it came by a listener of another name");
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn an_address_becomes_narrower_and_wider_and_is_nobody_elses() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let port = tidegate_testbed::free_port();
        let at = |host: [u8; 4]| SocketAddr::from((host, port));
        let [all, own] = [at([0; 4]), at([127, 0, 0, 1])];
        let listen = |addresses: &[SocketAddr]| {
            let all: Vec<String> = addresses.iter().map(|one| format!("\"{one}\"")).collect();
            let text = text(&[("app", upstream.address)], "");
            config(&text.replace("\"PORT\"", &format!("[{}]", all.join(", "))))
        };
        let mut proxy = start(&listen(&[all]), Guest::Client).unwrap();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for address in [own, all, own] {
            let before = proxy.listens();
            let refused = proxy.change(listen(&[address, taken.local_addr().unwrap()])).await;
            assert!(refused.is_err());
            assert_eq!(proxy.listens(), before);
            assert_eq!(Client::connect(own).await.send(get("/")).await.status(), 200);
            proxy.change(listen(&[address])).await.unwrap();
            assert_eq!(proxy.listens()[0].0, address);
            assert_eq!(Client::connect(own).await.send(get("/")).await.status(), 200);
            let beside = std::net::TcpListener::bind(own);
            assert!(beside.is_err(), "another program cannot listen beside it");
        }
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn requests_go_on_while_scripts_are_tried() {
    // Scripts are tried where blocking work is done. There is one thread for it, and it is busy for as long as we say.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.max_blocking_threads(1);
    on_one_thread_of(runtime, async {
        let upstream = Upstream::start().await;
        let plain = text(&[("app", upstream.address)], "[[proxy.route]]\nname = \"r\"\n");
        let mut proxy = proxy(&plain);
        let at = address(&proxy);
        let script = ScriptFile::new("tried", "function on_message(h) h:drop() end");
        let scripted = format!("{plain}script = \"s\"\ndropped = 429\n{}", script.section(""));
        let mut client = Client::connect(at).await;
        let (release, held) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv());
        {
            let mut change = std::pin::pin!(proxy.change(config(&scripted)));
            let waits = std::future::poll_fn(|context| {
                std::task::Poll::Ready(change.as_mut().poll(context).is_pending())
            });
            assert!(waits.await, "nothing is in force yet");
            assert_eq!(client.send(get("/meanwhile")).await.status(), 200);
            drop(release);
            change.await.unwrap();
        }
        assert_eq!(client.send(get("/then")).await.status(), 429);
        until(|| is_settled(&proxy)).await;
    });
}
