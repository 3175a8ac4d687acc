"""The vendors' own headers, and what is generated from them: the functions that no file here plays.

The headers come with packages that the tests depend on. A function that is played and that differs
from its header does not compile; one that is not played answers that it is not supported.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Interface:
    """One library's functions, as a header declares them."""

    package: str
    header: str
    result: str  # the type of what all functions return
    macro: str  # with it, each form of a function is declared by its own name

    def path(self) -> Path:
        """Where the header lies."""
        try:
            files = importlib.metadata.files(self.package) or []
        except importlib.metadata.PackageNotFoundError:
            raise RuntimeError(
                f"the stand-in driver is built with {self.header} of the package {self.package}: "
                "pip install '.[test]'"
            ) from None
        return next(Path(str(file.locate())) for file in files if file.name == self.header)

    def functions(self, compiler: str) -> dict[str, list[str]]:
        """The parameters of each function, as C."""
        words = [compiler, "-E", "-P", f"-D{self.macro}", str(self.path())]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        pattern = rf"\b{self.result}\s+(\w+)\s*\(([^;{{}}]*)\)\s*;"
        found = {}
        for name, inside in re.findall(pattern, text):
            parameters = [" ".join(one.split()) for one in inside.split(",")]
            found[name] = [] if parameters == ["void"] else parameters
        return found


NVML = Interface("nvidia-nvml-dev", "nvml.h", "nvmlReturn_t", "NVML_NO_UNVERSIONED_FUNC_DEFS")
# What drivers of the age of 550.54 have: the package of CUDA 12.4.
NVML_550 = Interface(
    "nvidia-nvml-dev-cu12", "nvml.h", "nvmlReturn_t", "NVML_NO_UNVERSIONED_FUNC_DEFS"
)
CUDA = Interface("nvidia-cuda-runtime", "cuda.h", "CUresult", "__CUDA_API_VERSION_INTERNAL")


def nvml_stubs(functions: dict[str, list[str]]) -> str:
    """NVML's functions, each weak, so that one that is played takes its place."""
    lines = ['#include "session.h"', ""]
    for name, parameters in functions.items():
        # Rules name a function without its version.
        plain = re.sub(r"_v\d+$", "", name)
        call = f'not_played("{plain}")'
        if parameters and re.fullmatch(r"nvmlDevice_t \w+", parameters[0]):
            call = f'not_played_on("{plain}", {parameters[0].split()[1]})'
        lines.append(weak("nvmlReturn_t", name, parameters, call))
    return "\n".join(lines) + "\n"


def plain_stubs(
    include: str, interface: Interface, functions: dict[str, list[str]], answer: str
) -> str:
    """Functions that only say that they are not supported, each weak."""
    lines = [include, ""]
    lines += [weak(interface.result, name, them, answer) for name, them in functions.items()]
    return "\n".join(lines) + "\n"


def weak(result: str, name: str, parameters: Sequence[str], answer: str) -> str:
    """A function that gives way to one of the same name."""
    given = ", ".join(parameters) or "void"
    return (
        f'__attribute__((weak, visibility("default"))) {result} {name}({given})\n'
        f"{{\n    return {answer};\n}}\n".replace("return ;", "return;")
    )


def exports(names: Sequence[str]) -> str:
    """A linker's script: the library shows these names, and hides all others."""
    return "{ global: " + " ".join(f"{name};" for name in names) + " local: *; };\n"
