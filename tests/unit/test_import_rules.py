"""Who may import whom: the house keeps its walls.

A part is a module or package directly in `stoker`. The tables are the rules; a part that is in
none of them fails, so that a new room is built with its door in mind.
"""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import stoker

ROOT = Path(stoker.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
_TABLE_HEAD = ("| part | imports of Stoker's own |", "|---|---|")

ADAPTERS = {"store", "executors", "inventory"}
FRONT_ENDS = {"cli", "library", "compat", "web", "top"}

# What front ends share: the words of the house, and what is read before anything is asked of it.
TO_FRONT_ENDS = {
    "api", "batch", "call_files", "command_lines", "core.model", "errors", "holes", "installing",
    "locks", "metrics", "output_files", "quantities", "search", "submission", "sweep", "text",
    "wholefile", "__version__",
}  # fmt: skip

# How the command line is put together, and the only places where a front end knows another: the
# live view is one of its verbs, and the older tools are translated into what it does. What
# `simulate` plays happens in its own process, where there is no daemon.
COMPOSITION = {"cli": {"top", "sim.whatif"}, "compat": {"cli"}}

# From the bottom up. docs/architecture.md has this table; `python -m unit.test_import_rules` in
# `tests` writes it there.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "installing": set(),
    "quantities": {"errors"},
    "moments": {"errors", "quantities"},
    "command_lines": set(),
    "call_files": set(),
    "locks": set(),
    "wholefile": set(),
    "holes": set(),
    "machine": set(),
    "output_files": {"errors"},
    "core": set(),
    "ports": {"core"},
    "learn": set(),
    "metrics": {"errors", "holes", "installing", "output_files", "quantities", "text"},
    "sightings": {"core", "ports"},
    "engine": {"core", "ports", "errors", "sightings"},
    "store": {"core", "ports", "errors"},
    "executors": {
        "command_lines", "core", "ports", "errors", "locks", "machine", "output_files", "wholefile",
    },
    "inventory": {"installing", "ports", "__version__"},
    "sim": {
        "batch.csv_file", "core", "ports", "engine", "errors", "store", "executors", "quantities",
        "text",
    },
    "api": {
        "command_lines", "errors", "installing", "machine", "metrics.patterns", "moments",
        "quantities", "text",
    },
    "sweep": {"errors", "installing", "output_files", "quantities"},
    "batch": {"errors", "installing", "quantities", "sweep.shelltext"},
    "text": {"holes", "quantities", "wholefile"},
    "submission": {
        "api", "batch", "errors", "metrics.patterns", "output_files", "quantities", "sweep", "text",
        "wholefile",
    },
    "search": {
        "api", "errors", "installing", "metrics.asking", "metrics.lookup", "metrics.results",
        "submission", "sweep",
        "text",
    },
    "notify": {
        "api", "command_lines", "errors", "metrics.gathering", "metrics.results", "text",
        "wholefile",
    },
    "daemon": {
        "api", "call_files", "command_lines", "core", "engine", "errors", "learn", "locks",
        "machine", "ports",
        "installing", "metrics.lookup", "metrics.overlay", "metrics.spec", "notify.journal",
        "output_files", "quantities", "submission.changes", "submission.repositories",
        "submission.rules", "submission.snapshots",
        "__version__", *ADAPTERS,
    },
    "web": {
        "api", "errors", "holes", "installing", "metrics", "quantities", "submission", "sweep",
        "text", "__version__",
    },
    "top": {"api", "command_lines", "errors", "metrics", "quantities", "text"},
    "library": {
        "api", "batch", "call_files", "command_lines", "core.model", "errors", "installing",
        "locks", "metrics", "quantities", "search", "submission", "sweep", "text", "wholefile",
    },
    "cli": {
        "api", "batch", "command_lines", "errors", "installing", "metrics", "output_files",
        "quantities", "search", "submission", "sweep", "text", "wholefile", "__version__",
        *COMPOSITION["cli"],
    },
    "compat": {"api", "errors", "quantities", "submission", "text", *COMPOSITION["compat"]},
    "__init__": {"library"},
    "__main__": {"cli"},
}  # fmt: skip

