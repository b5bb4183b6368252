"""What a node says of itself, as tables of pandas: `pip install tidegate[pandas]`."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

from ._errors import NodeGone

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_HTTP = "http://127.0.0.1:7070"
"""Where a node's `[http] listen` is unless it is told otherwise."""


def status(url: str = DEFAULT_HTTP, *, timeout: float = 10.0) -> dict[str, Any]:
    """`/status`: everything; each field's name ends in its unit. Raises `NodeGone`."""
    answer: dict[str, Any] = json.loads(_get(f"{url}/status", timeout))
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

    families = text_string_to_metric_families(_get(f"{url}/metrics", timeout))
    rows = [{"name": one.name, **one.labels, "value": one.value} for family in families for one in family.samples]
    table: pd.DataFrame = pandas.DataFrame(rows)
    return table


def _get(url: str, timeout: float) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url}: a node's status is at http://HOST:PORT")
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return str(answer.read().decode())
    except OSError as error:
        raise NodeGone(f"{url}: {error}") from error


def _pandas() -> Any:  # noqa: ANN401
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: pip install tidegate[pandas]") from error
    return pandas
