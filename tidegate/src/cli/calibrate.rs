//! The command line of `tidegate calibrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What can be calibrated.
#[derive(Clone, Debug, Subcommand)]
pub enum CalibrateCommand {
    /// Measure a ladder: the bytes of frames at each scale and quality, and what a detector still finds on them
    #[command(after_help = FRAMES_HELP)]
    Frames(FramesArguments),
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

What a ladder is and what it is for: docs/CAMERAS.md.";

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

The first two run in Python beside this program: pip install tidegate[onnx], or only tidegate for a
callable. --detector none --export FOLDER writes the pictures and measures nothing.

Examples:
  tidegate calibrate frames gate.mp4 --detector yolox_nano.onnx --out gate.json
  tidegate calibrate frames shots/ --detector python:counting.model:find --frames 300 --out gate.json
  tidegate calibrate frames shots/ --detector none --export measured/
  tidegate calibrate frames shots/ --detector labels:found.jsonl --out gate.json

Then: [[camera]] name = \"gate\", ladder = \"gate.json\"";
