"""A real Slurm cluster on this machine: a controller and a few nodes, with GPUs in name only.

It needs Debian's packages and nothing else: no systemd, cgroups, database or root. It listens on
the loopback device alone, and has its ports, its keys and its files to itself, so that any number
of clusters may run beside each other.

Law: whatever is started here is gone when `stop` returns.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from stoker_home import command_line_of, processes_with
from waiting import eventually

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel", "sinfo", "scontrol")
_STARTS_WITHIN_S = 60.0


def missing_programs() -> list[str]:
    """What would have to be installed; daemons are where a user's PATH may not reach."""
    return [name for name in PROGRAMS if _where(name) is None]


def _where(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Cluster:
    """One cluster in a directory of its own."""

    def __init__(self, base: Path, nodes: int = 3, gpus: int = 4, cpus: int = 8) -> None:
        self.base = base
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.gpus = gpus
        self.cpus = cpus
        self.conf = base / "etc" / "slurm.conf"
        self.env = {"PATH": os.environ["PATH"], "SLURM_CONF": str(self.conf), "LANG": "C.UTF-8"}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._was_killed = False  # the controller, since it last went down in order

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Start everything, and wait until all nodes can take jobs."""
        for name in ("etc", "state", "log", "run", "spool", "dev"):
            (self.base / name).mkdir(parents=True, exist_ok=True, mode=0o755)
        self._configure(*_free_ports(1 + len(self.nodes)))
        key = self.base / "etc" / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        run, log = self.base / "run", self.base / "log"
        self._run(
            "munged", "--foreground", "--force", f"--key-file={key}",
            f"--socket={run}/munge.socket", f"--pid-file={run}/munged.pid",
            f"--log-file={log}/munged.log", f"--seed-file={run}/munge.seed",
        )  # fmt: skip
        eventually(lambda: (run / "munge.socket").exists(), "munged listens")
        self.start_controller()
        for node in self.nodes:
            self._run("slurmd", "-D", "-f", str(self.conf), "-N", node, name=node)
        self.until_idle()

    def stop(self) -> None:
        """End everything."""
        self._end_jobs()
        for name in [*self.nodes, "slurmctld", "munged"]:
            process = self._processes.pop(name, None)
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        mark = f"SLURM_CONF={self.conf}".encode()

        def gone() -> bool:
            # A step outlives its node's daemon.
            for pid in processes_with(mark):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not processes_with(mark)

        eventually(gone, "no process of the cluster is left")

    def _end_jobs(self) -> None:
        controller = self._processes.get("slurmctld")
        if controller is None or controller.poll() is not None:
            return
        if not self.command("squeue", "--noheader", check=False):
            return
        self.command("scancel", f"--user={os.getuid()}", check=False)
        try:
            eventually(lambda: not self.command("squeue", "--noheader"), "no job is left", 15)
        except AssertionError:
            pass  # What is left is killed.

    def reset(self) -> None:
        """As it was when it was started: no jobs, and all nodes there."""
        controller = self._processes.get("slurmctld")
        if controller is None or controller.poll() is not None:
            self.start_controller()
            eventually(lambda: self.command("sinfo", "-h", check=False), "the controller answers")
        self._end_jobs()
        if self._was_killed:
            self.restart_controller()
        # A step that could not tell a dead controller of its end tries on, and its node refuses any
        # other job that is given the same id.
        eventually(lambda: not self._steps(), "no step is left")
        if not self._is_idle():
            self.resume_nodes()
            self.until_idle()

    def resume_nodes(self) -> None:
        """As an administrator does with nodes that Slurm has drained, or that were set down."""
        for line in self._node_states():
            node, _, state = line.partition(" ")
            if state.startswith(("drain", "down", "fail")):
                self.command("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    def mend(self) -> None:
        """As an administrator does after a crash of the controller.

        A node on which an id was another job's is drained until somebody resumes it. And GPUs of
        jobs that end while the controller starts may be taken for used for as long as it lives.
        """
        self.resume_nodes()
        reasons = set(self.command("squeue", "-h", "-o", "%T %r", check=False).splitlines())
        if reasons and reasons <= {"PENDING Resources", "PENDING Priority"}:
            used = self.command("sinfo", "-h", "-N", "-O", "StateLong:|,GresUsed:|", check=False)
            if re.search(r"^idle\|gpu:\w+:[1-9]", used, re.MULTILINE):
                self.restart_controller()

    def until_idle(self) -> None:
        """Wait until every node can take jobs and has none."""
        eventually(self._is_idle, "all nodes are idle", _STARTS_WITHIN_S)

    def _is_idle(self) -> bool:
        return self._node_states() == {f"{node} idle" for node in self.nodes}

    def _node_states(self) -> set[str]:
        # For `sinfo -t idle` a node that is drained is idle too.
        return set(self.command("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines())

    def start_controller(self) -> None:
        """Start the controller, anew or again."""
        self._run("slurmctld", "-D", "-f", str(self.conf))

    def kill_controller(self) -> None:
        """As by `kill -9`."""
        process = self._processes.pop("slurmctld")
        process.kill()
        process.wait()
        self._was_killed = True

    def restart_controller(self) -> None:
        """As an administrator does: whatever it knows is on disk, and as young as can be."""
        process = self._processes.pop("slurmctld")
        process.terminate()
        process.wait(60)
        self._was_killed = False
        self.start_controller()
        eventually(lambda: self.command("sinfo", "-h", check=False), "the controller answers")

    def copy_state(self, name: str) -> None:
        """Keep what the controller has on disk."""
        shutil.copytree(self.base / "state", self.base / name)

    def put_state_back(self, name: str) -> None:
        """Let a controller that is dead remember no more than it did then."""
        shutil.rmtree(self.base / "state")
        (self.base / name).rename(self.base / "state")

    def stop_controller(self) -> None:
        """Let it freeze: it takes connections, and does not answer."""
        os.kill(self._processes["slurmctld"].pid, signal.SIGSTOP)

    def continue_controller(self) -> None:
        """The opposite."""
        os.kill(self._processes["slurmctld"].pid, signal.SIGCONT)

    # ------------------------------------------------------------------ commands

    def command(self, *words: str, check: bool = True) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(words, env=self.env, capture_output=True, timeout=60)
        assert not check or done.returncode == 0, f"{words}: {done.stderr.decode()}"
        return done.stdout.decode()

    def job_fields(self, slurm_id: str) -> dict[str, str]:
        """What `scontrol show job` says of one job."""
        text = self.command("scontrol", "show", "job", slurm_id)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def jobs(self) -> list[str]:
        """The ids and states of all jobs that have not ended."""
        return self.command("squeue", "-h", "-r", "-o", "%i %T").splitlines()

    def _steps(self) -> list[int]:
        mark = f"SLURM_CONF={self.conf}".encode()
        return [pid for pid in processes_with(mark) if _is_step(pid)]

    # ------------------------------------------------------------------ set-up

    def _run(self, *words: str, name: str = "") -> None:
        program = _where(words[0])
        assert program is not None, f"{words[0]} is not installed"
        with open(self.base / "log" / f"{name or words[0]}.out", "ab") as out:
            self._processes[name or words[0]] = subprocess.Popen(
                [program, *words[1:]],
                env=self.env,
                cwd=self.base,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _configure(self, controller_port: int, *node_ports: int) -> None:
        host = socket.gethostname().split(".")[0]
        for number in range(self.gpus):
            device = self.base / "dev" / f"gpu{number}"
            if not device.is_symlink():
                # Slurm sets CUDA_VISIBLE_DEVICES only for what is a character device.
                device.symlink_to("/dev/null")
        user = _user()
        shape = (
            f"CPUs={self.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={self.cpus} "
            f"ThreadsPerCore=1 RealMemory=16000 Gres=gpu:fake:{self.gpus},shard:{4 * self.gpus} "
            "State=UNKNOWN"
        )
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
            f"Feature={'small' if place == 0 else 'large'} {shape}"
            for place, (node, port) in enumerate(zip(self.nodes, node_ports, strict=True))
        )
        self.conf.write_text(
            f"""\
ClusterName=stoker
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self.base}/run/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={self.base}/state
SlurmdSpoolDir={self.base}/spool/%n
SlurmctldPidFile={self.base}/run/slurmctld.pid
SlurmdPidFile={self.base}/run/slurmd-%n.pid
SlurmctldLogFile={self.base}/log/slurmctld.log
SlurmdLogFile={self.base}/log/slurmd-%n.log
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=1
SlurmctldTimeout=30
SlurmdTimeout=60
MessageTimeout=10
InactiveLimit=0
KillWait=2
BatchStartTimeout=3
MinJobAge=300
MaxArraySize=10001
MaxJobCount=20000
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=0,batch_sched_delay=0,default_queue_depth=1000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=800
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
GresTypes=gpu,shard
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 PriorityTier=1 State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE DefaultTime=60 PriorityTier=9 State=UP
PartitionName=short Nodes=ALL MaxTime=5 DefaultTime=1 PriorityTier=1 State=UP
""",
            encoding="utf-8",
        )
        (self.base / "etc" / "gres.conf").write_text(
            f"AutoDetect=off\n"
            f"Name=gpu Type=fake File={self.base}/dev/gpu[0-{self.gpus - 1}]\n"
            f"Name=shard Count={4 * self.gpus}\n",
            encoding="utf-8",
        )
        # Older versions only want to be told not to mount them, newer ones not to look for them.
        cgroups = "CgroupAutomount=no" if _version() < (23, 2) else "CgroupPlugin=disabled"
        (self.base / "etc" / "cgroup.conf").write_text(f"{cgroups}\n", encoding="utf-8")


def _is_step(pid: int) -> bool:
    return b"".join(command_line_of(pid)).startswith(b"slurmstepd")


def _version() -> tuple[int, ...]:
    """From e.g. `slurm-wlm 22.05.8`."""
    program = _where("slurmctld")
    assert program is not None, "slurmctld is not installed"
    said = subprocess.run([program, "-V"], capture_output=True, check=True).stdout.decode()
    return tuple(int(part) for part in said.split()[1].split("."))


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback device that nobody has at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
