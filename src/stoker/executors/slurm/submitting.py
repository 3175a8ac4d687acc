"""Orders become submissions: alike ones share an array, so that many go in few calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from stoker.executors.slurm.cases import Case
from stoker.executors.slurm.facts import ClusterFacts
from stoker.executors.slurm.files import Files
from stoker.executors.slurm.options import ClusterConfig, Refused, directives

_NAME_LETTERS = 40

Lines = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Submission:
    """One call of `sbatch`, and the cases that it is for."""

    batch: str
    name: str
    cases: tuple[Case, ...]
    words: tuple[str, ...]


@dataclass(slots=True)
class Submitter:
    """Makes submissions of orders, and writes what the nodes need for them."""

    files: Files
    instance: str

    @property
    def token(self) -> str:
        """What the comment of every Slurm job of ours begins with."""
        return f"stoker:{self.instance}:"

    def next_submission(
        self,
        ordered: Sequence[Case],
        facts: ClusterFacts,
        config: ClusterConfig,
        id_of: Callable[[int, int], str | None],
        now_ms: int,
    ) -> tuple[Submission | None, list[tuple[Case, str]]]:
        """The first order with all that are alike, and those that the cluster can't be told."""
        refused: list[tuple[Case, str]] = []
        group: list[Case] = []
        wanted: Lines | None = None
        for case in ordered:
            assert case.order is not None and case.launch is not None
            options = case.launch.cluster_options
            try:
                lines = directives(case.order, options, facts, config, id_of, now_ms)
            except Refused as refusal:
                refused.append((case, str(refusal)))
                continue
            if wanted is None:
                wanted = lines
            if lines == wanted:
                group.append(case)
                if len(group) == facts.most_tasks:
                    break
        if wanted is None:
            return None, refused
        return self._prepared(group, wanted), refused

    def _prepared(self, group: list[Case], lines: Lines) -> Submission:
        batch = uuid4().hex[:12]
        name = f"{_label(group)}.{batch}"
        script = self.files.make_batch(batch, lines)
        for index, case in enumerate(group):
            assert case.order is not None and case.launch is not None
            case.directory = self.files.prepare(
                case.order, case.launch, self.instance, batch, index, name
            )
            case.batch, case.index, case.label = batch, index, name
        path = self.files.batch_path(batch)
        many = len(group) > 1
        words = [
            "sbatch",
            "--parsable",
            f"--job-name={name}",
            f"--comment={self.token}{batch}",
            f"--output={path}/{'%a' if many else '0'}/log",
            "--open-mode=append",
            "--input=/dev/null",
            "--export=ALL",
            "--kill-on-invalid-dep=yes",
        ]
        if many:
            words.append(f"--array=0-{len(group) - 1}")
        return Submission(batch, name, tuple(group), (*words, script, path))


def _label(group: list[Case]) -> str:
    """A name that people know: the job's own, or what the jobs have in common."""
    names = {case.launch.name for case in group if case.launch is not None}
    name = names.pop() if len(names) == 1 else None
    text = re.sub(r"[^A-Za-z0-9_-]+", "-", name or "").strip("-")[:_NAME_LETTERS]
    return text or (f"stoker-{group[0].key[0]}" if len(group) == 1 else "stoker")
