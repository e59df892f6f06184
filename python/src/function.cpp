// Family functions as Python objects: a raw type, since a call of one is the hot path of tracing. A call puts its
// arguments in the order of the parameters, and makes either the row's instruction or calls the row's C++ function.
#include "python/src/function.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <memory>

#include "ptx/base/check.h"

namespace ptx::python {

namespace families = author::families;
using families::Template;

// What is kept for a function as long as the process lives. Of an INSTRUCTION, what a call would look for in its row.
struct Entry {
  const Definition* definition;
  By asks{""};  // "(" and the name
  By name{""};  // in the family
  std::vector<Parameter> parameters;
  std::vector<PyObject*> names;          // interned, by parameter
  std::vector<std::uint8_t> positional;  // parameters by position

  struct Part {  // of the mnemonic or of the operands
    std::uint8_t parameter;
    families::Parameter::Role role;
    isa::Type type = isa::Type::none;  // of a result; none: the argument `says` is the type
    std::uint8_t says = 0;
  };
  std::vector<Part> deciding, results, operands;  // in the row's order; deciding: an operand, by whether it is there
  std::optional<std::size_t> destination;         // the parameter of the first operand
  struct Choice {                                 // the mnemonic that these arguments led to
    std::array<PyObject*, Template::most> key;    // by `deciding`
    const isa::Mnemonic* mnemonic;
  };
  std::vector<Choice> choices;
};

namespace {

struct Function {
  PyObject_HEAD vectorcallfunc call;
  Entry* entry;
  PyObject* self;  // of a bound method, else null
};

PyTypeObject* function_type = nullptr;
Function* cast(PyObject* object) { return reinterpret_cast<Function*>(object); }

bool of_class(const Definition& d) { return d.family[0] >= 'A' && d.family[0] <= 'Z'; }

std::string qualified(const Definition& d) {
  return cat(of_class(d) || d.family == "ptx" ? "" : "ptx.", d.family, ".", d.name);
}

// Arguments ----------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse_call(Call& call, const std::string& what) {
  std::string names;
  for (const bool keyword : {false, true})
    for (const Parameter& p : call.entry.parameters)
      if (p.keyword == keyword) names += cat(names.empty() ? "" : ", ", p.name);
  if (call.entry.definition->guarded) names += cat(names.empty() ? "" : ", ", "pred");
  call.builder.refuse(Code::bad_operand, cat(qualified(*call.entry.definition), " ", what,
                                             "; its arguments: ", names.empty() ? "none" : names));
}

// Keywords that 0.1.1 spelled in another way.
constexpr struct {
  std::string_view function;
  const char* old;
  std::string_view name;
} respelled[] = {{"ptx.ld", "addr", "address"}, {"ptx.st", "addr", "address"}};

std::size_t named(const Entry& entry, PyObject* name) {
  for (std::size_t i = 0; i < entry.names.size(); ++i)
    if (entry.names[i] == name) return i;
  for (std::size_t i = 0; i < entry.names.size(); ++i)
    if (PyUnicode_Compare(entry.names[i], name) == 0) return i;
  for (const auto& each : respelled) {
    if (PyUnicode_CompareWithASCIIString(name, each.old) != 0 || qualified(*entry.definition) != each.function)
      continue;
    for (std::size_t i = 0; i < entry.parameters.size(); ++i)
      if (entry.parameters[i].name == each.name) return i;
  }
  return entry.names.size();
}

void bind(Call& call, PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const Entry& entry = call.entry;
  const std::size_t first = self ? 1 : 0;
  if (first + count > entry.positional.size())
    refuse_call(call, cat("takes ", entry.positional.size() - first, " arguments by position, not ", count));
  if (self) call.values[entry.positional[0]] = self;
  for (std::size_t i = 0; i < count; ++i) call.values[entry.positional[first + i]] = args[i];
  const std::size_t by_name = names ? static_cast<std::size_t>(PyTuple_Size(names)) : 0;
  for (std::size_t i = 0; i < by_name; ++i) {
    PyObject* name = PyTuple_GetItem(names, static_cast<Py_ssize_t>(i));
    const std::size_t at = named(entry, name);
    if (at == entry.names.size()) {
      const bool is_guard = entry.definition->guarded && PyUnicode_CompareWithASCIIString(name, "pred") == 0;
      if (!is_guard) refuse_call(call, cat("takes no ", shown(name)));
      call.guard = call.checked(at, "", [&] { return guard(args[count + i], call.builder); });
    } else if (call.values[at]) {
      refuse_call(call, cat("was given `", entry.parameters[at].name, "` twice"));
    } else {
      call.values[at] = args[count + i];
    }
  }
  for (std::size_t i = 0; i < entry.parameters.size(); ++i)
    if (!call.values[i] && entry.parameters[i].required)
      refuse_call(call, cat("needs `", entry.parameters[i].name, "`"));
}

// For helpers, which write no instruction, outside of a kernel.
author::Builder& no_kernel() {
  static author::Builder& builder = *new Traced(author::Options{});
  return builder;
}

PyObject* vectorcall(PyObject* object, PyObject* const* args, std::size_t flagged, PyObject* names) {
  return caught(
      [&] {
        Entry& entry = *cast(object)->entry;
        Call call(entry, entry.definition->guarded || tracing() ? active() : no_kernel());
        const Returning here(call.builder, entry.name);
        const auto positional = static_cast<std::size_t>(PyVectorcall_NARGS(flagged));
        for (std::size_t i = 0; i < positional; ++i)
          if (const author::Reg* reg = as_reg(args[i])) traced(call.builder).use(*reg, entry.asks, i);
        bind(call, cast(object)->self, args, positional, names);
        return call.entry.definition->call(call).release().ptr();
      },
      nullptr);
}

// Instructions -------------------------------------------------------------------------------------------------------

bool given(PyObject* value) { return value && value != Py_None; }

std::string list_of(const families::Legal& legal) {
  std::string text;
  for (std::size_t i = 0; i < legal.values.size(); ++i)
    text += cat(i == 0 ? "" : i + 1 == legal.values.size() ? " or " : ", ", legal.values[i]);
  return legal.flag ? "True or False" : text;
}

// What the argument of a modifier writes; "": nothing. A number has its text made in `made`.
std::string_view chosen(Call& call, const Template::Modifier& modifier, std::string& made) {
  const auto i = static_cast<std::size_t>(modifier.parameter);
  const families::Parameter& parameter = call.entry.definition->form->parameters[i];
  PyObject* value = call.values[i];
  if (!modifier.condition.empty()) {
    const bool flag = parameter.flag;
    const bool there = !flag ? given(value) : value ? call.get<bool>(i) : parameter.fallback == "True";
    return there ? modifier.text : std::string_view();
  }
  if (!value) return parameter.fallback == "True" ? modifier.text : parameter.fallback;
  if (value == Py_None || value == Py_False) return {};
  const auto legal = [&] { return families::legal(*call.entry.definition->form, parameter); };
  if (value == Py_True && legal().flag) return modifier.text;
  if (const PtxType* type = as_type(value)) return type->name;
  int overflow = 0;
  const long number = PyLong_Check(value) && value != Py_True ? PyLong_AsLongAndOverflow(value, &overflow) : -1;
  if (number >= 0) {  // cta_group=1
    made = cat(modifier.text, "::");
    for (const std::string& each : legal().values)
      if (each.starts_with(made)) return made += std::to_string(number);
  }
  Py_ssize_t size = 0;
  const char* text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : nullptr;
  if (!text) PyErr_Clear();  // of half a surrogate pair
  if (!text) call.wrong(i, list_of(legal()));
  const std::string_view given(text, static_cast<std::size_t>(size));
  if (given == "generic") return {};
  if (given.find(':') != std::string_view::npos) return given;
  const std::vector<std::string> values = legal().values;
  std::string in_slot = cat(parameter.slot, "::", given);  // kind="f16"
  const bool known = std::find(values.begin(), values.end(), in_slot) != values.end();
  return known ? std::string_view(made = std::move(in_slot)) : given;
}

// No form has these modifiers. Where one of them is in no form at all, its argument is named.
[[noreturn]] void refuse_modifiers(Call& call, std::span<const std::string_view> modifiers,
                                   const isa::Mnemonic& mnemonic) {
  const Template& form = *call.entry.definition->form;
  for (std::size_t i = 0; i < form.modifier_count; ++i) {
    if (form.modifiers[i].parameter < 0 || modifiers[i].empty()) continue;
    const families::Parameter& parameter = form.parameters[static_cast<std::size_t>(form.modifiers[i].parameter)];
    const families::Legal legal = families::legal(form, parameter);
    if (parameter.flag || legal.values.empty() || legal.types ||
        std::find(legal.values.begin(), legal.values.end(), modifiers[i]) != legal.values.end())
      continue;
    call.builder.refuse(Code::bad_argument, cat(qualified(*call.entry.definition), ": `", parameter.name, "` is ",
                                                list_of(legal), ", not ", modifiers[i]));
  }
  call.builder.refuse(Code::illegal_modifiers, isa::explain(mnemonic.text));
}

const isa::Mnemonic* make_mnemonic(Call& call) {
  const Template& form = *call.entry.definition->form;
  std::array<std::string_view, Template::most> modifiers{};
  std::array<std::string, Template::most> made;
  for (std::size_t i = 0; i < form.modifier_count; ++i) {
    const Template::Modifier& modifier = form.modifiers[i];
    modifiers[i] = modifier.parameter < 0 ? modifier.text : chosen(call, modifier, made[i]);
  }
  const std::span<const std::string_view> all = std::span(modifiers).first(form.modifier_count);
  const isa::Mnemonic* mnemonic = families::mnemonic(form, all);
  if (mnemonic->matches.empty()) refuse_modifiers(call, all, *mnemonic);
  return mnemonic;
}

// The same arguments lead to the same mnemonic: strings of a program are the same objects at each call.
const isa::Mnemonic* mnemonic_of(Call& call) {
  constexpr std::size_t most = 64;  // programs that make their strings anew
  Entry& entry = call.entry;
  const auto decides = [&](const Entry::Part& part) {
    PyObject* value = call.values[part.parameter];
    return part.role == families::Parameter::Role::modifier ? value : given(value) ? Py_True : nullptr;
  };
  const std::size_t count = entry.deciding.size();
  for (const Entry::Choice& choice : entry.choices) {
    std::size_t i = 0;
    while (i < count && choice.key[i] == decides(entry.deciding[i])) ++i;
    if (i == count) return choice.mnemonic;
  }
  const isa::Mnemonic* mnemonic = make_mnemonic(call);
  if (entry.choices.size() < most) {
    Entry::Choice& made = entry.choices.emplace_back();
    made.mnemonic = mnemonic;
    for (std::size_t i = 0; i < count; ++i) Py_XINCREF(made.key[i] = decides(entry.deciding[i]));
  }
  return mnemonic;
}

void put_operand(Call& call, const Entry::Part& part, std::optional<author::Operand>& to) {
  using enum families::Parameter::Role;
  const std::size_t i = part.parameter;
  if (!given(call.values[i])) {
    const std::string_view fallback = call.entry.definition->form->parameters[i].fallback;
    if (!fallback.empty()) to.emplace(fallback);
    return;
  }
  switch (part.role) {
    case address: to.emplace(call.get<author::Address>(i)); break;
    case list: to.emplace(call.builder.vector(call.get<std::vector<author::Operand>>(i))); break;
    default: to.emplace(call.get<author::Operand>(i)); break;
  }
}

// The parameter of the first operand, or of the first of a pair; null: it is no parameter.
const families::Parameter* first_operand(const Template& form) {
  const std::size_t at = form.node_count && form.nodes[0].kind == Template::Node::Kind::pair ? 1 : 0;
  if (form.node_count <= at || form.nodes[at].kind != Template::Node::Kind::parameter) return nullptr;
  return &form.parameters[static_cast<std::size_t>(form.nodes[at].parameter)];
}

// What the call returns: the registers that it made, or the destination that it was given.
nb::object result_of(Call& call, const isa::Mnemonic& mnemonic, std::span<const author::Reg> made) {
  if (made.size() == 1) return make(made[0]);
  if (!made.empty()) return make_all(made);
  if (!call.entry.destination) return nb::none();
  PyObject* first = call.values[*call.entry.destination];
  const auto& patterns = mnemonic.matches.front().operands;
  const bool written = first && as_reg(first) && !patterns.empty() && patterns[0].row->destination;
  return written ? nb::borrow(first) : nb::none();
}

}  // namespace

