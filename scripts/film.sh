#!/bin/sh
# Installs what `lab bench adapt-browser` needs beside nginx and Chromium (Debian: nginx-light, chromium-headless-shell,
# ffmpeg): hls.js by npm, into target/browser, and encodes a film of its own there: chunks of 4 s in three resolutions.
set -eu
cd "$(dirname "$0")/.."
into=target/browser
seconds=${1:-180}
mkdir -p "$into"
if [ ! -f "$into/node_modules/hls.js/dist/hls.min.js" ]; then
    npm install --silent --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
        --prefix "$into" hls.js@1.7.4 </dev/null >/dev/null
fi
command -v ffmpeg >/dev/null || {
    echo "skipped: needs ffmpeg, not found: apt-get install ffmpeg"
    exit 0
}
film="$into/film"
[ -f "$film/240/0.ts" ] && exit 0
for rung in 240:426x240:300k 360:640x360:750k 720:1280x720:1850k; do
    lines=${rung%%:*} rest=${rung#*:}
    mkdir -p "$film/$lines"
    ffmpeg -nostdin -loglevel error -y -f lavfi -i "testsrc2=size=${rest%:*}:rate=25" -t "$seconds" \
        -vf noise=alls=12:allf=t -c:v libx264 -preset ultrafast -b:v "${rest#*:}" -maxrate "${rest#*:}" \
        -bufsize "${rest#*:}" -g 100 -keyint_min 100 -sc_threshold 0 -pix_fmt yuv420p \
        -f segment -segment_time 4 -segment_format mpegts "$film/$lines/%d.ts"
done
echo "film: $(du -sh "$film" | cut -f1)"
