"""GPUs as lines of text: use over time, memory as ours / others / free, what is on each.

Pure: what the daemon tells of GPUs goes in, lines go out. A GPU that is not measured shows what is
reserved on it, and says that it is not measured.
"""

from __future__ import annotations

from stoker.top.paint import cell, fitted, piece, spaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from stoker.top.paint import Glyphs, Line

    Gpu = dict[str, Any]
    History = Sequence[float | None]  # use in percent, oldest first

_LEAST_COMPACT = 36  # columns that a GPU takes where several stand beside each other
_STATE_STYLES = {"free": "dim", "busy": "green", "shared": "green", "drained": "magenta",
                 "removing": "magenta"}  # fmt: skip


def gpu_lines(
    gpus: Sequence[Gpu],
    histories: Mapping[str, History],
    names: Mapping[int, str],
    columns: int,
    most_rows: int,
    glyphs: Glyphs,
) -> list[Line]:
    """A title and a line for each GPU; where there are too many, several beside each other."""
    if not gpus:
        return [[piece("no GPUs yet: `stoker config set gpus 0,1` declares some", "dim")]]
    layout = _Layout(gpus, columns)
    if len(gpus) + 1 <= most_rows:
        each = [layout.line(one, histories.get(str(one["id"]), ()), names, glyphs) for one in gpus]
        return [layout.title(glyphs), *each]
    return _compact(gpus, histories, columns, most_rows, glyphs)


def spark(history: History, columns: int, glyphs: Glyphs) -> Line:
    """Use over time, the latest at the right; what was not measured stays blank."""
    shown = list(history)[-columns:] if columns > 0 else []
    top = len(glyphs.levels) - 1
    line: Line = [(" " * (columns - len(shown)), "")] if len(shown) < columns else []
    for value in shown:
        if value is None:
            sign, style = " ", ""
        else:
            sign = glyphs.levels[min(top, max(0, int(value / 100 * top + 0.5)))]
            style = load_style(value)
        if line and line[-1][1] == style:
            sign = line.pop()[0] + sign
        line.append((sign, style))
    return line


def load_style(percent: float) -> str:
    """The colour of a load: little, some, much, by the limits of nvitop."""
    return "dim" if percent < 10 else "green" if percent < 75 else "red"


def memory_bar(gpu: Gpu, columns: int, glyphs: Glyphs) -> Line:
    """Memory as ours, others, reserved but not used, and free."""
    total = gpu.get("memory_mib") or 0
    reserved = gpu.get("reserved_mib") or 0
    if _is_measured(gpu):
        ours, others = gpu.get("ours_mib") or 0, gpu.get("others_mib") or 0
        total = total or (gpu.get("used_mib") or 0) + (gpu.get("free_mib") or 0)
    else:
        # A job that has a GPU to itself takes all of it, whether or not its memory is known.
        total, ours, others = total or 1000, 0, 0
        reserved = max(reserved, round((gpu.get("share_used") or 0) * total))
    if total < 1:
        return [(" " * columns, "")]
    cells = _shares([ours, others, max(0, reserved - ours)], total, columns)
    free = columns - sum(cells)
    signs = (glyphs.ours, glyphs.others, glyphs.reserved)
    own = load_style(max(ours + others, reserved) / total * 100)
    styles = (own, "magenta", own)
    line = [(sign * count, style) for sign, count, style in zip(signs, cells, styles, strict=True)]
    line.append((glyphs.free * free, "dim"))
    return [one for one in line if one[0]]


def _shares(parts: Sequence[int], total: int, columns: int) -> list[int]:
    """How many columns each part takes: at least one if it is anything, never more than all."""
    found = []
    room = columns
    for part in parts:
        count = min(room, max(round(part / total * columns), 1 if part > 0 else 0))
        found.append(count)
        room -= count
    return found


def memory_words(gpu: Gpu) -> str:
    """How much of its memory is taken: "34.1/80G"; of one that is not measured, reserved."""
    total = gpu.get("memory_mib") or 0
    taken = gpu.get("used_mib") if _is_measured(gpu) else gpu.get("reserved_mib") or 0
    if total and taken is not None:
        return f"{_gib(taken)}/{_gib(total)}G"
    share = gpu.get("share_used") or 0
    return f"{share:.0%}" if share else ""


