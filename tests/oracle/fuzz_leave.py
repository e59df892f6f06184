"""Random programs of fuzz.py whose threads leave early, one by one, and whose warpgroups pass registers to each other.

Left out, since no program of one text runs on an H200 and the simulator: clusterlaunchcontrol (sm_100), multimem (an address that the driver makes of
several allocations), textures and surfaces (unsimulated.def).  tensormap.replace is in fuzz_tensors.py.
"""

import random

from fuzz_programs import Program
from fuzz_threads import LONGS, SLOT, Collectives


class Leaving(Collectives):
    """exit and ret of some lanes, in converged and in divergent code; %mask0 has the lanes that are left.  activemask, discard.

    What activemask gives depends on how a warp's lanes happen to be scheduled.  Of that the programs keep what does not: that the lane itself
    is in it, and that no lane is that has left or is in other code.
    """

    family = "leaving"

    def one(self, pick: random.Random, mask: str) -> list[str]:
        if pick.random() < 0.2:
            w = self.word(pick)
            rest = f"not.b32 %y, {mask}; and.b32 %x, %x, %y; popc.b32 %x, %x;"
            return [
                f"activemask.b32 %x; shr.u32 %n, %x, %lane; and.b32 %n, %n, 1; {rest}",
                f"mad.lo.u32 {w}, %x, 77, {w}; add.u32 {w}, {w}, %n;",
            ]
        return super().one(pick, mask)

    def whole(self, pick: random.Random) -> list[str]:
        """Of all lanes that are left."""
        return [*self.block(pick, 0), *self.mix(pick)]

    def leave(self, pick: random.Random, under: str = "%gone") -> str:
        """The lanes of a predicate write what they leave, and leave."""
        writes = " ".join(f"@{under} {line}" for line in self.leaves())
        return f"{writes} @{under} {pick.choice(['exit', 'exit', 'ret'])};"

    def chosen(self, pick: random.Random) -> str:
        """%gone of the lanes that leave, few at a time, and %left, the others of %mask0."""
        few = pick.choice([1, 3, 3, 7])
        return (
            f"shr.u32 %x, {self.word(pick)}, {pick.randrange(28)}; and.b32 %x, %x, {few}; setp.eq.u32 %gone, %x, {few}; "
            "vote.sync.ballot.b32 %left, %gone, %mask0; not.b32 %left, %left; and.b32 %left, %left, %mask0;"
        )

    def at_once(self, pick: random.Random) -> list[str]:
        return [self.chosen(pick), self.leave(pick), "mov.b32 %mask0, %left;", *self.whole(pick)]

    def in_a_branch(self, pick: random.Random) -> list[str]:
        """The lanes of either side leave there, before, between or behind what the side does together."""
        label, sides = self.label(), []
        for _ in range(2):
            side, where = [], pick.randrange(3)
            for part in range(2):
                side += [self.leave(pick), "and.b32 %mask1, %mask1, %left;"] if part == where else []
                side += [*self.one(pick, "%mask1"), *self.mix(pick)]
            side += [self.leave(pick)] if where == 2 else []
            sides.append(side)
        return [
            self.chosen(pick),
            f"setp.{pick.choice(['lt', 'gt', 'ne'])}.s32 %p0, {self.word(pick)}, {self.word(pick)};",
            f"vote.sync.ballot.b32 %mask1, %p0, %mask0; @!%p0 bra {label}_else;",
            *sides[0],
            f"bra {label}_end;",
            f"{label}_else: not.b32 %mask1, %mask1; and.b32 %mask1, %mask1, %mask0;",
            *sides[1],
            f"{label}_end: mov.b32 %mask0, %left;",
            *self.whole(pick),
        ]

    def in_a_loop(self, pick: random.Random) -> list[str]:
        """Rounds, behind each of which some leave."""
        label = self.label()
        return [
            "{",
            f".reg .b32 %n{label}; .reg .pred %p{label}; mov.u32 %n{label}, {pick.randrange(1, 4)};",
            f"{label}: {self.chosen(pick)}",
            *self.one(pick, "%mask0"),
            *self.mix(pick),
            self.leave(pick),
            f"mov.b32 %mask0, %left; sub.u32 %n{label}, %n{label}, 1; setp.ne.u32 %p{label}, %n{label}, 0; @%p{label} bra {label};",
            "}",
        ]

    def discarded(self, pick: random.Random) -> list[str]:
        """128 bytes of a thread, whose content nobody knows until they are written again."""
        at = f"mul.wide.u32 %l, %t, 128; add.u64 %l, %l, %tail; setp.lt.u32 %p0, %t, {pick.choice([1, 8, 32])};"
        pairs = [(pick.randrange(LONGS), pick.randrange(LONGS)) for _ in range(8)]
        writes = " ".join(f"@%p0 st.global.v2.b64 [%l+{16 * i}], {{%d{a}, %d{b}}};" for i, (a, b) in enumerate(pairs))
        return [
            at,
            f"@%p0 discard{pick.choice(['.global', ''])}.L2 [%l], 128; {writes}",
            f"@%p0 ld.global.b64 {self.long(pick)}, [%l+{8 * pick.randrange(16)}];",
        ]

    def begin(self) -> list[str]:
        return [".reg .b32 %left; .reg .pred %gone;", *super().begin()]

    def makers(self) -> list:
        return [self.whole, self.at_once, self.in_a_branch, self.in_a_branch, self.in_a_loop, self.discarded]


