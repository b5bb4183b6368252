//! What every proxy does: pass, refuse, give up, and end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::spawn_local;

use super::peers::until;
use super::*;

#[test]
fn requests_pass_and_connections_are_kept() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        let mut client = Client::connect(address(&proxy)).await;
        for number in 0..3 {
            let (status, body) = text(client.send(post(&format!("/a?{number}"), "x")).await).await;
            assert_eq!((status.as_u16(), body), (200, format!("POST /a?{number} app.example x")));
        }
        let figures = proxy.counts.read();
        assert_eq!((figures.upstreams[0].1, figures.accepted), (1, 1), "one connection each");
        until(|| is_settled(&proxy)).await;
        assert_eq!(proxy.counts.read().routes[0].1[2], 3);
        assert_eq!(proxy.hall.status().counts.confirmed, 3);
        proxy.stop(Duration::ZERO).await;
    });
}

/// An upstream that answers a connection's first request and ends the connection where the second one comes.
async fn answers_once(listener: TcpListener, asked: Rc<RefCell<Vec<String>>>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = asked.clone();
        spawn_local(async move {
            let mut bytes = [0; 4096];
            for is_answered in [true, false] {
                let count = stream.read(&mut bytes).await.unwrap_or(0);
                if count == 0 {
                    break;
                }
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                let line = text.split(" HTTP").next().unwrap_or_default();
                asked.borrow_mut().push(line.to_owned());
                if is_answered {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    stream.write_all(answer).await.unwrap();
                }
            }
        });
    }
}

