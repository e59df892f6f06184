"""A loop over rows whose sums, or what else is found first, are formed a row ahead: while the messages of one row are on their way, the row
before is worked on.

    sums of row 0, sent
    for each row i:  sums of row i + 1, sent;  those of row i, received;  the body

so that no warp waits for what a message takes.  Rows i and i + 1 are in shared memory as a whole, and what is on its way.
"""

from pyptx import ptx, reg
from pyptx.kernels._registers import copied
from pyptx.types import u32

__all__ = ["pipelined"]


def pipelined(row, m, step, beside, first):
    """The loop of `Row.over`: the values of a row, those `beside` it, and the results of `first`."""
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
