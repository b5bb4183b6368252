//! The `[[script]]` tables, and the streams that name them.

use std::time::Duration;

use super::proxy::far_end;
use super::{Findings, name_is_good};
use crate::config::nearest::suggest;
use crate::config::places::Place;
use crate::config::{Config, ScriptConfig};
use crate::script::{ENDPOINTS_MAX, SCRIPTS_MAX};
use crate::support::http::endpoint::Endpoint;

/// A call that may take longer than this delays other streams by more than they are promised.
const TIME_GOOD: Duration = Duration::from_millis(4);

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let section = Place::section("script");
    if config.script.len() > SCRIPTS_MAX {
        let text = format!("{} scripts: at most {SCRIPTS_MAX}", config.script.len());
        findings.error(section.to(SCRIPTS_MAX), text);
    }
    for (index, script) in config.script.iter().enumerate() {
        let place = section.to(index);
        let above = &config.script[..index];
        match &script.name {
            None => findings.error(place.clone(), "no name: give name = \"shed\""),
            Some(name) if above.iter().any(|other| other.name.as_ref() == Some(name)) => {
                findings
                    .error(place.to("name"), format!("a script {name:?} stands above: rename one"));
            }
            Some(name) => name_is_good(name, place.to("name"), findings),
        }
        if script.file.is_none() {
            findings.error(place.clone(), "no file: give file = \"shed.luau\"");
        }
        bounds(script, &place, findings);
        endpoints(script, &place, findings);
        for name in script.parameters.keys().filter(|name| !is_identifier(name)) {
            let text = format!("{name:?} is no name of a value in Luau: letters, digits and _");
            findings.error(place.to("parameters").to(name.as_str()), text);
        }
    }
    let names: Vec<&str> = config.script.iter().map(ScriptConfig::label).collect();
    for (index, stream) in config.stream.iter().enumerate() {
        let Some(name) = &stream.script else { continue };
        if !names.contains(&name.as_str()) {
            let place = Place::section("stream").to(index).to("script");
            let text = format!("no script {name:?}: {}", suggest(name, names.clone()));
            findings.unknown(place, "script", text);
        }
    }
}

fn bounds(script: &ScriptConfig, place: &Place, findings: &mut Findings) {
    let time = script.time.0;
    if time > TIME_GOOD {
        let text = "other streams wait as long at each call: 1ms is enough for hundreds of records";
        findings.warning(place.to("time"), text);
    }
}

fn endpoints(script: &ScriptConfig, place: &Place, findings: &mut Findings) {
    if script.transform.len() > ENDPOINTS_MAX {
        let text = format!("{} endpoints: at most {ENDPOINTS_MAX}", script.transform.len());
        findings.error(place.to("transform"), text);
    }
    let of_names = script.notifications.values().map(Vec::len).sum::<usize>();
    for (key, count) in [("notify", script.notify.len()), ("notifications", of_names)] {
        if count > ENDPOINTS_MAX {
            let text = format!("{count} endpoints: at most {ENDPOINTS_MAX}");
            findings.error(place.to(key), text);
        }
    }
    let transform = script.transform.iter();
    let transform = transform.map(|(name, url)| (place.to("transform").to(name.as_str()), url));
    let notify = script.notify.iter().enumerate();
    let notify = notify.map(|(index, url)| (place.to("notify").to(index), url));
    let named = script.notifications.iter().flat_map(|(name, urls)| {
        let place = place.to("notifications").to(name.as_str());
        urls.iter().enumerate().map(move |(index, url)| (place.to(index), url))
    });
    for (place, url) in transform.chain(notify).chain(named) {
        match Endpoint::parse(url) {
            Ok(endpoint) if endpoint.is_tls() && script.tls.is_none() => findings.error(
                place,
                "https:// without an authority: give tls = { ca = \"...\" } to the script",
            ),
            Ok(_) => {}
            Err(text) => findings.error(place, text),
        }
    }
    if let Some(tls) = &script.tls {
        far_end(tls, &place.to("tls"), findings);
    }
}

fn is_identifier(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(fits) && name.chars().next().is_some_and(|c| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use crate::config::read;

    fn told(text: &str) -> String {
        read(text).render("node.toml", text)
    }

    #[test]
    fn scripts_are_checked() {
        let script = "[[script]]\nname = \"shed\"\nfile = \"shed.luau\"\n";
        assert_eq!(told(&format!("{script}[[stream]]\nscript = \"shed\"\n")), "");
        for (line, wanted) in [
            ("time = \"0ms\"", "give 1us to 100ms"),
            ("time = \"1s\"", "give 1us to 100ms"),
            ("time = \"10ms\"", "warning"),
            ("memory = \"1KiB\"", "give at least 1MiB"),
            ("timeout = \"0s\"", "give at least \"10ms\""),
            ("transform = { small = \"ftp://h/\" }", "write http://host:port/path"),
            ("transform = { small = \"https://h/\" }", "https:// without an authority"),
            ("notify = [\"https://h/\"]\ntls = {}", "no ca: name the authorities"),
            ("notify = [\"h:80\"]", "write http://host:port/path"),
            ("notifications = { slow = [\"h:80\"] }", "write http://host:port/path"),
            ("parameters = { \"a-b\" = 1 }", "no name of a value in Luau"),
            ("tiem = \"1ms\"", "did you mean \"time\"?"),
            ("[[stream]]\nscript = \"shet\"", "did you mean \"shed\"?"),
        ] {
            let told = told(&format!("{script}{line}\n"));
            assert!(told.contains(wanted), "{line}: {told}");
        }
        assert!(told("[[script]]\nfile = \"a\"").contains("no name: give name = \"shed\""));
        assert!(told("[[script]]\nname = \"a\"").contains("no file: give file = \"shed.luau\""));
        assert!(told(&script.repeat(2)).contains("a script \"shed\" stands above"));
    }
}
