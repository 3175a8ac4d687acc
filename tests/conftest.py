"""Fixtures that all tests share: a Stoker of one's own, and the proof that nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fakegpu.build import Built, build, has_compiler
from gpu_box import Box
from lending import Lender
from outside import Process, Train
from same_examples import draw_no_constants_of_loaded_modules
from slurm.cluster import Cluster, missing_programs
from stoker_home import StokerHome, command_line_of, processes_below, processes_with
from waiting import eventually

# A machine under load is slow, and that is no fault of what is tested.
# Hypothesis would try the same examples each time where CI is set.
settings.register_profile("stoker", deadline=None, derandomize=False)
settings.load_profile("stoker")
draw_no_constants_of_loaded_modules()

# What a process ignores, its children ignore too. Tests that are run in the background of a shell
# would ignore Ctrl-C, and some of them wait for its effect for ever.
for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        usual = signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL
        signal.signal(ignored, usual)

HAS_FAILED = pytest.StashKey[bool]()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[StokerHome]:
    """A Stoker with no daemon yet; whatever it starts is ended with the test."""
    stoker = StokerHome(tmp_path)
    try:
        yield stoker
    finally:
        stoker.clean_up()


@pytest.fixture
def stoker(home: StokerHome) -> StokerHome:
    """A Stoker whose daemon runs, with four declared GPUs."""
    home.start(gpus="0-3")
    return home


@pytest.fixture(scope="session")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lender]:
    """Whoever has the daemon that tests borrow."""
    lender = Lender(tmp_path_factory.mktemp("reused"))
    yield lender
    lender.close()


@pytest.fixture
def reused(lender: Lender, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StokerHome]:
    """The same, but used by other tests before: it is there at once, and its ids go on counting."""
    yield lender.lend(tmp_path)
    lender.take_back(spoilt=request.node.stash.get(HAS_FAILED, False))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the fixtures of a test know that it has failed."""
    report = yield
    item.stash[HAS_FAILED] = item.stash.get(HAS_FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The stand-in NVIDIA driver, built once for all workers."""
    if not has_compiler():
        assert not os.environ.get("CI"), "the tests on the stand-in driver need a C compiler"
        pytest.skip("no C compiler: the stand-in NVIDIA driver can't be built")
    return build(tmp_path_factory.getbasetemp().parent / "fakegpu")


@pytest.fixture
def cold_box(tmp_path: Path, built: Built) -> Iterator[Box]:
    """Two GPUs of 24 GiB, and no daemon yet."""
    box = Box(tmp_path, built, devices=2)
    try:
        yield box
    finally:
        box.clean_up()


@pytest.fixture
def box(cold_box: Box) -> Box:
    """Two GPUs of 24 GiB with a daemon that reads them."""
    cold_box.power_on()
    return cold_box


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with four GPUs each; started once, by the first test of a worker to want it."""
    missing = missing_programs()
    if missing:
        assert not os.environ.get("CI"), f"the tests on Slurm need {', '.join(missing)}"
        pytest.skip(f"Slurm is not installed here ({', '.join(missing)})")
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    """The same, as good as new for each test."""
    running_cluster.reset()
    return running_cluster


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the run if a process of any test's home or directory outlives the tests."""
    yield
    temporary = tmp_path_factory.getbasetemp()
    here = f"STOKER_HOME={temporary}/".encode()

    def left() -> list[int]:
        return processes_with(here, prefix=True) or processes_below(temporary)

    try:
        eventually(lambda: not left(), "no process is left")
    except AssertionError as error:
        raise AssertionError([command_line_of(pid) for pid in left()]) from error


@pytest.fixture
def train() -> Iterator[Train]:
    """Starts processes, none of Stoker's, that run until they are killed."""
    made: list[Process] = []

    def start() -> Process:
        made.append(subprocess.Popen(["cat", "-"], stdin=-1, stdout=-3))
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.communicate()
