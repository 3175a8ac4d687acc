"""Functions and classes wherever users keep them; the submitter's script is never run again."""

from __future__ import annotations

import textwrap

from library_home import library, output_of, run_python, run_script
from stoker_home import StokerHome

__all__ = ["library"]

ONCE = """
with open("runs.txt", "a") as file:
    file.write("run\\n")
"""


def _run_once(home: StokerHome) -> None:
    assert (home.work / "runs.txt").read_text() == "run\n"


def test_a_script_without_a_main_guard(library: StokerHome) -> None:
    script = ONCE + textwrap.dedent("""
        import os
        import stoker

        SCALE = 10

        def helper(x):
            return x * SCALE

        def train(x):
            return helper(x), __name__, os.getpid() != PARENT

        PARENT = os.getpid()
        print(stoker.submit(train, 4).result())
        with stoker.Executor() as executor:
            print(list(executor.map(helper, range(3))))
    """)
    assert output_of(run_script(library, script)) == "(40, '__main__', True)\n[0, 10, 20]\n"
    _run_once(library)


def test_a_script_with_a_main_guard(library: StokerHome) -> None:
    script = ONCE + textwrap.dedent("""
        import stoker

        class Lost(Exception):
            pass

        def train(x):
            raise Lost(x)

        if __name__ == "__main__":
            try:
                stoker.submit(train, 4).result()
            except Lost as lost:
                print("lost", lost, lost.__cause__ is not None)
    """)
    assert output_of(run_script(library, script)) == "lost 4 True\n"
    _run_once(library)


def test_code_from_standard_input_and_from_the_command_line(library: StokerHome) -> None:
    code = ONCE + "import stoker\ndef f(x): return x + 1\nprint(stoker.submit(f, 1).result())\n"
    assert output_of(run_python(library, "-", stdin=code)) == "2\n"
    assert output_of(run_python(library, "-c", code)) == "2\n"
    assert (library.work / "runs.txt").read_text() == "run\nrun\n"


def test_a_notebook_where_main_has_no_file_and_each_cell_is_compiled_by_itself(
    library: StokerHome,
) -> None:
    kernel = """
import sys, types
main = types.ModuleType("__main__")
sys.modules["__main__"] = main
cells = [
    "import stoker\\nSCALE = 3",
    "def f(x):\\n    return g(x) * SCALE",
    "def g(x):\\n    return x + 1",
    "first = stoker.submit(f, 1).result()",
    "def g(x):\\n    return x + 2",
    "class Net:\\n    def __init__(self, x):\\n        self.x = x",
    "net = stoker.submit(lambda: Net(f(1))).result()",
    "print(first, net.x, isinstance(net, Net))",
]
for number, cell in enumerate(cells):
    exec(compile(cell, f"<ipython-input-{number}>", "exec"), main.__dict__)
"""
    assert output_of(run_script(library, kernel, name="kernel.py")) == "6 9 True\n"


def test_a_loop_that_runs_already_as_in_a_notebook(library: StokerHome) -> None:
    script = """
import asyncio, stoker

async def cell():
    return await asyncio.wrap_future(stoker.submit(lambda: "awaited"))

async def kernel():
    print(await cell())

asyncio.run(kernel())
"""
    assert output_of(run_script(library, script)) == "awaited\n"


def test_a_package_a_neighbouring_file_and_a_module_run_with_dash_m(library: StokerHome) -> None:
    package = library.work / "project" / "models"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from .net import train\n")
    (package / "net.py").write_text(
        "from . import sizes\ndef train(): return sizes.SIZE, __name__\n"
    )
    (package / "sizes.py").write_text("SIZE = 12\n")
    (library.work / "neighbour.py").write_text("def f(): return __file__.rpartition('/')[2]\n")
    script = """
import stoker
from project.models import train
import neighbour
print(stoker.submit(train).result(), stoker.submit(neighbour.f).result())
"""
    wanted = "(12, 'project.models.net') neighbour.py\n"
    assert output_of(run_script(library, script)) == wanted
    (package.parent / "start.py").write_text(
        "import stoker\nfrom .models import sizes\ndef f(): return sizes.SIZE\n"
        "print(stoker.submit(f).result())\n"
    )
    assert output_of(run_python(library, "-m", "project.start")) == "12\n"


def test_a_file_that_was_loaded_by_its_path(library: StokerHome) -> None:
    plugins = library.work / "plugins"
    plugins.mkdir()
    (plugins / "odd-name.py").write_text("K = 2\ndef f(x): return K ** x\n")
    script = """
import importlib.util, sys, stoker
spec = importlib.util.spec_from_file_location("odd", "plugins/odd-name.py")
odd = importlib.util.module_from_spec(spec)
sys.modules["odd"] = odd
spec.loader.exec_module(odd)
print(stoker.submit(odd.f, 5).result())
"""
    assert output_of(run_script(library, script)) == "32\n"


def test_a_path_that_the_script_extended_and_its_arguments_reach_the_call(
    library: StokerHome,
) -> None:
    lib = library.work / "lib"
    lib.mkdir()
    (lib / "extra.py").write_text("import sys\ndef f(): return sys.argv[1:]\n")
    # A module of the standard library's name in the working directory must not hurt a worker.
    (library.work / "grids.py").write_text("raise ImportError('not this one')\n")
    script = """
import sys, stoker
sys.path.append("lib")
import extra
print(stoker.submit(extra.f).result())
"""
    assert output_of(run_script(library, script, "--epochs", "3")) == "['--epochs', '3']\n"


def test_methods_partials_and_callable_objects(library: StokerHome) -> None:
    script = """
import stoker
from functools import partial

class Trainer:
    def __init__(self, lr):
        self.lr = lr
    def train(self, epochs):
        return self.lr * epochs
    def __call__(self, x):
        return x + self.lr
    @classmethod
    def kind(cls):
        return cls.__name__
    @staticmethod
    def two():
        return 2

trainer = Trainer(3)
calls = [
    (trainer.train, 2), (trainer, 4), (Trainer.kind,), (Trainer.two,),
    (partial(trainer.train, epochs=5),),
]
print([stoker.submit(*call).result() for call in calls])
"""
    assert output_of(run_script(library, script)) == "[6, 7, 'Trainer', 2, 15]\n"


def test_an_uncaught_remote_error_shows_both_tracebacks(library: StokerHome) -> None:
    script = """
import stoker

def broken():
    return 1 / 0

stoker.submit(broken).result()
"""
    ran = run_script(library, script)
    assert ran.code == 1
    assert "return 1 / 0" in ran.err and "in broken" in ran.err
    assert ran.err.rstrip().endswith("ZeroDivisionError: division by zero")
