//! Frames that nobody publishes: of a folder, of a camera that offers MJPEG, of what ffmpeg reads. And the preview.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tidegate::services::cameras::test_picture;
use tidegate::services::cameras::wire::{ReplyKind, SubscribeRequest};
use tidegate_frames::Splitter;

use crate::frames::client::{Client, live};
use crate::support::process::Node;

/// A node with a camera "door" of this source, and a camera "yard" that nobody may look at.
fn config(source: &str, more: &str) -> String {
    format!(
        "[node]\nname = \"n\"\n[http]\nlisten = [\"127.0.0.1:0\"]\n\
         [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n[frames]\nlisten = \"127.0.0.1:0\"\n\
         [[camera]]\nname = \"door\"\nsource = \"{source}\"\n{more}\n[[camera]]\nname = \"yard\"\n"
    )
}

/// The port for frames, and the one for pages.
fn ports(node: &mut Node) -> (u16, u16) {
    let frames = node.wait_for("frames at 127.0.0.1:").parse().unwrap();
    let pages = node.wait_for("status page at http://127.0.0.1:").parse().unwrap();
    node.wait_for("ready");
    (frames, pages)
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn get(port: u16, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// The first frame that comes.
fn frame(stream: &mut impl Read) -> Vec<u8> {
    let mut splitter = Splitter::default();
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "no frame came");
        if let Some((frame, _)) = splitter.push(&buffer[..length]) {
            return frame;
        }
    }
}

