"""Report changes of a broker's tables, so that they can be saved.

A change is a kind, for example "commit", and its values: topic or group configurations, or what JSON can represent.
`_Replay.apply` in `data_directory` lists the kinds. Tables report a change when they make it, so it is saved before the
request that made it gets its response.
"""

from __future__ import annotations

from collections.abc import Callable

OnChange = Callable[..., None]
"""Called with the kind of a change and its values."""


def ignore_change(kind: str, *values: object) -> None:
    """Ignore a change; tables call this function if nobody saves their changes."""
