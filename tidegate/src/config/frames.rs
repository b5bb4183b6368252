//! `[frames]` and `[[camera]]`: cameras of this node, and who watches which.

pub(crate) mod source;

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate_frames::ControllerName;
use tidegate_types::units::Size;

use super::units::{ByteSize, Listen, Period};
use super::{Config, OutputConfig};
use crate::support::tls::grpc::FleetTls;

/// Name of the output that leads to subscribers of this node.
pub const SUBSCRIBERS: &str = "subscribers";

/// `[frames]`; without `listen` and `server` there is nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FramesConfig {
    /// Where cameras publish, camera nodes register and applications subscribe.
    pub listen: Option<Listen>,
    /// `host:port` of the edge server where this node's cameras are registered.
    pub server: Option<String>,
    /// The output that leads there; that to this node's own subscribers if left out.
    pub to: Option<String>,
    /// The class of frames.
    pub class: Option<String>,
    /// Who says how many bytes a frame may have.
    pub controller: Controller,
    /// What `tidegate calibrate channel` measured: where controllers begin.
    pub channel: Option<PathBuf>,
    /// Frames encoded at once.
    pub workers: u32,
    /// Folder where frames are kept for replay.
    pub directory: Option<PathBuf>,
    /// Bytes kept of each camera.
    pub keep: ByteSize,
    /// Names of the nodes that may register cameras here; all with a certificate if empty.
    pub nodes: Vec<String>,
    /// PEM file with the authorities of all certificates; that of `[fleet]` if left out, as the other two.
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate of this node; its common name is the node's name.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
}

impl Default for FramesConfig {
    fn default() -> Self {
        FramesConfig {
            listen: None,
            server: None,
            to: None,
            class: None,
            controller: Controller::FeedForward,
            channel: None,
            workers: 2,
            directory: None,
            keep: ByteSize(Size::from_mib(256)),
            nodes: Vec::new(),
            ca: None,
            certificate: None,
            key: None,
        }
    }
}

/// `controller` of `[frames]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// The paper's, repaired.
    Pi,
    /// Ours.
    #[default]
    FeedForward,
    /// The best rung always.
    Fixed,
}

impl From<Controller> for ControllerName {
    fn from(controller: Controller) -> Self {
        match controller {
            Controller::Pi => ControllerName::Pi,
            Controller::FeedForward => ControllerName::FeedForward,
            Controller::Fixed => ControllerName::Fixed,
        }
    }
}

/// `[[camera]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CameraConfig {
    /// Its name.
    pub name: Option<String>,
    /// Names in certificates that may publish its frames; all with a certificate if left out.
    pub publish: Vec<String>,
    /// Names that may subscribe; all with a certificate if left out.
    pub subscribe: Vec<String>,
    /// File of its ladder; the generic one if left out.
    pub ladder: Option<PathBuf>,
    /// Whether its frames may go without colour.
    pub gray: bool,
    /// Where its frames come from: an address, a device, a folder or a clip; else they are published.
    pub source: Option<String>,
    /// Frames of its source a second, at most.
    pub rate: Option<f64>,
    /// Whether `/cameras/NAME` of `[http]` shows it.
    pub preview: bool,
}

impl FramesConfig {
    /// Whether the node has to do with frames.
    pub fn is_set(&self) -> bool {
        self.listen.is_some() || self.server.is_some()
    }

    /// The output that frames go to.
    pub fn to(&self) -> &str {
        self.to.as_deref().unwrap_or(SUBSCRIBERS)
    }

    /// Whether subscribers come to this node.
    pub fn is_served_here(&self) -> bool {
        self.is_set() && self.to.is_none()
    }

    /// The output to subscribers of this node, which is added to those of the file.
    pub(super) fn output(&self) -> Option<OutputConfig> {
        let has_subscribers = self.is_served_here();
        has_subscribers.then(|| OutputConfig {
            name: Some(SUBSCRIBERS.into()),
            frames: true,
            ..OutputConfig::default()
        })
    }
}

/// Bound on the residence of frames where no class is given: what people mean by live.
pub const LATENCY: Period = Period(Duration::from_millis(100));

impl Config {
    /// The files of its TLS: authorities, certificate and key.
    pub fn frames_files(&self) -> [Option<PathBuf>; 3] {
        let Config { frames, fleet, .. } = self;
        [
            (&frames.ca, &fleet.ca),
            (&frames.certificate, &fleet.certificate),
            (&frames.key, &fleet.key),
        ]
        .map(|(own, of_fleet)| own.clone().or_else(|| of_fleet.clone()))
    }

    /// The same, if all are given.
    pub fn frames_tls(&self) -> Option<FleetTls> {
        let [ca, certificate, key] = self.frames_files();
        Some(FleetTls { ca: ca?, certificate: certificate?, key: key? })
    }
}