HARMLESS = {
    "__future__",
    "array",
    "bisect",
    "collections",
    "dataclasses",
    "enum",
    "heapq",
    "itertools",
    "math",
    "typing",
}

# Every library that is not Python's own, and the only places that may know it.
THIRD_PARTY: dict[str, set[str]] = {
    "msgspec": {
        "api.messages",
        "api.job_messages",
        "api.request",
        "api.search_messages",
        "api.curve_messages",
        "api.field_types",
        "api.fast_json",
        "daemon",
        "store",
        "web",
        "executors.slurm",
    },
    "yaml": {"sweep.yamltext", "batch.documents"},
    "cloudpickle": {"library.pickling", "library.calling"},
    "pynvml": {"inventory.nvml"},
    "amdsmi": {"inventory.amd"},
    "apprise": {"notify.main"},
    "tensorboard": {"metrics.event_files"},
    "pandas": {"library.results"},
    "optuna": {"search.study"},
    "rich": {"top"},
    "textual": {"top"},
    "starlette": {"web"},
    "uvicorn": {"web"},
}

# Who puts the house together: everything else takes its adapters as it gets them.
CHOOSES_ADAPTERS = {"daemon.main", "sim"}

MEANINGLESS = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}


@dataclass(frozen=True)
class Module:
    """One file of the package, without the leading `stoker`."""

    name: str
    path: Path

    @property
    def part(self) -> str:
        return self.name.split(".")[0]

    @property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    def is_in(self, place: str) -> bool:
        return self.name == place or self.name.startswith(place + ".")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def modules() -> list[Module]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if name != "__init__":
            name = name.removesuffix(".__init__")
        found.append(Module(name, path))
    return found


def imports(module: Module) -> Iterator[str]:
    """Everything that the module imports, at the top or within, by its full name."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name} imports by a relative name"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and last_name(node.func) == "import_module"
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)  # an optional library


def own_imports(module: Module) -> set[str]:
    """The same, of Stoker's own modules, without the leading `stoker`."""
    return {name.removeprefix("stoker.") for name in imports(module) if name.startswith("stoker.")}


def is_covered(name: str, allowed: set[str]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in allowed)


def by_part(*parts: str) -> list[Module]:
    return [module for module in modules() if module.part in parts]


def ids(module: Module) -> str:
    return module.name


@pytest.mark.parametrize("module", modules(), ids=ids)
def test_a_module_imports_only_what_its_part_may(module: Module) -> None:
    assert module.part in MAY_IMPORT, f"say in MAY_IMPORT what {module.part} may import"
    allowed = MAY_IMPORT[module.part] | {module.part}
    wrong = {name for name in own_imports(module) if not is_covered(name, allowed)}
    assert not wrong, f"{module.name} may not import {wrong}"


def test_every_rule_is_used() -> None:
    """An exception that nothing needs any more is a door that stands open."""
    for part, allowed in MAY_IMPORT.items():
        used = {name for module in by_part(part) for name in own_imports(module)}
        stale = {place for place in allowed if not any(is_covered(name, {place}) for name in used)}
        assert not stale, f"{part} imports no {stale}: take it from MAY_IMPORT"
    for library, places in THIRD_PARTY.items():
        for place in places:
            names = {name for m in modules() if m.is_in(place) for name in imports(m)}
            assert any(is_covered(name, {library}) for name in names), f"{place}: no {library}"
    of_core = {name for module in by_part("core") for name in imports(module)}
    assert all(any(is_covered(name, {place}) for name in of_core) for place in HARMLESS)


def parts_imported() -> dict[str, set[str]]:
    """The graph of the parts, from what their files import; `__version__` is in `__init__`."""
    graph: dict[str, set[str]] = {}
    for module in modules():
        of_part = graph.setdefault(module.part, set())
        found = {name.split(".")[0] for name in own_imports(module)} - {module.part}
        of_part |= {"__init__" if part == "__version__" else part for part in found}
    return graph


