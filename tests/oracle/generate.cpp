#include "tests/oracle/generate.h"

#include <algorithm>
#include <bit>

#include "ptx/base/text.h"

namespace ptx::oracle {

using ir::Operand;
using isa::Type;
using Kind = Operand::Kind;

namespace {

Operand make(Kind kind, std::size_t id = ir::no_id) {
  Operand o;
  o.kind = kind, o.id = static_cast<std::uint32_t>(id);
  return o;
}
Operand symbol(std::string_view name) { return make(Kind::symbol, Name(name).id()); }
Operand number(std::int64_t value) {
  Operand o = make(Kind::integer);
  return o.value = value, o;
}
Operand floating(Kind kind, std::uint64_t bits) {
  Operand o = make(kind);
  return o.bits = bits, o;
}

ir::Variable bytes_named(std::string_view name, isa::Space space) {
  ir::Variable v;
  v.space = space, v.type = Type::b8, v.name = Name(name), v.dims = {256}, v.alignment = 16;
  return v;
}

ir::Variable opaque_named(std::string_view name, std::string_view type) {
  ir::Variable v;
  v.name = Name(name), v.opaque = type;
  return v;
}

// The type of register that stands for a type which none is declared with.
Type register_type(Type type) {
  if (type == Type::none) return Type::b32;
  const isa::TypeInfo& info = isa::info(type);
  if (info.declarable) return type;
  switch (info.bits <= 8 ? 8 : info.bits) {
    case 8: return Type::b8;
    case 16: return Type::b16;
    case 64: return Type::b64;
    default: return Type::b32;
  }
}

bool is_param(isa::Space s) {
  return s == isa::Space::param || s == isa::Space::param_entry || s == isa::Space::param_func;
}

// Modifiers of a few instructions that the assembler ignores in all others (ptxas_13_5.def). Drawn as often as the
// rest, they would stand in most of what it takes outside the manual.
bool is_ignored(std::string_view modifier) {
  static constexpr std::string_view modifiers[] = {"normal",
                                                   "number",
                                                   "infinite",
                                                   "finite",
                                                   "notanumber",
                                                   "subnormal",
                                                   "b8x16",
                                                   "b6x16_p32",
                                                   "b4x16_p64",
                                                   "pred",
                                                   "L1::32B",
                                                   "rank",
                                                   "elemtype",
                                                   "box_dim",
                                                   "global_address",
                                                   "global_dim",
                                                   "global_stride",
                                                   "element_stride",
                                                   "interleave_layout",
                                                   "swizzle_mode",
                                                   "swizzle_atomicity",
                                                   "fill_mode"};
  return std::find(std::begin(modifiers), std::end(modifiers), modifier) != std::end(modifiers);
}

const Modifiers& vocabulary() {
  static const Modifiers all = [] {
    Modifiers modifiers;
    for (const isa::Form& form : isa::forms()) {
      for (const isa::Modifier& m : form.modifiers) {
        if (m.slot == isa::Modifier::literal) modifiers.push_back(form.text(m.text));
      }
      for (const isa::Value& v : form.values) modifiers.push_back(form.text(v.text));
    }
    std::sort(modifiers.begin(), modifiers.end());
    modifiers.erase(std::unique(modifiers.begin(), modifiers.end()), modifiers.end());
    return modifiers;
  }();
  return all;
}

constexpr std::string_view variables[] = {"gv", "sv", "lv", "cv", "pv", "qv", "tx", "sf"};

}  // namespace

Pool::Pool() {
  module.functions.emplace_back();
  ir::Function& f = function();
  f.name = Name("k");
  for (std::size_t t = 1; t < std::size(isa::type_table); ++t) {
    if (!isa::type_table[t].declarable) continue;
    const Type type = static_cast<Type>(t);
    types.push_back(type);
    f.declarations.push_back({static_cast<std::uint32_t>(f.registers.size()), per_type, true});
    f.body.push_back({ir::Statement::Kind::registers, static_cast<std::uint32_t>(f.declarations.size() - 1), {}});
    for (int i = 0; i < per_type; ++i) f.registers.push_back({type, 1, Name(cat(isa::type_table[t].name, '_')), i});
  }
  module.variables = {bytes_named("gv", isa::Space::global), bytes_named("sv", isa::Space::shared),
                      bytes_named("cv", isa::Space::const_), opaque_named("tx", "texref"),
                      opaque_named("sf", "surfref")};
  for (std::uint32_t i = 0; i < 5; ++i) module.items.push_back({ir::Module::Item::Kind::variable, i});
  module.items.push_back({ir::Module::Item::Kind::function, 0});
  f.variables = {bytes_named("lv", isa::Space::local), bytes_named("qv", isa::Space::param)};
  f.parameters = {bytes_named("pv", isa::Space::param)};
  f.body.push_back({ir::Statement::Kind::variable, 0, {}});
  f.body.push_back({ir::Statement::Kind::variable, 1, {}});
  f.body.push_back({ir::Statement::Kind::instruction, 0, {}});
  f.body.push_back({ir::Statement::Kind::label, Name("lab").id(), {}});
  f.body.push_back({ir::Statement::Kind::instruction, 1, {}});
  f.instructions.resize(2);
  f.instructions[1].mnemonic = isa::resolve("ret");
}

Operand Pool::reg(Type type, int index) {
  std::uint32_t first = 0;
  for (std::size_t t = 1; t < static_cast<std::size_t>(type); ++t)
    first += isa::type_table[t].declarable ? per_type : 0;
  return make(Kind::reg, first + static_cast<std::uint32_t>(index));
}

Operand Pool::compound(Kind kind, const Operands& children) {
  auto& pool = function().operands;
  Operand o = make(kind, pool.size());
  o.child_count = static_cast<std::uint32_t>(children.size());
  pool.insert(pool.end(), children.begin(), children.end());
  return o;
}

ir::Instruction& Pool::put(const isa::Mnemonic& mnemonic, const Operands& operands) {
  ir::Function& f = function();
  ir::Instruction& i = f.instructions.front();
  i.mnemonic = &mnemonic;
  i.match = nullptr;
  i.first = static_cast<std::uint32_t>(f.operands.size());
  i.count = static_cast<std::uint32_t>(operands.size());
  f.operands.insert(f.operands.end(), operands.begin(), operands.end());
  return i;
}

std::string Pool::text() {
  const ir::Instruction& i = function().instructions.front();
  std::string text = i.mnemonic->text;
  for (std::uint32_t o = 0; o < i.count; ++o)
    text += cat(o ? ", " : " ", ir::to_string(function(), function().operands[i.first + o]));
  return text;
}

std::string join(const isa::Form& form, const Modifiers& modifiers) {
  std::string text(form.text(form.opcode));
  for (const auto& modifier : modifiers) text += cat('.', modifier);
  return text;
}

// Mnemonics

Choice Generator::first(const isa::Form& form) const {
  Choice c;
  c.values.assign(form.slots.size(), -1);
  for (const isa::Modifier& m : form.modifiers) {
    if (m.slot != isa::Modifier::literal && m.group == 0) c.values[m.slot] = 0;
  }
  return c;
}

Choice Generator::random(const isa::Form& form) const {
  Choice c = first(form);
  for (const isa::Modifier& m : form.modifiers) {
    if (m.group != 0 && (c.groups >> m.group & 1) == 0 && roll_(2)) c.groups |= 1u << m.group;
  }
  for (const isa::Modifier& m : form.modifiers) {
    if (m.slot == isa::Modifier::literal || (m.group != 0 && (c.groups >> m.group & 1) == 0)) continue;
    c.values[m.slot] = static_cast<int>(roll_(form.slots[m.slot].count));
  }
  return c;
}

void Generator::choose(const isa::Form& form, Choice& choice, std::size_t slot, int value) const {
  unsigned group = 0;
  for (const isa::Modifier& m : form.modifiers) {
    if (m.slot == slot && m.slot != isa::Modifier::literal) group = m.group;
  }
  choice.values[slot] = value;
  if (group == 0 || (choice.groups >> group & 1)) return;
  choice.groups |= 1u << group;
  for (const isa::Modifier& m : form.modifiers) {
    if (m.group == group && m.slot != isa::Modifier::literal && choice.values[m.slot] < 0) choice.values[m.slot] = 0;
  }
}

double Generator::combinations(const isa::Form& form) const {
  double n = 1;
  for (const isa::Modifier& m : form.modifiers) {
    if (m.slot != isa::Modifier::literal) n *= form.slots[m.slot].count + (m.group != 0);
  }
  return n;
}

// Odometer: the values of required slots, then braces as a whole with theirs.
bool Generator::next(const isa::Form& form, Choice& c) const {
  for (const isa::Modifier& m : form.modifiers) {
    const bool absent = m.group != 0 && (c.groups >> m.group & 1) == 0;
    if (m.slot == isa::Modifier::literal || absent) continue;
    if (++c.values[m.slot] < form.slots[m.slot].count) return true;
    c.values[m.slot] = 0;
  }
  unsigned all = 0;
  for (const isa::Modifier& m : form.modifiers) all |= m.group ? 1u << m.group : 0;
  c.groups = (c.groups | ~all) + 1;
  c.groups &= all;
  for (const isa::Modifier& m : form.modifiers) {
    if (m.slot != isa::Modifier::literal && m.group != 0) c.values[m.slot] = c.groups >> m.group & 1 ? 0 : -1;
  }
  return c.groups != 0;
}

Modifiers Generator::modifiers(const isa::Form& form, const Choice& choice) const {
  Modifiers list;
  for (const isa::Modifier& m : form.modifiers) {
    if (m.group != 0 && (choice.groups >> m.group & 1) == 0) continue;
    if (m.slot == isa::Modifier::literal) {
      list.push_back(form.text(m.text));
      continue;
    }
    const auto value = static_cast<std::size_t>(form.slots[m.slot].first + std::max(choice.values[m.slot], 0));
    list.push_back(form.text(form.values[value].text));
  }
  return list;
}

bool Generator::calls(const isa::Form& form) {
  return std::any_of(form.operands.begin(), form.operands.end(), [](const isa::OperandRow& row) {
    return row.kind == isa::OperandKind::function || row.kind == isa::OperandKind::prototype ||
           row.kind == isa::OperandKind::arguments;
  });
}

const isa::Match* Generator::match(const isa::Form& form, const Modifiers& modifiers) const {
  for (const isa::Match& m : isa::resolve(join(form, modifiers))->matches) {
    if (m.form == &form) return &m;
  }
  return nullptr;
}

std::vector<Modifiers> Generator::beside(const isa::Form& form, const Modifiers& modifiers) const {
  std::vector<Modifiers> found;
  Modifiers own;  // of the opcode's rows
  for (const isa::Form& f : isa::forms()) {
    if (f.text(f.opcode) != form.text(form.opcode)) continue;
    for (const isa::Value& v : f.values) own.push_back(f.text(v.text));
    for (const isa::Modifier& m : f.modifiers) {
      if (m.slot == isa::Modifier::literal) own.push_back(f.text(m.text));
    }
  }
  const auto any = [&](const Modifiers& from) {
    const std::string_view modifier = from[roll_(from.size())];
    return is_ignored(modifier) && roll_(64) ? from[roll_(from.size())] : modifier;
  };
  for (std::size_t i = 0; i < modifiers.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    Modifiers w = modifiers;
    w.erase(w.begin() + at), found.push_back(w);
    w = modifiers;
    w.insert(w.begin() + at, modifiers[i]), found.push_back(w);
    w = modifiers;
    w[i] = any(own), found.push_back(w);
    w = modifiers;
    w[i] = any(vocabulary()), found.push_back(w);
  }
  for (const Modifiers* from : {static_cast<const Modifiers*>(&own), &vocabulary()}) {
    if (from->empty()) continue;
    Modifiers w = modifiers;
    w.insert(w.begin() + static_cast<std::ptrdiff_t>(roll_(modifiers.size() + 1)), any(*from));
    found.push_back(w);
  }
  return found;
}

std::vector<Modifiers> Generator::orders(const Modifiers& modifiers, std::size_t at_most) const {
  std::vector<Modifiers> found;
  std::vector<std::size_t> order(modifiers.size());
  std::size_t all = 1;
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i, all = std::min<std::size_t>(all * (i + 1), 1000000);
  const auto keep = [&] {
    Modifiers w;
    for (const std::size_t i : order) w.push_back(modifiers[i]);
    found.push_back(w);
  };
  if (all <= at_most) {
    while (std::next_permutation(order.begin(), order.end())) keep();
    return found;
  }
  for (std::size_t n = 0; n < at_most; ++n) {
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[roll_(i + 1)]);
    keep();
  }
  return found;
}

