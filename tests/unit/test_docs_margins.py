"""docs/gpus.md: the numbers of the example of margins are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from stoker.core.fit import reservation
from stoker.core.gpu import Gpu, together_mib
from stoker.core.model import Need, Profile
from stoker.core.needs import learned_need

PAGE = (Path(__file__).parents[2] / "docs" / "gpus.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.split("#### How margins add up\n")[1].split("\n### ")[0]
ROW = re.compile(r"^\| (\d) \|.* \| ([\d,]+) MiB \| (yes|no) \|$", re.MULTILINE)
GPU = Gpu(id="0", memory_mib=24 * 1024)


def together(count: int, peak_mib: int, runs: int) -> int:
    profile = Profile("train", runs, peak_mib, float(peak_mib), 0.0, 0, None, 0, 0)
    need = learned_need(Need(kind="train"), None, [GPU], {"train": profile})
    return together_mib([reservation(need, GPU)] * count)


def test_the_tables_of_margins_are_what_the_code_adds_up() -> None:
    rows = [
        (int(count), int(total.replace(",", "")), fits == "yes")
        for count, total, fits in ROW.findall(EXAMPLE)
    ]
    made = [
        (count, total, total <= 24 * 1024)
        for runs in (1, 0)
        for count in range(1, 5)
        for total in [together(count, 6144, runs)]
    ]
    assert rows == made
