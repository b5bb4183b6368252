//! Browser, proxy and server, in two namespaces with an uplink between them.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until, timeout};

use super::there;
use crate::bench::adapt::http::{self, Message};
use crate::link::{Change, Options, Profile, Service};
use crate::net::host::{self, Host};
use crate::net::process::Process;
use crate::net::pump::Way;
use crate::net::scratch::Scratch;
use crate::net::wire::Wire;
use crate::rig;

const CHROMIUM: &str = "/usr/bin/chromium-headless-shell";
const NGINX: &str = "/usr/sbin/nginx";
const APT: &str = "apt-get install nginx-light chromium-headless-shell";
/// Lines and bits a second of each resolution, as `scripts/film.sh` encodes them.
const RUNGS: [(u32, u32, u32); 3] =
    [(426, 240, 300_000), (640, 360, 750_000), (1280, 720, 1_850_000)];
const CHUNK_S: u64 = 4;
/// Chunks of a playlist; as many are there when it begins.
const WINDOW: u64 = 10;
const WEB_PORT: u16 = 8000;
const PROXY_PORT: u16 = 8080;
const RESULT_PORT: u16 = 8001;
/// One way, and bytes of the queue.
const DELAY: Duration = Duration::from_millis(20);
const QUEUE: u64 = 256 * 1024;
/// What the way to the browser carries, what in the drop, and when that is.
const HIGH: u64 = 6_000_000;
const LOW: u64 = 500_000;
const DROP: [Duration; 2] = [Duration::from_secs(40), Duration::from_secs(60)];
const START: Duration = Duration::from_secs(30);
/// For a browser to start, and to tell.
const SLACK: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(super) struct Browser {
    chromium: PathBuf,
    nginx: PathBuf,
}

impl Browser {
    pub(super) fn find(folder: &Path) -> Result<Browser, String> {
        let cure = "scripts/film.sh";
        there(&folder.join("film/240/0.ts"), cure)?;
        there(&library(folder), cure)?;
        Ok(Browser { chromium: there(CHROMIUM.as_ref(), APT)?, nginx: there(NGINX.as_ref(), APT)? })
    }

    /// What the browser says of itself.
    pub(super) fn version(&self) -> String {
        let said = std::process::Command::new(&self.chromium).arg("--version").output();
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        said.unwrap_or_else(|_| "unknown".into())
    }

    /// Lets it watch; answers with what the page told.
    pub(super) async fn watch(
        &self,
        folder: &Path,
        script: Option<&str>,
        seconds: u32,
    ) -> anyhow::Result<String> {
        host::remove_stale()?;
        let number = host::next_run();
        let hosts = [Host::new(number, "edge")?, Host::new(number, "cloud")?];
        let [edge, cloud] = &hosts;
        let ways = [HIGH, HIGH].map(|rate| Options::new(rate, DELAY, QUEUE));
        let wire = Wire::new([edge, cloud], "uplink", 0, ways, 1)?;
        let [near, far] = wire.addresses();
        let (scratch, mut tasks) = (Scratch::new()?, JoinSet::new());
        let live = pages(&scratch, folder)?;
        let chunks = std::fs::read_dir(folder.join("film/240"))?.count() as u64;
        let start = Instant::now();
        playlists(&live, 0, chunks)?;
        tasks.spawn(async move {
            let mut tick = interval(Duration::from_millis(500));
            loop {
                tick.tick().await;
                // A disk that is full for a moment leaves an older list.
                let _ = playlists(&live, start.elapsed().as_secs() / CHUNK_S, chunks);
            }
        });
        let (tell, told) = oneshot::channel();
        let tell = Mutex::new(Some(tell));
        let taker = move |request: Message| {
            let first = tell.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Nobody waits any more: too late.
            let _ = first.map(|tell| tell.send(request.text()));
            Message::answer(200, "")
        };
        let result = SocketAddrV4::new(near, RESULT_PORT);
        http::serve(edge.listen(result)?, &mut tasks, Arc::new(taker))?;
        let film = std::fs::canonicalize(folder.join("film"))?;
        let web = SocketAddrV4::new(far, WEB_PORT);
        let file = scratch.file("nginx.conf", &nginx(scratch.path(), &film, web))?;
        let mut command = cloud.command(&self.nginx);
        command.arg("-p").arg(scratch.path()).arg("-c").arg(file);
        let _nginx = Process::start("nginx", command)?.quietly();
        let clients = SocketAddrV4::new(near, PROXY_PORT);
        let file = scratch.file("proxy.toml", &proxy(&scratch, script, [clients, web, result])?)?;
        let mut command = edge.command(rig::tidegate_program()?);
        command.args(["--log", "info", "proxy", "-c"]).arg(file);
        let mut process = Process::start("tidegate", command)?;
        process.says("requests at ", START).await?;
        let _proxy = process.quietly();
        let mut command = edge.command(&self.chromium);
        command.args(["--no-sandbox", "--disable-gpu", "--mute-audio", "--no-proxy-server"]);
        command.args(["--autoplay-policy=no-user-gesture-required", "--remote-debugging-port=0"]);
        command.arg("--disable-background-networking");
        command.arg(format!("--user-data-dir={}", scratch.path().join("profile").display()));
        command.arg(format!("http://{clients}/live/index.html?seconds={seconds}"));
        let _chromium = Process::start("chromium", command)?.quietly();
        let begun = Instant::now();
        let falling = async {
            for (at, rate) in DROP.into_iter().zip([LOW, HIGH]) {
                sleep_until(begun + at).await;
                let service = Service::Rate(Profile::constant(rate));
                let changed = |way| wire.change(way, Change::Service(service.clone()));
                Way::ALL.into_iter().for_each(changed);
            }
            std::future::pending::<()>().await;
        };
        let limit = Duration::from_secs(u64::from(seconds)) + SLACK;
        tokio::select! {
            told = timeout(limit, told) => {
                told.context("the page told nothing")?.context("nobody listened")
            }
            () = falling => unreachable!("it only waits"),
        }
    }
}

