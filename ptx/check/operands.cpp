#include "ptx/check/detail/operands.h"

#include <algorithm>

#include "ptx/base/text.h"

namespace ptx::check {

using ir::Operand;
using isa::OperandKind;
using isa::Pattern;
using isa::Space;
using isa::Trait;
using isa::Type;
using isa::TypeKind;

namespace {

// Whether a number written as `kind` may stand for a value of `type`.
bool number_agrees(Type type, Operand::Kind kind) {
  if (type == Type::none) return true;
  const isa::TypeInfo& t = isa::info(type);
  if (kind == Operand::Kind::integer) return is_integer(t.kind) || t.kind == TypeKind::predicate;
  if (type == Type::f32 || type == Type::f64) return true;
  return type == (kind == Operand::Kind::f32 ? Type::b32 : Type::b64);
}

// mov and cvt read special registers. Old code reads those of PTX 1.x as 16 bits.
bool special_agrees(Type want, const isa::SpecialRegister& have) {
  const int bits = isa::info(want).bits;
  if (want == Type::none) return true;
  // No floating-point type reads one, not even one of bits: mov.f32 of %envreg0 is refused.
  if (isa::info(want).kind == TypeKind::floating) return false;
  if (agrees(want, have.type, false)) return true;
  if (!is_integer(isa::info(want).kind)) return false;
  if (have.name == "%gridid") return bits == 16 || bits == 32;
  for (const std::string_view old : {"%tid.", "%ntid.", "%ctaid.", "%nctaid."}) {
    if (bits == 16 && have.name.starts_with(old)) return true;
  }
  return false;
}

Operand warp_size() {
  Operand o;
  o.kind = Operand::Kind::integer;
  return o.value = 32, o;
}

bool is_shared(Space space) {
  return space == Space::shared || space == Space::shared_cta || space == Space::shared_cluster;
}
// From sm_90 on generic and global memory have 64-bit addresses; the assembler says so without a line.
bool is_64_bit(Space space, isa::Target target) {
  return target.number >= 90 && (space == Space::generic || space == Space::global);
}
bool is_param(Space space) {
  return space == Space::param || space == Space::param_entry || space == Space::param_func;
}

// Whether an instruction that addresses `want` may name a variable of `have`.
bool spaces_agree(Space want, Space have) {
  if (want == have || (is_shared(want) && is_shared(have)) || (is_param(want) && is_param(have))) return true;
  return want == Space::generic && (have == Space::global || is_shared(have) || have == Space::local);
}

// One operand against one pattern.
class OperandJudge {
 public:
  OperandJudge(const View& view, const isa::Match& match, Excuses* excuses)
      : view_(view), match_(match), form_(*match.form), excuses_(excuses) {}

  Code operand(const Pattern& p, const Operand& o) const {
    if (is_plain(p, o)) return {};
    const Code code = refusal(p, o);
    const bool excused = code != Code{} && excuses_ && excuses_->covers(view_, match_, {code, -1, &p, &o});
    return excused ? Code{} : code;
  }
  // The parts of an address behind its first. A part that does not fit is the problem's, instead of the address.
  void inner(std::span<const Pattern> parts, const Operand& address, Problem& problem) const {
    if (!parts.empty() && parts[0].row->optional && address.child_count == parts.size()) parts = parts.subspan(1);
    if (address.child_count != parts.size() + 1 && (address.child_count != 0 || !parts.empty()))
      return void(problem.code = Code::operand_kind);
    if (!parts.empty() && address.value != 0) return void(problem.code = Code::address_offset);
    const auto given = view_.function.children(address).last(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (problem.code = operand(parts[i], given[i]); !problem) continue;
      problem.pattern = &parts[i], problem.given = &given[i];
      return;
    }
  }

 private:
  // What most operands are: a whole register of the row's own type, or an integer of its width.
  bool is_plain(const Pattern& p, const Operand& o) const {
    if (o.kind != Operand::Kind::reg || p.kind != OperandKind::value || p.length != 0) return false;
    if (o.component != 0xff || o.negated || o.minus || p.row->pack || p.row->opaque != isa::Opaque::none) return false;
    const auto& have = view_.function.registers[o.id];
    if (have.vector > 1) return false;
    if (have.type == p.type) return true;
    const isa::TypeInfo &a = isa::info(have.type), &b = isa::info(p.type);
    return a.bits == b.bits && is_integer(a.kind) && is_integer(b.kind) && !p.row->same_type;
  }

