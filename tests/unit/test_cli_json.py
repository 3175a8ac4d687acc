"""The light JSON of the command line says and hears what everybody's JSON does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api import jsonline

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_is_written_is_read_alike_here_and_elsewhere(value: Any) -> None:
    written = jsonline.dumps(value)
    assert written == json.dumps(value)
    assert "\n" not in written
    assert written.isascii()
    assert jsonline.loads(written) == json.loads(written) == value


@given(st.text(max_size=30) | st.text('{}[]",:0123456789.eE+-truefalsn \\u', max_size=30))
def test_what_is_not_json_is_refused_here_as_elsewhere(text: str) -> None:
    try:
        expected = json.loads(text.strip())
    except ValueError:
        with pytest.raises(ValueError):
            jsonline.loads(text)
    else:
        assert repr(jsonline.loads(text)) == repr(expected)


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(TypeError):
        jsonline.dumps({"a": object()})


@given(JSON)
def test_an_interpreter_without_the_c_code_does_the_same(value: Any) -> None:
    dumps, loads = jsonline._from_json()
    assert loads(dumps(value)) == value
    assert dumps(value) == jsonline.dumps(value)
