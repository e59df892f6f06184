// The Builder's core: appending instructions and statements, places, labels.
#include "ptx/author/builder.h"

#include <algorithm>
#include <bit>

#include "ptx/author/detail/alive.h"
#include "ptx/author/detail/names.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/expression.h"
#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/isa/literal.h"
#include "ptx/syntax/parse.h"

namespace ptx::author {

std::shared_ptr<Draft> draft_of(const Options& options) {
  auto draft = std::make_shared<Draft>();
  draft->module.version = options.version;
  draft->module.target = options.target;
  draft->module.target_place = options.place;
  draft->module.address_size = options.address_size;
  draft->target = check::target_of(draft->module);
  return draft;
}

Builder::Builder(Options options) : Builder(options, draft_of(options)) { state_->alone = true; }

Builder::Builder(Options options, std::shared_ptr<Draft> module)
    : options_(std::move(options)), place_(options_.place), state_(std::make_unique<State>()) {
  state_->target = module->target;
  const bool named = !options_.name.empty();  // what stands beside kernels is not
  if (named) check_name(*this, "a kernel", options_.name);
  if (named && !module->names.insert(Name(options_.name)).second && !module->may_define(Name(options_.name)))
    refuse(Code::duplicate_name, cat('`', options_.name, "` is declared already in this module"));
  state_->draft = std::move(module);
  ir::Function& f = state_->function;
  f.name = Name(options_.name);
  f.linking = options_.linking;
  f.attributes = options_.attributes;
  f.directives = options_.directives;
  f.place = options_.place;
  born(*this);
}

Builder::~Builder() { gone(*this); }

void Builder::refuse(Code code, std::string message) const {
  throw Refused(Diagnostics{Diagnostic(code, place_, std::move(message))});
}

bool Builder::State::holds(std::uint64_t token) const {
  if (token >> 32 != epoch) return false;
  const auto id = static_cast<std::uint32_t>(token);
  if (id == 0) return true;
  for (const Region& region : regions) {
    if (region.id == id) return true;
  }
  return false;
}

namespace {

bool in_range(const ir::Operand& number, isa::Type type) {
  const isa::TypeInfo& info = isa::info(type);
  const bool integer =
      info.kind == isa::TypeKind::bits || info.kind == isa::TypeKind::unsigned_ || info.kind == isa::TypeKind::signed_;
  if (!integer || info.bits < 8 || info.bits >= 64) return true;
  if (number.wide) return false;
  return number.value >= -(std::int64_t{1} << (info.bits - 1)) && number.value < (std::int64_t{1} << info.bits);
}

bool spell_real(ir::Operand& number, double value, isa::Type type) {
  using isa::Type;
  if (type == Type::f32 || type == Type::b32 || type == Type::tf32) {
    number.kind = ir::Operand::Kind::f32;
    number.bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return true;
  }
  if (type == Type::f64 || type == Type::b64) {
    number.kind = ir::Operand::Kind::f64;
    number.bits = std::bit_cast<std::uint64_t>(value);
    return true;
  }
  return false;
}

// A number as the instruction's type writes it; false if it cannot.
bool spell(ir::Operand& number, isa::Type type, bool as_written = false) {
  const bool real = number.kind == ir::Operand::Kind::f64;
  if (real) return spell_real(number, std::bit_cast<double>(number.bits), type);
  if (type == isa::Type::f32 || type == isa::Type::f64 || type == isa::Type::tf32) {
    return spell_real(number, number.wide ? static_cast<double>(number.bits) : static_cast<double>(number.value), type);
  }
  return as_written || in_range(number, type);
}

bool is_hidden(const Builder::State& s, ir::RegisterId id) {
  return std::any_of(s.blocks.begin(), s.blocks.end(), [&](const auto& block) { return block.hidden.contains(id); });
}

// The first register of the operands that cannot be named here: another one hides its name, or its block is closed.
ir::RegisterId unreachable(const Builder::State& s, std::span<const ir::Operand> operands) {
  for (const ir::Operand& o : operands) {
    const ir::RegisterId inner = o.child_count ? unreachable(s, s.function.children(o)) : ir::no_id;
    if (inner != ir::no_id) return inner;
    if (o.kind == ir::Operand::Kind::reg && (is_hidden(s, o.id) || s.ended.contains(o.id))) return o.id;
  }
  return ir::no_id;
}

ir::RegisterId unreachable(const Builder::State& s, std::span<const ir::Operand> operands, const ir::Guard& guard) {
  if (guard.reg != ir::no_id && (is_hidden(s, guard.reg) || s.ended.contains(guard.reg))) return guard.reg;
  return unreachable(s, operands);
}

}  // namespace

namespace {

// p|q behind the first operand is a value, as no source is a pair of predicates.
bool is_condition(const Operand& o) { return o.ir.kind == ir::Operand::Kind::pair && o.type == isa::Type::pred; }

}  // namespace

// Appends the operands, those of addresses first; where one is refused, nothing. The place of the first.
std::size_t Builder::append(const isa::Mnemonic& mnemonic, std::span<const Operand> operands, bool elements) {
  ir::Function& f = state_->function;
  const std::size_t before = f.operands.size();
  // table[2] is an address, [table+8], except for mov and cvta, which take its value, table+8. The base of the address
  // is a child operand.
  const bool addresses = elements && !mnemonic.is(isa::Trait::element_addresses);
  if (addresses) {
    for (const Operand& o : operands) {
      if (o.literal != Operand::Literal::element) continue;
      f.operands.push_back(o.ir);
      f.operands.back().value = 0;
    }
  }
  const std::size_t first = f.operands.size();
  auto base = static_cast<std::uint32_t>(before);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    if ((o.builder && o.builder != this) || (o.is_register() && o.ir.id == ir::no_id)) {
      f.operands.resize(before);
      refuse(Code::foreign_register, cat('`', mnemonic.text, "`: operand ", i + 1,
                                         o.builder ? " is a register or memory of " : " is a register of ",
                                         o.builder ? "another kernel" : "no kernel: k.scalar(type) makes one"));
    }
    f.operands.push_back(o.ir);
    ir::Operand& put = f.operands.back();
    bool spelled = true;
    if (o.literal == Operand::Literal::element) {
      if (!addresses) continue;
      put.kind = ir::Operand::Kind::address;
      put.id = base++;
      put.child_count = 1;
    } else if (o.literal != Operand::Literal::none) {
      spelled = spell(put, isa::literal_type(mnemonic, i, operands.size()), o.as_written);
    } else if (put.kind >= ir::Operand::Kind::symbol) {
      spelled = resolve(mnemonic, put, i, operands.size());
    }
    if (!spelled) {
      f.operands.resize(before);
      refuse_number(mnemonic, i, o);
    }
  }
  return first;
}

