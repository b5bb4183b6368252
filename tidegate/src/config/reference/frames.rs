//! `[frames]` and `[[camera]]`.

use crate::config::FramesConfig;
use crate::keys::reference::{File, quoted};

pub(super) fn frames(file: &mut File) {
    let FramesConfig { workers, keep, .. } = FramesConfig::default();
    file.section(
        "[frames]",
        "Cameras: frames that shrink to fit the channel (docs/CAMERAS.md). Without listen and server there is\n\
         nothing of it.",
    );
    file.key(
        "listen",
        "\"127.0.0.1:7420\"",
        "Where cameras publish, camera nodes register and applications subscribe, by gRPC. Off loopback\n\
         everybody shows a certificate.",
    );
    file.key(
        "server",
        "\"edge.example:7420\"",
        "The edge server where this node's cameras are registered. Default: subscribers come here.",
    );
    file.key(
        "to",
        "\"cloud\"",
        "The output that leads to that server: a link. Required with server.",
    );
    file.key("class", "\"nm\"", "The class of frames. Default: the one for 100ms.");
    file.key(
        "controller",
        "\"feed-forward\"",
        "Who says how many bytes a frame may have: \"feed-forward\", the Mez paper's \"pi\", or \"fixed\".",
    );
    file.key(
        "channel",
        "\"channel.json\"",
        "Where controllers begin, by `tidegate calibrate channel`. Default: at 1 Mbit/s.",
    );
    file.key(
        "workers",
        &workers.to_string(),
        "Frames encoded at once, each on a thread of its own.",
    );
    file.key(
        "directory",
        "\"/var/lib/tidegate/frames\"",
        "Folder where frames are kept for replay. Default: none is kept.",
    );
    file.key("keep", &quoted(keep), "Bytes kept of each camera; the oldest frames go.");
    file.key(
        "nodes",
        "[\"cam-node-1\"]",
        "Nodes that may register cameras here. Default: all with a certificate.",
    );
    file.key(
        "ca",
        "\"/etc/tidegate/pki/ca.pem\"",
        "Authorities of all certificates. Default: that of [fleet], as for the next two.",
    );
    file.key(
        "certificate",
        "\"/etc/tidegate/pki/gate-7.pem\"",
        "The certificate of this node; its common name is the node's name.",
    );
    file.key("key", "\"/etc/tidegate/pki/gate-7.key\"", "Its private key.");
    camera(file);
}

fn camera(file: &mut File) {
    file.section("[[camera]]", "A camera of this node.");
    file.key("name", "\"gate-north\"", "Its name. Required.");
    file.key(
        "publish",
        "[\"cam-host-1\"]",
        "Names in certificates that may publish. Default: all.",
    );
    file.key("subscribe", "[\"counting\"]", "Names that may subscribe. Default: all.");
    file.key(
        "ladder",
        "\"/etc/tidegate/gate-north.json\"",
        "Its ladder (docs/CAMERAS.md). Default: a generic one.",
    );
    file.key("gray", "false", "Whether frames may go without colour.");
    file.key(
        "source",
        "\"rtsp://camera.example/stream\"",
        "Where its frames come from: http:// (MJPEG), rtsp://, rtsps://, https:// (by ffmpeg), /dev/video0, a\n\
         folder of JPEGs, or a clip, again and again. Default: they are published.",
    );
    file.key("rate", "5", "Frames of the source a second, at most. Default: all; of a folder 5.");
    file.key(
        "preview",
        "false",
        "Whether /cameras/NAME of [http] shows it, to everybody who reaches that.",
    );
}