def _gib(mib: int) -> str:
    gib = mib / 1024
    return f"{gib:.0f}" if gib >= 100 or abs(gib - round(gib)) < 0.05 else f"{gib:.1f}"


def _is_measured(gpu: Gpu) -> bool:
    return gpu.get("used_mib") is not None


def _degrees(gpu: Gpu, glyphs: Glyphs) -> str:
    value = gpu.get("temperature_c")
    return "" if value is None else f"{value:.0f}{glyphs.degree}"


def _power(gpu: Gpu, *, limit: bool) -> str:
    value, most = gpu.get("power_w"), gpu.get("power_limit_w")
    if value is None:
        return ""
    return f"{value:.0f}/{most:.0f}W" if limit and most else f"{value:.0f}W"


def _use(gpu: Gpu) -> str:
    value = gpu.get("utilisation_percent")
    return "" if value is None else f"{value:.0f}%"


def label(gpu: Gpu) -> str:
    """What people call a GPU: its index, else its id."""
    index = gpu.get("index")
    return str(gpu["id"]) if index is None else str(index)


def _name(gpu: Gpu) -> str:
    """What kind of GPU it is, without its vendor's name."""
    name = str(gpu.get("name") or "")
    for vendor in ("NVIDIA ", "AMD "):
        name = name.removeprefix(vendor)
    return name.removeprefix("GeForce ")


def _standing(gpu: Gpu) -> tuple[str, str]:
    """The word for how a GPU stands, the worst first."""
    if gpu.get("fault"):
        return "fault", "bold red"
    if gpu.get("stale"):
        return "stale", "red"
    state = str(gpu["state"])
    if state == "foreign" or (state == "free" and gpu.get("foreign")):
        return "in use", "magenta"
    return state, _STATE_STYLES.get(state, "")


def _who(gpu: Gpu, names: Mapping[int, str], glyphs: Glyphs) -> Line:
    """The jobs on a GPU, and the strangers; a fault comes before either."""
    if gpu.get("fault"):
        return [piece(str(gpu["fault"]), "red")]
    line: Line = []
    for job_id in gpu.get("jobs") or ():
        name = names.get(job_id)
        line.append(piece(f"{', ' if line else ''}{job_id}"))
        if name:
            line.append(piece(f" {name}", "bold"))
    for stranger in gpu.get("foreign") or ():
        parts = (stranger.get("user"), stranger.get("command"), stranger.get("pid"))
        words = " ".join(str(part) for part in parts if part)
        line.append(piece(f"{', ' if line else ''}other: {words or '?'}", "magenta"))
    return line


