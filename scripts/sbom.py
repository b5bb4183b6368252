#!/usr/bin/env python3
"""Writes a bill of materials (CycloneDX 1.5, JSON) of what the program is built from, by Cargo.lock.

  sbom.py OUT.json [--target TRIPLE]

Every crate that tidegate needs in a release build for that target, with version, licence, checksum, and what needs
what. Crates with C or C++ in them carry that code themselves, so it is in the list with them. The same Cargo.lock gives the same bytes.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tomllib
import uuid
from datetime import UTC, datetime
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPONENT = "tidegate"


def metadata(target: str) -> dict[str, Any]:
    """What cargo says of the workspace, resolved for the target."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    said: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return said


def reachable(said: dict[str, Any]) -> dict[str, list[str]]:
    """Each package that the program needs to be built, and what that needs; development dependencies left out."""
    nodes = {node["id"]: node for node in said["resolve"]["nodes"]}
    start = next(package["id"] for package in said["packages"] if package["name"] == COMPONENT)
    needs: dict[str, list[str]] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in needs:
            continue
        used = [dep["pkg"] for dep in nodes[name]["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
        needs[name] = sorted(used)
        waiting += used
    return needs


def component(package: dict[str, Any], checksums: dict[tuple[str, str], str]) -> dict[str, Any]:
    """One crate as CycloneDX has it."""
    url = f"pkg:cargo/{package['name']}@{package['version']}"
    entry: dict[str, Any] = {
        "type": "application" if package["name"] == COMPONENT else "library",
        "bom-ref": url,
        "name": package["name"],
        "version": package["version"],
        "purl": url,
    }
    if package.get("license"):
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def main() -> None:
    """Reads the command line, writes the file."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--target", default="x86_64-unknown-linux-gnu")
    options = arguments.parse_args()
    said = metadata(options.target)
    needs = reachable(said)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(one["name"], one["version"]): one["checksum"] for one in lock["package"] if "checksum" in one}
    packages = {one["id"]: component(one, checksums) for one in said["packages"] if one["id"] in needs}
    program = next(one for one in packages.values() if one["name"] == COMPONENT)
    refs = {name: one["bom-ref"] for name, one in packages.items()}
    edges = [{"ref": refs[name], "dependsOn": sorted({refs[one] for one in used})} for name, used in needs.items()]
    libraries = sorted((one for one in packages.values() if one is not program), key=lambda one: one["purl"])
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    bom: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": program,
            "properties": [{"name": "tidegate:target", "value": options.target}],
        },
        "components": libraries,
        "dependencies": sorted(edges, key=lambda one: str(one["ref"])),
    }
    # A number of its own, but the same for the same content.
    bom["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True)).urn
    options.out.write_text(json.dumps(bom, indent=1, sort_keys=True) + "\n")
    print(f"sbom: {options.out}, {len(libraries)} components beside the program")


if __name__ == "__main__":
    main()
