"""Which machine has a state directory: a file in it says so, and is touched while its daemon runs.

Locks tell the daemons of one machine apart; between machines that share a file system they may
hold or not. So the daemon that has the lock also has the claim. A machine that finds another's
keeps its hands off the state, be that machine dead or alive: its jobs may run there. Only
`stoker daemon claim` changes that, and only once the other has been silent for a while.

A daemon that ends with no job running takes its claim away. One whose claim is another's by now,
having slept through that, ends without another word to the database (see `Holding.renew`).

No two get it at once: a claim is made by `link`, which one of two can do. Its owner touches it and
then reads whose it is; another machine moves it away and then looks whether it was touched. So
one of the two notices the other, whichever is first.
"""

from __future__ import annotations

import errno
import os
import time
from glob import escape, glob
from typing import NamedTuple

from stoker.api.filesystems import is_shared, kind_of
from stoker.api.jsonline import dumps, loads
from stoker.errors import Failed
from stoker.machine import Place, here, user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.paths import Home

RENEWED_EVERY_S = 5.0
SILENT_AFTER_S = 30.0  # No other machine may claim a state before.
_LOOK_AGAIN_S = 0.2
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK)
_NOWHERE = Place("", "", "", "")


class OnAnotherMachine(Failed):
    """A state directory can't be used from here."""


class Claim(NamedTuple):
    """Whose the state is."""

    place: Place
    user: str
    pid: int
    since_ms: int
    token: str  # no two claims have the same
    over_another: bool = False  # another machine's jobs may be in the state, to be given up

    @property
    def is_known(self) -> bool:
        """False if the file says nothing that could be read."""
        return self.place != _NOWHERE

    def is_ours(self, *, shared: bool) -> bool:
        """True if this machine has the state."""
        return here().is_machine_of(self.place, shared=shared)


_UNKNOWN = Claim(_NOWHERE, "", 0, 0, "")


def read_claim(home: Home) -> Claim | None:
    """The claim on a state directory, if there is one."""
    found = _look(home.claim)
    return None if found is None else found.claim


class _Seen(NamedTuple):
    """A claim as it was found."""

    claim: Claim
    renewed_ns: int


def _look(path: str) -> _Seen | None:
    """What a claim says, and when it was touched.

    The file is opened for both: what NFS has cached of it is then asked for again.
    """
    try:
        with open(path, "rb") as file:
            return _Seen(_understood(file.read(10_000)), os.fstat(file.fileno()).st_mtime_ns)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failed(f"can't read {path}: {error.strerror}", "make it readable") from None


def _understood(text: bytes) -> Claim:
    try:
        fields = loads(text.decode())
        return Claim(
            Place(**{name: str(fields["place"][name]) for name in Place._fields}),
            str(fields["user"]),
            int(fields["pid"]),
            int(fields["since_ms"]),
            str(fields["token"]),
            bool(fields["over_another"]),
        )
    except (ValueError, KeyError, TypeError):
        return _UNKNOWN  # Whose it is can't be told, so it is not ours.


def check(home: Home) -> Claim | None:
    """The claim on a state directory; refuses if it is another machine's."""
    claim = read_claim(home)
    if claim is None or claim.is_ours(shared=is_shared(kind_of(home.root))):
        return claim
    raise elsewhere(home, claim)


def elsewhere(home: Home, claim: Claim) -> OnAnotherMachine:
    """What to say to a user on the wrong machine."""
    silent_s = silent_for_s(home)
    if silent_s < SILENT_AFTER_S:
        wait = f"{int(SILENT_AFTER_S - silent_s) + 1} s"
        hint = (
            "use it there, or run `stoker daemon stop` there; if that machine is down, "
            f"run `stoker daemon claim` here in {wait}"
        )
    else:
        hint = (
            f"no sign of life for {ago(silent_s)}: start it there; or, if that machine is down, "
            "run `stoker daemon claim` here"
        )
    return OnAnotherMachine(
        f"{home.root} is in use by {whose(claim)}",
        f"{hint}; or set STOKER_HOME to another directory",
    )


def whose(claim: Claim) -> str:
    """A claim in words."""
    if not claim.is_known:
        return "an unknown machine"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(claim.since_ms / 1000))
    return f"{claim.place.host} (user {claim.user}, since {since})"


def ago(seconds: float) -> str:
    """A length of time in words, roughly."""
    from stoker.text import duration_text

    return duration_text(int(seconds) * 1000)


def silent_for_s(home: Home) -> float:
    """For how long the claim was not renewed, by the clock of the file system that it is on."""
    try:
        seen = _look(home.claim)
    except Failed:
        seen = None
    return 0.0 if seen is None else _silence_s(home, seen)


def _silence_s(home: Home, seen: _Seen) -> float:
    return max(0.0, _now_of_file_system_s(home) - seen.renewed_ns / 1e9)


def _now_of_file_system_s(home: Home) -> float:
    """Clocks of machines differ; what is compared must come from one of them."""
    beside = _beside(home, "now")
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        try:
            os.utime(beside)
            return os.stat(beside).st_mtime
        finally:
            os.unlink(beside)
    except OSError:
        return time.time()


def _beside(home: Home, what: str) -> str:
    """The name of a file of our own: a pid alone may be another machine's, too."""
    return f"{home.claim}.{_own_name()}.{os.getpid()}.{what}"


def _own_name() -> str:
    return here().host.replace("/", "_")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _link(existing: str, new: str) -> bool:
    """Give a file a second name; False if that one is taken. Only one machine can do so."""
    try:
        try:
            os.link(existing, new)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A copy will do, which one alone can make. Until it is whole it is of no known machine.
            with open(existing, "rb") as source:
                _write_text(new, source.read(), os.O_EXCL)
    except FileExistsError:
        return False
    return True