// Operands

std::vector<unsigned> Generator::operand_groups(const isa::Match& match) const {
  unsigned all = 0;
  for (const isa::Pattern& p : match.operands) all |= p.group ? 1u << p.group : 0;
  std::vector<unsigned> found{0};
  for (unsigned g = all; g != 0; g = (g - 1) & all) found.push_back(g);
  return found;
}

Operands Generator::operands(const isa::Form& form, const isa::Match& match, unsigned groups, int changed, int change) {
  Operands list;
  form_ = &form;
  changes_.clear();
  pool_.function().operands.clear();
  next_.assign(std::size(isa::type_table), 0);
  for (std::size_t i = 0; i < match.operands.size(); ++i) {
    const isa::Pattern& p = match.operands[i];
    std::size_t parts = p.row->pair;  // behind the first
    while (i + parts + 1 < match.operands.size() && match.operands[i + parts + 1].row->inner) ++parts;
    if (p.group != 0 && (groups >> p.group & 1) == 0) {
      i += parts;
      continue;
    }
    const int here = static_cast<int>(list.size()) == changed ? change : 0;
    const int own = changes_of(p);
    int second = parts ? changes_of(match.operands[i + 1]) : 0;
    Operand o;
    if (parts && !p.row->pair) {  // changes of the first part, then of each further one
      Operands further;
      second = 0;
      // A sampler, which no module of the oracle has beside a texture.
      const bool drop = match.operands[i + 1].row->optional && (here == 0 || roll_(4));
      for (std::size_t part = 1; part <= parts; ++part) {
        const isa::Pattern& q = match.operands[i + part];
        const int its = changes_of(q), at = here - own - second;
        if (part == 1 && drop) continue;
        further.push_back(operand(q, at > 0 && at <= its ? at : 0));
        second += its;
      }
      o = address(p, here <= own ? here : 0, further);
    } else if (p.row->pair) {
      o = operand(p, here <= own ? here : 0);
      const Operand part = operand(match.operands[i + 1], here > own ? here - own : 0);
      if (!(p.row->pair_optional && here <= own && roll_(2))) o = pool_.compound(Kind::pair, {o, part});
    } else {
      o = operand(p, here);
    }
    list.push_back(o);
    changes_.push_back(own + second);
    i += parts;
  }
  return list;
}

