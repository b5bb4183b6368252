//! Cameras: that their frames lead somewhere, and that strangers prove who they are.

use super::{Findings, name_is_good};
use crate::config::frames::SUBSCRIBERS;
use crate::config::frames::source::Source;
use crate::config::places::Place;
use crate::config::{CameraConfig, Config, FramesConfig};
use crate::keys::both_ends;
use crate::keys::url::host_and_port;

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let (frames, place) = (&config.frames, Place::section("frames"));
    cameras(config, findings);
    if *frames == FramesConfig::default() {
        if !config.camera.is_empty() {
            let is_read = config.camera.iter().all(|camera| camera.source.is_some());
            let who = if is_read { "subscribe to" } else { "publish" };
            let text =
                format!("nobody can {who} its frames: give [frames] listen = \"127.0.0.1:7420\"");
            findings.error(Place::section("camera"), text);
        }
        return;
    }
    if !frames.is_set() {
        let text = "nobody comes here: give listen = \"127.0.0.1:7420\"";
        return findings.error(place, text);
    }
    leads_somewhere(config, &place, findings);
    proves(config, &place, findings);
    let classes = config.clone().completed().class;
    if let Some(class) = &frames.class
        && !classes.iter().any(|one| one.name.as_ref() == Some(class))
    {
        findings.unknown(place.to("class"), "class", format!("there is no class {class:?}"));
    }
    for (index, name) in frames.nodes.iter().enumerate() {
        name_is_good(name, place.to("nodes").to(index), findings);
    }
}

fn leads_somewhere(config: &Config, place: &Place, findings: &mut Findings) {
    let frames = &config.frames;
    match (&frames.server, &frames.to) {
        (None, None) => {}
        (Some(server), Some(to)) => {
            if host_and_port(server).is_none_or(|(_, port)| port.is_none()) {
                let text = format!("{server:?} is no host and port: write \"edge.example:7420\"");
                findings.error(place.to("server"), text);
            }
            if !config.output.iter().any(|output| output.label() == to) {
                findings.unknown(place.to("to"), "output", format!("there is no output {to:?}"));
            }
        }
        (Some(_), None) => {
            let text = "by which output do frames go there? Give to = \"edge\"";
            findings.error(place.to("server"), text);
        }
        (None, Some(_)) => {
            let text =
                "who says which frames are wanted there? Give server = \"edge.example:7420\"";
            findings.error(place.to("to"), text);
        }
    }
    if frames.server.is_none() && !frames.fallback.is_empty() {
        findings.error(place.to("fallback"), "instead of which one? Give server and to");
    }
    for (index, one) in frames.fallback.iter().enumerate() {
        let place = place.to("fallback").to(index);
        if let Some(server) = &one.server
            && host_and_port(server).is_none_or(|(_, port)| port.is_none())
        {
            let text = format!("{server:?} is no host and port: write \"edge-2.example:7420\"");
            findings.error(place.to("server"), text);
        }
        if let Some(to) = &one.to
            && !config.output.iter().any(|output| output.label() == to)
        {
            findings.unknown(place.to("to"), "output", format!("there is no output {to:?}"));
        }
    }
    if config.output.iter().any(|output| output.label() == SUBSCRIBERS) && frames.is_served_here() {
        let text =
            format!("{SUBSCRIBERS:?} is the output to subscribers of frames: give another name");
        findings.error(Place::section("output"), text);
    }
}

/// Off loopback all callers show certificates.
fn proves(config: &Config, place: &Place, findings: &mut Findings) {
    let [ca, certificate, key] = config.frames_files();
    let given = [&ca, &certificate, &key].into_iter().flatten().count();
    let listen = config.frames.listen.as_ref();
    let is_open = listen.is_some_and(|listen| listen.0.iter().any(|at| !at.ip().is_loopback()));
    if is_open || given > 0 {
        both_ends::check([&ca, &certificate, &key], place, findings);
    }
}

fn cameras(config: &Config, findings: &mut Findings) {
    for (index, camera) in config.camera.iter().enumerate() {
        let place = Place::section("camera").to(index);
        let Some(name) = &camera.name else {
            findings.error(place, "no name: give name = \"gate-north\"");
            continue;
        };
        name_is_good(name, place.to("name"), findings);
        if !tidegate_types::topic::is_topic(name) || name.starts_with(['.', '@']) {
            let text =
                format!("{name:?} is no name of a camera: leave out + and #, and . or @ before");
            findings.error(place.to("name"), text);
        }
        sources(camera, &place, findings);
        if config.camera[..index].iter().any(|other| other.name.as_ref() == Some(name)) {
            findings.error(place.to("name"), format!("a camera {name:?} stands above"));
        }
    }
}

fn sources(camera: &CameraConfig, place: &Place, findings: &mut Findings) {
    let source = camera.source.as_deref();
    if let Some(Err(error)) = source.map(Source::parse) {
        findings.error(place.to("source"), error);
    }
    if camera.rate.is_some() && source.is_none() {
        findings.error(place.to("rate"), "it is the rate of a source: give one, or leave it out");
    }
}
