"""AMD's `amdsmi.h`, written back out of the package `amdsmi`, whose Python was generated from it.

The package has every structure, number and function of the header, as ctypes; so what is compiled
against the text that is made here is compiled against AMD's own.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from fakegpu import headers

_INTEGERS = {
    ctypes.c_uint8: "uint8_t", ctypes.c_uint16: "uint16_t", ctypes.c_uint32: "uint32_t",
    ctypes.c_uint64: "uint64_t", ctypes.c_int8: "int8_t", ctypes.c_int16: "int16_t",
    ctypes.c_int32: "int32_t", ctypes.c_int64: "int64_t", ctypes.c_char: "char",
    ctypes.c_bool: "_Bool", ctypes.c_double: "double", ctypes.c_float: "float",
    ctypes.c_void_p: "void *", ctypes.c_char_p: "char *",
}  # fmt: skip


def wrapper_path() -> Path:
    """The file of the package that has them all."""
    files = importlib.metadata.files("amdsmi") or []
    return next(Path(str(one.locate())) for one in files if one.name == "amdsmi_wrapper.py")


class _Library:
    """Any function that is asked for, by name, as the package will describe it."""

    def __init__(self, *_: object) -> None:
        self.functions: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return self.functions.setdefault(name, mock.Mock(restype=None, argtypes=[]))


class Header:
    """What the package knows, as C."""

    def __init__(self) -> None:
        library = _Library()
        spec = importlib.util.spec_from_file_location("amdsmi_described", wrapper_path())
        assert spec is not None and spec.loader is not None
        self._module: ModuleType = importlib.util.module_from_spec(spec)
        # The package loads AMD's library as it is imported; nothing of it is called.
        with mock.patch.object(ctypes, "CDLL", return_value=library):
            spec.loader.exec_module(self._module)
        self._functions = library.functions
        self._written: dict[type, str] = {}
        self._types: list[str] = []

    def prototypes(self) -> dict[str, tuple[str, list[str]]]:
        """The result and the parameters of each function."""
        return {
            name: (
                "void" if function.restype is None else self._name(function.restype),
                [
                    self._declared(kind, f"argument_{number}")
                    for number, kind in enumerate(function.argtypes)
                ],
            )
            for name, function in self._functions.items()
        }

    def stubs(self) -> str:
        """Every function, weak, so that one that is played takes its place."""
        answers = {"void": "", "uint32_t": "AMDSMI_STATUS_NOT_SUPPORTED"}
        return '#include "amdsmi.h"\n\n' + "\n".join(
            headers.weak(result, name, parameters, answers.get(result, "0"))
            for name, (result, parameters) in self.prototypes().items()
        )

    def text(self) -> str:
        """The header."""
        functions = [
            f"{result} {name}({', '.join(parameters) or 'void'});"
            for name, (result, parameters) in self.prototypes().items()
        ]
        return "\n".join(
            [
                "#pragma once",
                "#include <stdint.h>",
                *self._numbers(),
                *self._types,
                *self._aliases(),
                *functions,
                "",
            ]
        )

    def _numbers(self) -> list[str]:
        return [
            f"#define {name} {value}{'u' if value >= 0 else ''}"
            for name, value in sorted(vars(self._module).items())
            if name.startswith("AMDSMI_") and isinstance(value, int)
        ]

    def _aliases(self) -> list[str]:
        return [
            f"typedef {self._written[value]} {name};"
            for name, value in vars(self._module).items()
            if isinstance(value, type) and value in self._written and name != self._written[value]
        ]

    def _declared(self, kind: Any, name: str) -> str:
        """A variable or field of this type."""
        if isinstance(kind, type) and issubclass(kind, ctypes.Array):
            return self._declared(kind._type_, f"{name}[{kind._length_}]")
        return f"{self._name(kind)} {name}"

    def _name(self, kind: Any) -> str:
        if kind in _INTEGERS:
            return _INTEGERS[kind]
        if hasattr(kind, "contents"):
            return f"{self._name(kind._type_)} *"
        if kind not in self._written:
            self._write(kind)
        return self._written[kind]

    def _write(self, kind: Any) -> None:
        """Declare a structure, and first all that it is made of."""
        name = self._written[kind] = kind.__name__
        word = "union" if issubclass(kind, ctypes.Union) else "struct"
        fields = [
            f"    {self._declared(field[1], field[0])}{f' : {field[2]}' if len(field) > 2 else ''};"
            for field in getattr(kind, "_fields_", [])
        ]
        size = ctypes.sizeof(kind)
        self._types += [
            f"typedef {word} {{", *fields, f"}} __attribute__((packed)) {name};",
            f'_Static_assert(sizeof({name}) == {size}, "{name}");',
        ]  # fmt: skip