  Code refusal(const Pattern& p, const Operand& o) const {
    if (o.negated && (!p.row->negatable || p.type != Type::pred)) return Code::negated_operand;
    if (o.minus && !p.row->minus) return Code::negated_operand;
    if (const Code code = selector(p, o); code != Code{}) return code;
    switch (p.kind) {
      case OperandKind::value: return p.row->opaque == isa::Opaque::none ? value(p, o) : opaque(p, o);
      case OperandKind::sink: return o.kind == Operand::Kind::sink ? Code{} : Code::operand_kind;
      case OperandKind::address: return address(p, o);
      case OperandKind::immediate: return immediate(p, o);
      case OperandKind::label: return label(o);
      case OperandKind::function: return function(o);
      case OperandKind::symbol: return variable_name(p, o);
      case OperandKind::prototype: return o.kind == Operand::Kind::symbol ? known(o) : Code::operand_kind;
      case OperandKind::arguments: return o.kind == Operand::Kind::list ? Code{} : Code::operand_kind;
      case OperandKind::any: return {};
    }
    return {};
  }

  static Code selector(const Pattern& p, const Operand& o) {
    const bool given = o.kind == Operand::Kind::reg && o.component == Operand::part;
    if (!given) return {};
    const std::string_view word = Name::from_id(static_cast<std::uint32_t>(o.value)).view();
    return isa::selects(p.row->selector, word) ? Code{} : Code::selector;
  }

  const Symbol* find(const Operand& o) const { return view_.symbols->find(o.id, view_.statement); }
  Code known(const Operand& o) const { return view_.symbols && !find(o) ? Code::undefined_name : Code{}; }

  // f+4
  bool moves_function(const Operand& o) const { return view_.symbols && o.value != 0 && find(o) && find(o)->function; }

  // A variable by its bare name, where the form says in which space it is (cvta, mapa).
  Code variable_name(const Pattern& p, const Operand& o) const {
    if (o.kind == Operand::Kind::element) return element(p, o);
    if (o.kind != Operand::Kind::symbol) return Code::operand_kind;
    if (view_.symbols && find(o) && find(o)->kind == Symbol::Kind::label) return Code::operand_kind;
    if (argument(o)) return Code::argument_address;
    if (moves_function(o)) return Code::address_offset;
    if (p.space == Space::generic || !view_.symbols || !find(o)) return known(o);
    return find(o)->variable ? variable(p, o) : Code::operand_kind;
  }

  // A .param variable of the body holds arguments of a call: it has no address.
  bool argument(const Operand& o) const {
    const Symbol* symbol = view_.symbols ? find(o) : nullptr;
    return symbol && symbol->kind == Symbol::Kind::variable && symbol->variable->space == Space::param;
  }

  Code name(const Operand& o, Symbol::Kind kind) const {
    if (o.kind != Operand::Kind::symbol) return Code::operand_kind;
    if (!view_.symbols) return {};
    const Symbol* symbol = find(o);
    if (!symbol) return Code::undefined_name;
    if (symbol->kind != kind) return Code::operand_kind;
    return o.value == 0 ? Code{} : Code::address_offset;
  }

  Code label(const Operand& o) const {
    if (const Code code = name(o, Symbol::Kind::label); code != Code{} || !view_.symbols) return code;
    return ir::table_behind(view_.function, find(o)->at) ? Code::operand_kind : Code{};
  }

  Code function(const Operand& o) const {
    if (o.kind == Operand::Kind::reg) {
      return agrees(Type::u64, type_of(o), false) || agrees(Type::u32, type_of(o), false) ? Code{} : Code::operand_type;
    }
    return name(o, Symbol::Kind::function);
  }

  Type type_of(const Operand& reg) const { return view_.function.registers[reg.id].type; }

  // The number of elements of an operand; 0: not a vector.
  std::uint32_t length(const Operand& o) const {
    if (o.kind == Operand::Kind::vector) return o.child_count;
    if (o.kind == Operand::Kind::reg && o.component == 0xff) {
      const std::uint8_t n = view_.function.registers[o.id].vector;
      return n > 1 ? n : 0;
    }
    if (o.kind == Operand::Kind::special) {
      const auto* special = isa::special_register(Name::from_id(o.id).view());
      return special && special->vector > 1 ? special->vector : 0;
    }
    return 0;
  }

