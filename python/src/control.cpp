// Control flow, parameters and declarations of pyptx.ptx and pyptx.reg.
#include "ptx/author/control.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <functional>

#include "ptx/author/expression.h"
#include "ptx/author/print.h"
#include "ptx/author/shared.h"
#include "ptx/ir/lower.h"
#include "ptx/isa/spelling.h"
#include "python/src/shared.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

// A `with` block: what stands at its start and at its end. An exception inside leaves the end out: the trace is lost
// anyhow.
struct Block {
  std::function<void(author::Builder&)> begin, end;
  std::uint32_t open = ir::no_id;  // for leave() and again()
};

nb::object enter_block(nb::object self) {
  auto& block = nb::cast<Block&>(self);
  author::Builder& builder = active();
  if (!block.begin) return self;
  block.begin(builder);
  block.open = author::open_block(builder);
  return self;
}

Block if_block(nb::object predicate) {
  return {[predicate](author::Builder& builder) {
            if (const auto* negated = as_not(predicate))
              author::begin_if(builder, *negated);
            else if (const auto* pair = as_pair(predicate))
              author::begin_if(builder, author::either(*pair));
            else
              author::begin_if(builder, reg_argument(predicate, "the condition of ptx.if_"));
          },
          author::end_if};
}

Block loop_block(std::string label, nb::object predicate) {
  return {[label = std::move(label), predicate](author::Builder& builder) {
            author::begin_loop(builder, label, guard(predicate, builder));
          },
          author::end_loop};
}

// `for k in ptx.range_(...)`: the body runs once; the end of the loop is written when Python asks for a second turn.
struct Range {
  nb::object start, stop, step, type;
  int turns = 0;
};

nb::object next(Range& range) {
  author::Builder& builder = active();
  if (range.turns++ == 0) {
    const isa::Type type = range.type.is_none() ? isa::Type::none : type_argument(range.type);
    const Returning here(builder, by::loop);
    return make(author::begin_range(builder, operand(range.start, builder), operand(range.stop, builder),
                                    operand(range.step, builder), type));
  }
  if (range.turns == 2) author::end_range(builder);
  throw nb::stop_iteration();
}

Range range(nb::object start, nb::object stop, nb::object step, nb::object type) {
  if (stop.is_none()) return {nb::int_(0), std::move(start), std::move(step), std::move(type)};
  return {std::move(start), std::move(stop), std::move(step), std::move(type)};
}

nb::object param(nb::handle type, const std::string& name, nb::object into) {
  author::Builder& builder = active();
  static const By by("param");
  const Returning here(builder, by);
  std::optional<author::Reg> destination;
  if (!into.is_none()) destination = reg_argument(into, "dst=");
  return make(builder.param(type_argument(type), name, destination));
}

nb::tuple global_pointers(nb::args tensors) {
  author::Builder& builder = active();
  std::vector<std::string> names;
  for (nb::handle tensor : tensors) names.push_back(name_argument(tensor));
  static const By by("global_ptrs");
  const Returning here(builder, by);
  return nb::borrow<nb::tuple>(make_all(builder.global_pointers(names)));
}

nb::object address_of(nb::handle base, nb::object offset) {
  Traced& builder = active();
  static const By by("(addr");
  if (const auto* reg = as_reg(base)) builder.use(*reg, by, 0);
  if (const auto* reg = as_reg(offset)) builder.use(*reg, by, 1);
  const auto* element = as_compound(base);  // table[i], which is an address
  if (element && offset.is_none() &&
      (element->literal != author::Operand::Literal::none || element->ir.kind == ir::Operand::Kind::element))
    return make(*element);
  const author::Address start = address(base, builder);
  if (offset.is_none()) return make(start);
  if (const auto* reg = as_reg(offset)) {
    refuse_tensor(base, builder);
    return make(builder.address(start, *reg));
  }
  const author::Operand bytes = operand(offset, builder);
  if (!bytes.is_integer()) throw WrongKind(cat("an offset is an int or a register, not ", shown(offset)));
  if (const author::Shared* shared = as_shared(base)) return make(author::address_at(*shared, bytes.ir.value));
  return make(start + bytes.ir.value);
}

