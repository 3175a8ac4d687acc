"""Stoker keeps GPUs fed: it queues commands and runs each as soon as there is room for it.

Nothing is imported here: every fresh `stoker` process passes through this file.
"""

__version__ = "0.1.0"
