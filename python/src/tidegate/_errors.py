"""What goes wrong, in words."""

from __future__ import annotations


class Refused(Exception):
    """A node said no, and why."""


class FrameRefused(Refused):
    """The node did not take a frame, and says why."""


class NodeGone(ConnectionError):
    """The node cannot be reached, or the connection to it broke."""
