"""`stoker profiles`: what was learned of kinds of jobs."""

from __future__ import annotations

from fnmatch import fnmatchcase

from stoker.api import gpu_messages as msg
from stoker.core import events as ev
from stoker.core.state import State
from stoker.daemon.requests.reply import AfterTurn, Daemon, Fields
from stoker.engine import Decided
from stoker.errors import NotFound
from stoker.quantities import quoted

_AS_LEARNED = (
    "kind", "count", "max_mib", "settle_ms", "longest_ms", "use_percent", "updated_at_ms",
)  # fmt: skip


def profiles(daemon: Daemon, request: msg.Profiles) -> Fields:
    """What is known of kinds of jobs, by name."""
    known = daemon.turn_loop.state.profiles.values()
    return {
        "profiles": [
            {
                **{name: getattr(one, name) for name in _AS_LEARNED},
                "mean_mib": round(one.mean_mib),
                "deviation_mib": round(one.deviation_mib),
                "out_of_memory": one.ooms,
            }
            for one in sorted(known, key=lambda p: p.kind)
        ]
    }


def forget(daemon: Daemon, request: msg.ProfilesForget) -> AfterTurn:
    """Let these kinds be learned anew; kinds may be patterns such as "python train*"."""
    patterns = request.kinds

    def proposal(state: State) -> Decided:
        known = sorted(state.profiles)
        chosen = [
            k for k in known if request.all or any(k == p or fnmatchcase(k, p) for p in patterns)
        ]
        unknown = [p for p in patterns if not any(k == p or fnmatchcase(k, p) for k in known)]
        if unknown:
            raise NotFound(f"nothing is known of {quoted(unknown[0])}", "see `stoker profiles`")
        return Decided([ev.ProfilesForgotten(state.now_ms, tuple(chosen))], chosen)

    return AfterTurn(proposal, "kinds")
