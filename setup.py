"""The tag of the wheel; everything else is in pyproject.toml."""

import sysconfig

from setuptools import setup

# The compiled part keeps to the stable ABI, so one wheel is for Python 3.11 and all later ones. A
# Python without its global lock has no stable ABI yet: there it is not compiled, see spawn.py.
HAS_STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(options={"bdist_wheel": {"py_limited_api": "cp311"}} if HAS_STABLE_ABI else {})
