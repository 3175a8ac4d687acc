"""The HTTP api as an OpenAPI document, made from the table that it is served from."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from stoker import __version__
from stoker.api.job_option import JobOption
from stoker.api.job_options import JOB_OPTIONS, options_in
from stoker.submission.adopting import ADOPTED_OPTIONS
from stoker.web.endpoints import ENDPOINTS, Endpoint

_NUMBER = {"type": "integer"}
_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}

# What answers are made of. Jobs and GPUs have more fields than are named here, and may get more.
_ANSWERS: dict[str, dict[str, Any]] = {
    "Text": _TEXT,
    "Texts": {"type": "array", "items": _TEXT},
    "Flag": {"type": "boolean"},
    "Number": _NUMBER,
    "Share": {"type": "number"},
    "MaybeText": {"type": ["string", "null"]},
    "MaybeNumber": {"type": ["integer", "null"]},
    "MaybeNumbers": {"type": "array", "items": {"type": ["number", "null"]}},
    "Ids": {"type": "array", "items": _NUMBER},
    "Object": _OBJECT,
    "MaybeObject": {"type": ["object", "null"]},
    "Lists": {"type": "array", "items": {"type": "array"}},
    "Objects": {"type": "array", "items": _OBJECT},
    "Counts": {"type": "object", "additionalProperties": _NUMBER},
    "Jobs": {"type": "array", "items": {"$ref": "#/components/schemas/JobRow"}},
    "Gpus": {"type": "array", "items": {"$ref": "#/components/schemas/Gpu"}},
}


def _schema(required: str, **fields: str) -> dict[str, Any]:
    """An object: names of fields by the kind of answer that they are."""
    names = {name: _ANSWERS[kind] for kind, some in fields.items() for name in some.split()}
    return {"type": "object", "required": required.split(), "properties": names}


_COMPONENTS: dict[str, Any] = {
    "JobRow": _schema(
        "id state command",
        Number="id priority attempt submitted_at_ms",
        MaybeNumber="queued_at_ms started_at_ms ended_at_ms exit_code signal position "
        "suspended_at_ms suspended_ms",
        Text="state user command",
        MaybeText="name group reason reason_kind point",
        Texts="gpus",
        Object="need",
    ),
    "Gpu": _schema(
        "id state",
        Text="id state",
        Number="reserved_mib",
        MaybeNumber="memory_mib",
        Share="share_used",
        Ids="jobs",
        Flag="declared",
    ),
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": _schema("code message hint", Text="code message hint option")},
    },
}
_ERRORS = {
    "400": "it can't be understood, or makes no sense",
    "401": "no token, or one that is not (or no longer) known",
    "403": "the token may only read, or the request comes from elsewhere",
    "404": "what was named does not exist",
    "405": "the method is not allowed here",
    "408": "the body did not come in time",
    "409": "it can't be carried out as things stand",
    "413": "the body is too large",
    "415": "the body is not JSON",
    "503": "the daemon is not there, or can't do it now: try again",
}


@cache
def document() -> dict[str, Any]:
    """The whole document."""
    kinds = [endpoint.fields for endpoint in ENDPOINTS]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    for name, options in (
        ("SubmitRequest", JOB_OPTIONS),
        ("SweepRequest", options_in("sweep")),
        ("EditRequest", options_in("edit")),
        ("AdoptRequest", ADOPTED_OPTIONS),
    ):
        components[name]["properties"]["options"] = _options(options)
    of_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        schema = _resolved(of_kind[endpoint.fields], components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, of_kind[endpoint.fields], schema
        )
    this = _described("this document", "openapi", "page", _OBJECT)
    paths["/api/openapi.json"] = {"get": this}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stoker",
            "version": __version__,
            "description": (
                "What the page and scripts ask of Stoker. Times are milliseconds since the epoch, "
                "memory is in MiB. Scripts send `Authorization: Bearer TOKEN`; "
                "`stoker token create` makes one."
            ),
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**components, **_COMPONENTS},
        },
    }


def _options(options: Iterable[JobOption]) -> dict[str, Any]:
    """The options of a job, by the table from which they are read."""
    found: dict[str, Any] = {}
    for option in options:
        if option.is_flag:
            kinds = ["boolean", "string"]
        elif option.repeat:
            kinds = ["object", "array", "string"]
        else:
            kinds = ["string"] if option.is_only_text else ["string", "number", "array"]
        # What is null counts as not said; in an edit it takes the option away.
        found[option.key] = {"type": [*kinds, "null"], "description": option.help}
        if option.metavar:
            found[option.key]["examples"] = [option.metavar]
    return {"type": "object", "default": {}, "properties": found, "additionalProperties": False}


def _operation(endpoint: Endpoint, ref: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    words = endpoint.path.removeprefix("/api/").replace("{id}", "one").split("/")
    answer = {
        "type": "object",
        "required": sorted(endpoint.answer),
        "properties": {name: _ANSWERS[kind] for name, kind in endpoint.answer.items()},
    }
    name = "_".join([endpoint.method.lower(), *words])
    operation = _described(endpoint.summary, name, endpoint.tag, answer)
    parameters = []
    if "{id}" in endpoint.path:
        number = {"type": "integer", "minimum": 0, "maximum": 10**18}
        parameters.append({"name": "id", "in": "path", "required": True, "schema": number})
    if endpoint.method == "GET":
        required = schema.get("required", ())
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": kind}
            for name, kind in schema.get("properties", {}).items()
        ]
    else:
        operation["requestBody"] = {"required": True, "content": _json(ref)}
    if parameters:
        operation["parameters"] = parameters
    return operation


def _described(summary: str, name: str, tag: str, answer: dict[str, Any]) -> dict[str, Any]:
    found = {"200": {"description": "it is done", "content": _json(answer)}}
    error = _json({"$ref": "#/components/schemas/Error"})
    for status, description in _ERRORS.items():
        found[status] = {"description": description, "content": error}
    return {"summary": summary, "operationId": name, "tags": [tag], "responses": found}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _resolved(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = components[name] if name else schema
    return found
