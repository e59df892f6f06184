# Patterns of the stub (nanobind's stubgen): the raw types, and what cannot be read off the module.
_core.__prefix__:
    from collections.abc import Callable
    from typing import Any, Iterator, Literal, NoReturn, Protocol, Sequence, SupportsFloat, SupportsIndex, TypeAlias

    class Addressable(Protocol):  # variables of the module, functions, addresses beside them
        def address_operand(self) -> str | AddressOperand: ...

    # A register, an integer, or what has an address: the name of a symbol or special register, a variable, a function.
    Integer: TypeAlias = Reg | SupportsIndex | str | Addressable
    Number: TypeAlias = Reg | SupportsIndex | SupportsFloat | str | Addressable
    Predicate: TypeAlias = Reg | NegPred | str
    Guard: TypeAlias = Reg | NegPred | PipeRef | None
    Registers: TypeAlias = Sequence[Reg] | RegArray
    Address: TypeAlias = (
        AddressOperand | CompoundOperand | Reg | SharedAlloc | MbarrierArray | MbarrierRef | BarrierSlot | Addressable | str
    )

    class Reg:
        """A register of the kernel that is being traced."""
        @property
        def name(self) -> str: ...
        @property
        def dtype(self) -> PtxType: ...
        def __add__(self, other: Reg | int | float) -> Reg: ...
        def __radd__(self, other: int | float) -> Reg: ...
        def __sub__(self, other: Reg | int | float) -> Reg: ...
        def __rsub__(self, other: int | float) -> Reg: ...
        def __mul__(self, other: Reg | int | float) -> Reg: ...
        def __rmul__(self, other: int | float) -> Reg: ...
        def __truediv__(self, other: Any) -> NoReturn: ...
        def __floordiv__(self, other: Any) -> NoReturn: ...
        def __mod__(self, other: Any) -> NoReturn: ...
        def __lshift__(self, other: Reg | int) -> Reg: ...
        def __rshift__(self, other: Reg | int) -> Reg: ...
        def __and__(self, other: Reg | NegPred | PipeRef | int) -> Reg: ...
        def __rand__(self, other: int) -> Reg: ...
        def __or__(self, other: Reg | NegPred | PipeRef | int) -> Any: ...
        def __ror__(self, other: int) -> Reg: ...
        def __xor__(self, other: Reg | NegPred | PipeRef | int) -> Reg: ...
        def __rxor__(self, other: int) -> Reg: ...
        def __invert__(self) -> Any: ...
        def __neg__(self) -> Reg: ...
        def __lt__(self, other: Reg | int | float) -> Comparison: ...
        def __le__(self, other: Reg | int | float) -> Comparison: ...
        def __gt__(self, other: Reg | int | float) -> Comparison: ...
        def __ge__(self, other: Reg | int | float) -> Comparison: ...
        def __eq__(self, other: object) -> Comparison: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Comparison: ...  # type: ignore[override]
        def as_(self, other: PtxType) -> Reg: ...
        def max(self, other: Reg | int | float) -> Reg: ...
        def min(self, other: Reg | int | float) -> Reg: ...
        def __getattr__(self, selector: str) -> RegPart: ...

    class Comparison(Reg):
        """A predicate; of packed halves the two of them: `low, high = a < b`."""
        left: Reg
        right: Reg
        def __iter__(self) -> Iterator[Reg]: ...

    class RegArray:
        """Registers declared together."""
        base: str
        count: int
        dtype: PtxType
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Reg]: ...
        @overload
        def __getitem__(self, index: int) -> Reg: ...
        @overload
        def __getitem__(self, index: slice) -> list[Reg]: ...
        def __setitem__(self, index: int, value: Reg) -> None: ...
        def regs(self) -> list[Reg]: ...
        def hw_order(self, *, reverse: bool = False) -> list[Reg]: ...

    class NegPred:
        """A negated predicate."""
        reg: Reg
        def __invert__(self) -> Reg: ...
        def __and__(self, other: Predicate | PipeRef) -> Reg: ...
        def __or__(self, other: Predicate | PipeRef) -> Reg: ...
        def __xor__(self, other: Predicate | PipeRef) -> Reg: ...

    class RegPart:
        """A part of a register, for the video instructions: `a.b0`, `-a.h1`."""
        reg: Reg
        def __neg__(self) -> RegPart: ...

    class PipeRef:
        """Two destinations of one instruction; of predicates, as a condition: the first or the second."""
        left: Reg
        right: Reg
        def __len__(self) -> int: ...
        def __getitem__(self, index: int) -> Reg: ...
        def __iter__(self) -> Iterator[Reg]: ...
        def __invert__(self) -> NegPred: ...
        def __and__(self, other: Predicate | PipeRef) -> Reg: ...
        def __or__(self, other: Predicate | PipeRef) -> Reg: ...
        def __xor__(self, other: Predicate | PipeRef) -> Reg: ...

    class AddressOperand:
        """[base + offset]"""
        offset: int
        unified: AddressOperand

    class CompoundOperand:
        """An operand of several parts: `[a, b] | p`, `ptx.bracket(texture, [x, y])`, an element of a variable."""
        def __getitem__(self, index: Reg | SupportsIndex) -> CompoundOperand: ...

    class Launcher:
        """What is called: finds the plan for the arguments and launches it."""
        def __call__(self, *arrays: Any, **kwargs: Any) -> Any: ...

    class Choice:
        """A function of tensors that remembers which kernel it chose for such tensors; else `_choose` is called."""
        def __call__(self, tensors: tuple[Any, ...], out: Any = None, **options: Any) -> Any: ...