nb::object bracket(nb::handle base, const nb::args& more) {
  author::Builder& builder = active();
  refuse_tensor(base, builder);
  const author::Address start = address(base, builder);
  std::vector<author::Operand> parts{author::Operand(start.base)};
  for (nb::handle part : more) parts.push_back(operand(part, builder));
  author::Operand made = builder.bracket(parts);
  made.ir.value = start.offset;
  return make(made);
}

// One size, None for [], or a sequence of them.
std::vector<std::int64_t> sizes_of(nb::handle size) {
  if (is_index(size)) return {nb::cast<std::int64_t>(size)};
  std::vector<std::int64_t> dims;
  for (nb::handle dim : size) dims.push_back(dim.is_none() ? -1 : nb::cast<std::int64_t>(dim));
  return dims;
}

std::string variable(const std::string& space, nb::handle type, const std::string& name, nb::object size,
                     std::optional<std::uint32_t> align, std::optional<std::string> linking, int vector,
                     std::optional<std::int32_t> count, std::optional<std::string> attributes,
                     std::optional<std::string> init) {
  author::Builder& builder = active();
  const std::string spelled = isa::from_python(space);
  const auto found = isa::space_named(spelled);
  if (!found) builder.refuse(Code::bad_argument, cat("there is no state space .", spelled));
  ir::Variable declared;
  declared.space = *found;
  if (PyUnicode_Check(type.ptr()) && ir::is_opaque(text_of(type)))
    declared.opaque = text_of(type);
  else
    declared.type = type_argument(type);
  declared.name = Name(name);
  if (!size.is_none()) declared.dims = sizes_of(size);
  declared.alignment = align.value_or(0);
  declared.linking = linking.value_or("");
  declared.vector = static_cast<std::uint8_t>(vector);
  declared.count = count.value_or(-1);
  declared.attributes = attributes.value_or("");
  declared.initializer = init.value_or("");
  const bool in_module = *found == isa::Space::global || *found == isa::Space::const_ || !declared.linking.empty();
  builder.variable(std::move(declared), in_module && !builder.options().as_written);
  return name;
}

// An f-string has the name of a register where its value is meant.
void refuse_names(author::Builder& builder, const std::string& format) {
  if (format.find("Reg(%") != format.npos)
    builder.refuse(Code::bad_argument,
                   cat('`', format,
                       "` has the name of a register in it, as f\"{x}\" writes it: write {} there, without the "
                       "f, and give the register behind the text"));
}

void print(const std::string& format, const nb::args& values, nb::object pred) {
  author::Builder& builder = active();
  refuse_names(builder, format);
  author::print(builder, format, operands(values, builder), guard(pred, builder));
}

void check(nb::object holds, const std::string& message, const nb::args& values) {
  author::Builder& builder = active();
  if (!as_reg(holds) && !as_not(holds) && !as_pair(holds))
    throw WrongKind(cat("ptx.check needs a predicate, not ", shown(holds)));
  refuse_names(builder, message);
  author::check(builder, guard(holds, builder), message, operands(values, builder));
}