def test_there_is_no_cycle_between_parts() -> None:
    left = parts_imported()
    while free := {part for part, imported in left.items() if not imported & left.keys()}:
        left = {part: imported for part, imported in left.items() if part not in free}
    assert not left, f"a cycle goes through some of {sorted(left)}"


def test_adapters_never_import_each_other() -> None:
    for part in ADAPTERS:
        assert not MAY_IMPORT[part] & ADAPTERS


def test_only_the_daemon_and_the_simulator_know_an_adapter() -> None:
    knowing = {part for part, allowed in MAY_IMPORT.items() if allowed & ADAPTERS}
    assert knowing == {"daemon", "sim"}


def test_front_ends_know_the_api_and_what_they_share_and_not_each_other() -> None:
    for part in FRONT_ENDS:
        assert MAY_IMPORT[part] <= TO_FRONT_ENDS | COMPOSITION.get(part, set())


def documented_table() -> list[str]:
    """MAY_IMPORT as the page on the architecture has it."""
    rows = [
        f"| `{part}` | {', '.join(f'`{name}`' for name in sorted(allowed)) or 'nothing'} |"
        for part, allowed in MAY_IMPORT.items()
    ]
    return [*_TABLE_HEAD, *rows]


def table_in(page: str) -> list[str]:
    """The table as the page has it now."""
    after = page.partition("\n".join(_TABLE_HEAD))[2]
    rows = itertools.takewhile(lambda line: line.startswith("|"), after.splitlines()[1:])
    return [*_TABLE_HEAD, *rows]


def test_the_page_on_the_architecture_has_the_same_table() -> None:
    page = ARCHITECTURE.read_text(encoding="utf-8")
    assert table_in(page) == documented_table(), "in tests: python -m unit.test_import_rules"


def test_only_its_own_verb_knows_the_live_view() -> None:
    knowing = {
        m.name for m in by_part("cli") if any(is_covered(n, {"top"}) for n in own_imports(m))
    }
    assert knowing == {"cli.verbs.top"}


def test_no_verb_imports_another() -> None:
    for module in by_part("cli"):
        if module.is_in("cli.verbs") and module.name != "cli.verbs":
            others = {name for name in own_imports(module) if name.startswith("cli.verbs.")}
            tables = {f"cli.verbs.{name}" for name in ("SECTIONS", "VERBS", "load", "all_verbs")}
            assert others <= tables, f"{module.name} imports {others - tables}"


@pytest.mark.parametrize("module", by_part("core"), ids=ids)
def test_the_core_knows_only_itself_and_harmless_parts_of_python(module: Module) -> None:
    foreign = {name for name in imports(module) if not name.startswith("stoker.core")}
    wrong = {name for name in foreign if not is_covered(name, HARMLESS)}
    assert not wrong, f"{module.name} is not pure: {wrong}"


@pytest.mark.parametrize("module", by_part("core"), ids=ids)
def test_the_core_neither_reads_nor_writes_anything(module: Module) -> None:
    called = {
        node.func.id
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"open", "print", "input", "__import__", "exec", "eval", "id", "hash"}


# ---------------------------------------------------------------------- the order of sets


def names_of_sets(trees: list[ast.Module]) -> set[str]:
    """The names of variables and attributes that are said, or seen, to be sets and nothing else."""
    sets: set[str] = set()
    others: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.AnnAssign(target=target, annotation=kind):
                    name = last_name(target)
                case ast.arg(arg=name, annotation=ast.expr() as kind):
                    pass
                case ast.Assign(targets=[target], value=value) if is_a_set(value, set()):
                    sets.add(last_name(target))
                    continue
                case _:
                    continue
            said = ast.unparse(kind).startswith(("set", "frozenset"))
            (sets if said else others).add(name)
    return sets - others - {""}


