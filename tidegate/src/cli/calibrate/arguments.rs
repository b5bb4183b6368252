//! The command line of `tidegate calibrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tidegate_cluster::place::model::Dispatch;

use crate::cli::file::RequiredFile;
use crate::config::units::{Period, Quantity, UnitError};

/// What can be calibrated.
#[derive(Clone, Debug, Subcommand)]
pub enum CalibrateCommand {
    /// Measure a ladder: the bytes of frames at each scale and quality, and what a detector still finds on them
    #[command(after_help = FRAMES_HELP)]
    Frames(FramesArguments),
    /// Measure a channel: how long frames of each size take by a node's link to its edge server
    #[command(after_help = CHANNEL_HELP)]
    Channel(ChannelArguments),
    /// Find gains and aim of the controller pi for a ladder, over recordings of channels
    #[command(after_help = GAINS_HELP)]
    Gains(GainsArguments),
    /// Measure this machine as a broker: how long records take beside others, for `tidegate plan --model`
    #[command(after_help = BROKER_HELP)]
    Broker(BrokerArguments),
}

/// Arguments of `calibrate channel`.
#[derive(Clone, Debug, Args)]
pub struct ChannelArguments {
    #[command(flatten)]
    /// Configuration of the camera node, which may be running.
    pub file: RequiredFile,
    /// The link, by the name of its `[[output]]`; that of `[frames] to` if left out
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// Bytes of probes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [2000, 4000, 8000, 16_000, 32_000, 64_000], value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sizes: Vec<u32>,
    /// Probes of each size
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub probes: u32,
    /// The measured line, for `channel` of `[frames]`; printed if left out
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Arguments of `calibrate gains`.
#[derive(Clone, Debug, Args)]
pub struct GainsArguments {
    /// Recordings of channels: lines of a time in seconds, and Mbit/s from then on
    #[arg(required = true, value_name = "FILE")]
    pub recordings: Vec<PathBuf>,
    /// The ladder, as `tidegate calibrate frames` writes it, or mez; the generic one if left out
    #[arg(long, value_name = "FILE")]
    pub ladder: Option<PathBuf>,
    /// From capture to the last byte at the edge server
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = period)]
    pub latency: Period,
    /// Least accuracy
    #[arg(long, value_name = "N", default_value_t = 0.5)]
    pub accuracy: f64,
    /// Frames a second
    #[arg(long, value_name = "N", default_value_t = 15.0)]
    pub rate: f64,
    /// How long a byte is on its way where nothing waits
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = period)]
    pub way: Period,
}

/// Arguments of `calibrate broker`.
#[derive(Clone, Debug, Args)]
pub struct BrokerArguments {
    /// The machine's model
    #[arg(short, long, value_name = "FILE.json")]
    pub out: PathBuf,
    /// How long it may take, in seconds
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(15..=600))]
    pub seconds: u32,
    /// What was measured, as JSON lines, for `python -m tidegate.model train` [default: FILE.jsonl]
    #[arg(long, value_name = "FILE.jsonl")]
    pub measurements: Option<PathBuf>,
    /// How records find a thread, as `pool` of `[node]`: edf, fifo or thread-per-topic
    #[arg(long, value_name = "NAME", default_value = "edf", value_parser = pool)]
    pub pool: Dispatch,
    /// Of the configurations: another one measures others
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn period(text: &str) -> Result<Period, UnitError> {
    Period::parse(text)
}

fn pool(name: &str) -> Result<Dispatch, String> {
    match name {
        "edf" => Ok(Dispatch::Edf),
        "fifo" => Ok(Dispatch::Fifo),
        "thread-per-topic" => Ok(Dispatch::ThreadPerTopic),
        _ => Err("there are edf, fifo and thread-per-topic".into()),
    }
}

/// Arguments of `calibrate frames`.
#[derive(Clone, Debug, Args)]
pub struct FramesArguments {
    /// Pictures of the camera: a folder of JPEGs, or a clip (which ffmpeg reads)
    #[arg(value_name = "CLIP|FOLDER")]
    pub pictures: PathBuf,
    /// Who finds things: FILE.onnx, python:MODULE:CALLABLE, or labels:FILE
    #[arg(long, value_name = "DETECTOR")]
    pub detector: String,
    /// The ladder, for `ladder` of a `[[camera]]`; printed if left out
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Pictures to measure with, evenly spaced over all
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub frames: u32,
    /// Also rungs without colour; a camera takes them with `gray = true`
    #[arg(long)]
    pub gray: bool,
    /// The Mez paper's knobs in place of scales and qualities: a ladder to compare with
    #[arg(long, conflicts_with = "gray")]
    pub mez: bool,
    /// Boxes are the same only if the detector gives them the same label
    #[arg(long)]
    pub by_label: bool,
    /// Write every picture as it is measured into this folder, for a detector elsewhere
    #[arg(long, value_name = "FOLDER")]
    pub export: Option<PathBuf>,
    /// Python for FILE.onnx and python:
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
}

