// Declarations of variables and parameters, and the agreement of a function's declarations with each other
// (manual 5.4, 7.1, 11.2, 11.6).
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "ptx/base/text.h"
#include "ptx/check/detail/module.h"
#include "ptx/ir/initial.h"

namespace ptx::check {

namespace {

using ir::managed_since;
using ir::open_parameter_since;
using ir::pointer_since;
using ir::unified_since;
using ir::Variable;
using isa::Space;
using isa::Type;

// The values of an initializer, which is kept as text: {1, {2, 3}} against the dimensions and the vector length.
class Initializer {
 public:
  Initializer(const Variable& v, std::string_view text) : type_(v.type), text_(text) {
    for (const std::int64_t dim : v.dims) sizes_.push_back(dim);
    if (v.vector > 1) sizes_.push_back(v.vector);
    vector_ = v.vector > 1;
  }

  // What is wrong, or nothing.
  std::string_view judge() {
    const isa::TypeInfo& t = isa::info(type_);
    if (t.kind == isa::TypeKind::packed || type_ == Type::f16) return "its type has no initial values";
    return level(0);
  }

 private:
  using Kind = ir::Initial::Kind;

  char peek() {
    at_ = std::min(text_.find_first_not_of(" \t\n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::string_view level(std::size_t depth) {
    const bool brace = peek() == '{';
    if (brace != (depth < sizes_.size())) return "the nesting of its braces does not match the dimensions";
    if (!brace) return scalar();
    ++at_;
    std::int64_t n = 0;
    for (; peek() != '}' && peek() != '\0'; ++n) {
      if (const auto wrong = level(depth + 1); !wrong.empty()) return wrong;
      if (peek() == ',') ++at_;
    }
    ++at_;
    if (n == 0 && sizes_[depth] < 0) return "it has no value that says the size of the array";
    if (vector_ && depth + 1 == sizes_.size() && n != sizes_[depth]) return "a vector needs one value for each element";
    return sizes_[depth] > 0 && n > sizes_[depth] ? "it has more values than elements" : std::string_view();
  }

  std::string_view scalar() {
    const std::size_t begin = at_;
    for (int open = 0; peek() != '\0'; ++at_) {
      const char c = text_[at_];
      if (open == 0 && (c == ',' || c == '}')) break;
      open += (c == '(') - (c == ')');
    }
    const std::string_view value = text_.substr(begin, at_ - begin);
    const isa::TypeKind kind = isa::info(type_).kind;
    if (value.find_first_not_of("0123456789 -+\n") != value.npos) {
      const auto values = ir::initial_values(std::string(value));
      if (!values || values->size() != 1) return "it has a part without a value";
      const auto is = values->front().kind;
      if (is == Kind::single || is == Kind::real)
        return kind == isa::TypeKind::floating || kind == isa::TypeKind::bits
                   ? ""
                   : "integers take no floating-point number";
      if (is != Kind::integer) return {};
    }
    return kind == isa::TypeKind::floating ? "floating-point types take `1.0`, `0f3F800000` or `0d3FF0000000000000`"
                                           : std::string_view();
  }

  Type type_;
  std::string_view text_;
  std::vector<std::int64_t> sizes_;
  std::size_t at_ = 0;
  bool vector_ = false;
};

// What is wrong in the text between the parentheses of .attribute(...), or nothing.
std::string wrong_attribute(std::string_view text, bool of_function) {
  int attributes = 0;
  for (std::size_t at = text.find('.'); at != text.npos; at = text.find('.', at + 1), ++attributes) {
    const std::size_t end = std::min(text.find_first_of("(, \t", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const bool unified = word == ".unified";
    if (!unified && (word != ".managed" || of_function))
      return cat('`', word, "` is no attribute of a ",
                 of_function ? "function; it has .unified" : "variable; it has .managed and .unified");
    const std::size_t open = std::min(text.find_first_not_of(" \t", end), text.size());
    const std::string_view list = text.substr(open, text.find(')', open) - open);
    const bool listed = list.starts_with('(');
    if (unified && (!listed || std::count(list.begin(), list.end(), ',') != 1))
      return "`.unified` takes the two halves of an identifier, .unified(uuid1, uuid2)";
    if (!unified && listed) return "`.managed` takes no value";
  }
  return of_function && attributes > 1 ? "a function has one attribute" : "";
}

// One declaration, wherever it stands. Each function appends at most what is wrong of its kind.
class DeclarationJudge {
 public:
  DeclarationJudge(const ModuleTarget& target, const Variable& v, const Place& place, Diagnostics& found)
      : target_(target), v_(v), place_(place), found_(found) {}

  template <class... Parts>
  void refuse(const Parts&... what) const {
    found_.emplace_back(Code::directive_value, place_, cat('`', v_.name.view(), "`: ", what...));
  }
  template <class... Parts>
  void lacks(const isa::Requirement& need, const Parts&... what) const {
    found_.emplace_back(target_.runs(need) ? Code::needs_version : Code::needs_target, place_,
                        cat('`', v_.name.view(), "`: ", what..., " needs ", isa::to_string(need)));
  }

  void type() const {
    if (v_.alignment != 0 && !std::has_single_bit(v_.alignment))
      refuse("alignment ", v_.alignment, " is not a power of two");
    if (!v_.opaque.empty()) return;
    if (v_.type == Type::pred && v_.space != Space::reg) return refuse("a .pred variable can only be a register");
    const isa::TypeInfo& t = isa::info(v_.type);
    if (!t.declarable) return refuse("no variable is declared .", t.name, "; it takes bit types of that size");
    if (const auto* since = type_since(v_.type); since && !reaches(target_, *since)) lacks(*since, '.', t.name);
    if (v_.vector == 8 || t.bits * v_.vector > 128) refuse("a vector has 2 or 4 elements and at most 128 bits");
  }

  void linking() const {
    if (v_.linking.find(' ') != v_.linking.npos)
      refuse("a declaration takes only one of .extern, .visible, .weak and .common");
    if (v_.linking == "common" && (v_.space != Space::global || !v_.opaque.empty()))
      refuse("only .global variables can be .common, and none of an opaque type");
    if (v_.attributes.empty()) return;
    if (const std::string wrong = wrong_attribute(v_.attributes, false); !wrong.empty()) return refuse(wrong);
    if (v_.space != Space::global) return refuse("only .global variables take attributes");
    attribute(".managed", managed_since);
    attribute(".unified", unified_since);
  }

  void attribute(std::string_view word, const isa::Requirement& since) const {
    if (v_.attributes.find(word) != v_.attributes.npos && !reaches(target_, since)) lacks(since, word);
  }

  void initial_value() const {
    if (v_.initializer.empty() || !v_.opaque.empty()) return;
    if (v_.space != Space::global && v_.space != Space::const_)
      return refuse("only .global and .const variables take an initial value");
    if (is_extern(v_)) return refuse("an .extern variable cannot have an initial value");
    if (const auto wrong = Initializer(v_, v_.initializer).judge(); !wrong.empty()) refuse("initial value: ", wrong);
  }

  void size() const {
    const bool open = !v_.initializer.empty() || is_extern(v_);
    for (std::size_t i = 0; i < v_.dims.size(); ++i) {
      if (v_.dims[i] <= 0 && !(i == 0 && open && v_.dims[i] < 0))
        return refuse("only the first size of an .extern or initialised array may be left open");
    }
  }

  void opaque(bool module_scope) const {
    if (v_.opaque.empty()) return;
    if (!target_.has({1, 5})) lacks({{1, 5}, {}}, '.', v_.opaque);
    if (!module_scope || v_.space != Space::global) {
      return refuse("a .", v_.opaque, " is a .global variable of the module or a parameter of an .entry");
    }
    sampler();
  }
  void sampler() const {
    if (v_.opaque == "samplerref" && !target_.independent) refuse("a .samplerref needs .target texmode_independent");
  }

  // In .param, of a head or a body.
  void parameter_type() const {
    if (v_.vector > 1) return refuse("a .param variable cannot be a vector; declare an array");
    if (v_.opaque.empty() && v_.type == Type::f16x2) refuse("a .param variable cannot be .f16x2; declare .b32");
  }

  void module_space() const {
    if (v_.space == Space::global || v_.space == Space::const_ || v_.space == Space::shared) return;
    if (v_.space == Space::local && !target_.has({3, 0})) return;  // calls had no stack then
    if (v_.space == Space::tex) {
      if (target_.has({1, 5})) return refuse("`.tex` ended with PTX 1.5; write .global .texref");
      if (v_.type != Type::u32 && v_.type != Type::u64) refuse("a .tex variable must be .u32 or .u64");
      if (!v_.dims.empty()) refuse("a .tex variable cannot be an array");
      return;
    }
    refuse("a variable of the module is .global, .const or .shared, not .", isa::name(v_.space));
  }

  void body_space() const {
    if (!v_.linking.empty()) refuse("a variable in a body has no linkage, .", v_.linking);
    if (v_.space == Space::tex) refuse("a .tex variable must be declared outside of functions");
    if (v_.space == Space::param && !target_.has({2, 0}))
      refuse("before PTX 2.0 a .param variable is a parameter of an .entry");
    if (v_.space == Space::param) parameter_type();
  }

 private:
  const ModuleTarget& target_;
  const Variable& v_;
  const Place& place_;
  Diagnostics& found_;
};

// Of a function or of a .callprototype.
struct Signature {
  const std::vector<Variable>&returns, &parameters;
  bool entry;
  const Place& place;
};

void check_parameter(const ModuleTarget& target, const Signature& f, const Variable& v, bool last, Diagnostics& found) {
  const DeclarationJudge judge(target, v, f.place, found);
  judge.type();
  if (!v.linking.empty() || !v.initializer.empty() || v.count >= 0 || (v.space == Space::reg && !v.dims.empty()))
    return judge.refuse("a parameter has one name, no linkage and no initial value, and in .reg no sizes");
  if (v.space == Space::reg) {
    if (f.entry) judge.refuse("a parameter of an .entry must be in .param");
    return;
  }
  if (v.space != Space::param) return judge.refuse("a parameter must be in .param or .reg");
  if (!f.entry && !target.has({2, 0})) judge.refuse("before PTX 2.0 the parameters of a .func are in .reg");
  judge.parameter_type();
  if (!v.opaque.empty() && !f.entry) judge.refuse("only an .entry takes parameters of type .", v.opaque);
  judge.sampler();
  if (!v.pointer.empty() && !f.entry) judge.refuse(".ptr is for parameters of an .entry");
  if (!v.pointer.empty() && !target.has(pointer_since.version)) judge.lacks(pointer_since, ".ptr");
  if (v.dims.size() > 1) judge.refuse("a parameter can have only one dimension");
  if (!v.dims.empty() && v.dims[0] <= 0 && (f.entry || !last))
    return judge.refuse("only the last parameter of a .func may leave its size open");
  if (!v.dims.empty() && v.dims[0] < 0 && !reaches(target, open_parameter_since))
    judge.lacks(open_parameter_since, "a parameter of open size");
}

void check_signature(const ModuleTarget& target, const Signature& f, Diagnostics& found) {
  for (const Variable& v : f.returns) check_parameter(target, f, v, false, found);
  for (const Variable& v : f.parameters) check_parameter(target, f, v, &v == &f.parameters.back(), found);
  const bool in_memory =
      std::any_of(f.returns.begin(), f.returns.end(), [](const Variable& v) { return v.space == Space::param; });
  if (f.returns.size() > 1 && in_memory)
    found.emplace_back(Code::directive_value, f.place, "a function can return only one value in .param");
}

// Whether two parameters are passed alike.
bool same_parameter(const Variable& a, const Variable& b) {
  return a.type == b.type && a.vector == b.vector && a.space == b.space && a.dims == b.dims && a.opaque == b.opaque &&
         alignment(a) == alignment(b);
}
bool same_parameters(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_parameter);
}

}  // namespace

void check_name(Name name, bool of_module, const Place& place, Diagnostics& found) {
  const std::string_view text = name.view();
  const bool special = of_module && (text == "_" || (text.starts_with('%') && isa::special_register(text)));
  if (!special && text != "WARP_SZ" && text != "$") return;
  found.emplace_back(Code::reserved_name, place, cat("nothing can be named `", text, "`: PTX reserves the name"));
}

void check_variable(const ModuleTarget& target, const Variable& v, bool module_scope, const Place& place,
                    Diagnostics& found) {
  const DeclarationJudge judge(target, v, place, found);
  judge.type(), judge.linking(), judge.initial_value(), judge.size(), judge.opaque(module_scope);
  module_scope ? judge.module_space() : judge.body_space();
}

namespace {

// A name in an initial value, and what stands around it: g+4, generic(g), 0xff(g).
struct InitialName {
  std::string_view text;
  bool generic = false, masked = false, offset = false;
};

// Calls `take` with each of them. Numbers, casts `(.u64)` and the operator % name nothing.
template <class Take>
void each_initial_name(std::string_view text, Take take) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$%0123456789.";
  InitialName name;
  for (std::size_t at = 0; (at = text.find_first_of(letters, at)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_not_of(letters, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    const std::size_t next = text.find_first_not_of(" \t\n", end);
    const char behind = next == text.npos ? '\0' : text[next];
    const bool number = word[0] >= '0' && word[0] <= '9';
    if (number) {
      name.masked = behind == '(';
    } else if (word == "generic" && behind == '(') {
      name.generic = true;
    } else if (word[0] != '.' && word != "%" && word != "WARP_SZ") {
      name.text = word, name.offset = behind == '+';
      take(name);
      name = {};
    }
  }
}

}  // namespace

void check_initial_names(const Variable& v, const Look& find, const Look& below, const Place& place,
                         Diagnostics& found) {
  if (v.initializer.empty() || !v.opaque.empty()) return;
  each_initial_name(v.initializer, [&](const InitialName& name) {
    const std::uint32_t id = Name(name.text).id();
    const Symbol* symbol = find(id);
    if (symbol && symbol->kind == Symbol::Kind::label) symbol = nullptr;
    const auto refuse = [&](Code code, const auto&... what) {
      found.emplace_back(code, place, cat('`', v.name.view(), "`: initial value: `", name.text, "` ", what...));
    };
    if (!symbol) {
      const Symbol* later = below(id);
      const bool label = later && later->kind == Symbol::Kind::label;
      return label ? refuse(Code::operand_kind, "is a label; a variable or a function is needed")
                   : refuse(Code::undefined_name, not_declared(later));
    }
    const Space space = symbol->variable ? symbol->variable->space : Space::global;
    if (space != Space::global && space != Space::const_)
      return refuse(Code::state_space, "is a .", isa::name(space), " variable; the address of a .global or .const ",
                    "variable or of a function is needed");
    if ((name.generic || name.offset) && symbol->function)
      return refuse(Code::operand_kind, "is a function; generic() and an offset need a variable");
    const bool fits = v.type == Type::u32 || v.type == Type::u64 || (v.type == Type::u8 && name.masked);
    if (!fits) refuse(Code::operand_type, "is an address; .u32 and .u64 hold it, and .u8 one byte, as in `0xff(name)`");
  });
}

void check_parameters(const ModuleTarget& target, const ir::Function& f, Diagnostics& found) {
  const auto refuse = [&](Code code, auto... what) { found.emplace_back(code, f.place, cat(what...)); };
  std::unordered_set<Name> names;
  for (const auto* list : {&f.returns, &f.parameters}) {
    for (const Variable& v : *list) {
      check_name(v.name, false, f.place, found);
      if (v.name.view() == "_") refuse(Code::reserved_name, "a parameter cannot be named `_`; only a prototype has it");
      if (v.name.empty() || v.name.view() == "_" || names.insert(v.name).second) continue;
      refuse(Code::redeclared_name, "parameter `", v.name.view(), "` is declared twice");
    }
  }
  check_signature(target, {f.returns, f.parameters, f.entry, f.place}, found);
  if (f.linking.find(' ') != f.linking.npos || f.linking == "common")
    refuse(Code::directive_value, "a function takes only one of .extern, .visible and .weak");
  if (f.linking == "extern" && !f.declaration) refuse(Code::directive_value, "an .extern function cannot have a body");
  if (!f.attributes.empty() && f.entry) return refuse(Code::directive_value, "an .entry has no attribute");
  if (!f.attributes.empty() && !reaches(target, unified_since))
    refuse(Code::needs_target, "`.unified` needs ", isa::to_string(unified_since));
  if (const std::string wrong = wrong_attribute(f.attributes, true); !wrong.empty())
    refuse(Code::directive_value, wrong);
  if (!f.entry) return;
  if (!f.returns.empty()) refuse(Code::directive_value, "an .entry returns nothing");
  if (f.declaration && !target.has({3, 0})) refuse(Code::needs_version, "a declaration of an .entry needs PTX 3.0");
  const std::uint64_t size = ir::parameter_bytes(f);
  const std::uint64_t most = reaches(target, ir::large_parameters_since) ? 32764 : ir::small_parameters;
  if (size > most) refuse(Code::directive_value, "the parameters have ", size, " bytes; at most ", most);
}

void check_prototype(const ModuleTarget& target, const ir::Table& table, const Place& place, Diagnostics& found) {
  check_signature(target, {table.returns, table.parameters, false, place}, found);
}

std::string_view disagreement(const ir::Function& a, const ir::Function& b) {
  if (a.entry != b.entry) return "once as an .entry and once as a .func";
  if (!same_parameters(a.returns, b.returns) || !same_parameters(a.parameters, b.parameters)) return other_parameters;
  if (!a.attributes.empty() && !b.attributes.empty() && a.attributes != b.attributes)
    return "with another identifier of .unified";
  if (!same_prototype_directives(a, b)) return "with another .noreturn, .abi_preserve or .abi_preserve_control";
  if (a.linking != b.linking && !(a.linking == "visible" && b.linking.empty())) return "with another linkage";
  return {};
}
std::string_view disagreement(const Variable& a, const Variable& b) {
  const bool sized =
      a.dims.size() == b.dims.size() && (a.dims.empty() || a.dims[0] < 0 || b.dims[0] < 0 || a.dims == b.dims);
  if (a.type != b.type || a.vector != b.vector || a.space != b.space || a.opaque != b.opaque || !sized)
    return "with another type";
  return is_extern(a) && b.linking.empty() ? "first as .extern, then without linkage" : std::string_view();
}

}  // namespace ptx::check
