"""Give every decoder and the stub hostile inputs for a minute of CPU: no foreign exception, no hang, no disagreement.

Environment variables: `FUZZ_SECONDS` is the CPU time of all targets together; `FUZZ_SEED` chooses the inputs, `random`
a new seed; `FUZZ_ATTEMPT` repeats a single input of the targets that pytest selects.
"""

from __future__ import annotations

import os
import secrets

import pytest

from . import decode_targets, stub_targets, text_targets, wire_targets
from .runner import Target, repeat_attempt, run_target

USUAL_SECONDS = 60.0
USUAL_SEED = "16"
TARGETS: tuple[Target, ...] = (
    *wire_targets.TARGETS,
    *decode_targets.TARGETS,
    *text_targets.TARGETS,
    *stub_targets.TARGETS,
)
ALL_SHARES = sum(target.share for target in TARGETS)


def read_seed() -> str:
    """Return the seed of this run."""
    given = os.environ.get("FUZZ_SEED", USUAL_SEED)
    return secrets.token_hex(4) if given == "random" else given


SEED = read_seed()
SECONDS = float(os.environ.get("FUZZ_SECONDS", USUAL_SECONDS))
ATTEMPT = os.environ.get("FUZZ_ATTEMPT")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_hostile_inputs_end_well(target: Target) -> None:
    """A target that gets damaged and random inputs succeeds or raises an error of the library, soon and in little
    memory; two implementations of one thing agree.
    """
    if ATTEMPT is not None:
        repeat_attempt(target, SEED, int(ATTEMPT))
        return
    attempts = run_target(target, SEED, SECONDS * target.share / ALL_SHARES)
    print(f"\n{target.name}: {attempts} attempts with seed {SEED}")
    assert attempts > 0