void Builder::emit(const isa::Mnemonic* mnemonic, std::span<const Operand> operands, ir::Guard guard) {
  bool pairs = false, elements = false;
  for (const Operand& o : operands) {
    pairs |= o.ir.kind == ir::Operand::Kind::pair;
    elements |= o.literal == Operand::Literal::element;
  }
  if (pairs && std::any_of(operands.begin() + 1, operands.end(), is_condition)) {
    std::vector<Operand> joined(operands.begin(), operands.end());
    for (std::size_t i = 1; i < joined.size(); ++i)
      if (is_condition(joined[i])) joined[i] = Operand(condition(joined[i]));
    return emit(mnemonic, joined, guard);
  }
  State& s = *state_;
  ir::Function& f = s.function;
  const std::size_t before = f.operands.size();
  const auto undo = [&] { f.operands.resize(before); };
  make_room(f.operands, 2 * operands.size());
  make_room(f.instructions);
  const std::size_t first = append(*mnemonic, operands, elements);
  if (s.inside_scope() || !s.ended.empty()) {
    const ir::RegisterId id = unreachable(s, std::span(f.operands).subspan(first), guard);
    if (id != ir::no_id) {
      undo();
      refuse_unreachable(*mnemonic, id);
    }
  }
  ir::Instruction made{mnemonic, nullptr, static_cast<std::uint32_t>(first),
                       static_cast<std::uint32_t>(operands.size()), guard};
  if (auto wrong = check::check_instruction(s.target, f, made, place_)) {
    if (wrong->severity != Severity::error) {
      s.notes.push_back(std::move(*wrong));
    } else {
      undo();
      throw Refused(Diagnostics{std::move(*wrong)});
    }
  }
  s.statement(ir::Statement::Kind::instruction, static_cast<std::uint32_t>(f.instructions.size()), place_);
  f.instructions.push_back(made);
  if (mnemonic->is(isa::Trait::branches)) s.branched = true;
}