  Code value(const Pattern& p, const Operand& o) const {
    const std::uint32_t n = length(o);
    if (is_mixed(p, o)) return Code::mixed_vector;
    if (p.row->pack) return pack(p, o, n);
    if (p.length == 0 && n == 0) return scalar(p, o);
    if (p.length == 0 && n == 1 && form_.is(Trait::braced_scalars)) return scalar(p, view_.function.children(o)[0]);
    if (p.row->coords && n == 0 && p.length == 1)
      return o.kind == Operand::Kind::reg ? scalar(p, o) : Code::operand_kind;
    if (p.length != n && !(p.row->coords && n == 4)) return p.length == 0 ? Code::operand_kind : Code::vector_length;
    if (o.kind == Operand::Kind::vector) {
      return untyped(p, view_.function.children(o)) ? Code::untyped_vector : elements(p, view_.function.children(o));
    }
    return scalar(p, o);
  }

  // The assembler takes the type of a vector from its elements. A sink has no type; a number is a signed integer or a
  // float.
  static bool untyped(const Pattern& p, std::span<const Operand> elements) {
    const TypeKind kind = isa::info(p.type).kind;
    const bool packed = kind == TypeKind::unsigned_ && p.row->matrix;  // several small integers
    const bool number =
        !packed && (kind == TypeKind::signed_ || kind == TypeKind::unsigned_ || kind == TypeKind::floating);
    return std::all_of(elements.begin(), elements.end(), [&](const Operand& o) {
      const bool is_number = o.kind == Operand::Kind::integer || o.kind == Operand::Kind::f32;
      return o.kind == Operand::Kind::sink || (p.row->list && !number && is_number);
    });
  }

  // Neighbours in a vector agree: integers, floats and f16x2 each with their own, bit types with everything. The index
  // of a texture array stands for itself.
  bool is_mixed(const Pattern& p, const Operand& vector) const {
    if (vector.kind != Operand::Kind::vector) return false;
    TypeKind before = TypeKind::bits;
    for (const Operand& o : view_.function.children(vector).subspan(has_index(p))) {
      if (o.kind == Operand::Kind::sink || o.kind == Operand::Kind::special) continue;
      const TypeKind kind = kind_of(o);
      if (kind != TypeKind::bits && before != TypeKind::bits && kind != before) return true;
      before = kind;
    }
    return false;
  }
  bool has_index(const Pattern& p) const { return p.row->coords && match_.value("geom").starts_with('a'); }

  // The kind of a register or a number; all integers are of one kind.
  TypeKind kind_of(const Operand& o) const {
    if (o.kind == Operand::Kind::integer) return TypeKind::unsigned_;
    if (o.kind == Operand::Kind::f32 || o.kind == Operand::Kind::f64) return TypeKind::floating;
    if (o.kind != Operand::Kind::reg) return TypeKind::bits;
    const TypeKind kind = isa::info(type_of(o)).kind;
    return kind == TypeKind::signed_ ? TypeKind::unsigned_ : kind;
  }

  Code elements(const Pattern& p, std::span<const Operand> elements) const {
    const TypeKind index = has_index(p) ? kind_of(elements[0]) : TypeKind::bits;
    if (index != TypeKind::bits && index != TypeKind::unsigned_) return Code::operand_type;
    unsigned bits = 0;
    for (const Operand& element : elements) {
      if (const Code code = part(p, element, bits); code != Code{}) return code;
    }
    return {};
  }

  // One element of a vector. An integer register of the right width passes for a float, as in the assembler.
  Code part(const Pattern& p, const Operand& o, unsigned& bits) const {
    // An instruction often reads a list that it writes (wgmma), so a list takes sinks only where its row says so.
    if (o.kind == Operand::Kind::sink && p.row->destination && (!p.row->list || p.row->sink)) return {};
    if (length(o)) return Code::operand_kind;
    if (o.kind != Operand::Kind::reg) return scalar(p, o);
    const isa::TypeInfo& have = isa::info(type_of(o));
    if (bits != 0 && have.bits != bits) return Code::operand_type;
    bits = have.bits;
    const bool loose = p.row->vector || p.row->coords || (p.row->destination && form_.is(Trait::untyped_results));
    const bool same_width = loose && isa::info(p.type).kind == TypeKind::floating && is_integer(have.kind) &&
                            have.bits == isa::info(p.type).bits;
    return same_width ? Code{} : scalar(p, o);
  }

