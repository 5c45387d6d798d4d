"""Replace answers that do not hold what they claim by what is read again.

Of answers without a filter their count tells. Filtered ones may hold any number of messages, so what is wrong shows
only where the offsets written in their records cannot be: in a *shifted* queue, in which they run ahead of the
positions. A message may then lie before the end of what is wanted, and say that it lies behind it. So where an answer
was cut, and messages said to lie behind the cut, the message before the cut is looked at without the filter; and once a
queue is known to be shifted, all its filtered answers are placed by reading them again without it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from ..model import Block, MessageQueue, is_light
from ..wire.scan import mismatch
from .bulk import Bulk
from .claims import Placed
from .gathered import Answers

__all__ = ["Mender", "Recheck"]

_SHIFTED = (
    "%s: other offsets are written in its messages than they stand at, as after a message with an illegal sysFlag; "
    "queueOffset tells the position, storedQueueOffset what is written"
)
_log = logging.getLogger(__name__)


class Recheck(Protocol):
    """Reads again what does not hold what it claims."""

    def read_again(self, block: Block) -> Iterable[Block]:
        """What is wanted of an answer that is short, from the master; what is missing there is judged as a loss."""

    def place(self, block: Block) -> Iterable[Block]:
        """The wanted records of a filtered answer, one by one, each telling by `first` where it stands."""

    def shifted_at(self, offsets: Mapping[MessageQueue, int]) -> Collection[MessageQueue]:
        """The queues in which another offset is written in the record that stands there."""


class Mender:
    """Knows which queues are shifted, and mends the answers of one task."""

    def __init__(self, recheck: Recheck | None, shifted: set[MessageQueue] | None = None) -> None:
        self._recheck = recheck
        self._shifted = set() if shifted is None else shifted

    def without_recheck(self) -> Mender:
        """One that knows the same, and refuses what would have to be read again."""
        return Mender(None, self._shifted)

    def suspects(self, bulk: Bulk, answers: Answers, placed: Placed) -> list[int]:
        """The answers to be read again."""
        self._note(placed.shifted)
        if not placed.is_filtered:
            return list(placed.suspects)
        if self._recheck and (cuts := _doubtful_cuts(bulk, answers)):
            self._note(self._recheck.shifted_at(cuts))
        if not (placed.suspects or self._shifted):
            return []
        filtered = [at for at, end in enumerate(answers.nexts) if end and not answers.covered[at]]
        misfits = {answers.queues[at] for at in placed.suspects if at in filtered}
        self._note(misfits)
        return sorted({*placed.suspects, *(at for at in filtered if answers.queues[at] in self._shifted)})

    def mend(self, blocks: Sequence[Block], suspects: Collection[int]) -> Iterator[Block]:
        """The blocks, and in the place of suspects what was read again."""
        for at, block in enumerate(blocks):
            if at not in suspects:
                yield block
            elif self._recheck is None:
                what = f"does not hold the messages of the {block.covered} offsets that it covers"
                raise mismatch(block.wanted.queue, block.first, what)
            else:
                yield from self._recheck.read_again(block) if block.covered else self._recheck.place(block)

    def _note(self, shifted: Collection[MessageQueue]) -> None:
        for queue in set(shifted) - self._shifted:
            self._shifted.add(queue)
            if not is_light(queue):
                _log.warning(_SHIFTED, queue)


def _doubtful_cuts(bulk: Bulk, answers: Answers) -> dict[MessageQueue, int]:
    """The last offset before the last cut of each queue behind which messages of a filtered answer say to lie."""
    ends = np.array(answers.ends)
    is_cut = (np.array(answers.covered) == 0) & (np.array(answers.nexts) > ends)
    if not is_cut.any():
        return {}
    behind = is_cut[bulk.answers] & (bulk.stored_offsets >= ends[bulk.answers])
    cut = np.unique(bulk.answers[behind]).tolist()
    return {answers.queues[at]: int(ends[at]) - 1 for at in sorted(cut, key=ends.__getitem__)}
