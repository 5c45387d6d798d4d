"""Hypothesis profiles: `everyday` for each run, `long` for `make test-long`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Deadlines per example measure the machine; on a shared one they fail for no reason of ours.
settings.register_profile("everyday", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("everyday"), max_examples=5_000)
settings.load_profile("everyday")
