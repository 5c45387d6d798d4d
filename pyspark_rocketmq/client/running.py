"""What is the same for everything that runs from the beginning of a `with` block to its end?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Running"]


class Running(ABC):
    """Starts with its `with` block and ends with it."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def start(self) -> None:
        """Begin."""

    @abstractmethod
    def close(self) -> None:
        """End."""
