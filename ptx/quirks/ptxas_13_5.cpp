// The functions of ptxas_13_5.def: of which operands its rows are true.
#include "ptx/quirks/detail/ptxas_13_5.h"

#include <algorithm>
#include <bit>

namespace ptx::quirks::ptxas_13_5 {

using ir::is_warp_size;
using ir::Operand;
using isa::agrees;
using isa::Type;
using isa::TypeKind;
using Kind = Operand::Kind;

namespace {

// What the functions below are made of.

std::span<const Operand> elements(const Case& c) {
  return c.given->kind == Kind::vector ? c.view.function.children(*c.given) : std::span<const Operand>(c.given, 1);
}
Type type_of(const Case& c, const Operand& o) {
  return o.kind == Kind::reg ? c.view.function.registers[o.id].type : Type::none;
}
int width(const Case& c, const Operand& o) { return isa::info(type_of(c, o)).bits; }
std::string_view name(const Case& c) { return c.match.form->text(c.pattern->row->name); }
bool is_vector(const Case& c) { return c.given->kind == Kind::vector; }
bool is_plain_register(const Case& c) {
  return c.given->kind == Kind::reg &&
         (c.view.function.registers[c.given->id].vector == 1 || c.given->component != 0xff);
}
bool is_integer(const Operand& o) { return o.kind == Kind::integer || is_warp_size(o); }
bool is_float(const Operand& o) { return o.kind == Kind::f32 || o.kind == Kind::f64; }
bool is_integer(Type type) { return isa::is_integer(isa::info(type).kind); }
std::int32_t low_half(const Operand& o) { return is_warp_size(o) ? 32 : static_cast<std::int32_t>(o.bits); }

template <class Is>
bool all(const Case& c, Is is) {
  const auto list = elements(c);
  return std::all_of(list.begin(), list.end(), is);
}
bool is_size(std::size_t n) { return n == 1 || n == 2 || n == 4; }

// Whether a register or a number may stand for one element of the pattern.
bool fits(const Case& c, const Operand& o) {
  const Type want = c.pattern->type;
  if (o.kind == Kind::reg) return agrees(want, type_of(c, o), c.pattern->wider);
  if (c.pattern->row->destination) return false;
  if (is_integer(o)) return is_integer(want);
  return is_float(o) &&
         (isa::info(want).kind == TypeKind::floating || want == (o.kind == Kind::f32 ? Type::b32 : Type::b64));
}
const Operand* base(const Case& c) {
  if (c.given->kind != Kind::address || c.given->child_count == 0) return nullptr;
  return &c.view.function.children(*c.given)[0];
}
// The variable that an operand names, as far as names are known.
const ir::Variable* variable(const Case& c, const Operand& o) {
  const ir::Symbol* symbol =
      o.kind == Kind::symbol && c.view.symbols ? c.view.symbols->find(o.id, c.view.statement) : nullptr;
  return symbol ? symbol->variable : nullptr;
}
std::string_view geometry(const Case& c) { return c.match.value("geom"); }
bool is_plain(std::string_view geometry) { return geometry == "1d" || geometry == "2d" || geometry == "3d"; }

}  // namespace

// Conditions about operands.

bool any(const Case&) { return true; }
bool integer(const Case& c) { return is_integer(*c.given); }
bool sink(const Case& c) { return c.given->kind == Kind::sink; }
bool shared_sink(const Case& c) {
  return sink(c) && !c.match.has("async") && isa::name(c.match.space()).starts_with("shared");
}
bool predicate(const Case& c) { return is_plain_register(c) && type_of(c, *c.given) == Type::pred; }
// Before the predicate that enables the input.
bool mask(const Case& c) { return predicate(c) && type_of(c, c.given[1]) == Type::pred; }
bool f16x2(const Case& c) { return type_of(c, *c.given) == Type::f16x2; }
bool f16x2_of_bytes(const Case& c) {
  return f16x2(c) && (c.pattern->type == Type::u8x4 || c.pattern->type == Type::s8x4);
}
bool negated_predicate(const Case& c) { return predicate(c) && c.pattern->type == Type::pred; }
bool state_for_sink(const Case& c) { return width(c, *c.given) == 64 && c.match.space() == isa::Space::generic; }
bool late_f16x2(const Case& c) { return f16x2(c) && c.pattern->type == Type::pred && c.view.target.sm.number >= 90; }
bool f16x2_of_predicate(const Case& c) { return f16x2(c) && c.pattern->type == Type::pred; }
bool f16x2_base(const Case& c) { return base(c) && type_of(c, *base(c)) == Type::f16x2; }
bool half_integer(const Case& c) { return width(c, *c.given) == 16; }
bool wide_bits(const Case& c) {
  return c.match.type("dtype") == Type::f16x2 && width(c, *c.given) > 32 &&
         isa::info(type_of(c, *c.given)).kind == TypeKind::bits;
}
bool wider_integer(const Case& c) {
  const int want = isa::info(c.pattern->type).bits, have = width(c, *c.given);
  return is_integer(c.pattern->type) && have > want && have <= 64 && is_integer(type_of(c, *c.given));
}
bool register_plus_number(const Case& c) {
  if (c.given->kind != Kind::sum || c.pattern->row->destination) return false;
  const Operand& reg = c.view.function.children(*c.given)[0];
  const bool of_function = c.match.space() == isa::Space::param || c.match.space() == isa::Space::param_func;
  return is_integer(type_of(c, reg)) && fits(c, reg) && !of_function;
}
bool one_element(const Case& c) { return is_vector(c) && elements(c).size() == 1 && fits(c, elements(c)[0]); }
bool scalar_of_vector(const Case& c) {
  if (c.given->kind == Kind::special) {
    const auto* special = isa::special_register(Name::from_id(c.given->id).view());
    return c.match.form->is(isa::Trait::special_sources) && is_integer(c.pattern->type) && special &&
           isa::info(special->type).bits == 32;
  }

  if (c.given->kind == Kind::symbol && c.match.form->is(isa::Trait::variable_sources) && !is_warp_size(*c.given))
    return is_integer(c.pattern->type) && variable(c, *c.given);
  return !is_vector(c) && fits(c, *c.given);
}

// Numbers of 8, 6 and 4 bits.
static bool is_small_float(Type type) {
  const std::string_view name = isa::info(type).name;
  return name.starts_with("ue") || name.starts_with('e');
}
bool short_vector_of_packed(const Case& c) {
  return is_vector(c) && is_small_float(c.pattern->type) && isa::info(c.pattern->type).bits == 32 &&
         is_size(elements(c).size()) && all(c, [&](const Operand& o) { return type_of(c, o) == Type::b32; });
}
bool fp8_register(const Case& c) {
  return is_small_float(c.pattern->type) && all(c, [&](const Operand& o) {
           return width(c, o) == isa::info(c.pattern->type).bits ||
                  (c.pattern->row->destination && isa::info(c.pattern->type).bits == 32 && type_of(c, o) == Type::pred);
         });
}
bool fp8_number(const Case& c) {
  return isa::info(c.pattern->type).bits == 32 && is_small_float(c.pattern->type) &&
         (is_integer(*c.given) || c.given->kind == Kind::f32);
}

bool long_integer(const Case& c) { return is_integer(type_of(c, *c.given)) && width(c, *c.given) == 64; }
bool bare_integer(const Case& c) { return is_integer(type_of(c, *c.given)) && width(c, *c.given) >= 32; }
bool bare_mbarrier(const Case& c) {
  return !c.match.has("multicast::cluster") && !c.match.has("multicast::cluster::16b") &&
         !c.match.has("multicast::cluster::32b") && !c.match.has("ignore_oob") && !c.match.has("L2::cache_hint") &&
         (is_integer(*c.given) || long_integer(c));
}
bool bare_tensor_address(const Case& c) {
  return is_float(*c.given) || (is_plain_register(c) && type_of(c, *c.given) != Type::pred);
}
bool register_base(const Case& c) { return base(c) && base(c)->kind == Kind::reg; }
bool value_base(const Case& c) { return register_base(c) && type_of(c, *base(c)) != Type::pred; }
bool surface_base(const Case& c) {
  const ir::Variable* named = base(c) ? variable(c, *base(c)) : nullptr;
  return named && named->opaque == "surfref";
}
bool texture_or_surface_base(const Case& c) {
  const ir::Variable* named = base(c) ? variable(c, *base(c)) : nullptr;
  return surface_base(c) || (named && named->opaque == "texref");
}
bool double_base(const Case& c) { return base(c) && type_of(c, *base(c)) == Type::f64; }
bool shared_base(const Case& c) {
  const ir::Variable* named = base(c) ? variable(c, *base(c)) : nullptr;
  return named && named->space == isa::Space::shared;
}
bool any_base(const Case& c) {
  if (!base(c)) return false;
  if (base(c)->kind == Kind::reg) return width(c, *base(c)) > 1 && width(c, *base(c)) <= 64;
  return base(c)->kind == Kind::symbol || base(c)->kind == Kind::integer;
}

// An untyped register makes the assembler pass over the types of those beside it that are as wide, and takes a
// predicate for a result of 32 bits. Two other types may not stand side by side.
static bool side_by_side(const Case& c, const Operand& one, const Operand& other) {
  const auto typed = [&](const Operand& o) {
    return o.kind == Kind::reg && isa::info(type_of(c, o)).kind != TypeKind::bits;
  };
  if (!typed(one) || !typed(other) || type_of(c, one) == type_of(c, other)) return true;
  return is_integer(type_of(c, one)) && is_integer(type_of(c, other));
}
bool untyped_among_others(const Case& c) {
  if (!is_vector(c)) return false;
  const auto list = elements(c);
  const auto untyped = std::find_if(list.begin(), list.end(), [&](const Operand& o) {
    return isa::info(type_of(c, o)).kind == TypeKind::bits && fits(c, o);
  });
  if (untyped == list.end()) return false;
  const bool result = c.pattern->row->destination;
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (!side_by_side(c, list[i - 1], list[i])) return false;
  }
  return all(c, [&](const Operand& o) {
    if (o.kind == Kind::sink) return result;
    if (o.kind != Kind::reg) return !result && (is_float(o) || fits(c, o));
    return width(c, o) == width(c, *untyped) || (result && type_of(c, o) == Type::pred && width(c, *untyped) == 32);
  });
}

