"""Hypothesis draws the same examples for a test whatever other tests are run beside it.

It mixes into what it draws the constants of all modules of the project that happen to be loaded,
so that a test whose examples are not random would see others with each choice of tests.
"""

from __future__ import annotations

from hypothesis.internal.conjecture import providers


def draw_no_constants_of_loaded_modules() -> None:
    """For all tests of this process. Versions that know of no such constants need nothing."""
    if hasattr(providers, "_get_local_constants"):
        from hypothesis.internal.constants_ast import Constants

        nothing = Constants()
        providers._get_local_constants = lambda: nothing