/// The page, hls.js and the list of lists, in a folder for what changes.
fn pages(scratch: &Scratch, folder: &Path) -> std::io::Result<PathBuf> {
    let live = scratch.path().join("live");
    std::fs::create_dir(&live)?;
    std::fs::write(live.join("index.html"), include_str!("page.html"))?;
    std::fs::copy(library(folder), live.join("hls.min.js"))?;
    std::fs::write(live.join("master.m3u8"), master())?;
    Ok(live)
}

fn library(folder: &Path) -> PathBuf {
    folder.join("node_modules/hls.js/dist/hls.min.js")
}

fn master() -> String {
    let mut text = String::from("#EXTM3U\n");
    for (width, lines, bits) in RUNGS {
        text.push_str(&format!(
            "#EXT-X-STREAM-INF:BANDWIDTH={bits},RESOLUTION={width}x{lines}\n{lines}.m3u8\n"
        ));
    }
    text
}

/// What a live stream's list says when so many chunks have been made since the beginning; the film begins again at its
/// end.
fn playlist(lines: u32, made: u64, chunks: u64) -> String {
    let mut text = format!(
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:{CHUNK_S}\n#EXT-X-MEDIA-SEQUENCE:{made}\n"
    );
    for number in made..made + WINDOW {
        if number > 0 && number.is_multiple_of(chunks) {
            text.push_str("#EXT-X-DISCONTINUITY\n");
        }
        let place = number % chunks;
        text.push_str(&format!("#EXTINF:{CHUNK_S}.0,\n/{lines}/{place}.ts\n"));
    }
    text
}

/// Writes all lists, each at once.
fn playlists(live: &Path, made: u64, chunks: u64) -> std::io::Result<()> {
    for (_, lines, _) in RUNGS {
        let (new, file) = (live.join("new"), live.join(format!("{lines}.m3u8")));
        std::fs::write(&new, playlist(lines, made, chunks))?;
        std::fs::rename(new, file)?;
    }
    Ok(())
}

fn nginx(own: &Path, film: &Path, at: SocketAddrV4) -> String {
    let (own, film) = (own.display(), film.display());
    format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid {own}/nginx.pid;\nerror_log {own}/nginx.log;\n\
         events {{}}\nhttp {{\n access_log off;\n client_body_temp_path {own}/body;\n proxy_temp_path {own}/p;\n \
         fastcgi_temp_path {own}/f;\n uwsgi_temp_path {own}/u;\n scgi_temp_path {own}/s;\n types {{\n  text/html html;\n  \
         application/javascript js;\n  application/vnd.apple.mpegurl m3u8;\n  video/mp2t ts;\n }}\n server {{\n  \
         listen {at};\n  root {film};\n  location /live/ {{ root {own}; add_header cache-control no-store; }}\n }}\n}}\n"
    )
}

/// The proxy: lists and the page pass beside what the script sees, which are chunks.
fn proxy(
    scratch: &Scratch,
    script: Option<&str>,
    [clients, web, result]: [SocketAddrV4; 3],
) -> anyhow::Result<String> {
    let mut text = format!(
        "[http]\nlisten = []\n[[proxy.listener]]\nlisten = \"{clients}\"\n\
         [[proxy.upstream]]\nname = \"web\"\nto = [\"{web}\"]\n\
         [[proxy.upstream]]\nname = \"result\"\nto = [\"{result}\"]\n\
         [[proxy.route]]\npath = \"/live/\"\nto = \"web\"\nname = \"lists\"\n\
         [[proxy.route]]\npath = \"/result\"\nto = \"result\"\n\
         [[proxy.route]]\nto = \"web\"\nname = \"chunks\"\nbody = \"head\"\n"
    );
    if let Some(script) = script {
        let file = scratch.file("player.luau", script)?.display().to_string();
        let renditions: Vec<String> =
            RUNGS.iter().map(|(_, lines, bits)| format!("[{lines}, {bits}]")).collect();
        text.push_str(&format!(
            "script = \"player\"\n[[script]]\nname = \"player\"\nfile = {file:?}\npath = \"^/?(%d+)/(.+)$\"\n\
             parameters = {{ renditions = [{}] }}\n",
            renditions.join(", ")
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_list_moves_on_and_begins_again() {
        let text = playlist(240, 3, 5);
        assert!(text.contains("MEDIA-SEQUENCE:3\n#EXTINF:4.0,\n/240/3.ts\n"), "{text}");
        assert!(
            text.contains("/240/4.ts\n#EXT-X-DISCONTINUITY\n#EXTINF:4.0,\n/240/0.ts\n"),
            "{text}"
        );
        assert_eq!(text.matches("#EXTINF").count(), 10);
    }
}