// Behind the operands that every texture instruction of the kind has.
static std::span<const Operand> behind(const Case& c) {
  return c.view.function.operands_of(c.instruction).subspan(c.match.has("level") ? 3 : c.match.has("grad") ? 4 : 2);
}
bool one_coordinate(const Case& c) {
  return is_plain_register(c) && fits(c, *c.given) && !geometry(c).starts_with('a') && !geometry(c).ends_with("ms");
}
bool one_coordinate_of_surface(const Case& c) {
  const bool any_geometry = c.pattern->type == Type::s32 && !c.match.has("v4");
  return any_geometry ? is_plain_register(c) && fits(c, *c.given) : one_coordinate(c);
}
bool more_coordinates(const Case& c) {
  const bool sampler = c.match.has("grad") && c.view.function.operands_of(c.instruction)[1].count() == 3;
  return geometry(c) == "1d" && !sampler && is_vector(c) && elements(c).size() == 2 &&
         all(c, [&](const Operand& o) { return fits(c, o); });
}
bool offsets(const Case& c) {
  const std::size_t n = is_vector(c) ? elements(c).size() : 4;
  const bool grad = c.match.has("grad") && c.view.target.sm.number >= 90;
  if (grad && !is_vector(c) && behind(c).size() == 2) return false;
  if (n < c.pattern->length || n == 3 || n > 4 ||
      (geometry(c).ends_with("cube") && (is_vector(c) || c.match.has("grad"))))
    return false;
  return all(c, [&](const Operand& o) { return !is_float(o) && width(c, o) <= 32 && fits(c, o); });
}
bool words(const Case& c) {
  return is_vector(c) && is_size(elements(c).size()) &&
         all(c, [&](const Operand& o) { return is_integer(o) || (is_integer(type_of(c, o)) && width(c, o) == 32); });
}
bool one_element_or_more(const Case& c) {
  return is_vector(c) && is_size(elements(c).size()) && all(c, [&](const Operand& o) { return fits(c, o); });
}
bool float_number(const Case& c) { return c.given->kind == Kind::f32; }
bool all_words_or_float(const Case& c) {
  if (!is_vector(c)) return c.given->kind == Kind::f32;
  return all(c, [&](const Operand& o) { return width(c, o) == 32; });
}
bool words_or_float(const Case& c) { return all_words_or_float(c) && (!is_vector(c) || is_size(elements(c).size())); }

