"""The ports of jobs on several GPUs: each is one attempt's, whatever becomes of the daemon."""

from __future__ import annotations

import errno
import socket
from dataclasses import replace

import pytest

from contract.executor_benches import LocalBench, active_job, start
from stoker.core import events as ev
from stoker.core.model import Launch
from stoker.executors.master_ports import MasterPorts
from stoker.executors.shortage import CouldNotStart
from waiting import eventually

GPUS = ("0", "1")


def port_given(local: LocalBench, attempt: int) -> str:
    """What the running attempt says of its port; all attempts look at the same one first."""
    log = local.attempts / "0000" / f"1.{attempt}.log"
    eventually(lambda: log.exists() and log.read_text().endswith("\n"))
    return log.read_text().strip()


@pytest.fixture
def waiting(local: LocalBench) -> LocalBench:
    """An executor whose job tells its port, does not use it, and goes on."""
    local.runs(1, "sh", "-c", "echo $MASTER_PORT; exec sleep 600")
    return local


def test_a_port_is_one_attempts_while_that_runs(waiting: LocalBench) -> None:
    waiting.order(start(1, 1, GPUS), start(1, 2, GPUS))
    assert port_given(waiting, 1) != port_given(waiting, 2)


def test_the_next_daemon_does_not_give_a_port_again_that_a_running_job_has(
    waiting: LocalBench,
) -> None:
    waiting.order(start(1, 1, GPUS))
    waiting.until(ev.AttemptStarted, 1)
    first = port_given(waiting, 1)
    job = active_job(1, started=True)
    assert job.active is not None
    waiting.started_again(replace(job, active=replace(job.active, gpus=GPUS)))
    waiting.order(start(1, 2, GPUS))
    assert port_given(waiting, 2) != first


def told(ports: MasterPorts, attempt: int, job_id: int = 1) -> int:
    return int(ports.told((job_id, attempt), Launch(argv=("x",)))[1]["MASTER_PORT"])


def test_a_port_is_free_again_when_its_attempt_is_over() -> None:
    ports = MasterPorts()
    first = told(ports, 1)
    assert told(ports, 1) == first, "asked twice, an attempt has one port"
    ports.release((1, 1))
    assert told(ports, 2) == first
    ports.close()


def test_ports_stay_below_those_of_connections_however_many_jobs_there_were() -> None:
    ports = MasterPorts()
    for job_id in (8_999, 9_000, 1_000_000):
        given = {told(ports, 1, job_id), told(ports, 2, job_id)}
        assert len(given) == 2 and given <= {*range(20_000, 29_000)}
    ports.close()


def test_a_port_of_another_daemon_or_of_any_program_is_passed_over() -> None:
    ports, of_another_user = MasterPorts(), MasterPorts()
    first = told(of_another_user, 1)
    assert told(ports, 1) != first
    of_another_user.close()
    with socket.create_server(("127.0.0.1", first)):
        assert told(ports, 2) != first
    ports.close()


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6])
def test_a_machine_without_descriptors_is_short_of_them_and_not_of_ports(
    monkeypatch: pytest.MonkeyPatch, family: int
) -> None:
    real, ports = socket.socket, MasterPorts()

    def scarce(of: int, kind: int) -> socket.socket:
        if of == family:
            raise OSError(errno.EMFILE, "too many open files")
        return real(of, kind)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", scarce)
        with pytest.raises(CouldNotStart) as refused:
            told(ports, 1)
    assert refused.value.short is not None
    first = told(ports, 1)
    ports.close()
    assert told(ports, 1) == first, "no claim is left behind"
    ports.close()


def test_the_port_stands_for_its_place_in_a_command_and_a_variable_of_the_shell_stays() -> None:
    ports = MasterPorts()
    launch, env = ports.told((1, 1), Launch(argv=(), shell="echo {port} ${port}"))
    assert launch.shell == f"echo {env['MASTER_PORT']} ${{port}}"
    launch, env = ports.told((1, 1), Launch(argv=("run", "--port={port}", "${port}")))
    assert launch.argv == ("run", f"--port={env['MASTER_PORT']}", "${port}")
    ports.close()
