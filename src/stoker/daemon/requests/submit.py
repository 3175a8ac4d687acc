"""`stoker add` and all that queue jobs: see daemon.submission."""

from __future__ import annotations

from stoker.api import messages as msg
from stoker.daemon import settings
from stoker.daemon.requests.reply import AfterTurn, Daemon
from stoker.daemon.submission import submission
from stoker.engine import Decided
from stoker.errors import NotFound


def submit(daemon: Daemon, request: msg.Submit) -> AfterTurn:
    """Queue jobs, all of them or none."""
    job_id = request.env_of
    if job_id is not None:
        if not daemon.views.between(job_id, job_id):
            raise NotFound(f"there is no job {job_id}", "see `stoker ls --all`")
        launch = daemon.store.launch(job_id)
        request.env, request.umask = dict(launch.env), launch.umask
    values = daemon.store.settings()
    defaults, cluster = settings.defaults_of(values), settings.cluster_rules_of(values)
    if any(job.max_log_mib is not None for job in request.jobs):
        daemon.log_caps.expect_some()
    if any(job.metric or job.metrics_from or job.point for job in request.jobs) or (
        request.each and request.each[0].point
    ):
        daemon.readings.expect_some()
    code = daemon.code_states.of(request.code) if request.code else {}
    proposal = submission(request, daemon.views, defaults, cluster, code)
    return AfterTurn((lambda state: _checked(proposal(state))) if request.check else proposal)


def _checked(decided: Decided) -> Decided:
    """It would be taken; nothing comes of it now."""
    return Decided([], {**decided.answer, "ids": []})
