"""Which rows a worker has, of those that CTAs go over with sums of their own.

Multiprocessors do not have equal shares of memory: on an H200 some are 1.8 times as quick as others, which bench/shares.py shows.  So workers come
in waves, each as many as are resident.  Those of the first have most of the rows; those of later waves have fewer, and begin where one
before has ended, soon or late.  Which rows a worker has, and with that the order of all sums, does not depend on that.
"""

from pyptx import ptx, reg
from pyptx.kernels._registers import apply_to, divided
from pyptx.kernels._rows.split import TWO_WAVES, Split
from pyptx.types import u32

__all__ = ["rows_of"]


def rows_of(split: Split, crowd: int, worker, workers, m) -> tuple:
    """(the first row, how many workers the wave has, where its rows end) of a worker, below m; `crowd`: the workers of each wave but the last."""
    wave, place = divided(worker, crowd)
    before = worker - place  # workers of earlier waves
    width = apply_to(reg.scalar(u32), ptx.inst.min.u32, workers - before, crowd)
    turn = crowd * split.turn  # rows
    turns = apply_to(reg.scalar(u32), ptx.inst.div.u32, m + (turn - 1), turn)

    def row_before(parts):
        """The row behind which so many 64ths of the turns are left, rounded up."""
        return (turns - ((turns * parts + 63) >> 6)) * turn

    begin, behind = of_wave(wave, split.waves), of_wave(wave, (*split.waves[1:], 0))
    if len(split.waves) > 2:
        few = workers <= 2 * crowd
        ptx.inst.selp.u32(begin, of_wave(wave, TWO_WAVES), begin, few)
        ptx.inst.selp.u32(behind, of_wave(wave, (*TWO_WAVES[1:], 0)), behind, few)
    end = apply_to(reg.scalar(u32), ptx.inst.min.u32, row_before(behind), m)
    ptx.inst.mov.u32(end, m, pred=before + crowd >= workers)
    return row_before(begin) + place, width, end


def of_wave(wave, values):
    """The value of a wave, in a register."""
    result = reg.scalar(u32, init=values[0])
    for i, value in enumerate(values[1:], 1):
        ptx.inst.mov.u32(result, value, pred=wave == i)
    return result