Operand Generator::fresh(Type type) {
  return pool_.reg(type, next_[static_cast<std::size_t>(type)]++ % Pool::per_type);
}

Operand Generator::vector(Type type, std::size_t count) {
  Operands elements;
  for (std::size_t i = 0; i < count; ++i) elements.push_back(fresh(type));
  return pool_.compound(Kind::vector, elements);
}

// What no pattern asks for, or only one kind of them.
constexpr int strangers = 17, part_changes = 20;
Operand Generator::stranger(int change) {
  Operand negated = fresh(Type::pred);
  negated.negated = true;
  switch (change) {
    case 1: return negated;
    case 2: return number(static_cast<std::int64_t>(roll_(40)));
    case 3: return number(-1);
    case 4: return number(0x100000001);
    case 5: return floating(Kind::f32, 0x3f800000);
    case 6: return floating(Kind::f64, 0x3ff0000000000000);
    case 7: return make(Kind::sink);
    case 8: return make(Kind::special, Name("%tid.x").id());
    case 9: return make(Kind::special, Name("%clock64").id());
    case 10: return symbol("gv");
    case 11: return symbol("lab");
    case 12: return pool_.compound(Kind::address, {fresh(Type::u64)});
    case 13: return pool_.compound(Kind::pair, {fresh(Type::b32), fresh(Type::pred)});
    case 14: return vector(Type::b32, 1);
    case 15: return vector(Type::b32, 2);
    case 16: return vector(Type::f32, 4);
    default: return symbol("WARP_SZ");
  }
}