void init_print(nb::module_& m) {
  m.def(
      "print", print, nb::arg("format"), nb::arg("values"), nb::kw_only(), nb::arg("pred") = nb::none(),
      R"(Prints a line in each thread: `format` with a value for each {}.  Call of vprintf, on the simulator and on a GPU.

`{:spec}` is a conversion of printf without its %: {:08x}, {:.3f}; {{ and }} are braces.  Values are registers of any type,
special registers, symbols and numbers.  Without a spec .b registers are hexadecimal, packed halves (low, high).  What it
writes: conversions to 32 or 64 bits, stores to a local buffer, a `call`; with `pred=` a branch around them.  The simulator
puts the author's line and the thread in front.

Example:
    ptx.print("x = {}, bits {:08x}", x, i, pred=i == 0))");
  m.def("check", check, nb::arg("pred"), nb::arg("message"), nb::arg("values"),
        nb::sig("def check(pred: Reg | NegPred | PipeRef, message: str, *values: Number) -> None"),
        R"(An assertion: threads whose predicate is false print the author's line with `message`, and trap.

`message` is a format as of `ptx.print`.  On the simulator the launch ends with a report at this line (PTX5034), on a GPU with
an error of the launch, after the message.

Example:
    ptx.check(i < 1000, "i = {} is too large", i))");
}

