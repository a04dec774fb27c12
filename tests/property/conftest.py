"""How long the search takes: HYPOTHESIS_PROFILE=long for a night, otherwise what a change has to pass.
HYPOTHESIS_PROFILE=mutants for what only has to fail: no smaller example is looked for."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

IGNORED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
settings.register_profile(
    "ci", max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=IGNORED, derandomize=True
)
settings.register_profile(
    "long", max_examples=2_000, stateful_step_count=80, deadline=None, suppress_health_check=IGNORED
)
settings.register_profile("mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
