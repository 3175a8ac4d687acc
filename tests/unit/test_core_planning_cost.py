"""What a turn costs depends on what changed and on the kinds of jobs, not on how many wait.

Operations are counted, not seconds: a machine under load is slow, and counts don't mind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stoker.core import events as ev
from stoker.core import plan as plan_module
from stoker.core.jobs import Jobs
from stoker.core.model import Exit, Need, Requirement, Terms
from stoker.core.order import Policy
from stoker.core.plan import MOST_BLOCKED_CLASSES, Scan
from stoker.core.ready import ReadyQueue
from stoker.core.waiting import reason_for
from unit.core_scene import Scene, cpu_only, mem, share, whole

KINDS = (whole(), whole(2), whole(4), share(0.5), mem(4), mem(20), whole(cpus=2), cpu_only(2))
RUN_KINDS = ("short", "long", "new")
GROUPS = (None, "a", "b")


def busy_queue(waiting: int, policy: Policy = Policy.FIFO) -> Scene:
    """All GPUs are taken, and so many jobs of a few kinds wait."""
    scene = Scene(4)
    scene.apply(ev.PolicySet(scene.now, policy))
    scene.running(whole(3))
    scene.running(mem(20))
    scene.running(cpu_only(7))
    state = scene.state
    terms = [Terms(run_kind=kind) for kind in RUN_KINDS]
    for place in range(waiting):
        need = KINDS[place % len(KINDS)]
        group = GROUPS[place % len(GROUPS)] if policy is Policy.FAIR else None
        of_kind = terms[place // len(KINDS) % len(terms)]
        submitted = ev.JobSubmitted(state.now_ms, state.next_job_id, need, of_kind, group=group)
        state.apply(submitted)
    scene.apply()
    scene.plan()
    return scene


@contextmanager
def counted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts what planning does, and how often a job is looked up; none goes through all jobs."""
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str, counted_as: str = "") -> None:
        really: Callable[..., Any] = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counts[counted_as or name] += 1
            return really(*args, **kwargs)

        patch.setattr(owner, name, counting)

    def refuse(*_: object) -> None:
        raise AssertionError("all jobs are gone through")

    state = scene.state
    with monkeypatch.context() as patch:
        count(ReadyQueue, "pop_class")
        count(ReadyQueue, "head")
        count(ReadyQueue, "add")
        count(ReadyQueue, "add_new")
        count(ReadyQueue, "discard")
        for name in ("has_room", "fits_beside", "reservation", "best"):
            count(plan_module, name)
        count(Jobs, "get", "looked up")
        count(Jobs, "__getitem__", "looked up")
        for name in ("__iter__", "seen", "attached", "ahead_of", "_unseen_of"):
            patch.setattr(Jobs, name, refuse)
        patch.setattr(state.ready, "_find", state.jobs.get)
        yield counts


def turn_after_an_exit(scene: Scene) -> None:
    """A job ends, its GPUs are free, and all that can start does."""
    state = scene.state
    job_id = next(iter(state.active))
    state.apply(ev.AttemptExited(state.now_ms, job_id, 1, Exit(code=0)))
    Scan(state).carry_out(state.apply)
    state.take_change()


def costs(
    waiting: int, monkeypatch: pytest.MonkeyPatch, policy: Policy = Policy.FIFO
) -> dict[str, int]:
    scene = busy_queue(waiting, policy)
    with counted(scene, monkeypatch) as counts:
        turn_after_an_exit(scene)
    return dict(counts)


def test_a_turn_costs_the_same_with_1_000_and_with_50_000_waiting_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, many = costs(1_000, monkeypatch), costs(50_000, monkeypatch)
    assert few == many
    assert few["pop_class"] > len(KINDS) // 2, "the queue was looked at"


@pytest.mark.parametrize("policy", [Policy.SHORTEST, Policy.FAIR])
def test_a_turn_costs_the_same_by_any_policy_however_many_wait(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (costs(count, monkeypatch, policy) for count in (1_000, 10_000))
    assert few == many
    assert few["pop_class"] > len(KINDS) // 2, "the queue was looked at"


def test_a_turn_costs_the_same_however_many_jobs_are_held_by_dependencies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    for dependent in (0, 20_000):
        scene = busy_queue(1_000)
        held = scene.submit(held=True)
        state, terms = scene.state, Terms()
        requires = (Requirement(held, must_succeed=True),)
        for place in range(dependent):
            need = KINDS[place % len(KINDS)]
            job_id = state.next_job_id
            state.apply(ev.JobSubmitted(state.now_ms, job_id, need, terms, requires=requires))
        scene.apply()
        with counted(scene, monkeypatch) as counts:
            turn_after_an_exit(scene)
        seen.append(dict(counts))
    assert seen[0] == seen[1]
    assert seen[0]["pop_class"] > len(KINDS) // 2, "the queue was looked at"


def test_a_turn_in_which_nothing_can_start_costs_no_more_than_the_kinds_of_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = busy_queue(5_000)
    with counted(scene, monkeypatch) as counts:
        assert Scan(scene.state).carry_out(scene.state.apply) == []
    # There are two lines, of GPU jobs and of others, and both are asked each time.
    assert counts["pop_class"] <= 2 * (len(KINDS) + 1)
    assert counts["looked up"] < 20 * len(KINDS)


def test_submitting_costs_the_same_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for waiting in (100, 10_000):
        scene = busy_queue(waiting)
        with counted(scene, monkeypatch) as counts:
            state = scene.state
            state.apply(ev.JobSubmitted(state.now_ms, state.next_job_id, whole(), Terms()))
        seen.append(dict(counts))
    assert seen[0] == seen[1]


def test_a_reason_costs_the_same_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for waiting in (1_000, 10_000):
        scene = busy_queue(waiting)
        last = scene.job(scene.state.next_job_id - 1)
        with counted(scene, monkeypatch) as counts:
            reason_for(scene.state, last)
        seen.append(dict(counts))
    assert seen[0] == seen[1]


def test_a_queue_in_which_every_job_differs_is_looked_at_only_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(4)
    scene.running(whole(3))
    state = scene.state
    for place in range(5 * MOST_BLOCKED_CLASSES):
        terms = Terms(time_limit_ms=10**9 + place)
        state.apply(ev.JobSubmitted(state.now_ms, state.next_job_id, Need(2), terms))
    scene.apply()
    with counted(scene, monkeypatch) as counts:
        assert Scan(state).carry_out(state.apply) == []
    assert counts["pop_class"] <= 2 * (MOST_BLOCKED_CLASSES + 1)


def test_jobs_that_wait_for_time_or_for_others_cost_planning_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(1)
    blocker = scene.running()
    for _ in range(500):
        scene.submit(at_ms=scene.now + 10_000)
        scene.submit(after=[blocker])
        scene.submit(held=True)
    with counted(scene, monkeypatch) as counts:
        assert Scan(scene.state).carry_out(scene.state.apply) == []
    assert counts["looked up"] == 0
