"""Open the cluster of a running command, and close it; tell the time, wait and ask for secrets."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Self

from .connection import Wanted, find_options, find_raw_options, name_connection
from .screen import Screen

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster
    from ..options import HelperOptions

__all__ = ["Session"]


class Session:
    """One run of a command; a context manager that closes the connections."""

    def __init__(self, wanted: Wanted, screen: Screen) -> None:
        self._wanted = wanted
        self.screen = screen
        self._answers: dict[str, str] = {}
        """The secrets that the user has typed, by option, so that nobody is asked twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if "cluster" in self.__dict__:
            self.cluster.close()

    @cached_property
    def options(self) -> HelperOptions:
        """The options of the cluster, from flags, environment and profile."""
        ask = self._ask if self.screen.may_ask else None
        return find_options(self._wanted, warn=self.screen.warn, ask=ask)

    @cached_property
    def raw_options(self) -> dict[str, str]:
        """The names and values of these options, secrets included, as Spark takes them."""
        ask = self._ask if self.screen.may_ask else None
        return find_raw_options(self._wanted, ask=ask)

    def read_options(self) -> None:
        """Read all options now, so that no question for a secret comes later."""
        _ = self.options, self.raw_options

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster; no connection is opened before the first request.

        Servers are connected at the same time, so that unreachable ones take no time from each other.
        """
        from ..cluster.cluster import open_shared_cluster

        return open_shared_cluster(self.options.cluster)

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of the cluster's name servers."""
        return tuple(map(str, self.options.cluster.name_servers))

    def connection_words(self) -> tuple[str, ...]:
        """Return the words that lead another command to this cluster."""
        return name_connection(self._wanted, self.name_servers)

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait between two results of a stream; raise `BrokenPipeError` as soon as nobody reads them any more."""
        if self.screen.wait_for_closing(seconds):
            raise BrokenPipeError

    def _ask(self, option: str) -> str:
        import click

        if option not in self._answers:
            with self.screen.quiet():
                self._answers[option] = click.prompt(option, hide_input=True, err=True)
        return self._answers[option]