nb::object instruction(Call& call) {
  using Given = std::optional<author::Operand>;
  const Template& form = *call.entry.definition->form;
  alignas(Given) std::byte room[sizeof(Given) * Template::most];  // an array would clear all of it, at each call
  const std::span operands(reinterpret_cast<Given*>(room), form.parameter_count);
  std::uninitialized_default_construct(operands.begin(), operands.end());
  std::array<author::Reg, 4> made;
  std::size_t count = 0;
  const isa::Mnemonic* mnemonic = mnemonic_of(call);
  for (const Entry::Part& part : call.entry.results) {  // results come first: addresses may form registers
    const std::size_t i = part.parameter;
    const auto type = [&] { return part.type != isa::Type::none ? part.type : call.get<isa::Type>(part.says); };
    made[count] = given(call.values[i]) ? call.get<author::Reg>(i) : families::result(call.builder, type(), call.guard);
    operands[i].emplace(made[count++]);
  }
  for (const Entry::Part& part : call.entry.operands) put_operand(call, part, operands[part.parameter]);
  families::emit(call.builder, form, mnemonic, operands, call.guard);
  return result_of(call, *mnemonic, std::span(made).first(count));
}

Call::Call(Entry& entry, author::Builder& builder) : entry(entry), builder(builder) {
  std::fill_n(values.begin(), entry.parameters.size(), nullptr);
}