  // {a, b}: registers that together are as wide as the type.
  Code pack(const Pattern& p, const Operand& o, std::uint32_t n) const {
    if (n != 2 && n != 4) return n == 0 ? Code::operand_kind : Code::vector_length;
    const unsigned bits = isa::info(p.type).bits / n;
    if (o.kind != Operand::Kind::vector) return isa::info(type_of(o)).bits == bits ? Code{} : Code::operand_type;
    bool registers = !p.row->destination;
    for (const Operand& element : view_.function.children(o)) {
      registers |= element.kind == Operand::Kind::reg;
      if (element.kind == Operand::Kind::reg) {
        const isa::TypeInfo& t = isa::info(type_of(element));
        if (t.bits != bits || t.kind == TypeKind::predicate) return Code::operand_type;
      } else if (element.kind != (p.row->destination ? Operand::Kind::sink : Operand::Kind::integer)) {
        return Code::operand_kind;
      }
    }
    return registers ? Code{} : Code::untyped_vector;
  }

  Code scalar(const Pattern& p, const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::reg: {
        const Type have = type_of(o);
        if (p.row->same_type && have != p.type) return Code::operand_type;
        const TypeKind kind = isa::info(p.type).kind;
        const bool packed = p.exact && have == Type::f16x2 && is_integer(kind) && kind != TypeKind::bits;
        const bool half =
            p.row->half_too && isa::info(have).bits * 2 == isa::info(p.type).bits && is_integer(isa::info(have).kind);
        return half || (!packed && agrees(p.type, have, p.wider)) ? Code{} : Code::operand_type;
      }
      case Operand::Kind::sink: return p.row->sink ? Code{} : Code::sink_operand;
      case Operand::Kind::special: return special(p, o);
      case Operand::Kind::integer:
      case Operand::Kind::f32:
      case Operand::Kind::f64: return number(p, o);
      case Operand::Kind::text:
        return p.row->destination || p.row->register_only ? Code::operand_kind : Code::constant_expression;
      case Operand::Kind::symbol: return symbol(p, o);
      case Operand::Kind::element: return form_.is(Trait::variable_sources) ? element(p, o) : Code::operand_kind;
      default: return Code::operand_kind;
    }
  }

  Code special(const Pattern& p, const Operand& o) const {
    if (p.row->destination) return Code::operand_kind;
    if (!form_.is(Trait::special_sources)) return Code::special_operand;
    const auto* known = isa::special_register(Name::from_id(o.id).view());
    if (!known) return Code::undefined_name;
    if (!view_.target.runs(known->since)) return Code::needs_target;
    if (!view_.target.has(known->since.version)) return Code::needs_version;
    const bool fits = special_agrees(p.type, *known) || (p.wider && agrees(p.type, known->type, true));
    return fits ? Code{} : Code::operand_type;
  }

  Code number(const Pattern& p, const Operand& o) const {
    if (p.row->destination || p.row->register_only) return Code::operand_kind;
    if (!number_agrees(p.type, o.kind)) return Code::immediate_kind;
    return in_range(p, o) ? Code{} : Code::immediate_range;
  }

  static bool in_range(const Pattern& p, const Operand& o) {
    if (p.row->low > p.row->high || o.kind != Operand::Kind::integer) return true;
    return o.value >= p.row->low && o.value <= p.row->high && !(o.wide && o.value < 0);
  }

  // The address of a variable as a value: mov and its kin.
  Code symbol(const Pattern& p, const Operand& o) const {
    if (is_warp_size(o)) return p.row->destination ? Code::operand_kind : number(p, warp_size());
    if (p.row->destination) return known(o) == Code{} ? Code::operand_kind : Code::undefined_name;
    if (view_.symbols && find(o) && find(o)->kind == Symbol::Kind::label) return Code::operand_kind;
    if (!form_.is(Trait::variable_sources))
      return view_.symbols && !find(o) ? Code::undefined_name : Code::operand_kind;
    if (p.type != Type::none && !is_integer(isa::info(p.type).kind)) return Code::operand_type;
    if (moves_function(o)) return Code::address_offset;
    return argument(o) ? Code::argument_address : known(o);
  }

