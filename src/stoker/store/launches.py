"""What is needed to start a job, as the store keeps it: JSON of what has no column of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from stoker.core.model import Launch, Own

_json = msgspec.json.encode
_lines = msgspec.json.Encoder().encode_lines


def launch_body(launch: Launch) -> str:
    """What has no column of its own, and is not as it usually is."""
    argv, shell, cwd, _, extra_env, _, _, out, err, gpu_arg, _, _, _, _, slurm, _, options = launch
    fields: dict[str, Any] = {"cwd": cwd}
    if argv:
        fields["argv"] = argv
    if shell is not None:
        fields["shell"] = shell
    if extra_env:
        fields["extra_env"] = extra_env
    if out is not None:
        fields["out"] = out
    if err is not None:
        fields["err"] = err
    if gpu_arg:
        fields["gpu_arg"] = True
    if slurm:
        fields["cluster_options"] = slurm
    if options:
        fields["options"] = options
    return _json(fields).decode()


def launch_bodies(launch: Launch, each: Sequence[Own]) -> Iterator[str]:
    """The same of each of many jobs that share a launch; what they share is written once."""
    usual = launch_body(launch)
    shared = launch_body(launch._replace(argv=(), shell=None)).removesuffix("}")
    commands = json_of_each([own.argv or own.shell for own in each])
    for own, command in zip(each, commands, strict=True):
        if own.out is not None or own.err is not None:
            yield launch_body(launch.with_own(own, ""))
        elif own.argv:
            yield f'{shared},"argv":{command}}}'
        elif own.shell is not None:
            yield f'{shared},"shell":{command}}}'
        else:
            yield usual


def json_of_each(values: Sequence[Any]) -> list[str]:
    """The JSON of each of many values, made at once; there is never a newline in it."""
    return _lines(values).decode().split("\n")[:-1]