void Call::wrong(std::size_t i, std::string_view legal) {
  const std::string name = qualified(*entry.definition);
  if (i == entry.parameters.size())
    builder.refuse(Code::bad_operand, cat(name, ": `pred` is a predicate register or ~register"));
  const Parameter& parameter = entry.parameters[i];
  const std::string legal_values =
      parameter.mnemonic.empty() ? "" : list_of(families::legal(parameter.mnemonic, parameter.slot));
  const bool word = PyUnicode_Check(values[i]) && legal == Convert<Modifier>::legal;  // of the right type, then
  const std::string_view meant = !legal_values.empty() ? std::string_view(legal_values) : word ? parameter.doc : legal;
  builder.refuse(word || (!legal_values.empty() && PyUnicode_Check(values[i])) ? Code::bad_argument : Code::bad_operand,
                 cat(name, ": `", parameter.name, "` is ", meant, ", not ", shown(values[i])));
}

std::vector<author::Operand> Convert<std::vector<author::Operand>>::from(nb::handle value, Call& call) {
  if (as_array(value) || PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) return operands(value, call.builder);
  if (as_reg(value)) return {operand(value, call.builder)};
  throw nb::type_error("");
}

bool Convert<bool>::from(nb::handle value, Call&) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
  if (!is_index(value)) throw nb::type_error("");
  return PyObject_IsTrue(value.ptr()) == 1;
}

