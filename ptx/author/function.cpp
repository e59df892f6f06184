// Functions: signatures, bodies, calls with their .param blocks, tables of indirect calls and branches (manual 7.1,
// 9.7.12.5, 11.2.2, 11.3).
#include "ptx/author/function.h"

#include <algorithm>
#include <bit>

#include "ptx/author/detail/alive.h"
#include "ptx/author/detail/call.h"
#include "ptx/author/detail/names.h"
#include "ptx/author/detail/state.h"
#include "ptx/base/text.h"
#include "ptx/check/check.h"

namespace ptx::author {
namespace {

using isa::Type;
using State = Builder::State;

std::uint32_t bytes_of(Type type) { return static_cast<std::uint32_t>(isa::info(type).bits) / 8; }

// Where each field of a structure lies, and how large it is as a whole.
struct Layout {
  std::vector<std::uint32_t> offsets;
  std::uint32_t bytes = 0, align = 1;
};
Layout layout_of(std::span<const Type> fields) {
  Layout layout;
  for (const Type field : fields) {
    const std::uint32_t size = std::max(1u, bytes_of(field));
    layout.bytes = (layout.bytes + size - 1) / size * size;
    layout.offsets.push_back(layout.bytes);
    layout.bytes += size;
    layout.align = std::max(layout.align, size);
  }
  layout.bytes = (layout.bytes + layout.align - 1) / layout.align * layout.align;
  return layout;
}

ir::Variable variable_of(const Builder& b, const Parameter& p, bool registers, Name name) {
  ir::Variable v;
  v.space = registers ? isa::Space::reg : isa::Space::param;
  v.name = name;
  for (const Type type : p.types) {
    if (type == Type::none || type == Type::pred)
      b.refuse(Code::bad_argument, cat("`", name.view(),
                                       "`: a function cannot take or return a predicate; pass "
                                       "a u32 that selp makes of it"));
    if (registers && isa::info(type).bits < 32)
      b.refuse(Code::bad_argument, cat("`", name.view(), "`: a parameter in .reg must have 32 bits or more, .",
                                       isa::info(type).name, " has ", isa::info(type).bits));
  }
  if (p.is_scalar()) {
    v.type = move_type(p.types.front());
    return v;
  }
  if (registers)
    b.refuse(Code::bad_argument, cat("`", name.view(), "`: structures and arrays must be passed in .param"));
  const Layout layout = layout_of(p.types);
  v.type = Type::b8;
  v.alignment = p.align ? p.align : layout.align;
  v.dims = {p.bytes ? p.bytes : layout.bytes};
  if (p.bytes == 0 && p.types.empty()) b.refuse(Code::bad_argument, cat("`", name.view(), "` has no types"));
  return v;
}

std::string spelled(const ir::Variable& v) {
  Text text;
  text << '.' << isa::name(v.space);
  if (v.alignment) text << " .align " << v.alignment;
  text << " ." << isa::info(v.type).name << " _";
  if (!v.dims.empty()) {
    text << '[';
    if (v.dims[0] > 0) text << v.dims[0];
    text << ']';
  }
  return text.take();
}

const isa::Mnemonic* moving(std::string_view opcode, Type type) {
  return isa::resolve(cat(opcode, isa::info(move_type(type)).name));
}

// The signature as ir, checked as a declaration of it would be.
ir::Function head_of(const Builder& b, const State& s, const FunctionOptions& o) {
  ir::Function head;
  head.name = Name(o.name);
  head.entry = false;
  head.linking = o.linking;
  head.attributes = o.attributes;
  head.directives = o.directives;
  head.place = o.place;
  if (o.returns.size() > 1 && !o.registers)
    b.refuse(Code::bad_argument, cat('`', o.name,
                                     "`: PTX returns one value in .param: one type, or a structure; several "
                                     "results are registers"));
  for (std::size_t i = 0; i < o.returns.size(); ++i) {
    if (o.returns[i].types.empty())
      b.refuse(Code::bad_argument, cat('`', o.name, "`: a result has types; an array of bytes is a structure"));
    head.returns.push_back(variable_of(b, o.returns[i], o.registers, Name(cat("func_retval", i))));
  }
  for (std::size_t i = 0; i < o.parameters.size(); ++i) {
    const std::string& given = o.parameters[i].name;
    head.parameters.push_back(
        variable_of(b, o.parameters[i], o.registers, Name(given.empty() ? cat(o.name, "_param_", i) : given)));
  }
  for (const auto& [type, name] : o.raw_returns) head.returns.push_back(raw_variable(b, type, name));
  for (const auto& [type, name] : o.raw_parameters) head.parameters.push_back(raw_variable(b, type, name));
  ir::Module alone;
  alone.version = s.draft->module.version;
  alone.target = s.draft->module.target;
  alone.address_size = s.draft->module.address_size;
  alone.functions.push_back(head);
  alone.functions.back().declaration = true;
  alone.items.push_back({ir::Module::Item::Kind::function, 0});
  Diagnostics found = check::check_part(alone);
  std::erase_if(found,
                [](const Diagnostic& d) { return d.code == Code::unknown_target || d.code == Code::target_version; });
  if (has_error(found)) throw Refused(std::move(found));
  return head;
}

void add_prototype(Function::Entry& entry) {
  entry.declared = true;
  ir::Function prototype = entry.head;
  prototype.declaration = true;
  entry.draft->add(std::move(prototype));
}

// Declares the function before its first use: adds a prototype unless its body stands above.
void require(const Builder& b, const State& s, const Function& function) {
  Function::Entry& entry = *function.entry;
  if (entry.draft != s.draft.get())
    b.refuse(Code::foreign_register, cat("function `", entry.options.name, "` belongs to another module"));
  const bool own = s.of && s.of->entry.get() == &entry;
  if (!entry.finished && !entry.declared && !own) add_prototype(entry);
}

}  // namespace

Parameter Parameter::array(std::int64_t bytes, std::uint32_t align, std::string name) {
  Parameter made(std::vector<Type>{}, std::move(name));
  made.bytes = bytes;
  made.align = align ? align : 1;
  return made;
}

const FunctionOptions& Function::options() const { return entry->options; }
std::string Function::name() const { return entry->options.name; }

void Draft::add(ir::Function function) {
  module.items.push_back(
      {ir::Module::Item::Kind::function, static_cast<std::uint32_t>(module.functions.size()), function.place});
  module.functions.push_back(std::move(function));
}
void Draft::add(ir::Variable variable, const Place& place) {
  module.items.push_back(
      {ir::Module::Item::Kind::variable, static_cast<std::uint32_t>(module.variables.size()), place});
  module.variables.push_back(std::move(variable));
}
void Draft::add(std::string text, const Place& place) {
  module.items.push_back({ir::Module::Item::Kind::directive, static_cast<std::uint32_t>(module.texts.size()), place});
  module.texts.push_back(std::move(text));
}

Function declare(Builder& b, FunctionOptions options) {
  State& s = b.state();
  if (options.place.line == 0) options.place = b.place();
  if (options.name.empty()) b.refuse(Code::bad_argument, "a function needs a name");
  if (options.linking == "extern" || options.linking.empty() || options.linking == "visible" ||
      options.linking == "weak") {
  } else {
    b.refuse(Code::bad_argument,
             cat("the linkage of a function is visible, weak, extern or \"\" (local to the module), not `",
                 options.linking, '`'));
  }
  const Name name(options.name);
  auto entry = std::make_shared<Function::Entry>();
  entry->head = head_of(b, s, options);
  if (options.returns.size() == 1) entry->offsets = layout_of(options.returns.front().types).offsets;
  entry->options = std::move(options);
  entry->draft = s.draft.get();
  if (!s.draft->names.insert(name).second && !s.draft->may_define(name))
    b.refuse(Code::duplicate_name, cat('`', name.view(), "` is declared already in this module"));
  if (entry->options.linking == "extern") add_prototype(*entry);
  return s.draft->functions[name] = Function{std::move(entry)};
}

Builder::Builder(const Function& function, Builder& caller)
    : options_{.name = function.name(),
               .target = caller.options().target,
               .version = caller.options().version,
               .place = function.options().place,
               .as_written = function.options().as_written,
               .bits = function.options().bits},
      place_(caller.place()),
      state_(std::make_unique<State>()) {
  born(*this);
  State& s = *state_;
  Function::Entry& entry = *function.entry;
  s.draft = caller.state().draft;
  s.target = s.draft->target;
  s.of = function;
  require(*this, s, function);
  if (entry.head.linking == "extern")
    refuse(Code::bad_argument, cat("`", function.name(), "` is .extern: its body is in another module"));
  if (entry.begun) refuse(Code::duplicate_name, cat("`", function.name(), "` has a body already"));
  entry.begun = true;
  s.function = entry.head;
  for (const auto* list : {&s.function.returns, &s.function.parameters}) {
    for (const ir::Variable& v : *list) {
      if (v.space != isa::Space::reg) continue;
      s.blocks.front().taken[v.name].push_back({-1, 1});
      s.counters[v.name].named = true;
      s.function.registers.push_back({v.type, v.vector, v.name, -1});
      s.product_of.push_back(none);
    }
  }
}

std::vector<std::vector<Operand>> arguments(Builder& b) {
  State& s = b.state();
  if (!s.of) b.refuse(Code::bad_argument, "a kernel has parameters, not arguments");
  const FunctionOptions& options = s.of->options();
  std::vector<std::vector<Operand>> made;
  auto reg = static_cast<ir::RegisterId>(options.registers ? options.returns.size() : 0);
  for (std::size_t i = 0; i < options.parameters.size(); ++i) {
    const Parameter& p = options.parameters[i];
    const Name name = s.of->entry->head.parameters[i].name;
    std::vector<Operand>& one = made.emplace_back();
    if (options.registers) {
      one.push_back(Reg{&b, reg++, p.types.front()});
      continue;
    }
    if (p.bytes != 0) one.push_back(symbol(name));
    const Layout layout = layout_of(p.types);
    for (std::size_t f = 0; f < p.types.size(); ++f) {
      const Reg value = b.scalar(p.types[f]);
      b.emit(moving("ld.param.", p.types[f]),
             std::array{Operand(value), Operand(b.address(symbol(name), layout.offsets[f]))});
      one.push_back(value);
    }
  }
  return made;
}

namespace {

// Whether a value may be passed where `type` is wanted.
bool passes(const State& s, const Operand& o, Type type) {
  const isa::TypeKind kind = isa::info(move_type(type)).kind;
  if (o.literal == Operand::Literal::integer) return true;
  if (o.literal == Operand::Literal::real) return kind == isa::TypeKind::floating;
  if (o.ir.kind == ir::Operand::Kind::special) return isa::agrees(move_type(type), o.type, false);
  if (o.ir.kind == ir::Operand::Kind::symbol) return bytes_of(type) == 8;
  if (o.ir.kind != ir::Operand::Kind::reg) return o.ir.kind < ir::Operand::Kind::symbol;
  return isa::agrees(move_type(type), s.function.registers[o.ir.id].type, isa::info(type).bits < 32);
}

std::string shown(const Builder& b, const Operand& o) {
  Text text;
  if (o.is_register()) {
    text << b.name(Reg{const_cast<Builder*>(&b), o.ir.id, o.type}) << " of type ." << isa::info(o.type).name;
  } else if (o.literal == Operand::Literal::real) {
    text.real(std::bit_cast<double>(o.ir.bits));
  } else {
    text << ir::to_string(const_cast<Builder&>(b).state().function, o.ir);
  }
  return text.take();
}

std::string list_of(std::span<const Type> types) {
  std::string text;
  for (const Type type : types) text += cat(text.empty() ? "." : ", .", isa::info(type).name);
  return text;
}

// Values for the fields of one parameter or result: as many, and each of its type.
void match(const Builder& b, const State& s, std::string_view what, std::span<const Operand> values,
           std::span<const Type> types) {
  if (values.size() != types.size())
    b.refuse(Code::wrong_arguments, cat(what, " is ", list_of(types), ": ", types.size(),
                                        types.size() == 1 ? " value" : " values", ", not ", values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].builder && values[i].builder != &b)
      b.refuse(Code::foreign_register, cat(what, " is a register of another function"));
    if (!passes(s, values[i], types[i]))
      b.refuse(Code::wrong_arguments, cat(what, " is .", isa::info(types[i]).name, ", not ", shown(b, values[i])));
  }
}

// An operand that st.param and mov take: special registers and symbols are copied to a register first.
Operand staged(Builder& b, const Operand& o, Type type) {
  const bool copied = o.ir.kind == ir::Operand::Kind::special || o.ir.kind == ir::Operand::Kind::symbol;
  return copied ? Operand(b.from(o, move_type(type))) : o;
}

// A number in the argument list of a call, spelled for the parameter's type.
Operand in_list(const Operand& o, Type type) {
  if (isa::info(type).kind != isa::TypeKind::floating || o.literal == Operand::Literal::none) return o;
  Operand made = o;
  const double value = o.is_integer() ? static_cast<double>(o.ir.value) : std::bit_cast<double>(o.ir.bits);
  made.literal = Operand::Literal::none;
  made.ir.kind = type == Type::f64 ? ir::Operand::Kind::f64 : ir::Operand::Kind::f32;
  made.ir.bits =
      type == Type::f64 ? std::bit_cast<std::uint64_t>(value) : std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return made;
}

// One call: its arguments are judged, then written with their block.
class Calling {
 public:
  Calling(Builder& b, std::string_view name, const FunctionOptions& signature, std::span<const Argument> arguments,
          const CallOptions& options)
      : b_(b),
        s_(b.state()),
        name_(name),
        signature_(signature),
        arguments_(arguments.begin(), arguments.end()),
        options_(options) {}

