"""Malformed messages of every kind: the daemon answers what it can, and goes on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.api import messages as msg
from stoker_home import StokerHome
from waiting import eventually

REQUESTS: list[type[msg.Request]] = [
    cls
    for cls in vars(msg).values()
    if isinstance(cls, type) and issubclass(cls, msg.Request) and cls is not msg.Request
]
OPS = [cls.__struct_config__.tag for cls in REQUESTS]
STRUCTS: list[type[msgspec.Struct]] = [*REQUESTS, msg.Select, msg.JobRequest]
FIELDS = sorted({name for cls in STRUCTS for name in cls.__struct_fields__})
# What ends the daemon, or never answers, is tried elsewhere.
HARMLESS = [op for op in OPS if op not in ("shutdown", "wait", "follow", "watch", "attach")]

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, 10**18, 10**30]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", "last", "1-3", "0", "\0", "\n", "*", "[", "a" * 300, "../..", "-1"]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=15,
)
_REQUESTS = st.builds(
    lambda op, fields: {**fields, "op": op},
    st.sampled_from(HARMLESS),
    st.dictionaries(st.sampled_from(FIELDS), _VALUES, max_size=7),
)


def _near_misses() -> st.SearchStrategy[dict[str, Any]]:
    """Requests that are right but for one field."""
    job: dict[str, Any] = {"argv": ["true"], "gpus": 0, "hold": True}
    select = {"ids": ["1"]}
    right: list[dict[str, Any]] = [
        {"op": "submit", "jobs": [job], "cwd": "/", "env": {}},
        {"op": "edit", "select": select, "changes": {"priority": 1}},
        {"op": "list", "select": select},
        {"op": "browse", "states": ["held"], "text": "tr", "sort": "name", "limit": 3},
        {"op": "sweep_points", "sweep": "s", "limit": 3},
        {"op": "cancel", "select": {"names": ["no"]}},
        {"op": "limit_group", "group": "g", "max_running": 2},
        {"op": "gpu_add", "gpus": ["0"]},
        {"op": "config_set", "name": "grace", "value": "3s"},
        {"op": "attach_started", "job_id": 1, "attempt": 1, "pid": 1},
    ]

    def spoiled(request: dict[str, Any], inner: bool, name: str, value: object) -> dict[str, Any]:
        changed: dict[str, Any] = json.loads(json.dumps(request))
        target = changed
        if inner:
            target = changed.get("select") or changed.get("changes") or changed
            if "jobs" in changed:
                target = changed["jobs"][0]
        if name != "op":
            target[name] = value
        return changed

    return st.builds(
        spoiled, st.sampled_from(right), st.booleans(), st.sampled_from(FIELDS), _VALUES
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StokerHome]:
    """One daemon that has to bear all of it."""
    home = StokerHome(tmp_path_factory.mktemp("fuzz"))
    pid = home.start(gpus="0-3")
    home.submit("true", hold=True)
    try:
        yield home
        assert home.daemon_pid() == pid, "it is still the same daemon"
        assert "Traceback" not in home.log_text()
    finally:
        home.clean_up()


class Line:
    """A raw connection."""

    def __init__(self, home: StokerHome) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        fd = os.open(home.home.root, os.O_PATH)
        try:
            self.socket.connect(f"/proc/self/fd/{fd}/stoker.sock")
        finally:
            os.close(fd)
        self.socket.settimeout(60)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()

    def ask(self, line: bytes) -> dict[str, Any]:
        self.socket.sendall(line + b"\n")
        return self.answer()

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._file.readline())
        return found

    def hello(self) -> None:
        assert self.ask(b'{"op": "hello"}')["ok"] is True


def well_formed(answer: dict[str, Any]) -> None:
    if answer["ok"]:
        return
    error = answer["error"]
    assert set(error) - {"option"} == {"code", "message", "hint"}
    assert "inside the daemon" not in error["message"], error
    assert "\n" not in error["message"]


_FUZZ = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FUZZ
@given(st.binary(max_size=200))
def test_any_bytes_are_answered_or_passed_over(shared: StokerHome, data: bytes) -> None:
    with Line(shared) as line:
        lines = [part for part in (data + b"\n").split(b"\n")[:-1] if part.strip()]
        line.socket.sendall(data + b"\n")
        for _ in lines:
            assert line.answer()["ok"] is False
        line.hello()


@_FUZZ
@given(_VALUES)
def test_any_json_that_is_no_request_is_answered_with_what_was_wrong(
    shared: StokerHome, value: object
) -> None:
    with Line(shared) as line:
        answer = line.ask(json.dumps(value).encode())
        assert answer["ok"] is False and answer["error"]["code"] == "usage"
        line.hello()


@_FUZZ
@given(st.lists(_REQUESTS, min_size=1, max_size=4))
def test_requests_with_wrong_fields_are_answered_in_order(
    shared: StokerHome, requests: list[dict[str, Any]]
) -> None:
    with Line(shared) as line:
        for request in requests:
            if request["op"] == "attach_started":
                continue  # It has no answer of its own.
            well_formed(line.ask(json.dumps(request).encode()))
        line.hello()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_near_misses())
def test_requests_that_are_almost_right_do_no_harm(
    shared: StokerHome, request_: dict[str, Any]
) -> None:
    with Line(shared) as line:
        line.socket.sendall(json.dumps(request_).encode() + b"\n")
        if request_["op"] != "attach_started":
            well_formed(line.answer())
        line.socket.sendall(b'{"op": "hello"}\n')
        answer = line.answer()
        if not answer["ok"]:
            answer = line.answer()
        assert answer["pid"]


@pytest.mark.parametrize("op", OPS)
def test_a_field_that_no_request_has_is_refused(shared: StokerHome, op: str) -> None:
    with Line(shared) as line:
        answer = line.ask(json.dumps({"op": op, "no_such_field": 1}).encode())
        assert answer["ok"] is False and answer["error"]["code"] == "usage"


@pytest.mark.parametrize(
    "text",
    [
        '{"op": "limit_group", "group": "g", "max_running": 10000000000000000000000}',
        '{"op": "limit_group", "group": "g", "max_running": 9223372036854775808}',
        '{"op": "attach", "job_id": 10000000000000000000000}',
        '{"op": "attach", "job_id": -1}',
        '{"op": "show", "select": {"ids": ["99999999999999999999999"]}}',
        '{"op": "show", "select": {"ids": ["999999999999999999"]}}',
        '{"op": "show", "select": {"names": ["\\ud800"]}}',
        '{"op": "cancel", "select": {"names": ["' + "*a" * 30_000 + '"]}}',
        '{"op": "gpu_add", "gpus": ["0-99999999"]}',
        '{"op": "pause", "group": ""}',
        '{"op": "edit", "select": {"ids": ["1"]}, "changes": {"gpus": 1e400}}',
        '{"op": "edit", "select": {"ids": ["1"]}, "changes": {"gpus": 0, "mem_mib": 5}}',
        '{"op": "edit", "select": {"ids": ["1"]}, "changes": {"argv": []}}',
        '{"op": "edit", "select": {"ids": ["1"]}, "changes": {"signal": "USR1"}}',
        '{"op": "submit", "jobs": [], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": []}], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": [""]}], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": ["a\\u0000b"]}], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": ["x"], "shell": "y"}], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": ["x"]}], "cwd": "", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": ["x"]}], "cwd": "/", "env": {"a=b": ""}}',
        '{"op": "submit", "jobs": [{"argv": ["x"]}], "cwd": "/", "env": {"": ""}}',
        '{"op": "submit", "jobs": [{"argv": ["x"], "after": ["0"]}], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": ["x"], "after": ["987654"]}], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": ["x"], "gpus": 1000000}], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": ["x"], "on": [""]}], "cwd": "/", "env": {}}',
        '{"op": "submit", "jobs": [{"argv": ["x"], "out": "a"}], "cwd": "/", "env": {}}',
        '{"op": "hello", "op": "nope"}',
        '{"op": "hello"} {"op": "hello"}',
        "[" * 100_000,
        '{"op": ' * 5_000,
        "\ufeff{}",
        "NaN",
    ],
    ids=lambda text: text[:50],
)  # fmt: skip
def test_what_was_thought_of_to_break_it_does_not(shared: StokerHome, text: str) -> None:
    with Line(shared) as line:
        answer = line.ask(text.encode())
        assert answer["ok"] is False
        well_formed(answer)
        line.hello()


def test_a_request_that_is_odd_but_right_is_granted(shared: StokerHome) -> None:
    with Line(shared) as line:
        for text in (
            '{"op": "why", "select": {"ids": ["0-999999999999999999"]}}',
            '{"op": "edit", "select": {"ids": ["1"]}, "changes": {"share": 0.0000001}}',
            '{"op": "edit", "select": {"ids": ["1"]}, "changes": {"gpus": null, "share": 0.5}}',
        ):
            assert line.ask(text.encode())["ok"] is True, text


def test_half_a_line_and_a_hang_up_harm_nobody(shared: StokerHome) -> None:
    for part in (b"", b"{", b'{"op": "hel', b'{"op": "hello"}'):
        with Line(shared) as line:
            line.socket.sendall(part)
    with Line(shared) as line:
        line.hello()


def test_a_line_that_comes_in_pieces_is_one_line(shared: StokerHome) -> None:
    with Line(shared) as line:
        for byte in b'{"op": "hello"}\n':
            line.socket.sendall(bytes([byte]))
        assert line.answer()["ok"] is True


def test_many_requests_on_one_connection_are_answered_in_order(shared: StokerHome) -> None:
    with Line(shared) as line:
        for _ in range(50):
            line.socket.sendall(b'{"op": "hello"}\n{"op": "gpus"}\nnonsense\n\n')
        for _ in range(50):
            assert "pid" in line.answer()
            assert "gpus" in line.answer()
            assert line.answer()["ok"] is False


def test_many_connections_are_served_at_once(shared: StokerHome) -> None:
    lines = [Line(shared) for _ in range(150)]
    try:
        for line in reversed(lines):
            line.hello()
    finally:
        for line in lines:
            line.__exit__()


def test_those_who_wait_and_hang_up_are_forgotten(shared: StokerHome) -> None:
    pid = shared.daemon_pid()

    def open_files() -> int:
        return len(os.listdir(f"/proc/{pid}/fd"))

    before = open_files()
    for op in (b"wait", b"attach"):
        for _ in range(20):
            with Line(shared) as line:
                select = b'"select": {"ids": ["1"]}' if op == b"wait" else b'"job_id": 1'
                line.socket.sendall(b'{"op": "%s", %s}\n' % (op, select))
    eventually(lambda: open_files() <= before + 1, "the daemon has let them go")


def test_a_message_without_end_is_refused_at_its_limit(home: StokerHome) -> None:
    home.start()
    limit = msg.MAX_MESSAGE_BYTES
    pid = home.daemon_pid()
    with Line(home) as line:
        piece = b"x" * (4 * 1024 * 1024)
        sent = 0
        try:
            while sent <= limit + len(piece):
                line.socket.sendall(piece)
                sent += len(piece)
        except OSError:
            pass  # It hung up.
        assert sent >= limit - 64 * 1024 * 1024
        answer = line.answer()
        assert answer["error"]["message"] == "the message is too long"
    assert home.daemon_pid() == pid
    assert home.submit("true", gpus=0) == 1
