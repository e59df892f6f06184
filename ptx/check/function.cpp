// What a function owes beside its instructions: header, registers, calls, reachable statements.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ptx/base/text.h"
#include "ptx/check/module.h"

namespace ptx::check {

using ir::Operand;
using ir::Statement;

namespace {

// ".maxntid 384, 1, 1" -> ".maxntid", {384, 1, 1}. Anything but whole numbers makes `values` unreadable.
struct Directive {
  std::string_view name;
  std::vector<std::int64_t> values;
  bool readable = true;
};

Directive read(std::string_view text) {
  Directive d;
  const std::size_t space = text.find_first_of(" \t");
  d.name = text.substr(0, space);
  for (std::size_t at = space; at < text.size();) {
    at = text.find_first_not_of(" \t,", at);
    if (at >= text.size()) break;
    const std::size_t end = std::min(text.find_first_of(" \t,", at), text.size());
    std::string_view digits = text.substr(at, end - at);
    const int base = digits.starts_with("0x") ? 16 : 10;
    if (base == 16) digits.remove_prefix(2);
    std::int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    d.readable = d.readable && result.ec == std::errc() && result.ptr == digits.data() + digits.size();
    d.values.push_back(value);
    at = end;
  }
  return d;
}

enum class On : std::uint8_t { entry, func, both };

// A directive of a function: what may carry it, how many positive numbers it takes at most (0: not looked at), and what
// it needs.
struct KnownDirective {
  std::string_view name;
  On on;
  std::size_t most;
  isa::Requirement need;
};
constexpr KnownDirective known_directives[] = {
    {".maxntid", On::entry, 3, {}},
    {".reqntid", On::entry, 3, {}},
    {".maxnreg", On::entry, 1, {}},
    {".minnctapersm", On::entry, 1, {}},
    {".noreturn", On::func, 0, {{6, 4}}},
    {".explicitcluster", On::entry, 0, {{7, 8}, {{90}}}},
    {".reqnctapercluster", On::entry, 3, {{7, 8}, {{90}}}},
    {".maxclusterrank", On::entry, 1, {{7, 8}, {{90}}}},
    {".local_maxnreg", On::both, 1, {{8, 8}}},
    {".blocksareclusters", On::entry, 0, {{9, 0}, {{90}}}},
    {".abi_preserve", On::func, 0, {{9, 0}, {{80}}}},
    {".abi_preserve_control", On::func, 0, {{9, 0}, {{80}}}},
};

const KnownDirective* known_directive(std::string_view name) {
  const auto* at = std::find_if(std::begin(known_directives), std::end(known_directives),
                                [&](const KnownDirective& d) { return d.name == name; });
  return at == std::end(known_directives) ? nullptr : at;
}

void check_gate(const Goal& goal, const KnownDirective& d, const Place& place, Diagnostics& found) {
  if (goal.target.number != 0 && !isa::meets(goal.target, d.need)) {
    found.emplace_back(
        Code::needs_target, place,
        cat('`', d.name, "` needs ", isa::to_string(d.need), ", the target is ", isa::to_string(goal.target)));
  } else if (goal.version != isa::Version{} && goal.version < d.need.version) {
    found.emplace_back(Code::needs_version, place,
                       cat('`', d.name, "` needs ", isa::to_string(d.need), ", the module is .version ",
                           isa::to_string(goal.version)));
  }
}

void check_directive(const Goal& goal, const Directive& d, const ir::Function& function, Diagnostics& found) {
  const KnownDirective* known = known_directive(d.name);
  if (!known) return;
  const Place& place = function.place;
  if (known->on != On::both && (known->on == On::entry) != function.entry) {
    found.emplace_back(Code::directive_value, place,
                       cat('`', d.name, "` is for ", known->on == On::entry ? "an .entry" : "a .func"));
    return;
  }
  check_gate(goal, *known, place, found);
  if (known->most == 0) return;
  const bool positive = std::all_of(d.values.begin(), d.values.end(), [](std::int64_t v) { return v > 0; });
  if (d.readable && positive && !d.values.empty() && d.values.size() <= known->most) return;
  found.emplace_back(
      Code::directive_value, place,
      cat('`', d.name, "` takes ", known->most == 1 ? "one positive number" : "one to three positive numbers"));
}

bool declares(const std::vector<std::string>& directives, std::string_view name) {
  return std::any_of(directives.begin(), directives.end(),
                     [&](const std::string& text) { return read(text).name == name; });
}

}  // namespace

void check_header(const Goal& goal, const ir::Function& function, Diagnostics& found) {
  std::unordered_set<Name> names;
  for (const auto* list : {&function.returns, &function.parameters}) {
    for (const ir::Variable& v : *list) {
      if (v.name.empty() || v.name.view() == "_" || names.insert(v.name).second) continue;
      found.emplace_back(Code::redeclared_name, function.place,
                         cat("parameter `", v.name.view(), "` is declared twice"));
    }
  }
  for (const std::string& text : function.directives) check_directive(goal, read(text), function, found);
  constexpr std::string_view exclusive[][2] = {{".maxntid", ".reqntid"}, {".reqnctapercluster", ".maxclusterrank"}};
  for (const auto& [one, other] : exclusive) {
    if (!declares(function.directives, one) || !declares(function.directives, other)) continue;
    found.emplace_back(Code::directive_value, function.place, cat('`', one, "` and `", other, "` exclude each other"));
  }
  if (!declares(function.directives, ".blocksareclusters")) return;
  for (const std::string_view other : {".reqntid", ".reqnctapercluster"}) {
    if (declares(function.directives, other)) continue;
    found.emplace_back(Code::directive_value, function.place,
                       cat("`.blocksareclusters` needs `", other, "` beside it"));
  }
}

namespace {

// Which registers each block declares, without forming their names: for each base a bit an index, and the few large
// ones apart.
class RegisterNames {
 public:
  static constexpr std::int32_t range = -2;  // for the index of base<count>