#[test]
fn a_kept_connection_that_ends_under_a_request_costs_nothing_that_may_be_repeated_rfc9112_9_3_1() {
    on_one_thread(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (upstream, asked) = (listener.local_addr().unwrap(), Rc::default());
        spawn_local(answers_once(listener, Rc::clone(&asked)));
        let proxy = proxy(&simple(upstream, ""));
        let mut client = Client::connect(address(&proxy)).await;
        for path in ["/1", "/2"] {
            assert_eq!(client.send(get(path)).await.status(), 200, "{path}");
        }
        // Whether the far end has done what it was asked for nobody knows.
        let refused = client.send(post("/3", "x")).await;
        assert_eq!(
            (refused.status().as_u16(), refused.headers()["x-tidegate-reason"].to_str().unwrap()),
            (502, "broken")
        );
        assert_eq!(*asked.borrow(), ["GET /1", "GET /2", "GET /2", "POST /3"]);
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn routes_are_found_by_host_and_path() {
    on_one_thread(async {
        let (one, two) = (Upstream::start().await, Upstream::start().await);
        let proxy = proxy(&format!(
            "[[proxy.listener]]\nlisten = \"PORT\"\n\
             [[proxy.upstream]]\nname = \"one\"\nto = [\"{}\"]\n\
             [[proxy.upstream]]\nname = \"two\"\nto = [\"{}\"]\n\
             [[proxy.route]]\npath = \"/two/\"\nto = \"two\"\n\
             [[proxy.route]]\nhost = [\"*.example\"]\nto = \"one\"\nqueue = false\n",
            one.address, two.address
        ));
        let mut client = Client::connect(address(&proxy)).await;
        for path in ["/", "/two/a", "/two"] {
            assert_eq!(client.send(get(path)).await.status(), 200);
        }
        let elsewhere = Request::get("/").header("host", "other").body(Full::default()).unwrap();
        let response = client.send(elsewhere).await;
        assert_eq!(response.headers()["x-tidegate-reason"], "no-route");
        assert_eq!(response.status(), 404);
        assert_eq!(two.asked(), ["GET /two/a app.example"]);
        assert_eq!(one.asked(), ["GET / app.example", "GET /two app.example"]);
    });
}

#[test]
fn a_client_that_goes_away_takes_its_message_back() {
    on_one_thread(async {
        let upstream = Upstream::start_silent().await;
        let text = simple(upstream.address, "")
            .replace("[[proxy.route]]", "in_flight = 1\n[[proxy.route]]");
        let proxy = proxy(&text);
        let mut first = Client::connect(address(&proxy)).await;
        let first = first.begin(get("/first"));
        let mut second = Client::connect(address(&proxy)).await;
        let answer = second.begin(get("/second"));
        until(|| proxy.hall.status().held == 2 && !upstream.asked().is_empty()).await;
        assert_eq!(upstream.asked().len(), 1, "the second waits");
        drop((answer, second));
        until(|| proxy.hall.status().held == 1).await;
        let dropped = proxy.hall.status().counts.dropped;
        assert_eq!(dropped[tidegate_types::record::DropReason::Withdrawn.index()], 1);
        upstream.may_answer.add_permits(1);
        assert_eq!(first.await.unwrap().status(), 200);
        until(|| is_settled(&proxy)).await;
        assert_eq!(upstream.asked(), ["GET /first app.example"]);
    });
}

#[test]
fn too_much_is_refused_and_too_long_is_given_up() {
    on_one_thread(async {
        let upstream = Upstream::start_silent().await;
        let route = "waiting = 1\nwait = \"50ms\"\ntimeout = \"300ms\"";
        let text = simple(upstream.address, route)
            .replace("[[proxy.route]]", "in_flight = 1\n[[proxy.route]]");
        let proxy = proxy(&text);
        let mut clients = Vec::new();
        let mut answers = Vec::new();
        for path in ["/under-way", "/waits", "/too-much"] {
            let mut client = Client::connect(address(&proxy)).await;
            let count = answers.len();
            answers.push(client.begin(get(path)));
            clients.push(client);
            let is_there = || proxy.hall.status().counts.records > count as u64;
            if path != "/too-much" {
                until(is_there).await;
            }
        }
        let mut found = Vec::new();
        for answer in answers {
            let response = answer.await.unwrap();
            let reason = response.headers()["x-tidegate-reason"].to_str().unwrap().to_owned();
            found.push((response.status().as_u16(), reason));
        }
        let wanted = [(504, "timeout"), (504, "expired"), (503, "full")];
        assert_eq!(found, wanted.map(|(status, reason)| (status, reason.to_owned())));
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn an_upstream_that_is_gone_is_told_and_found_again() {
    on_one_thread(async {
        let gone = tidegate_testbed::free_address();
        let proxy = proxy(&simple(gone, ""));
        let mut client = Client::connect(address(&proxy)).await;
        let reason = |response: &Response<_>| response.headers()["x-tidegate-reason"].clone();
        let response = client.send(get("/")).await;
        assert_eq!(
            (response.status().as_u16(), reason(&response)),
            (503, "unreachable".parse().unwrap())
        );
        // From now on it is known to be down.
        let response = client.send(get("/")).await;
        assert_eq!((response.status().as_u16(), reason(&response)), (503, "down".parse().unwrap()));
        let listener = tokio::net::TcpListener::bind(gone).await.unwrap();
        let lane_is_up = || proxy.hall.status().outputs[0].lanes_up > 0;
        until(lane_is_up).await;
        drop(listener);
    });
}

#[test]
fn a_response_that_nobody_reads_to_its_end_is_no_loss() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let proxy = proxy(&simple(upstream.address, ""));
        for _ in 0..3 {
            let mut client = Client::connect(address(&proxy)).await;
            drop(client.send(get("/")).await);
        }
        let head = Request::head("/").header("host", "h").body(Full::default()).unwrap();
        let mut client = Client::connect(address(&proxy)).await;
        assert_eq!(client.send(head).await.status(), 200);
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn a_stop_finishes_what_is_under_way() {
    on_one_thread(async {
        let upstream = Upstream::start_silent().await;
        let proxy = proxy(&simple(upstream.address, ""));
        let mut client = Client::connect(address(&proxy)).await;
        let answer = client.begin(get("/"));
        until(|| upstream.asked().len() == 1).await;
        let address = address(&proxy);
        let stopping = tokio::task::spawn_local(proxy.stop(Duration::from_secs(30)));
        until(|| std::net::TcpStream::connect(address).is_err()).await;
        upstream.may_answer.add_permits(1);
        assert_eq!(answer.await.unwrap().status(), 200);
        stopping.await.unwrap();
    });
}