  std::vector<Reg> write(const Operand& callee, const std::string& table) {
    judge();
    copy_to_registers();
    std::vector<Reg> results;
    for (const Parameter& p : signature_.returns) {
      for (const Type type : p.types) results.push_back(b_.scalar(type));
    }
    s_.all_or_none(
        [&] { signature_.registers ? in_registers(callee, table, results) : in_block(callee, table, results); });
    return results;
  }

 private:
  // An array without fields takes values of any types, or a .param variable by its name.
  bool by_name(std::size_t i) const {
    return signature_.parameters[i].bytes != 0 && arguments_[i].size() == 1 &&
           arguments_[i][0].ir.kind == ir::Operand::Kind::symbol;
  }
  std::vector<Type> types(std::size_t i) const {
    if (signature_.parameters[i].bytes == 0) return signature_.parameters[i].types;
    std::vector<Type> made;
    for (const Operand& o : arguments_[i]) made.push_back(o.type);
    return made;
  }
  std::string what(std::size_t i) const {
    const std::string& name = signature_.parameters[i].name;
    return cat("`", name_, "`: argument ", i + 1, name.empty() ? "" : cat(" (", name, ")"));
  }

  void judge() {
    const std::size_t wanted = signature_.parameters.size();
    if (arguments_.size() != wanted)
      b_.refuse(Code::wrong_arguments, cat("`", name_, "` takes ", wanted, wanted == 1 ? " argument" : " arguments",
                                           ", not ", arguments_.size()));
    if (options_.guard.reg != ir::no_id && !signature_.returns.empty())
      b_.refuse(Code::bad_argument, cat("`", name_,
                                        "`: a call with a guard may leave its result undefined; branch around it, "
                                        "with if_"));
    for (std::size_t i = 0; i < wanted; ++i) {
      const Parameter& p = signature_.parameters[i];
      if (by_name(i)) continue;
      if (p.bytes != 0) judge_bytes(i);
      match(b_, s_, what(i), arguments_[i], types(i));
    }
  }
  void judge_bytes(std::size_t i) const {
    for (const Operand& o : arguments_[i]) {
      if (o.type == Type::none || o.type == Type::pred)
        b_.refuse(Code::wrong_arguments, cat(what(i),
                                             " is bytes: registers, whose types say how many each has, or the name "
                                             "of a .param variable"));
    }
    const std::int64_t bytes = signature_.parameters[i].bytes, given = layout_of(types(i)).bytes;
    if (bytes > 0 && given > bytes)
      b_.refuse(Code::wrong_arguments, cat(what(i), " has ", bytes, " bytes; the values have ", given));
    if (given == 0) b_.refuse(Code::wrong_arguments, cat(what(i), " needs at least one value"));
  }
  void copy_to_registers() {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (by_name(i)) continue;
      const std::vector<Type> wanted = types(i);
      for (std::size_t f = 0; f < wanted.size(); ++f) arguments_[i][f] = staged(b_, arguments_[i][f], wanted[f]);
    }
  }