void init_blocks(nb::module_& m) {
  nb::class_<Block>(m, "Block")
      .def("__enter__", enter_block, nb::sig("def __enter__(self) -> Block"))
      .def("__bool__",
           [](const Block&) -> bool {
             throw WrongKind("a block is neither true nor false: write `with`, and not Python's `if` or `while`");
           })
      .def(
          "__exit__",
          [](const Block& block, nb::handle type, nb::handle, nb::handle) {
            if (type.is_none() && block.end) block.end(active());
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none())
      .def(
          "leave",
          [](const Block& block, nb::object predicate, bool uniform) {
            author::Builder& b = active();
            author::leave(b, block.open, guard(predicate, b), uniform);
          },
          nb::arg("pred") = nb::none(), nb::kw_only(), nb::arg("uniform") = false,
          R"(Inside a `block` or `loop`: @pred bra to the place behind it.  `uniform`: bra.uni.

Example:
    with ptx.block() as part:
        part.leave(x > n)
        x += 1)")
      .def(
          "enter", [](const Block& block) { author::enter(active(), block.open); },
          R"(Inside a `block` that is late: its first turn begins here.

Example:
    with ptx.block("next", late=True) as part:
        x += 1
        part.enter()
        part.again(x < n))")
      .def(
          "again",
          [](const Block& block, nb::object predicate, bool uniform) {
            author::Builder& b = active();
            author::again(b, block.open, guard(predicate, b), uniform);
          },
          nb::arg("pred") = nb::none(), nb::kw_only(), nb::arg("uniform") = false,
          R"(Inside a `loop`, or a `block` with a label: @pred bra to its beginning.  `uniform`: bra.uni.

Example:
    with ptx.loop("again") as loop:
        x += 1
        loop.again(x < 4)
        x += 2
        ptx.loop_while(x < n))");
  m.def(
      "block",
      [](std::string label, bool late, bool uniform) {
        return Block{[=](author::Builder& b) { author::begin_block(b, {label, late, uniform}); }, author::end_block};
      },
      nb::arg("label") = "", nb::kw_only(), nb::arg("late") = false, nb::arg("uniform") = false,
      R"(A part of the body that its `leave` ends, and, with a label, its `again` begins anew.

It writes nothing but the label in front, if it is given one, and a label behind, if it is left.  `late`: its first turn
begins where its `enter` says, by a bra in front, which `uniform` makes bra.uni.

Example:
    with ptx.block() as part:
        part.leave(x > n)
        x += 1)");
}

void init_branches(nb::module_& m) {
  m.def("if_", if_block, nb::arg("pred"),
        R"(The body runs in the threads whose predicate is true: `with` this, not Python's `if`.

Example:
    with ptx.if_(i < n):
        x += 1)");
  m.def(
      "else_", [] { return Block{author::begin_else, author::end_else}; },
      R"(The other threads of the if_ block just before.

Example:
    with ptx.if_(i < n):
        x += 1
    with ptx.else_():
        x += 2)");
  m.def(
      "when",
      [](nb::object predicate, bool uniform) {
        return Block{[predicate, uniform](author::Builder& b) { author::begin_when(b, guard(predicate, b), uniform); },
                     author::end_when};
      },
      nb::arg("pred"), nb::kw_only(), nb::arg("uniform") = false,
      R"(`if_` with one branch and one label, as compilers write it: @!p bra L; body L:.  `uniform`: bra.uni.

Example:
    with ptx.when(i < n):
        x += 1)");
  m.def(
      "otherwise",
      [](bool uniform) {
        return Block{[uniform](author::Builder& b) { author::begin_otherwise(b, uniform); }, author::end_otherwise};
      },
      nb::kw_only(), nb::arg("uniform") = false,
      R"(The other threads of the when block just before, which then ends in a branch.  `uniform`: that is bra.uni.

Example:
    with ptx.when(i < n):
        x += 1
    with ptx.otherwise():
        x += 2)");
  m.def(
      "switch",
      [](nb::object index, std::optional<std::uint32_t> count, nb::object otherwise, bool uniform) {
        return Block{[=](author::Builder& b) {
                       author::begin_switch(b, reg_argument(index, "the index of ptx.switch"),
                                            {guard(otherwise, b), count.value_or(0), uniform});
                     },
                     author::end_switch};
      },
      nb::arg("index"), nb::kw_only(), nb::arg("count") = nb::none(), nb::arg("default") = nb::none(),
      nb::arg("uniform") = false,
      R"(A table of targets: t: .branchtargets ...; brx.idx index, t;  Inside, each target is a block of `case`.

Targets that no case has are the default, or without one the end; the table has `count`, or as many as the cases say.  The
hardware does not look whether `index` is one of them: `default` is a predicate whose threads go to the default at once.
`uniform`: brx.idx.uni.

Example:
    with ptx.switch(i, default=i > 2):
        with ptx.case(0, 2):
            x += 1
        with ptx.case(default=True):
            x += 2)");
  m.def(
      "case",
      [](const nb::args& indices, bool otherwise, bool falls, bool uniform) {
        std::vector<std::uint32_t> all;
        for (nb::handle index : indices) {
          if (!nb::try_cast(index, all.emplace_back()))
            throw WrongKind(cat("ptx.case takes numbers of targets, from 0, not ", shown(index)));
        }
        return Block{[=](author::Builder& b) { author::begin_case(b, all, {otherwise, falls, uniform}); },
                     author::end_case};
      },
      nb::arg("indices"), nb::kw_only(), nb::arg("default") = false, nb::arg("falls") = false,
      nb::arg("uniform") = false,
      nb::sig("def case(*indices: int, default: bool = False, falls: bool = False, uniform: bool = False) -> Block"),
      R"(Inside `switch`, what threads of these indices do, then a branch behind the switch: `uniform` makes it bra.uni, and
with `falls` there is none, so that they go on in the next case.

Example:
    with ptx.switch(i):
        with ptx.case(0, falls=True):
            x += 1
        with ptx.case(1):
            x += 2)");
}

void init_loops(nb::module_& m) {
  m.def(
      "loop_while",
      [](nb::object predicate, bool uniform) {
        author::Builder& b = active();
        author::loop_while(b, guard(predicate, b), uniform);
      },
      nb::arg("pred") = nb::none(), nb::kw_only(), nb::arg("uniform") = false,
      R"(Inside `loop`, its predicate: the loop ends in @pred bra, which None makes bra, and `uniform` bra.uni.

Example:
    with ptx.loop("again"):
        x += 1
        ptx.loop_while(x < n))");
  m.def(
      "loop", loop_block, nb::arg("label"), nb::kw_only(), nb::arg("pred") = nb::none(),
      R"(label: body @pred bra label.  The predicate is asked after the body; without one the loop has no end of its own.

Example:
    more = reg.scalar(pred)
    with ptx.loop("again", pred=more):
        x += 1
        ptx.inst.setp.lt.u32(more, x, n))");
  m.def(
      "scope",
      [] { return Block{[](author::Builder& b) { b.open_scope(); }, [](author::Builder& b) { b.close_scope(); }}; },
      R"({ }: registers and labels declared inside are local to it.

Example:
    with ptx.scope():
        t = reg.scalar(u32, init=1)
        ptx.inst.add.u32(x, x, t))");
  m.def("expr", [] { return Block{}; }, R"(Groups the instructions of an expression for the reader; changes no text.

Example:
    with ptx.expr():
        y = (x + 1) * 2)");
  m.def("intrinsic_scope", [](std::string text) {
    return Block{[text](author::Builder& b) { author::begin_intrinsic(b, text); }, author::end_intrinsic};
  });
  nb::class_<Range>(m, "Range")
      .def("__iter__", [](nb::object self) { return self; })
      .def("__next__", next)
      .def("__enter__",
           [](const Range&) -> nb::object {
             throw WrongKind("range_ is a loop and no block: write `for i in ptx.range_(...):`");
           })
      .def(
          "__exit__", [](const Range&, nb::handle, nb::handle, nb::handle) {}, nb::arg().none(), nb::arg().none(),
          nb::arg().none());
  m.def("range_", range, nb::arg("start"), nb::arg("stop") = nb::none(), nb::arg("step") = 1, nb::kw_only(),
        nb::arg("dtype") = nb::none(),
        R"(for k in range_(start, stop, step): a loop on the GPU.  The Python body runs once and writes it.

Bounds and step are numbers or registers.  `k` is a register, s32 unless `dtype` or a bound's type says otherwise.  What the
body changes from turn to turn it changes in place: `total += k`, not `total = total + k`.

Example:
    total = reg.scalar(u32, init=0)
    for k in ptx.range_(i, n, 32):
        total += k)");
  m.def(
      "kloop",
      [](nb::handle total, std::uint32_t unroll, nb::object body, const std::string& label) {
        author::Builder& builder = active();
        author::kloop(builder, operand(total, builder), unroll, [&] { body(); }, label);
      },
      nb::arg("total"), nb::kw_only(), nb::arg("unroll"), nb::arg("body"), nb::arg("loop_label") = "kloop",
      R"(`body` total times, `unroll` a turn; the rest as a ladder of ifs.

Example:
    def step():
        ptx.inst.add.u32(x, x, 3)

    ptx.kloop(n, unroll=4, body=step))");
}

void init_places(nb::module_& m) {
  m.def(
      "label", [](const std::string& name) { author::label(active(), name); }, nb::arg("name"),
      R"(name: a place that `bra` names.  One of a name in a block; `ptx.scope()` makes names local.

Example:
    ptx.label("again")
    x += 1
    ptx.bra("again", pred=x < n))");
  m.def(
      "bra",
      [](const std::string& label, nb::object predicate) {
        author::Builder& builder = active();
        author::bra(builder, label, guard(predicate, builder));
      },
      nb::arg("label"), nb::kw_only(), nb::arg("pred") = nb::none(),
      R"(@pred bra label: goes on at a label, which may stand further down.

Example:
    ptx.bra("done", pred=i >= n)
    x += 1
    ptx.label("done"))");
  m.def("fresh_label", [](const std::string& prefix) { return active().fresh_label(prefix); }, nb::arg("prefix") = "L");
  m.def("comment", [](const std::string& text) { active().comment(text); });
  m.def("directive", [](const std::string& text) { active().directive(text); });
  m.def(
      "loc",
      [](std::uint32_t file, std::uint32_t line, std::uint32_t column, const std::string& inlined) {
        active().location(file, line, column, inlined);
      },
      nb::arg("file"), nb::arg("line"), nb::arg("col") = 0, nb::arg("inlined") = "",
      R"(.loc file line col: the place in a source that the next instruction belongs to; `ptx.file_` gives the file its number.
`inlined` is what follows in PTX, ", function_name f, inlined_at 1 20 5".

Example:
    ptx.file_(1, "model.py")
    ptx.loc(1, 12))");
  m.def(
      "file_", [](std::uint32_t index, const std::string& name) { active().file(index, name); }, nb::arg("idx"),
      nb::arg("filename"), R"(.file idx "filename"

Example:
    ptx.file_(1, "model.py"))");
}

void init_addresses(nb::module_& m) {
  m.def(
      "var", variable, nb::arg("state_space"), nb::arg("dtype"), nb::arg("name"), nb::kw_only(),
      nb::arg("size") = nb::none(), nb::arg("align") = nb::none(), nb::arg("linking") = nb::none(),
      nb::arg("vector") = 1, nb::arg("count") = nb::none(), nb::arg("attributes") = nb::none(),
      nb::arg("init") = nb::none(),
      nb::sig("def var(state_space: str, dtype: PtxType | str, name: str, *, size: int | Sequence[int | None] | None = "
              "None, "
              "align: int | None = None, linking: str | None = None, vector: int = 1, count: int | None = None, "
              "attributes: str | None = None, init: str | None = None) -> str"),
      R"(Declares a variable of a state space; returns its name.  `size` makes it an array, of several dimensions where it is a
sequence; `vector` is 2 or 4 for .v2 and .v4, `count` declares name0, name1, ... (name<count>). `attributes` and `init`
are as PTX has them in .attribute(...) and behind the =.

Example:
    ptx.var("local", u32, "scratch", size=4)
    ptx.inst.st.local.u32(ptx.addr("scratch", 8), x))");
  m.def(
      "param", param, nb::arg("dtype"), nb::arg("name"), nb::arg("dst") = nb::none(),
      R"(The value of a scalar parameter (`raw_params` of @kernel), or the address of an array parameter: one ld.param.

Example:
    @kernel(raw_params=[("u32", "n"), ("f32", "alpha")])
    def k():
        n = ptx.param(u32, "n")           # ld.param.u32 %r0, [n];
        alpha = ptx.param(f32, "alpha")
        ptx.ret()

    k.ptx())");
  m.def(
      "global_ptrs", global_pointers,
      R"(The global addresses of tensors, in 64-bit registers, as a tuple: ld.param.u64 and cvta.to.global.u64 of each.

Example:
    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),))
    def k(X, Y):
        px, py = ptx.global_ptrs(X, Y)
        ptx.ret()

    k.ptx(N=32))");
  m.def(
      "addr", address_of, nb::arg("base"), nb::arg("offset") = nb::none(),
      R"([base + offset], in bytes.  The base is a register, a name, shared memory, a barrier or a variable; an offset in a register
is added by an instruction.

Example:
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px, 16))            # [%rd0+16]
    ptx.inst.ld.global_.f32(v, ptx.addr(px + i * 4))
    tile = smem.alloc(f32, 128)
    ptx.inst.st.shared.f32(ptx.addr(tile, i * 4), v))");
  m.def("bracket", bracket, nb::arg("base"), nb::arg("parts"),
        nb::sig("def bracket(base: object, *parts: object) -> CompoundOperand"),
        R"([base, a, {x, y}]: an address of several parts, as of textures, surfaces and tensor maps.

Example:
    texture, colour = reg.scalar(u64), reg.array(f32, 4)
    ptx.inst.tex._2d.v4.f32.f32(list(colour), ptx.bracket(texture, [a, b])))");
  m.def(
      "declare", [](const std::string& text) { active().declare(text); }, nb::arg("text"),
      R"(A function that the kernel may call, as text in front of it.

Example:
    ptx.declare(".extern .func f (.param .b32 x);"))");
  m.def(
      "module_text", [](const std::string& text) { active().module_text(text); }, nb::arg("text"),
      R"(What PTX has outside of functions, as text: variables, `.pragma`, `.alias`, `.file`; `.section` goes to the end.

Example:
    ptx.module_text(".global .u32 counter;")
    ptx.inst.red.global_.add.u32(ptx.addr("counter"), 1))");
  m.def(
      "sreg", [](const std::string& name) { return make(active().special(name)); }, nb::arg("name"),
      R"(A special register by its name.  Only mov and cvt read one: copy it with `reg.from_`.

Example:
    lane = reg.from_(ptx.sreg("%laneid"), u32))");
}

