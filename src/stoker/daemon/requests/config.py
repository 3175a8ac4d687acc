"""`stoker config`: what a user has set."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.core import events as ev
from stoker.core.order import Policy
from stoker.core.state import State
from stoker.daemon import settings
from stoker.daemon.requests import gpus
from stoker.daemon.requests.reply import AfterTurn, Daemon, Fields
from stoker.engine import Decided
from stoker.errors import NotFound
from stoker.quantities import declared_gpus_text, quoted


def get(daemon: Daemon, request: msg.ConfigGet) -> Fields:
    """One setting, or all."""
    values = daemon.store.settings()
    declared = [
        (g.shown_as, None if g.vendor else g.memory_mib)
        for g in daemon.turn_loop.state.gpus.values()
        if not g.removing
    ]
    help_text = "the GPUs to use: those that a driver shows, or as declared: 0:24G,1:24G"
    rows = [(settings.GPUS, declared_gpus_text(declared), "", help_text)]
    values = {s.name: s.shown(values.get(s.name, s.default)) for s in settings.SETTINGS}
    rows += [(s.name, values[s.name], s.default, s.help) for s in settings.SETTINGS]
    found = [dict(zip(("name", "value", "default", "help"), row, strict=True)) for row in rows]
    chosen = [item for item in found if request.name in (None, item["name"])]
    if not chosen:
        raise _no_setting(str(request.name))
    return {"settings": chosen}


def set_one(daemon: Daemon, request: msg.ConfigSet) -> AfterTurn:
    """The answer comes after a turn in which the new value counts."""
    if request.name == settings.GPUS:
        return AfterTurn(
            gpus.declare(None if request.value == gpus.AUTO else request.value), "value"
        )
    setting = settings.BY_NAME.get(request.name)
    if setting is None:
        raise _no_setting(request.name)
    value = None if request.value is None else setting.canonical(request.value)
    daemon.store.set_setting(setting.name, value)
    take_settings(daemon)
    answer = setting.default if value is None else setting.shown(value)

    def proposal(state: State) -> Decided:
        if setting.name == "slurm.jobs":
            return Decided([ev.ClusterLimited(state.now_ms, int(answer))], answer)
        if setting.name == "policy":
            return Decided([ev.PolicySet(state.now_ms, Policy(answer))], answer)
        return Decided([], answer)

    return AfterTurn(proposal, "value")


def take_settings(daemon: Daemon) -> None:
    """Let what its user has set take effect."""
    values = daemon.store.settings()
    daemon.inventory.set_cpus(settings.cpus_of(values))
    daemon.inventory.set_foreign(settings.value_of("foreign", values))
    daemon.inventory.set_interval(settings.poll_s_of(values))
    daemon.turn_loop.engine.habits = settings.habits_of(values)
    daemon.disk_watch.take(*settings.least_rooms_of(values))
    daemon.log_caps.take(settings.log_bound_of(values))
    daemon.clearing.take(settings.retention_of(values))
    rules = settings.cluster_rules_of(values)
    daemon.slurm.configure(rules.config, rules.shared)
    daemon.notices.wake()


def _no_setting(name: str) -> NotFound:
    import difflib  # For slips only.

    known = [settings.GPUS, *settings.BY_NAME]
    near = difflib.get_close_matches(name, known, 1)
    return NotFound(
        f"there is no setting {quoted(name)}",
        f"did you mean {near[0]}?" if near else f"the settings are: {', '.join(known)}",
    )
