"""The table: what was done, what came of it, and what does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from crash.torture.laws import Case, Violation

_SHOWN_OF_EACH = 3


def report(
    case: Case, found: list[Violation], seconds: float, seed: int, failed_calls: dict[str, int]
) -> str:
    """All of it as text."""
    done = case.log.done
    kills = sum(count for what, count in done.items() if what.startswith("kill-"))
    states: dict[str, Counter[str]] = {}
    for job_id, job in case.by_job.items():
        group = job.get("group") or ""
        token = case.token_of[job_id] or (group if group.startswith("tok-") else "tok-?-")
        states.setdefault(token.split("-")[1], Counter())[job["state"]] += 1
    lines = [
        f"seed {seed}, {seconds:.0f} s, {kills} kills, {kills * 60 / seconds:.0f} a minute",
        *_rows("done", ((what, done[what]) for what in sorted(done))),
        *_rows("calls that failed", failed_calls.items()),
        *_rows("passed over", sorted(case.log.passed_over.items())),
        f"jobs: {len(case.by_job)}, processes: {len(case.records)}",
    ]
    for front_end, counts in sorted(states.items()):
        lines.append(
            f"  {front_end:14} " + ", ".join(f"{n} {s}" for s, n in sorted(counts.items()))
        )
    answers = case.answers
    lines.append(
        f"daemon: {answers.fds_before} files, then {answers.fds_after}; "
        f"log {answers.log_bytes} bytes; database {answers.integrity}; "
        f"silent for {case.log.longest_silence_s:.0f} s at most"
    )
    lines.append(f"violations: {len(found)}")
    for law, count in Counter(one.law for one in found).most_common():
        lines.append(f"  {law:32} {count}")
    shown: Counter[str] = Counter()
    for one in found:
        shown[one.law] += 1
        if shown[one.law] <= _SHOWN_OF_EACH:
            lines.append(f"\n* {one.law}\n  {one.text}")
    return "\n".join(lines)


def _rows(title: str, rows: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{title}:", *(f"  {what:28} {count}" for what, count in rows if count)]