#[tokio::test]
async fn a_folder_is_a_camera_and_can_be_looked_at() {
    let folder = folder("frames-folder");
    let pictures = [test_picture(64, 48, 80), test_picture(80, 48, 80)];
    for (at, picture) in pictures.iter().enumerate() {
        std::fs::write(folder.join(format!("{at}.jpg")), picture).unwrap();
    }
    std::fs::write(folder.join("2.jpg"), "no picture").unwrap();
    // Neither a pipe that nobody writes to nor a device without end is a picture; they come first by their names.
    assert!(Command::new("mkfifo").arg(folder.join("0-pipe.jpg")).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", folder.join("0-zero.jpg")).unwrap();
    let text = config(folder.to_str().unwrap(), "rate = 50\npreview = true");
    let mut node = Node::start("frames-folder", &text);
    let (frames, pages) = ports(&mut node);
    let mut client = Client::plain(frames).await.unwrap();
    let mut watch = client.subscribe(live("door", 20_000, 0.5)).await.unwrap();
    let mut widths = Vec::new();
    while widths.len() < 2 {
        let frame = watch.frame().await.unwrap();
        assert!(pictures.iter().any(|picture| frame.jpeg == picture[..]));
        if !widths.contains(&frame.width) {
            widths.push(frame.width);
        }
    }
    let mut preview = get(pages, "/cameras/door");
    assert!(pictures.contains(&frame(&mut preview)));
    assert!(pictures.contains(&frame(&mut preview)), "it moves");
    for hidden in ["/cameras/yard", "/cameras/roof", "/cameras/"] {
        let mut answer = String::new();
        get(pages, hidden).read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{hidden}: {answer}");
    }
}

#[tokio::test]
async fn a_replay_with_all_accuracy_has_sources() {
    let folder = folder("frames-probe");
    let picture = test_picture(160, 120, 90);
    std::fs::write(folder.join("0.jpg"), &picture).unwrap();
    let ladder = folder.join("ladder.json");
    let rung = "{\"eighths\":4,\"quality\":50,\"bytes\":100,\"accuracy\":1,\"accuracy_low\":1}";
    std::fs::write(&ladder, format!("{{\"version\":1,\"rungs\":[{rung}]}}")).unwrap();
    let text = config(folder.to_str().unwrap(), &format!("ladder = {ladder:?}"));
    let kept = format!("[frames]\ndirectory = {:?}", folder.join("kept"));
    let mut node = Node::start("frames-probe", &text.replace("[frames]", &kept));
    let (frames, _) = ports(&mut node);
    let mut client = Client::plain(frames).await.unwrap();
    let mut watch = client.subscribe(live("door", 20_000, 0.5)).await.unwrap();
    let taken = watch.frame().await.unwrap().frame;
    for (accuracy, width) in [(1.0, 160), (0.9, 80)] {
        let all = SubscribeRequest { start_unix_ns: Some(taken), ..live("door", 20_000, accuracy) };
        // It is on disk a little later than it is seen.
        let frame = loop {
            let mut replay = client.subscribe(all.clone()).await.unwrap();
            if let Ok(Some(ReplyKind::Frame(frame))) = replay.next().await {
                break frame;
            }
        };
        assert_eq!((frame.width, frame.jpeg == picture[..]), (width, width == 160));
    }
}

#[tokio::test]
async fn a_camera_with_mjpeg_is_asked_again_when_it_breaks_off() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let camera = std::thread::spawn(move || {
        let mut heads = Vec::new();
        for width in [64, 80] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).unwrap();
            heads.push(String::from_utf8_lossy(&head[..length]).into_owned());
            let kind = "multipart/x-mixed-replace; boundary=b";
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n").unwrap();
            let picture = test_picture(width, 48, 80);
            for part in [&b"--b\r\nContent-Type: image/jpeg\r\n\r\n"[..], &picture, b"\r\n--b\r\n"]
            {
                stream.write_all(part).unwrap();
            }
            // What is broken off is no frame.
            stream.write_all(&picture[..picture.len() / 2]).unwrap();
        }
        heads
    });
    let text = config(&format!("http://me:secret@127.0.0.1:{port}/mjpeg?fps=5"), "");
    let mut node = Node::start("frames-mjpeg", &text);
    let broken = node.wait_for("no frames: ");
    assert!(!broken.contains("secret"), "{broken}");
    let heads = camera.join().unwrap();
    for head in heads {
        assert!(head.starts_with("GET /mjpeg?fps=5 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("authorization: Basic bWU6c2VjcmV0\r\n"), "{head}");
        assert!(head.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn a_clip_is_read_by_ffmpeg_which_ends_with_the_node() {
    let clip = folder("frames-clip").join("clip.mp4");
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-f", "lavfi", "-i"]);
    ffmpeg.args(["testsrc=size=160x120:rate=10:duration=2", "-pix_fmt", "yuv420p", "-y"]);
    if ffmpeg.arg(&clip).stdin(Stdio::null()).status().is_err() {
        println!("skipped: needs ffmpeg");
        return;
    }
    let text = config(clip.to_str().unwrap(), "rate = 5");
    let mut node = Node::start("frames-clip", &text);
    let (frames, _) = ports(&mut node);
    let mut client = Client::plain(frames).await.unwrap();
    let mut watch = client.subscribe(live("door", 20_000, 0.5)).await.unwrap();
    let frame = watch.frame().await.unwrap();
    assert_eq!((frame.width, frame.height), (160, 120));
    let is_child = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent == Some(&node.process.id().to_string())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children: Vec<u32> = ids.filter(is_child).collect();
    assert_eq!(children.len(), 1, "ffmpeg is the only child");
    node.signal();
    assert!(node.end().success());
    assert!(!PathBuf::from(format!("/proc/{}", children[0])).exists(), "ffmpeg ended as well");
}

/// A process that ends with this.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A camera with RTSP, of GStreamer.
const RTSP: &str = r#"
import gi
gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer
Gst.init(None)
for element in ("videotestsrc", "jpegenc", "rtpjpegpay"):
    assert Gst.ElementFactory.find(element), element
server = GstRtspServer.RTSPServer(service="0")
server.set_address("127.0.0.1")
media = GstRtspServer.RTSPMediaFactory(shared=True)
size = "video/x-raw,format=I420,width=160,height=120,framerate=15/1"
media.set_launch(f"( videotestsrc is-live=true ! {size} ! jpegenc ! rtpjpegpay name=pay0 )")
server.get_mount_points().add_factory("/door", media)
server.attach(None)
print(server.get_bound_port(), flush=True)
GLib.MainLoop().run()
"#;

#[tokio::test]
async fn a_camera_with_rtsp_is_read() {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", RTSP]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut port = String::new();
    let camera = python.spawn().ok().map(|mut camera| {
        let out = camera.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut port).unwrap();
        Killed(camera)
    });
    if port.is_empty() || Command::new("ffmpeg").arg("-version").output().is_err() {
        println!(
            "skipped: needs ffmpeg, gir1.2-gst-rtsp-server-1.0, python3-gi, gstreamer1.0-plugins-base and -good"
        );
        return;
    }
    let text = config(&format!("rtsp://127.0.0.1:{}/door", port.trim()), "rate = 15");
    let mut node = Node::start("frames-rtsp", &text);
    let (frames, _) = ports(&mut node);
    let mut client = Client::plain(frames).await.unwrap();
    let mut watch = client.subscribe(live("door", 20_000, 0.5)).await.unwrap();
    let frame = watch.frame().await.unwrap();
    assert_eq!((frame.width, frame.height), (160, 120));
    drop(camera);
    let why = node.wait_for("no frames: ");
    assert!(why.contains("again in"), "{why}");
}

#[test]
fn where_ffmpeg_is_not_installed_it_says_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env("PATH", "/nowhere");
    let text = config("rtsp://me:secret@127.0.0.1:1/stream", "");
    let mut node = Node::start_by(command, "frames-no-ffmpeg", &text);
    let why = node.wait_for("no frames: ");
    assert!(why.starts_with("ffmpeg reads it, and is not installed"), "{why}");
}
