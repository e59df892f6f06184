"""Locks that a forked process finds open: the thread that held one when the process was copied is not there to open it.

What they guard are dictionaries, which the fork finds whole.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["lock", "reentrant"]

_made: weakref.WeakSet = weakref.WeakSet()


def lock() -> threading.Lock:
    return _known(threading.Lock())


def reentrant() -> threading.RLock:
    """One that the thread which holds it may take again."""
    return _known(threading.RLock())


def _known(made: Any) -> Any:
    _made.add(made)
    return made


def _open_all():
    for each in list(_made):
        each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