// The parts of a compound operand, and registers written as text. False if a number cannot be spelled.
bool Builder::resolve(const isa::Mnemonic& mnemonic, ir::Operand& operand, std::size_t i, std::size_t count) {
  using Kind = ir::Operand::Kind;
  ir::Function& f = state_->function;
  if (operand.kind == Kind::symbol) {
    const std::string_view text = Name::from_id(operand.id).view();
    if (!text.starts_with('%')) return true;
    if (const auto reg = named(text)) operand = Operand(*reg).ir;
    return true;
  }
  for (std::uint32_t c = 0; c < operand.child_count; ++c) {
    ir::Operand& child = f.operands[operand.id + c];
    const bool as_written = child.component == unspelled_text;
    if ((as_written || child.component == unspelled) && (child.kind == Kind::integer || child.kind == Kind::f64)) {
      child.component = 0xff;
      const isa::Type type = operand.kind == Kind::vector ? isa::literal_type(mnemonic, i, count) : isa::Type::none;
      if (!spell(child, type, as_written)) return false;
    } else if (child.kind >= Kind::symbol) {
      if (!resolve(mnemonic, child, operand.kind == Kind::address ? none : i, count)) return false;
    }
  }
  return true;
}

void Builder::refuse_number(const isa::Mnemonic& mnemonic, std::size_t i, const Operand& number) const {
  if (mnemonic.matches.empty()) {  // no instruction: `add` without a type, say
    ir::Instruction alone{&mnemonic, nullptr, 0, 0, {}};
    auto wrong = check::check_instruction(state_->target, state_->function, alone, place_);
    if (wrong && wrong->severity == Severity::error) throw Refused(Diagnostics{std::move(*wrong)});
  }
  const isa::Type type = isa::literal_type(mnemonic, i, mnemonic.matches.empty() ? 0 : i + 1);
  Text text;
  text << '`' << mnemonic.text << "`: ";
  if (number.literal == Operand::Literal::integer) {
    number.ir.wide ? text << number.ir.bits : text << number.ir.value;
  } else if (number.literal == Operand::Literal::real) {
    Text real;
    real.real(std::bit_cast<double>(number.ir.bits));
    const bool whole = real.view().find_first_of(".en") == std::string_view::npos;  // 1, not 1.5, 1e30, inf, nan
    text << real.view() << (whole ? ".0" : "");
  } else {
    text << "a number";
  }
  text << " as operand " << i + 1 << " is not a value of "
       << (type == isa::Type::none ? "its type" : isa::info(type).name);
  if (type == isa::Type::none && !mnemonic.matches.empty())
    text << "; the form is `" << mnemonic.matches.front().form->syntax << '`';
  if (isa::info(type).bits == 16 && isa::info(type).kind == isa::TypeKind::floating)
    text << "; 16-bit floating point has no literals: put it into a register";
  refuse(Code::literal_type, text.take());
}

void Builder::refuse_unreachable(const isa::Mnemonic& mnemonic, std::uint32_t id) const {
  const std::string name = ir::name(state_->function.registers[id]);
  if (!state_->ended.contains(id))
    refuse(Code::duplicate_name,
           cat('`', mnemonic.text, "`: ", name, " is hidden by a register of the same name in the open scope"));
  refuse(Code::undefined_name, cat('`', mnemonic.text, "`: ", name,
                                   " was declared in a scope() that is closed: declare it before the scope"));
}

