"""Define Hypothesis profiles: `everyday` for normal runs, `long` for `make test-long`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A deadline per example measures the machine; on a shared machine it fails without a fault of the code.
settings.register_profile("everyday", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("everyday"), max_examples=5_000)
settings.load_profile("everyday")
