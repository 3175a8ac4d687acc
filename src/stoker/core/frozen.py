"""Values that are never changed, as the type checker sees to.

To have Python see to it as well costs a call for each field of each object. For what is made anew
for every job that adds up, so these few are spared it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def quick_to_make(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots, but for what happens to code that is never type-checked."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