int Generator::changes_of(const isa::Pattern& p) const {
  const int types = static_cast<int>(pool_.types.size());
  switch (p.kind) {
    case isa::OperandKind::address: return types + static_cast<int>(std::size(variables)) + 7 + strangers;
    case isa::OperandKind::immediate: return 6 + strangers;
    case isa::OperandKind::value:
      return types + (p.length ? 6 : 0) + strangers + (p.row->selector == isa::Selector::none ? 0 : part_changes);
    default: return 1 + strangers;
  }
}

Operand Generator::operand(const isa::Pattern& p, int change) {
  switch (p.kind) {
    case isa::OperandKind::address: return address(p, change, {});
    case isa::OperandKind::immediate: return immediate(p, change);
    case isa::OperandKind::value:
      if (p.row->opaque != isa::Opaque::none && change == 0) return fresh(Type::u64);
      return p.row->selector == isa::Selector::none ? value(p, change) : part(p, change);
    case isa::OperandKind::any: return value(p, change);
    default: return other(p, change);
  }
}

Operand Generator::other(const isa::Pattern& p, int change) {
  if (change > strangers) return fresh(Type::b64);
  if (change > 0) return stranger(change);
  switch (p.kind) {
    case isa::OperandKind::sink: return make(Kind::sink);
    case isa::OperandKind::label: return symbol("lab");
    case isa::OperandKind::symbol: return symbol(p.space == isa::Space::shared ? "sv" : "gv");
    case isa::OperandKind::arguments: return pool_.compound(Kind::list, {symbol("qv")});
    default: return symbol("proto");
  }
}

