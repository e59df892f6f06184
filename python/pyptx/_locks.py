"""Locks that a forked process finds open: the thread that held one when the process was copied is not there to open it.

What they guard are dictionaries, which the fork finds whole.
"""

from __future__ import annotations

import os
import threading
import weakref

__all__ = ["lock"]

_made: weakref.WeakSet = weakref.WeakSet()


def lock() -> threading.Lock:
    made = threading.Lock()
    _made.add(made)
    return made


def _open_all():
    for each in list(_made):
        each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
