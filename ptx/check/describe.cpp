// Messages of operand problems: what was written, and what is legal there.
#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/check/detail/operands.h"

namespace ptx::check {

namespace {

using ir::Operand;
using isa::OperandKind;
using isa::Pattern;

std::string dotted(isa::Type type) { return cat('.', isa::info(type).name); }

// What a register that holds `type` is declared with: PTX declares none of type bf16, tf32, e4m3x2 and the like.
std::string register_type(isa::Type type) {
  const isa::TypeInfo& t = isa::info(type);
  return t.declarable ? dotted(type) : cat(".b", t.bits < 8 ? 8 : static_cast<int>(t.bits));
}

std::string written(const View& view, const Operand& o) { return ir::to_string(view.function, o); }

// The text of a vector; of one with many registers, the first and the last.
std::string vector_of(const std::string& text) {
  constexpr std::ptrdiff_t most = 8;
  const auto count = std::count(text.begin(), text.end(), ',') + 1;
  if (count <= most) return cat("the vector `", text, '`');
  const std::size_t second = text.find(',', text.find(',') + 1);
  return cat("the vector of ", count, " registers `", text.substr(0, second), ", ...", text.substr(text.rfind(',')),
             '`');
}

// "a .f32 register `%f1`"
std::string given(const View& view, const Operand& o) {
  switch (o.kind) {
    case Operand::Kind::reg: {
      const ir::Register& reg = view.function.registers[o.id];
      return cat("the ", dotted(reg.type), " register `", written(view, o), '`');
    }
    case Operand::Kind::sink: return "the sink `_`";
    case Operand::Kind::integer: return cat("the number `", written(view, o), '`');
    case Operand::Kind::f32:
    case Operand::Kind::f64: return cat("the floating-point number `", written(view, o), '`');
    case Operand::Kind::vector: return vector_of(written(view, o));
    case Operand::Kind::address: {
      const auto parts = view.function.children(o);
      const bool held = !parts.empty() && parts[0].kind == Operand::Kind::reg;
      const std::string type =
          held ? cat(" in a ", dotted(view.function.registers[parts[0].id].type), " register") : "";
      return cat("the address `", written(view, o), '`', type);
    }
    default: return cat('`', written(view, o), '`');
  }
}

std::string opaque(const Pattern& p) {
  constexpr std::string_view names[] = {"", ".texref", ".samplerref", ".surfref"};
  return cat("a ", names[static_cast<int>(p.row->opaque)], " variable, or a 64-bit register with its address");
}

std::string wanted(const isa::Match& match, const Pattern& p) {
  if (p.kind == OperandKind::address && p.row->opaque != isa::Opaque::none) return opaque(p);
  switch (p.kind) {
    case OperandKind::sink: return "the sink `_`";
    case OperandKind::address:
      if (p.type != isa::Type::none && p.row->register_only)
        return cat("an address `[r]` in a ", register_type(p.type), " register");
      return "an address in brackets";
    case OperandKind::immediate: return "an integer constant";
    case OperandKind::label: return "a label to branch to";
    case OperandKind::function: return "a function, or a register that holds its address";
    case OperandKind::symbol: return "the name of a variable";
    case OperandKind::prototype: return "the label of a prototype or a table of targets";
    case OperandKind::arguments: return "a list in parentheses";
    case OperandKind::any: return "another operand";
    case OperandKind::value: break;
  }
  if (p.row->opaque != isa::Opaque::none) return opaque(p);
  const std::string type = p.type == isa::Type::none ? std::string() : cat(register_type(p.type), ' ');
  if (p.row->pack) return cat("a vector of 2 or 4 registers that together are ", type, "wide");
  if (p.row->coords && p.length != 4) return cat("{..} of ", static_cast<int>(p.length), " or 4 ", type, "coordinates");
  if (p.length) return cat("a vector of ", static_cast<int>(p.length), ' ', type, "registers");
  if (p.row->pair && !p.row->pair_optional) return cat("a pair `", match.form->text(p.row->name), "|p`");
  return cat("a ", type, p.row->destination || p.row->register_only ? "register" : "register or constant");
}

// Between predicates and numbers there is no cvt.
std::string_view remedy(const View& view, const Operand& o, const Pattern& p) {
  if (p.kind != OperandKind::value || p.row->destination || o.kind != Operand::Kind::reg) return {};
  const isa::Type type = view.function.registers[o.id].type;
  if ((type == isa::Type::pred) == (p.type == isa::Type::pred)) return {};
  return type == isa::Type::pred ? "; selp makes a number of a predicate" : "; setp makes a predicate of a number";
}

bool is_parameter(const View& view, const Operand& o) {
  const Operand& base = o.kind == Operand::Kind::address && o.child_count ? view.function.children(o)[0] : o;
  const auto& all = view.function.parameters;
  return base.kind == Operand::Kind::symbol &&
         std::any_of(all.begin(), all.end(), [&](const ir::Variable& v) { return v.name.id() == base.id; });
}

// The variable that an operand names, or an address begins with.
const ir::Variable* variable_of(const View& view, const Operand& o) {
  const Operand& base = o.kind != Operand::Kind::symbol && o.child_count ? view.function.children(o)[0] : o;
  const Symbol* const symbol = view.symbols ? view.symbols->find(base.id, view.statement) : nullptr;
  return symbol ? symbol->variable : nullptr;
}

// "a variable in .global; it must be in .shared"
std::string wrong_space(const View& view, const Pattern& p, const Operand& o) {
  const ir::Variable* const variable = variable_of(view, o);
  const std::string_view have = variable ? isa::name(variable->space) : "", want = isa::name(p.space);
  const std::string is = have.empty() ? "a variable" : cat("a variable in .", have);
  if (is_parameter(view, o)) return "a parameter; load the address that it holds with ld.param";
  return cat(is, "; it must be in ", want.empty() ? ".global, .shared or .local" : cat('.', want));
}

std::string wrong_constant(isa::Type type) {
  if (is_integer(isa::info(type).kind)) return cat("a constant of type ", dotted(type), " is an integer");
  if (isa::info(type).bits == 16) return cat("there are no constants of type ", dotted(type));
  return cat("a constant of type ", dotted(type), " is `1.0`, `0f3F800000` or `0d3FF0000000000000`");
}

std::string_view legal_selectors(const View& view, const Pattern& p, const Operand& o) {
  if (p.row->selector != isa::Selector::none) return isa::legal(p.row->selector);
  const int length = view.function.registers[o.id].vector;
  return length == 1 ? "left out" : length == 2 ? ".x or .y" : ".x, .y, .z or .w";
}

std::string counts(const ir::Instruction& instruction, const isa::Match& match) {
  const int count = static_cast<int>(instruction.count);
  return cat(count, count == 1 ? " operand does" : " operands do", " not fit; the form is `", match.form->syntax, '`');
}

}  // namespace

std::string describe(const View& view, const isa::Match& match, const ir::Instruction& instruction,
                     const Problem& problem) {
  const std::string head = cat('`', instruction.mnemonic->text, "`: ");
  if (problem.code == Code::operand_count) {
    return cat(head, counts(instruction, match));
  }
  const Pattern& p = *problem.pattern;
  const Operand& o = *problem.given;
  const std::string where = cat("operand ", problem.operand + 1, " (", match.form->text(p.row->name), ") ");
  const std::string got = given(view, o);
  switch (problem.code) {
    case Code::operand_type: {
      const char* note = p.kind == OperandKind::value && p.wider ? " or a wider one" : "";
      return cat(head, where, "is ", got, "; it must be ", wanted(match, p), note, remedy(view, o, p));
    }
    case Code::vector_length: return cat(head, where, "is ", got, "; it must be ", wanted(match, p));
    case Code::immediate_range:
      if (p.row->low == p.row->high) return cat(head, where, "is ", got, "; it must be ", p.row->low);
      return cat(head, where, "is ", got, "; it must be in ", p.row->low, "..", p.row->high);
    case Code::immediate_kind: return cat(head, where, "is ", got, "; ", wrong_constant(p.type));
    case Code::state_space: return cat(head, where, "is ", got, ", ", wrong_space(view, p, o));
    case Code::sink_operand: return cat(head, where, "is the sink `_`, but the result must go to a register");
    case Code::special_operand:
      return cat(head, where, "is ", got,
                 ", a special register; only mov and cvt read one: copy it into a register first");
    case Code::negated_operand: return cat(head, where, "is ", got, ", which this instruction does not negate");
    case Code::needs_target:
    case Code::needs_version:
      return cat(head, where, "is ", got, ", which needs ",
                 isa::to_string(isa::special_register(Name::from_id(o.id).view())->since));
    case Code::constant_expression:
      return cat(head, where, "is ", got,
                 ", which has no value: it needs more than 64 bits, divides by zero, or mixes integers with "
                 "floating-point numbers");
    case Code::selector: return cat(head, where, "is ", got, "; its selector must be ", legal_selectors(view, p, o));
    case Code::address_register:
      return cat(
          head, where, "is ", got,
          "; the base of an address must be a variable or an integer register of at most 64 bits, from sm_90 on of "
          "64 bits where the memory is generic or global");
    case Code::address_width:
      return cat(head, where, "is ", got, "; a register in this address must have at least ",
                 static_cast<int>(p.row->bits), " bits, as the assembler does not widen it");
    case Code::untyped_vector:
      return cat(head, where, "is ", got, ", which has no type; one of its elements must be a register");
    case Code::mixed_vector: return cat(head, where, "is ", got, "; a vector cannot mix integers, floats and f16x2");
    case Code::address_offset:
      return cat(head, where, "is ", got, "; ",
                 p.kind == OperandKind::address ? "an address of several parts" : "a label or a function",
                 " cannot have an offset");
    case Code::unified_address:
      return cat(
          head, where, "is ", got,
          p.row->unified ? ", a variable without .attribute(.unified)" : "; only loads of global memory take .unified");
    case Code::argument_address:
      return cat(head, where, "is ", got, ", a .param variable of the body; it has no address");
    case Code::undefined_name: {
      const Operand* name = &o;
      while (name->kind != Operand::Kind::symbol && name->child_count) name = &view.function.children(*name)[0];
      if (!view.symbols || name->kind != Operand::Kind::symbol) return cat(head, got, ' ', not_declared(nullptr));
      return cat(head, '`', Name::from_id(name->id).view(), "` ", view.symbols->not_declared(name->id, view.statement));
    }
    default: return cat(head, where, "is ", got, "; it must be ", wanted(match, p));
  }
}

}  // namespace ptx::check