ir::Guard Builder::guard(const Reg& predicate) const {
  if (predicate.builder != this) refuse(Code::foreign_register, "a guard is a predicate of another kernel");
  if (predicate.type != isa::Type::pred || predicate.special)
    refuse(Code::bad_operand, cat("a guard has to be a predicate, not ", predicate.name(), " of type ",
                                  isa::info(predicate.type).name, ": x != 0 converts a number to one"));
  return {predicate.id, false};
}

ir::Guard Builder::guard(const Not& predicate) const {
  ir::Guard guard = this->guard(predicate.reg);
  guard.negated = true;
  return guard;
}

Operand Builder::vector(std::span<const Operand> elements) {
  ir::Function& f = state_->function;
  Operand made;
  made.builder = this;
  made.ir.kind = ir::Operand::Kind::vector;
  made.ir.id = static_cast<std::uint32_t>(f.operands.size());
  made.ir.child_count = static_cast<std::uint32_t>(elements.size());
  for (const Operand& e : elements) {
    if (e.builder && e.builder != this)
      refuse(Code::foreign_register, "the list {...} has a register of another kernel");
    if (e.type != isa::Type::none) made.type = e.type;
  }
  for (const Operand& e : elements) {
    f.operands.push_back(e.ir);
    if (e.literal != Operand::Literal::none) f.operands.back().component = e.as_written ? unspelled_text : unspelled;
  }
  return made;
}

Operand Builder::list(std::span<const Operand> elements) {
  Operand made = vector(elements);
  made.ir.kind = ir::Operand::Kind::list;
  return made;
}

Operand Builder::vector(const RegArray& registers) {
  ir::Function& f = state_->function;
  if (registers.builder != this) refuse(Code::foreign_register, "an array of another kernel");
  Operand made;
  made.builder = this;
  made.type = registers.type;
  made.ir.kind = ir::Operand::Kind::vector;
  made.ir.id = static_cast<std::uint32_t>(f.operands.size());
  made.ir.child_count = registers.count;
  for (std::uint32_t i = 0; i < registers.count; ++i) {
    ir::Operand element;
    element.kind = ir::Operand::Kind::reg;
    element.id = registers.first + i;
    f.operands.push_back(element);
  }
  return made;
}

Operand Builder::pair(const Operand& left, const Operand& right) {
  Operand made = vector({left, right});
  made.ir.kind = ir::Operand::Kind::pair;
  return made;
}

Operand Builder::bracket(std::span<const Operand> parts) {
  std::vector<Operand> all(parts.begin(), parts.end());
  std::int64_t offset = 0;
  if (!all.empty() && all[0].ir.kind == ir::Operand::Kind::address) {  // [a+16, {x, y}]
    const Address start = address(all[0]);
    offset = start.offset;
    all[0] = Operand(start.base, all[0].builder, start.type);
  }
  Operand made = vector(all);
  made.ir.kind = ir::Operand::Kind::address;
  made.ir.value = offset;
  return made;
}

Operand Builder::coordinates(const Address& base, std::span<const Operand> at) {
  const Operand parts[] = {Operand(base.base), vector(at)};
  Operand made = bracket(parts);
  made.ir.value = base.offset;
  return made;
}

Address Builder::address(const Operand& base, std::int64_t offset) {
  using Kind = ir::Operand::Kind;
  Address made{this, base.ir, base.type, offset};
  switch (base.ir.kind) {
    case Kind::reg:
      if (base.builder && base.builder != this)
        refuse(Code::foreign_register, "an address is in a register of another kernel");
      break;
    case Kind::special: {
      const Reg copy = from(base, base.type);
      made.base = Operand(copy).ir;
      break;
    }
    case Kind::address: {
      made.base = state_->function.operands[base.ir.id];
      made.type = made.base.kind == Kind::reg ? state_->function.registers[made.base.id].type : isa::Type::none;
      made.offset += base.ir.value;
      break;
    }
    case Kind::symbol:
      made.offset += made.base.value;
      made.base.value = 0;
      break;
    case Kind::element:
      if (offset != 0) refuse(Code::bad_operand, "an element with a register as index, a[r], takes no offset in bytes");
      break;
    case Kind::integer: break;
    default: refuse(Code::bad_operand, "the base of an address must be a register, a symbol or a number");
  }
  return made;
}