  void emit_call(const std::vector<Operand>& returns, const Operand& callee, const std::vector<Operand>& passed,
                 const std::string& table) {
    std::vector<Operand> operands;
    if (!returns.empty()) operands.push_back(b_.list(returns));
    operands.push_back(callee);
    if (!passed.empty() || !returns.empty()) operands.push_back(b_.list(passed));
    if (!table.empty()) operands.push_back(symbol(Name(table)));
    b_.emit(isa::resolve(options_.uniform ? "call.uni" : "call"), operands, options_.guard);
  }

  void in_registers(const Operand& callee, const std::string& table, const std::vector<Reg>& results) {
    std::vector<Operand> passed;
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      passed.push_back(in_list(arguments_[i][0], signature_.parameters[i].types.front()));
    emit_call({results.begin(), results.end()}, callee, passed, table);
  }

  Name fresh(std::string text) const {
    const auto given = [&](const std::string& name) {
      for (std::size_t i = 0; i < arguments_.size(); ++i)
        if (by_name(i) && arguments_[i][0].ir.id == Name(name).id()) return true;
      return false;
    };
    while (given(text)) text = '_' + text;
    return Name(text);
  }
  Operand variable(const ir::Variable& like, std::string name, std::int64_t bytes) {
    ir::Variable v;
    v.space = isa::Space::param;
    v.type = like.type;
    v.alignment = like.alignment;
    v.dims = like.dims;
    if (!v.dims.empty() && v.dims[0] < 0) v.dims[0] = bytes;
    v.name = fresh(std::move(name));
    s_.declare_here(v, b_.place());
    return symbol(v.name);
  }

