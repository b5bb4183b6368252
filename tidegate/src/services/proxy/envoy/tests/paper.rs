//! The paper's scripts as printed, behind Envoy.

use super::*;

const FIG_3: &str = include_str!("../../../../../lua/paper/fig3.luau");
const FIG_9: &str = include_str!("../../../../../lua/paper/fig9.luau");
const FIG_13: &str = include_str!("../../../../../lua/paper/fig13.luau");

#[test]
fn fig_3_redirects_to_the_edge_where_the_cloud_is_cut_off() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-fig3", FIG_3);
        let section = script.section(
            "parameters = { required = 250000 }\ntransform = { \"180p\" = \"http://127.0.0.1:1/\" }",
        );
        let running = processor(&format!(
            "{section}[[proxy.listener]]\nlisten = \"PORT\"\n\
             [[proxy.upstream]]\nname = \"cloud-detector\"\nto = [\"127.0.0.1:1\"]\n\
             [[proxy.upstream]]\nname = \"edge-detector\"\nto = [\"127.0.0.1:2\"]\n\
             [[proxy.route]]\nto = \"cloud-detector\"\nscript = \"s\"\n"
        ));
        let mut envoy = Envoy::connect(&running).await;
        // The first one finds out.
        let (mut exchange, answer) = envoy.ask(GET).await;
        assert_eq!(sets(&answer), [pair(UPSTREAM, "cloud-detector")]);
        exchange.respond(&[(":status", "503")]).await;
        let (mut exchange, answer) = envoy.ask(GET).await;
        assert_eq!(sets(&answer), [pair(UPSTREAM, "edge-detector")]);
        exchange.respond(OK).await;
        settled(&running).await;
    });
}

#[test]
fn fig_9_drops_responses_that_are_late() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-fig9", FIG_9);
        let running = processor(&simple(&script, "dropped = 504"));
        let mut envoy = Envoy::connect(&running).await;
        for (time, is_late) in [("9999999999", false), ("1", true)] {
            let mut exchange =
                envoy.begin([BodySendMode::None, BodySendMode::BufferedPartial]).await;
            exchange.say(Asked::RequestHeaders(head(GET, true))).await;
            exchange.hear().await;
            let event = format!("{{\"event_type\": \"view\", \"event_time\": {time}}}");
            let length = event.len().to_string();
            let pairs = [OK, &[("content-length", length.as_str())]].concat();
            exchange.say(Asked::ResponseHeaders(head(&pairs, false))).await;
            exchange.hear().await;
            let body = HttpBody { body: event.into(), end_of_stream: true };
            exchange.say(Asked::ResponseBody(body)).await;
            match exchange.hear().await {
                Answer::ResponseBody(_) => assert!(!is_late),
                answer => assert_eq!((refused(&answer).0, is_late), (504, true)),
            }
        }
        settled(&running).await;
        assert_eq!(running.status.scripts().read()[0].counts.runs, 2, "responses only");
    });
}

#[test]
fn fig_13_asks_for_a_chunk_that_the_network_carries() {
    on_one_thread(async {
        let script = ScriptFile::new("envoy-fig13", FIG_13);
        let helper = ScriptFile::new(
            "envoy-fig13-helper",
            "function find_resolution(bw) return if tonumber(bw) < 1000 then 240 else 720 end",
        );
        let section = script.section(&format!(
            "helpers = [{:?}]\npath = \"^/?(%d+)/(.+)$\"",
            helper.path().display().to_string()
        ));
        let text = simple(&script, "").replace(&script.section(""), &section);
        let running = processor(&text);
        let mut envoy = Envoy::connect(&running).await;
        for (path, bandwidth, wanted) in [
            ("/720/7.ts", "500", Some("/240/7.ts")),
            ("/240/8.ts", "5000", Some("/720/8.ts")),
            ("/720/9.ts", "5000", None),
        ] {
            let pairs =
                [(":method", "GET"), (":path", path), (":authority", "a"), ("bw-est", bandwidth)];
            let (mut exchange, answer) = envoy.ask(&pairs).await;
            let sets = sets(&answer);
            let path = sets.iter().find(|(name, _)| name == ":path").map(|(_, value)| &**value);
            assert_eq!(path, wanted);
            exchange.respond(OK).await;
        }
        settled(&running).await;
    });
}
