#!/usr/bin/env bash
# Builds target/deb/tidegate_VERSION_ARCH.deb with dpkg-deb alone. TARGET chooses another architecture,
# for which scripts/cross.sh tells what must be installed. TIDEGATE_BINARY names a program that is built already
# (stripped by whoever built it); OUT names another folder. The same inputs give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TARGET:=}" "${OUT:=target/deb}" "${TIDEGATE_BINARY:=}"
if ! command -v dpkg-deb >/dev/null; then
  echo "deb: dpkg-deb is missing: this needs a Debian system" >&2
  exit 1
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
case "$TARGET" in
  "") architecture=$(dpkg --print-architecture) ;;
  x86_64-*) architecture=amd64 ;;
  aarch64-*) architecture=arm64 ;;
  armv7-*) architecture=armhf ;;
  *) echo "deb: no Debian architecture is known for $TARGET" >&2; exit 1 ;;
esac
if [ -z "$TIDEGATE_BINARY" ]; then
  CARGO_PROFILE_RELEASE_STRIP=symbols cargo build --release --locked -p tidegate ${TARGET:+--target "$TARGET"}
  TIDEGATE_BINARY=target/${TARGET:+$TARGET/}release/tidegate
fi
# Times within the package are those of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
umask 022

root=$(mktemp -d)
trap 'rm -rf "$root" "$root.shell"' EXIT
chmod 755 "$root"
place() { # mode, from, to
  install -D -m "$1" "$2" "$root/$3"
}
place 755 "$TIDEGATE_BINARY" usr/bin/tidegate
place 644 packaging/tidegate.service lib/systemd/system/tidegate.service
place 644 packaging/tidegate-orchestrate.service lib/systemd/system/tidegate-orchestrate.service
place 640 packaging/tidegate.toml etc/tidegate/tidegate.toml
place 644 packaging/fleet.toml usr/share/doc/tidegate/fleet.toml
place 644 packaging/alerts.yaml usr/share/doc/tidegate/alerts.yaml
for file in tidegate/lua/*.luau; do
  case "$file" in */prelude.luau) ;; *) place 644 "$file" "usr/share/tidegate/lua/$(basename "$file")" ;; esac
done
# Documents as they stand in the repository, so that their links lead somewhere.
for file in README.md CHANGELOG.md SECURITY.md python/README.md examples/*.toml examples/README.md $(find docs -type f | LC_ALL=C sort); do
  place 644 "$file" "usr/share/doc/tidegate/$file"
done
shell=$root.shell
TIDEGATE_BINARY=$TIDEGATE_BINARY scripts/shell-files.sh "$shell"
for file in "$shell"/man1/*.1; do
  [ -e "$file" ] || continue
  gzip -9 --no-name "$file"
  place 644 "$file.gz" "usr/share/man/man1/$(basename "$file").gz"
done
for pair in tidegate.bash:bash-completion/completions/tidegate _tidegate:zsh/vendor-completions/_tidegate tidegate.fish:fish/vendor_completions.d/tidegate.fish; do
  [ ! -e "$shell/completions/${pair%%:*}" ] || place 644 "$shell/completions/${pair%%:*}" "usr/share/${pair#*:}"
done
place 644 packaging/copyright usr/share/doc/tidegate/copyright
for script in postinst prerm postrm; do place 755 "packaging/$script" "DEBIAN/$script"; done
echo /etc/tidegate/tidegate.toml >"$root/DEBIAN/conffiles"
size=$(du -sk --apparent-size "$root" | cut -f1)
eval "$(scripts/needs.sh "$TIDEGATE_BINARY")"
depends="libc6 (>= $glibc)"
case "$libraries" in *libgcc_s*) depends="$depends, libgcc-s1" ;; esac
case "$glibcxx" in
  "") ;;
  3.4.29) depends="$depends, libstdc++6 (>= 11)" ;;
  *) depends="$depends, libstdc++6 (>= 12)" ;;
esac
cat >"$root/DEBIAN/control" <<TEXT
Package: tidegate
Version: $version
Architecture: $architecture
Maintainer: The Tidegate authors <tidegate@localhost>
Installed-Size: $size
Depends: $depends
Section: net
Priority: optional
Description: carries streams of records and keeps their latency bounds
 Takes MQTT publishes at the edge, holds them in class queues, gives the uplink to
 the most urgent record at the last moment, and delivers to RabbitMQ or an MQTT broker.
TEXT
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
mkdir -p "$OUT"
package=$OUT/tidegate_${version}_$architecture.deb
dpkg-deb -Zxz --root-owner-group --build "$root" "$package" >/dev/null
echo "deb: $package, $(du -k "$package" | cut -f1) kB; needs $depends"
