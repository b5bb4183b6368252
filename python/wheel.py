"""Puts the program into the wheel, where TIDEGATE_BINARY names it: `pip install` then brings `tidegate` as well.

TIDEGATE_PLATFORM says which systems can run that program (`manylinux_2_28_x86_64`); by default, only this one's kind.
"""

import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """With the program a wheel is for one kind of machine; without it, for all."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the program and names the platform."""
        binary = os.environ.get("TIDEGATE_BINARY")
        if binary:
            here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            platform = os.environ.get("TIDEGATE_PLATFORM", here)
            build_data["tag"] = f"py3-none-{platform}"
            build_data["pure_python"] = False
            build_data["shared_scripts"] = {binary: "tidegate"}