_core.inst:
    from pyptx._inst import Inst

    inst: Inst

_core.scalar$:
    def scalar(dtype: PtxType, init: Number | None = None, name: str | None = None, vector: int = 1) -> Reg:
        \doc

_core.array$:
    def array(dtype: PtxType, count: int, name: str | None = None) -> RegArray:
        \doc

_core.alloc$:
    def alloc(dtype: PtxType) -> Reg:
        \doc

_core.alloc_array$:
    def alloc_array(dtype: PtxType, count: int) -> RegArray:
        \doc

_core.from_:
    def from_(src: Number | Address, dtype: PtxType) -> Reg:
        \doc

_core.param$:
    def param(dtype: PtxType, name: str, dst: Reg | None = None) -> Reg:
        \doc

_core.global_ptrs:
    def global_ptrs(*params: Any) -> tuple[Reg, ...]:
        \doc

_core.addr$:
    def addr(base: Address | SupportsIndex, offset: Reg | SupportsIndex | None = None) -> AddressOperand:
        \doc

_core.sreg$:
    def sreg(name: str) -> Reg:
        \doc

_core.smem_(base):
    def smem_base(name: str | None = None) -> Reg:
        \doc

_core.smem_load:
    def smem_load(dtype: PtxType, address: Address) -> Reg:
        \doc

_core.smem_store:
    def smem_store(dtype: PtxType, address: Address, value: Reg) -> None:
        \doc

_core.smem_apply_swizzle:
    def smem_apply_swizzle(logical_offset: Reg, swizzle: str | None) -> Reg:
        \doc

_core.smem_alloc:
    def smem_alloc(
        dtype: PtxType,
        shape: SupportsIndex | Sequence[SupportsIndex],
        swizzle: str | None = None,
        align: int | None = None,
        name: str | None = None,
    ) -> SharedAlloc:
        \doc

_core.smem_wgmma_tile:
    def smem_wgmma_tile(
        dtype: PtxType,
        shape: Sequence[SupportsIndex],
        major: str = "K",
        *,
        align: int | None = None,
        name: str | None = None,
    ) -> SharedAlloc: ...

_core.SharedAlloc.__getitem__:
    def __getitem__(self, key: Any) -> Any: ...

_core.Range.__next__:
    def __next__(self) -> Reg: ...

_core.named$:
    def named(name: str) -> Reg:
        \doc

_core.when$:
    def when(pred: Predicate, *, uniform: bool = False) -> Block:
        \doc

_core.switch$:
    def switch(
        index: Reg, *, count: int | None = None, default: Predicate | None = None, uniform: bool = False
    ) -> Block:
        \doc

_core.kloop$:
    def kloop(
        total: Reg | SupportsIndex, *, unroll: int, body: Callable[[], object], loop_label: str = "kloop"
    ) -> None:
        \doc

_core.print$:
    def print(format: str, *values: Reg | SupportsIndex | SupportsFloat, pred: Guard = None) -> None:
        \doc

_core.bracket$:
    def bracket(base: Address, *parts: Number | Sequence[Number]) -> CompoundOperand:
        \doc

_core.pipeline$:
    def pipeline(n_stages: int, *, cursor: Reg | None = None, phase: Reg | None = None) -> PipelineState:
        \doc

_core.PipelineState.(cursor|phase):
    @property
    def \1(self) -> Reg: ...

_core.PipelineState.advance:
    def advance(self) -> tuple[Reg, Reg]:
        \doc

_core.SharedAlloc.dtype:
    @property
    def dtype(self) -> PtxType: ...

_core.SharedAlloc.shape:
    @property
    def shape(self) -> tuple[int, ...]: ...

_core.SharedAlloc.swizzle:
    @property
    def swizzle(self) -> str | None: ...

_core.SharedAlloc.alloc:
    @property
    def alloc(self) -> SharedAlloc: ...

_core.SharedAlloc.stage:
    @property
    def stage(self) -> Reg | int | None: ...

_core.MbarrierRef.array:
    @property
    def array(self) -> MbarrierArray: ...

_core.MbarrierRef.idx:
    @property
    def idx(self) -> Reg | int: ...
