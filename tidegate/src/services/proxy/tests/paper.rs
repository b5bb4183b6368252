//! The paper's scripts as printed, in the proxy; and scripts that mean harm.

use super::peers::until;
use super::*;

const FIG_3: &str = include_str!("../../../../lua/paper/fig3.luau");
const FIG_9: &str = include_str!("../../../../lua/paper/fig9.luau");
const FIG_13: &str = include_str!("../../../../lua/paper/fig13.luau");

#[test]
fn fig_3_redirects_to_the_edge_where_the_cloud_is_cut_off() {
    on_one_thread(async {
        let edge = Upstream::start().await;
        let cloud = tidegate_testbed::free_address();
        let script = ScriptFile::new("fig3", FIG_3);
        let proxy = proxy(&format!(
            "{}[[proxy.listener]]\nlisten = \"PORT\"\n\
             [[proxy.upstream]]\nname = \"cloud-detector\"\nto = [\"{cloud}\"]\n\
             [[proxy.upstream]]\nname = \"edge-detector\"\nto = [\"{}\"]\n\
             [[proxy.route]]\nto = \"cloud-detector\"\nscript = \"s\"\n",
            script.section("parameters = { required = 250000 }\ntransform = { \"180p\" = \"http://127.0.0.1:1/\" }"),
            edge.address
        ));
        let mut client = Client::connect(address(&proxy)).await;
        // The first one finds out.
        assert_eq!(client.send(post("/frame", "1")).await.status(), 503);
        let (status, body) = text(client.send(post("/frame", "2")).await).await;
        assert_eq!((status.as_u16(), &*body), (200, "POST /frame app.example 2"));
        assert_eq!(edge.asked().len(), 1);
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn fig_9_drops_responses_that_are_late() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        // Here an answer is what was asked: an event, whose time the script looks at.
        let script = ScriptFile::new("fig9", FIG_9);
        let route = simple(upstream.address, "script = \"s\"\ndropped = 504");
        let proxy = proxy(&format!("{}{route}", script.section("")));
        let mut client = Client::connect(address(&proxy)).await;
        let fresh = "{\"event_type\": \"view\", \"event_time\": 9999999999}";
        assert_eq!(client.send(post("/event", fresh)).await.status(), 200);
        let late = "{\"event_type\": \"view\", \"event_time\": 1}";
        let late = client.send(post("/event", late)).await;
        assert_eq!(
            (late.status().as_u16(), &late.headers()["x-tidegate-reason"]),
            (504, &"script".parse().unwrap())
        );
        until(|| is_settled(&proxy)).await;
        assert_eq!(proxy.status.scripts().read()[0].counts.runs, 2, "responses only");
    });
}

#[test]
fn fig_13_asks_for_a_chunk_that_the_network_carries() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let script = ScriptFile::new("fig13", FIG_13);
        let helper = ScriptFile::new(
            "fig13-helper",
            "function find_resolution(bw) return if tonumber(bw) < 1000 then 240 else 720 end",
        );
        let section = script.section(&format!(
            "helpers = [{:?}]\npath = \"^/?(%d+)/(.+)$\"",
            helper.0.display().to_string()
        ));
        let proxy = proxy(&format!("{section}{}", simple(upstream.address, "script = \"s\"")));
        let mut client = Client::connect(address(&proxy)).await;
        for (path, bandwidth) in
            [("/720/7.ts", "500"), ("/240/8.ts", "5000"), ("/720/9.ts", "5000")]
        {
            let mut request = get(path);
            request.headers_mut().insert("BW-est", bandwidth.parse().unwrap());
            assert_eq!(client.send(request).await.status(), 200);
        }
        let paths = ["/240/7.ts", "/720/8.ts", "/720/9.ts"];
        assert_eq!(upstream.asked(), paths.map(|path| format!("GET {path} app.example")));
    });
}

#[test]
fn scripts_change_everything_of_a_message() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let script = ScriptFile::new(
            "change",
            "function on_message(h)\n local m = h:message()\n m:setBody('new ' .. m:bytes(1, -1))\n\
             m:header():replace(':method', 'PUT')\n m:header():set('X-Tag', 'a')\n\
             m:header():replace(':authority', 'other')\nend\n\
             function on_response(h)\n local m = h:message()\n\
             m:header():set('x-tag', m:header():get('X-TAG') .. 'b')\n m:header():replace(':status', '201')\n\
             m:setBody('[' .. m:bytes(1, -1) .. ']')\nend",
        );
        let proxy =
            proxy(&format!("{}{}", script.section(""), simple(upstream.address, "script = \"s\"")));
        let mut client = Client::connect(address(&proxy)).await;
        let response = client.send(post("/", "body")).await;
        assert_eq!(response.headers()["x-tag"], "ab");
        let (status, body) = text(response).await;
        assert_eq!((status.as_u16(), &*body), (201, "[PUT / other new body]"));
        until(|| is_settled(&proxy)).await;
    });
}

