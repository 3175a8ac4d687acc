"""The script of a call's process, `python worker.py --call FILE NAME`: calling.py does the rest.

A script is compiled each time that it is run, a module only once; so this is short. The module is
loaded by its file, since the path of the submitter, on which Stoker is, comes with the call.
With `--warm-server` it is a process of which those of calls are copies: see warm_server.py.
"""


def _run() -> int:
    # `importlib` has these from here, and takes longer to load than all of this.
    import sys
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import spec_from_file_location

    here = __file__.rpartition("/")[0]
    # Neighbours of this file must not be taken for modules of the standard library or of the user.
    sys.path[:] = [entry for entry in sys.path if entry != here]
    # What was pickled names things in the first, so it has to be found.
    for name in ("calling", "warm_server") if sys.argv[1] == "--warm-server" else ("calling",):
        spec = spec_from_file_location("stoker.library." + name, f"{here}/{name}.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    given = () if name == "calling" else (sys.modules["stoker.library.calling"],)
    code: int = module.main(*given)
    return code


if __name__ == "__main__":
    raise SystemExit(_run())