void init_pipeline(nb::module_& m) {
  struct Ring {
    author::Pipeline pipeline;
    nb::object owner;
  };
  nb::class_<Ring>(m, "PipelineState",
                   R"(Stage and phase of a ring of buffers; advance() goes on to the next.  Made by `ptx.pipeline`.

Example:
    ring = ptx.pipeline(4)
    stage, phase = ring.advance())")
      .def_prop_ro("n_stages", [](const Ring& ring) { return ring.pipeline.stages; })
      .def_prop_ro("cursor", [](const Ring& ring) { return wrapped(ring.pipeline.cursor); })
      .def_prop_ro("phase", [](const Ring& ring) { return wrapped(ring.pipeline.phase); })
      .def(
          "advance",
          [](const Ring& ring) {
            author::Builder& builder = active();
            static const By by("advance");
            const Returning here(builder, by);
            const auto position = advance(ring.pipeline);
            return nb::borrow<nb::tuple>(make_all(std::array{position.stage, position.phase}));
          },
          R"((stage, phase) of the next slot: five instructions on the ring's registers.

Example:
    stage, phase = ptx.pipeline(4).advance())");
  m.def(
      "pipeline",
      [](std::uint32_t stages, nb::object cursor, nb::object phase) {
        const auto given = [](nb::handle value, const char* what) {
          return value.is_none() ? std::optional<author::Reg>{} : std::optional(reg_argument(value, what));
        };
        return Ring{author::pipeline(active(), stages, given(cursor, "cursor="), given(phase, "phase=")),
                    nb::borrow(active_owner())};
      },
      nb::arg("n_stages"), nb::kw_only(), nb::arg("cursor") = nb::none(), nb::arg("phase") = nb::none(),
      R"(A ring of `n_stages` buffers: two registers, the next stage and the parity of its mbarrier, which turns over each round.

Example:
    full = smem.mbarrier(4)
    ring = ptx.pipeline(4)
    for k in ptx.range_(0, n, 1):
        stage, phase = ring.advance()
        ptx.mbarrier.wait(full[stage], phase))");
}