void Builder::label(std::string_view text) {
  State& s = *state_;
  check_name(*this, "a label", text);
  const Name name(text);
  if (!s.blocks.back().labels.insert(name).second)
    refuse(Code::duplicate_label, cat("label `", text, "` stands already in this block"));
  s.labels.insert(name);
  s.statement(ir::Statement::Kind::label, name.id(), place_);
}

std::string Builder::fresh_label(std::string_view prefix) {
  for (;;) {
    std::string text = cat("$_", prefix, '_', state_->next_label++);
    if (state_->labels.insert(Name(text)).second) return text;
  }
}

std::string Builder::loop_label(std::string_view wanted) {
  std::string text(wanted);
  for (int n = 1; state_->labels.contains(Name(text)); ++n) text = cat(wanted, '_', n);
  state_->latest_loop[std::string(wanted)] = text;
  return text;
}

std::string Builder::label_name(std::string_view written) const {
  const State& s = *state_;
  for (auto loop = s.loops.rbegin(); loop != s.loops.rend(); ++loop) {
    if (loop->written == written) return loop->label;
  }
  const auto latest = s.latest_loop.find(std::string(written));
  return latest == s.latest_loop.end() ? std::string(written) : latest->second;
}

void Builder::comment(std::string_view text) {
  State& s = *state_;
  s.statement(ir::Statement::Kind::comment, static_cast<std::uint32_t>(s.function.texts.size()), place_);
  s.function.texts.emplace_back(text);
}

void Builder::directive(std::string_view text) {
  State& s = *state_;
  s.statement(ir::Statement::Kind::directive, static_cast<std::uint32_t>(s.function.texts.size()), place_);
  s.function.texts.emplace_back(text);
}

namespace {

// Text as if it stood in a module, or in a body, with what is wrong with it.
ir::Lowered lowered_alone(std::string_view text, bool in_body) {
  constexpr std::string_view module = ".version 9.4\n.target sm_90a\n", body = ".entry k()\n{\n";
  syntax::Parsed parsed = syntax::parse(cat(module, in_body ? body : "", text, in_body ? "\n}\n" : "\n"));
  ir::Lowered made = ir::lower(parsed.tree);
  made.diagnostics.insert(made.diagnostics.begin(), parsed.diagnostics.begin(), parsed.diagnostics.end());
  return made;
}

// The same; refused at the author's line, with the line of the text where that has several.
ir::Module lowered(const Builder& b, std::string_view text, bool in_body) {
  ir::Lowered made = lowered_alone(text, in_body);
  // A guard is a register of the body that the text is to stand in: the check of the whole knows it.
  if (in_body) std::erase_if(made.diagnostics, [](const auto& one) { return one.code == Code::undeclared_guard; });
  if (in_body && made.module.functions.size() > 1)
    b.refuse(Code::open_block, cat('`', text, "` closes the body of the kernel: a `}` has its `{` in the same text"));
  if (!has_error(made.diagnostics)) return std::move(made.module);
  const std::uint32_t above = in_body ? 4 : 2, line = made.diagnostics.front().place.line;
  const std::string where = text.find('\n') == text.npos
                                ? cat('`', text, '`')
                                : cat("line ", line > above ? line - above : 1, " of the text");
  b.refuse(made.diagnostics.front().code, cat(where, ": ", made.diagnostics.front().message));
}

// Whether this line of text is declarations alone, which are then the builder's.
bool declares(Builder& b, std::string_view line) {
  if (line.front() != '.') return false;
  ir::Lowered made = lowered_alone(line, true);
  return !has_error(made.diagnostics) && declare_as_text(b, made.module.functions.front());
}

}  // namespace