Operand Generator::address(const isa::Pattern& p, int change, const Operands& coordinates) {
  const auto bracket = [&](Operand base, std::int64_t offset = 0) {
    Operands children{base};
    children.insert(children.end(), coordinates.begin(), coordinates.end());
    Operand o = pool_.compound(Kind::address, children);
    return o.value = offset, o;
  };
  const Operand usual = p.row->opaque == isa::Opaque::surfref ? symbol("sf")
                        : p.row->opaque != isa::Opaque::none  ? symbol("tx")
                        : is_param(p.space)
                            ? symbol(p.space == isa::Space::param_func || form_->id.starts_with("st") ? "qv" : "pv")
                            : pool_.reg(p.type == Type::none ? Type::u64 : register_type(p.type), 0);
  if (change == 0) return bracket(usual);
  if (static_cast<std::size_t>(change) <= pool_.types.size())
    return bracket(pool_.reg(pool_.types[static_cast<std::size_t>(change - 1)], 1));
  change -= static_cast<int>(pool_.types.size());
  if (static_cast<std::size_t>(change) <= std::size(variables))
    return bracket(symbol(variables[static_cast<std::size_t>(change - 1)]));
  change -= static_cast<int>(std::size(variables));
  switch (change) {
    case 1: return bracket(usual, 16);
    case 2: return bracket(usual, -3);
    case 3: return bracket(symbol("gv"), 4);
    case 4: return bracket(number(16));
    case 5: return bracket(symbol("lab"));
    case 6: return pool_.compound(Kind::address, {usual, vector(Type::b32, 1 + roll_(5))});  // other coordinates
    case 7: return coordinates.empty() ? pool_.reg(Type::u64, 0) : pool_.compound(Kind::address, {usual});
    default: return stranger(change - 7);
  }
}

