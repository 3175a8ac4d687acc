"""Stoker as users install it: built, put into environments of its own, and run from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fakegpu.build import has_compiler
from waiting import PATIENCE_S

REPO = Path(__file__).parents[2]
SCRIPTS = Path(sys.executable).parent
NOT_COPIED = shutil.ignore_patterns(".venv*", ".git", "build", ".*_cache", "*.egg-info", "*.so")

TRUST = {"UV_NATIVE_TLS": "1"}  # uv trusts the certificates of this machine, as pip does.

pytestmark = pytest.mark.timeout(900)  # What is missing comes from an index on the network.


def left_out(reason: str) -> None:
    assert not os.environ.get("CI"), reason
    pytest.skip(reason)


def run(words: list[str | Path], env: dict[str, str], **options: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in words], env=env, capture_output=True, text=True,
        timeout=PATIENCE_S * 8, stdin=subprocess.DEVNULL, **options,  # type: ignore[call-overload]
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    out: str = done.stdout
    return out


def installer(name: str) -> Path:
    found = SCRIPTS / name
    if not found.exists():
        left_out(f"{name} is not installed beside this Python, and is not tried")
    return found


class Packages(NamedTuple):
    wheel: Path
    sdist: Path
    source: Path


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    uv = installer("uv")
    root = tmp_path_factory.mktemp("packages")
    source = shutil.copytree(REPO, root / "source", ignore=NOT_COPIED, symlinks=True)
    words = ["build", "--quiet", "--python", sys.executable, "--out-dir", str(root), str(source)]
    done = subprocess.run(
        [uv, *words], env=os.environ | TRUST, capture_output=True, text=True,
        timeout=PATIENCE_S * 8,
    )  # fmt: skip
    if "fetch" in done.stderr and done.returncode != 0:
        left_out(f"no package index is reached, and no package is built: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    (wheel,), (sdist,) = root.glob("*.whl"), root.glob("*.tar.gz")
    return Packages(wheel, sdist, source)


class User:
    """Somebody with a home, a bare PATH without a compiler, and a `python` of their own."""

    def __init__(self, root: Path) -> None:
        self.own_python = root / "tools" / "python"
        self.own_python.parent.mkdir()
        self.own_python.write_text("#!/bin/sh\necho this is the python of the user\n")
        self.own_python.chmod(0o755)
        self.tools = str(self.own_python.parent)
        for name in ("sh", "sleep", "env"):
            (self.own_python.parent / name).symlink_to(str(shutil.which(name)))
        self.certificates = {
            k: v for k, v in os.environ.items() if "CERT" in k or "PIP_" in k
        } | TRUST
        self.env = {
            "PATH": self.tools,
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            "STOKER_HOME": str(root / "state"),
            **self.certificates,
        }
        self.root = root
        self.stoker_program = root / "nowhere"

    def stoker(self, *words: str, **env: str) -> str:
        return run([self.stoker_program, *words], self.env | env, cwd=self.root)

    def output_of_job(self, *words: str, **env: str) -> str:
        job = self.stoker("add", "--gpus", "0", "--", *words, **env).strip()
        self.stoker("wait", job, **env)
        return self.stoker("logs", job, **env).strip()


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    if user.stoker_program.exists():
        user.stoker("daemon", "stop", "--kill")


def installed(user: User, package: Path, python: Path | str = sys.executable) -> Path:
    """A new environment with this package in it; its Python."""
    uv = installer("uv")
    venv = user.root / "venvs" / "stoker"
    env = user.env | {"UV_CACHE_DIR": str(user.root / "cache")}
    run([uv, "venv", "--quiet", "--python", python, venv], env)
    run([uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python", package], env)
    user.stoker_program = venv / "bin" / "stoker"
    return venv / "bin" / "python"


def newer_python() -> Path | None:
    """A Python that is newer than the oldest that Stoker runs on."""
    others = Path(sys.base_prefix).parent.glob("3.1[2-9]*/bin/python3.1[2-9]")
    named = (shutil.which(f"python3.{minor}") for minor in range(12, 20))
    for python in [*(Path(one) for one in named if one), *others]:
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return python
    return None


def test_the_wheel_is_for_every_python_from_3_11_on(packages: Packages) -> None:
    assert packages.wheel.name.split("-")[2:4] == ["cp311", "abi3"]
    names = zipfile.ZipFile(packages.wheel).namelist()
    if has_compiler():
        assert "stoker/executors/_quickspawn.abi3.so" in names
    assert {"stoker/store/sql/schema/0001_initial.sql", "stoker/py.typed"} - set(names) == set()
    assert any(name.endswith("data/scripts/stoker") for name in names)


def test_the_sdist_has_what_a_build_needs_and_no_more(packages: Packages) -> None:
    with tarfile.open(packages.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"setup.py", "pyproject.toml", "bin/stoker", "src/stoker/executors/_quickspawn.c"}
    assert needed - names == set()
    assert not [name for name in names if name.startswith((".", "tests/test_", "docs", "bench"))]


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_the_readme_shows_works_after_one_install_without_a_compiler(
    kind: str, packages: Packages, user: User
) -> None:
    python = installed(user, getattr(packages, kind))
    compiled = "import importlib.util as u; print(u.find_spec('stoker.executors._quickspawn'))"
    has_it = run([python, "-c", compiled], user.env).strip() != "None"
    assert has_it == (kind == "wheel" and has_compiler())
    assert user.stoker("--version") == "stoker 0.1.0\n"
    assert user.output_of_job("python", "train.py") == "this is the python of the user"
    run([python, "-c", "import pynvml, textual, yaml"], user.env)
    assert "GPU" in user.stoker("top", "--once")
    assert "/enter#" in user.stoker("web", "--no-open", "--port", str(free_port()))
    call = "import stoker; print(stoker.submit(sum, [1, 2], gpus=0).result())"
    assert run([python, "-c", call], user.env) == "3\n"
    if kind == "wheel":
        assert "each of which ran exactly once" in user.stoker("demo")


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_a_newer_python_takes_the_same_wheel(packages: Packages, user: User) -> None:
    python = newer_python()
    if python is None:
        pytest.skip("there is no Python newer than 3.11 here to install the wheel into")
    own = installed(user, packages.wheel, python)
    if has_compiler():
        run([own, "-c", "import stoker.executors._quickspawn"], user.env)
    assert user.output_of_job("sh", "-c", "echo hello") == "hello"


def test_a_library_in_another_environment_and_python_uses_the_same_daemon(
    packages: Packages, user: User
) -> None:
    python = newer_python()
    if python is None:
        pytest.skip("there is no Python newer than 3.11 here for the other environment")
    own = installed(user, packages.wheel, python)
    user.stoker("daemon", "start")
    call = "import stoker, sys; print(stoker.submit(lambda: sys.version_info[:2], gpus=0).result())"
    env = user.env | {"PYTHONPATH": str(REPO / "src")}
    assert run([sys.executable, "-c", call], env) == f"{sys.version_info[:2]}\n"
    assert run([own, "-c", call], user.env) != f"{sys.version_info[:2]}\n"


@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_the_recommended_installers_put_stoker_on_path_and_nothing_else(
    tool: str, packages: Packages, user: User
) -> None:
    program = installer(tool)
    links = user.root / ".local" / "bin"
    env = user.env | {
        "UV_TOOL_BIN_DIR": str(links), "UV_TOOL_DIR": str(user.root / "uv"),
        "UV_CACHE_DIR": str(user.root / "cache"), "UV_PYTHON": sys.executable,
        "PIPX_HOME": str(user.root / "pipx"), "PIPX_BIN_DIR": str(links),
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }  # fmt: skip
    words = ["tool", "install"] if tool == "uv" else ["install"]
    run([program, *words, packages.source], env)
    user.stoker_program = links / "stoker"
    assert {one.name for one in links.iterdir()} >= {"stoker"}
    assert not (links / "python").exists()
    path = f"{links}:{user.tools}"
    assert user.output_of_job("sh", "-c", "echo $PATH", PATH=path) == path
    assert user.output_of_job("python", PATH=path) == "this is the python of the user"


def test_a_job_finds_the_users_python_though_stokers_own_is_first_on_path(
    packages: Packages, user: User
) -> None:
    own = installed(user, packages.wheel).parent
    path = f"{own}:{user.tools}"
    assert user.output_of_job("python", PATH=path) == "this is the python of the user"
    told = user.output_of_job("sh", "-c", "echo $PATH", PATH=path)
    assert str(own) not in told
    # A job that queues jobs still finds the command.
    assert user.output_of_job("stoker", "--version", PATH=path) == "stoker 0.1.0"
    active = {"PATH": path, "VIRTUAL_ENV": str(own.parent)}
    assert user.output_of_job("sh", "-c", "echo $PATH", **active) == path