  void in_block(const Operand& callee, const std::string& table, const std::vector<Reg>& results) {
    const bool block = !signature_.parameters.empty() || !signature_.returns.empty();
    if (block) s_.statement(ir::Statement::Kind::open, 0, b_.place());
    std::vector<Operand> passed, returns;
    for (std::size_t i = 0; i < arguments_.size(); ++i) passed.push_back(pass(i));
    if (!signature_.returns.empty())
      returns.push_back(variable(variable_of(b_, signature_.returns[0], false, Name()), "retval0", 0));
    emit_call(returns, callee, passed, table);
    if (!returns.empty()) {
      const Layout layout = layout_of(signature_.returns[0].types);
      for (std::size_t i = 0; i < results.size(); ++i)
        b_.emit(moving("ld.param.", results[i].type),
                std::array{Operand(results[i]), Operand(b_.address(returns[0], layout.offsets[i]))});
    }
    if (block) s_.statement(ir::Statement::Kind::close, 0, b_.place());
  }
  Operand pass(std::size_t i) {
    if (by_name(i)) return arguments_[i][0];
    const std::vector<Type> fields = types(i);
    const Layout layout = layout_of(fields);
    const ir::Variable like = variable_of(b_, signature_.parameters[i], false, Name());
    const Operand to = variable(like, cat("param", i), layout.bytes);
    for (std::size_t f = 0; f < fields.size(); ++f)
      b_.emit(moving("st.param.", fields[f]), std::array{Operand(b_.address(to, layout.offsets[f])), arguments_[i][f]});
    return to;
  }

