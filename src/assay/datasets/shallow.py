"""Types of open values that are decoded without a look at their depth: deeper ones go to the exact rules."""

from typing import Any

LEVELS = 6
"""Levels of containers that typed decoding takes; real metadata has two or three."""

_Scalar = str | int | float | bool | None


def _value(levels: int) -> Any:
    if levels == 0:
        return _Scalar
    inner = _value(levels - 1)
    return _Scalar | dict[str, inner] | list[inner]  # type: ignore[valid-type]  # the type is made level by level


ShallowValue: Any = _value(LEVELS)
ShallowObject: Any = dict[str, _value(LEVELS - 1)]  # type: ignore[misc]  # as above
