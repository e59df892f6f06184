"""Names and arguments that pyptx 0.1.1 had and that have another spelling now.  They stay reachable under their old places.

ptx.setp(..., pred_negate=p)      ptx.setp(..., pred=p)
ptx.setmaxnreg(n, inc=False)      ptx.setmaxnreg_dec(n)
ptx.cluster.arrive_multicast      was no PTX; refused
MbarrierArray, MbarrierRef        what smem.mbarrier(n) returns, and its items: names of pyptx.smem
BarrierArray, BarrierSlot         what ptx.mbarrier.array(...) returns, and its items
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pyptx import _core
from pyptx._core import BarrierArray, BarrierSlot, MbarrierArray, MbarrierRef
from pyptx.errors import AuthoringValueError

if TYPE_CHECKING:
    from pyptx._core import Guard, Number, PtxType, Reg

__all__ = ["BarrierArray", "BarrierSlot", "MbarrierArray", "MbarrierRef", "arrive_multicast", "setmaxnreg", "setp"]

_Compare = Literal["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]  # fmt: skip


def setp(
    cmp_op: _Compare,
    dtype: PtxType,
    pred_out: Reg,
    a: Number,
    b: Number,
    *,
    pred_negate: Guard = None,
    pred: Guard = None,
    second: Reg | None = None,
    boolop: Literal["and", "or", "xor"] | None = None,
    c: Number | None = None,
    ftz: bool = False,
) -> Reg:
    """Whether a `cmp_op` b, as `setp.cmp_op.dtype` has it.  `pred_negate` is an old name of `pred`.

    Example:
        ptx.setp("lt", u32, p, x, n)          # setp.lt.u32 %p0, %r0, %r3;
    """
    guard = pred if pred is not None else pred_negate
    return _core.ptx.setp(cmp_op, dtype, pred_out, a, b, second=second, boolop=boolop, c=c, ftz=ftz, pred=guard)


def setmaxnreg(count: int, *, inc: bool = True, pred: Guard = None) -> None:
    """setmaxnreg_inc(count), or with inc=False setmaxnreg_dec(count).

    Example:
        ptx.setmaxnreg(24, inc=False)         # setmaxnreg.dec.sync.aligned.u32 24;
    """
    (_core.ptx.setmaxnreg_inc if inc else _core.ptx.setmaxnreg_dec)(count, pred=pred)


def arrive_multicast(*_: Any, **__: Any) -> NoReturn:
    """Refused: what 0.1.1 wrote was no PTX."""
    raise AuthoringValueError(
        "PTX before 9.4 has no mbarrier.arrive with multicast; write ptx.cluster.arrive_remote for each CTA of the cluster, "
        "or on sm_107f ptx.mbarrier.arrive_cluster(bar, cta_mask=...)"
    )


_core.cluster.arrive_multicast = arrive_multicast  # type: ignore[attr-defined]