/// Help of `tidegate calibrate`.
pub const CALIBRATE_HELP: &str = "\
Examples:
  tidegate calibrate frames gate.mp4 --detector yolox_nano.onnx --out gate.json
  tidegate calibrate frames shots/ --detector python:counting.model:find --out gate.json
  tidegate calibrate channel node.toml --out channel.json
  tidegate calibrate broker --out edge.json

What a ladder is and what it is for: docs/CAMERAS.md. What a broker's model is for: docs/PLACEMENT.md.";

const BROKER_HELP: &str = "\
A node is started again and again as a process of its own, on loopback, each time with other operators: one to ten
topics that need a known time on a processor for each record. Publishers send at random and wait for
nobody; subscribers note how long each record took. The machine's parameters are those with which the
broker's physics are nearest to the 90th percentiles of all topics. Nothing else should run meanwhile:
what else wants processors is measured as if it always did. Ctrl-C ends it and keeps what was measured.

Examples:
  tidegate calibrate broker --out edge.json
  tidegate calibrate broker --seconds 600 --out edge.json
  tidegate plan topics.toml --model edge.json
  python -m tidegate.model train edge.jsonl --out edge.json";

const CHANNEL_HELP: &str = "\
Probes go as frames do: in pieces, by a link of their own beside the node's, with its certificate. The
edge server answers for each piece and throws it away. Sizes take turns, one probe at a time. Through the
latencies goes a line (least squares): so many milliseconds for no bytes, and so many bytes a second, each
with its 95 % interval. The cautious ends are where a camera's controller begins before it has seen a frame.

Examples:
  tidegate calibrate channel node.toml --out channel.json
  tidegate calibrate channel node.toml --output edge --sizes 1000,10000,100000 --probes 30

Then: [frames] channel = \"channel.json\"";

const GAINS_HELP: &str = "\
Every other recording is for finding, the others are for judging; of a single one the second half is. A
camera's frames go over each in virtual time, with 87 combinations of gain_p, gain_i and aim. What brings
most accuracy in time is printed as lines of [frames]. They fit this ladder, this bound and these channels:
the default controller, feed-forward, needs none.

Examples:
  tidegate calibrate gains lte-1.txt lte-2.txt lte-3.txt lte-4.txt --ladder gate.json
  tidegate calibrate gains wifi.txt --latency 150ms --rate 5";

const FRAMES_HELP: &str = "\
Each picture is encoded at 5 scales and 7 qualities by the node's own codec, so the bytes are those
that a node will send. The detector looks at the picture and at each of the others; accuracy is the F1
of the boxes (those that overlap by half are the same) against those on the picture itself, so it says
how much the encoding costs, not how good the detector is. Pictures without a box are left out. What
another setting beats in both bytes and accuracy is left out of the ladder. The 95 % intervals are of
1000 draws of pictures: with fewer than about 100 boxes they are wide, so take more pictures.

Detectors:
  FILE.onnx              a model with outputs like YOLOX, YOLOv8 or FastestDet, by onnxruntime
  python:MODULE:CALLABLE called with rows x columns x 3 (blue, green, red); answers a list of
                         (left, top, width, height) or (left, top, width, height, label), in pixels
  labels:FILE            what a detector elsewhere found: JSON lines like
                         {\"image\": \"0000/8-75\", \"boxes\": [[10, 20, 30, 40, \"person\"]]}
                         for the images that --export FOLDER writes, 0000/source.jpg among them

The first two run in Python beside this program: pip install 'tidegate[onnx]', or only tidegate for a
callable. --detector none --export FOLDER writes the pictures and measures nothing.

Examples:
  tidegate calibrate frames gate.mp4 --detector yolox_nano.onnx --out gate.json
  tidegate calibrate frames shots/ --detector python:counting.model:find --frames 300 --out gate.json
  tidegate calibrate frames shots/ --detector none --export measured/
  tidegate calibrate frames shots/ --detector labels:found.jsonl --out gate.json

Then: [[camera]] name = \"gate\", ladder = \"gate.json\"";
