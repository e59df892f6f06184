"""The softmax of the forward kernel of attention on Hopper: what a thread does with its scores between the two products.

A thread has parts of two rows (`Warpgroup` in _attention/forward.py says which).  Each row keeps its largest score, which exponents are
relative to, and the sum of its exponentials.  When the largest score grows, the results so far are multiplied by `factor`.  With `slack`
it grows only when a score is larger by so much: exponentials then go up to 2^slack, and in most blocks the largest score of a row is not
looked for, and nothing is scaled.
"""

import contextlib
import math

from pyptx import ptx, reg
from pyptx.kernels._attention.tiles import apply, signed
from pyptx.kernels._registers import LOG2_E, widened
from pyptx.types import b16, b32, f32, s32, u32, u64

__all__ = ["UNSEEN", "Softmax", "cap_scaled", "over_row", "power"]

LEAST = -(2**31)
# Exponents of 2 below which keys do not count: from there on a base is rounded by more than exponentials have room for.
UNSEEN = -(2.0**31)
ROOM = 192  # registers for scores, p, the result and a bias


class Softmax:
    """Methods of a warpgroup that has `plan`, `tiles`, `dtype`, `thread`, `number`, `scores`, `out`."""

    def _make_rows(self):
        """The registers of a thread's two rows."""
        self.largest, self.total, self.factor, self.negatives = ([reg.scalar(f32) for _ in range(2)] for _ in range(4))
        self.limits = [reg.scalar(s32) for _ in range(2)]
        self._make_scales()
        self.top = [reg.scalar(f32) for _ in range(2)] if self.plan.sinks else []
        if self.plan.biased:  # of the next block, if there are registers for it
            own = [self._registers_of_bias() for _ in range(2)]
            self.bias = own if len(self.scores) + len(self.p) + len(self.out) + 2 * len(own[0]) <= ROOM else []

    def _make_scales(self):
        """The registers of `c`, what scores are multiplied by to be exponents of 2, and of `reach`, for each row; here rows have the same."""
        self.c, self.reach = ([reg.scalar(f32)] * 2 for _ in range(2))
        self.margin = reg.scalar(f32)

    def _reset_rows(self):
        """No key is seen yet."""
        for row in range(2):
            ptx.inst.mov.f32(self.largest[row], -math.inf)
            ptx.inst.mov.f32(self.total[row], 0.0)
            if self.plan.slack:
                ptx.inst.mov.s32(self.limits[row], LEAST)

    def _set_scale(self):
        ptx.inst.mul.rn.f32(self.c[0], self.tiles.scale, LOG2_E)
        self._set_reach()

    def _set_reach(self, row: int = 0):
        """Converts `slack` and `margin` to differences of scores."""
        if not self.plan.slack:
            return
        inverse = apply(f32, ptx.inst.rcp.approx.ftz.f32, self.c[row])
        ptx.inst.mul.rn.f32(self.reach[row], inverse, self.plan.slack)
        if self.plan.margin:
            ptx.inst.mul.rn.f32(self.margin, inverse, self.plan.margin)
            ptx.inst.min.f32(self.margin, self.margin, 1e38)  # so that a base is finite, whatever the scale

    def _scale_where_grown(self):
        with ptx.if_(self.grew) if self.plan.slack else contextlib.nullcontext():
            self._scale()

    def _scale(self):
        for i, each in enumerate(self.out):
            ptx.inst.mul.rn.f32(each, each, self.factor[i // 2 % 2])

    def _softmax(self, index, masked: bool, first: bool = False):
        """Makes exp(scale (score - base)) of `scores`, and adds them to the sums.  `first`: the block is a tile's first one."""
        negatives = self._negatives(index, masked, first)
        for row in range(2):
            for each in self._of_row(row):
                self._exponential(each, row, negatives[row])
            self._total_up(row)

    def _negatives(self, index, masked: bool, first: bool = False):
        """Takes the block's scores into account, and returns what is added to the exponents of each row."""
        if self.plan.softcap:
            self._cap()
        if self.plan.biased:
            self._add_bias(index)
        if masked:
            self._mask(index)
        if not self.plan.slack:
            careful = masked or bool(self.plan.biased)
            return [self._raised(row, self._highest(row), careful) for row in range(2)]
        if first:
            self._raise([self._highest(row) for row in range(2)], first=True)
        else:
            self._raise_where_above()
        return self.negatives

    def _raise_where_above(self):
        """Keeps the largest scores until a score of the warp reaches its row's limit; then `grew` is set.

        Floats that are not negative are ordered as integers are, and one integer instruction finds the largest of three.  For negative
        floats it finds the smallest.  So a row whose limit is negative has the least integer as its limit, which every score reaches."""
        highest = [self._highest_bits(row) for row in range(2)]
        above = [each >= limit for each, limit in zip(highest, self.limits, strict=True)]
        self.grew = ptx.warp.vote("any", above[0] | above[1], 0xFFFFFFFF)
        with ptx.if_(self.grew):
            below = (self.largest[0] < 0.0) | (self.largest[1] < 0.0)
            scores = [apply(f32, ptx.inst.mov.b32, each) for each in highest]
            with ptx.if_(ptx.warp.vote("any", below, 0xFFFFFFFF)):
                for row in range(2):
                    ptx.inst.mov.f32(scores[row], self._highest(row))
            self._raise(scores)

    def _highest_bits(self, row: int):
        bits = [apply(s32, ptx.inst.mov.b32, each) for each in self._of_row(row)]
        chains = bits[:2]
        for i, each in enumerate(bits[2:]):
            ptx.inst.max.s32(chains[i % 2], chains[i % 2], each)
        return apply(s32, ptx.inst.max.s32, *chains)

    def _highest(self, row: int):
        first, *rest = self._of_row(row)
        highest = apply(f32, ptx.inst.mov.f32, first)
        over_row(highest, rest, ptx.inst.max.f32)
        return highest

    def _raise(self, highest, first: bool = False):
        for row in range(2):
            ptx.inst.mov.f32(self.negatives[row], self._raised(row, highest[row], True, first))
            ptx.inst.mul.rn.f32(self.total[row], self.total[row], self.factor[row])
            limit = apply(s32, ptx.inst.mov.b32, apply(f32, ptx.inst.add.f32, self.largest[row], self.reach[row]))
            ptx.inst.selp.s32(self.limits[row], LEAST, limit, limit < 0)

    def _raised(self, row: int, highest, masked: bool, first: bool = False):
        """Raises the row's largest score to `highest`, if that is larger, and returns what is added to exponents from then on."""
        before = apply(f32, ptx.inst.mov.f32, self.largest[row])
        ptx.inst.max.f32(self.largest[row], self.largest[row], highest)
        for distance in (1, 2):
            other = apply(f32, ptx.inst.shfl.sync.bfly.b32, self.largest[row], distance, 31, 0xFFFFFFFF)
            ptx.inst.max.f32(self.largest[row], self.largest[row], other)
        if first and self.plan.margin:
            ptx.inst.add.f32(self.largest[row], self.largest[row], self.margin)
        base = self._base(row)
        if masked:  # a row that has seen no key: exp(-inf - 0) is 0, where -inf - -inf is NaN
            ptx.inst.selp.f32(base, 0.0, base, base < UNSEEN)
        negative = apply(f32, ptx.inst.neg.f32, base)
        self._rescale(row, before, negative)
        return negative

    def _of_row(self, row: int):
        return [each for i, each in enumerate(self.scores) if i // 2 % 2 == row]

    def _total_up(self, row: int):
        first, *rest = self._of_row(row)
        if self.plan.slack:
            ptx.inst.add.f32(self.total[row], self.total[row], first)
        else:
            ptx.inst.fma.rn.f32(self.total[row], self.total[row], self.factor[row], first)
        over_row(self.total[row], rest, ptx.inst.add.f32)

    def _exponential(self, score, row: int, negative):
        ptx.inst.fma.rn.f32(score, score, self.c[row], negative)
        ptx.inst.ex2.approx.ftz.f32(score, score)

    def _base(self, row: int):
        """What is subtracted from the exponents of a row."""
        return apply(f32, ptx.inst.mul.rn.f32, self.largest[row], self.c[row])

    def _rescale(self, row: int, before, negative):
        """Makes `factor` from the old and the new base.  Both are rounded the same way, so a largest score that stays gives exactly 1."""
        ptx.inst.mul.rn.f32(before, before, self.c[row])
        ptx.inst.add.f32(before, before, negative)
        ptx.inst.ex2.approx.ftz.f32(self.factor[row], before)

    def _mask(self, index):
        """Makes the scores of keys that a row does not see -inf."""
        plan, tiles = self.plan, self.tiles
        first = index * plan.keys + signed(self.first_column)
        for row in range(2):
            end = signed(tiles.N)
            if plan.right or plan.left:
                sees = signed(tiles.query(tiles.row + self.number * 64 + self.first_row + 8 * row)) + tiles.shift
            if plan.right:
                ptx.inst.min.s32(end, end, sees + 1)
            ptx.inst.sub.s32(end, end, first)
            if plan.left:
                begin = sees - tiles.reach - first
            for i, each in enumerate(self.scores):
                if i // 2 % 2 != row:
                    continue
                column = i // 4 * 8 + i % 2
                ptx.inst.selp.f32(each, each, -math.inf, end > column)
                if plan.left:
                    ptx.inst.selp.f32(each, each, -math.inf, begin <= column)

    def _begin_bias(self, index):
        """Starts to load the bias of a tile's first block, which may have keys that do not exist."""
        if self.plan.biased and self.bias:
            for row in range(2):
                self._load_bias(row, self.bias[row], index, tail=True)

    def _load_bias(self, row: int, into, index, there_is=None, tail: bool = False):
        """Starts to load a row's bias of a block, if the row exists and the predicate `there_is` holds.  `tail`: whether some of the keys may
        not exist."""
        plan, tiles, each = self.plan, self.tiles, self.plan.biased
        first = index * plan.keys + signed(self.first_column)
        query = tiles.row + self.number * 64 + self.first_row + 8 * row
        exists = query < tiles.M
        if tail:
            end = apply(s32, ptx.inst.selp.s32, signed(tiles.N), 0, exists)
        else:
            there_is = there_is & exists
        of_keys = apply(u64, ptx.inst.mul.wide.u32, apply(u32, ptx.inst.mov.b32, first), 2)
        at = tiles.bias + tiles.bias_at(query) * (2 * each) + of_keys
        columns = [8 * group + i for group in range(plan.keys // 8) for i in range(0, 2, each)]
        load = ptx.inst.ld.global_.nc.b32 if each == 2 else ptx.inst.ld.global_.nc.b16
        for register, column in zip(into, columns, strict=True):
            there = ptx.addr(at, 2 * column)
            load(register, there, pred=first + (column + each) <= end if tail else there_is)
            if tail and each == 2:  # the last key of an odd number
                one, alone = reg.scalar(b16, init=0), first + (column + 1) == end
                ptx.inst.ld.global_.nc.b16(one, there, pred=alone)
                ptx.inst.mov.b32(register, [one, one], pred=alone)

    def _add_bias(self, index):
        """Adds the bias to scores, divided by the scale, because scores are multiplied by that later; then starts to load the next block's."""
        inverse = apply(f32, ptx.inst.rcp.rn.f32, self._scale_of_scores())
        for row in range(2):
            into = self.bias[row] if self.bias else self._registers_of_bias()
            if not self.bias:
                self._load_bias(row, into, index, tail=True)
            values = [value for each in into for value in widened(each, self.dtype)]
            for score, bias in zip(self._of_row(row), values, strict=True):
                ptx.inst.fma.rn.f32(score, bias, inverse, score)
            if self.bias:
                self._load_next_bias(row, into, index)

    def _load_next_bias(self, row: int, into, index):
        self._load_bias(row, into, index - 1, index > self.tiles.first)

    def _registers_of_bias(self) -> list:
        """Registers that hold the bias of a row."""
        plan = self.plan
        return [reg.scalar(b32 if plan.biased == 2 else b16, init=0) for _ in range(plan.keys // (4 * plan.biased))]

    def _cap(self):
        cap_scaled(self.scores, self._scale_of_scores(), self.tiles.cap)

    def _scale_of_scores(self):
        return self.tiles.scale

    def _pack(self):
        """Rounds the exponentials to `p`: registers 8t to 8t + 7 become the four of operand A for keys 16t to 16t + 15."""
        convert = getattr(ptx.inst.cvt.rn, self.dtype.name + "x2").f32
        for i, each in enumerate(self.p):
            convert(each, self.scores[2 * i + 1], self.scores[2 * i])

    def _finish(self, row: int):
        """Adds up the total of a row over its four threads, and returns what the result is multiplied by."""
        total = self.total[row]
        for distance in (1, 2):
            other = apply(f32, ptx.inst.shfl.sync.bfly.b32, total, distance, 31, 0xFFFFFFFF)
            ptx.inst.add.f32(total, total, other)
        weight = self._join_sink(row) if self.plan.sinks else None
        inverse = apply(f32, ptx.inst.rcp.approx.ftz.f32, total)
        ptx.inst.selp.f32(inverse, 0.0, inverse, total == 0.0)
        if weight is not None:
            ptx.inst.mul.rn.f32(inverse, inverse, weight)
        return inverse

    def _join_sink(self, row: int):
        """Adds the sink to the total, which is then relative to `top`, and returns the factor of the exponentials so far."""
        top, total = self.top[row], self.total[row]
        sink = self.tiles.sink(self._head_of(row))
        base = self._base(row)
        ptx.inst.max.f32(top, base, sink)
        ptx.inst.selp.f32(top, 0.0, top, top == -math.inf)
        weight, own = (apply(f32, ptx.inst.sub.f32, each, top) for each in (base, sink))
        for each in (weight, own):
            ptx.inst.ex2.approx.ftz.f32(each, each)
        ptx.inst.fma.rn.f32(total, total, weight, own)
        return weight

    def _head_of(self, row: int):
        """The head of one of the thread's rows."""
        return self.tiles.head

    def _store_sums(self, lse):
        """Stores log(sum(exp(scale score))) of each row."""
        tiles = self.tiles
        for row in range(2):
            at = tiles.row + self.number * 64 + self.first_row + 8 * row
            log = apply(f32, ptx.inst.lg2.approx.f32, self.total[row])
            if self.plan.sinks:
                ptx.inst.add.f32(log, log, self.top[row])
            else:
                self._add_base(row, log)
            ptx.inst.mul.rn.f32(log, log, 1 / LOG2_E)
            ptx.inst.selp.f32(log, -math.inf, log, self.total[row] == 0.0)
            with ptx.if_((at < tiles.end) & ((self.thread & 3) == 0)):
                ptx.inst.st.global_.f32(ptx.addr(lse + tiles.sums_at(at) * 4), log)

    def _add_base(self, row: int, log):
        ptx.inst.add.f32(log, log, self._base(row))


def cap_scaled(scores, scale, cap):
    """scores = cap tanh(scale score / cap) / scale, so that what follows is the same as without a cap."""
    down = apply(f32, ptx.inst.div.rn.f32, scale, cap)
    up = apply(f32, ptx.inst.rcp.rn.f32, down)
    for each in scores:
        ptx.inst.mul.rn.f32(each, each, down)
        ptx.inst.tanh.approx.f32(each, each)
        ptx.inst.mul.rn.f32(each, each, up)


def power(exponent, base):
    """2^(exponent - base)."""
    return apply(f32, ptx.inst.ex2.approx.ftz.f32, apply(f32, ptx.inst.sub.f32, exponent, base))


def over_row(into, values, combine):
    """Combines `into` and all values in `into`, by two chains."""
    chains = [into, apply(f32, ptx.inst.mov.f32, values[0])]
    for i, each in enumerate(values[1:]):
        combine(chains[i % 2], chains[i % 2], each)
    combine(into, into, chains[1])
