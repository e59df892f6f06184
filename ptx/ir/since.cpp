#include "ptx/ir/since.h"

#include <algorithm>
#include <array>

#include "ptx/isa/directives.h"
#include "ptx/isa/row.h"

namespace ptx::ir {

namespace {

isa::Version version_of_directive(std::string_view text) {
  const isa::FunctionDirective* row = isa::function_directive(isa::first_word(text));
  return row ? row->since.version : isa::Version{};
}

// Of a body: `.pragma "x";`, `.calltargets ...`.
isa::Version version_of_body_directive(std::string_view text) {
  const std::string_view word = isa::first_word(text);
  if (const isa::Requirement* since = isa::body_directive(word)) return since->version;
  const std::size_t begin = text.find('"'), end = text.find('"', begin + 1);
  if (word != ".pragma" || end == text.npos) return {};
  const isa::Pragma* row = isa::pragma(text.substr(begin + 1, end - begin - 1));
  return row ? row->since.version : isa::Version{};
}

// A value of tensormap.replace.
isa::Version version_of_value(const Operand& value, const isa::Match& match) {
  if (value.kind != Operand::Kind::integer) return {};
  if (match.has("elemtype")) return value.value < 13 ? isa::Version{} : isa::Version{8, 7};
  return value.value < 4 ? isa::Version{} : isa::Version{8, 8};
}

isa::Version version_by_rule(isa::Rule rule, std::span<const Operand> operands, const isa::Match& match) {
  switch (rule) {
    case isa::Rule::mixed_from_8_4:
      return match.value("atype") == match.value("btype") ? isa::Version{} : isa::Version{8, 4};
    case isa::Rule::sink_from_7_1: return operands[0].kind == Operand::Kind::sink ? isa::Version{7, 1} : isa::Version{};
    case isa::Rule::texture_operands:
      return operands[0].kind == Operand::Kind::pair ? isa::Version{7, 1} : isa::Version{};
    case isa::Rule::tensormap_value: return version_of_value(operands[1], match);
    default: return {};
  }
}

bool reads_operands(isa::Rule rule) {
  return rule == isa::Rule::sink_from_7_1 || rule == isa::Rule::texture_operands || rule == isa::Rule::tensormap_value;
}

class SmallestVersion {
 public:
  explicit SmallestVersion(const Module& module) {
    const std::string_view target = std::string_view(module.target).substr(0, module.target.find(','));
    if (const auto known = isa::target_named(target)) raise(isa::first_version(*known).value_or(version_));
    for (const Variable& variable : module.variables) add(variable);
    for (const Function& function : module.functions) add(function);
  }
  isa::Version get() const { return version_; }

 private:
  void add(const Variable& variable) {
    if (const auto* since = type_since(variable.type)) raise(since->version);
    if (variable.attributes.find(".unified") != variable.attributes.npos) raise(unified_since.version);
    if (variable.attributes.find(".managed") != variable.attributes.npos) raise(managed_since.version);
    if (!variable.pointer.empty()) raise(pointer_since.version);
  }

  void add(const Function& function) {
    for (const std::string& directive : function.directives) raise(version_of_directive(directive));
    for (const Variable& variable : function.variables) add(variable);
    for (const Variable& variable : function.parameters) {
      add(variable);
      if (!variable.dims.empty() && variable.dims[0] < 0) raise(open_parameter_since.version);
    }
    for (const Register& each : function.registers)
      if (const auto* since = type_since(each.type)) raise(since->version);
    if (!function.attributes.empty()) raise(unified_since.version);
    if (function.entry && parameter_bytes(function) > small_parameters) raise(large_parameters_since.version);
    for (const Statement& s : function.body)
      if (s.kind == Statement::Kind::directive) raise(version_of_body_directive(function.texts[s.index]));
    for (const Instruction& i : function.instructions) add(function, i);
    for (const Operand& o : function.operands) {
      if (o.kind != Operand::Kind::special) continue;
      if (const auto* known = isa::special_register(Name::from_id(o.id).view())) raise(known->since.version);
    }
  }

  void add(const Function& function, const Instruction& i) {
    const isa::Match* match = i.match;
    if (!match && i.mnemonic && !i.mnemonic->matches.empty()) match = &i.mnemonic->matches.front();
    const std::size_t slot = reinterpret_cast<std::uintptr_t>(match) / sizeof(isa::Match) % seen_.size();
    if (!match || seen_[slot] == match) return;
    raise(match->since);
    raise(version_of_operands(function, i, *match));
    if (std::ranges::none_of(match->form->rules, reads_operands)) seen_[slot] = match;
  }
  void raise(isa::Version version) { version_ = std::max(version_, version); }

  isa::Version version_{1, 0};
  std::array<const isa::Match*, 256> seen_{};
};

}  // namespace

const isa::Requirement* type_since(isa::Type type) {
  static constexpr isa::Requirement f16x2_since{{4, 2}, {{53}}}, b128_since{{8, 3}, {{70}}};
  return type == isa::Type::f16x2 ? &f16x2_since : type == isa::Type::b128 ? &b128_since : nullptr;
}

std::uint64_t parameter_bytes(const Function& function) {
  std::uint64_t size = 0;
  for (const Variable& v : function.parameters) {
    const std::uint64_t align =
        std::max<std::uint64_t>({1, v.alignment, v.opaque.empty() ? isa::info(v.type).bits / 8u : 8u});
    size = (size + align - 1) / align * align + bytes(v);
  }
  return size;
}

isa::Version version_of_operands(const Function& function, const Instruction& instruction, const isa::Match& match) {
  isa::Version version{};
  for (const isa::Rule rule : match.form->rules)
    version = std::max(version, version_by_rule(rule, function.operands_of(instruction), match));
  return version;
}

isa::Version smallest_version(const Module& module) { return SmallestVersion(module).get(); }

}  // namespace ptx::ir