  Builder& b_;
  State& s_;
  std::string name_;
  const FunctionOptions& signature_;
  std::vector<Argument> arguments_;
  const CallOptions& options_;
};

bool ends(const ir::Function& f) {
  if (f.body.empty() || f.body.back().kind != ir::Statement::Kind::instruction) return false;
  const ir::Instruction& last = f.instructions[f.body.back().index];
  return last.guard.reg == ir::no_id &&
         (last.mnemonic->is(isa::Trait::ends) || last.mnemonic->is(isa::Trait::branches));
}

}  // namespace

void give(Builder& b, std::span<const Operand> values) {
  State& s = b.state();
  const std::string name = s.of ? s.of->name() : b.options().name;
  if (!s.of && !values.empty())
    b.refuse(Code::bad_argument, cat("`", name, "` is a kernel: it returns nothing; store the value"));
  const std::vector<Parameter> none_of{};
  const std::vector<Parameter>& returns = s.of ? s.of->options().returns : none_of;
  std::vector<Type> types;
  for (const Parameter& p : returns) types.insert(types.end(), p.types.begin(), p.types.end());
  if (types.empty() && !values.empty())
    b.refuse(Code::wrong_arguments, cat("`", name, "` returns nothing; give the type of its result in its signature"));
  match(b, s, cat("`", name, "`: the result"), values, types);
  const bool registers = s.of && s.of->options().registers;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Operand value = staged(b, values[i], types[i]);
    if (registers) {
      b.emit(moving("mov.", types[i]), std::array{Operand(Reg{&b, static_cast<ir::RegisterId>(i), types[i]}), value});
    } else {
      const Operand to = b.address(symbol(s.of->entry->head.returns[0].name), s.of->entry->offsets[i]);
      b.emit(moving("st.param.", types[i]), std::array{to, value});
    }
  }
  b.emit("ret");
}

