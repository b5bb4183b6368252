#!/usr/bin/env bash
# Tries what `make dist` has made as a stranger would: the Debian package is installed, upgraded and removed in an empty
# Debian, the image runs as its user with a root that cannot be written, pip takes the wheel, packing twice gives the same
# bytes, and docs/start.md is followed from nothing to the first alarm on a RabbitMQ. What cannot be tried here is told.
#   scripts/dist-test.sh [bytes] [deb] [image] [wheel] [start]     all of these without a word
#   scripts/dist-test.sh build     builds the same commit once more, in another folder: the program must be the same
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
dist=$PWD/target/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
deb=$dist/tidegate_${version}_amd64.deb
image=$dist/tidegate-$version-amd64-oci.tar
[ -e "$dist/SHA256SUMS" ] || { echo "dist-test: first make dist" >&2; exit 1; }
work=$(mktemp -d "$dist/test.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
passed=0 skipped=0
pass() { echo "passed: $*"; passed=$((passed + 1)); }
skip() { echo "skipped: $*"; skipped=$((skipped + 1)); }
fail() { echo "failed: $*" >&2; exit 1; }
inside() { # root, command...: in a file system of its own
  local root=$1
  shift
  unshare --mount --pid --fork bash -ec '
    mount --bind "$0" "$0"; mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; mount -t tmpfs tmpfs "$0/run"
    exec chroot "$0" "$@"' "$root" "$@"
}

# An empty Debian, fetched once.
debian() { # folder
  if [ ! -e "$dist/debian.tar" ]; then
    mmdebstrap --quiet --format=tar --variant=minbase --include=ca-certificates bookworm "$dist/debian.tar.new" 2>"$work/mmdebstrap" || return 1
    mv "$dist/debian.tar.new" "$dist/debian.tar"
  fi
  mkdir -p "$1"
  tar -xf "$dist/debian.tar" -C "$1" --exclude=./dev/* || return 1
  # Services are not started by their packages: there is no systemd, and ports may be taken.
  printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
  chmod 755 "$1/usr/sbin/policy-rc.d"
  cp /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || true
}
has_debian() { # what for, folder
  if [ "$(id -u)" != 0 ]; then skip "$1 needs root"; return 1; fi
  if ! command -v mmdebstrap >/dev/null; then skip "$1 needs mmdebstrap (Debian: mmdebstrap)"; return 1; fi
  if ! debian "$2"; then skip "$1 needs a Debian mirror: $(tail -n 1 "$work/mmdebstrap")"; return 1; fi
}

try_bytes() {
  (cd "$dist" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS does not fit the files"
  cp "$dist/SHA256SUMS" "$work/before"
  tar -xzf "$dist/tidegate-$version-x86_64-linux.tar.gz" -C "$work"
  TIDEGATE_BINARY=$work/tidegate-$version-x86_64-linux/bin/tidegate scripts/dist.sh >"$work/again" 2>&1 || { cat "$work/again" >&2; fail "packing again"; }
  diff "$work/before" "$dist/SHA256SUMS" >&2 || fail "packing again gives other bytes"
  pass "packing twice gives the same bytes"
}

try_build() {
  git diff --quiet HEAD || { skip "a second build needs a folder without changes: it compares commits"; return 0; }
  # Of the tools only what was installed for the first build.
  git clone --quiet . "$work/elsewhere"
  scripts/dist.sh >"$work/first" 2>&1 || { tail -n 20 "$work/first" >&2; fail "the first build"; }
  (cd "$work/elsewhere" && scripts/dist.sh) >"$work/second" 2>&1 || { tail -n 20 "$work/second" >&2; fail "the second build"; }
  diff "$dist/SHA256SUMS" "$work/elsewhere/target/dist/SHA256SUMS" >&2 || fail "another folder gives other bytes"
  pass "two builds of one commit in two folders give the same bytes"
}

try_deb() {
  local root=$work/deb
  has_debian "the Debian package" "$root" || return 0
  cp "$deb" "$root/tidegate.deb"
  # The same package as the next version.
  dpkg-deb --raw-extract "$deb" "$work/next"
  sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
  dpkg-deb --root-owner-group --build "$work/next" "$root/next.deb" >/dev/null
  inside "$root" /bin/sh -euxc '
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq; apt-get install -y -qq --no-install-recommends /tidegate.deb
    tidegate --version
    tidegate check /etc/tidegate/tidegate.toml
    test -s /usr/share/bash-completion/completions/tidegate; test -s /usr/share/zsh/vendor-completions/_tidegate
    gzip --test /usr/share/man/man1/tidegate-check.1.gz
    test "$(stat -c %a /etc/tidegate/tidegate.toml)" = 640
    echo "# mine" >>/etc/tidegate/tidegate.toml
    mkdir -p /var/lib/tidegate; echo kept >/var/lib/tidegate/record
    apt-get install -y -qq /next.deb
    dpkg-query -W -f "\${Version}" tidegate | grep -q next
    grep -q "^# mine" /etc/tidegate/tidegate.toml
    dpkg --verify tidegate | grep -v tidegate.toml && exit 1
    apt-get remove -y -qq tidegate
    ! command -v tidegate
    grep -q "^# mine" /etc/tidegate/tidegate.toml; grep -q kept /var/lib/tidegate/record
    apt-get purge -y -qq tidegate
    test ! -e /etc/tidegate/tidegate.toml; test ! -e /var/lib/tidegate
  ' >"$work/deb.log" 2>&1 || { cat "$work/deb.log" >&2; fail "the Debian package"; }
  pass "the Debian package: installed, upgraded (an edited configuration stays), removed (it stays), purged"
}

try_image() {
  [ "$(id -u)" = 0 ] || { skip "the image needs root, for chroot"; return 0; }
  local root=$work/image layer
  mkdir -p "$work/oci" "$root"
  tar -xf "$image" -C "$work/oci"
  # Every blob is what its name says, and the manifest names them.
  (cd "$work/oci/blobs/sha256" && for blob in *; do [ "$(sha256sum <"$blob" | cut -d' ' -f1)" = "$blob" ] || exit 1; done) || fail "a blob of the image has another digest"
  layer=$(python3 - "$work/oci" <<'PY'
import json, pathlib, sys
oci = pathlib.Path(sys.argv[1])
def blob(it):
    return oci / "blobs" / it["digest"].replace(":", "/")
manifest = json.loads(blob(json.loads((oci / "index.json").read_text())["manifests"][0]).read_text())
config = json.loads(blob(manifest["config"]).read_text())
assert config["config"]["User"] == "65532:65532", config
assert all(blob(it).stat().st_size == it["size"] for it in manifest["layers"])
print(blob(manifest["layers"][0]))
PY
  )
  tar -xzf "$layer" -C "$root"
  # As an engine does: the root read-only, the volume writable and its user's, no network but loopback.
  unshare --mount --net --pid --fork --mount-proc bash -euc '
    root=$0
    ip link set lo up
    mount --bind "$root" "$root"; mount -o remount,ro,bind "$root"
    mount -t tmpfs -o uid=65532,gid=65532,mode=700 tmpfs "$root/var/lib/tidegate"
    as="chroot --userspec=65532:65532 $root"
    $as /usr/bin/tidegate --version
    $as /usr/bin/tidegate check /etc/tidegate/tidegate.toml
    : >"$1/said"
    $as /usr/bin/tidegate run -c /etc/tidegate/tidegate.toml 2>"$1/said" & node=$!
    tail --pid=$node --lines=+1 --follow "$1/said" 2>/dev/null | grep --quiet ready || true
    grep --quiet ready "$1/said"
    curl --silent --show-error --fail http://127.0.0.1:7070/readyz
    grep --quiet "^Uid:.65532.65532" /proc/$node/status
    kill -TERM $node; wait $node
    grep "lost 0" "$1/said"
  ' "$root" "$work" >"$work/image.log" 2>&1 || { cat "$work/image.log" "$work/said" >&2; fail "the image"; }
  pass "the image: check and run as user 65532 with a read-only root, $(du -b "$layer" | awk '{ printf "%.1f", $1 / 1e6 }') MB compressed"
}

try_wheel() {
  local wheel
  wheel=$(ls "$dist"/tidegate-"$version"-py3-none-manylinux*_x86_64.whl)
  python3 -m venv "$work/venv"
  if ! "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel" 2>"$work/pip"; then
    if grep -q 'No matching distribution\|Connection' "$work/pip"; then skip "the wheel needs a package index: $(tail -n 1 "$work/pip")"; return 0; fi
    cat "$work/pip" >&2
    fail "pip and the wheel"
  fi
  "$work/venv/bin/tidegate" --version >/dev/null || fail "the program of the wheel"
  (cd "$work" && venv/bin/python -c 'import tidegate; assert tidegate.__version__ == "'"$version"'"; tidegate.Client') || fail "import tidegate"
  pass "pip installs $(basename "$wheel") with $("$work/venv/bin/pip" --disable-pip-version-check list --format=freeze | grep -cv '^\(pip\|setuptools\|tidegate\)[@=]') other packages, and the program runs"
}

try_start() {
  local root=$work/start began=$SECONDS packages
  has_debian "the first alarm" "$root" || return 0
  echo "== an empty Debian is there after $((SECONDS - began)) s"
  cp "$deb" "$root/"
  scripts/blocks.py docs/start.md --part network >"$root/packages.sh"
  scripts/blocks.py docs/start.md >"$root/start.sh"
  began=$SECONDS
  inside "$root" env DEBIAN_FRONTEND=noninteractive bash -c 'cd / && apt-get update -qq && bash packages.sh' >"$work/start.log" 2>&1 || { tail -n 40 "$work/start.log" >&2; fail "docs/start.md, its packages"; }
  packages=$((SECONDS - began))
  for compiler in cc gcc g++ cargo rustc cmake; do
    [ ! -e "$root/usr/bin/$compiler" ] || fail "$compiler was installed"
  done
  # From here on in a network of its own. The package would have started the broker, had there been a systemd.
  # shellcheck disable=SC2016 # for the inner shell
  export -f inside
  unshare --net bash -euc 'ip link set lo up; inside "$0" bash -euc "echo 127.0.0.1 localhost \$(hostname) >/etc/hosts; service rabbitmq-server start; rabbitmqctl await_startup; cd /root; bash /start.sh; rabbitmqctl stop"' "$root" >>"$work/start.log" 2>&1 ||
    { tail -n 60 "$work/start.log" >&2; fail "docs/start.md"; }
  pass "docs/start.md from an empty Debian to the first alarm on RabbitMQ: $((SECONDS - began)) s in all, $packages s of them for packages, no compiler"
}

[ $# -gt 0 ] || set -- bytes deb image wheel start
for what in "$@"; do "try_$what"; done
echo "$passed passed, 0 failed, $skipped skipped"
