"""Status and metrics of a node. As tables they need pandas: `pip install 'tidegate[pandas]'`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from ._address import cure
from ._errors import NodeGone

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_HTTP = "http://127.0.0.1:7070"
"""Where a node's `[http] listen` is unless it is told otherwise."""


def status(url: str = DEFAULT_HTTP, *, timeout: float = 10.0) -> dict[str, Any]:
    """`/status`: everything; each field's name ends in its unit. Raises `NodeGone`."""
    text = _get(url, "status", timeout)
    try:
        answer: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{url}: what answers there is no node: give the address of its [http] listen") from error
    return answer


def tables(url: str = DEFAULT_HTTP, *, timeout: float = 10.0) -> dict[str, pd.DataFrame]:
    """The lists of `/status`, each a table: `streams`, `outputs` and so on. Raises `NodeGone`."""
    pandas = _pandas()
    said = status(url, timeout=timeout)
    lists = {name: value for name, value in said.items() if isinstance(value, list)}
    return {
        name: pandas.json_normalize([row if isinstance(row, dict) else {"value": row} for row in rows])
        for name, rows in lists.items()
    }


def metrics(url: str = DEFAULT_HTTP, *, timeout: float = 10.0) -> pd.DataFrame:
    """`/metrics`: a row for each value, with columns `name`, `value` and one for each label. Raises `NodeGone`."""
    pandas = _pandas()
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(_get(url, "metrics", timeout))
    rows = [{"name": one.name, **one.labels, "value": one.value} for family in families for one in family.samples]
    table: pd.DataFrame = pandas.DataFrame(rows)
    return table


def _get(url: str, what: str, timeout: float) -> str:
    """The text at a path of a node; `url` may leave `http://` out."""
    url = url if "://" in url else f"http://{url}"
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url}: a node's status is at http://HOST:PORT")
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/{what}", timeout=timeout) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        why = error.read(200).decode(errors="replace").strip()
        raise NodeGone(f"{url}: it answers {error.code} {error.reason}: {why}") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        why = cure(reason, "[http] listen") if isinstance(reason, OSError) else str(reason)
        raise NodeGone(f"{url}: {why}") from error


def _pandas() -> Any:  # noqa: ANN401
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: pip install 'tidegate[pandas]'") from error
    return pandas
