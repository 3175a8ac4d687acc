"""What the daemon remembers of its GPUs: their course over time, and who else is on them.

It looks on after each turn; nothing is decided here. The course is written down now and then, and
a crash may cost the last minute of it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from stoker.core.learning import used_mib
from stoker.daemon.loop import TurnLoop
from stoker.inventory.auto import AutoInventory, link_words
from stoker.learn.history import Columns, Course, Recent, Sample, columns, samples_of
from stoker.machine import user_name
from stoker.ports import SeenGpu, Sighting, StoreFailed
from stoker.store.histories import Histories

log = logging.getLogger("stoker.daemon")

_SAVE_ALL_MS = 60_000
_SAVE_ENDED_MS = 5_000
_STALE_MS = 10_000

# What is shown of a GPU as it was seen; null where nothing was.
MEASURED = (
    "index", "used_mib", "utilisation_percent", "temperature_c", "power_w", "power_limit_w",
    "measured_at_ms",
)  # fmt: skip

_SHOWN = {"at_ms": "at_ms", "mem_mib": "ours_mib", "use_percent": "use_percent"}

Key = tuple[int, int]


@dataclass(slots=True)
class Telemetry:
    """Watches the readings go by."""

    turn_loop: TurnLoop
    inventory: AutoInventory
    histories: Histories
    _gpus: dict[str, Recent] = field(default_factory=dict)
    _courses: dict[Key, Course] = field(default_factory=dict)
    _parts: dict[Key, dict[str, Course]] = field(default_factory=dict)  # on each of several GPUs
    _ended: dict[Key, bytes] = field(default_factory=dict)  # courses still to be written down
    _seen: Sighting | None = None
    _saved_at_ms: int = 0
    _saved_all_at_ms: int = 0  # with the courses of what runs

    def load(self) -> None:
        """What an earlier daemon has seen."""
        for gpu_id, body in self.histories.of_gpus():
            kept: Columns = msgspec.json.decode(body)
            self._gpus[gpu_id] = Recent(coarse=samples_of(kept))

    def look(self) -> None:
        """After a turn: note what is new."""
        state, engine = self.turn_loop.state, self.turn_loop.engine
        self.inventory.set_busy(bool(state.active))
        sighting = self.inventory.observe()
        if sighting is not self._seen:
            self._seen = sighting
            self._note(sighting)
        for ended in engine.committed.ended:
            if ended.attempt is not None:
                self._end((ended.job.id, ended.attempt.number))
                if ended.attempt.peak_mib is not None:
                    self.inventory.read_soon()  # There is room again; see how much.
        is_all = bool(self._gpus) and state.now_ms - self._saved_all_at_ms > _SAVE_ALL_MS
        if is_all or (self._ended and state.now_ms - self._saved_at_ms > _SAVE_ENDED_MS):
            self.save(running=is_all)

    def save(self, *, running: bool = True) -> None:
        """Write down the outline of what was seen; of what runs only now and then."""
        self._saved_at_ms = self.turn_loop.state.now_ms
        if running:
            self._saved_all_at_ms = self._saved_at_ms
        encode = msgspec.json.encode
        gpus = [(gpu_id, encode(columns(recent.coarse))) for gpu_id, recent in self._gpus.items()]
        attempts = [(*key, body) for key, body in self._ended.items()]
        if running:
            for key, course in self._courses.items():
                attempts.append((*key, self._body(key, course)))
        if not gpus and not attempts:
            return
        try:
            self.histories.keep(gpus, attempts)
        except StoreFailed as failure:
            log.warning("the course of GPU use can't be kept: %s", failure)
        else:
            self._ended.clear()

    def gpu_histories(self, since_ms: int) -> dict[str, Columns]:
        """The course of each GPU, by the name that people know it by."""
        found = {}
        for gpu_id, recent in self._gpus.items():
            gpu = self.turn_loop.state.gpus.get(gpu_id)
            if gpu is not None:
                wanted = [s for s in recent.all() if s.at_ms >= since_ms]
                found[gpu.shown_as] = columns(wanted)
        return found

    def job_history(self, job_id: int, attempt: int) -> dict[str, Any]:
        """The course of an attempt, and that on each of its GPUs if it has several."""
        key = (job_id, attempt)
        course = self._courses.get(key)
        kept = self._kept(key) if course is None else columns(course.samples)
        parts = {gpu: columns(one.samples) for gpu, one in self._parts.get(key, {}).items()}
        parts = parts or self._kept_parts(key)
        return {**_shown(kept), "gpus": {gpu: _shown(one) for gpu, one in parts.items()}}

    def details(self) -> dict[str, dict[str, Any]]:
        """What is shown of each GPU beside what the state knows."""
        now_ms = self.turn_loop.state.now_ms
        found = {}
        for seen in self.inventory.observe().gpus or ():
            measured = seen.measured_at_ms
            found[seen.id] = {
                **{name: getattr(seen, name) for name in MEASURED},
                "uuid": seen.id,
                "name": seen.name,
                "stale": measured is None or now_ms - measured > _STALE_MS,
                "foreign": self._others_on(seen),
                "vendor": seen.vendor,
                "links": self._links_of(seen),
            }
        return found

    def _links_of(self, seen: SeenGpu) -> dict[str, str]:
        """How it is connected with each other GPU, in words."""
        gpus = self.turn_loop.state.gpus
        return {
            gpus[other].shown_as: link_words(seen.vendor, distance)
            for other, distance in seen.distances
            if other in gpus
        }

    def _others_on(self, seen: SeenGpu) -> list[dict[str, Any]]:
        gpu = self.turn_loop.state.gpus.get(seen.id)
        if gpu is None or gpu.reading is None:
            return []
        others = set(gpu.reading.other_pids)
        return [
            {"pid": p.pid, "used_mib": p.used_mib, **_who(p.pid)}
            for p in seen.processes
            if p.pid in others
        ]

    def _note(self, sighting: Sighting) -> None:
        state = self.turn_loop.state
        for gpu in state.gpus.values():
            reading = gpu.reading
            if reading is None or gpu.removing:
                continue
            recent = self._gpus.setdefault(gpu.id, Recent())
            if recent.fine and recent.fine[-1].at_ms >= reading.at_ms:
                continue
            known = [mib for mib in reading.ours_mib.values() if mib is not None]
            recent.add(Sample(reading.at_ms, reading.use_percent, sum(known), reading.others_mib))
        for job_id in state.active:
            attempt = state.jobs[job_id].active
            if attempt is None or attempt.peak_mib is None or not attempt.gpus:
                continue
            first = state.gpus[attempt.gpus[0]].reading
            key = (job_id, attempt.number)
            course = self._courses.get(key)
            if course is None:  # It may have run under an earlier daemon.
                course = self._courses[key] = Course(samples_of(self._kept(key)))
            if first is not None:
                mib = used_mib(state, job_id, attempt)
                course.add(Sample(first.at_ms, first.use_percent, mib))
            if len(attempt.gpus) > 1:
                self._note_parts(key, attempt.gpus)

    def _note_parts(self, key: Key, gpus: Sequence[str]) -> None:
        if key not in self._parts:  # It may have run under an earlier daemon.
            kept = self._kept_parts(key).items()
            self._parts[key] = {gpu: Course(samples_of(one)) for gpu, one in kept}
        for gpu_id in gpus:
            gpu = self.turn_loop.state.gpus[gpu_id]
            reading = gpu.reading
            if reading is not None:
                part = self._parts[key].setdefault(gpu.shown_as, Course())
                mib = reading.ours_mib.get(key[0], 0)
                if not part.samples or part.samples[-1].at_ms < reading.at_ms:
                    part.add(Sample(reading.at_ms, reading.use_percent, mib))

    def _body(self, key: Key, course: Course) -> bytes:
        """What is written down of an attempt."""
        parts = {gpu: columns(one.samples) for gpu, one in self._parts.get(key, {}).items()}
        return msgspec.json.encode({**columns(course.samples), "gpus": parts})

    def _kept(self, key: Key) -> Columns:
        """What was written down of an attempt, or is about to be."""
        kept: Columns = self._written(key) or columns([])
        return kept

    def _kept_parts(self, key: Key) -> dict[str, Columns]:
        """The same for each of several GPUs."""
        parts: dict[str, Columns] = self._written(key).get("gpus", {})
        return parts

    def _written(self, key: Key) -> dict[str, Any]:
        body = self._ended.get(key)
        if body is None:
            body = self.histories.of_attempt(*key)
        found: dict[str, Any] = {} if body is None else msgspec.json.decode(body)
        return found

    def _end(self, key: Key) -> None:
        course = self._courses.pop(key, None)
        if course is not None and course.samples:
            self._ended[key] = self._body(key, course)
        self._parts.pop(key, None)


def _shown(kept: Columns) -> Columns:
    return {shown: kept[name] for shown, name in _SHOWN.items()}


_user = lru_cache(maxsize=256)(user_name)


def _who(pid: int) -> dict[str, str | None]:
    """Whose a process is, and what it runs, as far as we may know."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
    except OSError:
        return {"user": None, "command": None}
    return {"user": _user(uid), "command": b" ".join(words).decode(errors="replace")}
