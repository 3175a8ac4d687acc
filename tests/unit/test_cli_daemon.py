"""The service unit that `stoker daemon install-service` writes."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from unit.cli_run import stoker


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("STOKER_HOME", "/with space/100%")
    return tmp_path / "systemd" / "user" / "stoker.service"


def read(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def test_the_unit_runs_the_daemon_and_leaves_jobs_alone_when_it_stops(
    unit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = stoker(capsys, "daemon", "install-service")
    assert (ran.code, ran.out) == (0, "")
    service = read(unit.read_text())["Service"]
    assert service["ExecStart"].endswith("daemon run")
    assert service["ExecStart"].startswith("/")
    assert service["KillMode"] == "process"
    assert service["Restart"] == "on-failure"
    assert service["Environment"] == '"STOKER_HOME=/with space/100%%"'


def test_how_to_switch_it_on_and_to_linger_is_told(
    unit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = stoker(capsys, "daemon", "install-service")
    assert "systemctl --user daemon-reload && systemctl --user enable --now stoker" in ran.err
    assert "loginctl enable-linger" in ran.err


def test_the_unit_can_be_seen_without_being_written(
    unit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = stoker(capsys, "daemon", "install-service", "--print")
    assert "[Service]" in ran.out
    assert not unit.exists()


def test_a_unit_that_differs_is_not_overwritten_without_force(
    unit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stoker(capsys, "daemon", "install-service").code == 0
    written = unit.read_text()
    assert stoker(capsys, "daemon", "install-service").code == 0
    unit.write_text("mine\n")
    refused = stoker(capsys, "daemon", "install-service")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert unit.read_text() == "mine\n"
    assert stoker(capsys, "daemon", "install-service", "--force").code == 0
    assert unit.read_text() == written


def test_without_a_stoker_home_the_unit_sets_none(
    unit: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STOKER_HOME")
    ran = stoker(capsys, "daemon", "install-service", "--print")
    assert "Environment" not in ran.out
