"""The C++ library behind pyptx"""

from collections.abc import Mapping, Sequence
from typing import overload


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

version: str = '0.1.1'

def diagnostic_codes() -> list: ...

class Diagnostic:
    """What the library has to say about one line"""

    def __init__(self, code: int, file: str, line: int, message: str) -> None: ...

    @property
    def code(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def severity(self) -> str: ...

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...

    @property
    def message(self) -> str: ...

    @property
    def notes(self) -> list[str]: ...

    @property
    def operand(self) -> int: ...

    @property
    def span(self) -> tuple[int, int]: ...

    @property
    def section(self) -> str: ...

    def __getstate__(self) -> tuple: ...

    def __setstate__(self, arg: tuple[int, str, int, int, str, Sequence[str], int, str], /) -> None: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

def c_sources(name: str, title: str, variants: Sequence[tuple[Record, Mapping[str, int], Sequence[str], Sequence[Sequence[str]], Sequence[tuple[str, bytes, bool]]]], sizes: Sequence[str], fixed: Mapping[str, str], flavours: Sequence[str]) -> list[tuple[str, str]]:
    """
    (name, text) of each file of a kernel as C. A variant is a record, the sizes that it is for, grid and boxes as expressions of C, and (target, bytes, whether they are text) of each image
    """

def ptx_entry(text: str, file: str, entry: str) -> tuple:
    """
    (name, target, (name, bytes) of each parameter) of an .entry of this name, or of the only one
    """

def architectures() -> list:
    """The rows of ptx/arch/targets.def, in the order of their numbers"""

def tcgen05_shape(descriptor: int) -> tuple:
    """(M, N) of an instruction descriptor of tcgen05.mma"""

def elements() -> list:
    """(name, bits, kind, framework, alias) of each element type of tensors"""

def types() -> list:
    """(name, bits) of each type of PTX"""

def swizzles() -> list:
    """
    (name, bytes of a row, code in a wgmma descriptor or -1) of each swizzle
    """

def swizzled(name: str, offset: int) -> int:
    """
    Where the byte at `offset` of a tile lies, from a boundary at which the swizzle's pattern starts
    """

def tile_layout(bits: int, rows: int, columns: int, mn_major: bool) -> tuple:
    """
    (swizzle, leading and stride byte offsets) of a tile that a wgmma descriptor names; ValueError if none can
    """

def element_of(type: str, bits: int) -> str | None:
    """The element type of tensors of this PTX type; None where there is none"""

def target_of_device(major: int, minor: int) -> str:
    """
    The most specific target of a device of this compute capability, for example sm_90a
    """

class Form:
    """One form of an instruction: a row of the ISA"""

    @property
    def id(self) -> str: ...

    @property
    def opcode(self) -> str: ...

    @property
    def section(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def syntax(self) -> str: ...

    @property
    def sets(self) -> list[tuple[str, list[tuple[str, str]]]]: ...

    @property
    def modifiers(self) -> list[str]:
        """Every modifier that it may have"""

    @property
    def since(self) -> str: ...

    @property
    def targets(self) -> list[str]: ...

    @property
    def rules(self) -> list[str]: ...

    @property
    def unsimulated(self) -> str:
        """Why the simulator does not run it; empty: it does"""

def forms() -> list:
    """Every form, in the manual's order"""

def forms_of(mnemonic: str) -> list[str]:
    """The names of the forms that a whole mnemonic is read by"""

def forms_used(text: bytes) -> set[str]: ...

def fragments(mnemonic: str) -> list:
    """
    (name, matrices, rows, columns, bits, registers, threads, where the elements of the threads lie) of each matrix of an instruction
    """

def next_modifiers(partial: str) -> list[str]:
    """What may follow the beginning of a mnemonic"""

def python_name(text: str) -> str:
    """A modifier or an opcode as a name of Python: shared__cta, _2d, global_"""

def explain(mnemonic: str) -> str:
    """Why no form has these modifiers"""

@overload
def special_registers() -> list: ...

@overload
def special_registers() -> list: ...

def xla_handlers(platform: str, values: bool = False) -> dict:
    """
    Stage -> handler of the typed FFI call pyptx_launch, or pyptx_launch_values, for "cpu" or "CUDA\"
    """

def element_takes(wanted: str, untyped: bool, given: str) -> bool: ...

def tensor_map_names() -> dict:
    """Names of the values of a Tile's tma_interleave, tma_fill and tma_l2"""

class Record:
    """
    What a launch is: shape of the grid, arguments in the order of the .entry's parameters
    """

    def __init__(self, entry: str, target: str, grid: tuple[int, int, int], block: tuple[int, int, int], cluster: tuple[int, int, int] = (1, 1, 1), dynamic_shared: int = 0, assembler: str = '') -> None: ...

    def tensor(self, name: str, dtype: str, shape: Sequence, output: bool = False, parameter: bool = True, column_major: bool = False, untyped: bool = False, strided: bool = False, alignment: int = 0, written: bool = True) -> None:
        """
        Inputs first, then outputs; dimensions are sizes or names of symbols. Adds the pointer's parameter unless told otherwise
        """

    def attributes(self, cooperative: bool = False, dependent: bool = False, priority: int = 0, shared_carveout: int = -1) -> None: ...

    def scalar(self, name: str, type: str, alignment: int = 0) -> None: ...

    def tensor_map(self, tensor: str, box: Sequence[int], swizzle: str = 'NONE', column_blocks: bool = False, padding: bool = False, element_strides: Sequence[int] | None = None, dtype: str | None = None, interleave: str = 'none', fill: str = 'zero', promotion: str = '128B', spread: bool = False, im2col: tuple[Sequence[int], Sequence[int], int, int] | None = None) -> None:
        """
        A map of a tensor, by value: box and element strides innermost dimension first. im2col: lower and upper corner, innermost spatial dimension first, channels, pixels
        """

    def lines(self, lines: Sequence[tuple[str, int]]) -> None:
        """
        The author's (file, line) of each line of the PTX text; entry 0 is not used
        """

    def allocated(self, pieces: Sequence[tuple[str, str, int, int, str, int]]) -> None:
        """The author's shared memory, as Module.allocated has it"""

    def registers(self, made: MadeRegisters | None) -> None:
        """The author's registers, as Module.registers has them"""

    def repeat(self, copies: int, axis: int) -> None:
        """
        That many grids in one launch, side by side along an axis of the grid; tensors have them as first dimension
        """

    def to_bytes(self) -> bytes:
        """
        What programs of other frameworks carry; the same record gives the same bytes in every process
        """

    @staticmethod
    def from_bytes(bytes: bytes) -> Record: ...

    def takes(self, index: int, element: str) -> bool:
        """Whether tensor `index` may have elements of this type"""

    @property
    def entry(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def dynamic_shared(self) -> int: ...

    @property
    def grid(self) -> tuple[int, int, int]: ...

    @grid.setter
    def grid(self, arg: tuple[int, int, int], /) -> None: ...

    @property
    def tensors(self) -> list: ...

    @property
    def scalars(self) -> list: ...

    @property
    def parameters(self) -> list: ...

class Plan:
    """One specialisation of a kernel, ready to run on one device"""

    @staticmethod
    def make(ptx: str, record: Record, device: tuple[int, int]) -> Plan: ...

    def reshaped(self, record: Record) -> Plan:
        """
        The plan of another shape: other sizes, boxes and grid; it shares what was assembled
        """

    @property
    def remarks(self) -> object: ...

    def __call__(self, arrays: tuple, scalars: tuple = (), out: object | None = None, stream: object | None = None, makers: list = []) -> object: ...

def use_packages(folders: Sequence[str]) -> None:
    """
    Folders with Python packages in which assemblers are looked for, before the first is needed
    """

def assembler_description(ptx: str = '', target: str = '', assembler: str = '') -> str:
    """
    What assembles this text; without one, what assembles a text that every assembler knows
    """

def assemblers() -> list[tuple[str, str]]:
    """
    Each that was found, best first: what it is, and why it is taken or not
    """

def use_assembler(choice: str) -> None: ...

def check_assembler(choice: str) -> None:
    """Refuses what names no kind of assembler"""

def disassembler_description() -> str: ...

def sass(ptx: str, target: str, name: str = 'kernel', lines: Sequence[tuple[str, int]] = [], ptx_lines: bool = False, assembler: str = '') -> str: ...

def resources(ptx: str, target: str, entry: str, lines: Sequence[tuple[str, int]], threads: int, dynamic_shared: int, assembler: str = '') -> tuple: ...

def cache_status() -> tuple: ...

def cache_trim(most_bytes: int) -> int: ...

def machine_code(ptx: str, target: str, name: str = 'kernel', lines: Sequence[tuple[str, int]] = [], assembler: str = '') -> bytes:
    """The cubin of a text for a target"""

def assemble_with_driver(ptx: str, target: str) -> bytes: ...

def driver_version() -> str | None: ...

def devices() -> list: ...

def device_capability(arg: int, /) -> tuple[int, int] | None: ...

def remember(launcher: object, arrays: tuple, fixed: dict, plan: object, scalars: list, makers: list) -> None: ...

def declare_launcher(launcher: object, out: bool, stream: bool, mutated: Sequence[int]) -> None: ...

def keep_calls(on: bool) -> None: ...

def unchanged(launcher: object) -> bool: ...

def watch(launcher: object, reads: list, verify: object | None) -> None: ...

def show_call(type: object, function: object) -> None: ...

def pack_scalars(record: Record, values: tuple) -> bytes: ...

def describe(array: object | None) -> tuple: ...

def are_plain(tensors: tuple) -> bool: ...

def are_recorded(tensors: tuple) -> bool: ...

def remember_launches(choice: object, tensors: tuple, out: object | None, options: dict, function: object) -> object: ...

def spoil_launches() -> None:
    """Says that something else than launches touches memory"""

def forget_launches() -> None:
    """Makes the next call of each function of tensors ask Python"""

def remember_derivative(choice: object, tensors: tuple, options: dict, function: object, picks: Sequence[int]) -> None: ...

def ask_python(choices: Sequence[object], asks: bool) -> None: ...

def heed_state(choice: object, on: object, number: object) -> None: ...

def set_package_folder(arg: str, /) -> None: ...

def author_place() -> tuple: ...

def is_opaque(arg: str, /) -> bool: ...

def is_pointed(arg: str, /) -> bool: ...

class PtxType:
    """A type of PTX: `name`, `bits`, and `ptx`, the name with its dot"""

    def __init__(self, name: str, bits: int) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def bits(self) -> int: ...

    @property
    def ptx(self) -> str: ...

    def __repr__(self) -> str: ...

    def __hash__(self) -> int: ...

    def __eq__(self, other: object | None) -> bool: ...

    def __reduce__(self) -> tuple: ...

def minus(reg: Reg) -> RegPart:
    """
    -reg, as an operand of vmad; a part of one is `-a.h0`.

    Example:
        ptx.inst.vmad.s32.s32.s32(y, x, x, ptx.minus(y))
    """

from pyptx._inst import Inst

inst: Inst

class MadeRegisters:
    """Registers that an author's program has, and where it got them"""

    @property
    def rows(self) -> list: ...

class Module:
    """One kernel as instructions: what a trace made"""

    def emit(self, lineinfo: bool = False) -> str:
        """Its PTX text; with `lineinfo`, with .file and .loc lines."""

    @property
    def lines(self) -> list:
        """
        (file, line) of the author for each line of the text; entry 0 is not used
        """

    @property
    def version(self) -> tuple: ...

    @property
    def target(self) -> str: ...

    @property
    def instruction_count(self) -> int: ...

    @property
    def dynamic_shared(self) -> int: ...

    @property
    def static_shared(self) -> int: ...

    @property
    def tensor_maps(self) -> list[str]: ...

    @property
    def tile_copies(self) -> list:
        """
        (tensor, tile, swizzle of the tile, file, line) of tensor copies into tiles that wgmma multiplies
        """

    @property
    def allocated(self) -> list:
        """
        (name, array, offset, bytes, file, line) of shared memory; array: the dynamic memory of which it is a part
        """

    @property
    def registers(self) -> MadeRegisters: ...

    @property
    def notes(self) -> object: ...

class Trace:
    """One kernel while its body runs"""

    def __init__(self, name: str, target: str, version: tuple[int, int] | None = None, extern_smem: str = '', smem: int = 0, directives: Sequence[str] = [], linkage: str = 'visible', attributes: str = '', address_size: int = 64, as_written: bool = False, bits: bool = False) -> None: ...

    def add_pointer(self, arg: str, /) -> None: ...

    def add_raw(self, arg0: str, arg1: str, /) -> None: ...

    def __enter__(self) -> object: ...

    def __exit__(self, kind: object | None, error: object | None, traceback: object | None) -> None: ...

    def tma_desc(self, arg: str, /) -> object: ...

    def begin_function(self, arg: Function, /) -> Trace: ...

    def finish_function(self) -> None: ...

    @property
    def written(self) -> tuple[str, int]: ...

    @property
    def extern_smem_name(self) -> str: ...

    @property
    def shared_bytes(self) -> int: ...

    @property
    def force_dynamic_smem(self) -> bool: ...

    @force_dynamic_smem.setter
    def force_dynamic_smem(self, arg: bool, /) -> None: ...

    def alloc_reg_name(self, prefix: str = '%r') -> int:
        """
        The next number of a prefix of registers, of which the author declares one by its name.
        """

    @property
    def memo(self) -> dict: ...

    @property
    def asked_version(self) -> tuple: ...

    def finish(self) -> Module: ...

class ModuleTrace:
    """A module of several kernels while it is written"""

    def __init__(self, target: str, version: tuple[int, int] | None = None, address_size: int = 64) -> None: ...

    def kernel(self, name: str, extern_smem: str = '', smem: int = 0, directives: Sequence[str] = [], linkage: str = 'visible', attributes: str = '', as_written: bool = False, bits: bool = False) -> Trace:
        """
        One of its kernels; with an empty name what stands outside of them, which is not finished.
        """

    def finish(self, kernels: Sequence[Module]) -> list[Module]:
        """
        The module; and for each of its kernels, the module with what a launch of that needs.
        """

def current_trace() -> object: ...

def is_special_register(arg: str, /) -> bool: ...

def emit(arg0: str, /, *args, **kwargs) -> object:
    """Emits the instruction of this mnemonic with these operands."""

def scalar(dtype: PtxType, init: Number | None = None, name: str | None = None, vector: int = 1) -> Reg:
    """
    A register.  It holds nothing until an instruction writes it; with `init`, a mov does.

    Example:
        total = reg.scalar(f32, init=0.0)     # mov.f32 %f0, 0f00000000;
        v = reg.scalar(f32)
    """

def scalars(dtype: PtxType, *names: str, vector: int = 1) -> tuple[Reg, ...]:
    """
    Registers of one declaration, by their names.  With `vector` 2 or 4 they have as many elements, .x .y .z .w.

    Example:
        a, b = reg.scalars(u32, "a", "b")     # .reg .u32 a, b;
        ptx.inst.mov.u32(a, 1)
    """

def named(name: str) -> Reg:
    """
    The register of this name: one that is declared above, or a parameter in a register.

    Example:
        reg.scalar(u32, name="count")
        count = reg.named("count")
    """

def array(dtype: PtxType, count: int, name: str | None = None) -> RegArray:
    """
    Registers declared together: `arr[i]` is one, by an int; a list of them is the operand of a vector instruction.
    With `vector` 2 or 4 each has as many elements, .x .y .z .w, and the array a name.

    Example:
        v = reg.array(f32, 4)
        ptx.inst.ld.global_.v4.f32(list(v), ptx.addr(px))
        ptx.inst.add.f32(v[0], v[0], v[1])
    """

def alloc(dtype: PtxType) -> Reg:
    """
    A register of the other family of names, %af0; `scalar` otherwise.

    Example:
        t = reg.alloc(f32)
    """

def alloc_array(dtype: PtxType, count: int) -> RegArray:
    """
    Registers of the other family of names; `array` otherwise.

    Example:
        t = reg.alloc_array(f32, 8)
    """

def from_(src: Number | Address, dtype: PtxType) -> Reg:
    """
    A new register and a mov into it: a copy of a register, a special register, a number, or the address of a symbol or of
    shared memory.

    Example:
        t = reg.from_(ptx.special.tid.x(), u32)                 # mov.u32 %r0, %tid.x;
        copy = reg.from_(t, u32)
        tile = smem.alloc(f32, 128)
        address = reg.from_(tile, u32)
    """

class Block:
    def __enter__(self) -> Block: ...

    def __bool__(self) -> bool: ...

    def __exit__(self, arg0: object | None, arg1: object | None, arg2: object | None, /) -> None: ...

    def leave(self, pred: object | None = None, *, uniform: bool = False) -> None:
        """
        Inside a `block` or `loop`: @pred bra to the place behind it.  `uniform`: bra.uni.

        Example:
            with ptx.block() as part:
                part.leave(x > n)
                x += 1
        """

    def enter(self) -> None:
        """
        Inside a `block` that is late: its first turn begins here.

        Example:
            with ptx.block("next", late=True) as part:
                x += 1
                part.enter()
                part.again(x < n)
        """

    def again(self, pred: object | None = None, *, uniform: bool = False) -> None:
        """
        Inside a `loop`, or a `block` with a label: @pred bra to its beginning.  `uniform`: bra.uni.

        Example:
            with ptx.loop("again") as loop:
                x += 1
                loop.again(x < 4)
                x += 2
                ptx.loop_while(x < n)
        """

def block(label: str = '', *, late: bool = False, uniform: bool = False) -> Block:
    """
    A part of the body that its `leave` ends, and, with a label, its `again` begins anew.

    It writes nothing but the label in front, if it is given one, and a label behind, if it is left.  `late`: its first turn
    begins where its `enter` says, by a bra in front, which `uniform` makes bra.uni.

    Example:
        with ptx.block() as part:
            part.leave(x > n)
            x += 1
    """

def when(pred: Predicate, *, uniform: bool = False) -> Block:
    """
    `if_` with one branch and one label, as compilers write it: @!p bra L; body L:.  `uniform`: bra.uni.

    Example:
        with ptx.when(i < n):
            x += 1
    """

def otherwise(*, uniform: bool = False) -> Block:
    """
    The other threads of the when block just before, which then ends in a branch.  `uniform`: that is bra.uni.

    Example:
        with ptx.when(i < n):
            x += 1
        with ptx.otherwise():
            x += 2
    """

def switch(
    index: Reg, *, count: int | None = None, default: Predicate | None = None, uniform: bool = False
) -> Block:
    """
    A table of targets: t: .branchtargets ...; brx.idx index, t;  Inside, each target is a block of `case`.

    Targets that no case has are the default, or without one the end; the table has `count`, or as many as the cases say.  The
    hardware does not look whether `index` is one of them: `default` is a predicate whose threads go to the default at once.
    `uniform`: brx.idx.uni.

    Example:
        with ptx.switch(i, default=i > 2):
            with ptx.case(0, 2):
                x += 1
            with ptx.case(default=True):
                x += 2
    """

def case(*indices: int, default: bool = False, falls: bool = False, uniform: bool = False) -> Block:
    """
    Inside `switch`, what threads of these indices do, then a branch behind the switch: `uniform` makes it bra.uni, and
    with `falls` there is none, so that they go on in the next case.

    Example:
        with ptx.switch(i):
            with ptx.case(0, falls=True):
                x += 1
            with ptx.case(1):
                x += 2
    """

def loop_while(pred: object | None = None, *, uniform: bool = False) -> None:
    """
    Inside `loop`, its predicate: the loop ends in @pred bra, which None makes bra, and `uniform` bra.uni.

    Example:
        with ptx.loop("again"):
            x += 1
            ptx.loop_while(x < n)
    """

def loop(label: str, *, pred: object | None = None) -> Block:
    """
    label: body @pred bra label.  The predicate is asked after the body; without one the loop has no end of its own.

    Example:
        more = reg.scalar(pred)
        with ptx.loop("again", pred=more):
            x += 1
            ptx.inst.setp.lt.u32(more, x, n)
    """

def scope() -> Block:
    """
    { }: registers and labels declared inside are local to it.

    Example:
        with ptx.scope():
            t = reg.scalar(u32, init=1)
            ptx.inst.add.u32(x, x, t)
    """

def expr() -> Block:
    """
    Groups the instructions of an expression for the reader; changes no text.

    Example:
        with ptx.expr():
            y = (x + 1) * 2
    """

def intrinsic_scope(arg: str, /) -> Block: ...

class Range:
    def __iter__(self) -> object: ...

    def __next__(self) -> Reg: ...

    def __enter__(self) -> object: ...

    def __exit__(self, arg0: object | None, arg1: object | None, arg2: object | None, /) -> None: ...

def kloop(
    total: Reg | SupportsIndex, *, unroll: int, body: Callable[[], object], loop_label: str = "kloop"
) -> None:
    """
    `body` total times, `unroll` a turn; the rest as a ladder of ifs.

    Example:
        def step():
            ptx.inst.add.u32(x, x, 3)

        ptx.kloop(n, unroll=4, body=step)
    """

def print(format: str, *values: Reg | SupportsIndex | SupportsFloat, pred: Guard = None) -> None:
    """
    Prints a line in each thread: `format` with a value for each {}.  Call of vprintf, on the simulator and on a GPU.

    `{:spec}` is a conversion of printf without its %: {:08x}, {:.3f}; {{ and }} are braces.  Values are registers of any type,
    special registers, symbols and numbers.  Without a spec .b registers are hexadecimal, packed halves (low, high).  What it
    writes: conversions to 32 or 64 bits, stores to a local buffer, a `call`; with `pred=` a branch around them.  The simulator
    puts the author's line and the thread in front.

    Example:
        ptx.print("x = {}, bits {:08x}", x, i, pred=i == 0)
    """

def check(pred: Reg | NegPred | PipeRef, message: str, *values: Number) -> None:
    """
    An assertion: threads whose predicate is false print the author's line with `message`, and trap.

    `message` is a format as of `ptx.print`.  On the simulator the launch ends with a report at this line (PTX5034), on a GPU with
    an error of the launch, after the message.

    Example:
        ptx.check(i < 1000, "i = {} is too large", i)
    """

def label(name: str) -> None:
    """
    name: a place that `bra` names.  One of a name in a block; `ptx.scope()` makes names local.

    Example:
        ptx.label("again")
        x += 1
        ptx.bra("again", pred=x < n)
    """

def bra(label: str, *, pred: object | None = None) -> None:
    """
    @pred bra label: goes on at a label, which may stand further down.

    Example:
        ptx.bra("done", pred=i >= n)
        x += 1
        ptx.label("done")
    """

def fresh_label(prefix: str = 'L') -> str: ...

def comment(arg: str, /) -> None: ...

def directive(arg: str, /) -> None: ...

def loc(file: int, line: int, col: int = 0, inlined: str = '') -> None:
    """
    .loc file line col: the place in a source that the next instruction belongs to; `ptx.file_` gives the file its number.
    `inlined` is what follows in PTX, ", function_name f, inlined_at 1 20 5".

    Example:
        ptx.file_(1, "model.py")
        ptx.loc(1, 12)
    """

def var(state_space: str, dtype: PtxType | str, name: str, *, size: int | Sequence[int | None] | None = None, align: int | None = None, linking: str | None = None, vector: int = 1, count: int | None = None, attributes: str | None = None, init: str | None = None) -> str:
    """
    Declares a variable of a state space; returns its name.  `size` makes it an array, of several dimensions where it is a
    sequence; `vector` is 2 or 4 for .v2 and .v4, `count` declares name0, name1, ... (name<count>). `attributes` and `init`
    are as PTX has them in .attribute(...) and behind the =.

    Example:
        ptx.var("local", u32, "scratch", size=4)
        ptx.inst.st.local.u32(ptx.addr("scratch", 8), x)
    """

def param(dtype: PtxType, name: str, dst: Reg | None = None) -> Reg:
    """
    The value of a scalar parameter (`raw_params` of @kernel), or the address of an array parameter: one ld.param.

    Example:
        @kernel(raw_params=[("u32", "n"), ("f32", "alpha")])
        def k():
            n = ptx.param(u32, "n")           # ld.param.u32 %r0, [n];
            alpha = ptx.param(f32, "alpha")
            ptx.ret()

        k.ptx()
    """

def global_ptrs(*params: Any) -> tuple[Reg, ...]:
    """
    The global addresses of tensors, in 64-bit registers, as a tuple: ld.param.u64 and cvta.to.global.u64 of each.

    Example:
        @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
        def k(X, Y):
            px, py = ptx.global_ptrs(X, Y)
            ptx.ret()

        k.ptx(N=32)
    """

def addr(base: Address | SupportsIndex, offset: Reg | SupportsIndex | None = None) -> AddressOperand:
    """
    [base + offset], in bytes.  The base is a register, a name, shared memory, a barrier or a variable; an offset in a register
    is added by an instruction.

    Example:
        v = reg.scalar(f32)
        ptx.inst.ld.global_.f32(v, ptx.addr(px, 16))            # [%rd0+16]
        ptx.inst.ld.global_.f32(v, ptx.addr(px + i * 4))
        tile = smem.alloc(f32, 128)
        ptx.inst.st.shared.f32(ptx.addr(tile, i * 4), v)
    """

def bracket(base: Address, *parts: Number | Sequence[Number]) -> CompoundOperand:
    """
    [base, a, {x, y}]: an address of several parts, as of textures, surfaces and tensor maps.

    Example:
        texture, colour = reg.scalar(u64), reg.array(f32, 4)
        ptx.inst.tex._2d.v4.f32.f32(list(colour), ptx.bracket(texture, [a, b]))
    """

def declare(text: str) -> None:
    """
    A function that the kernel may call, as text in front of it.

    Example:
        ptx.declare(".extern .func f (.param .b32 x);")
    """

def module_text(text: str) -> None:
    """
    What PTX has outside of functions, as text: variables, `.pragma`, `.alias`, `.file`; `.section` goes to the end.

    Example:
        ptx.module_text(".global .u32 counter;")
        ptx.inst.red.global_.add.u32(ptx.addr("counter"), 1)
    """

def sreg(name: str) -> Reg:
    """
    A special register by its name.  Only mov and cvt read one: copy it with `reg.from_`.

    Example:
        lane = reg.from_(ptx.sreg("%laneid"), u32)
    """

class PipelineState:
    """
    Stage and phase of a ring of buffers; advance() goes on to the next.  Made by `ptx.pipeline`.

    Example:
        ring = ptx.pipeline(4)
        stage, phase = ring.advance()
    """

    @property
    def n_stages(self) -> int: ...

    @property
    def cursor(self) -> Reg: ...

    @property
    def phase(self) -> Reg: ...

    def advance(self) -> tuple[Reg, Reg]:
        """
        (stage, phase) of the next slot: five instructions on the ring's registers.

        Example:
            stage, phase = ptx.pipeline(4).advance()
        """

def pipeline(n_stages: int, *, cursor: Reg | None = None, phase: Reg | None = None) -> PipelineState:
    """
    A ring of `n_stages` buffers: two registers, the next stage and the parity of its mbarrier, which turns over each round.

    Example:
        full = smem.mbarrier(4)
        ring = ptx.pipeline(4)
        for k in ptx.range_(0, n, 1):
            stage, phase = ring.advance()
            ptx.mbarrier.wait(full[stage], phase)
    """

class Function:
    """A function of the module that is being written"""

    @property
    def name(self) -> str: ...

def declare_function(arg0: str, arg1: object, arg2: object, arg3: bool, arg4: Sequence[str], arg5: str, arg6: str, arg7: str, arg8: int, arg9: bool, arg10: bool, arg11: Sequence[tuple[str, str]], arg12: Sequence[tuple[str, str]], /) -> Function: ...

def take_arguments(names: Sequence[str]) -> tuple:
    """The arguments of the function whose body is being written."""

def call_function(function: Function, values: object, pred: object | None, uniform: bool) -> object: ...

def call_raw(function: Function, values: object, pred: object | None, uniform: bool, returns: object | None, order: Sequence[int]) -> object: ...

def function_named(arg: str, /) -> Function: ...

def function_address(arg: Function, /) -> str: ...

def alias_function(arg0: str, arg1: Function, /) -> Function: ...

class CallTable:
    """A label of a .callprototype or of .calltargets"""

    @property
    def label(self) -> str:
        """Its label."""

def call_prototype(arg0: str, arg1: object, arg2: object, arg3: bool, arg4: Sequence[str], /) -> CallTable: ...

def call_targets(arg0: Sequence[Function], arg1: str, /) -> CallTable: ...

def call_pointer(pointer: object, table: CallTable, values: object, pred: object | None, uniform: bool) -> object: ...

def branch_targets(labels: Sequence[str], name: str = '') -> str:
    """
    label: .branchtargets a, b;  The table of brx.idx; returns its label.

    Example:
        ptx.inst.brx.idx(i, ptx.branch_targets(["first", "second"]))
        ptx.label("first")
        ptx.label("second")
    """

def ret(*values: object, pred: Reg | NegPred | None = None) -> None:
    """
    ret; in a function with results, behind their st.param.

    Example:
        ptx.ret(pred=i >= n)                  # @%p0 ret;
    """

class DeclaredVariable:
    """A variable of the module that is being written"""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def shape(self) -> tuple:
        """Its dimensions."""

    def element(self, index: object) -> object:
        """An element, by an int or a register, or by several of them."""

def declare_variable(space: str, type: object, dims: Sequence[int], init: object | None, name: str, align: int, vector: int, linking: str, attributes: str) -> DeclaredVariable: ...

class SharedAlloc:
    """
    Shared memory, or one stage of it.  Made by `smem.alloc`.

    `tile[row, column]` of two dimensions loads and stores an element; rows and columns are numbers or registers.  `ring[stage]`
    is a part of an allocation with a dimension more.  `ptx.addr(tile, bytes)` is an address, `reg.from_(tile, u32)` that
    address in a register.

    Example:
        tile = smem.alloc(f32, (32, 33))
        tile[i, 0] = a                        # address arithmetic and st.shared.f32
        v = tile[0, i]                        # the same and ld.shared.f32, into a new register
    """

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> PtxType: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def swizzle(self) -> str | None: ...

    @property
    def alloc(self) -> SharedAlloc: ...

    @property
    def stage(self) -> Reg | int | None: ...

    @property
    def byte_offset(self) -> int: ...

    def __getitem__(self, key: Any) -> Any: ...

    def __setitem__(self, arg0: object, arg1: object, /) -> None: ...

    def __repr__(self) -> str: ...

class MbarrierArray:
    """
    mbarrier objects in shared memory.  `bars[i]` is one, by a number or a register.  Made by `smem.mbarrier`.

    Example:
        bars = smem.mbarrier(4)
        ptx.mbarrier.init(bars[0], 1)
    """

    @property
    def name(self) -> str: ...

    @property
    def count(self) -> int: ...

    @property
    def byte_offset(self) -> int: ...

    def __len__(self) -> int: ...

    def __getitem__(self, arg: object, /) -> MbarrierRef: ...

class MbarrierRef:
    """
    One mbarrier object: what the functions of ptx.mbarrier and copies take.

    Example:
        bar = smem.mbarrier(1)[0]
        ptx.mbarrier.init(bar, 1)
    """

    @property
    def array(self) -> MbarrierArray: ...

    @property
    def idx(self) -> Reg | int: ...

    @property
    def name(self) -> str: ...

    @property
    def byte_offset(self) -> int: ...

def smem_alloc(
    dtype: PtxType,
    shape: SupportsIndex | Sequence[SupportsIndex],
    swizzle: str | None = None,
    align: int | None = None,
    name: str | None = None,
) -> SharedAlloc:
    """
    Shared memory for elements of a type: a number of them, or a shape.  A declaration and no instruction.

    Beyond 48 KiB all allocations of the kernel become dynamic shared memory.  `align` is in bytes, 128 unless the swizzle needs
    more.  `swizzle` ("32B", "64B", "128B") is what a tensor copy writes by; it changes no address here.

    Example:
        row = smem.alloc(f32, 128)            # .shared .align 128 .b8 smem_0[512];
        ptx.inst.st.shared.f32(ptx.addr(row, i * 4), a)
        tile = smem.alloc(f32, (32, 33))
        v = tile[i, 0]
    """

def shared_array(entry: str, name: str, bytes: int) -> tuple:
    """
    (type, shape) of an allocation of a kernel, as it was traced last; (None, None): unknown
    """

def smem_wgmma_tile(
    dtype: PtxType,
    shape: Sequence[SupportsIndex],
    major: str = "K",
    *,
    align: int | None = None,
    name: str | None = None,
) -> SharedAlloc: ...

def smem_mbarrier(count: int, name: str | None = None) -> MbarrierArray:
    """
    `count` mbarrier objects in shared memory.  One thread initialises each before others use it.

    Example:
        full = smem.mbarrier(2)               # .shared .align 8 .b64 mbar_0[2];
        with ptx.if_(i == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.mbarrier.init(full[1], 1)
        ptx.bar.sync(0)
    """

def smem_base(name: str | None = None) -> Reg:
    """
    The address of dynamic shared memory in a register: of the kernel's `extern_smem` unless a name is given.

    Example:
        @kernel(extern_smem="buffer", smem=1024)
        def k():
            base = smem.base()                # mov.u32 %r0, buffer;
            ptx.ret()

        k.ptx()
    """

def smem_load(dtype: PtxType, address: Address) -> Reg:
    """
    ld.shared into a new register.

    Example:
        row = smem.alloc(f32, 128)
        v = smem.load(f32, ptx.addr(row, i * 4))
    """

def smem_store(dtype: PtxType, address: Address, value: Reg) -> None:
    """
    st.shared of a register.

    Example:
        row = smem.alloc(f32, 128)
        smem.store(f32, ptx.addr(row, i * 4), a)
    """

def smem_apply_swizzle(logical_offset: Reg, swizzle: str | None) -> Reg:
    """
    The byte offset at which a swizzle puts what would lie at `logical_offset`: two instructions and a new register.

    Example:
        at = smem.apply_swizzle(i * 16, "128B")
    """

class BarrierSlot:
    """
    One barrier of an array.  The functions of ptx.mbarrier that take an mbarrier object are its methods.
    """

    @property
    def byte_offset(self) -> int:
        """Its offset from the array's base."""

    def init(
        self,
        count: Integer,
        *,
        layout: Literal["v0", "v1"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared::cta",
        pred: Guard = None,
    ) -> None:
        """Makes an mbarrier object, whose phases end after `count` arrivals.

        Emits `mbarrier.init{.layout}{.space}.b64 [mbar], count`.

        Example:
            mbar.init(count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.9.
        """

    def inval(self, *, space: Literal["shared", "shared::cta"] | None = "shared", pred: Guard = None) -> None:
        """Ends an mbarrier object; its memory may be used for something else.

        Emits `mbarrier.inval{.space}.b64 [mbar]`.

        Example:
            mbar.inval()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.10.
        """

    def expect_tx(
        self,
        tx_count: Integer,
        *,
        sem: Literal["relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Adds `tx_count` bytes to those that the phase waits for.

        Emits `mbarrier.expect_tx{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 [mbar], tx_count{, cta_mask}`.

        Example:
            mbar.expect_tx(tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.11.
        """

    def complete_tx(
        self,
        tx_count: Integer,
        *,
        sem: Literal["relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Takes `tx_count` bytes from those that the phase waits for, as a copy that completes does.

        Emits `mbarrier.complete_tx{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 [mbar], tx_count{, cta_mask}`.

        Example:
            mbar.complete_tx(tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.12.
        """

    def arrive(
        self,
        count: Integer | None = None,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared",
        dst: Reg | None = None,
        no_complete: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """Arrives, and returns the state of the phase for `test_wait` and `try_wait`.

        Emits `mbarrier.arrive{.noComplete}{.sem}{.scope}{.space}.b64 dst, [mbar]{, count}`.

        Example:
            result = mbar.arrive()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

    def arrive_expect_tx(
        self,
        tx_count: Integer,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cta",
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Adds `tx_count` bytes to those that the phase waits for, arrives, and returns the state of the phase.

        Emits `mbarrier.arrive.expect_tx{.sem}{.scope}{.space}.b64 dst, [mbar], tx_count`.

        Example:
            result = mbar.arrive_expect_tx(tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

    def arrive_cluster(
        self,
        count: Integer | None = None,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cluster",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Arrives at a barrier of another CTA of the cluster, whose address is one of shared::cluster.  There is no state.

        Emits `mbarrier.arrive{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 _, [mbar]{, count}{, cta_mask}`.

        Example:
            mbar.arrive_cluster()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

    def arrive_expect_tx_cluster(
        self,
        tx_count: Integer,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cluster",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`arrive_expect_tx` at a barrier of another CTA of the cluster.

        Emits `mbarrier.arrive.expect_tx{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 _, [mbar], tx_count{, cta_mask}`.

        Example:
            mbar.arrive_expect_tx_cluster(tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

    def arrive_drop(
        self,
        count: Integer | None = None,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared",
        dst: Reg | None = None,
        no_complete: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """Arrives, and takes part in no later phase: their count is smaller by one, or by `count`.

        Emits `mbarrier.arrive_drop{.noComplete}{.sem}{.scope}{.space}.b64 dst, [mbar]{, count}`.

        Example:
            result = mbar.arrive_drop()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.14.
        """

    def arrive_drop_expect_tx(
        self,
        tx_count: Integer,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cta",
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """`arrive_expect_tx`, and takes part in no later phase.

        Emits `mbarrier.arrive_drop.expect_tx{.sem}{.scope}{.space}.b64 dst, [mbar], tx_count`.

        Example:
            result = mbar.arrive_drop_expect_tx(tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.14.
        """

    def arrive_drop_cluster(
        self,
        count: Integer | None = None,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cluster",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`arrive_drop` at a barrier of another CTA of the cluster.

        Emits `mbarrier.arrive_drop{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 _, [mbar]{, count}{, cta_mask}`.

        Example:
            mbar.arrive_drop_cluster()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.14.
        """

    def arrive_drop_expect_tx_cluster(
        self,
        tx_count: Integer,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cluster",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`arrive_drop_expect_tx` at a barrier of another CTA of the cluster.

        Emits `mbarrier.arrive_drop.expect_tx{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 _, [mbar], tx_count{, cta_mask}`.

        Example:
            mbar.arrive_drop_expect_tx_cluster(tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.14.
        """

    def test_wait(
        self,
        phase: Integer,
        *,
        parity: bool = True,
        phase_type: Literal["primary", "conditional"] | None = None,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared",
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Whether the phase has ended.  `phase` is its parity, or with parity=False the state that an arrival gave.

        Emits `mbarrier.test_wait{.parity}{.phase_type}{.sem}{.scope}{.space}.b64 dst, [mbar], phase`.

        Example:
            result = mbar.test_wait(phase)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    def try_wait(
        self,
        phase: Integer,
        *,
        parity: bool = True,
        phase_type: Literal["primary", "conditional"] | None = None,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared",
        dst: Reg | None = None,
        suspend_time_hint: Integer | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Whether the phase has ended; the thread may sleep for a while until it has, for `suspend_time_hint` nanoseconds if that is given.  `phase` is its parity, or with parity=False the state that an arrival gave.

        Emits `mbarrier.try_wait{.parity}{.phase_type}{.sem}{.scope}{.space}.b64 dst, [mbar], phase{, suspend_time_hint}`.

        Example:
            result = mbar.try_wait(phase)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    def test_wait_report(
        self,
        phase: Integer,
        *,
        parity: bool = True,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared",
        dst: Reg | None = None,
        reported: Reg | None = None,
        report: Integer | None = None,
        pred: Guard = None,
    ) -> tuple[Reg, Reg]:
        """`test_wait` that also says whether a copy of the phase reported an error, and which: `report` is a b8 register for its value.

        Emits `mbarrier.test_wait{.parity}.phase_type::primary{.sem}{.scope}{.space}.b64 dst|reported{, report}, [mbar], phase`.

        Example:
            result = mbar.test_wait_report(phase)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    def try_wait_report(
        self,
        phase: Integer,
        *,
        parity: bool = True,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared",
        dst: Reg | None = None,
        reported: Reg | None = None,
        report: Integer | None = None,
        suspend_time_hint: Integer | None = None,
        pred: Guard = None,
    ) -> tuple[Reg, Reg]:
        """`try_wait` that also says whether a copy of the phase reported an error, and which: `report` is a b8 register for its value.

        Emits `mbarrier.try_wait{.parity}.phase_type::primary{.sem}{.scope}{.space}.b64 dst|reported{, report}, [mbar], phase{, suspend_time_hint}`.

        Example:
            result = mbar.try_wait_report(phase)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    def wait(
        self,
        phase: Number,
        *,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] = "shared",
        suspend_time_hint: Number | None = None,
        leave: bool = False,
        uniform: bool = False,
        braces: bool = False,
        pred: Guard = None,
    ) -> None:
        """Waits for the end of a phase: a loop of `mbarrier.try_wait.parity` and a branch.  A guard jumps over the whole loop.

            mbar: the mbarrier object
            phase: the parity of the phase, 0 or 1
            sem: acquire unless given
            scope: with `sem`: cta unless given
            space: shared or shared::cta; None: a generic address
            suspend_time_hint: nanoseconds that one try may sleep
            leave: one branch leaves the loop and another goes back, as CUTLASS writes it
            uniform: the branches are `bra.uni`
            braces: the loop stands in a block of its own

        Example:
            bar = smem.mbarrier(1)[0]
            ptx.mbarrier.wait(bar, 0)                # until the phase of parity 0 has ended

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    def address_operand(self) -> Address:
        """Its address.  A slot that a register chose has it in a register.

        Example:
            result = slot.address_operand()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.1.
        """

    def addr_reg(self) -> Reg:
        """A register with its address, formed once where every path sees it.

        Example:
            result = slot.addr_reg()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.1.
        """

    def arrive_remote(self, cta_id: Number, count: Number = 1, *, pred: Guard = None) -> None:
        """Arrives at the barrier at this address in another CTA of the cluster: `mapa` and `mbarrier.arrive.shared::cluster`.

            cta_id: rank of the CTA in the cluster
            count: how many arrivals

        Example:
            slot.arrive_remote(cta_id)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

class BarrierArray:
    """Barriers that lie side by side."""

    def __getitem__(self, index: int) -> BarrierSlot:
        """One barrier."""

    def __len__(self) -> int: ...

    def at(self, stage: Number) -> BarrierSlot:
        """The barrier of a stage.

            stage: a 32-bit register or a number

        Example:
            result = array.at(stage)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.1.
        """

    def init_all(self, count: Number, *, pred: Guard = None) -> None:
        """`mbarrier.init` of each barrier.

            count: arrivals that end a phase of each

        Example:
            array.init_all(count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.9.
        """

    def arrive_remote_all(self, cta_id: Number, count: Number = 1, *, pred: Guard = None) -> None:
        """`arrive_remote` at each barrier.

            cta_id: rank of the CTA in the cluster
            count: how many arrivals

        Example:
            array.arrive_remote_all(cta_id)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

class ptx:
    """Instructions by a function of their own.  `dtype` is a type of pyptx.types; a destination is returned."""

    @staticmethod
    def mov(
        dtype: PtxType,
        dst: Registers | Reg,
        src: Registers | Number,
        *,
        vec: Literal["v2", "v4"] | None = None,
        pred: Guard = None,
    ) -> Reg | None:
        """Copies a register, number or address.

        Emits `mov{.vec}.dtype dst, src`.

        Example:
            result = ptx.mov(f32, dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.3, 9.7.9.4.
        """

    @staticmethod
    def add(
        dtype: PtxType,
        dst: Reg,
        a: Number,
        b: Number,
        *,
        rounding: Literal["rn", "rz", "rm", "rp"] | None = None,
        ftz: bool = False,
        sat: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """a + b.

        Emits `add{.rounding}{.ftz}{.sat}.dtype dst, a, b`.

        Example:
            result = ptx.add(u32, dst, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.1.1, 9.7.3.3, 9.7.4.1.
        """

    @staticmethod
    def sub(
        dtype: PtxType,
        dst: Reg,
        a: Number,
        b: Number,
        *,
        rounding: Literal["rn", "rz", "rm", "rp"] | None = None,
        ftz: bool = False,
        sat: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """a - b.

        Emits `sub{.rounding}{.ftz}{.sat}.dtype dst, a, b`.

        Example:
            result = ptx.sub(u32, dst, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.1.2, 9.7.3.4, 9.7.4.2.
        """

    @staticmethod
    def mul(
        dtype: PtxType,
        dst: Reg,
        a: Number,
        b: Number,
        *,
        mode: Literal["hi", "lo", "wide"] | None = None,
        rounding: Literal["rn", "rz", "rm", "rp"] | None = None,
        ftz: bool = False,
        sat: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """a * b: of integers the low or high half, or with mode="wide" all of it.

        Emits `mul{.mode}{.rounding}{.ftz}{.sat}.dtype dst, a, b`.

        Example:
            result = ptx.mul(u32, dst, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.1.3, 9.7.3.5, 9.7.4.3, 9.7.5.4.
        """

    @staticmethod
    def mad(
        dtype: PtxType,
        dst: Reg,
        a: Number,
        b: Number,
        c: Number,
        *,
        mode: Literal["hi", "lo", "wide"] | None = "lo",
        rounding: Literal["rn", "rz", "rm", "rp"] | None = None,
        ftz: bool = False,
        sat: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """a * b + c: of integers the low or high half of the product, or with mode="wide" all of it.

        Emits `mad{.mode}{.rounding}{.ftz}{.sat}.dtype dst, a, b, c`.

        Example:
            result = ptx.mad(u32, dst, a, b, c)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.1.4, 9.7.3.7.
        """

    @staticmethod
    def shl(dtype: PtxType, dst: Reg, a: Integer, b: Integer, *, pred: Guard = None) -> Reg:
        """a << b.

        Emits `shl.dtype dst, a, b`.

        Example:
            result = ptx.shl(b32, dst, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.8.8.
        """

    @staticmethod
    def shr(dtype: PtxType, dst: Reg, a: Integer, b: Integer, *, pred: Guard = None) -> Reg:
        """a >> b; of signed types the sign is shifted in.

        Emits `shr.dtype dst, a, b`.

        Example:
            result = ptx.shr(u32, dst, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.8.9.
        """

    @staticmethod
    def and_(dtype: PtxType, dst: Reg, a: Integer, b: Integer, *, pred: Guard = None) -> Reg:
        """a & b.

        Emits `and.dtype dst, a, b`.

        Example:
            result = ptx.and_(b32, dst, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.8.1.
        """

    @staticmethod
    def or_(dtype: PtxType, dst: Reg, a: Integer, b: Integer, *, pred: Guard = None) -> Reg:
        """a | b.

        Emits `or.dtype dst, a, b`.

        Example:
            result = ptx.or_(b32, dst, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.8.2.
        """

    @staticmethod
    def xor_(dtype: PtxType, dst: Reg, a: Integer, b: Integer, *, pred: Guard = None) -> Reg:
        """a ^ b.

        Emits `xor.dtype dst, a, b`.

        Example:
            result = ptx.xor_(b32, dst, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.8.3.
        """

    @staticmethod
    def not_(dtype: PtxType, dst: Reg, src: Integer, *, pred: Guard = None) -> Reg:
        """~src, or !src of a predicate.

        Emits `not.dtype dst, src`.

        Example:
            result = ptx.not_(b32, dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.8.4.
        """

    @staticmethod
    def setp(
        cmp_op: Literal["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"],
        dtype: PtxType,
        pred_out: Reg,
        a: Number,
        b: Number,
        *,
        boolop: Literal["and", "or", "xor"] | None = None,
        ftz: bool = False,
        second: Reg | None = None,
        c: Predicate | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Whether a `cmp_op` b; with `boolop` combined with the predicate `c`. `second` gets the negated comparison.

        Emits `setp.cmp_op{.boolop}{.ftz}.dtype pred_out{|second}, a, b{, c}`.

        Example:
            result = ptx.setp("eq", u32, pred_out, a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.6.2, 9.7.7.2.
        """

    @staticmethod
    def selp(dtype: PtxType, dst: Reg, t: Number, f: Number, pred_reg: Predicate, *, pred: Guard = None) -> Reg:
        """t where the predicate is true, else f.

        Emits `selp.dtype dst, t, f, pred_reg`.

        Example:
            result = ptx.selp(f32, dst, t, f, pred_reg)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.6.3.
        """

    @staticmethod
    def cvt(
        dst_type: PtxType,
        src_type: PtxType,
        dst: Reg,
        src: Registers | Number,
        *,
        rounding: Literal["rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp", "rs", "rna"] | None = None,
        ftz: bool = False,
        sat: bool = False,
        satfinite: bool = False,
        relu: bool = False,
        low: Number | None = None,
        random_bits: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Converts between types.  To a packed type `src` is the upper half and `low` the lower one.

        Emits `cvt{.rounding}{.ftz}{.sat}{.satfinite}{.relu}.dst_type.src_type dst, src{, low}{, random_bits}`.

        Example:
            result = ptx.cvt(u32, u32, dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.21.
        """

    @staticmethod
    def ld(
        dtype: PtxType,
        dst: Registers | Reg,
        address: Address,
        *,
        sem: Literal["relaxed", "acquire"] | None = None,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        space: Literal["const", "local", "param", "param::entry", "param::func", "shared", "shared::cta", "shared::cluster", "global", "generic"] | None = "global",
        cache: Literal["ca", "cg", "cs", "lu", "cv", "nc"] | None = None,
        vec: Literal["v2", "v4", "v8"] | None = None,
        pred: Guard = None,
    ) -> Reg | None:
        """Loads; with `vec` a list of registers.  space="generic" is a generic address.

        Emits `ld{.sem}{.scope}{.space}{.cache}{.vec}.dtype dst, [address]`.

        Example:
            result = ptx.ld(f32, dst, address)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.8, 9.7.9.9.
        """

    @staticmethod
    def st(
        dtype: PtxType,
        address: Address,
        src: Registers | Number,
        *,
        sem: Literal["relaxed", "release"] | None = None,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        space: Literal["local", "param", "param::func", "shared", "shared::cta", "shared::cluster", "global", "generic"] | None = "global",
        cache: Literal["wb", "cg", "cs", "wt"] | None = None,
        vec: Literal["v2", "v4", "v8"] | None = None,
        pred: Guard = None,
    ) -> None:
        """Stores; with `vec` a list of registers.  space="generic" is a generic address.

        Emits `st{.sem}{.scope}{.space}{.cache}{.vec}.dtype [address], src`.

        Example:
            ptx.st(f32, address, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.11.
        """

    @staticmethod
    def elect_sync(dst: Reg, pred_out: Reg, membermask: Integer, *, pred: Guard = None) -> Reg:
        """Chooses one lane of `membermask`: `pred_out` is true there, `dst` gets its number in all.

        Emits `elect.sync dst|pred_out, membermask`.

        Example:
            result = ptx.elect_sync(dst, pred_out, membermask)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.14.
        """

    @staticmethod
    def setmaxnreg_inc(n: int, *, pred: Guard = None) -> None:
        """Waits until each thread of the warpgroup has `n` registers.

        Emits `setmaxnreg.inc.sync.aligned.u32 n`.

        Example:
            ptx.setmaxnreg_inc(n)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.19.5.
        """

    @staticmethod
    def setmaxnreg_dec(n: int, *, pred: Guard = None) -> None:
        """Gives registers back until each thread of the warpgroup has `n`.

        Emits `setmaxnreg.dec.sync.aligned.u32 n`.

        Example:
            ptx.setmaxnreg_dec(n)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.19.5.
        """

    @staticmethod
    def nanosleep(nanoseconds: Integer, *, pred: Guard = None) -> None:
        """Sleeps for about as long.

        Emits `nanosleep.u32 nanoseconds`.

        Example:
            ptx.nanosleep(nanoseconds)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.19.2.
        """

    @staticmethod
    def st_async(
        dtype: PtxType,
        address: Address,
        value: Registers | Number,
        mbar: Address,
        *,
        sem: Literal["weak", "cluster"] | None = None,
        space: Literal["shared::cluster"] | None = "shared::cluster",
        vec: Literal["v2", "v4"] | None = None,
        pred: Guard = None,
    ) -> None:
        """Stores into shared memory of the cluster; an mbarrier object there counts the bytes.

        Emits `st.async{.sem}{.space}.mbarrier::complete_tx::bytes{.vec}.dtype [address], value, [mbar]`.

        Example:
            ptx.st_async(f32, address, value, mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.12.
        """

    @staticmethod
    def st_async_release(
        scope: Literal["gpu", "sys"],
        dtype: PtxType,
        address: Address,
        value: Number,
        *,
        global_: bool = False,
        pred: Guard = None,
    ) -> None:
        """Stores to global memory later, with release order.

        Emits `st.async.release.scope{.global}.dtype [address], value`.

        Example:
            ptx.st_async_release("gpu", f32, address, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.12.
        """

    @staticmethod
    def st_async_mmio(
        dtype: PtxType,
        address: Address,
        value: Number,
        *,
        global_: bool = False,
        pred: Guard = None,
    ) -> None:
        """Stores to memory-mapped registers later, with release order.

        Emits `st.async.mmio.release.sys{.global}.dtype [address], value`.

        Example:
            ptx.st_async_mmio(f32, address, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.12.
        """

    @staticmethod
    def spcompress(
        elemsize: PtxType,
        idxsize: PtxType,
        num: Literal["x1", "x2", "x4", "x8", "x16", "x32", "x64"],
        metadata: Registers,
        compressed: Registers,
        data: Registers,
        descriptor: Reg,
        *,
        pred: Guard = None,
    ) -> None:
        """Keeps 2 of every 4 elements: their values, and where they were (PTX 9.4, sm_107a).

        Emits `spcompress.elemsize.idxsize.sp::2:4.num {metadata}, {compressed}, {data}, descriptor`.

        Example:
            ptx.spcompress(b8, b2, "x1", metadata, compressed, data, descriptor)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.10.30.
        """

    @staticmethod
    def spdecompress(
        elemsize: PtxType,
        idxsize: PtxType,
        spfactor: Literal["sp::1:2", "sp::1:4", "sp::1:8", "sp::1:16", "sp::2:4", "sp::2:8", "sp::2:16", "sp::4:8", "sp::4:16"],
        num: Literal["x1", "x2", "x4", "x8", "x16", "x32", "x64"],
        data: Registers,
        metadata: Registers,
        compressed: Registers,
        *,
        pred: Guard = None,
    ) -> None:
        """Puts compressed elements back, with zeros between them (PTX 9.4, sm_107a).

        Emits `spdecompress.elemsize.idxsize.spfactor.num {data}, {metadata}, {compressed}`.

        Example:
            ptx.spdecompress(b8, b2, "sp::1:2", "x1", data, metadata, compressed)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.10.31.
        """

    @staticmethod
    def st_bulk(
        address: Address,
        size: Integer,
        *,
        weak: bool = False,
        space: Literal["shared::cta"] | None = "shared::cta",
        pred: Guard = None,
    ) -> None:
        """Fills `size` bytes of shared memory with zeros.

        Emits `st.bulk{.weak}{.space} [address], size, 0`.

        Example:
            ptx.st_bulk(address, size)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.13.
        """

    @staticmethod
    def red_async(
        op: Literal["and", "or", "xor", "min", "max", "add", "inc", "dec"],
        dtype: PtxType,
        address: Address,
        value: Integer,
        mbar: Address,
        *,
        space: Literal["shared::cluster"] | None = "shared::cluster",
        pred: Guard = None,
    ) -> None:
        """Combines `value` with shared memory of the cluster; an mbarrier object there counts the bytes.

        Emits `red.async.relaxed.cluster{.space}.mbarrier::complete_tx::bytes.op.dtype [address], value, [mbar]`.

        Example:
            ptx.red_async("add", u32, address, value, mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.7.
        """

    @staticmethod
    def red_async_release(
        scope: Literal["gpu", "sys"],
        dtype: PtxType,
        address: Address,
        value: Integer,
        *,
        global_: bool = False,
        pred: Guard = None,
    ) -> None:
        """Adds to global memory later, with release order.

        Emits `red.async.release.scope{.global}.add.dtype [address], value`.

        Example:
            ptx.red_async_release("gpu", u32, address, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.7.
        """

    @staticmethod
    def red_async_mmio(
        dtype: PtxType,
        address: Address,
        value: Integer,
        *,
        global_: bool = False,
        pred: Guard = None,
    ) -> None:
        """Adds to memory-mapped registers later, with release order.

        Emits `red.async.mmio.release.sys{.global}.add.dtype [address], value`.

        Example:
            ptx.red_async_mmio(u32, address, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.7.
        """

class cvta:
    """Addresses of a state space as generic ones, and back.  Each returns a new register unless `dst` is one."""

    @staticmethod
    def param(src: Integer, dst: Reg | None = None, *, pred: Guard = None) -> Reg:
        """The generic address of a kernel's parameter.

        Emits `cvta.param.u64 dst, src`.

        Example:
            result = ptx.cvta.param(src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.20.
        """

    @staticmethod
    def to_global(src: Integer, dst: Reg | None = None, *, pred: Guard = None) -> Reg:
        """The global address that a generic one is.

        Emits `cvta.to.global.u64 dst, src`.

        Example:
            result = ptx.cvta.to_global(src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.20.
        """

    @staticmethod
    def to(
        space: Literal["const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry"],
        src: Integer,
        dst: Reg | None = None,
        *,
        pred: Guard = None,
    ) -> Reg:
        """The address in `space` that a generic one is.

        Emits `cvta.to.space.u64 dst, src`.

        Example:
            result = ptx.cvta.to("const", src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.20.
        """

    @staticmethod
    def generic(
        space: Literal["const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry"],
        src: Integer,
        dst: Reg | None = None,
        *,
        pred: Guard = None,
    ) -> Reg:
        """The generic address of one in `space`.

        Emits `cvta.space.u64 dst, src`.

        Example:
            result = ptx.cvta.generic("const", src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.20.
        """

class mbarrier:
    """Barriers in shared memory that count arrivals and bytes.  `mbar` is an object of smem.mbarrier, a slot of `array`, a register or `ptx.addr`."""

    @staticmethod
    def init(
        mbar: Address,
        count: Integer,
        *,
        layout: Literal["v0", "v1"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared::cta",
        pred: Guard = None,
    ) -> None:
        """Makes an mbarrier object, whose phases end after `count` arrivals.

        Emits `mbarrier.init{.layout}{.space}.b64 [mbar], count`.

        Example:
            ptx.mbarrier.init(mbar, count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.9.
        """

    @staticmethod
    def inval(
        mbar: Address,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        pred: Guard = None,
    ) -> None:
        """Ends an mbarrier object; its memory may be used for something else.

        Emits `mbarrier.inval{.space}.b64 [mbar]`.

        Example:
            ptx.mbarrier.inval(mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.10.
        """

    @staticmethod
    def expect_tx(
        mbar: Address,
        tx_count: Integer,
        *,
        sem: Literal["relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Adds `tx_count` bytes to those that the phase waits for.

        Emits `mbarrier.expect_tx{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 [mbar], tx_count{, cta_mask}`.

        Example:
            ptx.mbarrier.expect_tx(mbar, tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.11.
        """

    @staticmethod
    def complete_tx(
        mbar: Address,
        tx_count: Integer,
        *,
        sem: Literal["relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Takes `tx_count` bytes from those that the phase waits for, as a copy that completes does.

        Emits `mbarrier.complete_tx{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 [mbar], tx_count{, cta_mask}`.

        Example:
            ptx.mbarrier.complete_tx(mbar, tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.12.
        """

    @staticmethod
    def arrive(
        mbar: Address,
        count: Integer | None = None,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared",
        dst: Reg | None = None,
        no_complete: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """Arrives, and returns the state of the phase for `test_wait` and `try_wait`.

        Emits `mbarrier.arrive{.noComplete}{.sem}{.scope}{.space}.b64 dst, [mbar]{, count}`.

        Example:
            result = ptx.mbarrier.arrive(mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

    @staticmethod
    def arrive_expect_tx(
        mbar: Address,
        tx_count: Integer,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cta",
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Adds `tx_count` bytes to those that the phase waits for, arrives, and returns the state of the phase.

        Emits `mbarrier.arrive.expect_tx{.sem}{.scope}{.space}.b64 dst, [mbar], tx_count`.

        Example:
            result = ptx.mbarrier.arrive_expect_tx(mbar, tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

    @staticmethod
    def arrive_cluster(
        mbar: Address,
        count: Integer | None = None,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cluster",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Arrives at a barrier of another CTA of the cluster, whose address is one of shared::cluster.  There is no state.

        Emits `mbarrier.arrive{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 _, [mbar]{, count}{, cta_mask}`.

        Example:
            ptx.mbarrier.arrive_cluster(mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

    @staticmethod
    def arrive_expect_tx_cluster(
        mbar: Address,
        tx_count: Integer,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cluster",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`arrive_expect_tx` at a barrier of another CTA of the cluster.

        Emits `mbarrier.arrive.expect_tx{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 _, [mbar], tx_count{, cta_mask}`.

        Example:
            ptx.mbarrier.arrive_expect_tx_cluster(mbar, tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

    @staticmethod
    def arrive_drop(
        mbar: Address,
        count: Integer | None = None,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared",
        dst: Reg | None = None,
        no_complete: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """Arrives, and takes part in no later phase: their count is smaller by one, or by `count`.

        Emits `mbarrier.arrive_drop{.noComplete}{.sem}{.scope}{.space}.b64 dst, [mbar]{, count}`.

        Example:
            result = ptx.mbarrier.arrive_drop(mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.14.
        """

    @staticmethod
    def arrive_drop_expect_tx(
        mbar: Address,
        tx_count: Integer,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cta",
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """`arrive_expect_tx`, and takes part in no later phase.

        Emits `mbarrier.arrive_drop.expect_tx{.sem}{.scope}{.space}.b64 dst, [mbar], tx_count`.

        Example:
            result = ptx.mbarrier.arrive_drop_expect_tx(mbar, tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.14.
        """

    @staticmethod
    def arrive_drop_cluster(
        mbar: Address,
        count: Integer | None = None,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cluster",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`arrive_drop` at a barrier of another CTA of the cluster.

        Emits `mbarrier.arrive_drop{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 _, [mbar]{, count}{, cta_mask}`.

        Example:
            ptx.mbarrier.arrive_drop_cluster(mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.14.
        """

    @staticmethod
    def arrive_drop_expect_tx_cluster(
        mbar: Address,
        tx_count: Integer,
        *,
        sem: Literal["release", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta", "shared::cluster"] | None = "shared::cluster",
        cta_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`arrive_drop_expect_tx` at a barrier of another CTA of the cluster.

        Emits `mbarrier.arrive_drop.expect_tx{.sem}{.scope}{.space}{.multicast::cluster::32b}.b64 _, [mbar], tx_count{, cta_mask}`.

        Example:
            ptx.mbarrier.arrive_drop_expect_tx_cluster(mbar, tx_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.14.
        """

    @staticmethod
    def test_wait(
        mbar: Address,
        phase: Integer,
        *,
        parity: bool = True,
        phase_type: Literal["primary", "conditional"] | None = None,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared",
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Whether the phase has ended.  `phase` is its parity, or with parity=False the state that an arrival gave.

        Emits `mbarrier.test_wait{.parity}{.phase_type}{.sem}{.scope}{.space}.b64 dst, [mbar], phase`.

        Example:
            result = ptx.mbarrier.test_wait(mbar, phase)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    @staticmethod
    def try_wait(
        mbar: Address,
        phase: Integer,
        *,
        parity: bool = True,
        phase_type: Literal["primary", "conditional"] | None = None,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared",
        dst: Reg | None = None,
        suspend_time_hint: Integer | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Whether the phase has ended; the thread may sleep for a while until it has, for `suspend_time_hint` nanoseconds if that is given.  `phase` is its parity, or with parity=False the state that an arrival gave.

        Emits `mbarrier.try_wait{.parity}{.phase_type}{.sem}{.scope}{.space}.b64 dst, [mbar], phase{, suspend_time_hint}`.

        Example:
            result = ptx.mbarrier.try_wait(mbar, phase)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    @staticmethod
    def test_wait_report(
        mbar: Address,
        phase: Integer,
        *,
        parity: bool = True,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared",
        dst: Reg | None = None,
        reported: Reg | None = None,
        report: Integer | None = None,
        pred: Guard = None,
    ) -> tuple[Reg, Reg]:
        """`test_wait` that also says whether a copy of the phase reported an error, and which: `report` is a b8 register for its value.

        Emits `mbarrier.test_wait{.parity}.phase_type::primary{.sem}{.scope}{.space}.b64 dst|reported{, report}, [mbar], phase`.

        Example:
            result = ptx.mbarrier.test_wait_report(mbar, phase)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    @staticmethod
    def try_wait_report(
        mbar: Address,
        phase: Integer,
        *,
        parity: bool = True,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] | None = "shared",
        dst: Reg | None = None,
        reported: Reg | None = None,
        report: Integer | None = None,
        suspend_time_hint: Integer | None = None,
        pred: Guard = None,
    ) -> tuple[Reg, Reg]:
        """`try_wait` that also says whether a copy of the phase reported an error, and which: `report` is a b8 register for its value.

        Emits `mbarrier.try_wait{.parity}.phase_type::primary{.sem}{.scope}{.space}.b64 dst|reported{, report}, [mbar], phase{, suspend_time_hint}`.

        Example:
            result = ptx.mbarrier.try_wait_report(mbar, phase)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    @staticmethod
    def pending_count(
        state: Integer,
        *,
        dst: Reg | None = None,
        layout_v0: bool = False,
        pred: Guard = None,
    ) -> Reg:
        """How many arrivals the phase of a state that an arrival gave still waits for.

        Emits `mbarrier.pending_count{.layout::v0}.b64 dst, state`.

        Example:
            result = ptx.mbarrier.pending_count(state)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.17.
        """

    @staticmethod
    def check_layout(
        layout: Literal["v0", "v1"],
        mbar: Address,
        *,
        space: Literal["shared::cta"] | None = None,
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Whether the object has this layout.

        Emits `mbarrier.check_layout.layout{.space}.b64 dst, [mbar]`.

        Example:
            result = ptx.mbarrier.check_layout("layout::v0", mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.18.
        """

    @staticmethod
    def wait(
        mbar: Address,
        phase: Number,
        *,
        sem: Literal["acquire", "relaxed"] | None = None,
        scope: Literal["cta", "cluster"] | None = None,
        space: Literal["shared", "shared::cta"] = "shared",
        suspend_time_hint: Number | None = None,
        leave: bool = False,
        uniform: bool = False,
        braces: bool = False,
        pred: Guard = None,
    ) -> None:
        """Waits for the end of a phase: a loop of `mbarrier.try_wait.parity` and a branch.  A guard jumps over the whole loop.

            mbar: the mbarrier object
            phase: the parity of the phase, 0 or 1
            sem: acquire unless given
            scope: with `sem`: cta unless given
            space: shared or shared::cta; None: a generic address
            suspend_time_hint: nanoseconds that one try may sleep
            leave: one branch leaves the loop and another goes back, as CUTLASS writes it
            uniform: the branches are `bra.uni`
            braces: the loop stands in a block of its own

        Example:
            bar = smem.mbarrier(1)[0]
            ptx.mbarrier.wait(bar, 0)                # until the phase of parity 0 has ended

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.16.
        """

    @staticmethod
    def array(base: Number, byte_offset: int, count: int) -> BarrierArray:
        """`count` mbarrier objects of 8 bytes that lie side by side at base + byte_offset.  Declares and writes nothing.

            base: where the memory begins: a register or a symbol
            byte_offset: of the first object
            count: how many objects

        Example:
            base = reg.from_(smem.alloc(b8, 1024), u32)
            full = ptx.mbarrier.array(base, 512, 4)
            full.init_all(1)
            full.at(i).arrive()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.1.
        """

class fence:
    """Fences: the order of memory accesses between threads, and between the ways to memory (proxies)."""

    @staticmethod
    def thread(
        scope: Literal["cta", "cluster", "gpu", "sys"],
        *,
        sem: Literal["sc", "acq_rel", "acquire", "release"] | None = None,
        pred: Guard = None,
    ) -> None:
        """Orders this thread's memory accesses as threads of `scope` see them; acq_rel unless `sem` says otherwise.

        Emits `fence{.sem}.scope`.

        Example:
            ptx.fence.thread("cta")

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def acquire_sync_restrict(*, pred: Guard = None) -> None:
        """An acquire fence for what synchronises through the cluster's shared memory alone.

        Emits `fence.acquire.sync_restrict::shared::cluster.cluster`.

        Example:
            ptx.fence.acquire_sync_restrict()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def release_sync_restrict(*, pred: Guard = None) -> None:
        """A release fence for what synchronises through the CTA's shared memory alone.

        Emits `fence.release.sync_restrict::shared::cta.cluster`.

        Example:
            ptx.fence.release_sync_restrict()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def mbarrier_init(*, pred: Guard = None) -> None:
        """Lets the CTAs of the cluster see mbarrier objects that this thread has initialised.

        Emits `fence.mbarrier_init.release.cluster`.

        Example:
            ptx.fence.mbarrier_init()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_alias(*, pred: Guard = None) -> None:
        """Orders accesses to one memory by different virtual addresses.

        Emits `fence.proxy.alias`.

        Example:
            ptx.fence.proxy_alias()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_alias_sys(sem: Literal["acquire", "release"], *, pred: Guard = None) -> None:
        """`proxy_alias` towards threads of the whole system, one way.

        Emits `fence.proxy.alias.sem.sys`.

        Example:
            ptx.fence.proxy_alias_sys("acquire")

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_async(
        *,
        space: Literal["global", "shared::cta", "shared::cluster"] | None = None,
        pred: Guard = None,
    ) -> None:
        """Orders accesses of threads and of asynchronous copies and wgmma (the async proxy), in `space` alone if it is given.

        Emits `fence.proxy.async{.space}`.

        Example:
            ptx.fence.proxy_async()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_async_shared_cta(*, pred: Guard = None) -> None:
        """`proxy_async` of the CTA's shared memory.

        Emits `fence.proxy.async.shared::cta`.

        Example:
            ptx.fence.proxy_async_shared_cta()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_tensormap_release(scope: Literal["cta", "cluster", "gpu", "sys"], *, pred: Guard = None) -> None:
        """Releases a tensor map that was written by threads.

        Emits `fence.proxy.tensormap::generic.release.scope`.

        Example:
            ptx.fence.proxy_tensormap_release("cta")

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_tensormap_acquire(
        scope: Literal["cta", "cluster", "gpu", "sys"],
        map: Address,
        *,
        pred: Guard = None,
    ) -> None:
        """Acquires a tensor map of 128 bytes in global memory that threads have written, before a copy uses it.

        Emits `fence.proxy.tensormap::generic.acquire.scope [map], 128`.

        Example:
            ptx.fence.proxy_tensormap_acquire("cta", map)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_async_generic_acquire_shared_cluster(*, pred: Guard = None) -> None:
        """Acquires, for asynchronous accesses, what synchronises through the cluster's shared memory.

        Emits `fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster`.

        Example:
            ptx.fence.proxy_async_generic_acquire_shared_cluster()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_async_generic_release_shared_cta(*, pred: Guard = None) -> None:
        """Releases, for asynchronous accesses, what synchronises through the CTA's shared memory.

        Emits `fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster`.

        Example:
            ptx.fence.proxy_async_generic_release_shared_cta()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_async_generic_release_read(scope: Literal["cta", "cluster"], *, pred: Guard = None) -> None:
        """Releases shared memory of the cluster that was read, before asynchronous accesses write it again.

        Emits `fence.proxy.async::generic.release.sync_restrict::shared::cluster::read.scope`.

        Example:
            ptx.fence.proxy_async_generic_release_read("cta")

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def alias_read(*, pred: Guard = None) -> None:
        """Releases memory that was read by an alias, before it is written again.

        Emits `fence.alias.sync_restrict::read.release.sys`.

        Example:
            ptx.fence.alias_read()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def proxy_fabric(
        proxies: Literal["generic::fabric", "fabric::generic", "fabric::fabric"],
        sem: Literal["acquire", "release"],
        *,
        pred: Guard = None,
    ) -> None:
        """Orders accesses of threads and those over the fabric.

        Emits `fence.proxy.proxies.alias.sem.sys`.

        Example:
            ptx.fence.proxy_fabric("generic::fabric", "acquire")

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def membar(level: Literal["cta", "gl", "sys"], *, pred: Guard = None) -> None:
        """The older name of a fence: its sequentially consistent form for `level`.

        Emits `membar.level`.

        Example:
            ptx.fence.membar("cta")

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

    @staticmethod
    def membar_proxy(proxykind: Literal["alias", "async"], *, pred: Guard = None) -> None:
        """The older name of a fence between proxies.

        Emits `membar.proxy.proxykind`.

        Example:
            ptx.fence.membar_proxy("alias")

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.4.
        """

class cp_async:
    """Copies of 4 to 16 bytes from global to shared memory, which go on while the thread does (sm_80)."""

    @staticmethod
    def ca(
        smem_dst: Address,
        global_src: Address,
        byte_count: int,
        src_size: Integer | None = None,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        prefetch: Literal["L2::64B", "L2::128B", "L2::256B"] | None = None,
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Copies `byte_count` bytes, 4, 8 or 16, through all caches.  Of them `src_size` are read, the others are 0.

        Emits `cp.async.ca{.space}.global{.L2::cache_hint}{.prefetch} [smem_dst], [global_src], byte_count{, src_size}{, cache_hint}`.

        Example:
            ptx.cp_async.ca(smem_dst, global_src, byte_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.3.1.
        """

    @staticmethod
    def cg(
        smem_dst: Address,
        global_src: Address,
        byte_count: int,
        src_size: Integer | None = None,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        prefetch: Literal["L2::64B", "L2::128B", "L2::256B"] | None = None,
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Copies 16 bytes through the L2 cache alone.  Of them `src_size` are read, the others are 0.

        Emits `cp.async.cg{.space}.global{.L2::cache_hint}{.prefetch} [smem_dst], [global_src], byte_count{, src_size}{, cache_hint}`.

        Example:
            ptx.cp_async.cg(smem_dst, global_src, byte_count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.3.1.
        """

    @staticmethod
    def ca_unless(
        smem_dst: Address,
        global_src: Address,
        byte_count: int,
        ignore_src: Integer,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        prefetch: Literal["L2::64B", "L2::128B", "L2::256B"] | None = None,
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`ca`; where the predicate `ignore_src` is true nothing is read, and zeros are written.

        Emits `cp.async.ca{.space}.global{.L2::cache_hint}{.prefetch} [smem_dst], [global_src], byte_count, ignore_src{, cache_hint}`.

        Example:
            ptx.cp_async.ca_unless(smem_dst, global_src, byte_count, ignore_src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.3.1.
        """

    @staticmethod
    def cg_unless(
        smem_dst: Address,
        global_src: Address,
        byte_count: int,
        ignore_src: Integer,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        prefetch: Literal["L2::64B", "L2::128B", "L2::256B"] | None = None,
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`cg`; where the predicate `ignore_src` is true nothing is read, and zeros are written.

        Emits `cp.async.cg{.space}.global{.L2::cache_hint}{.prefetch} [smem_dst], [global_src], byte_count, ignore_src{, cache_hint}`.

        Example:
            ptx.cp_async.cg_unless(smem_dst, global_src, byte_count, ignore_src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.3.1.
        """

    @staticmethod
    def commit_group(*, pred: Guard = None) -> None:
        """Makes a group of the thread's copies that are in no group yet.

        Emits `cp.async.commit_group`.

        Example:
            ptx.cp_async.commit_group()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.3.2.
        """

    @staticmethod
    def wait_group(n: int, *, pred: Guard = None) -> None:
        """Waits until at most the `n` latest groups of the thread are not complete.

        Emits `cp.async.wait_group n`.

        Example:
            ptx.cp_async.wait_group(n)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.3.3.
        """

    @staticmethod
    def wait_all(*, pred: Guard = None) -> None:
        """Waits for all copies of the thread.

        Emits `cp.async.wait_all`.

        Example:
            ptx.cp_async.wait_all()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.3.3.
        """

    @staticmethod
    def mbarrier_arrive(
        mbar: Address,
        *,
        noinc: bool = False,
        space: Literal["shared", "shared::cta"] | None = "shared",
        pred: Guard = None,
    ) -> None:
        """Arrives at `mbar` when all copies of the thread so far are complete.  Unless `noinc`, the phase expects one arrival more.

        Emits `cp.async.mbarrier.arrive{.noinc}{.space}.b64 [mbar]`.

        Example:
            ptx.cp_async.mbarrier_arrive(mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.15.
        """

class cp_async_bulk:
    """Copies of many bytes between global and shared memory (sm_90).  Addresses and sizes are multiples of 16; a copy completes at an mbarrier object, or in a group of the thread."""

    @staticmethod
    def load(
        dst: Address,
        src: Address,
        size: Integer,
        mbar: Address,
        *,
        weak: bool = False,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        space: Literal["shared::cta", "shared::cluster"] | None = "shared::cluster",
        report: Literal["mbarrier::report::disabled", "mbarrier::report::validity::per_16bytes::80000000", "mbarrier::report::validity::per_16bytes::8000", "mbarrier::report::validity::per_16bytes::80", "mbarrier::report::validity::per_16bytes::8", "mbarrier::report::validity::per_element::ff"] | None = None,
        left: Integer | None = None,
        right: Integer | None = None,
        multicast_mask: Integer | None = None,
        multicast_mask_32b: Integer | None = None,
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """From global to shared memory, to the same offset in each CTA of `multicast_mask` (16 bits) or `multicast_mask_32b` (sm_107f); the bytes complete at `mbar`.

        Emits `cp.async.bulk{.weak}{.relaxed}{.scope}{.space}.global.mbarrier::complete_tx::bytes{.report}{.multicast::cluster}{.multicast::cluster::32b}{.L2::cache_hint}{.ignore_oob}{.b128} [dst], [src], size{, left}{, right}, [mbar]{, multicast_mask}{, multicast_mask_32b}{, cache_hint}`.

        Example:
            ptx.cp_async_bulk.load(dst, src, size, mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.4.1.
        """

    @staticmethod
    def store(
        dst: Address,
        src: Address,
        size: Integer,
        *,
        weak: bool = False,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        cache_hint: Integer | None = None,
        byte_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """From shared to global memory, in a group; bit i of `byte_mask` says whether byte i of every 16 is written.

        Emits `cp.async.bulk{.weak}{.relaxed}{.scope}.global.shared::cta.bulk_group{.L2::cache_hint}{.cp_mask}{.b128} [dst], [src], size{, cache_hint}{, byte_mask}`.

        Example:
            ptx.cp_async_bulk.store(dst, src, size)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.4.1.
        """

    @staticmethod
    def to_cluster(
        dst: Address,
        src: Address,
        size: Integer,
        mbar: Address,
        *,
        weak: bool = False,
        scope: Literal["cta", "cluster"] | None = None,
        pred: Guard = None,
    ) -> None:
        """From this CTA's shared memory to another's; the bytes complete at `mbar`, which is the other's.

        Emits `cp.async.bulk{.weak}{.relaxed}{.scope}.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{.b128} [dst], [src], size, [mbar]`.

        Example:
            ptx.cp_async_bulk.to_cluster(dst, src, size, mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.4.1.
        """

    @staticmethod
    def reduce(
        op: Literal["and", "or", "xor", "min", "max", "add", "inc", "dec"],
        type: PtxType,
        dst: Address,
        src: Address,
        size: Integer,
        *,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        noftz: bool = False,
        cache_hint: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """dst[i] = op(dst[i], src[i]) in global memory, in a group.

        Emits `cp.reduce.async.bulk{.relaxed}{.scope}.global.shared::cta.bulk_group{.L2::cache_hint}.op{.noftz}.type [dst], [src], size{, cache_hint}`.

        Example:
            ptx.cp_async_bulk.reduce("add", f32, dst, src, size)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.4.2.
        """

    @staticmethod
    def reduce_to_cluster(
        op: Literal["and", "or", "xor", "min", "max", "add", "inc", "dec"],
        type: PtxType,
        dst: Address,
        src: Address,
        size: Integer,
        mbar: Address,
        *,
        scope: Literal["cta", "cluster"] | None = None,
        pred: Guard = None,
    ) -> None:
        """dst[i] = op(dst[i], src[i]) in another CTA's shared memory; the bytes complete at `mbar`, which is the other's.

        Emits `cp.reduce.async.bulk{.relaxed}{.scope}.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.op.type [dst], [src], size, [mbar]`.

        Example:
            ptx.cp_async_bulk.reduce_to_cluster("add", u32, dst, src, size, mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.4.2.
        """

    @staticmethod
    def prefetch(
        src: Address,
        size: Integer,
        *,
        cache_hint: Integer | None = None,
        evict_last: bool = False,
        pred: Guard = None,
    ) -> None:
        """Brings global memory into the L2 cache.

        Emits `cp.async.bulk.prefetch.L2.global{.L2::cache_hint}{.L2::evict_last} [src], size{, cache_hint}`.

        Example:
            ptx.cp_async_bulk.prefetch(src, size)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.25.4.3.
        """

    @staticmethod
    def commit_group(*, pred: Guard = None) -> None:
        """Makes a group of the thread's bulk copies that are in no group yet.

        Emits `cp.async.bulk.commit_group`.

        Example:
            ptx.cp_async_bulk.commit_group()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.27.2.1.
        """

    @staticmethod
    def wait_group(n: int, *, read: bool = False, pred: Guard = None) -> None:
        """Waits until at most the `n` latest groups of the thread are not complete; with `read`, until the others have read their source.

        Emits `cp.async.bulk.wait_group{.read} n`.

        Example:
            ptx.cp_async_bulk.wait_group(n)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.27.2.2.
        """

class tensor_copy:
    """Copies of boxes of a tensor between global and shared memory (sm_90).  `coord` has a coordinate a dimension, innermost first; in the modes tile::gather4 and tile::scatter4 a column and four rows."""

    @staticmethod
    def load(
        dst: Address,
        src: Number,
        coord: Sequence[Integer],
        mbar: Address,
        *,
        mode: Literal["tile", "tile::gather4", "im2col", "im2col::w", "im2col::w::128", "tile::scatter4", "im2col_no_offs", "im2col_no_offs::w"] | None = None,
        space: Literal["shared::cta", "shared::cluster"] | None = None,
        offsets: Sequence[Integer] | None = None,
        multicast_mask: Number | None = None,
        multicast_mask_32b: Number | None = None,
        report: Literal["mbarrier::report::disabled", "mbarrier::report::validity::per_16bytes::80000000", "mbarrier::report::validity::per_16bytes::8000", "mbarrier::report::validity::per_16bytes::80", "mbarrier::report::validity::per_16bytes::8", "mbarrier::report::validity::per_element::ff"] | None = None,
        cta_group: Literal[1, 2] | None = None,
        cache_hint: Number | None = None,
        override_address: Number | None = None,
        override_sizes: Sequence[Integer] | None = None,
        override_strides: Sequence[Integer] | None = None,
        override_strides_upper: Number | None = None,
        pred: Guard = None,
    ) -> None:
        """cp.async.bulk.tensor: a box from global to shared memory.

            dst: shared memory, 128-byte aligned
            src: a register with the address of the tensor map
            coord: where the box begins
            mbar: where the bytes complete
            mode: tile unless given
            space: of `dst` and `mbar`: shared::cluster unless given
            offsets: of the modes im2col: offsets within the filter
            multicast_mask: CTAs of the cluster that get the box at the same offset
            multicast_mask_32b: sm_107f: the same, of clusters of up to 32 CTAs
            report: sm_107a: what `mbar` reports of elements
            cta_group: 2: `mbar` may be the other CTA's of the pair
            cache_hint: a policy that createpolicy made
            override_address: sm_107f: the tensor begins here instead, a 64-bit register
            override_sizes: with it: sizes of the dimensions, b16 registers
            override_strides: with them, from rank 2: strides, b32 registers
            override_strides_upper: their bits above 32, a b16 register

        Example:
            @kernel(in_specs=(Tile(64, 64, f32, tma_box=(32, 32)),), out_specs=())
            def k(X):
                box, bar = smem.alloc(f32, (32, 32)), smem.mbarrier(1)[0]
                ptx.mbarrier.init(bar, 1)
                ptx.mbarrier.arrive_expect_tx(bar, 4096)
                ptx.tensor_copy.load(ptx.addr(box), X.tma_desc(), (0, 32), bar)
                ptx.mbarrier.wait(bar, 0)
                ptx.ret()

            k.ptx()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.27.1.2.
        """

    @staticmethod
    def store(
        dst: Number,
        coord: Sequence[Integer],
        src: Address,
        *,
        mode: Literal["tile", "tile::scatter4", "im2col_no_offs", "im2col_no_offs::w"] | None = None,
        cache_hint: Number | None = None,
        override_address: Number | None = None,
        override_sizes: Sequence[Integer] | None = None,
        override_strides: Sequence[Integer] | None = None,
        override_strides_upper: Number | None = None,
        pred: Guard = None,
    ) -> None:
        """cp.async.bulk.tensor: a box from shared to global memory, in a group.

            dst: a register with the address of the tensor map
            coord: where the box begins
            src: shared memory, 128-byte aligned
            mode: tile unless given
            cache_hint: a policy that createpolicy made
            override_address: sm_107f: the tensor begins here instead, a 64-bit register
            override_sizes: with it: sizes of the dimensions, b16 registers
            override_strides: with them, from rank 2: strides, b32 registers
            override_strides_upper: their bits above 32, a b16 register

        Example:
            box, map_ = smem.alloc(f32, (32, 32)), reg.scalar(u64)
            ptx.tensor_copy.store(map_, (0, 32), ptx.addr(box))
            ptx.cp_async_bulk.commit_group()
            ptx.cp_async_bulk.wait_group(0)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.27.1.2.
        """

    @staticmethod
    def reduce(
        op: Literal["add", "min", "max", "inc", "dec", "and", "or", "xor"],
        dst: Number,
        coord: Sequence[Integer],
        src: Address,
        *,
        mode: Literal["tile", "im2col_no_offs", "im2col_no_offs::w"] | None = None,
        cache_hint: Number | None = None,
        override_address: Number | None = None,
        override_sizes: Sequence[Integer] | None = None,
        override_strides: Sequence[Integer] | None = None,
        override_strides_upper: Number | None = None,
        pred: Guard = None,
    ) -> None:
        """cp.reduce.async.bulk.tensor: tensor[i] = op(tensor[i], src[i]), in a group.

            op: how elements are combined
            dst: a register with the address of the tensor map
            coord: where the box begins
            src: shared memory, 128-byte aligned
            mode: tile unless given
            cache_hint: a policy that createpolicy made
            override_address: sm_107f: the tensor begins here instead, a 64-bit register
            override_sizes: with it: sizes of the dimensions, b16 registers
            override_strides: with them, from rank 2: strides, b32 registers
            override_strides_upper: their bits above 32, a b16 register

        Example:
            box, map_ = smem.alloc(f32, (32, 32)), reg.scalar(u64)
            ptx.tensor_copy.reduce("add", map_, (0, 32), ptx.addr(box))

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.27.1.3.
        """

    @staticmethod
    def prefetch(
        src: Number,
        coord: Sequence[Integer],
        *,
        mode: Literal["tile", "tile::gather4", "im2col", "im2col::w", "im2col::w::128"] | None = None,
        offsets: Sequence[Integer] | None = None,
        cache_hint: Number | None = None,
        evict_last: bool = False,
        override_address: Number | None = None,
        override_sizes: Sequence[Integer] | None = None,
        override_strides: Sequence[Integer] | None = None,
        override_strides_upper: Number | None = None,
        pred: Guard = None,
    ) -> None:
        """cp.async.bulk.prefetch.tensor: a box of global memory into the L2 cache.

            src: a register with the address of the tensor map
            coord: where the box begins
            mode: tile unless given
            offsets: of the modes im2col: offsets within the filter
            cache_hint: a policy that createpolicy made
            evict_last: sm_107f, instead of a policy: L2::evict_last
            override_address: sm_107f: the tensor begins here instead, a 64-bit register
            override_sizes: with it: sizes of the dimensions, b16 registers
            override_strides: with them, from rank 2: strides, b32 registers
            override_strides_upper: their bits above 32, a b16 register

        Example:
            ptx.tensor_copy.prefetch(reg.scalar(u64), (0, 32))

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.27.1.4.
        """

class tensormap:
    """Fields of a tensor map of 128 bytes in global or shared memory (sm_90a)."""

    @staticmethod
    def cp_fenceproxy(
        scope: Literal["cta", "cluster", "gpu", "sys"],
        dst: Address,
        src: Address,
        *,
        pred: Guard = None,
    ) -> None:
        """Copies a tensor map of 128 bytes from shared to global memory, by all lanes of a warp, and releases it to threads of `scope` that acquire it with `ptx.fence.proxy_tensormap_acquire`.

        Emits `tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [dst], [src], 128`.

        Example:
            ptx.tensormap.cp_fenceproxy("cta", dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.16.
        """

    @staticmethod
    def replace_global_address(
        map: Address,
        value: Integer,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """Where the tensor begins.

        Emits `tensormap.replace.tile.global_address{.space}.b1024.b64 [map], value`.

        Example:
            ptx.tensormap.replace_global_address(map, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_rank(
        map: Address,
        value: Integer,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """The rank less one.

        Emits `tensormap.replace.tile.rank{.space}.b1024.b32 [map], value`.

        Example:
            ptx.tensormap.replace_rank(map, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_global_stride(
        map: Address,
        dim: int,
        value: Integer,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """The stride of dimension `dim` + 1, in bytes.

        Emits `tensormap.replace.tile.global_stride{.space}.b1024.b64 [map], dim, value`.

        Example:
            ptx.tensormap.replace_global_stride(map, dim, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_global_dim(
        map: Address,
        dim: int,
        value: Integer,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """The size of dimension `dim`.

        Emits `tensormap.replace.tile.global_dim{.space}.b1024.b32 [map], dim, value`.

        Example:
            ptx.tensormap.replace_global_dim(map, dim, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_box_dim(
        map: Address,
        dim: int,
        value: Integer,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """The size of the box in dimension `dim`.

        Emits `tensormap.replace.tile.box_dim{.space}.b1024.b32 [map], dim, value`.

        Example:
            ptx.tensormap.replace_box_dim(map, dim, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_element_stride(
        map: Address,
        dim: int,
        value: Integer,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """Every how many elements of dimension `dim` one is copied.

        Emits `tensormap.replace.tile.element_stride{.space}.b1024.b32 [map], dim, value`.

        Example:
            ptx.tensormap.replace_element_stride(map, dim, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_elemtype(
        map: Address,
        value: int,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """The element type, by the manual's number.

        Emits `tensormap.replace.tile.elemtype{.space}.b1024.b32 [map], value`.

        Example:
            ptx.tensormap.replace_elemtype(map, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_interleave_layout(
        map: Address,
        value: int,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """0: none, 1: 16 bytes, 2: 32 bytes.

        Emits `tensormap.replace.tile.interleave_layout{.space}.b1024.b32 [map], value`.

        Example:
            ptx.tensormap.replace_interleave_layout(map, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_swizzle_mode(
        map: Address,
        value: int,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """0: none, 1: 32 bytes, 2: 64, 3: 128, 4: 96.

        Emits `tensormap.replace.tile.swizzle_mode{.space}.b1024.b32 [map], value`.

        Example:
            ptx.tensormap.replace_swizzle_mode(map, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_swizzle_atomicity(
        map: Address,
        value: int,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """0: 16 bytes, 1: 32, 2: 32 with 8-byte flip, 3: 64.

        Emits `tensormap.replace.tile.swizzle_atomicity{.space}.b1024.b32 [map], value`.

        Example:
            ptx.tensormap.replace_swizzle_atomicity(map, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

    @staticmethod
    def replace_fill_mode(
        map: Address,
        value: int,
        *,
        space: Literal["global", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """Elements outside of the tensor: 0: zero, 1: NaN.

        Emits `tensormap.replace.tile.fill_mode{.space}.b1024.b32 [map], value`.

        Example:
            ptx.tensormap.replace_fill_mode(map, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.28.
        """

class bar:
    """Barriers of a CTA by number, 0 to 15; `count` threads take part, all unless it is given."""

    @staticmethod
    def sync(n: Integer = 0, count: Integer | None = None, *, cta: bool = False, pred: Guard = None) -> None:
        """Waits until the threads of the barrier have arrived.

        Emits `bar{.cta}.sync n{, count}`.

        Example:
            ptx.bar.sync()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.1.
        """

    @staticmethod
    def arrive(n: Integer, count: Integer, *, cta: bool = False, pred: Guard = None) -> None:
        """Arrives and does not wait.

        Emits `bar{.cta}.arrive n, count`.

        Example:
            ptx.bar.arrive(n, count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.1.
        """

    @staticmethod
    def red_popc(
        n: Integer,
        predicate: Predicate,
        *,
        cta: bool = False,
        dst: Reg | None = None,
        count: Integer | None = None,
        pred: Guard = None,
    ) -> Reg:
        """`sync`, and how many of the threads have the predicate.

        Emits `bar{.cta}.red.popc.u32 dst, n{, count}, predicate`.

        Example:
            result = ptx.bar.red_popc(n, predicate)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.1.
        """

    @staticmethod
    def red(
        op: Literal["and", "or"],
        n: Integer,
        predicate: Predicate,
        *,
        cta: bool = False,
        dst: Reg | None = None,
        count: Integer | None = None,
        pred: Guard = None,
    ) -> Reg:
        """`sync`, and whether all (and) or any (or) of the threads have the predicate.

        Emits `bar{.cta}.red.op.pred dst, n{, count}, predicate`.

        Example:
            result = ptx.bar.red("and", n, predicate)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.1.
        """

class barrier:
    """`ptx.bar` for threads: those of one warp may come to them in different places, unless `aligned`."""

    @staticmethod
    def sync(
        n: Integer = 0,
        count: Integer | None = None,
        *,
        cta: bool = False,
        aligned: bool = False,
        pred: Guard = None,
    ) -> None:
        """Waits until the threads of the barrier have arrived.

        Emits `barrier{.cta}.sync{.aligned} n{, count}`.

        Example:
            ptx.barrier.sync()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.1.
        """

    @staticmethod
    def arrive(n: Integer, count: Integer, *, cta: bool = False, aligned: bool = False, pred: Guard = None) -> None:
        """Arrives and does not wait.

        Emits `barrier{.cta}.arrive{.aligned} n, count`.

        Example:
            ptx.barrier.arrive(n, count)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.1.
        """

    @staticmethod
    def red_popc(
        n: Integer,
        predicate: Predicate,
        *,
        cta: bool = False,
        aligned: bool = False,
        dst: Reg | None = None,
        count: Integer | None = None,
        pred: Guard = None,
    ) -> Reg:
        """`sync`, and how many of the threads have the predicate.

        Emits `barrier{.cta}.red.popc{.aligned}.u32 dst, n{, count}, predicate`.

        Example:
            result = ptx.barrier.red_popc(n, predicate)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.1.
        """

    @staticmethod
    def red(
        op: Literal["and", "or"],
        n: Integer,
        predicate: Predicate,
        *,
        cta: bool = False,
        aligned: bool = False,
        dst: Reg | None = None,
        count: Integer | None = None,
        pred: Guard = None,
    ) -> Reg:
        """`sync`, and whether all (and) or any (or) of the threads have the predicate.

        Emits `barrier{.cta}.red.op{.aligned}.pred dst, n{, count}, predicate`.

        Example:
            result = ptx.barrier.red("and", n, predicate)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.1.
        """

class cluster:
    """Clusters: their barrier, and shared memory of their other CTAs."""

    @staticmethod
    def arrive(
        *,
        sem: Literal["release", "relaxed"] | None = None,
        aligned: bool = False,
        pred: Guard = None,
    ) -> None:
        """Arrives at the cluster's barrier.

        Emits `barrier.cluster.arrive{.sem}{.aligned}`.

        Example:
            ptx.cluster.arrive()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.3.
        """

    @staticmethod
    def wait(*, acquire: bool = False, aligned: bool = False, pred: Guard = None) -> None:
        """Waits until all threads of the cluster have arrived.

        Emits `barrier.cluster.wait{.acquire}{.aligned}`.

        Example:
            ptx.cluster.wait()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.3.
        """

    @staticmethod
    def mapa(
        dtype: PtxType,
        address: Integer,
        cta_id: Integer,
        *,
        space: Literal["shared::cluster"] | None = "shared::cluster",
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """The address that `address` has in the shared memory of CTA `cta_id`.

        Emits `mapa{.space}.dtype dst, address, cta_id`.

        Example:
            result = ptx.cluster.mapa(u32, address, cta_id)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.23.
        """

    @staticmethod
    def getctarank(
        dtype: PtxType,
        address: Integer,
        *,
        space: Literal["shared::cluster"] | None = "shared::cluster",
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """The rank of the CTA whose shared memory an address is in.

        Emits `getctarank{.space}.dtype dst, address`.

        Example:
            result = ptx.cluster.getctarank(u32, address)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.24.
        """

    @staticmethod
    def sync(*, pred: Guard = None) -> None:
        """`arrive` and `wait`.

        Example:
            ptx.cluster.sync()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.3.
        """

    @staticmethod
    def rank(r: Number, *, pred: Guard = None) -> Reg:
        """A predicate: whether this CTA's rank in the cluster is `r`.

            r: a rank

        Example:
            result = ptx.cluster.rank(r)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 10.15.
        """

    @staticmethod
    def map_shared_u32(bar_addr: Number, cta_id: Number, *, pred: Guard = None) -> Reg:
        """`mapa.shared::cluster.u32`, with symbols and numbers copied to registers first.

            bar_addr: an address of this CTA
            cta_id: rank of the CTA in the cluster

        Example:
            result = ptx.cluster.map_shared_u32(bar_addr, cta_id)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.23.
        """

    @staticmethod
    def arrive_remote(bar_addr: Number, cta_id: Number, count: Number = 1, *, pred: Guard = None) -> None:
        """Arrives at the barrier at this address in another CTA: `mapa` and `mbarrier.arrive.shared::cluster`.

            bar_addr: the address of an mbarrier object in this CTA
            cta_id: rank of the CTA in the cluster
            count: how many arrivals

        Example:
            ptx.cluster.arrive_remote(bar_addr, cta_id)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.15.13.
        """

class warp:
    """What the lanes of a warp do together; `membermask` names those that take part, all unless it is given."""

    @staticmethod
    def sync(membermask: Integer = 0xffffffff, *, pred: Guard = None) -> None:
        """Waits for the lanes.

        Emits `bar.warp.sync membermask`.

        Example:
            ptx.warp.sync()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.2.
        """

    @staticmethod
    def activemask(*, dst: Reg | None = None, pred: Guard = None) -> Reg:
        """The lanes that run now.

        Emits `activemask.b32 dst`.

        Example:
            result = ptx.warp.activemask()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.11.
        """

    @staticmethod
    def elect(membermask: Integer = 0xffffffff, *, dst: Reg | None = None, pred: Guard = None) -> Reg:
        """True in one of the lanes.

        Emits `elect.sync _|dst, membermask`.

        Example:
            result = ptx.warp.elect()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.14.
        """

    @staticmethod
    def shfl(
        mode: Literal["up", "down", "bfly", "idx"],
        a: Integer,
        b: Integer,
        c: Integer = 31,
        membermask: Integer = 0xffffffff,
        *,
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """`a` of another lane: `b` lanes up or down, across (bfly), or lane `b` itself (idx).  `c` bounds the lanes: 31, or 0 for mode up.

        Emits `shfl.sync.mode.b32 dst, a, b, c, membermask`.

        Example:
            result = ptx.warp.shfl("up", a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.6.
        """

    @staticmethod
    def shfl_inside(
        mode: Literal["up", "down", "bfly", "idx"],
        a: Integer,
        b: Integer,
        c: Integer = 31,
        membermask: Integer = 0xffffffff,
        *,
        dst: Reg | None = None,
        inside: Reg | None = None,
        pred: Guard = None,
    ) -> tuple[Reg, Reg]:
        """`shfl`, and whether the lane that was read is inside the bounds.

        Emits `shfl.sync.mode.b32 dst|inside, a, b, c, membermask`.

        Example:
            result = ptx.warp.shfl_inside("up", a, b)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.6.
        """

    @staticmethod
    def vote(
        mode: Literal["all", "any", "uni"],
        predicate: Predicate,
        membermask: Integer = 0xffffffff,
        *,
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """Whether all, or any, of the lanes have the predicate, or all the same one (uni).

        Emits `vote.sync.mode.pred dst, predicate, membermask`.

        Example:
            result = ptx.warp.vote("all", predicate)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.9.
        """

    @staticmethod
    def ballot(
        predicate: Predicate,
        membermask: Integer = 0xffffffff,
        *,
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """The lanes that have the predicate.

        Emits `vote.sync.ballot.b32 dst, predicate, membermask`.

        Example:
            result = ptx.warp.ballot(predicate)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.9.
        """

    @staticmethod
    def match_any(
        dtype: PtxType,
        a: Integer,
        membermask: Integer = 0xffffffff,
        *,
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """The lanes whose `a` is this lane's.

        Emits `match.any.sync.dtype dst, a, membermask`.

        Example:
            result = ptx.warp.match_any(b32, a)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.10.
        """

    @staticmethod
    def match_all(
        dtype: PtxType,
        a: Integer,
        membermask: Integer = 0xffffffff,
        *,
        dst: Reg | None = None,
        same: Reg | None = None,
        pred: Guard = None,
    ) -> tuple[Reg, Reg]:
        """The lanes if all have the same `a`, else 0; and whether they have.

        Emits `match.all.sync.dtype dst|same, a, membermask`.

        Example:
            result = ptx.warp.match_all(b32, a)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.10.
        """

    @staticmethod
    def match_all_lanes(
        dtype: PtxType,
        a: Integer,
        membermask: Integer = 0xffffffff,
        *,
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """`match_all` without the predicate.

        Emits `match.all.sync.dtype dst, a, membermask`.

        Example:
            result = ptx.warp.match_all_lanes(b32, a)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.10.
        """

    @staticmethod
    def redux(
        op: Literal["add", "min", "max", "and", "or", "xor"],
        dtype: PtxType,
        a: Number,
        membermask: Integer = 0xffffffff,
        *,
        abs: bool = False,
        NaN: bool = False,
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """The sum, least, greatest, and, or, xor of the lanes' `a`.

        Emits `redux.sync.op{.abs}{.NaN}.dtype dst, a, membermask`.

        Example:
            result = ptx.warp.redux("add", u32, a)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.12.
        """

    @staticmethod
    def reduce_sum(val: Reg, *, width: int = 32, pred: Guard = None) -> None:
        """Adds up `val` in place over groups of lanes: `shfl.sync.bfly` and `add`, once a halving.

            val: b32, u32, s32 or f32; every lane ends with the result
            width: lanes of a group: 2, 4, 8, 16 or 32

        Example:
            total = reg.scalar(f32, init=1.0)
            ptx.warp.reduce_sum(total)               # 32 in every lane

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.6.
        """

    @staticmethod
    def reduce_max(val: Reg, *, width: int = 32, pred: Guard = None) -> None:
        """The greatest `val` in place, over groups of lanes: `shfl.sync.bfly` and `max`, once a halving.

            val: b32, u32, s32 or f32; every lane ends with the result
            width: lanes of a group: 2, 4, 8, 16 or 32

        Example:
            largest = reg.scalar(f32, init=1.0)
            ptx.warp.reduce_max(largest)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.6.
        """

    @staticmethod
    def reduce_min(val: Reg, *, width: int = 32, pred: Guard = None) -> None:
        """The least `val` in place, over groups of lanes: `shfl.sync.bfly` and `min`, once a halving.

            val: b32, u32, s32 or f32; every lane ends with the result
            width: lanes of a group: 2, 4, 8, 16 or 32

        Example:
            least = reg.scalar(f32, init=1.0)
            ptx.warp.reduce_min(least)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.6.
        """

class griddepcontrol:
    """Programmatic dependent launch: `@kernel(dependent_launch=True)`."""

    @staticmethod
    def launch_dependents(*, pred: Guard = None) -> None:
        """Lets the grids that depend on this one start, once all its CTAs have come here or ended.

        Emits `griddepcontrol.launch_dependents`.

        Example:
            ptx.griddepcontrol.launch_dependents()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.13.
        """

    @staticmethod
    def wait(*, pred: Guard = None) -> None:
        """Waits until the grids that this one depends on have ended and their memory is visible.

        Emits `griddepcontrol.wait`.

        Example:
            ptx.griddepcontrol.wait()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.13.
        """

class clusterlaunchcontrol:
    """Takes over the work of a cluster that has not started: its launch is cancelled, and its CTAs are done here."""

    @staticmethod
    def try_cancel(
        response: Address,
        mbar: Address,
        *,
        space: Literal["shared::cta"] | None = None,
        multicast: bool = False,
        pred: Guard = None,
    ) -> None:
        """Asks for it; the response of 16 bytes is written to shared memory, of every CTA with `multicast`, and an mbarrier object counts its bytes.

        Emits `clusterlaunchcontrol.try_cancel.async{.space}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [response], [mbar]`.

        Example:
            ptx.clusterlaunchcontrol.try_cancel(response, mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.17.
        """

    @staticmethod
    def is_canceled(response: Integer, *, dst: Reg | None = None, pred: Guard = None) -> Reg:
        """Whether a cluster was cancelled; `response` is a b128 register.

        Emits `clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 dst, response`.

        Example:
            result = ptx.clusterlaunchcontrol.is_canceled(response)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.18.
        """

    @staticmethod
    def first_ctaid(ctaid: Registers, response: Integer, *, pred: Guard = None) -> None:
        """The %ctaid of the cancelled cluster's first CTA: x, y and z; the fourth register is not written.

        Emits `clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {ctaid}, response`.

        Example:
            ptx.clusterlaunchcontrol.first_ctaid(ctaid, response)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.18.
        """

    @staticmethod
    def first_ctaid_of(
        dimension: Literal["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"],
        response: Integer,
        *,
        dst: Reg | None = None,
        pred: Guard = None,
    ) -> Reg:
        """One dimension of `first_ctaid`.

        Emits `clusterlaunchcontrol.query_cancel.dimension.b32.b128 dst, response`.

        Example:
            result = ptx.clusterlaunchcontrol.first_ctaid_of("get_first_ctaid::x", response)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.13.18.
        """

class multimem:
    """Multimem addresses, which stand for the same memory of several devices."""

    @staticmethod
    def ld_reduce(
        op: Literal["and", "or", "xor", "min", "max", "add"],
        dtype: PtxType,
        dst: Registers | Reg,
        address: Address,
        *,
        weak: bool = False,
        sem: Literal["relaxed", "acquire"] | None = None,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        acc: Literal["acc::f32", "acc::f16"] | None = None,
        vec: Literal["v2", "v4", "v8"] | None = None,
        global_: bool = False,
        pred: Guard = None,
    ) -> Reg | None:
        """Loads from every device and combines; with `vec` into a list of registers.

        Emits `multimem.ld_reduce{.weak}{.sem}{.scope}{.global}.op{.acc}{.vec}.dtype dst, [address]`.

        Example:
            result = ptx.multimem.ld_reduce("add", f32, dst, address)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.14.
        """

    @staticmethod
    def st(
        dtype: PtxType,
        address: Address,
        value: Registers | Number,
        *,
        weak: bool = False,
        sem: Literal["relaxed", "release"] | None = None,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        vec: Literal["v2", "v4", "v8"] | None = None,
        global_: bool = False,
        pred: Guard = None,
    ) -> None:
        """Stores to every device.

        Emits `multimem.st{.weak}{.sem}{.scope}{.global}{.vec}.dtype [address], value`.

        Example:
            ptx.multimem.st(f32, address, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.14.
        """

    @staticmethod
    def red(
        op: Literal["and", "or", "xor", "min", "max", "add"],
        dtype: PtxType,
        address: Address,
        value: Registers | Number,
        *,
        sem: Literal["relaxed", "release"] | None = None,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        vec: Literal["v2", "v4", "v8"] | None = None,
        global_: bool = False,
        pred: Guard = None,
    ) -> None:
        """Combines `value` with the memory of every device.

        Emits `multimem.red{.sem}{.scope}{.global}.op{.vec}.dtype [address], value`.

        Example:
            ptx.multimem.red("add", f32, address, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.14.
        """

    @staticmethod
    def st_async(
        scope: Literal["gpu", "sys"],
        dtype: PtxType,
        address: Address,
        value: Number,
        *,
        global_: bool = False,
        pred: Guard = None,
    ) -> None:
        """Stores to every device later, with release order.

        Emits `multimem.st.async.release.scope{.global}.dtype [address], value`.

        Example:
            ptx.multimem.st_async("gpu", f32, address, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.10.13.
        """

    @staticmethod
    def red_async(
        scope: Literal["gpu", "sys"],
        dtype: PtxType,
        address: Address,
        value: Integer,
        *,
        global_: bool = False,
        pred: Guard = None,
    ) -> None:
        """Adds to the memory of every device later, with release order.

        Emits `multimem.red.async.release.scope{.global}.add.dtype [address], value`.

        Example:
            ptx.multimem.red_async("gpu", u32, address, value)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.8.
        """

    @staticmethod
    def cp_async_bulk(
        dst: Address,
        src: Address,
        size: Integer,
        *,
        weak: bool = False,
        byte_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """Copies `size` bytes from shared memory to every device, as part of the bulk group.

        Emits `multimem.cp.async.bulk{.weak}.global.shared::cta.bulk_group{.cp_mask} [dst], [src], size{, byte_mask}`.

        Example:
            ptx.multimem.cp_async_bulk(dst, src, size)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.26.
        """

    @staticmethod
    def cp_async_bulk_relaxed(
        scope: Literal["cta", "cluster", "gpu", "sys"],
        dst: Address,
        src: Address,
        size: Integer,
        *,
        byte_mask: Integer | None = None,
        pred: Guard = None,
    ) -> None:
        """`cp_async_bulk`, relaxed and atomic by 16 bytes.

        Emits `multimem.cp.async.bulk.relaxed.scope.global.shared::cta.bulk_group{.cp_mask}.b128 [dst], [src], size{, byte_mask}`.

        Example:
            ptx.multimem.cp_async_bulk_relaxed("cta", dst, src, size)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.26.
        """

    @staticmethod
    def cp_reduce_async_bulk(
        op: Literal["and", "or", "xor", "min", "max", "add", "inc", "dec"],
        dtype: PtxType,
        dst: Address,
        src: Address,
        size: Integer,
        *,
        relaxed: bool = False,
        scope: Literal["cta", "cluster", "gpu", "sys"] | None = None,
        noftz: bool = False,
        pred: Guard = None,
    ) -> None:
        """Combines `size` bytes of shared memory with the memory of every device, as part of the bulk group.

        Emits `multimem.cp.reduce.async.bulk{.relaxed}{.scope}.global.shared::cta.bulk_group.op{.noftz}.dtype [dst], [src], size`.

        Example:
            ptx.multimem.cp_reduce_async_bulk("add", f32, dst, src, size)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.9.27.
        """

class wmma:
    """Products of matrices by a warp (sm_70).  Which thread holds which element is open: fragments are loaded and stored by `load` and `store`, and are registers of the types that the manual's table has for the matrix."""

    @staticmethod
    def load(
        matrix: Literal["a", "b", "c"],
        layout: Literal["row", "col"],
        shape: Literal["m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128"],
        dtype: PtxType,
        dst: Registers,
        src: Address,
        stride: Integer | None = None,
        *,
        space: Literal["global", "shared", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """A matrix, a, b or c, from memory to its fragment; `stride` is that of its rows or columns, in elements.

        Emits `wmma.load.matrix.sync.aligned.layout.shape{.space}.dtype {dst}, [src]{, stride}`.

        Example:
            ptx.wmma.load("a", "row", "m16n16k16", f32, dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.4.3.
        """

    @staticmethod
    def store(
        layout: Literal["row", "col"],
        shape: Literal["m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8", "m8n8k32", "m8n8k128", "m8n8k4"],
        dtype: PtxType,
        dst: Address,
        src: Registers,
        stride: Integer | None = None,
        *,
        space: Literal["global", "shared", "shared::cta"] | None = None,
        pred: Guard = None,
    ) -> None:
        """The fragment of D to memory.

        Emits `wmma.store.d.sync.aligned.layout.shape{.space}.dtype [dst], {src}{, stride}`.

        Example:
            ptx.wmma.store("row", "m16n16k16", f32, dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.4.4.
        """

    @staticmethod
    def mma(
        a_layout: Literal["row", "col"],
        b_layout: Literal["row", "col"],
        shape: Literal["m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8", "m8n8k4", "m8n8k32"],
        dtype_d: PtxType,
        dtype_a: PtxType,
        dtype_b: PtxType,
        dtype_c: PtxType,
        d: Registers,
        a: Registers,
        b: Registers,
        c: Registers,
        *,
        rnd: Literal["rn", "rz", "rm", "rp"] | None = None,
        satfinite: bool = False,
        pred: Guard = None,
    ) -> None:
        """D = A * B + C of integers, bf16, tf32 and f64.

        Emits `wmma.mma.sync.aligned.a_layout.b_layout.shape{.rnd}.dtype_d.dtype_a.dtype_b.dtype_c{.satfinite} {d}, {a}, {b}, {c}`.

        Example:
            ptx.wmma.mma("row", "row", "m16n16k16", f32, bf16, bf16, f32, d, a, b, c)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.4.5.
        """

    @staticmethod
    def mma_f16(
        a_layout: Literal["row", "col"],
        b_layout: Literal["row", "col"],
        shape: Literal["m16n16k16", "m8n32k16", "m32n8k16"],
        dtype_d: PtxType,
        dtype_c: PtxType,
        d: Registers,
        a: Registers,
        b: Registers,
        c: Registers,
        *,
        satfinite: bool = False,
        pred: Guard = None,
    ) -> None:
        """D = A * B + C of f16; D and C are f16 or f32.

        Emits `wmma.mma.sync.aligned.a_layout.b_layout.shape.dtype_d.dtype_c{.satfinite} {d}, {a}, {b}, {c}`.

        Example:
            ptx.wmma.mma_f16("row", "row", "m16n16k16", f32, f32, d, a, b, c)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.4.5.
        """

    @staticmethod
    def mma_b1(
        op: Literal["xor", "and"],
        d: Registers,
        a: Registers,
        b: Registers,
        c: Registers,
        *,
        pred: Guard = None,
    ) -> None:
        """D = C + the number of bits in A xor B, or A and B, of each row and column.

        Emits `wmma.mma.op.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {d}, {a}, {b}, {c}`.

        Example:
            ptx.wmma.mma_b1("xor", d, a, b, c)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.4.5.
        """

class wgmma:
    """Products of matrices by a warpgroup, in the background (sm_90a)."""

    @staticmethod
    def fence(*, pred: Guard = None) -> None:
        """Orders accesses to registers and shared memory before the `mma_async` that follow.

        Emits `wgmma.fence.sync.aligned`.

        Example:
            ptx.wgmma.fence()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.7.1.
        """

    @staticmethod
    def commit_group(*, pred: Guard = None) -> None:
        """Makes a group of all `mma_async` that are in no group yet.

        Emits `wgmma.commit_group.sync.aligned`.

        Example:
            ptx.wgmma.commit_group()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.7.2.
        """

    @staticmethod
    def wait_group(n: int, *, pred: Guard = None) -> None:
        """Waits until at most the `n` latest groups are not complete.

        Emits `wgmma.wait_group.sync.aligned n`.

        Example:
            ptx.wgmma.wait_group(n)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.7.3.
        """

    @staticmethod
    def mma_async(
        shape: tuple[int, int, int],
        dtype_d: PtxType,
        dtype_a: PtxType,
        dtype_b: PtxType,
        d: Registers,
        a: Reg | SharedAlloc | Registers,
        b: Reg | SharedAlloc,
        *,
        scale_d: Reg | NegPred | bool | int = False,
        scale_a: int = 1,
        scale_b: int = 1,
        trans_a: int = 0,
        trans_b: int = 0,
        a_k_offset: int = 0,
        b_k_offset: int = 0,
        satfinite: bool = False,
        metadata: Number | None = None,
        selector: int = 0,
        pred: Guard = None,
    ) -> None:
        """wgmma.mma_async{.sp}: D = A * B {+ D}.  The immediates behind the descriptors are those that the types have.

            shape: (64, n, k)
            d: the thread's part of D
            a: a descriptor, a tile of smem.wgmma_tile, or the thread's part of A in registers
            b: a descriptor or a tile of smem.wgmma_tile
            scale_d: D = A * B + D if true, else A * B: a predicate or a bool, which is written as a number
            scale_a: 1 or -1
            scale_b: 1 or -1
            trans_a: 1: A is MN-major (f16 and bf16 in shared memory)
            trans_b: 1: B is MN-major (f16 and bf16)
            a_k_offset: bytes into a tile
            b_k_offset: bytes into a tile
            satfinite: integers are clamped
            metadata: A is sparse: a b32 register that says which elements are kept
            selector: of sparse A: which threads give the metadata

        Example:
            a = smem.wgmma_tile(bf16, (64, 64), major="K")
            b = smem.wgmma_tile(bf16, (64, 64), major="MN")
            d = reg.array(f32, 32)
            ptx.wgmma.fence()
            ptx.wgmma.mma_async((64, 64, 16), f32, bf16, bf16, d, a, b, trans_b=1)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.5.2.
        """

    @staticmethod
    def make_descriptor(
        smem_base: Number,
        *,
        leading_byte_offset: int = 0,
        stride_byte_offset: int = 0,
        swizzle: int = 0,
        base_offset: int = 0,
        addr_byte_offset: int = 0,
        pred: Guard = None,
    ) -> Reg:
        """Forms the 64-bit descriptor of a matrix in shared memory.

            smem_base: a shared symbol, or a register with an address
            leading_byte_offset: a multiple of 16 up to 262128
            stride_byte_offset: a multiple of 16 up to 262128
            swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
            base_offset: 0 to 7
            addr_byte_offset: added to the address

        Example:
            result = ptx.wgmma.make_descriptor(smem_base)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.5.1.
        """

    @staticmethod
    def descriptor_bits(
        *,
        start: int = 0,
        leading_byte_offset: int = 0,
        stride_byte_offset: int = 0,
        swizzle: int = 0,
        base_offset: int = 0,
    ) -> int:
        """A descriptor without its address: the number that is joined to bits 4 to 17 of the address, as `make_descriptor` does.

            start: added to the address: a multiple of 16 up to 262128
            leading_byte_offset: a multiple of 16 up to 262128
            stride_byte_offset: a multiple of 16 up to 262128
            swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
            base_offset: 0 to 7

        Example:
            assert ptx.wgmma.descriptor_bits(leading_byte_offset=16, stride_byte_offset=1024, swizzle=1) == 0x4000004000010000

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.5.1.
        """

    @staticmethod
    def auto_descriptor(
        smem_base: Number,
        dtype: PtxType,
        shape: tuple[int, int],
        major: Literal["K", "MN", 0, 1],
        *,
        pred: Guard = None,
    ) -> Reg:
        """`make_descriptor` with the offsets and the swizzle of a tile of this shape.

            smem_base: a shared symbol, or a register with an address
            shape: (M, K), or (K, N) if MN-major
            major: the dimension whose elements lie side by side

        Example:
            result = ptx.wgmma.auto_descriptor(smem_base, dtype, shape, major)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.5.1.
        """

    @staticmethod
    def masked_descriptor(
        smem_addr: Number,
        *,
        byte_offset: int = 0,
        mask: int = 262016,
        const_bits: int = 4611686293305360384,
        pred: Guard = None,
    ) -> Reg:
        """((smem_addr + byte_offset) & mask) >> 4 | const_bits.

            smem_addr: a shared symbol, or a 32-bit register with an address
            byte_offset: added to the address
            mask: bits of the address that are kept
            const_bits: the other fields

        Example:
            result = ptx.wgmma.masked_descriptor(smem_addr)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.15.5.1.
        """

class mma:
    """Products of small matrices by a warp; each thread holds a part of each matrix in registers."""

    @staticmethod
    def sync(
        shape: tuple[int, int, int],
        dtype_d: PtxType,
        dtype_a: PtxType,
        dtype_b: PtxType,
        dtype_c: PtxType,
        d: Registers,
        a: Registers,
        b: Registers,
        c: Registers,
        *,
        a_layout: str = "row",
        b_layout: str = "col",
        kind: str | None = None,
        scale_vec: str | None = None,
        dtype_scale: PtxType | None = None,
        scale_a: Number | None = None,
        scale_b: Number | None = None,
        id_a: Registers | None = None,
        id_b: Registers | None = None,
        op: str | None = None,
        satfinite: bool = False,
        rnd: str | None = None,
        metadata: Number | None = None,
        selector: int = 0,
        ordered: bool = False,
        pred: Guard = None,
    ) -> None:
        """mma{.sp}.sync.aligned: D = A * B + C.

            shape: (m, n, k)
            d: the thread's part of D
            a: of A
            b: of B
            c: of C
            a_layout: row or col
            b_layout: row or col
            kind: kind::f8f6f4, and for scaled blocks kind::mxf8f6f4, kind::mxf4 or kind::mxf4nvf4
            scale_vec: of scaled blocks: scale_vec::1X, scale_vec::2X or scale_vec::4X
            dtype_scale: of scaled blocks: ue8m0 or ue4m3
            scale_a: of scaled blocks: a b32 register
            scale_b: of scaled blocks: a b32 register
            id_a: byte and thread selectors of scale_a, (0, 0) unless given
            id_b: byte and thread selectors of scale_b, (0, 0) unless given
            op: of b1: xor or and
            satfinite: integers are clamped
            rnd: of f64: rn, rz, rm or rp
            metadata: A is sparse: a b32 register that says which elements are kept
            selector: of sparse A: which threads give the metadata
            ordered: of sparse A: .sp::ordered_metadata

        Example:
            d, a, b = reg.array(f32, 4), reg.array(b32, 4), reg.array(b32, 2)
            ptx.mma.sync((16, 8, 16), f32, bf16, bf16, f32, d, a, b, d)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.14.
        """

class matrix:
    """Matrices of 8 to 16 rows between shared memory and the registers of a warp, as `mma.sync` holds them."""

    @staticmethod
    def ldmatrix(
        dst: Registers,
        src: Address,
        *,
        layout: str | None = None,
        trans: bool = False,
        space: str | None = "shared",
        pred: Guard = None,
    ) -> None:
        """ldmatrix.sync.aligned.m8n8: 1, 2 or 4 matrices of 8 x 8 b16.

            dst: a register a matrix
            src: the thread's row, in shared memory
            layout: the number of matrices, x1, x2 or x4, which the registers say as well
            trans: transposed
            space: shared or shared::cta; None: a generic address

        Example:
            rows, a = smem.alloc(bf16, (16, 16)), reg.array(b32, 4)
            ptx.matrix.ldmatrix(list(a), ptx.addr(rows, i * 32))

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.15.
        """

    @staticmethod
    def stmatrix(
        smem: Address,
        regs: Registers,
        *,
        layout: str | None = None,
        trans: bool = False,
        shape: str = "m8n8",
        space: str | None = "shared::cta",
        pred: Guard = None,
    ) -> None:
        """stmatrix.sync.aligned: 1, 2 or 4 matrices.

            smem: the thread's row, in shared memory
            regs: a register a matrix
            layout: the number of matrices, x1, x2 or x4, which the registers say as well
            trans: transposed
            shape: m8n8 of b16, m16n8 of b8, which is always transposed
            space: shared or shared::cta; None: a generic address

        Example:
            rows, a = smem.alloc(bf16, (16, 16)), reg.array(b32, 4)
            ptx.matrix.stmatrix(ptx.addr(rows, i * 32), list(a))

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.16.
        """

    @staticmethod
    def ldmatrix_b8(
        num: Literal["x1", "x2"],
        dst: Registers,
        src: Address,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        pred: Guard = None,
    ) -> None:
        """1 or 2 matrices of 16 x 16 b8, transposed; two registers each.

        Emits `ldmatrix.sync.aligned.m16n16.num.trans{.space}.b8 {dst}, [src]`.

        Example:
            ptx.matrix.ldmatrix_b8("x1", dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.15.
        """

    @staticmethod
    def ldmatrix_unpack(
        num: Literal["x1", "x2", "x4"],
        src_fmt: PtxType,
        dst: Registers,
        src: Address,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        pred: Guard = None,
    ) -> None:
        """1, 2 or 4 matrices of 8 x 16 numbers of 6 or 4 bits, a byte each.

        Emits `ldmatrix.sync.aligned.m8n16.num{.space}.b8x16.src_fmt {dst}, [src]`.

        Example:
            ptx.matrix.ldmatrix_unpack("x1", b6x16_p32, dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.15.
        """

    @staticmethod
    def ldmatrix_unpack_trans(
        num: Literal["x1", "x2"],
        src_fmt: PtxType,
        dst: Registers,
        src: Address,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        pred: Guard = None,
    ) -> None:
        """1 or 2 matrices of 16 x 16 numbers of 6 or 4 bits, a byte each, transposed; two registers each.

        Emits `ldmatrix.sync.aligned.m16n16.num.trans{.space}.b8x16.src_fmt {dst}, [src]`.

        Example:
            ptx.matrix.ldmatrix_unpack_trans("x1", b6x16_p32, dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.15.
        """

    @staticmethod
    def ldmatrix_s4(
        num: Literal["x1", "x2", "x4"],
        dst: Registers,
        src: Address,
        *,
        space: Literal["shared", "shared::cta"] | None = "shared",
        pred: Guard = None,
    ) -> None:
        """1, 2 or 4 matrices of 8 x 16 numbers of s4, an s8 each.

        Emits `ldmatrix.sync.aligned.m8n16.num{.space}.s8.s4 {dst}, [src]`.

        Example:
            ptx.matrix.ldmatrix_s4("x1", dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.15.
        """

    @staticmethod
    def movmatrix(dst: Reg, src: Reg, *, pred: Guard = None) -> Reg:
        """Transposes a matrix of 8 x 8 b16 in registers.

        Emits `movmatrix.sync.aligned.m8n8.trans.b16 dst, src`.

        Example:
            result = ptx.matrix.movmatrix(dst, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.17.
        """

    @staticmethod
    def stmatrix_x4_trans_f32_bf16(
        frag: Registers,
        smem_base: Number,
        lane: Reg,
        row_stride: int,
        *,
        tmp_bf16: Registers | None = None,
        tmp_pack: Registers | None = None,
        pred: Guard = None,
    ) -> None:
        """Accumulators of `wgmma` to bf16, transposed, in shared memory: conversions and a stmatrix.x4.trans a group of 8.

            frag: f32 registers, a multiple of 8
            smem_base: where the first column begins
            lane: number of the thread in the warpgroup
            row_stride: elements from column to column
            tmp_bf16: 8 b16 registers for the conversion; made unless given
            tmp_pack: 4 b32 registers for the conversion; made unless given

        Example:
            acc, columns = reg.array(f32, 32), smem.alloc(bf16, (64, 72))
            ptx.matrix.stmatrix_x4_trans_f32_bf16(list(acc), reg.from_(columns, u32), i, 72)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.14.5.16.
        """

class tcgen05:
    """The 5th generation tensor core and its memory (sm_100f, sm_110f)."""

    @staticmethod
    def alloc(
        tmem_addr: Address,
        ncols: Integer,
        *,
        exclusive: bool = False,
        cta_group: Literal[1, 2] | None = 1,
        space: Literal["shared::cta", "generic"] | None = "shared::cta",
        pred: Guard = None,
    ) -> None:
        """Allocates `ncols` columns of tensor memory, 32 to 512, a power of two, and writes their address to shared memory.

        Emits `tcgen05.alloc{.exclusive}{.cta_group}.sync.aligned{.space}.b32 [tmem_addr], ncols`.

        Example:
            ptx.tcgen05.alloc(tmem_addr, ncols)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.7.1.
        """

    @staticmethod
    def dealloc(
        taddr: Integer,
        ncols: Integer,
        *,
        exclusive: bool = False,
        cta_group: Literal[1, 2] | None = 1,
        pred: Guard = None,
    ) -> None:
        """Frees columns of tensor memory.

        Emits `tcgen05.dealloc{.exclusive}{.cta_group}.sync.aligned.b32 taddr, ncols`.

        Example:
            ptx.tcgen05.dealloc(taddr, ncols)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.7.1.
        """

    @staticmethod
    def relinquish_alloc_permit(*, cta_group: Literal[1, 2] | None = 1, pred: Guard = None) -> None:
        """The CTA will allocate no more.

        Emits `tcgen05.relinquish_alloc_permit{.cta_group}.sync.aligned`.

        Example:
            ptx.tcgen05.relinquish_alloc_permit()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.7.1.
        """

    @staticmethod
    def ld(
        dst_regs: Registers,
        taddr: Number,
        *,
        shape: Literal["16x64b", "16x128b", "16x256b", "32x32b", "16x32bx2"] = "16x128b",
        count: int = 1,
        dtype: str = "b32",
        pack: bool = False,
        split_offset: Number | None = None,
        pred: Guard = None,
    ) -> None:
        """tcgen05.ld: tensor memory to registers.  Complete after `wait_ld`.

            dst_regs: b32 registers
            taddr: an address of tensor memory, in a register
            shape: lanes and bits of a column group
            count: how often the shape is repeated: 1, 2, 4, ... 128
            dtype: b32
            pack: two 16-bit columns to a register
            split_offset: of 16x32bx2: columns to the second half

        Example:
            ptx.tcgen05.ld(dst_regs, taddr)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.8.3.
        """

    @staticmethod
    def ld_red(
        shape: Literal["32x32b", "16x32bx2"],
        num: Literal["x2", "x4", "x8", "x16", "x32", "x64", "x128"],
        op: Literal["min", "max"],
        type: PtxType,
        dst_regs: Registers,
        redval: Reg,
        taddr: Address,
        *,
        abs: bool = False,
        NaN: bool = False,
        split_offset: int | None = None,
        pred: Guard = None,
    ) -> None:
        """`ld`, and the least or greatest of each thread's numbers in the register `redval`.

        Emits `tcgen05.ld.red.sync.aligned.shape.num.op{.abs}{.NaN}.type {dst_regs}, redval, [taddr]{, split_offset}`.

        Example:
            ptx.tcgen05.ld_red("32x32b", "x2", "min", u32, dst_regs, redval, taddr)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.8.3.
        """

    @staticmethod
    def ld_spcompress(
        num: Literal["x4", "x8", "x16", "x32", "x64", "x128"],
        op: Literal["min", "max"],
        metadata: Registers,
        kept: Registers,
        taddr: Address,
        *,
        abs: bool = False,
        pred: Guard = None,
    ) -> None:
        """`ld` that keeps the two least or greatest of every 4 numbers in `kept`, with their places in `metadata` (sm_107a).

        Emits `tcgen05.ld.spcompress.sync.aligned.32x32b.num.op.sp::2:4{.abs}.f32.b2 {metadata}, {kept}, [taddr]`.

        Example:
            ptx.tcgen05.ld_spcompress("x4", "min", metadata, kept, taddr)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.8.3.
        """

    @staticmethod
    def ld_red_spcompress(
        num: Literal["x4", "x8", "x16", "x32", "x64", "x128"],
        op: Literal["min", "max"],
        metadata: Registers,
        kept: Registers,
        redval: Reg,
        taddr: Address,
        *,
        abs: bool = False,
        NaN: bool = False,
        pred: Guard = None,
    ) -> None:
        """`ld_spcompress`, and the least or greatest of each thread's numbers in the register `redval`.

        Emits `tcgen05.ld.red.spcompress.sync.aligned.32x32b.num.op.sp::2:4{.abs}{.NaN}.f32.b2 {metadata}, {kept}, redval, [taddr]`.

        Example:
            ptx.tcgen05.ld_red_spcompress("x4", "min", metadata, kept, redval, taddr)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.8.3.
        """

    @staticmethod
    def st(
        taddr: Number,
        src_regs: Registers,
        *,
        shape: Literal["16x64b", "16x128b", "16x256b", "32x32b", "16x32bx2"] = "16x128b",
        count: int = 1,
        dtype: str = "b32",
        unpack: bool = False,
        split_offset: Number | None = None,
        pred: Guard = None,
    ) -> None:
        """tcgen05.st: registers to tensor memory.  Complete after `wait_st`.

            taddr: an address of tensor memory, in a register
            src_regs: b32 registers
            shape: lanes and bits of a column group
            count: how often the shape is repeated: 1, 2, 4, ... 128
            dtype: b32
            unpack: a register to two 16-bit columns
            split_offset: of 16x32bx2: columns to the second half

        Example:
            ptx.tcgen05.st(taddr, src_regs)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.8.4.
        """

    @staticmethod
    def wait_ld(*, pred: Guard = None) -> None:
        """Waits for all `ld` of the thread.

        Emits `tcgen05.wait::ld.sync.aligned`.

        Example:
            ptx.tcgen05.wait_ld()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.8.5.
        """

    @staticmethod
    def wait_st(*, pred: Guard = None) -> None:
        """Waits for all `st` of the thread.

        Emits `tcgen05.wait::st.sync.aligned`.

        Example:
            ptx.tcgen05.wait_st()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.8.5.
        """

    @staticmethod
    def cp(
        taddr: Number,
        src: Number,
        *,
        cta_group: Literal[1, 2] = 1,
        size: Literal["128x256b", "4x256b", "128x128b", "64x128b", "32x128b"] = "128x256b",
        multicast: Literal["warpx2::02_13", "warpx2::01_23", "warpx4"] | None = None,
        src_fmt: Literal["b6x16_p32", "b4x16_p64"] | None = None,
        src_is_addr: bool = False,
        pred: Guard = None,
    ) -> None:
        """tcgen05.cp: shared memory to tensor memory.

            taddr: an address of tensor memory, in a register
            src: a descriptor of shared memory
            cta_group: CTAs that take part
            size: lanes and bits of a column group
            multicast: to which warps, of the shapes 64x128b and 32x128b
            src_fmt: numbers of 6 or 4 bits, of which bytes are made
            src_is_addr: has no meaning; pyptx 0.1.1 had it

        Example:
            ptx.tcgen05.cp(taddr, src)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.9.2.
        """

    @staticmethod
    def shift(taddr: Address, *, cta_group: Literal[1, 2] | None = 1, pred: Guard = None) -> None:
        """Moves rows of tensor memory down by one.

        Emits `tcgen05.shift{.cta_group}.down [taddr]`.

        Example:
            ptx.tcgen05.shift(taddr)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.9.3.
        """

    @staticmethod
    def mma(
        d_tmem: Number,
        a_desc: Number,
        b_desc: Number,
        idesc: Number,
        *,
        cta_group: Literal[1, 2] = 1,
        kind: Literal["f16", "tf32", "f8f6f4", "i8", "ti16", "mxf8f6f4", "mxf4", "mxf4nvf4"] = "f16",
        enable_input_d: bool = True,
        scale_d: Reg | NegPred | bool | int | None = None,
        sparse: bool = False,
        ashift: bool = False,
        collector_a: str | None = None,
        collector_b: str | None = None,
        b_metadata: Number | None = None,
        a_is_tmem: bool = False,
        sparse_metadata: Number | None = None,
        pred_operand: Reg | NegPred | bool | int | None = None,
        scale_c: Number | None = None,
        scale_vec_a: Number | None = None,
        scale_vec_b: Number | None = None,
        scale_vectorsize: Literal["scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"] | None = None,
        disable_output_lane: Number | None = None,
        lane_mask: bool = True,
        pred: Guard = None,
    ) -> None:
        """tcgen05.mma{.sp}: D = A * B {+ D}.

            d_tmem: D's address in tensor memory, in a b32 register
            a_desc: A's descriptor, or with `a_is_tmem` its address
            b_desc: B's descriptor
            idesc: the instruction descriptor
            cta_group: CTAs that take part
            kind: types of A and B
            enable_input_d: D = A * B + D if true, else A * B, unless `scale_d` or `pred_operand` says so
            scale_d: the same by a register or number
            sparse: A is sparse
            ashift: rows of A are shifted down by one
            collector_a: what happens with the buffer of A: fill, use, lastuse or discard
            collector_b: sm_107f: the same, of B
            b_metadata: sm_107f: B is 3-bit indices (decompress::lut::b); the address of their tables in tensor memory
            a_is_tmem: A lies in tensor memory
            sparse_metadata: of sparse A: an address of tensor memory
            pred_operand: the same as `scale_d`; goes before it
            scale_c: D is scaled by 2^-scale_c: 0 to 15
            scale_vec_a: of the mx kinds: the address of A's scales in tensor memory
            scale_vec_b: of the mx kinds: the address of B's scales in tensor memory
            scale_vectorsize: of the mx kinds: elements to a scale
            disable_output_lane: a {..} of 4 registers, 8 for two CTAs: a bit a lane of D that is not written
            lane_mask: False: no operand disables lanes; else, where none is given and PTX 8.8 or later is written, zeros do

        Example:
            ptx.tcgen05.mma(d_tmem, a_desc, b_desc, idesc)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.10.9.1.
        """

    @staticmethod
    def mma_ws(
        d_tmem: Number,
        a_desc: Number,
        b_desc: Number,
        idesc: Number,
        *,
        kind: Literal["f16", "tf32", "f8f6f4", "i8", "ti16"] = "f16",
        scale_d: Reg | NegPred | bool | int = True,
        a_is_tmem: bool = False,
        sparse_metadata: Number | None = None,
        collector_usage: Literal["collector::b0::fill", "collector::b0::use", "collector::b0::lastuse", "collector::b0::discard", "collector::b1::fill", "collector::b1::use", "collector::b1::lastuse", "collector::b1::discard", "collector::b2::fill", "collector::b2::use", "collector::b2::lastuse", "collector::b2::discard", "collector::b3::fill", "collector::b3::use", "collector::b3::lastuse", "collector::b3::discard"] | None = None,
        zero_column_mask: Number | None = None,
        pred: Guard = None,
    ) -> None:
        """tcgen05.mma.ws{.sp}: D = A * B {+ D}; the weights B stay in a buffer.

            d_tmem: D's address in tensor memory, in a b32 register
            a_desc: A's descriptor, or with `a_is_tmem` its address
            b_desc: B's descriptor
            idesc: the instruction descriptor
            kind: types of A and B
            scale_d: D = A * B + D if true, else A * B: a predicate or a number
            a_is_tmem: A lies in tensor memory
            sparse_metadata: A is sparse: an address of tensor memory
            collector_usage: what happens with a buffer of B
            zero_column_mask: a 64-bit register: columns of B that are zero

        Example:
            ptx.tcgen05.mma_ws(d_tmem, a_desc, b_desc, idesc)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.10.9.3.
        """

    @staticmethod
    def fence_before_thread_sync(*, pred: Guard = None) -> None:
        """Orders earlier tcgen05 instructions before what synchronises threads next.

        Emits `tcgen05.fence::before_thread_sync`.

        Example:
            ptx.tcgen05.fence_before_thread_sync()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.11.1.
        """

    @staticmethod
    def fence_after_thread_sync(*, pred: Guard = None) -> None:
        """Orders later tcgen05 instructions behind what synchronised threads.

        Emits `tcgen05.fence::after_thread_sync`.

        Example:
            ptx.tcgen05.fence_after_thread_sync()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.11.1.
        """

    @staticmethod
    def commit(
        mbar: Address,
        *,
        cta_group: Literal[1, 2] = 1,
        multicast: bool = False,
        multicast_mask: Number | None = None,
        multicast_mask_32b: Number | None = None,
        a_read: bool = False,
        space: str | None = "cluster",
        pred: Guard = None,
    ) -> None:
        """tcgen05.commit: arrives at `mbar` when the thread's earlier mma, cp and shift are complete.

            mbar: the mbarrier object
            cta_group: CTAs that take part
            multicast: needs `multicast_mask`
            multicast_mask: the CTAs of the cluster at whose barrier of this offset it arrives
            multicast_mask_32b: sm_107f: the same, of clusters of up to 32 CTAs
            a_read: sm_107f: arrives when the mma have read A from shared memory
            space: cluster or shared::cluster; None: a generic address

        Example:
            ptx.tcgen05.commit(mbar)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.12.1.
        """

    @staticmethod
    def instruction_descriptor(
        *,
        m: int = 128,
        n: int = 256,
        a_dtype: PtxType = ...,
        b_dtype: PtxType | None = None,
        d_dtype: PtxType = ...,
        a_major: Literal["K", "MN", 0, 1] = "K",
        b_major: Literal["K", "MN", 0, 1] = "K",
        scale_a: int = 1,
        scale_b: int = 1,
        saturate: bool = False,
        sparse: bool = False,
        selector: int = 0,
        max_shift: int = 0,
        scale_dtype: PtxType | None = None,
        mxf8f6f4: bool = False,
        scale_a_id: int = 0,
        scale_b_id: int = 0,
        k96: bool = False,
    ) -> int:
        """The 32 bits of an instruction descriptor, for every kind.

            m: 64, 128 or 256; 32 with mma_ws
            n: a multiple of 8 up to 256
            a_dtype: the kind follows from it
            b_dtype: a_dtype unless given
            d_dtype: f32, f16 or s32
            scale_a: 1 or -1
            scale_b: 1 or -1
            saturate: integers are clamped
            sparse: A is sparse
            selector: of sparse A: 0 to 3
            max_shift: of mma_ws: 0 to 3
            scale_dtype: ue8m0 or ue4m3: scaled blocks; e2m1 is then of kind mxf4 or mxf4nvf4 unless `mxf8f6f4`
            mxf8f6f4: of scaled e2m1: of the kind mxf8f6f4
            scale_a_id: of scaled blocks: 0 to 3
            scale_b_id: of scaled blocks: 0 to 3
            k96: of mxf4 and mxf4nvf4: K is 96

        Example:
            result = ptx.tcgen05.instruction_descriptor()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.4.2.
        """

    @staticmethod
    def make_instr_desc_f16bf16_f32(
        *,
        m: int = 128,
        n: int = 256,
        ab_dtype: str = "bf16",
        a_major: Literal["K", "MN", 0, 1] = "K",
        b_major: Literal["K", "MN", 0, 1] = "K",
        scale_a: int = 1,
        scale_b: int = 1,
        saturate: bool = False,
        sparse: bool = False,
        max_shift: int = 0,
    ) -> int:
        """`instruction_descriptor` of f16, bf16 or tf32 into f32, under the name that pyptx 0.1.1 gave it.

            m: 64, 128 or 256
            n: a multiple of 8 up to 256
            ab_dtype: bf16, f16 or tf32
            scale_a: 1 or -1
            scale_b: 1 or -1
            sparse: A is sparse
            max_shift: of mma_ws: 0 to 3

        Example:
            result = ptx.tcgen05.make_instr_desc_f16bf16_f32()

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.4.2.
        """

    @staticmethod
    def descriptor(
        smem_addr: Number,
        *,
        byte_offset: int = 0,
        stride_bytes: int = 1024,
        leading_bytes: int = 16,
        swizzle: str = "128B",
        version: int = 1,
        base_offset: int = 0,
        lbo_mode: int = 0,
        pred: Guard = None,
    ) -> Reg:
        """Forms the 64-bit descriptor of a matrix in shared memory.

            smem_addr: a shared symbol, or a 32-bit register with an address
            byte_offset: added to the address
            stride_bytes: a multiple of 16 up to 262128
            leading_bytes: a multiple of 16 up to 262128
            swizzle: NONE, 32B, 64B, 128B or 128B_BASE32B
            version: 1
            base_offset: 0 to 7
            lbo_mode: 1: the leading offset is an address (sm_103a)

        Example:
            result = ptx.tcgen05.descriptor(smem_addr)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.4.1.
        """

    @staticmethod
    def descriptor_bits(
        *,
        start: int = 0,
        stride_bytes: int = 1024,
        leading_bytes: int = 16,
        swizzle: str = "128B",
        version: int = 1,
        base_offset: int = 0,
        lbo_mode: int = 0,
    ) -> int:
        """A descriptor without its address: the number that is joined to bits 4 to 17 of the address, as `descriptor` does.

            start: added to the address: a multiple of 16 up to 262128
            stride_bytes: a multiple of 16 up to 262128
            leading_bytes: a multiple of 16 up to 262128
            swizzle: NONE, 32B, 64B, 128B or 128B_BASE32B
            version: 1
            base_offset: 0 to 7
            lbo_mode: 1: the leading offset is an address (sm_103a)

        Example:
            assert ptx.tcgen05.descriptor_bits(swizzle="128B") == 0x4000404000010000

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.4.1.
        """

    @staticmethod
    def masked_descriptor(
        smem_addr: Number,
        *,
        byte_offset: int = 0,
        mask: int = 262128,
        const_bits: int = 4611756662049538048,
        pred: Guard = None,
    ) -> Reg:
        """((smem_addr + byte_offset) & mask) >> 4 | const_bits.

            smem_addr: a shared symbol, or a 32-bit register with an address
            byte_offset: added to the address
            mask: bits of the address that are kept
            const_bits: the other fields

        Example:
            result = ptx.tcgen05.masked_descriptor(smem_addr)

        An argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at this line.
        PTX ISA 9.7.16.4.1.
        """

def families() -> list:
    """
    Each family: its name, what it is, and its functions: name, signature, docstring, section.
    """

def use_nvtx(on: bool) -> bool:
    """
    Whether each call of a kernel is an NVTX range from now on; what held before
    """

def uses_nvtx() -> bool: ...

def replay(text: str, record: bytes, inputs: Sequence[tuple[str, Sequence[int], Sequence[int], bytes]], outputs: Sequence[tuple[str, Sequence[int], Sequence[int], bytes]], scalars: list) -> list:
    """
    Runs a launch on the simulator: arrays are (element, shape, strides, bytes); no outputs: they are made. Returns the bytes of all of them afterwards
    """

def run_text(text: bytes, file: str, entry: str, grid: tuple[int, int, int], block: tuple[int, int, int], cluster: tuple[int, int, int], dynamic_shared: int, arguments: list) -> list[str]:
    """
    Runs an .entry of PTX text on the simulator; buffers (writable objects) hold what it wrote afterwards. A list is a struct: its bits and buffers, one behind the other. Returns the names of the parameters
    """

class SimulatorStop:
    @property
    def site(self) -> tuple: ...

    @property
    def entry(self) -> str: ...

    @property
    def warp(self) -> int: ...

    @property
    def lanes(self) -> int: ...

    def registers(self) -> list: ...

    def shared(self) -> list: ...

    def mbarriers(self) -> list: ...

    def warps(self) -> list: ...

class SimulatorRecording:
    """What runs of the simulator leave behind; `pyptx.simulator(...)` has it"""

    def __init__(self, *, lines: bool = False, trace: bool = False, writers: bool = False, launches: bool = False, raises: bool = True) -> None: ...

    def reports(self) -> list: ...

    def prints(self) -> list: ...

    def counts(self) -> list: ...

    def totals(self) -> tuple: ...

    def trace_json(self) -> str: ...

    def writer(self, address: int) -> object: ...

    def stop_soon(self) -> None: ...

    def set_stops(self, breakpoints: Sequence[tuple[str, int]], at_once: bool, function: object | None) -> None: ...

def explore(recording: SimulatorRecording, schedules: int, compare: bool) -> object: ...

def simulator_options() -> tuple:
    """
    (cores, budget, seed, uninitialised, schedule, checks, heap) of the simulator
    """

def use_simulator_options(cores: int, budget: int, seed: int, uninitialised: bool, schedule: int, checks: str, heap: int) -> None: ...

def use_simulator_recording(recording: SimulatorRecording | None) -> SimulatorRecording | None:
    """From now on runs leave in it what they find; returns the one before"""

def simulator_statistics() -> tuple:
    """
    (instructions of warps, instructions of threads) of the calling thread's last run
    """

class Tree:
    """A lossless tree of PTX text; `diagnostics` say where it is no PTX"""

    @property
    def diagnostics(self) -> list[Diagnostic]: ...

    def __bytes__(self) -> bytes: ...

    def emit(self) -> str:
        """Its module as the library writes one."""

    def format(self, *, comments: bool = True, blank_lines: bool = True) -> bytes:
        """Its text in the layout of `pyptx fmt`."""

    def nodes(self) -> bytes:
        """
        Four unsigned numbers of 32 bits a node: kind, bytes [begin, end), node behind its subtree.
        """

    def highlight(self) -> bytes:
        """
        Three unsigned numbers of 32 bits a piece that has a colour: kind, bytes [begin, end).
        """

    def tokens(self) -> bytes:
        """Two unsigned numbers of 32 bits a token: bytes [begin, end)."""

    def __len__(self) -> int: ...

def highlight_kinds() -> list[str]: ...

def node_kinds() -> list[str]: ...

def parse(text: bytes, file: str = '') -> Tree: ...

def check_text(text: bytes, file: str = '', target: str | None = None, lint: bool = False) -> list[Diagnostic]: ...

class Analysis:
    """What follows from a text; functions, statements and blocks by index"""

    def __init__(self, text: bytes, file: str = '') -> None: ...

    @property
    def diagnostics(self) -> list[Diagnostic]: ...

    def functions(self) -> list[tuple[str, int]]: ...

    def statements(self, function: int) -> list[int]: ...

    def blocks(self, function: int) -> list[tuple[int, int, bool]]: ...

    def edges(self, function: int) -> list[tuple[int, int, str, int]]: ...

    def tree_of(self, function: int) -> list[tuple[int | None, int | None, int | None, bool]]: ...

    def loops(self, function: int) -> list[tuple[int, list[int], int | None]]: ...

    def loop_blocks(self, function: int, loop: int) -> list[int]: ...

    def registers(self, function: int) -> list[tuple[str, int]]: ...

    def accesses(self, function: int, statement: int) -> list[tuple[int, bool, bool, bool]]: ...

    def uses(self, function: int) -> list[tuple[int, list[int], list[int]]]: ...

    def live(self, function: int, statement: int) -> list[int]: ...

    def live_in(self, function: int, block: int) -> list[int]: ...

    def pressures(self, function: int) -> list[tuple[int, int, int, int, int]]: ...

    def types(self, function: int, statement: int) -> dict[str, str]: ...

    def form(self, function: int, statement: int) -> tuple[str, str]: ...

def lint_text(text: bytes, file: str, rules: Sequence[int]) -> list[tuple[int, str, str, int, int, int, int, str, str, list[tuple[int, int, str]]]]: ...

def lint_fix(text: bytes, rules: Sequence[int]) -> bytes: ...

def lint_rules() -> list[tuple[int, str, str, bool, bool, str]]: ...

def module_text_of(text: bytes, entry: str = '') -> str:
    """
    A text's module as the library writes it; of its kernels the entry alone, if one is named.
    """

def module_difference(a: bytes, b: bytes) -> str:
    """
    Where two texts' modules differ in more than names of registers and labels; "": nowhere.
    """

def transpile(text: bytes, file: str = '', cpp: bool = False, sugar: int = 0, name: str = '', entry: str = '', arguments: Sequence[tuple[str, str, Sequence[str], bool, Sequence[str], str]] = [], grid: str = '', block: str = '', launch: bool = False) -> str:
    """The source, in Python or C++, of a text's module."""
