// Control flow, parameters and declarations of pyptx.ptx and pyptx.reg.
#include "ptx/author/control.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <functional>

#include "ptx/isa/spelling.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

// A `with` block: what stands at its start and at its end. An exception inside leaves the end out: the trace is lost
// anyhow.
struct Block {
  std::function<void(author::Builder&)> begin, end;
};

Block if_block(nb::object predicate) {
  return {[predicate](author::Builder& builder) {
            if (const auto* negated = as_not(predicate))
              author::begin_if(builder, *negated);
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
  std::optional<author::Reg> destination;
  if (!into.is_none()) destination = reg_argument(into, "dst=");
  return make(builder.param(type_argument(type), name, destination));
}

nb::tuple global_pointers(nb::args tensors) {
  author::Builder& builder = active();
  std::vector<std::string> names;
  for (nb::handle tensor : tensors) names.push_back(name_argument(tensor));
  nb::list pointers;
  for (const author::Reg& reg : builder.global_pointers(names)) pointers.append(make(reg));
  return nb::tuple(pointers);
}

nb::object address_of(nb::handle base, nb::object offset) {
  author::Builder& builder = active();
  const auto* element = as_compound(base);  // table[i], which is an address
  if (element && offset.is_none() &&
      (element->literal != author::Operand::Literal::none || element->ir.kind == ir::Operand::Kind::element))
    return make(*element);
  const author::Address start = address(base, builder);
  if (offset.is_none()) return make(start);
  if (const auto* reg = as_reg(offset)) return make(builder.address(start, *reg));
  const author::Operand bytes = operand(offset, builder);
  if (!bytes.is_integer()) throw nb::type_error(cat("an offset is an int or a register, not ", shown(offset)).c_str());
  return make(start + bytes.ir.value);
}

nb::object bracket(nb::handle base, const nb::args& more) {
  author::Builder& builder = active();
  const author::Address start = address(base, builder);
  std::vector<author::Operand> parts{author::Operand(start.base)};
  for (nb::handle part : more) parts.push_back(operand(part, builder));
  author::Operand made = builder.bracket(parts);
  made.ir.value = start.offset;
  return make(made);
}

void variable(const std::string& space, nb::handle type, const std::string& name, std::optional<std::int64_t> size,
              std::uint32_t align, const std::string& linking) {
  author::Builder& builder = active();
  const std::string spelled = isa::from_python(space);
  const auto found = isa::space_named(spelled);
  if (!found) builder.refuse(Code::bad_argument, cat("there is no state space .", spelled));
  ir::Variable declared;
  declared.space = *found;
  declared.type = type_argument(type);
  declared.name = Name(name);
  if (size) declared.dims.push_back(*size);
  declared.alignment = align;
  declared.linking = linking;
  const bool in_module = *found == isa::Space::global || *found == isa::Space::const_ || !linking.empty();
  builder.variable(std::move(declared), in_module);
}

void init_blocks(nb::module_& m) {
  nb::class_<Block>(m, "Block")
      .def("__enter__",
           [](const Block& block) {
             author::Builder& builder = active();
             if (block.begin) block.begin(builder);
           })
      .def(
          "__exit__",
          [](const Block& block, nb::handle type, nb::handle, nb::handle) {
            if (type.is_none() && block.end) block.end(active());
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
  m.def("if_", if_block, nb::arg("pred"), "The body runs in the threads whose predicate is true.");
  m.def(
      "else_", [] { return Block{author::begin_else, author::end_else}; },
      "The other threads of the if_ block just before.");
  m.def("loop", loop_block, nb::arg("label"), nb::kw_only(), nb::arg("pred") = nb::none(),
        "label: body @pred bra label.  The predicate is asked after the body.");
  m.def(
      "scope",
      [] { return Block{[](author::Builder& b) { b.open_scope(); }, [](author::Builder& b) { b.close_scope(); }}; },
      "{ }: registers declared inside are local to it.");
  m.def("expr", [] { return Block{}; }, "Groups the instructions of an expression for the reader; changes no text.");
  m.def("intrinsic_scope", [](std::string text) {
    return Block{[text](author::Builder& b) { author::begin_intrinsic(b, text); }, author::end_intrinsic};
  });
  nb::class_<Range>(m, "Range").def("__iter__", [](nb::object self) { return self; }).def("__next__", next);
  m.def("range_", range, nb::arg("start"), nb::arg("stop") = nb::none(), nb::arg("step") = 1, nb::kw_only(),
        nb::arg("dtype") = nb::none(),
        "for k in range_(start, stop, step): a loop on the GPU.  The Python body runs once and writes it.");
  m.def(
      "kloop",
      [](nb::handle total, std::uint32_t unroll, nb::object body, const std::string& label) {
        author::Builder& builder = active();
        author::kloop(builder, operand(total, builder), unroll, [&] { body(); }, label);
      },
      nb::arg("total"), nb::kw_only(), nb::arg("unroll"), nb::arg("body"), nb::arg("loop_label") = "kloop",
      "`body` total times, `unroll` a turn; the rest as a ladder of ifs.");
}

void init_statements(nb::module_& m) {
  m.def("label", [](const std::string& name) { author::label(active(), name); }, nb::arg("name"));
  m.def(
      "bra",
      [](const std::string& label, nb::object predicate) {
        author::Builder& builder = active();
        author::bra(builder, label, guard(predicate, builder));
      },
      nb::arg("label"), nb::kw_only(), nb::arg("pred") = nb::none());
  m.def("fresh_label", [](const std::string& prefix) { return active().fresh_label(prefix); }, nb::arg("prefix") = "L");
  m.def("comment", [](const std::string& text) { active().comment(text); });
  m.def("directive", [](const std::string& text) { active().directive(text); });
  m.def(
      "loc",
      [](std::uint32_t file, std::uint32_t line, std::uint32_t column) { active().location(file, line, column); },
      nb::arg("file"), nb::arg("line"), nb::arg("col") = 0, ".loc file line col");
  m.def(
      "file_", [](std::uint32_t index, const std::string& name) { active().file(index, name); }, nb::arg("idx"),
      nb::arg("filename"), ".file idx \"filename\"");
  m.def(
      "var",
      [](const std::string& space, nb::handle type, const std::string& name, std::optional<std::int64_t> size,
         std::optional<std::uint32_t> align, std::optional<std::string> linking) {
        variable(space, type, name, size, align.value_or(0), linking.value_or(""));
        return name;
      },
      nb::arg("state_space"), nb::arg("dtype"), nb::arg("name"), nb::kw_only(), nb::arg("size") = nb::none(),
      nb::arg("align") = nb::none(), nb::arg("linking") = nb::none(), "Declares a variable; returns its name.");
  m.def("param", param, nb::arg("dtype"), nb::arg("name"), nb::arg("dst") = nb::none(),
        "The value of a scalar parameter, or the address of an array parameter.");
  m.def("global_ptrs", global_pointers, "The global addresses of pointer parameters.");
  m.def("addr", address_of, nb::arg("base"), nb::arg("offset") = nb::none(), "[base + offset]");
  m.def("bracket", bracket, nb::arg("base"), nb::arg("parts"),
        nb::sig("def bracket(base: object, *parts: object) -> CompoundOperand"),
        "[base, a, {x, y}]: an address of several parts, as of textures, surfaces and tensor maps.");
  m.def(
      "declare", [](const std::string& text) { active().declare(text); }, nb::arg("text"),
      "A function that the kernel may call: `.extern .func f (.param .b32 x);`.");
  m.def(
      "module_text", [](const std::string& text) { active().module_text(text); }, nb::arg("text"),
      "What PTX has outside of functions, as text: variables, `.pragma`, `.alias`, `.file`; `.section` goes to the "
      "end.");
  m.def(
      "sreg", [](const std::string& name) { return make(active().special(name)); }, nb::arg("name"),
      "A special register by its name, \"%clusterid.x\".");
}

void init_pipeline(nb::module_& m) {
  struct Ring {
    author::Pipeline pipeline;
    nb::object owner;
  };
  nb::class_<Ring>(m, "PipelineState", "Stage and phase of a ring of buffers; advance() goes on to the next")
      .def_prop_ro("n_stages", [](const Ring& ring) { return ring.pipeline.stages; })
      .def_prop_ro("cursor", [](const Ring& ring) { return make(ring.pipeline.cursor); })
      .def_prop_ro("phase", [](const Ring& ring) { return make(ring.pipeline.phase); })
      .def(
          "advance",
          [](const Ring& ring) {
            active();
            const auto position = ring.pipeline.advance();
            return nb::make_tuple(make(position.stage), make(position.phase));
          },
          "(stage, phase) of the next slot.");
  m.def(
      "pipeline",
      [](std::uint32_t stages, nb::object cursor, nb::object phase) {
        const auto given = [](nb::handle value, const char* what) {
          return value.is_none() ? std::optional<author::Reg>{} : std::optional(reg_argument(value, what));
        };
        return Ring{author::pipeline(active(), stages, given(cursor, "cursor="), given(phase, "phase=")),
                    nb::borrow(active_owner())};
      },
      nb::arg("n_stages"), nb::kw_only(), nb::arg("cursor") = nb::none(), nb::arg("phase") = nb::none());
}

void init_registers(nb::module_& m) {
  m.def(
      "scalar",
      [](nb::handle type, nb::object init, std::optional<std::string> name) {
        author::Builder& builder = active();
        const isa::Type wanted = type_argument(type);
        if (init.is_none()) return make(builder.scalar(wanted, std::string_view(name ? *name : "")));
        return make(builder.scalar(wanted, operand(init, builder), name.value_or("")));
      },
      nb::arg("dtype"), nb::arg("init") = nb::none(), nb::arg("name") = nb::none(),
      "A register; with `init`, and a mov into it.");
  m.def(
      "array",
      [](nb::handle type, std::int64_t count, std::optional<std::string> name) {
        author::Builder& builder = active();
        if (count < 1 || count > 1 << 20)
          builder.refuse(Code::bad_argument, cat("an array has 1 to 1048576 registers, not ", count));
        return make(builder.array(type_argument(type), static_cast<std::uint32_t>(count), name.value_or("")));
      },
      nb::arg("dtype"), nb::arg("count"), nb::arg("name") = nb::none(), "Registers declared together.");
  m.def(
      "alloc", [](nb::handle type) { return make(active().alloc(type_argument(type))); }, nb::arg("dtype"),
      "A register of the other family of names, %af0.");
  m.def(
      "alloc_array",
      [](nb::handle type, std::int64_t count) {
        author::Builder& builder = active();
        if (count < 1 || count > 1 << 20)
          builder.refuse(Code::bad_argument, cat("an array has 1 to 1048576 registers, not ", count));
        return make(builder.alloc_array(type_argument(type), static_cast<std::uint32_t>(count)));
      },
      nb::arg("dtype"), nb::arg("count"));
  m.def(
      "from_",
      [](nb::handle source, nb::handle type) {
        author::Builder& builder = active();
        return make(builder.from(operand(source, builder), type_argument(type)));
      },
      nb::arg("src"), nb::arg("dtype"), "A new register and a mov into it.");
}

}  // namespace

void init_control(nb::module_& m) {
  init_registers(m);
  init_blocks(m);
  init_statements(m);
  init_pipeline(m);
}

}  // namespace ptx::python