// Without .vec: a vector that together is as wide as the type.
bool data_vector(const Case& c) {
  if (!is_vector(c) || !is_size(elements(c).size())) return false;
  int bits = 0;
  for (const Operand& o : elements(c)) {
    const bool number = is_integer(o) && !c.pattern->row->destination;
    if (!number && (width(c, o) == 0 || type_of(c, o) == Type::pred)) return false;
    bits += number ? 64 : width(c, o);
  }
  return bits >= isa::info(c.pattern->type).bits;
}
// With .vec: a number, or a register of at least two elements.
bool data_scalar(const Case& c) {
  if (c.given->kind != Kind::reg) return !is_vector(c) && fits(c, *c.given);
  return !c.match.has("p") && is_plain_register(c) && width(c, *c.given) >= 2 * isa::info(c.pattern->type).bits &&
         !(c.match.has("v4") && width(c, *c.given) == 128);
}

// Numbers are cut to 32 bits before their range is looked at.
bool cut(const Case& c) {
  const bool wide = c.given->value != low_half(*c.given);
  return c.given->kind == Kind::integer && wide && low_half(*c.given) >= c.pattern->row->low &&
         low_half(*c.given) <= c.pattern->row->high;
}
bool positive(const Case& c) { return is_integer(*c.given) && low_half(*c.given) > 0; }
bool not_negative(const Case& c) { return is_integer(*c.given) && c.given->value >= 0; }
bool of_report(const Case& c) {
  return c.match.has("phase_type::primary") && c.view.function.operands_of(c.instruction)[1].kind != Kind::address;
}
bool scale_of_d(const Case& c) { return (c.match.has("kind::i8") && !c.match.has("sp")) || cut(c); }
bool vector_of_128(const Case& c) {
  if (c.match.has("get_first_ctaid") || c.match.has("is_canceled")) return false;
  int bits = 0;
  for (const Operand& o : elements(c)) bits += is_integer(o) ? 64 : width(c, o);
  return is_vector(c) && bits == 128;
}

