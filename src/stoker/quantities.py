"""Amounts as people write them (memory, durations, counts, lists) turned into numbers.

Pure functions: no clock, no IO. What can't be understood is a UsageError that says what to write
instead. Every submission imports this file, so it imports nothing that is slow to load. Moments
are read in moments.py; `text` says times.
"""

from __future__ import annotations

from stoker import errors
from stoker.errors import UsageError
from stoker.errors import quoted as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MEMORY_MIB = 10**9
MAX_DURATION_MS = 10**12
MAX_GPUS = 4096
MAX_LABEL_CHARS = 200

# Memory units are powers of 1024 however they are written: GPU vendors and drivers count so, and
# 24GB for a 24 GiB card is meant to be all of it.
_KIB_OF_UNIT = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}

_MS_OF_UNIT = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_UNIT_NAMES = {
    "week": "w", "weeks": "w",
    "day": "d", "days": "d",
    "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
    "min": "m", "mins": "m", "minute": "m", "minutes": "m",
    "sec": "s", "secs": "s", "second": "s", "seconds": "s",
}  # fmt: skip


def plain(text: str) -> str:
    """A value that is taken as it is, as long as the daemon can be told of it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{quoted(text)} is not valid UTF-8", "write it in UTF-8") from None
    return text


def is_digits(text: str) -> bool:
    """Whether it has digits only, and some, of ASCII's."""
    return text.isascii() and text.isdigit()


def _decimal(text: str) -> tuple[int, int] | None:
    """A plain decimal number as (digits, power of ten to divide by), exact; None if it is not one.

    Floats would turn 0.1h into 360000.00000000006 ms; integers don't.
    """
    whole, dot, fraction = text.partition(".")
    if len(text) > 20 or not is_digits(whole + fraction) or not whole or (dot and not fraction):
        return None
    return int(whole + fraction), 10 ** len(fraction)


