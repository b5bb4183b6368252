//! Whether the files that a configuration names can be used: for `tidegate check` and before a start.

use std::cell::Cell;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_node::rules::ScriptId;

use super::taker::Taker;
use super::trial::{self, Tried};
use crate::config::check::{Finding, Findings};
use crate::config::places::Place;
use crate::config::{Config, FarTlsConfig, FileKind, Reading, ScriptConfig, TlsConfig, read_and};
use crate::input::kind::Certificates;
use crate::script::Script;
use crate::services::operators;
use crate::support::tls::grpc::FleetTls;
use crate::support::tls::{self, Certificate, ClientFiles, ServerFiles, ShownAs};

/// Before this many seconds are over, a certificate should be renewed.
const RENEW_WITHIN: i64 = 14 * 86_400;

/// Reads and checks the text of a configuration, and looks whether the files that it names can be used.
pub fn read_with_files(text: &str) -> Reading {
    read_and(text, check)
}

/// The same for one of the commands: sections that it leaves aside are warned of.
pub fn read_for(text: &str, taker: Taker) -> Reading {
    let aside = taker.leaves_aside(text);
    read_and(text, |config| [check(config), warnings(&aside)].concat())
}

/// The same for `tidegate check`: this machine's addresses, folders and secrets are tried too.
pub fn read_here(text: &str, kind: FileKind) -> (Reading, Tried) {
    let tried = Cell::new(Tried::default());
    let reading = read_and(text, |config| {
        let mut counted = Tried::default();
        let found = trial::attempt(config, kind, &mut counted);
        tried.set(counted);
        [check(config), found].concat()
    });
    (reading, tried.get())
}

fn warnings(aside: &[(&str, String)]) -> Vec<Finding> {
    let mut findings = Findings::default();
    for (section, text) in aside {
        findings.warning(Place::section(section), text.clone());
    }
    findings.0
}

/// What is wrong with the files.
fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Findings::default();
    inputs(config, &mut findings);
    for (index, output) in config.output.iter().enumerate() {
        let Some(kind) = output.kind() else { continue };
        let place = Place::section("output").to(index).to(kind.name());
        far_end(kind.tls_files(), place, &mut findings);
    }
    proxy(config, &mut findings);
    among_nodes(config, &mut findings);
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

fn inputs(config: &Config, findings: &mut Findings) {
    for (index, input) in config.input.iter().enumerate() {
        for kind in input.kinds() {
            let place = Place::section("input").to(index).to(kind.name());
            kind.check_files(&place, findings);
            match kind.certificates() {
                Some(Certificates::ToClients(files)) => {
                    listener(&files, &place.to("tls"), findings);
                }
                Some(Certificates::ToNodes(files)) => server_side(&files, &place, findings),
                Some(Certificates::ToFarEnd(files)) => far_end(Some(files), place, findings),
                None => {}
            }
        }
    }
}

fn proxy(config: &Config, findings: &mut Findings) {
    let section = Place::section("proxy");
    for (index, one) in config.proxy.listener.iter().enumerate() {
        let place = section.to("listener").to(index).to("tls");
        if let Some(files) = one.tls.as_ref().and_then(TlsConfig::files) {
            listener(&files, &place, findings);
        }
    }
    for (index, upstream) in config.proxy.upstream.iter().enumerate() {
        let files = upstream.tls.as_ref().and_then(FarTlsConfig::files);
        far_end(files, section.to("upstream").to(index).to("tls"), findings);
    }
}

/// Sections whose certificates nodes show each other. Those that take the files of `[fleet]` are not told twice.
fn among_nodes(config: &Config, findings: &mut Findings) {
    let fleet = config.fleet.tls().filter(|_| config.fleet.is_set()).map(FleetTls::files);
    let group = config.group_tls().filter(|_| !config.group.members.is_empty());
    let mirrors = config.mirror.to.is_some() || config.mirror.listen.is_some();
    let mirror = config.mirror_server().filter(|_| mirrors);
    let frames = config.frames_tls().filter(|_| config.frames.is_set()).map(FleetTls::files);
    let mut seen: Vec<ServerFiles> = Vec::new();
    for (section, files) in [
        ("fleet", fleet),
        ("group", group.map(|(_, server)| server)),
        ("mirror", mirror),
        ("frames", frames),
    ] {
        let Some(files) = files.filter(|files| !seen.contains(files)) else { continue };
        server_side(&files, &Place::section(section), findings);
        seen.push(files);
    }
}

/// A listener for strangers, whose certificate may be of another authority than theirs.
fn listener(files: &ServerFiles, place: &Place, findings: &mut Findings) {
    if let Err(error) = tls::server(files) {
        return findings.error(place.clone(), error.to_string());
    }
    validity(&files.certificate, &place.to("certificate"), findings);
    if let Ok(false) = tls::leads(&files.certificate, None, ShownAs::Server) {
        let text = format!(
            "{}: its certificates do not lead from the first to the last, so clients refuse it: put its own first, \
             then the one that signed it, and so on",
            files.certificate.display()
        );
        findings.warning(place.to("certificate"), text);
    }
}

/// A listener for nodes that have one authority together.
pub(super) fn server_side(files: &ServerFiles, place: &Place, findings: &mut Findings) {
    if let Err(error) = tls::server(files) {
        return findings.error(place.clone(), error.to_string());
    }
    validity(&files.certificate, &place.to("certificate"), findings);
    let Some(ca) = &files.client_ca else { return };
    if let Ok(false) = tls::leads(&files.certificate, Some(ca), ShownAs::Server) {
        let text = format!(
            "{}: not signed by an authority of {}, so others who trust only that refuse it: issue it there \
             (`tidegate keys issue`)",
            files.certificate.display(),
            ca.display()
        );
        findings.warning(place.to("certificate"), text);
    }
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
