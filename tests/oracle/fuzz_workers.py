"""Processes side by side for fuzz.py and fuzz_tensors.py: where the GPU faults under one, its context is of no more use, and another takes its place."""

import multiprocessing
import time
from collections.abc import Iterator
from queue import Empty


class Stuck(Exception):
    """Some did not come back; what is said is where they are."""


def found_by(work, places: list[tuple[int, ...]], seconds: float, how: str, patience: float, *arguments) -> Iterator:
    """What workers find, one for each of `places`, who begin by `how` (fork, spawn) and have `seconds`.

    `work(place, end, at, queue, *arguments)` puts a pair: what it found, and the place at which another is to go on, or None.  `at`
    has as many numbers as a place; it says where the worker is, and is negative once it is done.  Raises Stuck if nobody comes back
    for `patience` seconds after the end.
    """
    context = multiprocessing.get_context(how)
    queue, end, marks = context.Queue(), time.monotonic() + seconds, []

    def start(place: tuple[int, ...]):
        marks.append(context.Array("q", place))
        context.Process(target=work, args=(place, end, marks[-1], queue, *arguments), daemon=True).start()

    for place in places:
        start(place)
    working = len(places)
    while working:
        try:
            found, place = queue.get(timeout=max(0, end - time.monotonic()) + patience)
        except Empty:
            stuck = [tuple(mark) for mark in marks if mark[0] >= 0]
            raise Stuck(f"{working} workers did not come back; they are at {stuck[:8]}") from None
        yield found
        if place is not None and time.monotonic() < end:
            start(place)
        else:
            working -= 1
