"""`stoker status`, `stoker daemon` and `stoker cluster`: the daemon, and the cluster behind it."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import asdict

from stoker import __version__
from stoker.api import messages as msg
from stoker.api.paths import PROTOCOL
from stoker.core.state import State
from stoker.daemon import settings, show
from stoker.daemon.requests.cancel import stop_event
from stoker.daemon.requests.gpus import shown_gpus
from stoker.daemon.requests.ls import job_views, usual_ids
from stoker.daemon.requests.reply import AfterTurn, Daemon, Fields
from stoker.engine import Decided


def status(daemon: Daemon, request: msg.Status) -> Fields:
    """All at a glance."""
    state = daemon.turn_loop.state
    ids, _ = usual_ids(daemon, request.limit)
    return {
        "gpus": shown_gpus(daemon),
        "gpus_why": daemon.inventory.why,
        "jobs": job_views(daemon).jobs(state, ids),
        **show.queue(state, daemon.store.finished),
        "daemon": hello(daemon, msg.Hello()),
    }


def hello(daemon: Daemon, request: msg.Hello) -> Fields:
    """Who answers here."""
    return {
        "pid": os.getpid(),
        "version": __version__,
        "api": PROTOCOL,
        "socket": daemon.home.socket,
        "home": daemon.home.root,
        "started_at_ms": daemon.started_at_ms,
        "uptime_s": round(time.monotonic() - daemon.started_monotonic, 3),
        "turns": daemon.turn_loop.pace(request.latest),
    }


def shutdown(daemon: Daemon, request: msg.Shutdown) -> Fields | AfterTurn:
    """End, with the jobs or without them."""
    about = {"pid": os.getpid(), "running": len(daemon.turn_loop.state.active)}

    def stop_all(state: State) -> Decided:
        ours = [job for job in map(state.jobs.__getitem__, state.active) if not job.terms.adopted]
        return Decided([stop_event(state, job) for job in ours], about)

    daemon.shut_down(request.mode)
    return AfterTurn(stop_all) if request.mode == "kill" else about


async def cluster_check(daemon: Daemon, request: msg.ClusterCheck) -> Fields:
    """Try the cluster in a thread of its own: a controller that is down takes its time."""
    rules = settings.cluster_rules_of(daemon.store.settings())
    checks = await asyncio.to_thread(daemon.slurm.check, rules.config, rules.shared)
    return {"checks": [asdict(one) for one in checks]}
