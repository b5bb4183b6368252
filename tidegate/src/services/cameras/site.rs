//! A site's file: what the channel to an edge server takes for so many bytes, as `tidegate calibrate channel` writes it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use tidegate_frames::channel::ChannelModel;

use crate::support::files;

/// The format of the file.
pub(crate) const VERSION: u32 = 1;
/// A site's file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    pub(crate) version: u32,
    pub(crate) measured: String,
    pub(crate) base_ms: f64,
    pub(crate) base_ms_low: f64,
    pub(crate) base_ms_high: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) bytes_per_second_low: f64,
    pub(crate) bytes_per_second_high: f64,
}

/// Reads what `tidegate calibrate channel` wrote: where a camera's flows begin.
///
/// # Errors
/// It is no such file.
pub fn site(file: &Path) -> anyhow::Result<ChannelModel> {
    let text = files::read_text(file, 1 << 20).with_context(|| file.display().to_string())?;
    let written: Written = serde_json::from_str(&text)
        .with_context(|| format!("{}: no file of tidegate calibrate channel", file.display()))?;
    ensure!(
        written.version == VERSION,
        "{}: version {}, and this program reads {VERSION}",
        file.display(),
        written.version
    );
    let (base, rate) = (written.base_ms_high, written.bytes_per_second_low);
    let is_sane = (0.0..60_000.0).contains(&base) && rate >= 1.0 && rate.is_finite();
    ensure!(is_sane, "{}: {base} ms and {rate} bytes/s are no channel", file.display());
    Ok(ChannelModel { base: Duration::from_secs_f64(base / 1e3), rate })
}
