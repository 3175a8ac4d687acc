"""What the jobs of the self-test run: a program that has memory on GPUs, and needs only the driver.

It runs by itself, without Stoker: `probe.py RESULT MIB SECONDS [beyond]`. It takes the memory,
writes what it sees to the file RESULT, holds the memory so long and computes a little. With
`beyond`, its first attempt asks for more than the GPU has.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time

OUT_OF_MEMORY = 2
_MIB = 1 << 20
_BUSY_S, _IDLE_S = 0.02, 0.08  # so that two of them leave most of a GPU unused


class CudaError(Exception):
    """The driver refused; the name of its error and the call."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class Cuda:
    """CUDA's driver interface, by ctypes."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name: str, *args: object) -> None:
        """One call, which must succeed."""
        code: int = getattr(self._library, name)(*args)
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            known = (text.value or b"?").decode()
            raise CudaError(code, f"{name}: {known} ({code})")

    def uuids(self) -> list[str]:
        """The devices that this process sees, as 32 hexadecimal digits each."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        found = []
        for device in range(count.value):
            uuid = (ctypes.c_ubyte * 16)()
            self.call("cuDeviceGetUuid_v2", uuid, device)
            found.append(bytes(uuid).hex())
        return found

    def use(self, device: int) -> None:
        """Have a context on a device."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def total_mib(self) -> int:
        """The memory of the device in use."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return total.value // _MIB

    def take(self, mib: int) -> ctypes.c_uint64:
        """Memory of the device in use."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib * _MIB))
        return pointer

    def compute(self, pointer: ctypes.c_uint64, mib: int) -> None:
        """Write over memory for a moment."""
        until = time.monotonic() + _BUSY_S
        while time.monotonic() < until:
            self.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), ctypes.c_size_t(mib * _MIB))
            self.call("cuCtxSynchronize")


def write(path: str, found: dict[str, object]) -> None:
    """What was found, whole or not at all."""
    with open(f"{path}.new", "w", encoding="ascii") as file:
        json.dump(found, file)
    os.rename(f"{path}.new", path)


def run(result: str, mib: int, seconds: float, beyond: bool) -> int:
    """Take the memory and hold it; the exit code."""
    cuda = Cuda()
    found: dict[str, object] = {"uuids": cuda.uuids()}
    cuda.use(0)
    if beyond and os.environ["STOKER_ATTEMPT"] == "1":
        found["refused"] = None
        try:
            cuda.take(cuda.total_mib() + 1)
        except CudaError as error:
            found["refused"] = error.code
            # This is what Stoker recognises in the output of any program.
            print(f"{error}: out of memory on the GPU" if error.code == OUT_OF_MEMORY else error)
        write(result, found)
        return 1
    pointer = cuda.take(mib)
    write(f"{result}.held" if beyond else result, found)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        cuda.compute(pointer, mib)
        time.sleep(_IDLE_S)
    return 0


def main() -> int:
    """The program."""
    result, mib, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    try:
        return run(result, mib, seconds, "beyond" in sys.argv[4:])
    except (OSError, CudaError, AttributeError) as error:
        # An AttributeError is a driver that lacks one of the functions.
        write(result, {"error": str(error)})
        print(error)
        return 3


if __name__ == "__main__":
    sys.exit(main())