Operand Generator::immediate(const isa::Pattern& p, int change) {
  const bool ranged = p.row->low <= p.row->high;
  switch (change) {
    case 0: return number(ranged ? p.row->high : 1);
    case 1: return number(ranged ? p.row->high + 1 : 0);
    case 2: return number(ranged ? p.row->low - 1 : 77);
    case 3: return number(ranged ? p.row->low : 0x7fffffff);
    case 4: return number(ranged ? (p.row->low + p.row->high) / 2 : 0x80000000);
    case 5: return fresh(Type::b32);
    case 6: return fresh(Type::u64);
    default: return stranger(change - 6);
  }
}

// A value of which the row takes a part: with one where it must have one, then every kind of part, and a minus.
Operand Generator::part(const isa::Pattern& p, int change) {
  static constexpr std::string_view parts[] = {"b0",  "b3",  "b4",  "h0",   "h1",    "h2",    "h10",   "h01", "h32",
                                               "h34", "b20", "b02", "b210", "b3210", "b0123", "b7654", "b00", "x1"};
  static_assert(std::size(parts) + 2 == part_changes);
  const int plain = changes_of(p) - part_changes;
  Operand o = value(p, change <= plain ? change : 0);
  if (o.kind != Kind::reg) return o;
  const std::size_t asked = static_cast<std::size_t>(change - plain - 1);
  std::string_view selector = change > plain && asked < std::size(parts) ? parts[asked] : std::string_view();
  if (selector.empty() && change == plain + part_changes) {
    for (const std::string_view part : parts) selector = isa::selects(p.row->selector, part) ? part : selector;
  }
  o.minus = change == plain + part_changes - 1;
  if (!selector.empty()) o.component = Operand::part, o.value = Name(selector).id();
  return o;
}

Operand Generator::value(const isa::Pattern& p, int change) {
  std::size_t n = p.length;
  Type element = register_type(p.type);
  if (p.row->pack) {
    n = 2;
    const int bits = isa::info(element).bits;
    element = bits == 16 ? Type::b8 : bits == 32 ? Type::b16 : bits == 64 ? Type::b32 : Type::b64;
  }
  const auto usual = [&](Type type) { return n == 0 ? fresh(type) : vector(type, n); };
  if (change == 0) return usual(element);
  if (static_cast<std::size_t>(change) <= pool_.types.size())
    return usual(pool_.types[static_cast<std::size_t>(change - 1)]);
  change -= static_cast<int>(pool_.types.size());
  if (p.length == 0) return stranger(change);
  switch (change) {
    case 1: return vector(element, n + 1);
    case 2: return vector(element, std::max<std::size_t>(n, 2) - 1);
    case 3: return fresh(element);
    case 4:
    case 5:
    case 6: {  // one element of another kind
      Operands elements;
      const std::size_t odd = roll_(n);
      for (std::size_t i = 0; i < n; ++i) {
        elements.push_back(i != odd      ? fresh(element)
                           : change == 4 ? make(Kind::sink)
                           : change == 5 ? number(1)
                                         : fresh(pool_.types[roll_(pool_.types.size())]));
      }
      return pool_.compound(Kind::vector, elements);
    }
    default: return stranger(change - 6);
  }
}

}  // namespace ptx::oracle
