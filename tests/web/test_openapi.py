"""The HTTP api is what its document says: schemathesis tries every operation of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from stoker.web import openapi
from stoker.web.endpoints import ENDPOINTS
from stoker_home import StokerHome
from web.page_home import PageHome

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
schema = schemathesis.openapi.from_dict(openapi.document())


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageHome]:
    """A page with a bit of everything behind it, which has to bear all of it."""
    home = StokerHome(tmp_path_factory.mktemp("openapi"))
    try:
        pid = home.start(gpus="0-3:24G")
        page = PageHome(home)
        point = {"argv": ["true"], "gpus": 0, "group": "s", "params": {"a": 1}, "point": "sweep:1"}
        home.submit_all([{"argv": ["echo", "x"], "gpus": 0}, point])
        home.until_final(1, 2)
        home.submit("true", hold=True)
        # Jobs that are made up must do no harm, so none of them starts.
        home.call("pause")
        page_pid = page.pid()
        yield page
        assert home.daemon_pid() == pid and page.pid() == page_pid
        assert "Traceback" not in home.log_text()
    finally:
        home.clean_up()


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda e: f"{e.method} {e.path}")
def test_no_request_is_answered_with_an_error_of_ours(
    lively: PageHome, endpoint: Any, mode: str
) -> None:
    if endpoint.path == "/api/queue/resume":
        pytest.skip("made-up jobs would start")
    operation = schema[endpoint.path][endpoint.method]
    generated = schemathesis.GenerationMode(mode)
    try:
        strategy = operation.as_strategy(generation_mode=generated)
    except Exception as error:
        pytest.skip(f"there is nothing to get wrong: {error}")

    from hypothesis import given

    @given(case=strategy)
    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def tried(case: Any) -> None:
        response = case.call(
            base_url=lively.url, headers={"Authorization": f"Bearer {lively.token}"}
        )
        case.validate_response(response, checks=CHECKS)

    tried()


def test_the_document_is_served_and_complete(lively: PageHome) -> None:
    served = lively.get("/api/openapi.json")
    assert served == json.loads(json.dumps(openapi.document()))
    assert served["openapi"].startswith("3.1")
    documented = {(m.upper(), path) for path, ops in served["paths"].items() for m in ops}
    assert {(e.method, e.path) for e in ENDPOINTS} <= documented
    assert lively.ask("GET", "/api/openapi.json", token=None).status == 401


def test_metrics_are_off_until_they_are_wanted_and_need_a_token(page: PageHome) -> None:
    assert page.ask("GET", "/metrics").status == 404
    page.home.submit("true", hold=True)
    page.start(metrics=True)
    assert page.ask("GET", "/metrics", token=None).status == 401
    reply = page.ask("GET", "/metrics", token=page.reader)
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain")
    lines = reply.body.decode().splitlines()
    assert 'stoker_jobs{state="held"} 1' in lines
    assert 'stoker_gpus{state="free"} 4' in lines
    assert f'stoker_gpu_memory_bytes{{gpu="0"}} {24 * 2**30}' in lines
    for line in lines:
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name and float(value) >= 0
    page.start(metrics=False)
    assert page.ask("GET", "/metrics").status == 404
