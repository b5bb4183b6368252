//! Checks `[proxy]`.

use std::net::SocketAddr;

use super::{Findings, name_is_good};
use crate::config::nearest::suggest;
use crate::config::network::address;
use crate::config::places::Place;
use crate::config::{
    Config, FarTlsConfig, ListenMode, ORIGINAL, ProxyListenerConfig, RouteConfig, ScriptConfig,
    UpstreamConfig, WhenDown,
};

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let proxy = &config.proxy;
    let section = Place::section("proxy");
    if let Err(text) = proxy.check_counts() {
        findings.error(section.clone(), text);
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, upstream) in proxy.upstream.iter().enumerate() {
        let place = section.to("upstream").to(index);
        match &upstream.name {
            None => findings.error(place.clone(), "no name: give name = \"app\""),
            Some(name) => one_name(name, &place, &mut names, findings),
        }
        upstream_is_good(upstream, &place, findings);
    }
    for (index, listener) in proxy.listener.iter().enumerate() {
        let place = section.to("listener").to(index);
        one_name(listener.label(), &place, &mut names, findings);
        listener_is_good(listener, &place, findings);
        let upstreams = || proxy.upstream.iter().map(UpstreamConfig::label);
        if let Some(to) = listener.other.as_deref().filter(|to| !upstreams().any(|one| one == *to))
        {
            let text = format!("no upstream {to:?}: {}", suggest(to, upstreams()));
            findings.error(place.to("other"), text);
        }
        if listener.other.is_some() && listener.tls.is_some() {
            let text = "what comes by TLS is HTTP: leave out one of other and tls";
            findings.error(place.to("other"), text);
        }
    }
    for (index, route) in proxy.route.iter().enumerate() {
        route_is_good(config, route, &section.to("route").to(index), findings);
    }
    let has_any =
        !(proxy.upstream.is_empty() && proxy.listener.is_empty() && proxy.route.is_empty());
    if has_any && proxy.upstream.is_empty() {
        findings.error(section.clone(), "no [[proxy.upstream]]: requests could go nowhere");
    }
    if has_any && proxy.listener.is_empty() {
        findings.error(section, "no [[proxy.listener]]: no request could come");
    }
}

/// Upstreams and listeners are called by name in routes and scripts: a name means one of them.
fn one_name<'a>(name: &'a str, place: &Place, names: &mut Vec<&'a str>, findings: &mut Findings) {
    name_is_good(name, place.to("name"), findings);
    if names.contains(&name) {
        let text = format!("an upstream or listener {name:?} stands above: rename one");
        findings.error(place.to("name"), text);
    }
    names.push(name);
}

fn upstream_is_good(upstream: &UpstreamConfig, place: &Place, findings: &mut Findings) {
    if upstream.to.is_empty() {
        findings.error(place.clone(), "no address: give to = [\"10.0.0.7:80\"]");
    }
    for (index, to) in upstream.to.iter().enumerate() {
        if to == ORIGINAL {
            if upstream.to.len() > 1 {
                let text = "\"original\" is where the client wanted to go: it stands alone";
                findings.error(place.to("to").to(index), text);
            }
        } else if address(to).is_none() {
            let text = format!("{to:?} is no address: write host:port, as in \"10.0.0.7:80\"");
            findings.error(place.to("to").to(index), text);
        }
    }
    if let Some(tls) = &upstream.tls {
        far_end(tls, &place.to("tls"), findings);
    }
    if let Some(health) = &upstream.health {
        let place = place.to("health");
        if health.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            findings.error(place.to("path"), "a path begins with /, as in \"/healthz\"");
        }
    }
}

pub(super) fn far_end(tls: &FarTlsConfig, place: &Place, findings: &mut Findings) {
    if tls.ca.is_none() {
        let text = "no ca: name the authorities that are trusted, such as \
                    \"/etc/ssl/certs/ca-certificates.crt\" for all public ones";
        findings.error(place.clone(), text);
    }
    if tls.certificate.is_some() != tls.key.is_some() {
        findings.error(place.clone(), "certificate and key go together: give both or none");
    }
    if let Some(Err(text)) = tls.name.as_deref().map(crate::support::tls::server_name) {
        findings.error(place.to("name"), text);
    }
}

fn listener_is_good(listener: &ProxyListenerConfig, place: &Place, findings: &mut Findings) {
    if listener.listen.as_ref().is_none_or(|listen| listen.0.is_empty()) {
        let text = "no address to listen on: give listen = \"127.0.0.1:8080\"";
        findings.error(place.clone(), text);
    }
    if let Some(tls) = listener.tls.as_ref().filter(|tls| tls.files().is_none()) {
        let lacks = if tls.certificate.is_none() { "certificate" } else { "key" };
        findings.error(place.to("tls"), format!("no {lacks}: TLS needs certificate and key"));
    }
    let is_open = |address: &SocketAddr| !address.ip().is_loopback();
    let is_public = listener.listen.iter().flat_map(|listen| &listen.0).any(is_open);
    if is_public && listener.tls.is_none() && listener.mode == ListenMode::Explicit {
        let text =
            "everybody who reaches it is served, in the clear: give tls, or listen on loopback";
        findings.warning(place.to("listen"), text);
    }
}

