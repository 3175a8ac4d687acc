"""What is needed to start a job, as the store keeps it: JSON of what has no column of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from stoker.core.model import Launch, Own

_json = msgspec.json.encode


def launch_body(launch: Launch) -> str:
    """What has no column of its own, and is not as it usually is."""
    argv, shell, cwd, _, extra_env, _, _, out, err, gpu_arg, _, _, _, _, options = launch
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
    if options:
        fields["cluster_options"] = options
    return _json(fields).decode()


def launch_bodies(launch: Launch, each: Sequence[Own]) -> Iterator[str]:
    """The same of each of many jobs that share a launch; what they share is written once."""
    usual = launch_body(launch)
    shared = launch_body(launch._replace(argv=(), shell=None)).removesuffix("}")
    for own in each:
        if own.out is not None or own.err is not None:
            yield launch_body(launch.with_own(own, ""))
        elif own.argv:
            yield f'{shared},"argv":{_json(own.argv).decode()}}}'
        elif own.shell is not None:
            yield f'{shared},"shell":{_json(own.shell).decode()}}}'
        else:
            yield usual
