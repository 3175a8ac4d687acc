"""Where there is accounting, it is asked before silence is taken for an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.executors.attempt_dir import make_attempt_dir
from stoker.executors.slurm.attending import Attendant
from stoker.executors.slurm.cancelling import Canceller
from stoker.executors.slurm.cases import Case, Phase
from stoker.executors.slurm.facts import ClusterFacts
from stoker.executors.slurm.watching import Watcher

LONG_AFTER = 1_000.0


class Desk:
    """An attendant, and an attempt of which Slurm knows nothing any more."""

    def __init__(self, root: Path, files: dict[str, str], *, accounting: bool) -> None:
        directory = str(root / "7.1")
        make_attempt_dir(directory)
        for name, text in files.items():
            Path(directory, name).write_text(text)
        self.told: list[ev.Fact] = []
        self.case = Case((7, 1), directory, Phase.TAKEN, batch="b", label="a.b", taken_as="812")
        self.case.missing_since, self.case.missing_polls = 0.0, 2
        self.attendant = Attendant(
            Canceller(),
            Watcher("t:"),
            lambda: 5_000,
            lambda fact: None,
            lambda case, fact: self.told.append(fact),
        )
        self.attendant.facts = ClusterFacts(accounting=accounting)

    def look(self) -> list[ev.Fact]:
        self.attendant.look(self.case, LONG_AFTER)
        return self.told


START = {"start": "n1 1 812 0 -\n"}
ENDED_BY_SLURM = {**START, "told": "812\n", "exit": "signalled 15\n"}
ENDED_ITSELF = {**START, "exit": "exited 3\n"}


@pytest.mark.parametrize("files", [{}, START, ENDED_BY_SLURM])
def test_the_accounting_is_asked_once_before_silence_counts(
    tmp_path: Path, files: dict[str, str]
) -> None:
    desk = Desk(tmp_path, files, accounting=True)
    assert desk.look() == desk.look() == []
    assert desk.attendant.to_account == [desk.case]
    desk.case.asked_the_accounting = True
    assert len(desk.look()) == 1, "it has nothing to say either"


@pytest.mark.parametrize(
    ("files", "kind"),
    [({}, ev.AttemptEvicted), (START, ev.AttemptVanished), (ENDED_BY_SLURM, ev.AttemptEvicted)],
)
def test_without_accounting_silence_has_to_do(
    tmp_path: Path, files: dict[str, str], kind: type[ev.Fact]
) -> None:
    assert [type(fact) for fact in Desk(tmp_path, files, accounting=False).look()] == [kind]


def test_what_the_files_say_is_not_asked_for(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ENDED_ITSELF, accounting=True)
    assert [type(fact) for fact in desk.look()] == [ev.AttemptExited]
    assert desk.attendant.to_account == []