Modifier Convert<Modifier>::from(nb::handle value, Call& call) {
  constexpr Modifier all[] = {
#define MODIFIER(name, text) modifiers::name,
#include "ptx/author/modifiers.def"
#undef MODIFIER
  };
  const PtxType* type = as_type(value);
  const bool number = PyLong_Check(value.ptr()) && !PyBool_Check(value.ptr());
  if (!type && !number && !PyUnicode_Check(value.ptr())) throw nb::type_error("");
  const std::string text = type     ? type->name
                           : number ? text_of(nb::steal(PyNumber_ToBase(value.ptr(), 10)))
                                    : text_of(value);
  const std::string in_slot = cat(call.entry.parameters[call.converted].slot, "::", text);  // kind="f16"
  for (const std::string& spelling : {in_slot, text}) {  // the slot's own first: "f16" is a type, too
    const Modifier* found =
        std::find_if(std::begin(all), std::end(all), [&](auto& one) { return one.text == spelling; });
    if (found != std::end(all) && !(number && spelling == text)) return *found;
  }
  throw nb::type_error("");
}

// Signatures ---------------------------------------------------------------------------------------------------------

namespace {

// A modifier without its slot's name as Python writes it: 2, "f16".
std::string argument(std::string_view modifier) {
  const bool number = modifier.size() == 1 && modifier[0] >= '0' && modifier[0] <= '9';
  return number ? std::string(modifier) : cat('"', modifier, '"');
}

// A modifier's values as a type: bool, PtxType, Literal["a", "b"]; for slot::1 and slot::2 Literal[1, 2], for kind::f16
// and kind::i8 Literal["f16", "i8"].
std::string modifier_type(const families::Legal& legal, std::string_view slot) {
  if (legal.flag) return "bool";
  if (legal.types) return "PtxType";
  const std::string prefix = cat(slot, "::");
  const bool stripped = std::all_of(legal.values.begin(), legal.values.end(),
                                    [&](const std::string& modifier) { return modifier.starts_with(prefix); });
  std::string text;
  for (const std::string& modifier : legal.values)
    text +=
        cat(text.empty() ? "" : ", ", argument(stripped ? std::string_view(modifier).substr(prefix.size()) : modifier));
  return text.empty() ? "str" : cat("Literal[", text, "]");
}

std::string type_of(const Template& form, const families::Parameter& p) {
  using enum families::Parameter::Role;
  const families::Legal legal = families::legal(form, p);
  const bool none = !p.required && (p.fallback.empty() || p.role == modifier);
  const auto optional = [&](std::string text) { return none && text != "bool" ? cat(text, " | None") : text; };
  switch (p.role) {
    case modifier: return optional(modifier_type(legal, p.slot));
    case address: return optional("Address");
    case list: return optional("Registers");
    case result: return "Reg | None";
    default: break;
  }
  if (legal.list) return optional(legal.register_only ? "Registers | Reg" : "Registers | Number");
  if (legal.register_only) return optional("Reg");
  if (legal.predicate) return optional("Predicate");
  return optional(legal.immediate ? "int" : legal.floating ? "Number" : "Integer");
}

std::string without_slot(std::string_view modifier, std::string_view slot) {
  return argument(modifier.starts_with(cat(slot, "::")) ? modifier.substr(slot.size() + 2) : modifier);
}

std::string fallback_of(const Template& form, const families::Parameter& p) {
  if (p.required) return "";
  if (p.role != families::Parameter::Role::modifier) return p.fallback.empty() ? "None" : std::string(p.fallback);
  const bool flag = families::legal(form, p).flag;
  if (p.fallback.empty()) return flag ? "False" : "None";
  return flag ? std::string(p.fallback) : without_slot(p.fallback, p.slot);
}

std::string type_of(const Parameter& p) {
  if (p.mnemonic.empty()) return p.type();
  const families::Legal legal = families::legal(p.mnemonic, p.slot);
  return cat(modifier_type(legal, p.slot), p.required || p.fallback() != "None" ? "" : " | None");
}

std::string result_text(const Definition& d) {
  if (!d.form) return d.result();
  int results = 0;
  for (const families::Parameter& p : d.form->all_parameters()) results += p.role == families::Parameter::Role::result;
  if (results == 1) return "Reg";
  if (results > 1) {
    std::string text = "tuple[Reg";
    for (int i = 1; i < results; ++i) text += ", Reg";
    return text + "]";
  }
  const families::Parameter* first = first_operand(*d.form);
  if (!first || first->role != families::Parameter::Role::value) return "None";
  const families::Legal legal = families::legal(*d.form, *first);
  if (!legal.register_only) return "None";
  return legal.list ? "Reg | None" : "Reg";
}

struct Shown {
  std::string name, type, fallback, doc;
  bool keyword;
};

std::string default_of(const Parameter& p) {
  if (p.required) return "";
  const std::string text = p.fallback();
  const bool quoted = !p.slot.empty() && text.size() > 2 && text[0] == '"';
  return quoted ? without_slot(std::string_view(text).substr(1, text.size() - 2), p.slot) : text;
}

std::vector<Shown> shown_parameters(const Definition& d) {
  std::vector<Shown> all;
  if (d.form) {
    const auto order = [](const families::Parameter& p) { return p.keyword ? 2 : p.required ? 0 : 1; };
    for (const int wanted : {0, 1, 2})
      for (const families::Parameter& p : d.form->all_parameters())
        if (order(p) == wanted)
          all.push_back({std::string(p.name), type_of(*d.form, p), fallback_of(*d.form, p), "", p.keyword});
  } else {
    for (const Parameter& p : d.parameters)
      all.push_back({std::string(p.name), type_of(p), default_of(p), std::string(p.doc), p.keyword});
  }
  if (d.guarded) all.push_back({"pred", "Guard", "None", "", true});
  return all;
}

// "mbarrier.init{.layout}{.space}.b64 [mbar], count": the row's text without what says how arguments are given.
std::string emitted(const Template& form) {
  std::string text(form.opcode);
  for (const Template::Modifier& modifier : form.all_modifiers()) {
    const bool chosen = modifier.parameter >= 0 && modifier.condition.empty();
    const bool optional =
        modifier.parameter >= 0 && !form.parameters[static_cast<std::size_t>(modifier.parameter)].required;
    const std::string_view shown =
        chosen ? form.parameters[static_cast<std::size_t>(modifier.parameter)].name : modifier.text;
    text += optional || !modifier.condition.empty() ? cat("{.", shown, "}") : cat(".", shown);
  }
  std::string_view rest = form.text.substr(std::min(form.text.find(' '), form.text.size()));
  const auto skip_word = [&] {
    while (rest.size() > 1 && (std::isalnum(static_cast<unsigned char>(rest[1])) || rest[1] == '_'))
      rest.remove_prefix(1);
  };
  for (; !rest.empty(); rest.remove_prefix(1)) {
    const bool default_value = rest[0] == '=' && (std::isalnum(static_cast<unsigned char>(text.back())) != 0);
    if (rest[0] == ':' || default_value) {
      skip_word();
    } else if (rest[0] != '=' && rest[0] != '*' && rest[0] != '+') {
      text += rest[0];
    }
  }
  return text;
}

// What a call gives for a required modifier, as Python: a type by its name, another modifier as a str.
std::string given(const families::Legal& legal) {
  const auto has = [&](std::string_view modifier) {
    return std::ranges::find(legal.values, modifier) != legal.values.end();
  };
  for (const std::string_view usual : {"f32", "u32", "b32"})
    if (has(usual)) return std::string(usual);
  if (has("add")) return "\"add\"";
  return legal.types ? legal.values.front() : cat('"', legal.values.front(), '"');
}

std::string argument_of(const Definition& d, std::string_view name) {
  if (!d.form) return std::string(name);  // a FUNCTION with modifiers of its own has an example in its row
  for (const families::Parameter& p : d.form->all_parameters())
    if (p.name == name && p.role == families::Parameter::Role::modifier) {
      const families::Legal legal = families::legal(*d.form, p);
      return legal.values.empty() ? std::string(name) : given(legal);
    }
  return std::string(name);
}

// A call with what has to be given; operands are called as the parameters are.
std::string example_of(const Definition& d) {
  std::string call =
      of_class(d) ? std::string() : cat(d.family == "ptx" ? "ptx" : cat("ptx.", d.family), ".", d.name, "(");
  for (const Shown& p : shown_parameters(d)) {
    if (of_class(d) && call.empty()) {
      call = cat(p.name.empty() ? "slot" : p.name, ".", d.name, "(");
      continue;
    }
    if (!p.fallback.empty()) continue;
    if (call.back() != '(') call += ", ";
    call += p.keyword ? cat(p.name, "=", argument_of(d, p.name)) : argument_of(d, p.name);
  }
  return cat(result_text(d) == "None" ? "" : "result = ", call, ")");
}

}  // namespace

