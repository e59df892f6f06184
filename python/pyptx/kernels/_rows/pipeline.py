"""A loop over rows that forms the sums of the next row before it finishes the present one:

    send the sums of row 0
    for each row i:  send the sums of row i + 1;  receive those of row i;  the body

so that no warp waits while a message is on its way.  Shared memory holds all of rows i and i + 1, and what is being copied.
"""

from pyptx import ptx, reg
from pyptx.kernels._registers import copied
from pyptx.types import u32

__all__ = ["pipelined"]


def pipelined(row, m, step, beside, first):
    """The loop of `Row.over`.  It yields the values of a row, those `beside` it, and the results of `first`."""
    ahead, early, messages, turn = row.ahead, row.early, row.agree.messages, reg.scalar(u32, init=0)

    def send(behind: int, turn):
        found = first(*ahead.values(behind), *beside)
        messages.send(turn, found.of_warp())
        return found

    index = row.index
    if early:
        early.take()
        early.load(index + step, index + step < m)
    with ptx.if_(index < m):
        send(0, turn)
    for row.index in ptx.range_(index, m, step):
        values = ahead.row_values(row.index, m, step)
        following = row.index + step
        if early:
            now, early.value = copied(early.taken), early.taken
            early.take()
            early.load(following + step, following + step < m)
        with ptx.if_(following < m):
            found = send(row.split.each, turn + 1)
        if early:
            early.value = now
        results = found.combined(messages.receive(turn, found.empty))
        ahead.arrived.update(range(row.split.each))  # a row ago
        yield [*values, *beside, results]
        ahead.fetch()
        turn += 1
