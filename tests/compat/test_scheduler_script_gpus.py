"""scheduler.py on machines whose driver shows GPUs: 1, 2, 4 or 8 of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.test_scheduler_script import Lab, with_script
from fakegpu.build import Built
from gpu_box import Box

# As the older tool's interface says: the ids are ordinals of a program that sees all GPUs.
TASK = """\
import os, sys
ids = [int(word) for word in sys.argv[sys.argv.index("--gpu") + 1:]]
visible = os.environ.get("CUDA_VISIBLE_DEVICES")
count = int(os.environ["DEVICES"]) if visible is None else len(visible.split(","))
assert all(one < count for one in ids), f"cuda:{max(ids)} of {count}"
assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
print(*ids)
"""


@pytest.fixture(params=[1, 2, 4, 8])
def devices(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.fixture
def lab(devices: int, tmp_path: Path, built: Built) -> Iterator[Lab]:
    """A machine on which nothing was ever started."""
    box = Box(tmp_path, built, devices)
    box.env["DEVICES"] = str(devices)
    box.env["CUDA_VISIBLE_DEVICES"] = "0"  # left over from something else
    found = with_script(box)
    found.task("test1.py", TASK)
    try:
        yield found
    finally:
        box.clean_up()


def test_it_runs_on_the_gpus_that_there_are_and_its_ids_are_ordinals(
    lab: Lab, devices: int
) -> None:
    ran = lab.sh('../scheduler.py -t "test1.py"')
    assert (ran.code, ran.out) == (0, "0\n"), ran
    ran = lab.sh(f'../scheduler.py -t "test1.py" -gc {devices}')
    assert (ran.code, ran.out) == (0, " ".join(map(str, range(devices))) + "\n"), ran
    refused = lab.sh(f'../scheduler.py -t "test1.py" -gc {devices + 1}')
    assert refused.code == 2 and refused.err.count("\n") == 1
    last = lab.home.add("--on", str(devices - 1), "--", "sleep", "1000")
    lab.home.until_pid(last)
    if devices > 1:
        ran = lab.sh(f'../scheduler.py -t "test1.py" -gc {devices - 1}')
        assert ran.out == " ".join(map(str, range(devices - 1))) + "\n", ran
        lab.home.stoker("cancel", str(last))
        lab.home.until_final(last)
        lab.home.until_pid(lab.home.add("--on", "0", "--", "sleep", "1000"))
        ran = lab.sh('../scheduler.py -t "test1.py"')
        assert ran.out == "1\n", "the second GPU is its ordinal 1, since all are visible"


def test_init_says_which_of_them_are_not_for_us(lab: Lab, devices: int) -> None:
    assert lab.sh("../scheduler.py -i 1").code == 0
    assert lab.gpus() == {"0": "free"}
    ran = lab.sh("../scheduler.py -i 5 3 4")
    assert ran.code == 0, ran
    wanted = {str(n): "drained" if n in (3, 4) else "free" for n in range(min(devices, 5))}
    assert lab.gpus() == wanted
    if devices < 5:
        assert f"the driver shows {devices}" in ran.err and ran.err.count("\n") == 1
    ran = lab.sh(f"../scheduler.py -i {devices} 0")
    assert ran.code == 0 and not ran.err
    assert lab.gpus() == {str(n): "free" if n else "drained" for n in range(devices)}
    assert not lab.home.call("status")["paused"]
    assert lab.sh(f"../scheduler.py -i {devices}").code == 0
    assert set(lab.gpus().values()) == {"free"} and len(lab.gpus()) == devices


@pytest.mark.parametrize("devices", [1, 8], indirect=True)
def test_init_of_more_than_there_are_says_which_are_used(lab: Lab, devices: int) -> None:
    ran = lab.sh(f"../scheduler.py -i {devices + 2} 0")
    used = ",".join(map(str, range(1, devices))) or "none of them"
    assert ran.code == 0, ran
    told = f"scheduler: the driver shows {devices} of the {devices + 2} GPUs; used: {used}\n"
    assert ran.err == told


@pytest.mark.parametrize("devices", [8], indirect=True)
def test_a_forced_gpu_that_init_left_out_is_said_to_be_out_of_use(lab: Lab) -> None:
    assert lab.sh("../scheduler.py -i 5 3 4").code == 0
    refused = lab.sh('../scheduler.py -t "test1.py" -fg 7')
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert "GPU 7 is not in use" in refused.err and "stoker gpus add 7" in refused.err
    assert "only 0" not in refused.err


@pytest.mark.parametrize("devices", [2], indirect=True)
def test_releasing_several_gpus_releases_those_that_there_are(lab: Lab) -> None:
    assert lab.sh("../scheduler.py -i 2 0 1").code == 0
    refused = lab.sh("../scheduler.py -rg 9 0")
    assert refused.code == 3 and "there is no GPU 9" in refused.err
    assert refused.err.count("\n") == 1
    assert lab.gpus() == {"0": "free", "1": "drained"}
