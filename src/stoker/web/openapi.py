"""The HTTP api as an OpenAPI document, made from the table that it is served from."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from stoker import __version__
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
    "MaybeText": {"type": ["string", "null"]},
    "MaybeNumber": {"type": ["integer", "null"]},
    "MaybeNumbers": {"type": "array", "items": {"type": ["number", "null"]}},
    "Ids": {"type": "array", "items": _NUMBER},
    "Object": _OBJECT,
    "Objects": {"type": "array", "items": _OBJECT},
    "Counts": {"type": "object", "additionalProperties": _NUMBER},
    "Jobs": {"type": "array", "items": {"$ref": "#/components/schemas/JobRow"}},
    "Gpus": {"type": "array", "items": {"$ref": "#/components/schemas/Gpu"}},
}
_MAYBE_NUMBER = {"type": ["integer", "null"]}
_MAYBE_TEXT = {"type": ["string", "null"]}
_COMPONENTS: dict[str, Any] = {
    "JobRow": {
        "type": "object",
        "required": ["id", "state", "command"],
        "properties": {
            "id": _NUMBER,
            "name": _MAYBE_TEXT,
            "state": _TEXT,
            "group": _MAYBE_TEXT,
            "priority": _NUMBER,
            "user": _TEXT,
            "command": _TEXT,
            "need": _OBJECT,
            "gpus": {"type": "array", "items": _TEXT},
            "attempt": _NUMBER,
            "submitted_at_ms": _NUMBER,
            "started_at_ms": _MAYBE_NUMBER,
            "ended_at_ms": _MAYBE_NUMBER,
            "exit_code": _MAYBE_NUMBER,
            "signal": _MAYBE_NUMBER,
            "reason": _MAYBE_TEXT,
            "reason_kind": _MAYBE_TEXT,
            "position": _MAYBE_NUMBER,
            "point": _MAYBE_TEXT,
        },
    },
    "Gpu": {
        "type": "object",
        "required": ["id", "state"],
        "properties": {
            "id": _TEXT,
            "memory_mib": _MAYBE_NUMBER,
            "reserved_mib": _NUMBER,
            "share_used": {"type": "number"},
            "state": _TEXT,
            "jobs": {"type": "array", "items": _NUMBER},
            "declared": {"type": "boolean"},
        },
    },
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "hint"],
                "properties": {"code": _TEXT, "message": _TEXT, "hint": _TEXT},
            }
        },
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
    of_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        schema = _resolved(of_kind[endpoint.fields], components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, of_kind[endpoint.fields], schema
        )
    paths["/api/openapi.json"] = {
        "get": {
            "summary": "this document",
            "operationId": "openapi",
            "tags": ["page"],
            "responses": _responses({"application/json": {"schema": _OBJECT}}),
        }
    }
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


def _operation(endpoint: Endpoint, ref: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    words = endpoint.path.removeprefix("/api/").replace("{id}", "one").split("/")
    answer = {
        "type": "object",
        "required": sorted(endpoint.answer),
        "properties": {name: _ANSWERS[kind] for name, kind in endpoint.answer.items()},
    }
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": "_".join([endpoint.method.lower(), *words]),
        "tags": [endpoint.tag],
        "responses": _responses({"application/json": {"schema": answer}}),
    }
    parameters = []
    if "{id}" in endpoint.path:
        parameters.append(
            {
                "name": "id",
                "in": "path",
                "required": True,
                "schema": {"type": "integer", "minimum": 0, "maximum": 10**18},
            }
        )
    if endpoint.method == "GET":
        required = schema.get("required", ())
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": kind}
            for name, kind in schema.get("properties", {}).items()
        ]
    else:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": ref}},
        }
    if parameters:
        operation["parameters"] = parameters
    return operation


def _responses(content: dict[str, Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: dict[str, Any] = {"200": {"description": "it is done", "content": content}}
    for status, description in _ERRORS.items():
        found[status] = {"description": description, "content": error}
    return found


def _resolved(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = components[name] if name else schema
    return found
