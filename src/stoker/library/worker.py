"""The script of a call's process, `python worker.py --call FILE NAME`: calling.py does the rest.

A script is compiled each time that it is run, a module only once; so this is short. The module is
loaded by its file, since the path of the submitter, on which Stoker is, comes with the call.
"""


def _run() -> int:
    # `importlib` has these from here, and takes longer to load than all of this.
    import sys
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import spec_from_file_location

    here = __file__.rpartition("/")[0]
    # Neighbours of this file must not be taken for modules of the standard library or of the user.
    sys.path[:] = [entry for entry in sys.path if entry != here]
    spec = spec_from_file_location("stoker.library.calling", here + "/calling.py")
    assert spec is not None and spec.loader is not None
    # What was pickled names things in it, so it has to be found.
    calling = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(calling)
    code: int = calling.main()
    return code


if __name__ == "__main__":
    raise SystemExit(_run())