  bool add(std::uint32_t block, Name base, std::int32_t index) {
    std::vector<bool>& seen = bits(block, base);
    const auto at = static_cast<std::size_t>(index + 2);
    if (at >= dense) return sparse_.insert({block, base.id(), index}).second;
    if (at >= seen.size()) seen.resize(std::max(2 * seen.size(), at + 1));
    const bool fresh = !seen[at];
    seen[at] = true;
    return fresh;
  }
  // Whether a register of this block has this name, as a whole or as base and index.
  bool holds(std::uint32_t block, std::string_view name) const {
    if (holds(block, Name(name), -1)) return true;
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    std::int32_t index = -1;
    const auto end = std::from_chars(name.data() + digits, name.data() + name.size(), index);
    return digits < name.size() && end.ec == std::errc() && holds(block, Name(name.substr(0, digits)), index);
  }

 private:
  static constexpr std::size_t dense = 1 << 20;

  std::vector<bool>& bits(std::uint32_t block, Name base) { return seen_[std::uint64_t{block} << 32 | base.id()]; }
  bool holds(std::uint32_t block, Name base, std::int32_t index) const {
    const auto at = static_cast<std::size_t>(index + 2);
    if (at >= dense) return sparse_.contains({block, base.id(), index});
    const auto found = seen_.find(std::uint64_t{block} << 32 | base.id());
    return found != seen_.end() && at < found->second.size() && found->second[at];
  }

  std::unordered_map<std::uint64_t, std::vector<bool>> seen_;
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::int32_t>> sparse_;
};

}  // namespace

void check_registers(const ir::Function& function, const Symbols& symbols, Diagnostics& found) {
  RegisterNames names;
  const auto redeclared = [&](const Place& place, const std::string& name) {
    found.emplace_back(Code::redeclared_name, place, cat('`', name, "` is declared twice in one block"));
  };
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const Statement& s = function.body[i];
    if (s.kind != Statement::Kind::registers) continue;
    const ir::RegisterDeclaration& declaration = function.declarations[s.index];
    if (declaration.count == 0) continue;
    const ir::Register& first = function.registers[declaration.first];
    const std::string_view type = isa::info(first.type).name;
    if (!isa::info(first.type).declarable) {
      found.emplace_back(Code::register_type, s.place,
                         cat("no register is declared .", type, "; instructions on it take bit registers of its size"));
    }
    if (isa::info(first.type).bits * first.vector > 128) {
      found.emplace_back(Code::register_type, s.place,
                         cat("a vector of ", static_cast<int>(first.vector), " .", type, " is more than 128 bits"));
    }
    for (std::uint32_t r = 0; r < (declaration.range ? 1 : declaration.count); ++r) {
      const ir::Register& reg = function.registers[declaration.first + r];
      if (names.add(symbols.block_of(i), reg.base, declaration.range ? RegisterNames::range : reg.index)) continue;
      redeclared(s.place, declaration.range ? cat(reg.base.view(), "<..>") : ir::name(reg));
    }
  }
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const Statement& s = function.body[i];
    if (s.kind != Statement::Kind::label && s.kind != Statement::Kind::variable) continue;
    const Name name = s.kind == Statement::Kind::label ? Name::from_id(s.index) : function.variables[s.index].name;
    if (names.holds(symbols.block_of(i), name.view())) redeclared(s.place, std::string(name.view()));
  }
}

