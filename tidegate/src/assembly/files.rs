//! Whether the files that a configuration names can be used: for `tidegate check` and before a start.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_node::rules::ScriptId;

use crate::config::check::{Finding, Findings};
use crate::config::places::Place;
use crate::config::{Config, FarTlsConfig, LinkInputConfig, Reading, ScriptConfig, read_and};
use crate::script::Script;
use crate::services::operators;
use crate::support::access::users::Users;
use crate::support::tls::{self, Certificate, ClientFiles};

/// Before this many seconds are over, a certificate should be renewed.
const RENEW_WITHIN: i64 = 14 * 86_400;

/// Reads and checks the text of a configuration, and looks whether the files that it names can be used.
pub fn read_with_files(text: &str) -> Reading {
    read_and(text, check)
}

/// What is wrong with the files.
fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Findings::default();
    for (index, input) in config.input.iter().enumerate() {
        let place = Place::section("input").to(index).to("mqtt");
        if let Some(Err(error)) =
            input.mqtt.as_ref().and_then(|mqtt| mqtt.users.as_deref()).map(Users::read)
        {
            findings.error(place.to("users"), error.to_string());
        }
        let place = place.to("tls");
        let Some(files) = input.mqtt.as_ref().and_then(|mqtt| mqtt.tls.as_ref()?.files()) else {
            continue;
        };
        match tls::server(&files) {
            Ok(_) => validity(&files.certificate, &place.to("certificate"), &mut findings),
            Err(error) => findings.error(place, error.to_string()),
        }
    }
    for (index, input) in config.input.iter().enumerate() {
        let place = Place::section("input").to(index).to("mqtt_client");
        let files = input.mqtt_client.as_ref().and_then(|client| client.far_end().tls_files());
        far_end(files, place, &mut findings);
    }
    for (index, input) in config.input.iter().enumerate() {
        let place = Place::section("input").to(index).to("link");
        let Some(files) = input.link.as_ref().and_then(LinkInputConfig::tls_files) else {
            continue;
        };
        match tls::server(&files) {
            Ok(_) => validity(&files.certificate, &place.to("certificate"), &mut findings),
            Err(error) => findings.error(place, error.to_string()),
        }
    }
    for (index, output) in config.output.iter().enumerate() {
        let Some(kind) = output.kind() else { continue };
        let place = Place::section("output").to(index).to(kind.name());
        far_end(kind.tls_files(), place, &mut findings);
    }
    let section = Place::section("proxy");
    for (index, listener) in config.proxy.listener.iter().enumerate() {
        let place = section.to("listener").to(index).to("tls");
        let Some(files) = listener.tls.as_ref().and_then(|tls| tls.files()) else { continue };
        match tls::server(&files) {
            Ok(_) => validity(&files.certificate, &place.to("certificate"), &mut findings),
            Err(error) => findings.error(place, error.to_string()),
        }
    }
    for (index, upstream) in config.proxy.upstream.iter().enumerate() {
        let files = upstream.tls.as_ref().and_then(FarTlsConfig::files);
        far_end(files, section.to("upstream").to(index).to("tls"), &mut findings);
    }
    for (index, script) in config.script.iter().enumerate() {
        let files = script.tls.as_ref().and_then(FarTlsConfig::files);
        far_end(files, Place::section("script").to(index).to("tls"), &mut findings);
        let place = Place::section("script").to(index).to("file");
        if script.file.is_some()
            && let Err(error) = load(script)
        {
            findings.error(place, error);
        }
    }
    for (index, operator) in config.operator.iter().enumerate() {
        if let Err(error) = operators::chain(operator) {
            findings.error(Place::section("operator").to(index).to("do"), error);
        }
    }
    findings.0
}

/// Compiles a script and lets it run its own text.
fn load(script: &ScriptConfig) -> Result<(), String> {
    let spec = script.spec()?;
    Script::load(spec.into(), ScriptId(0)).map(|_| ()).map_err(|error| error.to_string())
}

fn far_end(files: Option<ClientFiles>, place: Place, findings: &mut Findings) {
    let Some(files) = files else { return };
    match (tls::client(&files), files.own) {
        (Ok(_), None) => {}
        (Ok(_), Some((own, _))) => validity(&own, &place.to("certificate"), findings),
        (Err(error), _) => findings.error(place, error.to_string()),
    }
}

/// Tells a certificate that is not valid now, or not for long. That is no error: a clock may be wrong by years
/// until somebody sets it, and the node schedules and logs meanwhile.
fn validity(file: &Path, place: &Place, findings: &mut Findings) {
    let Ok(chain) = tls::certificates(file) else { return };
    let Some(Ok(own)) = chain.first().map(|der| Certificate::read(der)) else { return };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let file = file.display();
    if now > own.valid_until {
        let days = (now - own.valid_until) / 86_400;
        let text = format!(
            "{file}: expired {days} days ago by the clock of this machine: others refuse it until that is set \
             right, or a new one issued; all else goes on"
        );
        findings.warning(place.clone(), text);
    } else if now < own.valid_from {
        let days = (own.valid_from - now) / 86_400;
        let text = format!(
            "{file}: valid in {days} days only: is the clock of this machine right? Others refuse it until then; \
             all else goes on"
        );
        findings.warning(place.clone(), text);
    } else if own.valid_until - now < RENEW_WITHIN {
        let days = (own.valid_until - now) / 86_400;
        findings.warning(place.clone(), format!("{file}: expires in {days} days: issue a new one"));
    }
}