#[test]
fn waiting_messages_are_moved_and_dropped() {
    on_one_thread(async {
        let upstream = Upstream::start_silent().await;
        let script = ScriptFile::new(
            "front",
            "function on_message(h)\n local m = h:message()\n\
             if m:header():get('path') == '/front' then m:moveToFront() end\n\
             if m:header():get('path') == '/clear' then\n\
               for queue in h:Queues():getQueue() do for msg in queue:messages() do\n\
                 if msg:header():get('path') == '/old' then msg:drop() end end end end\nend",
        );
        let text = format!("{}{}", script.section(""), simple(upstream.address, "script = \"s\""));
        let proxy = proxy(&text.replace("[[proxy.route]]", "in_flight = 1\n[[proxy.route]]"));
        let (mut clients, mut answers) = (Vec::new(), Vec::new());
        for (place, path) in ["/first", "/old", "/normal", "/front", "/clear"].iter().enumerate() {
            let mut client = Client::connect(address(&proxy)).await;
            answers.push(client.begin(get(path)));
            clients.push(client);
            until(|| proxy.hall.status().counts.records == place as u64 + 1).await;
        }
        upstream.may_answer.add_permits(5);
        let mut statuses = Vec::new();
        for answer in answers {
            statuses.push(answer.await.unwrap().status().as_u16());
        }
        assert_eq!(statuses, [200, 503, 200, 200, 200]);
        let paths = ["/first", "/front", "/normal", "/clear"];
        assert_eq!(upstream.asked(), paths.map(|path| format!("GET {path} app.example")));
    });
}

#[test]
fn what_a_script_inserts_is_sent() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        let script = ScriptFile::new(
            "insert",
            "function on_message(h) h:message():insert({path = '/copy', body = 'b', \
             header = {[':method'] = 'POST', [':authority'] = 'copy'}}) end",
        );
        let proxy =
            proxy(&format!("{}{}", script.section(""), simple(upstream.address, "script = \"s\"")));
        let mut client = Client::connect(address(&proxy)).await;
        assert_eq!(client.send(get("/")).await.status(), 200);
        until(|| is_settled(&proxy) && upstream.asked().len() == 2).await;
        assert!(
            upstream.asked().contains(&"POST /copy copy b".to_owned()),
            "{:?}",
            upstream.asked()
        );
    });
}

#[test]
fn hostile_scripts_end_nothing() {
    on_one_thread(async {
        let upstream = Upstream::start().await;
        for text in [
            "function on_message(h) while true do pcall(error) end end",
            "function on_message(h) local t = {} while true do t[#t + 1] = {t} end end",
            "function on_message(h) local function f() return f() + 1 end f() end",
            "function on_message(h) h:message():setBody(string.rep('x', 2^40)) end",
            "function on_message(h) for q in h:Queues():getQueue() do for m in q:messages() do \
             m:header():set('a b', 'x\\n') end end end",
        ] {
            let script = ScriptFile::new("hostile", text);
            let limits = "time = \"1ms\"\nmemory = \"2MiB\"\non_failure = \"pass\"";
            let one = simple(upstream.address, "path = \"/bad\"\nscript = \"s\"");
            let config =
                format!("{}{one}[[proxy.route]]\nname = \"good\"\n", script.section(limits));
            let proxy = proxy(&config);
            let status = || proxy.status.scripts().read()[0].clone();
            // What only takes long is never switched off; what fails is, after ten calls.
            let is_endless = text.contains("pcall(error)");
            let mut bad = Client::connect(address(&proxy)).await;
            let mut good = Client::connect(address(&proxy)).await;
            for _ in 0..20 {
                assert_eq!(bad.send(get("/bad")).await.status(), 200, "it goes as it is");
                assert_eq!(good.send(get("/good")).await.status(), 200);
            }
            // Calls that fail after their first turn are fewer than messages, which do not wait for them.
            for _ in 0..10_000 {
                let counts = status().counts;
                let is_over = if is_endless { counts.too_long >= 20 } else { !status().is_on };
                if is_over {
                    break;
                }
                assert_eq!(bad.send(get("/bad")).await.status(), 200, "it goes as it is");
            }
            let status = status();
            assert_eq!(status.is_on, is_endless, "{status:?}");
            assert!(!is_endless || status.counts.too_long >= 20, "{status:?}");
            until(|| is_settled(&proxy)).await;
        }
    });
}