void init_registers(nb::module_& m) {
  m.def(
      "scalar",
      [](nb::handle type, nb::object init, std::optional<std::string> name, int vector) {
        author::Builder& builder = active();
        static const By by("scalar");
        const Returning here(builder, by);
        const isa::Type wanted = type_argument(type);
        if (vector != 1)
          return make(builder.vector_register(wanted, static_cast<std::uint8_t>(vector), name.value_or("")));
        if (init.is_none()) return make(builder.scalar(wanted, name ? std::string_view(*name) : std::string_view()));
        return make(builder.scalar(wanted, operand(init, builder), name.value_or("")));
      },
      nb::arg("dtype"), nb::arg("init") = nb::none(), nb::arg("name") = nb::none(), nb::arg("vector") = 1,
      R"(A register.  It holds nothing until an instruction writes it; with `init`, a mov does.

Example:
    total = reg.scalar(f32, init=0.0)     # mov.f32 %f0, 0f00000000;
    v = reg.scalar(f32))");
  m.def(
      "scalars",
      [](nb::handle type, nb::args names, int vector) {
        std::vector<std::string> list;
        for (nb::handle name : names) list.push_back(text_of(name));
        return nb::borrow<nb::tuple>(
            make_all(active().scalars(type_argument(type), list, static_cast<std::uint8_t>(vector))));
      },
      nb::arg("dtype"), nb::arg("names"), nb::arg("vector") = 1,
      nb::sig("def scalars(dtype: PtxType, *names: str, vector: int = 1) -> tuple[Reg, ...]"),
      R"(Registers of one declaration, by their names.  With `vector` 2 or 4 they have as many elements, .x .y .z .w.

Example:
    a, b = reg.scalars(u32, "a", "b")     # .reg .u32 a, b;
    ptx.inst.mov.u32(a, 1))");
  m.def(
      "named",
      [](const std::string& name) {
        author::Builder& builder = active();
        const auto found = builder.named(name);
        if (!found) builder.refuse(Code::undefined_name, cat("there is no register `", name, "` here"));
        return make(*found);
      },
      nb::arg("name"), R"(The register of this name: one that is declared above, or a parameter in a register.

Example:
    reg.scalar(u32, name="count")
    count = reg.named("count"))");
  m.def(
      "array",
      [](nb::handle type, std::int64_t count, std::optional<std::string> name, int vector) {
        Traced& builder = active();
        if (count < 1 || count > 65536)
          builder.refuse(Code::bad_argument, cat("an array has 1 to 65536 registers, not ", count));
        static const By by("array"), of_python("wgmma_frag");  // the latter calls this
        const bool wrapped = builder.author().wrappers == 1;
        const Returning here(builder, wrapped ? of_python : by, wrapped);
        return make(builder.array(type_argument(type), static_cast<std::uint32_t>(count),
                                  name ? std::string_view(*name) : std::string_view(),
                                  static_cast<std::uint8_t>(vector)));
      },
      nb::arg("dtype"), nb::arg("count"), nb::arg("name") = nb::none(), nb::arg("vector") = 1,
      R"(Registers declared together: `arr[i]` is one, by an int; a list of them is the operand of a vector instruction.
With `vector` 2 or 4 each has as many elements, .x .y .z .w, and the array a name.

Example:
    v = reg.array(f32, 4)
    ptx.inst.ld.global_.v4.f32(list(v), ptx.addr(px))
    ptx.inst.add.f32(v[0], v[0], v[1]))");
  m.def(
      "alloc",
      [](nb::handle type) {
        author::Builder& builder = active();
        static const By by("alloc");
        const Returning here(builder, by);
        return make(builder.alloc(type_argument(type)));
      },
      nb::arg("dtype"),
      R"(A register of the other family of names, %af0; `scalar` otherwise.

Example:
    t = reg.alloc(f32))");
  m.def(
      "alloc_array",
      [](nb::handle type, std::int64_t count) {
        author::Builder& builder = active();
        if (count < 1 || count > 65536)
          builder.refuse(Code::bad_argument, cat("an array has 1 to 65536 registers, not ", count));
        static const By by("alloc_array");
        const Returning here(builder, by);
        return make(builder.alloc_array(type_argument(type), static_cast<std::uint32_t>(count)));
      },
      nb::arg("dtype"), nb::arg("count"), R"(Registers of the other family of names; `array` otherwise.

Example:
    t = reg.alloc_array(f32, 8))");
  m.def(
      "from_",
      [](nb::handle source, nb::handle type) {
        author::Builder& builder = active();
        static const By by("from_");
        const Returning here(builder, by);
        return make(builder.from(operand(source, builder), type_argument(type)));
      },
      nb::arg("src"), nb::arg("dtype"),
      R"(A new register and a mov into it: a copy of a register, a special register, a number, or the address of a symbol or of
shared memory.

Example:
    t = reg.from_(ptx.special.tid.x(), u32)                 # mov.u32 %r0, %tid.x;
    copy = reg.from_(t, u32)
    tile = smem.alloc(f32, 128)
    address = reg.from_(tile, u32))");
}

}  // namespace

void init_control(nb::module_& m) {
  init_registers(m);
  init_blocks(m);
  init_branches(m);
  init_loops(m);
  init_print(m);
  init_places(m);
  init_addresses(m);
  init_pipeline(m);
}

}  // namespace ptx::python
