"""Records calls of kernels on a GPU, and repeats them on the simulator.

    with pyptx.replay.keep(4) as kept:                      # writes the last four calls to files
        train()                                             # one of them faults, or hangs
    for call in kept.replay():                              # repeats each in a process of its own
        print(call)

If the process hangs, run `pyptx replay FOLDER` in another shell.
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
    """`pyptx.replay`: a call repeats recorded calls; `keep` records them.

    Example:
        with pyptx.replay.keep(4) as kept:
            pass                                            # y = k(x)
        assert kept.replay() == []
    """

    def __call__(
        self, path: str | os.PathLike[str], *, timeout: float = 600, seed: int = 0, check: str | None = None
    ) -> list[Replayed]:
        """Repeats recorded calls on the simulator, each in a process of its own: those of a folder, oldest first, or that of a file.

        timeout: the most seconds of a call.  seed: chooses the schedule.  check: rules of the sanitizer, or "all".

        Example:
            import tempfile

            with tempfile.TemporaryDirectory() as folder:
                assert pyptx.replay(folder) == []
        """
        from pyptx.launch import kept  # not by `import pyptx`: it needs time

        return kept.replayed(path, timeout, seed, check)

    @contextmanager
    def keep(
        self,
        last: int = 4,
        folder: str | os.PathLike[str] | None = None,
        *,
        most_bytes: int = 1 << 30,
        host: bool = False,
    ) -> Iterator[Calls]:
        """Records the last calls with CUDA tensors: before each call, its arguments are copied to the host and written to a file.

        folder: where the files are written, and stay; by default a new temporary folder.  most_bytes: the most bytes of an array;
        a call with a larger one is not recorded, but counted.  host: also record calls with host memory.  Only calls from Python
        are recorded, not launches that a CUDA graph or a JAX program repeats.

        Example:
            with pyptx.replay.keep(2) as kept:
                pass                                        # y = k(x)
            assert kept.paths == []
        """
        if isinstance(last, bool) or not isinstance(last, int) or last < 1:
            raise ValueError(f"keep: last must be at least 1, not {last!r}")
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
