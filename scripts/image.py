#!/usr/bin/env python3
"""Writes an OCI image of the program without a container engine: from scratch, by the image specification.

The image has the program, the C library's files that it needs, a configuration, and nothing else: no shell, no package
manager. It runs as user 65532 and needs no writable root; what a node keeps goes to /var/lib/tidegate, a volume.
The same inputs give the same bytes.

  image.py PROGRAM OUT.tar --version 0.1.0 --architecture amd64 [--libraries FOLDER] [--file FROM=TO ...]
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
from datetime import UTC, datetime

USER = 65532
PASSWD = f"tidegate:x:{USER}:{USER}::/var/lib/tidegate:/usr/sbin/nologin\n"
GROUP = f"tidegate:x:{USER}:\n"
# The C library resolves names from /etc/hosts and by DNS.
NSSWITCH = "hosts: files dns\n"


def needed(program: pathlib.Path) -> tuple[str, list[str]]:
    """The loader's path that the program names, and its libraries."""
    headers = subprocess.run(["readelf", "--wide", "--program-headers", "--dynamic", program], check=True, text=True, capture_output=True).stdout
    loader = ""
    libraries = []
    for line in headers.splitlines():
        if "program interpreter:" in line:
            loader = line.split(":", 1)[1].strip().rstrip("]")
        if "(NEEDED)" in line:
            libraries.append(line.split("[", 1)[1].rstrip("]"))
    return loader, libraries


def closure(program: pathlib.Path, folders: list[pathlib.Path]) -> dict[str, pathlib.Path]:
    """Every library that the program needs, directly or by another one, and the loader: path in the image, file here."""
    loader, waiting = needed(program)
    found: dict[str, pathlib.Path] = {}
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        file = next((folder / name for folder in folders if (folder / name).exists()), None)
        if file is None:
            sys.exit(f"image: {name} is in none of {', '.join(map(str, folders))}: name its folder with --libraries")
        found[name] = file.resolve()
        waiting += needed(found[name])[1]
    files = {f"lib/{name}": file for name, file in found.items()}
    if loader:
        # Where the program looks for it; it may be among the libraries under the same name.
        files[loader.lstrip("/")] = files.pop(f"lib/{pathlib.Path(loader).name}", None) or next(
            (folder / pathlib.Path(loader).name).resolve() for folder in folders if (folder / pathlib.Path(loader).name).exists()
        )
    return files


def layer(entries: dict[str, tuple[bytes | None, int, int]], epoch: int) -> bytes:
    """A tar of what stands in `entries` (path: content or None for a folder, mode, owner), sorted, with parents."""
    everything = dict(entries)
    for path in entries:
        for parent in list(pathlib.PurePosixPath(path).parents)[:-1]:
            everything.setdefault(str(parent), (None, 0o755, 0))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, (content, mode, owner) in sorted(everything.items()):
            info = tarfile.TarInfo(path if content is not None else path + "/")
            info.type = tarfile.REGTYPE if content is not None else tarfile.DIRTYPE
            info.mode, info.uid, info.gid, info.mtime = mode, owner, owner, epoch
            info.size = len(content or b"")
            tar.addfile(info, io.BytesIO(content or b""))
    return out.getvalue()


def digest(data: bytes) -> str:
    """As the specification names content."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def main() -> None:
    """Reads the command line, writes the archive."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("program", type=pathlib.Path)
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--version", required=True)
    arguments.add_argument("--architecture", default="amd64", help="amd64, arm64, or arm (its variant is v7)")
    arguments.add_argument("--libraries", type=pathlib.Path, action="append", default=[], help="folder with the C library")
    arguments.add_argument("--file", action="append", default=[], metavar="FROM=TO", help="one more file of the image")
    options = arguments.parse_args()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))

    entries: dict[str, tuple[bytes | None, int, int]] = {
        "usr/bin/tidegate": (options.program.read_bytes(), 0o755, 0),
        "etc/passwd": (PASSWD.encode(), 0o644, 0),
        "etc/group": (GROUP.encode(), 0o644, 0),
        "etc/nsswitch.conf": (NSSWITCH.encode(), 0o644, 0),
        "tmp": (None, 0o1777, 0),
        "var/lib/tidegate": (None, 0o700, USER),
    }
    for path, file in closure(options.program, options.libraries).items():
        entries[path] = (file.read_bytes(), 0o755, 0)
    for pair in options.file:
        source, to = pair.split("=", 1)
        entries[to.lstrip("/")] = (pathlib.Path(source).read_bytes(), 0o644, 0)

    plain = layer(entries, epoch)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as file:
        file.write(plain)
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    platform = {"architecture": options.architecture, "os": "linux"} | ({"variant": "v7"} if options.architecture == "arm" else {})
    labels = {
        "org.opencontainers.image.title": "tidegate",
        "org.opencontainers.image.version": options.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.description": "carries streams of records and keeps their latency bounds",
    }
    config = {
        "created": created,
        **platform,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/tidegate"],
            "Cmd": ["run", "-c", "/etc/tidegate/tidegate.toml"],
            "WorkingDir": "/var/lib/tidegate",
            "Volumes": {"/var/lib/tidegate": {}},
            "ExposedPorts": {"1883/tcp": {}, "7070/tcp": {}},
            "StopSignal": "SIGTERM",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
        "history": [{"created": created, "created_by": "scripts/image.py"}],
    }
    blobs: dict[str, bytes] = {}

    def blob(kind: str, data: bytes) -> dict[str, object]:
        blobs[digest(data)] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data)}

    def text(value: object) -> bytes:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", text(config)),
        "layers": [blob("layer.v1.tar+gzip", packed.getvalue())],
        "annotations": labels,
    }
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            blob("manifest.v1+json", text(manifest))
            | {"platform": platform, "annotations": {"org.opencontainers.image.ref.name": options.version}}
        ],
    }
    archive: dict[str, tuple[bytes | None, int, int]] = {
        "oci-layout": (text({"imageLayoutVersion": "1.0.0"}), 0o644, 0),
        "index.json": (text(index), 0o644, 0),
    }
    for name, data in blobs.items():
        archive["blobs/" + name.replace(":", "/")] = (data, 0o644, 0)
    options.out.write_bytes(layer(archive, epoch))
    megabytes = len(packed.getvalue()) / 1e6
    print(f"image: {options.out}, layer {megabytes:.1f} MB compressed, {len(plain) / 1e6:.1f} MB unpacked, user {USER}")


if __name__ == "__main__":
    main()