class Warpgroups(Collectives):
    """Two warpgroups, of which one gives registers that the other takes: setmaxnreg, each behind a barrier."""

    family, threads = "warpgroups", 256
    FIRST = 128  # registers of a thread at the launch

    def exchange(self, pick: random.Random) -> list[str]:
        """The first to give is either; then back to what both had, the one that has more first."""
        label, giver = self.label(), pick.randrange(2)
        less = 8 * pick.randrange(8, self.FIRST // 8)  # not below what the program may need
        more = 8 * pick.randrange(self.FIRST // 8, (2 * self.FIRST - less) // 8 + 1)

        def side(first: str, second: str) -> list[str]:
            return [
                f"setmaxnreg.{first};",
                *self.one(pick, "%mask0"),
                *self.mix(pick),
                "bar.sync 0;",  # or the giver takes its own again, and the taker waits for ever
                f"setmaxnreg.{second};",
                *self.mix(pick),
                "bar.sync 0;",
            ]

        dec, inc = "dec.sync.aligned.u32", "inc.sync.aligned.u32"
        return [
            f"shr.u32 %x, %t, 7; setp.ne.u32 %p0, %x, {giver}; @%p0 bra {label}_taker;",
            *side(f"{dec} {less}", f"{inc} {self.FIRST}"),
            f"bra {label}_end;",
            f"{label}_taker:",
            *side(f"{inc} {more}", f"{dec} {self.FIRST}"),
            f"{label}_end:",
        ]

    def shared(self, pick: random.Random) -> list[str]:
        """Between the two, by shared memory."""
        at = 8 * pick.randrange(LONGS)
        return [
            "bar.sync 0;",
            f"st.shared.b64 [%own+{at}], {self.long(pick)}; bar.sync 0;",
            f"xor.b32 %x, %t, {pick.randrange(1, self.threads)}; mad.lo.u32 %x, %x, {SLOT}, %base; ld.shared.b64 {self.long(pick)}, [%x+{at}];",
            "bar.sync 0;",
        ]

    def makers(self) -> list:
        return [self.exchange, self.exchange, self.shared, self.statement]

    def program(self, seed: int) -> Program:
        made = super().program(seed)
        made.directives = f" .maxntid {self.threads} .maxnreg {self.FIRST}"
        return made