def last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def is_a_set(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub(), right=right):
            return is_a_set(left, names) or is_a_set(right, names)
    return last_name(node) in names


def iterated_sets(tree: ast.Module, names: set[str]) -> list[str]:
    """Places at which the order of a set would decide something."""
    found: list[str] = []
    for node in ast.walk(tree):
        gone_through: list[ast.expr] = []
        if isinstance(node, ast.For | ast.comprehension):
            gone_through = [node.iter]
        elif isinstance(node, ast.Starred):
            gone_through = [node.value]
        elif isinstance(node, ast.Call) and last_name(node.func) in {
            "list",
            "tuple",
            "iter",
            "next",
        }:
            gone_through = node.args[:1]
        found += [ast.unparse(each) for each in gone_through if is_a_set(each, names)]
    return found


def test_the_core_never_goes_by_the_order_of_a_set() -> None:
    trees = {module.name: module.tree for module in by_part("core")}
    names = names_of_sets(list(trees.values()))
    assert {"contested", "seen"} <= names, "the sets of the core are known"
    for name, tree in trees.items():
        assert not iterated_sets(tree, names), name


@pytest.mark.parametrize(
    "code",
    [
        "for x in {1, 2}: pass",
        "[x for x in set(y)]",
        "x: set[int] = set()\nfor y in x: pass",
        "x = {1}\nlist(x)",
        "class A:\n    m: set[int]\nfor y in a.m: pass",
        "x = {1}\n(*x,)",
        "x = {1}\nfor y in x | {2}: pass",
    ],
)
def test_going_through_a_set_is_noticed(code: str) -> None:
    tree = ast.parse(code)
    assert iterated_sets(tree, names_of_sets([tree]))


@pytest.mark.parametrize("code", ["for x in sorted({1}): pass", "x = {1}\nlen(x)", "1 in {1}"])
def test_other_uses_of_a_set_are_fine(code: str) -> None:
    tree = ast.parse(code)
    assert not iterated_sets(tree, names_of_sets([tree]))


# ---------------------------------------------------------------------- adapters and libraries


def adapter_classes() -> set[str]:
    """The classes that do what a port asks for, told by the methods that they have."""
    asked = [
        {"load", "commit", "launch"},
        {"adopt", "carry_out", "observe", "settled", "next_wakeup_ms"},
    ]
    found = set()
    for module in by_part(*ADAPTERS):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                sees = module.part == "inventory" and "observe" in methods
                if sees or any(port <= methods for port in asked):
                    found.add(node.name)
    return found


def test_only_the_composition_root_and_the_simulator_choose_adapters() -> None:
    adapters = adapter_classes()
    assert {"MemoryStore", "DeclaredInventory"} <= adapters
    for module in modules():
        if any(module.is_in(place) for place in CHOOSES_ADAPTERS):
            continue
        if module.is_in("inventory"):
            continue  # Each driver gives its way of asking to an inventory that all share.
        made = {
            last_name(node.func)
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and last_name(node.func) in adapters
        }
        assert not made, f"{module.name} makes {made} itself"


def test_a_library_is_imported_only_in_its_own_place() -> None:
    for module in modules():
        for name in imports(module):
            library = name.split(".")[0]
            if library == "stoker" or library in sys.stdlib_module_names:
                continue
            assert library in THIRD_PARTY, f"say in THIRD_PARTY where {library} belongs"
            places = THIRD_PARTY[library]
            assert any(module.is_in(place) for place in places), f"{module.name}: {library}"


def test_no_module_has_a_name_without_meaning() -> None:
    names = {word for module in modules() for word in module.name.split(".")}
    assert not names & MEANINGLESS


if __name__ == "__main__":
    text = ARCHITECTURE.read_text(encoding="utf-8")
    was, now = "\n".join(table_in(text)), "\n".join(documented_table())
    ARCHITECTURE.write_text(text.replace(was, now), encoding="utf-8")
