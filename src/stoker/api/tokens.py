"""Who may use the page: one-time keys, browsers that have used one, and tokens for scripts.

Law: a secret is shown once, when it is made. Kept is its hash, in a file that only its
owner can read; secrets are compared by their hashes, each in constant time.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import html
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from stoker.api.paths import Home, make_private
from stoker.errors import Failed, NotFound, UsageError
from stoker.quantities import label, quoted

KEY_LASTS_MS = 10 * 60 * 1000
BROWSER_LASTS_MS = 30 * 24 * 3600 * 1000
MOST_TOKENS = 1_000
MOST_BROWSERS = 100
MOST_BROWSERS_OF_A_TOKEN = 20  # so that one token can't push out all others
TOKEN_MARK = "stoker_"
_SECRET_BYTES = 32
_ID_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_WAY_IN = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=ADDRESS"><title>Stoker</title>
<p><a href="ADDRESS">Enter</a></p>
</html>
"""

Kind = Literal["key", "browser", "token"]


@dataclass(frozen=True, slots=True)
class Grant:
    """What one secret allows. `hash` is of the secret, `second` of the one a page keeps itself.

    Of a browser it is kept who let it in: a token, by its id, or a one-time key. Files from before
    that was kept do not say.
    """

    id: str
    kind: Kind
    name: str
    hash: str
    read_only: bool
    created_at_ms: int
    expires_at_ms: int | None = None
    second: str = ""
    let_in_by: str | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """The two secrets of a browser: one for its cookie, one for the page's own storage.

    A cookie goes to every port of a host, so that another user's server on this machine may see
    it; what a page keeps stays with its own origin. Only both together are good for anything.
    """

    cookie: str
    page: str
    read_only: bool


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def hashed(secret: str) -> str:
    """What is kept of a secret. It is random and long, so a fast hash will do."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


@dataclass(slots=True)
class Access:
    """The file of grants of one home."""

    home: Home
    now_ms: Callable[[], int] = _now_ms
    _seen: tuple[int, int, int] | None = None
    _grants: list[Grant] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Where the grants are kept."""
        return os.path.join(self.home.root, "page-access.json")

    # ------------------------------------------------------------------ making and taking away

    def new_key(self, *, read_only: bool = False) -> str:
        """The secret of a one-time login link, valid for a few minutes."""
        secret = _secret()
        self._add("key", "one-time link", secret, read_only, KEY_LASTS_MS)
        return secret

    def way_in(self, key: str, address: str) -> str:
        """The address of a private file that leads a browser to the address of a new key.

        An address on a browser's command line is there for every user of the machine to see. Law:
        the file is gone when its key is.
        """
        make_private(self._ways_in)
        path = os.path.join(self._ways_in, _file_name(hashed(key)))
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(_WAY_IN.replace("ADDRESS", html.escape(address)))
        return Path(path).as_uri()

    def new_token(self, name: str, *, read_only: bool, lasts_ms: int | None) -> tuple[str, Grant]:
        """A token for a script, and what is kept of it."""
        name = label(name)
        secret = TOKEN_MARK + _secret()
        if len([g for g in self.grants() if g.kind == "token"]) >= MOST_TOKENS:
            raise Failed(f"there are {MOST_TOKENS} tokens already", "revoke some")
        if any(g.kind == "token" and g.name == name for g in self.grants()):
            raise UsageError(f"there is a token {quoted(name)} already", "choose another name")
        return secret, self._add("token", name, secret, read_only, lasts_ms)

    def revoke(self, words: list[str]) -> list[Grant]:
        """Take grants away, by id or by a token's name, and with a token the browsers it let in."""
        with self._changing() as grants:
            named = [g for g in grants if g.id in words or (g.kind == "token" and g.name in words)]
            for word in words:
                if not any(word in (g.id, g.name) for g in named):
                    raise NotFound(f"there is no token {quoted(word)}", "see `stoker token ls`")
            tokens = {g.id for g in named if g.kind == "token"}
            gone = [g for g in grants if g in named or (tokens and _may_be_of(g, tokens))]
            grants[:] = [g for g in grants if g not in gone]
        return gone

    def revoke_all(self) -> list[Grant]:
        """Take all away: every script and every browser has to ask again."""
        with self._changing() as grants:
            gone = list(grants)
            grants.clear()
        return gone

    # ------------------------------------------------------------------ asking

    def grants(self) -> list[Grant]:
        """Those that have not expired. The file is read again only when it was changed."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._seen, self._grants = None, []
            return []
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._grants, self._seen = self._read(), seen
        now = self.now_ms()
        return [g for g in self._grants if g.expires_at_ms is None or g.expires_at_ms > now]

    def token(self, secret: str) -> Grant | None:
        """The token with this secret."""
        return self._find("token", secret)

    def browser(self, cookie: str) -> Grant | None:
        """The browser with this cookie."""
        return self._find("browser", cookie)

    def enter(self, secret: str, name: str) -> Entered | None:
        """Let a browser in, by a one-time key (which is used up) or by a token."""
        if self._find("token", secret) is None and self._find("key", secret) is None:
            return None  # Nothing is written for strangers.
        cookie, page = _secret(), _secret()
        with self._changing() as grants:
            now = self.now_ms()
            found = _same(grants, "token", secret, now) or _same(grants, "key", secret, now)
            if found is None:
                return None  # It was used or taken away in this moment.
            if found.kind == "key":
                grants.remove(found)
            let_in_by = found.id if found.kind == "token" else "key"
            _make_room(grants, let_in_by)
            ends = now + BROWSER_LASTS_MS
            if found.kind == "token" and found.expires_at_ms is not None:
                ends = min(ends, found.expires_at_ms)
            rights = (hashed(cookie), found.read_only, now, ends, hashed(page), let_in_by)
            grants.append(Grant(_free_id(grants), "browser", name[:100], *rights))
        return Entered(cookie, page, found.read_only)

    def remove_expired_ways_in(self) -> None:
        """Remove the files with one-time linkes that are not good any more."""
        self._remove_ways_in_but_of(self.grants())

    def leave(self, grant: Grant) -> None:
        """A browser signs out."""
        with self._changing() as grants:
            grants[:] = [g for g in grants if g.id != grant.id]

    # ------------------------------------------------------------------ the file

    def _add(
        self, kind: Kind, name: str, secret: str, read_only: bool, lasts_ms: int | None
    ) -> Grant:
        now = self.now_ms()
        with self._changing() as grants:
            ends = None if lasts_ms is None else now + lasts_ms
            grant = Grant(_free_id(grants), kind, name, hashed(secret), read_only, now, ends)
            grants.append(grant)
        return grant

    def _find(self, kind: Kind, secret: str) -> Grant | None:
        return _same(self.grants(), kind, secret, self.now_ms())

    @contextmanager
    def _changing(self) -> Iterator[list[Grant]]:
        """The grants, to be changed in place; the file is replaced whole when that is done."""
        make_private(self.home.root)
        lock = os.open(self.path + ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            now = self.now_ms()
            grants = [g for g in self._read() if g.expires_at_ms is None or g.expires_at_ms > now]
            yield grants
            self._write(grants)
            self._seen = None
            self._remove_ways_in_but_of(grants)
        finally:
            os.close(lock)

    @property
    def _ways_in(self) -> str:
        return os.path.join(self.home.root, "enter")

    def _remove_ways_in_but_of(self, grants: list[Grant]) -> None:
        kept = {_file_name(grant.hash) for grant in grants if grant.kind == "key"}
        try:
            names = os.listdir(self._ways_in)
        except FileNotFoundError:
            return
        for name in names:
            if name not in kept:
                Path(self._ways_in, name).unlink(missing_ok=True)

    def _read(self) -> list[Grant]:
        try:
            with open(self.path, encoding="utf-8") as file:
                content: dict[str, Any] = json.load(file)
            return [Grant(**fields) for fields in content["grants"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(
                f"{self.path} can't be read: {type(error).__name__}",
                "remove it; all tokens and browsers then have to be made anew",
            ) from None

    def _write(self, grants: list[Grant]) -> None:
        new = self.path + ".new"
        fd = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "grants": [_fields(grant) for grant in grants]}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        # Else what was revoked could be good again after a power cut.
        directory = os.open(self.home.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _fields(grant: Grant) -> dict[str, Any]:
    """What is written of a grant: nothing that a page of an older version could not read."""
    fields = asdict(grant)
    if grant.let_in_by is None:
        del fields["let_in_by"]
    return fields


def _file_name(key_hash: str) -> str:
    return f"{key_hash[:20]}.html"


def _may_be_of(grant: Grant, tokens: set[str]) -> bool:
    """Whether one of these tokens may have let a browser in."""
    return grant.kind == "browser" and (grant.let_in_by is None or grant.let_in_by in tokens)


def _make_room(grants: list[Grant], let_in_by: str) -> None:
    """Let the oldest browsers go where one more would be too many."""
    browsers = [g for g in grants if g.kind == "browser"]
    if let_in_by != "key":
        alike = [g for g in browsers if g.let_in_by == let_in_by]
        for oldest in alike[: max(0, len(alike) - MOST_BROWSERS_OF_A_TOKEN + 1)]:
            grants.remove(oldest)
            browsers.remove(oldest)
    for oldest in browsers[: max(0, len(browsers) - MOST_BROWSERS + 1)]:
        grants.remove(oldest)


def is_pages_own(grant: Grant, page: str) -> bool:
    """Whether a page's own secret belongs to its browser's cookie."""
    return bool(grant.second) and hmac.compare_digest(grant.second, hashed(page))


def _same(grants: list[Grant], kind: Kind, secret: str, now_ms: int) -> Grant | None:
    wanted = hashed(secret)
    found = None
    for grant in grants:
        lives = grant.expires_at_ms is None or grant.expires_at_ms > now_ms
        if hmac.compare_digest(grant.hash, wanted) and grant.kind == kind and lives:
            found = grant
    return found


def _secret() -> str:
    import base64

    return base64.urlsafe_b64encode(os.urandom(_SECRET_BYTES)).decode().rstrip("=")


def _free_id(grants: list[Grant]) -> str:
    taken = {grant.id for grant in grants}
    while True:
        found = "".join(_ID_LETTERS[byte % len(_ID_LETTERS)] for byte in os.urandom(6))
        if found not in taken and not found.isdigit():
            return found