std::string signature(const Definition& d) {
  std::string text = "(";
  bool keyword = false;
  for (const Shown& p : shown_parameters(d)) {
    const bool self = of_class(d) && text.size() == 1;
    if (p.keyword && !keyword) text += text.size() > 1 ? ", *" : "*", keyword = true;
    text += text.size() > 1 ? ", " : "";
    text += self ? "self" : cat(p.name, ": ", p.type, p.fallback.empty() ? "" : " = ", p.fallback);
  }
  return cat(text, ") -> ", result_text(d));
}

std::string section_of(const Definition& d) { return d.form ? families::sections(*d.form) : std::string(d.section); }

std::string documentation(const Definition& d) {
  const std::size_t by_hand = std::min(d.doc.find("\n\nExample:"), d.doc.size());
  std::string text(d.doc.substr(0, by_hand));
  if (d.form) text += cat("\n\nEmits `", emitted(*d.form), "`.");
  std::string described;
  for (const Shown& p : shown_parameters(d))
    if (!p.doc.empty()) described += cat("\n    ", p.name, ": ", p.doc);
  if (!described.empty()) text += cat("\n", described);
  text += by_hand < d.doc.size() ? std::string(d.doc.substr(by_hand)) : cat("\n\nExample:\n    ", example_of(d));
  text +=
      cat("\n\nAn argument of the wrong kind is an AuthoringTypeError; what PTX does not have, an AuthoringError at "
          "this line.",
          "\nPTX ISA ", section_of(d), ".");
  return text;
}