fn route_is_good(config: &Config, route: &RouteConfig, place: &Place, findings: &mut Findings) {
    let proxy = &config.proxy;
    if let Some(name) = &route.name {
        name_is_good(name, place.to("name"), findings);
    }
    let upstreams = || proxy.upstream.iter().map(UpstreamConfig::label);
    if let Some(to) = route.to.as_deref().filter(|to| !upstreams().any(|known| known == *to)) {
        let text = format!("no upstream {to:?}: {}", suggest(to, upstreams()));
        findings.unknown(place.to("to"), "proxy", text);
    }
    let listeners = || proxy.listener.iter().map(ProxyListenerConfig::label);
    for (index, name) in route.listener.iter().enumerate() {
        if !listeners().any(|known| known == name) {
            let text = format!("no listener {name:?}: {}", suggest(name, listeners()));
            findings.unknown(place.to("listener").to(index), "proxy", text);
        }
    }
    let scripts = || config.script.iter().map(ScriptConfig::label);
    if let Some(name) =
        route.script.as_deref().filter(|name| !scripts().any(|known| known == *name))
    {
        let text = format!("no script {name:?}: {}", suggest(name, scripts()));
        findings.unknown(place.to("script"), "script", text);
    }
    class_of(config, route, place, findings);
    if route.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
        findings.error(place.to("path"), "a path begins with /, as in \"/api/\"");
    }
    for (index, upgrade) in route.upgrades.iter().enumerate() {
        if upgrade.eq_ignore_ascii_case("h2c") {
            let text = "after h2c a client asks for anything, and no route sees it: take it out";
            findings.error(place.to("upgrades").to(index), text);
        }
    }
    if !route.queue && (route.script.is_some() || route.down == WhenDown::Wait) {
        let text =
            "nothing waits, so no script sees anything: take it out, or leave the script out";
        findings.error(place.to("queue"), text);
    }
}

fn class_of(config: &Config, route: &RouteConfig, place: &Place, findings: &mut Findings) {
    let classes = config.clone().completed().class;
    let known = || classes.iter().filter_map(|class| class.name.as_deref());
    if let Some(name) = route.class.as_deref().filter(|name| !known().any(|known| known == *name)) {
        let text = format!("no class {name:?}: {}", suggest(name, known()));
        findings.unknown(place.to("class"), "class", text);
    }
    if route.class.is_some() && route.latency.is_some() {
        findings.error(place.to("class"), "latency is given too: keep one of the two");
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::limits::OUTPUTS_MAX;

    use crate::config::read;

    const BASE: &str = "[[script]]\nname = \"s\"\nfile = \"s.luau\"\n[[proxy.listener]]\n\
                        listen = \"127.0.0.1:8080\"\n";
    const UPSTREAM: &str = "[[proxy.upstream]]\nname = \"app\"\nto = [\"10.0.0.7:80\"]\n";

    fn told(text: &str) -> String {
        read(text).render("proxy.toml", text)
    }

    #[test]
    fn a_proxy_is_checked() {
        assert_eq!(told(&format!("{BASE}{UPSTREAM}[[proxy.route]]\nscript = \"s\"\n")), "");
        for (more, wanted) in [
            ("to = [\"a\"]", "write host:port"),
            ("to = [\"original\", \"a:1\"]", "it stands alone"),
            ("in_flight = 0", "give at least 1"),
            ("rate = \"0mbit\"", "nothing could be sent"),
            ("tls = {}", "no ca"),
            ("health = { path = \"x\" }", "begins with /"),
            ("connect_timeout = \"0s\"", "nothing is that fast"),
        ] {
            let key = more.split(' ').next().unwrap();
            let upstream = if key == "to" {
                UPSTREAM.replace("to = [\"10.0.0.7:80\"]\n", "")
            } else {
                UPSTREAM.to_owned()
            };
            let told = told(&format!("{BASE}{upstream}{more}\n"));
            assert!(told.contains(wanted), "{more}: {told}");
        }
        for (more, wanted) in [
            ("to = \"ap\"", "did you mean \"app\"?"),
            ("script = \"t\"", "no script \"t\""),
            ("listener = [\"client\"]", "did you mean \"clients\"?"),
            ("class = \"lx\"", "no class \"lx\""),
            ("path = \"x\"", "begins with /"),
            ("dropped = 42", "no status"),
            ("waiting = 0", "give at least 1"),
            ("wait = \"0s\"", "nothing is that fast"),
            ("queue = false\nscript = \"s\"", "nothing waits"),
            ("message_max = \"1GiB\"", "should stream"),
            ("upgrades = [\"websocket\", \"h2c\"]", "no route sees it"),
        ] {
            let told = told(&format!("{BASE}{UPSTREAM}[[proxy.route]]\n{more}\n"));
            assert!(told.contains(wanted), "{more}: {told}");
        }
        for (more, wanted) in [
            ("keep_alive = \"0s\"", "no client is that fast"),
            ("write_timeout = \"0s\"", "no client is that fast"),
            ("streams = 0", "give at least 1"),
            ("other = \"ap\"", "did you mean \"app\"?"),
            (
                "other = \"app\"\ntls = { certificate = \"c\", key = \"k\" }",
                "leave out one of other and tls",
            ),
            ("trusted = [\"10.0.0.0/40\"]", "is no network"),
        ] {
            let told = told(&format!("{BASE}{more}\n{UPSTREAM}"));
            assert!(told.contains(wanted), "{more}: {told}");
        }
        assert!(told(BASE).contains("no [[proxy.upstream]]"));
        assert!(told(UPSTREAM).contains("no [[proxy.listener]]"));
        let open = format!("{UPSTREAM}[[proxy.listener]]\nlisten = \"0.0.0.0:80\"\n");
        assert!(told(&open).contains("in the clear"));
        let twice = format!("{BASE}{UPSTREAM}{UPSTREAM}");
        assert!(told(&twice).contains("\"app\" stands above"));
        let many = UPSTREAM.replace("app", "app0");
        let many: String =
            (0..OUTPUTS_MAX).map(|n| many.replace("app0", &format!("app{n}"))).collect();
        assert!(
            told(&format!("{BASE}{many}")).contains(&format!("together at most {OUTPUTS_MAX}"))
        );
    }
}
