"""The stand-in driver: its build, its state file, and NVML's interface to the byte."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from fakegpu import headers, layout
from fakegpu.build import Built, build
from fakegpu.driver import MIB, NEW_DRIVER, OLD_DRIVER, FakeDriver


def ask_nvml(
    driver: FakeDriver, built: Built, program: str, env: Mapping[str, str] | None = None
) -> str:
    """What a program says that uses the real nvidia-ml-py on the stand-in; `gpu` is the first."""
    prelude = "from pynvml import *\nnvmlInit()\ngpu = nvmlDeviceGetHandleByIndex(0)\n"
    done = subprocess.run(
        [sys.executable, "-c", prelude + program],
        env=driver.environment(built) | dict(env or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_layout_is_the_same_in_c_and_in_python(built: Built) -> None:
    library = ctypes.CDLL(str(built.library))
    expected = layout.sizes()
    assert [library.fakegpu_layout(i) for i in range(len(expected))] == expected


def test_the_same_sources_are_built_once(built: Built) -> None:
    before = built.library.stat().st_mtime_ns
    assert build(built.root.parent) == built
    assert built.library.stat().st_mtime_ns == before


def test_the_first_form_of_memory_counts_what_the_driver_keeps_as_used(
    built: Built, tmp_path: Path
) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=1, memory_mib=10_000)
    driver.add_process(0, os.getpid(), 1000)
    said = ask_nvml(
        driver,
        built,
        "old = nvmlDeviceGetMemoryInfo(gpu)\n"
        "new = nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2)\n"
        "print(old.total, old.used, old.free, new.total, new.used, new.reserved, new.free)",
    )
    mib = [int(number) // MIB for number in said.split()]
    assert mib == [10_000, 1512, 8488, 10_000, 1000, 512, 8488]


def test_a_structure_of_another_version_is_refused(built: Built, tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=1)
    said = ask_nvml(
        driver,
        built,
        "try: nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2 + 1)\n"
        "except NVMLError as error: print(error.value)",
    )
    assert said == "25"


def test_processes_ask_for_room_before_they_are_listed(built: Built, tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=1)
    driver.add_process(0, os.getpid(), 100)
    driver.add_process(0, os.getppid(), 200, hides_memory=True)
    said = ask_nvml(
        driver,
        built,
        "import pynvml\n"
        "from ctypes import byref, c_uint\n"
        "for name in ('', '_v2', '_v3'):\n"
        "    count = c_uint(1)\n"
        "    call = getattr(pynvml.nvmlLib, 'nvmlDeviceGetComputeRunningProcesses' + name)\n"
        "    print(call(gpu, byref(count), (c_nvmlProcessInfo_t * 4)()), count.value)\n"
        "print(sorted(p.usedGpuMemory or 0 for p in nvmlDeviceGetComputeRunningProcesses(gpu)))",
    )
    assert said.splitlines() == ["7 2", "7 2", "7 2", f"[0, {100 * MIB}]"]


def test_handles_are_found_by_uuid_and_by_place_on_the_bus(built: Built, tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus")
    driver.add_device(bus=0x65)
    driver.add_device(bus=0x17, mig=True)
    (instance,) = driver.set_mig(1, [10_240])
    said = ask_nvml(
        driver,
        built,
        f"print(nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('{driver.uuid(0)}')))\n"
        "print(nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId('00000000:17:00.0')))\n"
        f"print(nvmlDeviceGetName(nvmlDeviceGetHandleByUUID('{instance}')))\n"
        "print(nvmlDeviceGetPciInfo(gpu).busId, nvmlDeviceGetMigMode(gpu))\n"
        "try: nvmlDeviceGetHandleByUUID('GPU-nobody')\n"
        "except NVMLError_NotFound: print('nobody')",
    )
    assert said.splitlines() == [
        "1",
        "0",
        "NVIDIA Stand-In 24GB MIG 1g.10gb",
        "00000000:17:00.0 [1, 1]",
        "nobody",
    ]


def test_nothing_is_answered_before_the_library_is_initialised(
    built: Built, tmp_path: Path
) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=1)
    said = ask_nvml(
        driver,
        built,
        "print(nvmlSystemGetDriverVersion())\n"
        "nvmlShutdown()\n"
        "try: nvmlDeviceGetCount()\n"
        "except NVMLError_Uninitialized: print('uninitialised')",
    )
    assert said.splitlines() == ["550.54.14", "uninitialised"]


def test_a_process_that_died_has_nothing_on_a_device(tmp_path: Path) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=1)
    process = subprocess.Popen(["sleep", "1000"])
    driver.add_process(0, process.pid, 300)
    assert driver.used_mib(0) == 300
    process.kill()
    process.wait()
    assert driver.allocations() == []


def test_what_is_not_played_is_not_supported_and_what_came_later_is_not_found(
    built: Built, tmp_path: Path
) -> None:
    for version, later in ((OLD_DRIVER, "13"), (NEW_DRIVER, "3")):
        driver = FakeDriver.create(tmp_path / version, devices=1, driver_version=version)
        said = ask_nvml(
            driver,
            built,
            "def ask(name, *args):\n"
            "    try: print(name, globals()[name](*args))\n"
            "    except NVMLError as error: print(error.value)\n"
            "ask('nvmlDeviceGetFanSpeed', gpu)\n"
            "ask('nvmlDeviceGetMarginTemperature', gpu)\n"
            "ask('nvmlUnitGetCount')\n",
        )
        assert said.splitlines() == ["3", later, "3"]


def test_every_function_of_nvidias_headers_is_there_by_its_name(built: Built) -> None:
    folders = (built.library_dir, built.library_dir_550)
    for interface, folder in zip((headers.NVML, headers.NVML_550), folders, strict=True):
        library = ctypes.CDLL(str(folder / built.library.name))
        names = interface.functions("cc")
        assert len(names) > 300
        assert [name for name in names if not hasattr(library, name)] == []


def test_a_function_that_differs_from_nvidias_header_does_not_compile(tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    sources = Path(headers.__file__).parent / "c"
    command = [
        "cc", "-fsyntax-only", "-Werror", "-Wmissing-prototypes", f"-I{sources}",
        "-isystem", str(headers.NVML.path().parent), str(source),
    ]  # fmt: skip
    begin = '#include "session.h"\n'
    for text, compiles in (
        ("nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { *n = 0; return 0; }", True),
        ("nvmlReturn_t nvmlDeviceGetCount_v2(int *n) { *n = 0; return 0; }", False),
        ("nvmlReturn_t nvmlDeviceGetCount_v9(unsigned *n) { *n = 0; return 0; }", False),
        ("int total(nvmlMemory_v2_t *m) { return m->sum; }", False),
    ):
        source.write_text(begin + text)
        assert (subprocess.run(command, capture_output=True).returncode == 0) == compiles, text


def test_memory_that_a_program_allocates_is_told_as_that_programs(
    built: Built, tmp_path: Path
) -> None:
    driver = FakeDriver.create(tmp_path / "gpus", devices=2, memory_mib=4096)
    program = """
import ctypes
from ctypes import byref, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
context, memory = c_void_p(), c_uint64()
assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
print(cuda.cuMemAlloc_v2(byref(memory), c_size_t(1 << 30)))
free, total = c_size_t(), c_size_t()
cuda.cuMemGetInfo_v2(byref(free), byref(total))
print(free.value >> 20, total.value >> 20)
print(cuda.cuMemAlloc_v2(byref(c_uint64()), c_size_t(4 << 30)), cuda.cuStreamQuery(None))
other = nvmlDeviceGetHandleByIndex(1)
def told(): return [(p.pid == os.getpid(), p.usedGpuMemory >> 20)
                    for p in nvmlDeviceGetComputeRunningProcesses(other)]
import os
print(told(), nvmlDeviceGetComputeRunningProcesses(gpu))
cuda.cuMemFree_v2(memory)
print(told())
cuda.cuDevicePrimaryCtxRelease_v2(0)
print(told())
"""
    said = ask_nvml(driver, built, program, {"CUDA_VISIBLE_DEVICES": driver.uuid(1)})
    assert said.splitlines() == [
        "0", "2260 4096", "2 801", "[(True, 1324)] []", "[(True, 300)]", "[]",
    ]  # fmt: skip
