//! The source of a camera, as its configuration says it.

use std::path::PathBuf;

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// JPEGs of a folder, by name, again and again.
    Folder(PathBuf),
    /// MJPEG, by HTTP without TLS.
    Http(hyper::Uri),
    /// What ffmpeg is given: options before the input, and the input.
    Ffmpeg(Vec<String>, String),
}

impl Source {
    /// What a configuration says: an address, a device, a folder or a clip.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Source, String> {
        let ffmpeg = |options: &[&str]| {
            let options = options.iter().map(|&option| option.to_owned()).collect();
            Ok(Source::Ffmpeg(options, text.to_owned()))
        };
        match text.split_once("://") {
            Some(("http", _)) => {
                let uri = text.parse::<hyper::Uri>().map_err(|error| error.to_string())?;
                Ok(Source::Http(uri))
            }
            Some(("https", _)) => ffmpeg(&[]),
            // Over UDP a lost packet is half a gray picture.
            Some(("rtsp" | "rtsps", _)) => ffmpeg(&["-rtsp_transport", "tcp"]),
            Some((other, _)) => Err(format!(
                "no source is read by {other}: use http, https, rtsp or rtsps, or a path"
            )),
            None if text.starts_with("/dev/") => ffmpeg(&["-f", "v4l2"]),
            None if !text.starts_with('/') => {
                Err("give a path from the root, as in \"/srv/shots\", or an address".into())
            }
            None if PathBuf::from(text).is_dir() => Ok(Source::Folder(text.into())),
            // At the rate of its own, from the beginning when it is over.
            None => ffmpeg(&["-re", "-stream_loop", "-1"]),
        }
    }
}
