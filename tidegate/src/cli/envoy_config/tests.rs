//! What is written is what the check wants; what defeats queues is found.

use clap::Parser;
use serde_json::Value;

use super::yaml::documents;
use super::*;
use crate::cli::{Cli, Command};

/// Two upstreams, a script that looks at requests, in a folder of its own.
struct Files(std::path::PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let folder =
            std::env::temp_dir().join(format!("tidegate-advice-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = folder.join("s.luau");
        std::fs::write(&script, "function on_message(h) end\n").unwrap();
        let text = format!(
            "[[proxy.listener]]\nlisten = \"127.0.0.1:9002\"\n\
             [[proxy.upstream]]\nname = \"cloud\"\nto = [\"10.0.0.1:80\"]\n\
             [[proxy.upstream]]\nname = \"edge\"\nto = [\"edge.example:443\"]\n\
             tls = {{ ca = \"/etc/ca.pem\" }}\n\
             [[proxy.route]]\nscript = \"s\"\nwait = \"20s\"\n\
             [[script]]\nname = \"s\"\nfile = {:?}\n",
            script.display().to_string()
        );
        std::fs::write(folder.join("proxy.toml"), text).unwrap();
        Files(folder)
    }

    fn arguments(&self, more: &[&str]) -> EnvoyConfigArguments {
        let file = self.0.join("proxy.toml").display().to_string();
        let all = ["tidegate", "envoy-config", "-c", &file];
        match Cli::try_parse_from(all.iter().chain(more)).unwrap().command {
            Command::EnvoyConfig(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    fn needs(&self) -> (Needs, Config) {
        let config = configuration(&self.0.join("proxy.toml")).unwrap();
        (Needs::of(&config).unwrap(), config)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_written_defeats_no_queue() {
    let files = Files::new("written");
    let (needs, config) = files.needs();
    let text = write::render(&needs, &files.arguments(&[]));
    assert_eq!(lint(&text, &needs).unwrap(), [], "{text}");
    assert!(text.contains("message_timeout: 25s") && text.contains("failure_mode_allow: false"));
    let passing = write::render(&needs, &files.arguments(&["--pass-when-absent"]));
    let found = lint(&passing, &needs).unwrap();
    assert!(matches!(&found[..], [one] if !one.is_error), "{found:?}");
    let manifests = istio::render(&needs, &config, &files.arguments(&["--istio"])).unwrap();
    let found = lint(&manifests, &needs).unwrap();
    assert!(matches!(&found[..], [one] if one.text.contains("cluster_header")), "{found:?}");
    let documents = documents(&manifests).unwrap();
    let kinds: Vec<&str> = documents.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ConfigMap", "EnvoyFilter"]);
    let own = documents[0]["data"]["proxy.toml"].as_str().unwrap();
    assert!(own.contains("file = \"/etc/tidegate/s.luau\""), "{own}");
    assert_eq!(documents[0]["data"]["s.luau"], "function on_message(h) end\n");
}

#[test]
fn what_defeats_queues_is_found() {
    let files = Files::new("found");
    let (needs, _) = files.needs();
    let right = write::render(&needs, &files.arguments(&[]));
    for (from, to, wanted) in [
        ("message_timeout: 25s", "message_timeout: 0.2s", "write message_timeout: 25s"),
        ("message_timeout: 25s", "stat_prefix: a", "Envoy's own is 200 ms"),
        ("timeout: 0s  ", "timeout: 5s  ", "ends a stream after 5s"),
        ("failure_mode_allow: false", "observability_mode: true", "holds nothing"),
        ("failure_mode_allow: false", "disable_immediate_response: true", "would go on"),
        ("failure_mode_allow: false", "route_cache_action: RETAIN", "redirect() has no effect"),
        ("allow_all_routing: true", "disallow_all: true", "no script can change"),
        ("allow_all_routing: true", "allow_envoy: true", "is left out"),
        ("request_header_mode: SEND", "request_header_mode: SKIP", "no request would wait"),
        ("response_header_mode: SEND", "response_header_mode: SKIP", "in_flight"),
        ("BUFFERED_PARTIAL", "STREAMED", "would not see bodies"),
        ("BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED", "request_trailer_mode: SEND"),
        ("BUFFERED_PARTIAL", "BUFFERED", "413"),
        ("request_timeout: 0s", "request_timeout: 10s", "request_timeout is 10s"),
        ("cluster_header: x-tidegate-upstream", "cluster: cloud", "redirect() has no effect"),
        ("max_requests: 65536", "max_retries: 3", "Envoy refuses more"),
    ] {
        assert!(right.contains(from), "{from}: {right}");
        let found = lint(&right.replace(from, to), &needs).unwrap();
        let told = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.contains(wanted), "{to}: {told}");
    }
    let none = lint("a: 1\n", &needs).unwrap();
    assert!(none[0].text.contains("nothing comes to the processor"), "{none:?}");
    assert!(lint("a: [", &needs).is_err());
}

#[test]
fn camel_case_is_read_too() {
    let files = Files::new("camel");
    let (needs, _) = files.needs();
    let text = r#"{"typedConfig": {"@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
        "messageTimeout": "1s", "processingMode": {"requestBodyMode": "BUFFERED_PARTIAL"},
        "mutationRules": {"allowAllRouting": true}}}"#;
    let found = lint(text, &needs).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].path == "typedConfig" && found[0].text.contains("message_timeout is 1s"));
}

#[test]
fn the_injection_template_is_sound() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/kubernetes/injection.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let values = documents(&text).unwrap().remove(0);
    let template = values["sidecarInjectorWebhook"]["templates"]["tidegate"].as_str().unwrap();
    // Without the braces that Istio fills in, it is a pod.
    let pod: String = template
        .lines()
        .filter(|line| !line.contains("{{"))
        .map(|line| format!("{line}\n"))
        .collect();
    let pod = documents(&pod).unwrap().remove(0);
    let container = &pod["spec"]["containers"][0];
    let words: Vec<&str> =
        container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let command = Cli::try_parse_from(["tidegate"].iter().chain(&words)).unwrap().command;
    assert!(matches!(command, Command::ExtProc(_)), "{command:?}");
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/tidegate");
    assert_eq!(container["securityContext"]["runAsNonRoot"], true);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/kubernetes/example.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let documents = documents(&text).unwrap();
    let kinds: Vec<&str> = documents.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(kinds, ["Deployment", "Service", "VirtualService"]);
    let pod = &documents[0]["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["tidegate"], "tidegate");
    let templates = &pod["metadata"]["annotations"]["inject.istio.io/templates"];
    assert_eq!(templates, "sidecar,tidegate");
    let matched = &documents[2]["spec"]["http"][0]["match"][0]["headers"];
    assert!(matched["x-tidegate-upstream"]["exact"].is_string(), "{matched}");
}

#[test]
fn the_example_for_kubernetes_is_consistent() {
    let own = env!("CARGO_MANIFEST_DIR");
    let folder = format!("{own}/../packaging/kubernetes");
    let files = Files::new("kubernetes");
    let text = std::fs::read_to_string(format!("{folder}/proxy.toml")).unwrap();
    let text = text.replace("/usr/share/tidegate/lua", &format!("{own}/lua"));
    std::fs::write(files.0.join("proxy.toml"), text).unwrap();
    let (needs, config) = files.needs();
    let arguments = files.arguments(&["--istio", "--direction", "outbound"]);
    let manifests = istio::render(&needs, &config, &arguments).unwrap();
    let written = documents(&manifests).unwrap();
    let patches = written[1]["spec"]["configPatches"].as_array().unwrap();
    assert_eq!(patches[1]["match"]["context"], "SIDECAR_OUTBOUND");
    let example = std::fs::read_to_string(format!("{folder}/example.yaml")).unwrap();
    let example = documents(&example).unwrap();
    let labels = &example[0]["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["tidegate"], written[0]["metadata"]["name"]);
    let matched = &example[2]["spec"]["http"][0]["match"][0]["headers"];
    let to = matched["x-tidegate-upstream"]["exact"].as_str().unwrap();
    assert!(config.proxy.upstream.iter().any(|upstream| upstream.label() == to), "{to}");
    let host = &example[2]["spec"]["hosts"][0];
    assert_eq!(host.as_str(), config.proxy.route[0].host.first().map(String::as_str));
}

#[test]
fn what_is_nested_without_end_is_told_and_ends_nothing() {
    for (text, line) in [
        ("- ".repeat(50_000) + "a", 1),
        ("? ".repeat(50_000) + "a", 1),
        ((0..5000).map(|deep| format!("{}a:\n", " ".repeat(deep))).collect::<String>(), 258),
    ] {
        let told = documents(&text).unwrap_err().to_string();
        assert_eq!(told, format!("line {line}: nested deeper than 256 columns"));
    }
    assert!(documents(&"[".repeat(50_000)).is_err());
    let deep: String = (0..120).map(|deep| format!("{}- a:\n", "  ".repeat(deep))).collect();
    assert!(documents(&deep).is_ok(), "as deep as any");
}