def _divided_up(value: int, divisor: int) -> int:
    """Integer division that rounds up: a reservation or a time limit is never less than asked."""
    return -(-value // divisor)


def whole_number(text: str, lowest: int, highest: int, what: str = "number") -> int:
    """A whole number within limits."""
    text = text.strip()
    if len(text) > 20 or not is_digits(text.removeprefix("-").removeprefix("+")):
        few = highest < 1_000_000
        which = f"from {lowest} to {highest}" if few else f"such as {max(lowest, 1)}"
        article = "an" if what[0] in "aeiou" else "a"
        raise UsageError(f"{quoted(text)} is not a whole number", f"write {article} {what} {which}")
    value = int(text)
    if value < lowest:
        raise UsageError(f"{value} is too small", f"the {what} must be at least {lowest}")
    if value > highest:
        raise UsageError(f"{value} is too large", f"the {what} must be at most {highest}")
    return value


def number_within(lowest: int, highest: int, what: str = "number") -> Callable[[str], int]:
    """What reads a whole number within these limits."""
    return lambda text: whole_number(text, lowest, highest, what)


# --- memory -------------------------------------------------------------------------------------


def memory_mib(text: str, bare: str = "") -> int:
    """ "8G", "8GiB", "512M", "1.5g"; `bare` is the unit of a bare number, which has none here."""
    compact = text.strip().lower()
    number = compact.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = compact[len(number) :] or bare
    decimal = _decimal(number.strip())
    kib = _KIB_OF_UNIT.get(unit.removesuffix("b").removesuffix("i") if unit else "m")
    # "8b", "8i" and "8bi" leave an empty or odd unit behind, which is not in the table.
    if decimal is None or kib is None:
        raise UsageError(
            f"{quoted(text)} is not an amount of memory", "write e.g. 8G, 512M or 1.5G"
        )
    digits, divisor = decimal
    if digits and not unit:
        if digits < 1000 * divisor:
            raise errors.NoUnit.of(text, f"{number.strip()}G", f"{number.strip()}M")
        # As a number of GiB it is more than any GPU has.
        raise errors.NoUnit.of(text, f"{number.strip()}M", f"{round(digits / divisor / 1024)}G")
    mib = _divided_up(digits * kib, divisor * 1024)
    if mib == 0:
        raise UsageError(
            "no memory at all can't be reserved", "leave the option out, or write e.g. 8G"
        )
    if mib > MAX_MEMORY_MIB:
        raise UsageError(f"{quoted(text)} is more memory than any GPU has", "write e.g. 8G or 512M")
    return mib


def size_mib(text: str, hint: str = "write e.g. 500M or 2G") -> int:
    """ "2G", "500M": so much of a disk."""
    try:
        return memory_mib(text)
    except errors.NoUnit:
        raise
    except UsageError:
        raise UsageError(f"{quoted(text)} is not a size", hint) from None


def log_bound(text: str) -> int:
    """How many MiB of a log are kept; 0 for "off": all of it."""
    word = text.strip().lower()
    mib = 0 if word == "off" else size_mib(text, "write e.g. 500M, 2G or off")
    number = word.rstrip("kmgtib ")
    if mib == 1 and float(number) * _KIB_OF_UNIT[word[len(number) :].strip()[0]] < 1024:
        raise UsageError(f"{quoted(text)} is too little for a log", "write 1M or more, or off")
    return mib


def job_memory(text: str) -> int | str:
    """ "8G" in MiB; or "auto" (as jobs of its kind were seen to use) or "whole" (whole GPUs)."""
    word = text.strip().lower()
    return word if word in ("auto", "whole") else memory_mib(text)


def percentage(text: str) -> int:
    """ "50" or "50%": a whole number from 0 to 100."""
    return whole_number(text.strip().removesuffix("%"), 0, 100, "percentage")


def memory_margin(text: str, bare: str = "") -> tuple[int, int]:
    """ "15%" is 15 % and at least 512 MiB over what was seen; "2G" is exactly that much."""
    text = text.strip()
    if text.endswith("%"):
        return whole_number(text[:-1].strip(), 0, 1000, "percentage"), 512
    try:
        return 0, 0 if text == "0" else memory_mib(text, bare)
    except UsageError as error:
        if text.isdecimal() and int(text) <= 100:  # The default is a percentage too.
            error.hint = f"{text}%, {error.hint}"
        raise


def memory_text(mib: int) -> str:
    """Memory for people: "512 MiB", "23.5 GiB"."""
    return f"{mib} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


# --- durations ----------------------------------------------------------------------------------


def duration_ms(text: str, bare: str = "", likely: str = "sm") -> int:
    """ "30s", "2h", "1h30m", "1d", "0.5h", "1h 30m", "250ms", "0".

    `bare` is the unit of a bare number. Without one it is refused, and asked for the `likely` ones.
    """
    refusal = UsageError(
        f"{quoted(text)} is not a length of time", "write e.g. 90s, 30m, 2h, 1h30m or 1d"
    )
    rest = text.strip().lower()
    bare_number = _decimal(rest)
    if bare_number is not None:
        if bare_number[0] and not bare:
            few = likely != "mh" or bare_number[0] <= 60 * bare_number[1]
            units = likely if few else "sm"
            raise errors.NoUnit.of(text, rest + units[0], rest + units[1])
        rest += bare or "s"  # Zero needs no unit.
    total_ms = 0
    previous_unit_ms = MAX_DURATION_MS
    while rest:
        number_length = _leading(rest, "0123456789.")
        number, rest = rest[:number_length], rest[number_length:].lstrip()
        unit_length = _leading(rest, "abcdefghijklmnopqrstuvwxyz")
        unit, rest = rest[:unit_length], rest[unit_length:].lstrip()
        decimal = _decimal(number)
        unit_ms = _MS_OF_UNIT.get(_UNIT_NAMES.get(unit, unit), 0)
        # Units go from large to small, so that "5m2h" is caught as the slip that it is.
        if decimal is None or not unit_ms or unit_ms >= previous_unit_ms:
            raise refusal
        previous_unit_ms = unit_ms
        total_ms += _divided_up(decimal[0] * unit_ms, decimal[1])
    if previous_unit_ms == MAX_DURATION_MS:
        raise refusal
    if total_ms > MAX_DURATION_MS:
        raise UsageError(f"{quoted(text)} is too long", "at most about 30 years (11574d)")
    return total_ms


def _leading(text: str, alphabet: str) -> int:
    return len(text) - len(text.lstrip(alphabet))


def exact_duration(value_ms: int) -> str:
    """ "1.5s": all of it, as `duration_ms` reads it."""
    return f"{value_ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"


def run_time_ms(text: str) -> int:
    """How long a job may run, which is minutes or hours."""
    return positive_duration_ms(text, likely="mh")


def positive_duration_ms(text: str, likely: str = "sm") -> int:
    """A duration that is not zero."""
    value_ms = duration_ms(text, likely=likely)
    if value_ms == 0:
        raise UsageError("a time of zero makes no sense here", "write e.g. 90s, 30m or 2h")
    return value_ms


# --- GPUs ---------------------------------------------------------------------------------------


_HEX = "0123456789abcdef"


def gpu_need(text: str) -> tuple[int | None, float | None]:
    """ "2" is (2, None): so many GPUs; "0.5" is (None, 0.5): a share of one."""
    decimal = _decimal(text.strip())
    if decimal is None:
        listed = text.strip("0123456789,- ") == "" and text[:1].isdigit()
        raise UsageError(
            f"{quoted(text)} is not a number of GPUs",
            f"to name them write --on {text.replace(' ', '')}; --gpus is how many" if listed
            else "write e.g. 1, 2, 0, or a share such as 0.5",
        )  # fmt: skip
    digits, divisor = decimal
    count, rest = divmod(digits, divisor)
    if rest and count:
        raise UsageError(
            f"{quoted(text)} GPUs can't be had", "write whole GPUs (2) or a share of one (0.5)"
        )
    if count > MAX_GPUS:
        raise UsageError(f"{quoted(text)} GPUs are too many", f"at most {MAX_GPUS}")
    if not rest:
        return count, None
    share_milli = (digits * 2000 + divisor) // (2 * divisor)  # rounded to the nearest
    if not 0 < share_milli < 1000:
        raise UsageError(
            f"{quoted(text)} is not a share of a GPU", "write a share from 0.001 to 0.999"
        )
    return None, share_milli / 1000


def gpu_ids(text: str) -> list[str]:
    """ "0,1,2", "0-3", or ids as the driver gives them; order is kept, repetitions are dropped."""
    parts = text.split(",")
    return list(dict.fromkeys(gpu for part in parts for gpu in _gpu_range(part.strip(), text)))


def _gpu_range(part: str, whole: str) -> list[str]:
    refusal = UsageError(f"{quoted(whole)} is not a list of GPUs", "write e.g. 0,1,2 or 0-3")
    if not part or not part.isascii() or not part.isprintable() or " " in part or ":" in part:
        raise refusal
    if is_digits(part):
        if len(part) > 9:
            raise refusal
        return [str(int(part))]
    first, dash, last = part.partition("-")
    if dash and is_digits(first) and is_digits(last):
        if len(first) > 9 or len(last) > 9 or int(first) > int(last):
            raise refusal
        if int(last) - int(first) >= MAX_GPUS:
            raise UsageError(f"{quoted(whole)} are too many GPUs", f"at most {MAX_GPUS}")
        return [str(n) for n in range(int(first), int(last) + 1)]
    if not part.strip("0123456789-"):
        raise refusal  # A range that went wrong, such as "3-" or "1-2-3".
    return [part]


def can_be_gpu(name: str) -> bool:
    """Whether it is an index, or a UUID as drivers give them: GPU-…, MIG-…, or a bare one."""
    bare = name.replace("-", "")
    is_uuid = len(bare) == 32 and name.count("-") == 4 and not bare.lower().strip(_HEX)
    return is_digits(name) or (len(name) > 4 and name.startswith(("GPU-", "MIG-"))) or is_uuid


def declared_gpus(text: str) -> list[tuple[str, int | None]]:
    """ "0,1:24G,2-3:80G" is [("0", None), ("1", 24576), ("2", 81920), ("3", 81920)]."""
    declared: dict[str, int | None] = {}
    for part in text.split(","):
        ids, colon, memory = part.strip().partition(":")
        mem_mib = memory_mib(memory) if colon else None
        for gpu in _gpu_range(ids, text):
            if not can_be_gpu(gpu):
                raise UsageError(
                    f"{quoted(gpu)} can't be a GPU", "write its index, e.g. 0, or its UUID, GPU-…"
                )
            if gpu in declared:
                raise UsageError(f"GPU {gpu} is named twice", "name each GPU once, e.g. 0,1:24G")
            declared[gpu] = mem_mib
    return list(declared.items())


def declared_gpus_text(declared: list[tuple[str, int | None]]) -> str:
    """The inverse of `declared_gpus`."""
    return ",".join(
        gpu if mem_mib is None else f"{gpu}:{_exact_memory(mem_mib)}" for gpu, mem_mib in declared
    )


def _exact_memory(mib: int) -> str:
    return f"{mib // 1024}G" if mib % 1024 == 0 else f"{mib}M"


# --- jobs ---------------------------------------------------------------------------------------


def job_ids(text: str) -> list[str]:
    """ "7", "3-9", "last", or several of these with commas; only the form is checked here."""
    ids: list[str] = []
    for part in text.split(","):
        word = part.strip()
        first, dash, last = word.partition("-")
        numbers = [first, last] if dash else [first]
        if word == "last":
            ids.append(word)
        elif all(is_digits(n) and len(n) <= 18 for n in numbers):
            if dash and int(first) > int(last):
                raise UsageError(
                    f"{quoted(word)} runs backwards", f"write {int(last)}-{int(first)}"
                )
            ids.append("-".join(str(int(n)) for n in numbers))
        else:
            raise UsageError(f"{quoted(text)} is not a job's id", "write e.g. 7, 3-9 or last")
    return ids


def label(text: str) -> str:
    """A job's or group's name: one line of printable text."""
    if not text.strip():
        raise UsageError("a name can't be empty", "write some letters, or leave the option out")
    if len(text) > MAX_LABEL_CHARS:
        raise UsageError("the name is too long", f"at most {MAX_LABEL_CHARS} characters")
    if not text.isprintable():
        what = "a newline or another control character"
        if "\u200d" in text and text.replace("\u200d", "").isprintable():
            what = "an invisible character (U+200D, as in emoji that are made of several)"
        raise UsageError(
            f"the name {quoted(text)} has {what} in it", "use printable characters only"
        )
    return text


def sweep_label(text: str) -> str:
    """A sweep's name, which can't be taken for the id of a job."""
    name = label(text)
    if name.isdigit() or name == "last":
        raise UsageError(f"{quoted(name)} would be taken for a job's id", "use letters too")
    return name


def env_pair(text: str) -> tuple[str, str]:
    """ "K=V" as ("K", "V")."""
    key, equals, value = text.partition("=")
    if not key or not equals or not key.isprintable() or " " in key:
        raise UsageError(f"{quoted(text)} does not set an environment variable", "write NAME=VALUE")
    return key, value


def signal_spec(text: str) -> tuple[str, int]:
    """ "USR1@2m" is ("USR1", 120000): which signal, and how long before the time limit."""
    name, at, before = text.partition("@")
    if not at:
        raise UsageError(f"{quoted(text)} does not say when", "write e.g. USR1@2m")
    return signal_name(name), positive_duration_ms(before)


def signal_name(text: str) -> str:
    """ "USR1", "SIGUSR1", "usr1" and "10" are all "USR1"."""
    import _signal  # type: ignore[import-not-found]

    # The plain `signal` module builds enums, which takes longer than all of this.
    numbers: dict[str, int] = {
        name[3:]: value
        for name, value in vars(_signal).items()
        if name.startswith("SIG") and not name.startswith("SIG_") and isinstance(value, int)
    }
    word = text.strip().upper().removeprefix("SIG")
    if word in numbers:
        return word
    if is_digits(word) and len(word) <= 3:
        for name, value in sorted(numbers.items()):
            if value == int(word):
                return name
    raise UsageError(f"there is no signal {quoted(text)}", "write e.g. USR1, TERM or INT")