// The type -----------------------------------------------------------------------------------------------------------

namespace {

PyObject* text(std::string_view view) {
  return PyUnicode_FromStringAndSize(view.data(), static_cast<Py_ssize_t>(view.size()));
}

const Definition& definition_of(PyObject* self) { return *cast(self)->entry->definition; }

PyObject* get_name(PyObject* self, void*) { return text(definition_of(self).name); }
PyObject* get_qualname(PyObject* self, void*) {
  return caught([&] { return text(qualified(definition_of(self))); }, nullptr);
}
PyObject* get_module(PyObject*, void*) { return text("pyptx.ptx"); }
PyObject* get_doc(PyObject* self, void*) {
  return caught([&] { return text(documentation(definition_of(self))); }, nullptr);
}

// inspect.signature reads this: no types.
PyObject* get_text_signature(PyObject* self, void*) {
  return caught(
      [&] {
        std::string made = "(";
        bool keyword = false;
        bool skip = cast(self)->self != nullptr;
        for (const Shown& p : shown_parameters(definition_of(self))) {
          if (std::exchange(skip, false)) continue;
          if (p.keyword && !keyword) made += made.size() > 1 ? ", *" : "*", keyword = true;
          const bool object = of_class(definition_of(self)) && made.size() == 1 && !cast(self)->self;
          made += cat(made.size() > 1 ? ", " : "", object ? "self" : p.name, p.fallback.empty() ? "" : "=", p.fallback);
        }
        return text(made + ")");
      },
      nullptr);
}

PyObject* get_signature(PyObject* self, void*) {
  return caught([&] { return text(signature(definition_of(self))); }, nullptr);
}

PyObject* repr(PyObject* self) {
  return caught([&] { return text(cat("<function ", qualified(definition_of(self)), ">")); }, nullptr);
}

PyObject* new_function(Entry* entry, PyObject* self) {
  auto* made = PyObject_New(Function, function_type);
  if (!made) return nullptr;
  made->call = vectorcall;
  made->entry = entry;
  made->self = self;
  Py_XINCREF(self);
  return reinterpret_cast<PyObject*>(made);
}

PyObject* bound(PyObject* self, PyObject* object, PyObject*) {
  const bool method = object && of_class(definition_of(self)) && !cast(self)->self;
  if (method) return new_function(cast(self)->entry, object);
  Py_INCREF(self);
  return self;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(cast(self)->self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyGetSetDef fields[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                        {"__qualname__", get_qualname, nullptr, nullptr, nullptr},
                        {"__module__", get_module, nullptr, nullptr, nullptr},
                        {"__doc__", get_doc, nullptr, nullptr, nullptr},
                        {"__text_signature__", get_text_signature, nullptr, nullptr, nullptr},
                        {"_signature", get_signature, nullptr, "Its parameters and result with their types.", nullptr},
                        {}};
PyMemberDef members[] = {{"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Function, call), Py_READONLY, nullptr}, {}};
PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_repr, reinterpret_cast<void*>(repr)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(bound)},
                       {Py_tp_getset, fields},
                       {Py_tp_members, members},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {0, nullptr}};
PyType_Spec spec = {"pyptx._core.Function", sizeof(Function), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
                    slots};

std::vector<Parameter> parameters_of(const Definition& d) {
  std::vector<Parameter> all(d.parameters.begin(), d.parameters.end());
  if (!d.form) return all;
  for (const families::Parameter& p : d.form->all_parameters()) {
    Parameter& made = all.emplace_back();
    made.name = p.name, made.keyword = p.keyword, made.required = p.required;
  }
  return all;
}

void read_row(Entry& entry, const Template& form) {
  using enum families::Parameter::Role;
  const auto parameters = form.all_parameters();
  const auto part = [&](std::size_t i) { return Entry::Part{static_cast<std::uint8_t>(i), parameters[i].role}; };
  for (const Template::Modifier& modifier : form.all_modifiers())
    if (modifier.parameter >= 0) entry.deciding.push_back(part(static_cast<std::size_t>(modifier.parameter)));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].role == modifier) continue;
    Entry::Part& made = (parameters[i].role == result ? entry.results : entry.operands).emplace_back(part(i));
    if (parameters[i].role != result) continue;
    made.type = isa::type_named(parameters[i].slot).value_or(isa::Type::none);
    const auto says = std::ranges::find(parameters, parameters[i].slot, &families::Parameter::name);
    PTX_CHECK(made.type != isa::Type::none || says != parameters.end(), "a result's type is a type or a parameter");
    made.says = static_cast<std::uint8_t>(says - parameters.begin());
  }
  if (const families::Parameter* first = first_operand(form))
    entry.destination = static_cast<std::size_t>(first - parameters.data());
}

}  // namespace

nb::object make_function(const Definition& definition) {
  auto* entry = new Entry;  // kept for the process, as its module
  entry->definition = &definition, entry->parameters = parameters_of(definition);
  entry->name = By(definition.name), entry->asks = By(cat('(', definition.name));
  if (definition.form) read_row(*entry, *definition.form);
  PTX_CHECK(entry->parameters.size() <= Call::most, "a call has room for the arguments of every function");
  for (std::size_t i = 0; i < entry->parameters.size(); ++i) {
    entry->names.push_back(PyUnicode_InternFromString(std::string(entry->parameters[i].name).c_str()));
  }
  for (const bool required : {true, false})
    for (std::size_t i = 0; i < entry->parameters.size(); ++i)
      if (!entry->parameters[i].keyword && entry->parameters[i].required == required)
        entry->positional.push_back(static_cast<std::uint8_t>(i));
  return nb::steal(new_function(entry, nullptr));
}

void init_function(nb::module_&) {
  function_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!function_type) throw nb::python_error();
}

}  // namespace ptx::python
