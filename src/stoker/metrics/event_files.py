"""Metrics in TensorBoard's event files, by TensorBoard's own reader (the extra `tensorboard`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from stoker.errors import Failed
from stoker.installing import install_command
from stoker.metrics.extractor import Points
from stoker.metrics.vocabulary import axis_of

_MOST_NAME = 100


def points_of_events(path: str) -> Iterator[Points]:
    """The scalars of one event file, in the order in which they were written."""
    try:
        loading = import_module("tensorboard.backend.event_processing.event_file_loader")
        tensors = import_module("tensorboard.util.tensor_util")
    except ImportError:
        raise Failed(
            f"{path} is read by TensorBoard, which is not installed",
            f"install it: {install_command('tensorboard')}",
        ) from None
    try:
        for event in loading.EventFileLoader(path).Load():
            for value in event.summary.value:
                number = _scalar(value, tensors)
                if number is not None:
                    yield Points(value.tag, [(float(event.step), number)])
    except Exception:  # Whatever its reader says of a damaged file: it is read up to there.
        return


def _scalar(value: Any, tensors: Any) -> float | None:
    if value.metadata.plugin_data.plugin_name != "scalars" or not value.HasField("tensor"):
        return None
    if not 0 < len(value.tag) <= _MOST_NAME or axis_of(value.tag) or not value.tag.isprintable():
        return None
    array = tensors.make_ndarray(value.tensor)
    return float(array.item()) if array.size == 1 else None