// From sm_100 on it makes several instructions of the larger shapes, and moves their results.
bool long_register(const Case& c) {
  const bool moved = c.view.target.sm.number >= 100 && c.match.value("shape").starts_with("m16");
  if (moved && c.pattern->row->destination) return false;
  return all(c, [&](const Operand& o) { return width(c, o) == 64 && is_integer(type_of(c, o)); });
}
// Predicates, too, where all are.
bool sparse_register(const Case& c) {
  return all(c, [&](const Operand& o) { return width(c, o) == 32; }) ||
         (name(c) == "d" && all(c, [&](const Operand& o) { return type_of(c, o) == Type::pred; }));
}
bool sparse_accumulator(const Case& c) { return c.pattern->type == Type::f32 && sparse_register(c); }
static bool beside_b32(const Case& c, bool predicates) {
  if (!is_vector(c) || isa::info(c.pattern->type).bits != 32) return false;
  const auto list = elements(c);
  const auto b32 = [&](const Operand& o) { return type_of(c, o) == Type::b32; };
  return std::any_of(list.begin(), list.end(), b32) && all(c, [&](const Operand& o) {
           const bool number = is_integer(o) || is_float(o);
           return width(c, o) == 32 || (predicates && type_of(c, o) == Type::pred) ||
                  (number && !c.pattern->row->destination);
         });
}
bool mma_beside_b32(const Case& c) { return beside_b32(c, name(c) == "d"); }
bool wmma_beside_b32(const Case& c) { return beside_b32(c, true); }
bool early_predicates(const Case& c) {
  const std::uint16_t target = c.view.target.sm.number;
  return target != 0 && target < 90 && all(c, [&](const Operand& o) { return type_of(c, o) == Type::pred; });
}
bool late_numbers(const Case& c) {
  return c.view.target.sm.number >= 90 && all(c, [](const Operand& o) { return is_integer(o); });
}
bool predicates(const Case& c) {
  return all(c, [&](const Operand& o) { return type_of(c, o) == Type::pred || width(c, o) == 32; });
}

// Conditions about rules, and about an operand too many.

static const Operand& last(const Case& c) { return c.view.function.operands_of(c.instruction).back(); }