class _Layout:
    """Which columns there is something for, and how wide each may be."""

    def __init__(self, gpus: Sequence[Gpu], columns: int) -> None:
        self._columns = columns
        self._wide = columns >= 110
        self._id = min(12, max(3, *(len(label(gpu)) for gpu in gpus)))
        names = [_name(gpu) for gpu in gpus]
        self._name = min(max(map(len, names)), 24 if self._wide else 10)
        self._has_use = any(gpu.get("utilisation_percent") is not None for gpu in gpus)
        self._temperature = 5 if any(gpu.get("temperature_c") is not None for gpu in gpus) else 0
        has_power = any(gpu.get("power_w") is not None for gpu in gpus)
        self._power = (9 if self._wide else 4) if has_power else 0
        self._is_measured = any(_is_measured(gpu) for gpu in gpus)
        self._has_memory = self._is_measured or any(gpu.get("memory_mib") for gpu in gpus)
        self._words = max(*(len(memory_words(gpu)) for gpu in gpus), 4)
        self._state = max(*(len(_standing(gpu)[0]) for gpu in gpus), 5)
        fixed = [self._id, self._name, self._temperature, self._power, self._words, self._state]
        if self._has_use:
            fixed.append(4)
        room = columns - sum(fixed) - sum(1 for one in fixed if one) - 2
        # What is left is shared by the plot, the bar, and the names of the jobs.
        self._spark = max(6, min(60, room * 3 // 10)) if self._has_use else 0
        self._bar = max(8, min(48, room * 4 // 10))

    def title(self, glyphs: Glyphs) -> Line:
        """The names of the columns; over the bar, what its signs mean."""
        room = self._bar + 1 + self._words
        used = f" {glyphs.ours}ours {glyphs.others}others" if self._is_measured else ""
        legends = (f"MEMORY{used} {glyphs.reserved}reserved", f"MEMORY{used}", "MEMORY")
        fitting = [words for words in legends if len(words) <= room]
        line = spaced(
            cell("GPU", self._id, "dim"),
            cell("NAME", self._name, "dim"),
            cell("USE", self._spark + 5, "dim") if self._has_use else [],
            cell(fitting[0] if self._has_memory else "TAKEN", room, "dim"),
            cell("TEMP", self._temperature, "dim", right=True),
            cell("POWER" if self._wide else "PWR", self._power, "dim", right=True),
            cell("STATE", self._state, "dim"),
            cell("JOBS", 4, "dim"),
        )
        return fitted(line, self._columns)

    def line(self, gpu: Gpu, history: History, names: Mapping[int, str], glyphs: Glyphs) -> Line:
        """One GPU."""
        use: Line = []
        if self._has_use and gpu.get("utilisation_percent") is None:
            use = cell("not measured", self._spark + 5, "dim")
        elif self._has_use:
            use = [*spark(history, self._spark, glyphs), *cell(_use(gpu), 5, right=True)]
        standing, style = _standing(gpu)
        line = spaced(
            cell(label(gpu), self._id, "bold"),
            cell(_name(gpu), self._name),
            use,
            memory_bar(gpu, self._bar, glyphs),
            cell(memory_words(gpu), self._words, right=True),
            cell(_degrees(gpu, glyphs), self._temperature, right=True),
            cell(_power(gpu, limit=self._wide), self._power, right=True),
            cell(standing, self._state, style),
            _who(gpu, names, glyphs),
        )
        return fitted(line, self._columns)


def _compact(
    gpus: Sequence[Gpu],
    histories: Mapping[str, History],
    columns: int,
    most_rows: int,
    glyphs: Glyphs,
) -> list[Line]:
    """Several GPUs beside each other, read down each column; what finds no room is counted."""
    beside = max(1, (columns + 2) // (_LEAST_COMPACT + 2))
    rows = -(-len(gpus) // beside)
    left_out = 0
    if rows > most_rows:
        rows = max(1, most_rows - 1)
        left_out = len(gpus) - rows * beside
    each = (columns - 2 * (beside - 1)) // beside
    id_width = min(8, max(len(label(gpu)) for gpu in gpus))
    words_width = max(*(len(memory_words(gpu)) for gpu in gpus), 4)
    state_width = max(*(len(_standing(gpu)[0]) for gpu in gpus), 4)
    room = max(8, each - id_width - words_width - state_width - 3)
    has_use = any(gpu.get("utilisation_percent") is not None for gpu in gpus)
    plot = room * 4 // 10 if has_use else 0
    bar = room - plot - (6 if has_use else 0)
    lines: list[Line] = []
    for row in range(rows):
        line: Line = []
        for place in range(row, min(len(gpus), rows * beside), rows):
            gpu = gpus[place]
            use: Line = []
            if has_use:
                use = spark(histories.get(str(gpu["id"]), ()), plot, glyphs)
                use += cell(_use(gpu), 5, right=True)
            standing, style = _standing(gpu)
            part = spaced(
                cell(label(gpu), id_width, "bold"),
                use,
                memory_bar(gpu, max(1, bar), glyphs),
                cell(memory_words(gpu), words_width, right=True),
                cell(standing, state_width, style),
            )
            if line:
                line.append(("  ", ""))
            line += fitted(part, each)
        lines.append(fitted(line, columns))
    if left_out > 0:
        lines.append(
            fitted([piece(f"and {left_out} more: `stoker gpus` lists all", "dim")], columns)
        )
    return lines
