#!/usr/bin/env bash
# Builds target/deb/tidegate_VERSION_ARCH.deb with dpkg-deb alone. TARGET chooses another architecture,
# for which scripts/cross.sh tells what must be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TARGET:=}"
if ! command -v dpkg-deb >/dev/null; then
  echo "deb: dpkg-deb is missing: this needs a Debian system" >&2
  exit 1
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
case "$TARGET" in
  "") architecture=$(dpkg --print-architecture) ;;
  aarch64-*) architecture=arm64 ;;
  armv7-*) architecture=armhf ;;
  *) echo "deb: no Debian architecture is known for $TARGET" >&2; exit 1 ;;
esac
cargo build --release --locked -p tidegate ${TARGET:+--target "$TARGET"}
binary=target/${TARGET:+$TARGET/}release/tidegate

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
place() { # mode, from, to
  install -D -m "$1" "$2" "$root/$3"
}
place 755 "$binary" usr/bin/tidegate
if [ -z "$TARGET" ]; then strip --strip-debug "$root/usr/bin/tidegate"; fi
place 644 packaging/tidegate.service lib/systemd/system/tidegate.service
place 644 packaging/tidegate-orchestrate.service lib/systemd/system/tidegate-orchestrate.service
place 640 packaging/tidegate.toml etc/tidegate/tidegate.toml
place 644 packaging/fleet.toml usr/share/doc/tidegate/fleet.toml
place 644 packaging/alerts.yaml usr/share/doc/tidegate/alerts.yaml
for file in tidegate/lua/*.luau; do
  case "$file" in */prelude.luau) ;; *) place 644 "$file" "usr/share/tidegate/lua/$(basename "$file")" ;; esac
done
for file in README.md CHANGELOG.md docs/OPERATING.md docs/SCRIPTS.md docs/reference.toml; do
  place 644 "$file" "usr/share/doc/tidegate/$(basename "$file")"
done
place 644 packaging/copyright usr/share/doc/tidegate/copyright
place 755 packaging/postinst DEBIAN/postinst
place 755 packaging/prerm DEBIAN/prerm
echo /etc/tidegate/tidegate.toml >"$root/DEBIAN/conffiles"
size=$(du -sk "$root" | cut -f1)
cat >"$root/DEBIAN/control" <<TEXT
Package: tidegate
Version: $version
Architecture: $architecture
Maintainer: The Tidegate authors <tidegate@localhost>
Installed-Size: $size
Depends: libc6 (>= 2.36), libstdc++6 (>= 12)
Section: net
Priority: optional
Description: carries streams of records and keeps their latency bounds
 Takes MQTT publishes at the edge, holds them in class queues, gives the uplink to
 the most urgent record at the last moment, and delivers to RabbitMQ or an MQTT broker.
TEXT
mkdir -p target/deb
package=target/deb/tidegate_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "deb: $package, $(du -k "$package" | cut -f1) kB"
