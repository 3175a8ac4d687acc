"""The core, driven by hypothesis. More is tried with STOKER_EXAMPLES=5000."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

from property.core_machine import CoreMachine

TestTheCoreKeepsItsLaws = CoreMachine.TestCase
TestTheCoreKeepsItsLaws.settings = settings(
    max_examples=int(os.environ.get("STOKER_EXAMPLES", "60")),
    stateful_step_count=50,
    deadline=None,
    # The same examples each time, so that a change is judged by the change; a search is random.
    derandomize="STOKER_EXAMPLES" not in os.environ,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
