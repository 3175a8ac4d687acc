"""What many jobs share is kept once and known by its number: needs, terms, environments.

The numbers are remembered here, and are free again once a row is removed or a transaction undone:
`load` and `forget_environments` are for that.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from stoker.core.code import Code
from stoker.core.model import Launch, Need, Terms
from stoker.store.named_sql import queries
from stoker.store.rows import need_from, terms_from


class Numbered:
    """The numbers of what is in the file, and of what is added to it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql = queries()
        self._needs: dict[Need, int] = {}
        self._terms: dict[Terms, int] = {}
        self._environments: dict[bytes, int] = {}  # by digest

    def load(self) -> tuple[dict[int, Need], dict[int, Terms]]:
        """All needs and terms by their numbers, as they are in the file now."""
        sql, run = self._sql, self._connection.execute
        self._environments.clear()
        needs = {i: need_from(body) for i, body in run(sql["needs"])}
        terms = {i: terms_from(body) for i, body in run(sql["terms"])}
        self._needs = {need: i for i, need in needs.items()}
        self._terms = {term: i for i, term in terms.items()}
        return needs, terms

    def forget_environments(self) -> None:
        """Some may have been removed."""
        self._environments.clear()

    def need(self, need: Need) -> int:
        """The number of a need."""
        known = self._needs.get(need)
        if known is None:
            known = self._needs[need] = self._add("add_need", body=_sorted_json(asdict(need)))
        return known

    def terms(self, terms: Terms) -> int:
        """The number of terms."""
        known = self._terms.get(terms)
        if known is None:
            known = self._terms[terms] = self._add("add_terms", body=_sorted_json(asdict(terms)))
        return known

    def environment(self, launch: Launch) -> int:
        """The number of the environment, which with another umask is another one."""
        body = _sorted_json(dict(launch.env)).encode()
        hashed = hashlib.sha256(body)
        if launch.umask is not None:
            hashed.update(b"umask %o" % launch.umask)
        digest = hashed.digest()
        known = self._environments.get(digest)
        if known is None:
            fields = {"digest": digest, "body": zlib.compress(body), "umask": launch.umask}
            row = self._connection.execute(self._sql["environment_by_digest"], fields).fetchone()
            known = self._add("add_environment", **fields) if row is None else int(row[0])
            self._environments[digest] = known
        return known

    def code(self, code: Code) -> int:
        """Keep where code was from, unless jobs of the same submission have done so before."""
        self._connection.execute(self._sql["add_code"], code._asdict())
        return code.number

    def _add(self, query: str, **values: Any) -> int:
        number = self._connection.execute(self._sql[query], values).lastrowid
        assert number is not None
        return number


def _sorted_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
