#!/usr/bin/env bash
# Everything that is given to others, in target/dist: a tarball, a Debian package, a Python wheel, an OCI image, a bill
# of materials, and SHA256SUMS over them. The same commit gives the same bytes, wherever it is built (the image's C
# library is that of the machine which packs it).
#
#   TARGET=aarch64-unknown-linux-gnu   another processor; x86-64 is the one that is tested
#   TIDEGATE_BINARY=FILE               packs a program that is built already, instead of building one
#   GLIBC=2.28                         the oldest C library that the program should run with; by zig, from the Python
#                                      index. GLIBC=host: this machine's, by its own compiler
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TARGET:=$(rustc --print host-tuple)}" "${GLIBC:=2.28}" "${TIDEGATE_BINARY:=}"
out=$PWD/target/dist
tools=$out/tools
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH LC_ALL=C
umask 022
case "$TARGET" in
  x86_64-unknown-linux-gnu) debian=amd64 image=amd64 python=x86_64 ;;
  aarch64-unknown-linux-gnu) debian=arm64 image=arm64 python=aarch64 ;;
  armv7-unknown-linux-gnueabihf) debian=armhf image=arm python=armv7l ;;
  *) echo "dist: nothing is known of $TARGET: x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu, armv7-unknown-linux-gnueabihf" >&2; exit 1 ;;
esac
for program in readelf dpkg-deb python3 tar; do
  command -v "$program" >/dev/null || { echo "dist: $program is missing (Debian: binutils, dpkg, python3, tar)" >&2; exit 1; }
done
mkdir -p "$out"
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
packages="hatchling==1.28.0"
[ "$GLIBC" = host ] || [ -n "$TIDEGATE_BINARY" ] || packages="$packages cargo-zigbuild==0.24.0 ziglang==0.17.0"
# shellcheck disable=SC2086 # a list of words on purpose
if ! "$tools/bin/pip" install --quiet --disable-pip-version-check $packages; then
  echo "dist: needs a package index, or wheels of: $packages (GLIBC=host does without zig)" >&2
  exit 1
fi

build() {
  # No path of this machine in the program: not in panics, nor in what C says of itself.
  local registry=${CARGO_HOME:-$HOME/.cargo}/registry/src flag=""
  RUSTFLAGS="--remap-path-prefix=$registry=/cargo --remap-path-prefix=$PWD=/tidegate --remap-path-prefix=$(rustc --print sysroot)=/rust"
  CFLAGS="-ffile-prefix-map=$registry=/cargo -ffile-prefix-map=$PWD=/tidegate"
  export RUSTFLAGS CFLAGS CXXFLAGS="$CFLAGS" CARGO_PROFILE_RELEASE_STRIP=symbols
  rustup target list --installed 2>/dev/null | grep -qx "$TARGET" || rustup target add "$TARGET"
  if [ "$GLIBC" = host ]; then flag=build; else flag=zigbuild; fi
  PATH="$tools/bin:$PATH" cargo "$flag" --release --locked -p tidegate --target-dir target/dist/build \
    --target "$TARGET$([ "$GLIBC" = host ] || echo ".$GLIBC")"
  TIDEGATE_BINARY=target/dist/build/$TARGET/release/tidegate
}
[ -n "$TIDEGATE_BINARY" ] || build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$TIDEGATE_BINARY" "$work/tidegate"
# One that was built elsewhere may have its symbols still; strip knows this machine's processor only.
if [ "$TARGET" = "$(rustc --print host-tuple)" ]; then strip --strip-all "$work/tidegate"; fi
chmod 755 "$work/tidegate"
TIDEGATE_BINARY=$work/tidegate
export TIDEGATE_BINARY
eval "$(scripts/needs.sh "$TIDEGATE_BINARY")"
echo "dist: program of $(du -k "$TIDEGATE_BINARY" | cut -f1) kB, needs glibc $glibc or later${glibcxx:+, and libstdc++ with GLIBCXX_$glibcxx}"
if grep --quiet --text --fixed-strings -e "$PWD/" -e "${CARGO_HOME:-$HOME/.cargo}/registry" "$TIDEGATE_BINARY"; then
  echo "dist: warning: paths of the machine that built the program are in it (it was not built by this script)" >&2
fi

name=tidegate-$version-$python-linux
root=$work/$name
mkdir -p "$root/bin" "$root/systemd" "$root/lua" "$root/docs" "$root/examples"
cp "$TIDEGATE_BINARY" "$root/bin/"
scripts/shell-files.sh "$root/share"
cp README.md CHANGELOG.md SECURITY.md LICENSE "$root/"
cp -r docs/. "$root/docs/"
cp examples/*.toml examples/README.md "$root/examples/"
cp packaging/*.service packaging/tidegate.toml packaging/fleet.toml "$root/systemd/"
cp $(ls tidegate/lua/*.luau | grep -v /prelude.luau) "$root/lua/"
chmod -R u=rwX,go=rX "$root"
tar --create --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --directory "$work" "$name" |
  gzip -9 --no-name >"$out/$name.tar.gz"
echo "dist: $out/$name.tar.gz, $(du -k "$out/$name.tar.gz" | cut -f1) kB"

OUT=$out TARGET=$TARGET scripts/deb.sh

TIDEGATE_PLATFORM=manylinux_$(echo "$glibc" | tr . _)_$python "$tools/bin/python" -m pip wheel --quiet --disable-pip-version-check \
  --no-deps --no-build-isolation --wheel-dir "$out" ./python
echo "dist: $(ls "$out"/tidegate-"$version"-py3-none-manylinux*_"$python".whl)"

python3 scripts/sbom.py "$out/tidegate-$version-$python.cdx.json" --target "$TARGET"

# The image has the C library of this machine, or of Debian's cross compiler.
libraries=""
for folder in "/lib/$python-linux-gnu" "/usr/lib/$python-linux-gnu" "/usr/$python-linux-gnu/lib" /lib/arm-linux-gnueabihf /usr/arm-linux-gnueabihf/lib; do
  case "$debian:$folder" in armhf:*arm-linux* | amd64:*x86_64* | arm64:*aarch64*) [ ! -e "$folder/libc.so.6" ] || libraries="$libraries --libraries $folder" ;; esac
done
if [ -n "$libraries" ]; then
  copyrights=""
  for package in libc6 libgcc-s1 libstdc++6; do
    file=$(readlink -f "/usr/share/doc/$package/copyright" || true)
    [ ! -e "$file" ] || copyrights="$copyrights --file $file=usr/share/doc/$package/copyright"
  done
  # shellcheck disable=SC2086 # lists of words on purpose
  python3 scripts/image.py "$TIDEGATE_BINARY" "$out/tidegate-$version-$image-oci.tar" --version "$version" --architecture "$image" \
    $libraries $copyrights --file packaging/tidegate.toml=etc/tidegate/tidegate.toml --file LICENSE=usr/share/doc/tidegate/LICENSE
else
  echo "skipped: the image for $image needs its C library here (Debian: libc6-$debian-cross)"
fi
(cd "$out" && rm -f SHA256SUMS && find . -maxdepth 1 -type f -name 'tidegate[-_]*' -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
[ "$TARGET" = x86_64-unknown-linux-gnu ] || echo "dist: $TARGET is built by the same script, and was run by nobody: untested"
echo "dist: $out/SHA256SUMS"