  Code immediate(const Pattern& p, const Operand& o) const {
    if (o.kind == Operand::Kind::text) return Code::constant_expression;
    if (is_warp_size(o)) return in_range(p, warp_size()) ? Code{} : Code::immediate_range;
    if (o.kind != Operand::Kind::integer) return Code::operand_kind;
    return in_range(p, o) ? Code{} : Code::immediate_range;
  }

  Code address(const Pattern& p, const Operand& o) const {
    if (o.kind == Operand::Kind::element && form_.is(Trait::braced_scalars)) return element(p, o);
    if (o.kind != Operand::Kind::address) return Code::operand_kind;
    if (o.unified && !p.row->unified) return Code::unified_address;
    if (p.row->opaque != isa::Opaque::none) {
      return o.child_count && o.value == 0 ? opaque(p, view_.function.children(o)[0]) : Code::operand_kind;
    }
    if (p.type != Type::none) return o.child_count ? handle(p, view_.function.children(o)[0]) : Code::operand_kind;
    if (o.child_count == 0) return p.space == Space::local ? Code{} : Code::address_register;
    const Operand& base = view_.function.children(o)[0];
    switch (base.kind) {
      case Operand::Kind::reg: {
        if (p.space == Space::param_func && view_.function.entry) return Code::address_register;
        if (base.component != 0xff) return Code::address_register;
        const isa::TypeInfo& t = isa::info(type_of(base));
        const bool kept = p.row->bits == 0 && form_.is(Trait::kept_addresses);
        if (t.bits == 32 && kept && is_64_bit(p.space, view_.target.sm)) return Code::address_register;
        if (t.bits < p.row->bits && (!p.row->generic_bits || p.space == Space::generic)) return Code::address_width;
        return is_integer(t.kind) && t.bits <= 64 && !length(base) ? Code{} : Code::address_register;
      }
      case Operand::Kind::symbol: {
        const Symbol* symbol = view_.symbols ? find(base) : nullptr;
        const bool opaque = symbol && symbol->variable && !symbol->variable->opaque.empty();
        return opaque ? Code::operand_kind : variable(p, base, o.unified);
      }
      case Operand::Kind::integer: return p.space == Space::local ? Code{} : Code::address_register;
      default: return Code::address_register;
    }
  }

  // An address in a space that is not generic is a value of the row's type; only a register of bits fits a bit type.
  Code handle(const Pattern& p, const Operand& base) const {
    const bool bits = isa::info(p.type).kind == TypeKind::bits;
    if (bits && base.kind == Operand::Kind::reg && isa::info(type_of(base)).kind != TypeKind::bits)
      return Code::operand_type;
    return scalar(p, base);
  }

  // In a kernel, ::entry are its own parameters and ::func those of calls.
  bool parameter_agrees(Space space, const Symbol& symbol) const {
    if (!view_.function.entry || (space != Space::param_entry && space != Space::param_func)) return true;
    return (space == Space::param_entry) == (symbol.kind == Symbol::Kind::parameter);
  }

  // A texture, sampler or surface: a variable, or a register with its address. In unified mode a texture is its
  // sampler.
  Code opaque(const Pattern& p, const Operand& o) const {
    if (o.kind == Operand::Kind::reg) {
      const isa::TypeInfo& t = isa::info(type_of(o));
      return is_integer(t.kind) && t.bits == 64 && !length(o) ? Code{} : Code::operand_type;
    }
    if (o.kind != Operand::Kind::symbol) return Code::operand_kind;
    if (!view_.symbols) return {};
    const Symbol* symbol = find(o);
    if (!symbol) return Code::undefined_name;
    if (!symbol->variable) return Code::operand_kind;
    const bool before_opaque = symbol->variable->space == Space::tex;  // PTX 1.4 and earlier
    const std::string_view have = before_opaque ? "texref" : std::string_view(symbol->variable->opaque);
    if (isa::opaque_named(have) == p.row->opaque) return {};
    const bool own = p.row->opaque == isa::Opaque::samplerref && p.kind == OperandKind::address && have == "texref";
    return own && !view_.target.independent && !match_.has("force_unnormalized_coords") ? Code{} : Code::operand_kind;
  }