void Builder::text(std::string_view statements) {
  lowered(*this, statements, true);
  state_->draft->has_text = true;
  constexpr std::string_view blanks = " \t\r";
  std::ptrdiff_t depth = 0;  // of braces in the text
  while (!statements.empty()) {
    const std::size_t end = std::min(statements.find('\n'), statements.size());
    std::string_view line = statements.substr(0, end);
    statements.remove_prefix(std::min(end + 1, statements.size()));
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    line = line.substr(0, line.find_last_not_of(blanks) + 1);
    if (line.empty()) continue;
    constexpr std::string_view tables[] = {".branchtargets", ".calltargets", ".callprototype"};
    if (std::any_of(std::begin(tables), std::end(tables), [&](auto word) { return line.find(word) != line.npos; }))
      table(line);
    else if (line.back() == ':' && line.find_first_of(" \t/;") == line.npos)
      label(line.substr(0, line.size() - 1));
    else if (depth != 0 || !declares(*this, line))
      directive(line);
    depth += std::count(line.begin(), line.end(), '{') - std::count(line.begin(), line.end(), '}');
  }
}

void Builder::table(std::string_view text) {
  State& s = *state_;
  const ir::Module module = lowered(*this, text, true);
  const ir::Function& f = module.functions.front();
  if (f.tables.size() != 1 || f.body.size() != 2 || f.tables[0].label == ir::no_id)
    refuse(Code::bad_argument,
           cat('`', text, "` is no label in front of .branchtargets, .calltargets or .callprototype"));
  label(Name::from_id(f.tables[0].label).view());
  s.function.tables.push_back(f.tables[0]);
  s.function.tables.back().statement = static_cast<std::uint32_t>(s.function.body.size());
  directive(f.texts[f.body[1].index]);
}

void Builder::declare(std::string_view text) {
  ir::Module module = lowered(*this, text, false);
  if (module.functions.empty() || module.functions.size() != module.items.size())
    refuse(Code::bad_argument, cat('`', text, "` declares no function"));
  for (const ir::Function& f : module.functions)
    if (!f.declaration)
      refuse(Code::bad_argument,
             cat("`", f.name.view(), "` has a body, but only declarations are taken here: use module_text"));
  take(std::move(module));
}

void Builder::module_text(std::string_view text) {
  ir::Module module = lowered(*this, text, false);
  if (module.items.empty()) refuse(Code::bad_argument, cat('`', text, "` is not a statement of a module"));
  take(std::move(module));
}

void Builder::take(ir::Module module) {
  using Kind = ir::Module::Item::Kind;
  Draft& draft = *state_->draft;
  for (const ir::Module::Item& item : module.items) {
    if (item.kind == Kind::variable) {
      draft.names.insert(module.variables[item.index].name);
      draft.add(std::move(module.variables[item.index]), place_);
    } else if (item.kind == Kind::function) {
      ir::Function& f = module.functions[item.index];
      f.place = place_;
      for (ir::Statement& s : f.body) s.place = place_;
      draft.has_text |= !f.declaration;
      if (!draft.names.insert(f.name).second && !f.declaration && draft.defines(f.name))
        refuse(Code::duplicate_name, cat('`', f.name.view(), "` is declared already in this module"));
      draft.add(std::move(f));
    } else if (std::string& found = module.texts[item.index]; found.starts_with(".section") && !options_.as_written) {
      draft.sections.push_back(std::move(found));
    } else {
      draft.add(std::move(found), place_);
    }
  }
}

void Builder::location(std::uint32_t file, std::uint32_t line, std::uint32_t column, std::string_view inlined) {
  State& s = *state_;
  s.statement(ir::Statement::Kind::location, static_cast<std::uint32_t>(s.function.locations.size()), place_);
  s.function.locations.push_back({file, line, column, std::string(inlined)});
}

void Builder::file(std::uint32_t index, std::string_view name) {
  state_->draft->add(cat(".file ", index, " \"", name, '"'), {});
}