class Holding:
    """The claim of the daemon in this process, which has the lock."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.shared = is_shared(kind_of(home.root))
        found = check(home)
        if found is not None and self.shared and found.place.boot != here().boot:
            self._wait_for_a_sign(found)
        self.claim = _new_claim(over_another=found is not None and found.over_another)
        if found is not None:
            self._hold_on_to(found)
        self._put(replace=found is not None)
        self.renewed_at_s = _steady_s()
        for left in glob(f"{escape(home.claim)}.{escape(_own_name())}.[0-9]*.[no][el][wd]"):
            _remove(left)  # Of those that were killed while they wrote theirs, or took one away.

    def _wait_for_a_sign(self, found: Claim) -> None:
        """It says that this machine had it before its last start, which a copy of it would say too.

        Such a copy may be at work, and then it touches its claim.
        """
        first = now = _look(self._home.claim)
        while silent_for_s(self._home) < SILENT_AFTER_S:
            if first is None or now is None or now.claim != found or now > first:
                raise elsewhere(self._home, found)
            time.sleep(_LOOK_AGAIN_S)
            now = _look(self._home.claim)

    def _hold_on_to(self, found: Claim) -> None:
        """An earlier claim of this machine: from now on no other machine can take it for silent."""
        try:
            os.utime(self._home.claim)
        except FileNotFoundError:
            pass
        now = read_claim(self._home)
        if now is None or now.token != found.token:
            check(self._home)
            raise Failed(f"{self._home.claim} was changed meanwhile", "try again")

    def _put(self, *, replace: bool) -> None:
        """Write the claim down; where none is to be replaced, only one machine can do so."""
        beside = _beside(self._home, "new")
        try:
            _write(beside, self.claim)
            if not replace and _link(beside, self._home.claim):
                os.unlink(beside)
            else:
                if not replace:
                    check(self._home)  # Another machine may have been quicker.
                os.rename(beside, self._home.claim)
        except BaseException:
            _remove(beside)
            raise

    def renew(self) -> bool:
        """Touch the claim; False if it is another's by now.

        A file system that does not answer is no reason to end: no claim passes on by itself.
        """
        try:
            os.utime(self._home.claim)
            now = read_claim(self._home)
            if now is None:
                return self._put_again()
        except FileNotFoundError:
            return self._put_again()
        except (Failed, OSError):
            return True
        if now.token != self.claim.token:
            return False
        self.renewed_at_s = _steady_s()
        return True

    def _put_again(self) -> bool:
        if os.path.isdir(self._home.root):
            try:
                self._put(replace=False)
            except Failed:
                return False
            except OSError:
                pass
        return True

    def is_overdue(self) -> bool:
        """True if this process has slept, so that the claim may have been given up for dead."""
        return _steady_s() - self.renewed_at_s > SILENT_AFTER_S / 2

    def has_given_up_others(self) -> None:
        """What ran on the machine that had the state before is on record as lost."""
        if self.claim.over_another:
            self.claim = self.claim._replace(over_another=False)
            self._put(replace=True)

    def release(self) -> None:
        """Nothing of this machine is left in the state: any may have it."""
        try:
            now = read_claim(self._home)
            if now is not None and now.token == self.claim.token:
                os.unlink(self._home.claim)
        except (OSError, Failed):
            pass


def claim_from_another(home: Home) -> Claim | None:
    """Make the state this machine's, and give up what runs elsewhere; whose it was.

    Refused while the other shows signs of life.
    """
    from stoker.api.holder import holder
    from stoker.api.paths import make_private

    make_private(home.root)
    seen = _look(home.claim)
    found = None if seen is None else seen.claim
    ours = found is not None and found.is_ours(shared=is_shared(kind_of(home.root)))
    if seen is not None and not ours and _silence_s(home, seen) < SILENT_AFTER_S:
        raise elsewhere(home, seen.claim)
    if holder(home) is not None:
        by = "" if found is None else f" of {whose(found)}"
        raise Failed(f"a daemon{by} has {home.root}", "stop that one first")
    beside = _beside(home, "new")
    try:
        _write(beside, _new_claim(over_another=True))
        if (seen is not None and not _move_away(home, seen)) or not _link(beside, home.claim):
            raise elsewhere(home, read_claim(home) or _UNKNOWN)
    finally:
        _remove(beside)
    return None if ours else found


def _move_away(home: Home, seen: _Seen) -> bool:
    """Take a claim from its place; False, and it is put back, if that is not as it was seen."""
    aside = _beside(home, "old")
    try:
        os.rename(home.claim, aside)
    except FileNotFoundError:
        return True  # Given up meanwhile.
    try:
        as_seen = _look(aside) == seen
        if not as_seen:
            _link(aside, home.claim)
    finally:
        _remove(aside)
    return as_seen


def _new_claim(*, over_another: bool) -> Claim:
    import secrets

    now_ms = time.time_ns() // 1_000_000
    user, token = user_name(os.geteuid()), secrets.token_hex(16)
    return Claim(here(), user, os.getpid(), now_ms, token, over_another)


def _write(path: str, claim: Claim) -> None:
    """The whole claim, on the disk before any process can see it."""
    text = dumps({**claim._asdict(), "place": claim.place._asdict()}) + "\n"
    _write_text(path, text.encode(errors="replace"), os.O_TRUNC)


def _write_text(path: str, text: bytes, how: int) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | how, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
    except OSError:
        _remove(path)  # Half of it would say nothing, and be in the way.
        raise


def _steady_s() -> float:
    """It goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
