//! Bodies, in each way that Envoy hands them over.

use super::*;

const UPPER: &str = "function on_message(h)\n local m = h:message()\n\
                     if m:size() > 0 then m:setBody(string.upper(m:bytes(1, -1))) end\n\
                     if m:header():get('x-add') then m:setBody('new') end end";

fn post(length: usize) -> Vec<(&'static str, String)> {
    vec![
        (":method", "POST".into()),
        (":path", "/a".into()),
        (":authority", "app.example".into()),
        ("content-length", length.to_string()),
    ]
}

async fn begin(exchange: &mut Exchange, length: usize) {
    let owned = post(length);
    let pairs: Vec<(&str, &str)> =
        owned.iter().map(|(name, value)| (*name, value.as_str())).collect();
    exchange.say(Asked::RequestHeaders(head(&pairs, false))).await;
}

fn body(text: &str, is_end: bool) -> Asked {
    let body = Bytes::copy_from_slice(text.as_bytes());
    Asked::RequestBody(HttpBody { body, end_of_stream: is_end })
}

fn mutation(answer: Answer) -> Option<Mutation> {
    match answer {
        Answer::RequestBody(part) | Answer::RequestHeaders(part) => {
            part.response.unwrap().body_mutation.and_then(|mutation| mutation.mutation)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_buffered_body_is_part_of_its_message() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-upper", UPPER);
        let running = processor(&simple(&script, ""));
        let mut envoy = Envoy::connect(&running).await;
        for mode in [BodySendMode::Buffered, BodySendMode::BufferedPartial] {
            let mut exchange = envoy.begin([mode; 2]).await;
            begin(&mut exchange, 5).await;
            let answer = exchange.hear().await;
            assert_eq!(sets(&answer), [], "the head goes with its body");
            exchange.say(body("hello", true)).await;
            let answer = exchange.hear().await;
            assert_eq!(sets(&answer), [pair(UPSTREAM, "cloud")]);
            assert_eq!(mutation(answer), Some(Mutation::Body("HELLO".into())));
            exchange.respond(OK).await;
        }
        settled(&running).await;
    });
}

#[test]
fn a_part_of_a_body_passes_as_it_is() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-part", UPPER);
        let running = processor(&simple(&script, ""));
        let mut envoy = Envoy::connect(&running).await;
        let mut exchange = envoy.begin([BodySendMode::BufferedPartial; 2]).await;
        begin(&mut exchange, 5).await;
        exchange.hear().await;
        exchange.say(body("hel", false)).await;
        assert_eq!(mutation(exchange.hear().await), None);
        exchange.respond(OK).await;
        settled(&running).await;
    });
}

#[test]
fn a_request_without_a_body_can_be_given_one() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-add", UPPER);
        let running = processor(&simple(&script, ""));
        let mut envoy = Envoy::connect(&running).await;
        let (mut exchange, answer) = envoy.ask(&[GET, &[("x-add", "1")]].concat()).await;
        let Answer::RequestHeaders(part) = &answer else { panic!("{answer:?}") };
        let status = part.response.as_ref().unwrap().status();
        assert_eq!(status, ResponseStatus::ContinueAndReplace);
        assert_eq!(mutation(answer), Some(Mutation::Body("new".into())));
        exchange.respond(OK).await;
        settled(&running).await;
    });
}

#[test]
fn a_streamed_body_goes_back_in_pieces() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-duplex", UPPER);
        let running = processor(&simple(&script, "message_max = \"1KiB\""));
        let mut envoy = Envoy::connect(&running).await;
        let modes = [BodySendMode::FullDuplexStreamed, BodySendMode::None];
        let mut exchange = envoy.begin(modes).await;
        begin(&mut exchange, 10).await;
        exchange.say(body("hello", false)).await;
        exchange.say(body("world", true)).await;
        assert_eq!(sets(&exchange.hear().await), [pair(UPSTREAM, "cloud")]);
        let streamed = |text: &str, is_end| {
            let body = Bytes::copy_from_slice(text.as_bytes());
            Some(Mutation::Streamed(HttpBody { body, end_of_stream: is_end }))
        };
        assert_eq!(mutation(exchange.hear().await), streamed("HELLOWORLD", true));
        exchange.respond(OK).await;
        // One that is too long is not looked at: its head waits, and it passes as it comes.
        let mut exchange = envoy.begin(modes).await;
        begin(&mut exchange, 4096).await;
        exchange.say(body("hello", false)).await;
        exchange.hear().await;
        assert_eq!(mutation(exchange.hear().await), streamed("hello", false));
        exchange.say(Asked::RequestTrailers(HttpTrailers {})).await;
        assert!(matches!(exchange.hear().await, Answer::RequestTrailers(_)));
        exchange.respond(OK).await;
        settled(&running).await;
    });
}
