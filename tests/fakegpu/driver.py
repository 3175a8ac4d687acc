"""The hand on the stand-in driver: makes its devices, and changes them while programs run.

Law: every look and every change happens with the state file's lock held, as in c/state.c.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fakegpu import layout
from fakegpu.build import Built

MIB = 1 << 20
GIB = 1 << 30

# Two ages of the driver, with the CUDA that each comes with.
OLD_DRIVER, NEW_DRIVER = "550.54.14", "615.71.05"
_CUDA_VERSIONS = {OLD_DRIVER: 12040, NEW_DRIVER: 13040}

# What NVML answers where things go wrong.
NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999

# A compute mode: one process at a time, or one MPS server.
EXCLUSIVE = 3

# How two devices are connected, in NVML's numbers.
SAME_BOARD = 0
ONE_SWITCH = 10
SEVERAL_SWITCHES = 20
HOST_BRIDGE = 30
NUMA_NODE = 40
SYSTEM = 50


@dataclass(frozen=True)
class Allocation:
    """What one process has on one device."""

    pid: int
    device: int
    mig: int | None
    mib: int
    use_percent: int
    mps: bool


class FakeDriver:
    """One machine's GPUs. Devices are known by the number in which they were added."""

    def __init__(self, path: Path) -> None:
        """Take over the state file that `create` made."""
        self.path = path
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), ctypes.sizeof(layout.State))
        self._state = layout.State.from_buffer(self._memory)
        assert self._state.magic == layout.MAGIC

    @classmethod
    def create(
        cls,
        path: Path,
        devices: int = 0,
        memory_mib: int = 24 * 1024,
        driver_version: str = OLD_DRIVER,
    ) -> FakeDriver:
        """A new machine, with so many devices of so much memory."""
        state = layout.State()
        state.magic = layout.MAGIC
        state.size = ctypes.sizeof(layout.State)
        state.running = 1
        state.epoch = 1
        state.driver_version = driver_version.encode()
        state.cuda_version = _CUDA_VERSIONS[driver_version]
        scratch = path.with_name(f"{path.name}.new")
        scratch.write_bytes(bytes(state))
        os.rename(scratch, path)
        driver = cls(path)
        for _ in range(devices):
            driver.add_device(memory_mib)
        return driver

    @contextmanager
    def locked(self) -> Iterator[layout.State]:
        """The state, while nobody else looks at it or changes it."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield self._state
        finally:
            os.close(descriptor)

    def environment(self, built: Built | None = None, speed: float | None = None) -> dict[str, str]:
        """What a program's environment needs, over its own, to meet this machine."""
        env = {"FAKEGPU_STATE": str(self.path)}
        if built is not None:
            version = self._state.driver_version.decode()
            env["LD_LIBRARY_PATH"] = str(built.library_dir_of(version))
            env["PATH"] = f"{built.bin_dir}{os.pathsep}{os.environ['PATH']}"
        if speed is not None:
            env["FAKEGPU_SPEED"] = str(speed)
        return env

    def amd_environment(self, built: Built) -> dict[str, str]:
        """The same for a machine whose devices are AMD's."""
        return {"FAKEGPU_STATE": str(self.path), "LD_LIBRARY_PATH": str(built.library_dir_amd)}

    def versions(self) -> tuple[str, str]:
        """Of the driver, and of the CUDA that comes with it."""
        cuda = self._state.cuda_version
        return self._state.driver_version.decode(), f"{cuda // 1000}.{cuda % 1000 // 10}"

    # ------------------------------------------------------------------ devices

    def add_device(
        self,
        memory_mib: int = 24 * 1024,
        *,
        reserved_mib: int = 512,
        name: str = "NVIDIA Stand-In 24GB",
        bus: int | None = None,
        uuid: str | None = None,
        mig: bool = False,
    ) -> int:
        """A device more; programs that have initialised NVML see it after they do so again."""
        with self.locked() as state:
            number = next(i for i in range(layout.DEVICES) if not state.devices[i].present)
            device = state.devices[number]
            ctypes.memset(ctypes.addressof(device), 0, ctypes.sizeof(device))
            device.present = 1
            device.bus = 0x10 + number if bus is None else bus
            device.uuid = (uuid or f"GPU-{number:08x}-fa4e-4000-8000-{number:012x}").encode()
            device.name = name.encode()
            device.total = memory_mib * MIB
            device.reserved = reserved_mib * MIB
            device.utilisation = -1
            device.temperature_c = 35
            device.power_mw = 60_000
            device.power_limit_mw = 300_000
            device.mig_mode = layout.MIG_OFF if mig else layout.MIG_UNSUPPORTED
            for other in range(layout.DEVICES):
                state.topology[number][other] = state.topology[other][number] = SYSTEM
                state.nvlinks[number][other] = state.nvlinks[other][number] = 0
        return number

    def remove_device(self, number: int) -> None:
        """As if it were pulled out; programs notice when they initialise NVML again."""
        with self.locked() as state:
            state.devices[number].present = 0
            for process in self._processes_on(number):
                process.present = 0

    def uuid(self, number: int) -> str:
        """The UUID of a device."""
        return self._state.devices[number].uuid.decode()

    def set_reading(
        self,
        number: int,
        *,
        utilisation: int | None = None,
        temperature_c: int | None = None,
        power_w: float | None = None,
        power_limit_w: float | None = None,
        hides_process_memory: bool | None = None,
        hides_readings: bool | None = None,
        compute_mode: int | None = None,
    ) -> None:
        """Change what is measured; a utilisation of -1 follows the processes again."""
        with self.locked() as state:
            device = state.devices[number]
            if utilisation is not None:
                device.utilisation = utilisation
            if temperature_c is not None:
                device.temperature_c = temperature_c
            if power_w is not None:
                device.power_mw = round(power_w * 1000)
            if power_limit_w is not None:
                device.power_limit_mw = round(power_limit_w * 1000)
            if hides_process_memory is not None:
                device.hides_process_memory = int(hides_process_memory)
            if hides_readings is not None:
                device.hides_readings = int(hides_readings)
            if compute_mode is not None:
                device.compute_mode = compute_mode

    def link(self, one: int, other: int, level: int, nvlinks: int = 0) -> None:
        """Say how two devices are connected."""
        with self.locked() as state:
            state.topology[one][other] = state.topology[other][one] = level
            state.nvlinks[one][other] = state.nvlinks[other][one] = nvlinks

    def set_mig(self, number: int, sizes_mib: Sequence[int]) -> list[str]:
        """Cut a device into instances of these sizes (none: MIG off); their UUIDs."""
        uuids = []
        with self.locked() as state:
            device = state.devices[number]
            device.mig_mode = layout.MIG_ON if sizes_mib else layout.MIG_OFF
            for at in range(layout.MIGS):
                device.migs[at].present = 0
            for at, size_mib in enumerate(sizes_mib):
                instance = device.migs[at]
                instance.present = 1
                instance.gpu_instance = at + 1
                instance.compute_instance = 0
                instance.total = size_mib * MIB
                instance.reserved = 16 * MIB
                uuid = f"MIG-{number:08x}-fa4e-4000-8000-{at:012x}"
                instance.uuid = uuid.encode()
                instance.name = device.name + f" MIG 1g.{size_mib // 1024}gb".encode()
                uuids.append(uuid)
        return uuids

    # ------------------------------------------------------------------ trouble

    def fault(self, number: int, code: int) -> None:
        """Every call about this device answers so from now on (0: it is well again)."""
        with self.locked() as state:
            state.devices[number].fault = code

    def rule(
        self,
        *,
        function: str = "",
        device: int | None = None,
        code: int = 0,
        delay_s: float = 0,
    ) -> None:
        """Calls of this function (all of them if empty) about this device are late, or fail."""
        with self.locked() as state:
            rule = next(rule for rule in state.rules if not rule.present)
            rule.device = -1 if device is None else device
            rule.function = function.encode()
            rule.code = code
            rule.delay_ms = round(delay_s * 1000)
            rule.present = 1

    def clear_rules(self) -> None:
        """All calls work again, and those that hang return now."""
        with self.locked() as state:
            for rule in state.rules:
                rule.present = 0

    def xid(self, number: int, xid: int) -> None:
        """The driver reports a critical error of this device."""
        with self.locked() as state:
            event = state.xids[state.xid_count % layout.XIDS]
            event.device = number
            event.xid = xid
            state.xid_count += 1

    def stop(self) -> None:
        """The driver is unloaded."""
        with self.locked() as state:
            state.running = 0

    def start(self) -> None:
        """The driver is loaded anew: who had initialised NVML before must do it again."""
        with self.locked() as state:
            state.running = 1
            state.epoch += 1
            for device in state.devices:
                device.fault = 0

    def init_fails(self, code: int) -> None:
        """Initialising NVML answers so from now on (0: it works again)."""
        with self.locked() as state:
            state.init_code = code

    # ------------------------------------------------------------------ processes

    def add_process(
        self,
        number: int,
        pid: int,
        mib: int,
        *,
        mig: int | None = None,
        use_percent: int = 0,
        graphics: bool = False,
        hides_memory: bool = False,
        of_this_machine: bool = True,
    ) -> None:
        """A process on a device, or what it has there now. It leaves when it dies."""
        with self.locked() as state:
            place = -1 if mig is None else mig
            mine = [p for p in self._processes_on(number) if p.pid == pid and p.mig == place]
            process = mine[0] if mine else next(p for p in state.processes if not p.present)
            process.pid = pid
            process.start_time = _start_time(pid) if of_this_machine else 0
            process.device = number
            process.mig = place
            process.kind = layout.GRAPHICS if graphics else layout.COMPUTE
            process.use_percent = use_percent
            process.mps = 0
            process.hides_memory = int(hides_memory)
            process.bytes = mib * MIB
            process.present = 1

    def remove_process(self, pid: int) -> None:
        """A process gives back what it has on all devices."""
        with self.locked() as state:
            for process in state.processes:
                if process.present and process.pid == pid:
                    process.present = 0

    def allocations(self) -> list[Allocation]:
        """Who has what now; the dead have nothing."""
        with self.locked() as state:
            for process in state.processes:
                gone = process.start_time and _start_time(process.pid) != process.start_time
                if process.present and gone:
                    process.present = 0
            return [
                Allocation(
                    process.pid,
                    process.device,
                    None if process.mig < 0 else process.mig,
                    process.bytes // MIB,
                    process.use_percent,
                    bool(process.mps),
                )
                for process in state.processes
                if process.present
            ]

    def used_mib(self, number: int) -> int:
        """What the processes on a device have together."""
        return sum(a.mib for a in self.allocations() if a.device == number)

    def _processes_on(self, number: int) -> list[layout.Process]:
        return [p for p in self._state.processes if p.present and p.device == number]


def _start_time(pid: int) -> int:
    """Clock ticks since boot; 0 if there is no such process, or if it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    fields = text[text.rindex(b")") + 2 :].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
