"""The structures of c/state.h, for Python; tests/unit/test_fakegpu_driver.py compares the two."""

from __future__ import annotations

import ctypes
from typing import ClassVar

MAGIC = int.from_bytes(b"FAKEGPU1", "little")
DEVICES = 16
MIGS = 7
PROCESSES = 512
RULES = 512
XIDS = 16
TEXT = 96

COMPUTE, GRAPHICS = 1, 2
MIG_OFF, MIG_ON, MIG_UNSUPPORTED = 0, 1, 2

_u32, _i32, _u64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64
_text = ctypes.c_char * TEXT


class Mig(ctypes.Structure):
    """`struct fg_mig`."""

    present: int
    gpu_instance: int
    compute_instance: int
    total: int
    reserved: int
    uuid: bytes
    name: bytes
    _fields_: ClassVar = [
        ("present", _u32),
        ("gpu_instance", _u32),
        ("compute_instance", _u32),
        ("unused", _u32),
        ("total", _u64),
        ("reserved", _u64),
        ("uuid", _text),
        ("name", _text),
    ]


class Device(ctypes.Structure):
    """`struct fg_device`."""

    present: int
    domain: int
    bus: int
    slot: int
    uuid: bytes
    name: bytes
    total: int
    reserved: int
    utilisation: int
    temperature_c: int
    power_mw: int
    power_limit_mw: int
    fault: int
    mig_mode: int
    hides_process_memory: int
    compute_mode: int
    hides_readings: int
    migs: ctypes.Array[Mig]
    _fields_: ClassVar = [
        ("present", _u32),
        ("domain", _u32),
        ("bus", _u32),
        ("slot", _u32),
        ("uuid", _text),
        ("name", _text),
        ("total", _u64),
        ("reserved", _u64),
        ("utilisation", _i32),
        ("temperature_c", _u32),
        ("power_mw", _u32),
        ("power_limit_mw", _u32),
        ("fault", _i32),
        ("mig_mode", _u32),
        ("hides_process_memory", _u32),
        ("compute_mode", _u32),
        ("hides_readings", _u32),
        ("unused", _u32),
        ("migs", Mig * MIGS),
    ]


class Process(ctypes.Structure):
    """`struct fg_process`."""

    present: int
    pid: int
    start_time: int
    device: int
    mig: int
    kind: int
    use_percent: int
    mps: int
    hides_memory: int
    bytes: int
    _fields_: ClassVar = [
        ("present", _u32),
        ("pid", _u32),
        ("start_time", _u64),
        ("device", _i32),
        ("mig", _i32),
        ("kind", _u32),
        ("use_percent", _u32),
        ("mps", _u32),
        ("hides_memory", _u32),
        ("bytes", _u64),
    ]


class Rule(ctypes.Structure):
    """`struct fg_rule`."""

    present: int
    device: int
    function: bytes
    code: int
    delay_ms: int
    _fields_: ClassVar = [
        ("present", _u32),
        ("device", _i32),
        ("function", _text),
        ("code", _i32),
        ("delay_ms", _u32),
    ]


class Xid(ctypes.Structure):
    """`struct fg_xid`."""

    device: int
    xid: int
    _fields_: ClassVar = [("device", _i32), ("xid", _u32)]


class State(ctypes.Structure):
    """`struct fg_state`."""

    magic: int
    size: int
    running: int
    epoch: int
    init_code: int
    xid_count: int
    cuda_version: int
    driver_version: bytes
    topology: ctypes.Array[ctypes.Array[ctypes.c_uint32]]
    nvlinks: ctypes.Array[ctypes.Array[ctypes.c_uint32]]
    xids: ctypes.Array[Xid]
    rules: ctypes.Array[Rule]
    devices: ctypes.Array[Device]
    processes: ctypes.Array[Process]
    _fields_: ClassVar = [
        ("magic", _u64),
        ("size", _u32),
        ("running", _u32),
        ("epoch", _u64),
        ("init_code", _i32),
        ("xid_count", _u32),
        ("cuda_version", _u32),
        ("unused", _u32),
        ("driver_version", _text),
        ("topology", (_u32 * DEVICES) * DEVICES),
        ("nvlinks", (_u32 * DEVICES) * DEVICES),
        ("xids", Xid * XIDS),
        ("rules", Rule * RULES),
        ("devices", Device * DEVICES),
        ("processes", Process * PROCESSES),
    ]


def sizes() -> list[int]:
    """What `fakegpu_layout` of the library must say too, in the same order."""
    return [
        ctypes.sizeof(State),
        ctypes.sizeof(Device),
        ctypes.sizeof(Mig),
        ctypes.sizeof(Process),
        ctypes.sizeof(Rule),
        State.topology.offset,  # type: ignore[attr-defined]
        State.devices.offset,  # type: ignore[attr-defined]
        State.processes.offset,  # type: ignore[attr-defined]
        Device.migs.offset,  # type: ignore[attr-defined]
        Process.bytes.offset,  # type: ignore[attr-defined]
    ]