void Builder::variable(ir::Variable declared, bool in_module) {
  State& s = *state_;
  check_name(*this, "a variable", declared.name.view());
  using isa::Space;
  if (declared.space == Space::shared_cta) declared.space = Space::shared;  // the same, and what a declaration says
  constexpr Space declarable[] = {Space::const_, Space::global, Space::local, Space::param, Space::shared, Space::tex};
  if (std::find(std::begin(declarable), std::end(declarable), declared.space) == std::end(declarable))
    refuse(Code::bad_argument,
           cat("a variable lies in const, global, local, param or shared, not in ", isa::name(declared.space)));
  if (in_module) {
    s.draft->names.insert(declared.name);
    s.draft->add(std::move(declared), {});
    return;
  }
  if (s.inside_scope() || options_.as_written) return s.declare_here(std::move(declared), place_);
  s.function.variables.push_back(std::move(declared));
}

void Builder::open_scope() {
  State& s = *state_;
  s.open(State::Open::scope);
  s.blocks.emplace_back();
  s.statement(ir::Statement::Kind::open, 0, place_);
}

void Builder::close_scope() {
  State& s = *state_;
  if (s.regions.empty() || s.regions.back().what != State::Open::scope)
    refuse(Code::open_block, "the innermost open block is not a scope");
  s.regions.pop_back();
  for (const ir::RegisterDeclaration& d : s.blocks.back().own) {
    for (std::uint32_t i = 0; i < d.count; ++i) s.ended.insert(d.first + i);
  }
  s.blocks.pop_back();
  s.statement(ir::Statement::Kind::close, 0, place_);
}

Built Builder::finish() {
  State& s = *state_;
  if (s.of) refuse(Code::bad_argument, "a function ends with finish_function()");
  if (s.finished) refuse(Code::open_block, "the kernel is finished already");
  if (!s.regions.empty())
    refuse(Code::open_block,
           cat(s.regions.size(), " block(s) of the kernel are still open",
               s.regions.back().what == State::Open::range ? "; a range_ loop cannot be left by break" : ""));
  Built built;
  settle(s, options_, built);
  s.finished = true;
  for (Diagnostic& note : s.notes) s.draft->notes.push_back(std::move(note));
  if (s.alone) s.draft->finish(built);
  return built;
}

namespace {

// Checks the printed text of a module that has text of the author's own; what is found names the author's lines.
void judge_text(const ir::Module& module) {
  std::vector<Place> lines;
  ir::Lowered lowered = ir::lower(syntax::parse(ir::emit(module, {}, &lines)).tree);
  Diagnostics why = check::check(lowered.module);
  why.insert(why.begin(), lowered.diagnostics.begin(), lowered.diagnostics.end());
  for (Diagnostic& diagnostic : why)
    if (diagnostic.place.line < lines.size()) diagnostic.place = lines[diagnostic.place.line];
  if (has_error(why)) throw Refused(std::move(why));
}

}  // namespace

bool Draft::may_define(Name name) const {
  const bool declared = std::any_of(module.functions.begin(), module.functions.end(),
                                    [&](const ir::Function& f) { return f.name == name && f.declaration; });
  return declared && !defines(name) && !functions.contains(name);
}

bool Draft::defines(Name name) const {
  return std::any_of(module.functions.begin(), module.functions.end(),
                     [&](const ir::Function& f) { return f.name == name && !f.declaration; });
}

void Draft::finish(Built& built) {
  for (std::string& text : sections) add(std::move(text), {});
  for (const auto& [name, function] : functions) {
    const Function::Entry& entry = *function.entry;
    if (entry.declared && !entry.finished && entry.head.linking != "extern")
      throw Refused(
          {Diagnostic(Code::undefined_name, entry.options.place,
                      cat('`', name.view(), "` is called and has no body; one of another module is .extern"))});
  }
  built.module = std::move(module);
  Diagnostics found = check::check(built.module, true);  // names, labels, flow
  if (has_error(found)) throw Refused(std::move(found));
  if (has_text) judge_text(built.module);
  built.notes = std::move(notes);
  for (Diagnostic& note : found)
    if (note.code != Code::assembler_only) built.notes.push_back(std::move(note));  // those are there already
}

}  // namespace ptx::author
