"""The house is tidy: nothing in it is dead, too long, or called by a name that was given up.

The tables are the exceptions. One that is not needed any more fails as well, so they only shrink.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stoker.store.named_sql import queries

REPO = Path(__file__).parents[2]
SRC = REPO / "src"
STATIC = SRC / "stoker" / "web" / "static"
VENDORED = STATIC / "vendor"  # as others have published it

MOST_LINES = 500
STILL_LONGER: set[str] = set()

# Ruff looks at the lines of Python.
MOST_COLUMNS = 120
LINES_OF = ("*.js", "*.css", "*.html", "*.sql")

# What nothing in src/ calls, and why it is there.
CALLED_FROM_OUTSIDE = {
    # Textual
    "stoker.top.*.on_*": "a message or an event of this name",
    "stoker.top.*.action_*": "a key binding",
    "stoker.top.*.BINDINGS": "read by Textual",
    "stoker.top.app.Top.CSS": "read by Textual",
    "stoker.top.app.Top.ENABLE_COMMAND_PALETTE": "read by Textual",
    "stoker.top.app.Top.check_action": "before an action",
    "stoker.top.*.ALLOW_SELECT": "read by Textual",
    "stoker.top.*.render_line": "to draw a line",
    # The standard library, uvicorn
    "stoker.daemon.own_log.OwnLog.emit": "a handler of logging",
    "stoker.daemon.server.Connection.data_received": "a protocol of asyncio",
    "stoker.library.calling._Unpickler.find_class": "pickle asks it for each class",
    "stoker.web.connections.GuardedConnection.*": "uvicorn's protocol",
    # Users, and tests
    "gpu_task_scheduler.*": "the modules, names and methods are those of another tool",
    "stoker.sim.sweep.Swept.verified": "tests of the simulator look at what was swept",
}
# Users of Python call what these pages show.
SHOWN_TO_USERS = ("stoker.library.", "stoker.compat.")

# The page makes these names of parts.
CLASSES_MADE_OF_PARTS = {"a-*": "how text in a log looks: ansi.js", "u-*": "uPlot has these"}

# A word that the glossary has given up -> the files in which it may stand nevertheless.
_SCHEMA = "stoker/store/sql/schema/"
RETIRED: dict[str, set[str]] = {
    "wish": set(),
    "spare": {f"{_SCHEMA}0010_spare_memory.sql", f"{_SCHEMA}0014_margin_and_vendor.sql"},
    "hearth": set(),
    "relief": set(),
    "crowd": set(),
    "gate": set(),
    "maker": {f"{_SCHEMA}0005_gpu_memory.sql", f"{_SCHEMA}0014_margin_and_vendor.sql"},
    "shower": set(),
}
# Words that stay in use for one of their former meanings: a sequence, to round a number.
RETIRED_IN_PART = {"order", "rounds"}


# ---------------------------------------------------------------------- dead code


class Definition(NamedTuple):
    """A function, class, method, field or constant, and the lines that are its own."""

    module: str
    owner: str  # the class that it is in
    name: str
    first: int
    last: int

    def __str__(self) -> str:
        return ".".join(filter(None, (self.module, self.owner, self.name)))


class Mentions:
    """Where each word is used: a bare name means something in its own module only."""

    def __init__(self) -> None:
        self.names: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self.attributes: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        self.strings: set[str] = set()
        self.imported: set[str] = set()

    def add(self, module: str, tree: ast.Module) -> None:
        """All that is mentioned in a module."""
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    self.names[module, name].append(node.lineno)
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    self.attributes[name].append((module, node.lineno))
                case ast.MatchClass(kwd_attrs=names):
                    for name in names:
                        self.attributes[name].append((module, node.lineno))
                case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.:]+", text):
                    self.strings.update((text, *re.findall(r"\w+", text)))
                case ast.Import(names=names):
                    self.imported.update(alias.name for alias in names)
                case ast.ImportFrom(module=str(origin), names=names):
                    self.imported.add(origin)
                    self.imported.update(f"{origin}.{alias.name}" for alias in names)

    def include(self, it: Definition) -> bool:
        """Whether it is used anywhere but in itself."""

        def elsewhere(module: str, line: int) -> bool:
            return module != it.module or not it.first <= line <= it.last

        return (
            any(elsewhere(*place) for place in self.attributes[it.name])
            or any(elsewhere(it.module, line) for line in self.names[it.module, it.name])
            or it.name in self.strings
            or f"{it.module}.{it.name}" in self.imported
        )


def definitions(module: str, body: list[ast.stmt], owner: str = "") -> Iterator[Definition]:
    for node in body:
        names: list[str] = []
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.ClassDef(name=name):
                names = [name]
                if not any(ast.unparse(base) == "TypedDict" for base in node.bases):
                    yield from definitions(module, node.body, f"{owner}.{name}".strip("."))
            case ast.Assign(targets=targets):
                found = (part for target in targets for part in ast.walk(target))
                names = [part.id for part in found if isinstance(part, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case ast.If(body=one, orelse=other) | ast.Try(body=one, orelse=other):
                yield from definitions(module, [*one, *other], owner)
        for name in names:
            if not name.startswith("__"):
                yield Definition(module, owner, name, node.lineno, node.end_lineno or node.lineno)


def dead_in(trees: dict[str, ast.Module], shown: Collection[str] = ()) -> list[str]:
    """What is defined and never used; `shown`: words on pages for users of Python."""
    mentions = Mentions()
    for module, tree in trees.items():
        mentions.add(module, tree)
    return [
        str(it)
        for module, tree in trees.items()
        for it in definitions(module, tree.body)
        if not mentions.include(it)
        and not (it.name in shown and f"{module}.".startswith(SHOWN_TO_USERS))
    ]


@cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(SRC.rglob("*.py")):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(path.read_bytes())
    return found


@cache
def pages() -> str:
    found = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in found)


def without(exceptions: Collection[str], found: Collection[str]) -> list[str]:
    """Those that no exception allows; an exception that allows nothing is among them."""
    stale = [f"stale: {it}" for it in exceptions if not any(fnmatchcase(one, it) for one in found)]
    return [one for one in found if not any(fnmatchcase(one, it) for it in exceptions)] + stale


def test_all_that_is_defined_is_used() -> None:
    shown = set(re.findall(r"\w+", pages()))
    assert without(CALLED_FROM_OUTSIDE, dead_in(modules(), shown)) == []


def test_every_module_is_imported_or_run() -> None:
    mentions = Mentions()
    for name, tree in modules().items():
        mentions.add(name, tree)
    entries = pages() + (REPO / "pyproject.toml").read_text(encoding="utf-8")
    dead = [
        name
        for name in modules()
        if not any(f"{one}.".startswith(f"{name}.") for one in mentions.imported)
        and name.rpartition(".")[2] not in {*mentions.strings, "__main__"}
        and not re.search(rf"\b{re.escape(name)}\b", entries)
    ]
    assert [name for name in dead if not name.startswith("gpu_task_scheduler.")] == []


def test_every_query_is_used() -> None:
    used = {
        node.value
        for name, tree in modules().items()
        if name.startswith("stoker.store.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(set(queries()) - used) == []


def test_all_that_the_page_defines_is_used() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in STATIC.glob("*.*")}
    styles = "".join(text for name, text in texts.items() if name.endswith(".css"))
    words = re.findall(r"[\w-]+", "".join(t for n, t in texts.items() if not n.endswith(".css")))
    classes = set(re.findall(r"\.([a-zA-Z][\w-]*)", re.sub(r"(?s)/\*.*?\*/", "", styles)))
    assert without(CLASSES_MADE_OF_PARTS, sorted(classes - set(words))) == []
    variables = set(re.findall(r"(--[\w-]+):", styles))
    assert sorted(name for name in variables if f"var({name}" not in "".join(texts.values())) == []
    defined = re.compile(r"(?m)^(?:export )?(?:async )?(?:const|let|function\*?|class) (\w+)")
    names = {name for text in texts.values() for name in defined.findall(text)}
    assert sorted(name for name in names if words.count(name) < 2) == []


def test_dead_code_is_found() -> None:
    used = "def f():\n  return f\nclass C:\n  a: int\n  b: int\n  def m(self): return self.a\n"
    other = "from one import C\nFEW = 3\nprint(C().m())\n"
    trees = {"one": ast.parse(used), "two": ast.parse(other)}
    assert dead_in(trees) == ["one.f", "one.C.b", "two.FEW"]
    assert without({"one.*": "", "three.*": ""}, dead_in(trees)) == ["two.FEW", "stale: three.*"]


# ---------------------------------------------------------------------- length


def own(suffix: str) -> list[Path]:
    """The files that we have written ourselves."""
    return [path for path in sorted(SRC.rglob(suffix)) if path.parent != VENDORED]


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    long = {
        str(path.relative_to(SRC))
        for suffix in ("*.py", "*.js", "*.css")
        for path in own(suffix)
        if path.read_bytes().count(b"\n") > MOST_LINES
    }
    assert without(STILL_LONGER, sorted(long)) == []


def test_no_line_is_longer_than_a_window_is_wide() -> None:
    long = [
        f"{path.relative_to(SRC)}:{number}"
        for suffix in LINES_OF
        for path in own(suffix)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MOST_COLUMNS
    ]
    assert long == []


# ---------------------------------------------------------------------- words


def words_in(text: str, words: Collection[str]) -> set[str]:
    """Those of the words that occur: alone, in a name_of_several or in a NameOfSeveral."""
    either = "|".join(f"{word}|{word.capitalize()}|{word.upper()}" for word in words)
    start = r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))"
    found = re.findall(rf"{start}({either})(?:e?s|E?S)?(?![a-z])", text) if words else []
    return {word.lower() for word in found}


def standing(retired: Collection[str]) -> Iterator[tuple[str, str]]:
    for suffix in ("*.py", "*.pyi", *LINES_OF, "*.c", "*.pl"):
        for path in own(suffix):
            for word in words_in(path.read_text(encoding="utf-8"), retired):
                yield word, str(path.relative_to(SRC))


def test_retired_words_stand_only_where_they_may() -> None:
    allowed = [f"{word} in {place}" for word, places in RETIRED.items() for place in places]
    found = [f"{word} in {place}" for word, place in standing(RETIRED)]
    assert without(allowed, found) == []


def test_the_glossary_names_the_same_retired_words() -> None:
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    said = page.split("Words that we no longer use", 1)[1].split("\n\n", 1)[0]
    named = {word.lower() for word in re.findall(r"\*(\w+)\*", said)}
    assert named == {*RETIRED, *RETIRED_IN_PART}


def test_retired_words_are_found_in_names_and_prose() -> None:
    text = "a wish; _wish_of, TurnWishes, MOST_WISHES, wishful; Hearths; borders, Reorder, heart"
    assert words_in(text, {"wish", "hearth", "order", "heart"}) == {"wish", "hearth", "heart"}
    for gone in ("wishful", "borders, Reorder", "swish", ""):
        assert words_in(gone, {"wish", "order"}) == set()
    for kept in ("wishes", "a_wish", "TurnWishList", "onWish", "WISH_S"):
        assert words_in(kept, {"wish"}) == {"wish"}