void Builder::finish_function() {
  State& s = *state_;
  if (!s.of) refuse(Code::bad_argument, "a kernel ends with finish()");
  if (s.finished) refuse(Code::open_block, "the function is finished already");
  if (!s.regions.empty()) refuse(Code::open_block, cat(s.regions.size(), " block(s) of the function are still open"));
  const auto& directives = s.of->options().directives;
  const bool returning = std::find(directives.begin(), directives.end(), ".noreturn") == directives.end();
  if (returning && !is_raw(*s.of) && !ends(s.function)) {
    if (!s.of->options().returns.empty())
      refuse(Code::wrong_arguments,
             cat("`", options_.name, "` ends without a result: return one; in C++, f.give(result)"));
    emit("ret");
  }
  Built built;
  settle(s, options_, built);
  s.finished = true;
  for (Diagnostic& note : s.notes) s.draft->notes.push_back(std::move(note));
  s.of->entry->finished = true;
}

std::vector<Reg> call(Builder& b, const Function& function, std::span<const Argument> arguments,
                      const CallOptions& options) {
  State& s = b.state();
  if (is_raw(function)) return require(b, s, function), raw_call(b, function, arguments, options);
  Calling calling(b, function.name(), function.options(), arguments, options);
  require(b, s, function);
  return calling.write(symbol(Name(function.name())), {});
}

std::vector<Reg> call(Builder& b, const Reg& pointer, const CallTable& table, std::span<const Argument> arguments,
                      const CallOptions& options) {
  if (pointer.builder != &b || pointer.special || integer_bits(pointer.type) != 64)
    b.refuse(Code::bad_operand, "a function is called through a 64-bit register with its address");
  return Calling(b, cat("the call through ", pointer.name()), *table.signature, arguments, options)
      .write(pointer, table.label);
}

CallTable prototype(Builder& b, FunctionOptions signature) {
  CallTable made;
  made.label = signature.name.empty() ? b.fresh_label("prototype") : signature.name;
  signature.name = made.label;
  const ir::Function head = head_of(b, b.state(), signature);
  Text text;
  text << made.label << ": .callprototype ";
  const auto list = [&](const std::vector<ir::Variable>& variables) {
    text << '(';
    for (std::size_t i = 0; i < variables.size(); ++i) text << (i ? ", " : "") << spelled(variables[i]);
    text << ')';
  };
  if (!head.returns.empty()) list(head.returns), text << ' ';
  text << '_';
  if (!head.parameters.empty()) text << ' ', list(head.parameters);
  for (const std::string& directive : head.directives) text << ' ' << directive;
  text << ';';
  b.table(text.view());
  made.signature = std::make_shared<const FunctionOptions>(std::move(signature));
  return made;
}

CallTable call_targets(Builder& b, std::span<const Function> functions, std::string_view label) {
  if (functions.empty()) b.refuse(Code::bad_argument, "a table of functions needs at least one");
  CallTable made;
  made.label = label.empty() ? b.fresh_label("targets") : std::string(label);
  Text text;
  text << made.label << ": .calltargets ";
  for (const Function& f : functions) {
    require(b, b.state(), f);
    text << (&f == &functions[0] ? "" : ", ") << f.name();
  }
  text << ';';
  b.table(text.view());
  made.signature = std::shared_ptr<const FunctionOptions>(functions[0].entry, &functions[0].entry->options);
  return made;
}

std::string branch_targets(Builder& b, std::span<const std::string> labels, std::string_view label) {
  if (labels.empty()) b.refuse(Code::bad_argument, "a table of labels needs at least one");
  const std::string name = label.empty() ? b.fresh_label("targets") : std::string(label);
  Text text;
  text << name << ": .branchtargets ";
  for (std::size_t i = 0; i < labels.size(); ++i) text << (i ? ", " : "") << b.label_name(labels[i]);
  text << ';';
  b.table(text.view());
  return name;
}

Operand address_of(Builder& b, const Function& function) {
  require(b, b.state(), function);
  return symbol(Name(function.name()));
}

Function alias(Builder& b, std::string_view name, const Function& function) {
  FunctionOptions options = function.options();
  if (!function.entry->finished)
    b.refuse(Code::bad_argument,
             cat("`", options.name, "` has no body above this line; an alias must come after the body"));
  options.name = name;
  options.place = b.place();
  const Function made = declare(b, std::move(options));
  add_prototype(*made.entry);
  made.entry->finished = made.entry->begun = true;
  b.state().draft->add(cat(".alias ", name, ", ", function.name(), ";"), b.place());
  return made;
}

}  // namespace ptx::author
