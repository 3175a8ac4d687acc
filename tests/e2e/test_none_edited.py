"""`edit` of several jobs none of which can be: all of them are named, in every front end."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.test_edit_by_hand import edit
from stoker.errors import Failed
from stoker_home import StokerHome

ONLY = "only a job that waits or is held can be edited"


@pytest.fixture(name="ended")
def _ended(reused: StokerHome) -> tuple[StokerHome, str, str]:
    """A home, the ids of its four jobs that have ended, and what is said of them."""
    ids = reused.submit_all([{"shell": "true"}] * 3 + [{"shell": "false"}])
    reused.until_final(*ids)
    first, last = ids[0], ids[-1]
    words = f"nothing was changed: jobs {first}-{last - 1} (succeeded), job {last} (failed)"
    return reused, f"{first}-{last}", words


@pytest.mark.parametrize("change", [("--priority", "3"), ("--cwd", "/tmp"), ()])
def test_the_command_line_names_all_with_options_paths_and_an_editor(
    ended: tuple[StokerHome, str, str], change: tuple[str, ...]
) -> None:
    home, ids, words = ended
    ran = home.cli("edit", ids, *change) if change else edit(home, ids, "raise SystemExit(7)")
    assert (ran.code, ran.err) == (1, f"stoker: {words}; {ONLY}\n")


def test_the_socket_behind_page_library_and_live_view_names_all(
    ended: tuple[StokerHome, str, str],
) -> None:
    home, ids, words = ended
    with pytest.raises(Failed) as refused:
        home.call("edit", select={"ids": [ids]}, changes={"priority": 1})
    assert (refused.value.message, refused.value.hint) == (words, ONLY)


def test_what_has_ended_while_the_editor_was_open_is_all_named(reused: StokerHome) -> None:
    first, last = reused.submit_all([{"shell": "true", "hold": True}] * 2)
    command = " ".join(reused.command("cancel", f"{first}-{last}"))
    code = f"os.system({command!r})\ntext = text.replace('priority = 0', 'priority = 9')"
    ran = edit(reused, f"{first}-{last}", code)
    assert ran.code == 1
    assert f"nothing was changed: jobs {first}-{last} (cancelled); {ONLY}" in ran.err
    kept = Path(ran.err.strip().rpartition("your changes are in ")[2])
    kept.unlink()
    kept.parent.rmdir()


def test_a_change_that_fits_no_job_is_said_once(reused: StokerHome) -> None:
    first, last = reused.submit_all([{"shell": "true", "hold": True}] * 2)
    ran = reused.cli("edit", f"{first}-{last}", "--gpus", "5")
    assert ran.code == 2
    assert ran.err.startswith("stoker: ") and "jobs" not in ran.err