static bool is_depth(const Case& c, const Operand& o) {
  return is_float(o) || type_of(c, o) == Type::f32 || type_of(c, o) == Type::b32;
}
// The predicate beside the destination is of PTX 7.1.
static bool has_predicate(const Case& c) { return c.view.function.operands_of(c.instruction)[0].kind == Kind::pair; }
static bool knows_predicate(const Case& c) { return !has_predicate(c) || c.view.target.has({7, 1}); }
// In unified mode the second of three parts of a texture's address is passed over, or is the coordinates.
static bool is_coordinate(const Case& c, const Operand& o) {
  const bool floats = c.match.type("ctype") == Type::f32, level = c.match.has("level");
  const bool geometries = is_plain(geometry(c)) || (level && floats && geometry(c) == "cube");
  if (!behind(c).empty() || !geometries || !agrees(c.match.type("ctype"), type_of(c, o), false)) return false;
  return level ? !floats || geometry(c) != "3d" : !floats && !c.match.has("grad");
}
bool coordinate_for_sampler(const Case& c) { return is_coordinate(c, *c.given); }
bool sampler_passed_over(const Case& c) {
  const Operand& address = c.view.function.operands_of(c.instruction)[1];
  if (c.view.target.independent || address.count() != 3) return false;
  const Operand& second = c.view.function.children(address)[1];
  if (is_coordinate(c, second)) return true;
  if (c.match.type("ctype") == Type::s32 && c.view.function.children(address)[2].kind != Kind::vector) return false;
  const auto rest = behind(c);
  const bool depth = !rest.empty() && is_depth(c, rest.back()), floats = c.match.type("ctype") != Type::s32;
  if (c.match.has("level")) {
    if (geometry(c) != "1d" && geometry(c) != "2d" && geometry(c) != "cube") return false;
    const bool level_vector = c.view.function.operands_of(c.instruction)[2].kind == Kind::vector;
    return floats || level_vector ? rest.empty() || depth : rest.size() == 1 && depth && !has_predicate(c);
  }
  const bool strict = c.match.has("grad") && c.view.target.sm.number >= 90;
  return is_plain(geometry(c)) && !(strict && (depth || geometry(c) == "3d"));
}
bool offset_of_cube(const Case& c) {
  return knows_predicate(c) && geometry(c) == "cube" && c.match.has("level") &&
         c.view.function.operands_of(c.instruction)[1].count() == 3;
}
bool offset_as_depth(const Case& c) {
  return knows_predicate(c) && behind(c).size() == 1 && c.match.type("ctype") == Type::s32 && geometry(c) != "3d" &&
         type_of(c, last(c)) == Type::b32;
}
bool selector_of_four(const Case& c) {
  const Operand& selector = c.view.function.operands_of(c.instruction)[5];
  return c.match.operands[0].type == Type::f32 && is_integer(selector) && selector.value <= 3;
}
bool scale_of_integers(const Case& c) {
  return c.match.has("kind::i8") &&
         (!c.match.has("sp") || static_cast<int>(c.instruction.count) == c.match.required + 1);
}
bool fp8_of_sm_100(const Case& c) {
  const isa::Target target = c.view.target.sm;
  const auto is_fp8 = [](std::string_view type) { return type == "e4m3" || type == "e5m2"; };
  return target.suffix != 0 && target.number >= 100 && target.number <= 110 && is_fp8(c.match.value("atype")) &&
         is_fp8(c.match.value("btype"));
}
bool sparse_fp8_of_sm_100(const Case& c) { return fp8_of_sm_100(c) && c.match.type("dtype") == Type::f32; }
bool cut_power_of_two(const Case& c) { return std::has_single_bit(static_cast<std::uint32_t>(low_half(last(c)))); }
bool without_mbarrier(const Case& c) {
  const bool last_is = c.match.form->text(c.match.operands.back().row->name) == "mbar";
  return last_is && c.match.value("vec").empty() && c.match.type() != Type::b128;
}
bool same_type(const Case& c) {
  const bool shared = c.match.space() == isa::Space::shared || c.match.space() == isa::Space::shared_cta;
  if (c.match.has("L2::cache_hint") || c.match.has("cas") ||
      (shared && c.view.target.sm.number >= 90 && !c.match.has("exch")))
    return false;
  const Type type = c.match.type();
  if (type == Type::none || isa::info(type).kind != TypeKind::bits) return false;
  const Operand& o = last(c);
  if (o.kind == Kind::reg) return agrees(type, type_of(c, o), false);
  return (o.kind == Kind::f32 && type == Type::b32) || (o.kind == Kind::f64 && type == Type::b64);
}

}  // namespace ptx::quirks::ptxas_13_5
