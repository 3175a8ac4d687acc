"""What a user typed as a filter, as the store understands it: GPUs by their ids."""

from __future__ import annotations

from stoker.api.job_filter import parsed
from stoker.core.state import State
from stoker.store.matching import Term


def filter_terms(text: str, state: State) -> tuple[Term, ...]:
    """The words of a filter; a wrong one is refused."""
    return tuple(
        (term.key, _ids(term.values, state) if term.key == "gpu" else term.values, term.negated)
        for term in parsed(text, state.now_ms)
    )


def _ids(names: tuple[str, ...], state: State) -> tuple[str, ...]:
    """The ids of GPUs; one that is not there any more may still be the id of an old job's."""
    named = [(name, state.gpu_named(name)) for name in names]
    return tuple(name if gpu is None else gpu.id for name, gpu in named)