  // a[r]: an element of an array, of ld, ldu, st and, as an address, mov and cvta.
  Code element(const Pattern& p, const Operand& o) const {
    const auto parts = view_.function.children(o);
    const isa::TypeInfo& index = isa::info(type_of(parts[1]));
    if (!is_integer(index.kind) || index.bits > 64 || length(parts[1])) return Code::address_register;
    return p.kind == OperandKind::value ? scalar(p, parts[0]) : variable(p, parts[0]);
  }

  Code variable(const Pattern& p, const Operand& base, bool unified = false) const {
    if (!view_.symbols) return {};
    const Symbol* symbol = find(base);
    if (!symbol) return Code::undefined_name;
    if (!symbol->variable) return Code::operand_kind;
    if (unified && symbol->variable->attributes.find(".unified") == std::string::npos) return Code::unified_address;
    return spaces_agree(p.space, symbol->variable->space) && parameter_agrees(p.space, *symbol) ? Code{}
                                                                                                : Code::state_space;
  }

  const View& view_;
  const isa::Match& match_;
  const isa::Form& form_;
  Excuses* excuses_;
};

// Which patterns the operands are for: one bit a group of optional ones.
struct Choice {
  unsigned groups = 0;
  bool found = false;
};

int operands_of(const isa::Match& match, unsigned groups) {
  int n = 0;
  for (std::size_t i = 0; i < match.operands.size(); ++i) {
    const Pattern& p = match.operands[i];
    if (p.group != 0 && (groups >> p.group & 1) == 0) continue;
    n += !p.row->inner;
    if (p.row->pair) ++i;
  }
  return n;
}

Problem fit_choice(const OperandJudge& judge, const View& view, const isa::Match& match,
                   const ir::Instruction& instruction, unsigned groups) {
  const auto operands = view.function.operands_of(instruction);
  int at = 0;
  for (std::size_t i = 0; i < match.operands.size(); ++i) {
    const Pattern& p = match.operands[i];
    std::size_t parts = p.row->pair;
    while (i + parts + 1 < match.operands.size() && match.operands[i + parts + 1].row->inner) ++parts;
    if (p.group != 0 && (groups >> p.group & 1) == 0) {
      i += parts;
      continue;
    }
    const Operand& o = operands[static_cast<std::size_t>(at)];
    Problem problem{Code{}, at++, &p, &o};
    if (p.row->pair) {
      const bool pair = o.kind == Operand::Kind::pair;
      if (!pair && !p.row->pair_optional) return problem.code = Code::operand_kind, problem;
      problem.code = judge.operand(p, pair ? view.function.children(o)[0] : o);
      if (problem.code == Code{} && pair)
        problem.code = judge.operand(match.operands[i + 1], view.function.children(o)[1]);
      const auto is_sink = [](const Operand& each) { return each.kind == Operand::Kind::sink; };
      if (problem.code == Code{} && pair && std::ranges::all_of(view.function.children(o), is_sink))
        problem.code = Code::sink_operand;
    } else {
      problem.code = judge.operand(p, o);
      if (problem.code == Code{} && p.kind == OperandKind::address && o.kind == Operand::Kind::address)
        judge.inner(std::span(match.operands).subspan(i + 1, parts), o, problem);
    }
    if (problem.code != Code{}) return problem;
    i += parts;
  }
  return {};
}

}  // namespace

Problem fit_operands(const View& view, const isa::Match& match, const ir::Instruction& instruction, Excuses* excuses) {
  const OperandJudge judge(view, match, excuses);
  const int given = static_cast<int>(instruction.count);
  Problem first{Code::operand_count, -1, nullptr, nullptr};
  if (given < match.required) return first;
  if (match.groups == 1) return given == match.required ? fit_choice(judge, view, match, instruction, 1) : first;
  for (unsigned groups = match.groups;; groups = (groups - 1) & match.groups) {
    if ((groups & 1) == 1 && operands_of(match, groups) == given) {
      Problem problem = fit_choice(judge, view, match, instruction, groups);
      problem.groups = static_cast<std::uint8_t>(groups);
      if (!problem) return problem;
      const bool nearer = problem.operand == first.operand && first.code == Code::operand_kind;
      if (first.code == Code::operand_count || problem.operand > first.operand || nearer) first = problem;
    }
    if (groups <= 1) return first;
  }
}

}  // namespace ptx::check
