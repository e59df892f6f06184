"""Calls of kernels on a GPU, once more on the simulator.

    with pyptx.replay.keep(4) as kept:                      # the last four calls, in files
        train()                                             # and one of them faults, or hangs
    for call in kept.replay():                              # each in a process of its own
        print(call)

Where the process hangs, its files are there: `pyptx replay FOLDER` from another shell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyptx.launch.kept import Calls, Replayed

__all__ = ["Replay", "replay"]


class Replay:
    """`pyptx.replay`: called, it makes kept calls again; `keep` keeps them.

    Example:
        with pyptx.replay.keep(4) as kept:
            pass                                            # y = k(x)
        assert kept.replay() == []
    """

    def __call__(self, path: str | os.PathLike[str], *, timeout: float = 600, seed: int = 0) -> list[Replayed]:
        """Makes kept calls on the simulator, each in a process of its own: those of a folder, the oldest first, or a file's.

        timeout: seconds for each.  seed: of another schedule.

        Example:
            import tempfile

            with tempfile.TemporaryDirectory() as folder:
                assert pyptx.replay(folder) == []
        """
        from pyptx.launch import kept  # not by `import pyptx`: it needs time

        return kept.replayed(path, timeout, seed)

    @contextmanager
    def keep(
        self,
        last: int = 4,
        folder: str | os.PathLike[str] | None = None,
        *,
        most_bytes: int = 1 << 30,
        host: bool = False,
    ) -> Iterator[Calls]:
        """Keeps the last calls with CUDA tensors, their arguments as they were before each: a copy to the host, and a file.

        folder: for the files, which stay; unless given, a new temporary one.  most_bytes: of one array; a call with a larger one is
        not kept, and counted.  host: also calls with host memory, which the simulator runs anyhow.  Kept are calls of kernels from
        Python, not those that a CUDA graph or a JAX program replays.

        Example:
            with pyptx.replay.keep(2) as kept:
                pass                                        # y = k(x)
            assert kept.paths == []
        """
        if isinstance(last, bool) or not isinstance(last, int) or last < 1:
            raise ValueError(f"keep keeps at least one call, not {last!r}")
        from pyptx.launch import kept

        before = kept.keeping
        kept.keeping = kept.Keeper(folder, last, most_bytes, host)
        kept.watch_calls()
        try:
            yield kept.Calls(kept.keeping)
        finally:
            kept.keeping = before
            kept.watch_calls()


replay = Replay()