void check_calls(const ir::Function& function, const Symbols& symbols, Diagnostics& found) {
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const Statement& s = function.body[i];
    if (s.kind != Statement::Kind::instruction) continue;
    const ir::Instruction& instruction = function.instructions[s.index];
    if (!instruction.match || instruction.mnemonic->flow != isa::Flow::call) continue;
    std::size_t returns = 0, arguments = 0;
    const ir::Function* callee = nullptr;
    bool entry = false;
    for (const Operand& o : function.operands_of(instruction)) {
      if (o.kind == Operand::Kind::list) (callee ? arguments : returns) = o.child_count;
      if (o.kind != Operand::Kind::symbol || callee) continue;
      const Symbol* symbol = symbols.find(o.id, symbols.block_of(i));
      callee = symbol ? symbol->function : nullptr;
      if (!callee) break;
      entry = callee->entry;
    }
    if (!callee) continue;
    const std::string name = cat("`call ", callee->name.view(), '`');
    if (entry) {
      found.emplace_back(Code::wrong_arguments, s.place, cat(name, ": an .entry cannot be called, only a .func"));
    } else if (returns != callee->returns.size() || arguments != callee->parameters.size()) {
      found.emplace_back(Code::wrong_arguments, s.place,
                         cat(name, " has ", returns, " results and ", arguments, " arguments; the function has ",
                             callee->returns.size(), " and ", callee->parameters.size()));
    }
  }
}

namespace {

bool ends_path(const ir::Instruction& i) {
  return i.guard.reg == ir::no_id && (i.mnemonic->flow == isa::Flow::branch || i.mnemonic->flow == isa::Flow::end);
}

// The words of a directive kept as text.
template <class Take>
void each_word(std::string_view text, Take take) {
  constexpr std::string_view gaps = " \t,;:";
  for (std::size_t at = 0; (at = text.find_first_not_of(gaps, at)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(gaps, at), text.size());
    take(text.substr(at, end - at));
    at = end;
  }
}

// Names of labels that something mentions: operands, and tables of targets kept as text.
std::unordered_set<std::uint32_t> mentioned(const ir::Function& function) {
  std::unordered_set<std::uint32_t> names;
  for (const Operand& o : function.operands) {
    if (o.kind == Operand::Kind::symbol) names.insert(o.id);
  }
  for (const Statement& s : function.body) {
    if (s.kind != Statement::Kind::directive) continue;
    each_word(function.texts[s.index], [&](std::string_view word) { names.insert(Name(word).id()); });
  }
  return names;
}

}  // namespace

void check_prototypes(const Goal& goal, const ir::Function& function, Diagnostics& found) {
  for (const Statement& s : function.body) {
    if (s.kind != Statement::Kind::directive) continue;
    each_word(function.texts[s.index], [&](std::string_view word) {
      if (const KnownDirective* known = known_directive(word)) check_gate(goal, *known, s.place, found);
    });
  }
}

void check_flow(const ir::Function& function, Diagnostics& found) {
  std::optional<std::unordered_set<std::uint32_t>> labels;  // made where the first path has ended
  bool dead = false, told = false;
  for (const Statement& s : function.body) {
    if (s.kind == Statement::Kind::label && dead) {
      if (!labels) labels = mentioned(function);
      if (labels->contains(s.index)) dead = told = false;
    }
    if (s.kind != Statement::Kind::instruction) continue;
    const ir::Instruction& i = function.instructions[s.index];
    if (dead && !told && !ends_path(i)) {
      found.emplace_back(Code::unreachable_code, s.place,
                         cat("nothing leads to this `", i.mnemonic->text,
                             "`: the path before it ends, and no branch names a label in between"));
      told = true;
    }
    dead = dead || ends_path(i);
  }
}

}  // namespace ptx::check
