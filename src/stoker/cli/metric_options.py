"""The options that say which metrics are meant, and where they are found."""

from __future__ import annotations

from stoker.cli.options import Option

METRIC = Option(
    "metric", "only this metric; or NAME=EXPRESSION, whose first group is its value in a line of "
    "the log; may be repeated", "NAME", repeat=True,
)  # fmt: skip
METRICS_FROM = Option(
    "metrics-from", "a file or directory of the job with CSV, JSON lines or event files of "
    "TensorBoard; may contain {id}, {name} and {attempt}", "PATH",
)  # fmt: skip
