// What a function owes beside its instructions: registers, calls, reachable statements.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ptx/base/text.h"
#include "ptx/check/detail/module.h"

namespace ptx::check {

using ir::Operand;
using ir::Statement;

namespace {

// Which registers each block declares, without forming their names: each base has a bit for each index; the few large
// indices are kept apart.
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
  // A range of the block, and where it is declared; then the registers `%r4` that stand for themselves beside `%r<8>`.
  struct Beside {
    std::uint32_t block;
    std::size_t at;
    std::uint32_t count;
    Name name;
  };
  void range_at(const Beside& range) { ranges_.emplace(std::uint64_t{range.block} << 32 | range.name.id(), range); }
  template <class Tell>
  void each_beside(std::span<const Beside> singles, Tell tell) const {
    for (const Beside& one : singles) {
      const std::string_view name = one.name.view();
      const std::size_t digits = name.find_last_not_of("0123456789") + 1;
      std::uint32_t index = 0;
      // %r0 and %r04 are of an %r<8> above, not of one below
      const bool zeros = digits < name.size() && name[digits] == '0';
      if (digits == name.size()) continue;
      if (std::from_chars(name.data() + digits, name.data() + name.size(), index).ec != std::errc()) continue;
      const auto range = ranges_.find(std::uint64_t{one.block} << 32 | Name(name.substr(0, digits)).id());
      if (range == ranges_.end() || index >= range->second.count) continue;
      if (!zeros || one.at > range->second.at) tell(std::max(one.at, range->second.at), name);
    }
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

  std::unordered_map<std::uint64_t, Beside> ranges_;
  std::unordered_map<std::uint64_t, std::vector<bool>> seen_;
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::int32_t>> sparse_;
};

Diagnostic declared_twice(const Place& place, std::string_view name) {
  return {Code::redeclared_name, place, cat('`', name, "` is declared twice in one block")};
}

// Where the outermost block of the body declares a register of this name.
const Place& place_of_register(const ir::Function& function, const Symbols& symbols, std::string_view name) {
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const Statement& s = function.body[i];
    if (s.kind != Statement::Kind::registers || symbols.block_of(i) != Symbols::outermost) continue;
    const ir::RegisterDeclaration& declaration = function.declarations[s.index];
    for (std::uint32_t r = 0; r < declaration.count; ++r)
      if (ir::name(function.registers[declaration.first + r]) == name) return s.place;
  }
  return function.place;
}

// Labels and variables beside the registers of their block, and parameters beside all that the outermost block
// declares.
void check_other_names(const ir::Function& function, const Symbols& symbols, RegisterNames& names,
                       std::vector<RegisterNames::Beside>& singles, Diagnostics& found) {
  std::unordered_set<std::uint32_t> parameters;
  const auto is_parameter = [&](const Place& place, std::string_view name) {
    found.emplace_back(Code::redeclared_name, place,
                       cat('`', name, "` is a parameter: only a block { } inside of the body may declare it again"));
  };
  for (const auto* list : {&function.parameters, &function.returns}) {
    for (const ir::Variable& v : *list) {
      parameters.insert(v.name.id());
      singles.push_back({Symbols::outermost, 0, 1, v.name});
      if (names.holds(Symbols::outermost, v.name.view()))
        is_parameter(place_of_register(function, symbols, v.name.view()), v.name.view());
    }
  }
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const Statement& s = function.body[i];
    if (s.kind != Statement::Kind::label && s.kind != Statement::Kind::variable) continue;
    const ir::Variable* variable = s.kind == Statement::Kind::variable ? &function.variables[s.index] : nullptr;
    const Name name = variable ? variable->name : Name::from_id(s.index);
    const std::uint32_t block = symbols.block_of(i);
    check_name(name, false, s.place, found);
    if (variable && variable->count >= 0) {
      names.range_at({block, i, static_cast<std::uint32_t>(variable->count), name});
      if (!names.add(block, name, RegisterNames::range))
        found.push_back(declared_twice(s.place, cat(name.view(), "<..>")));
      continue;
    }
    if (names.holds(block, name.view())) found.push_back(declared_twice(s.place, name.view()));
    if (block == Symbols::outermost && parameters.contains(name.id())) is_parameter(s.place, name.view());
    if (variable) singles.push_back({block, i, 1, name});
  }
}

}  // namespace

void check_registers(const ModuleTarget& target, const ir::Function& function, const Symbols& symbols,
                     Diagnostics& found) {
  RegisterNames names;
  std::vector<RegisterNames::Beside> singles;
  const auto redeclared = [&](const Place& place, const std::string& name) {
    found.push_back(declared_twice(place, name));
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
                         cat("no register is declared .", type, "; use a bit register of its size"));
    }
    if (isa::info(first.type).bits * first.vector > 128 || first.vector == 8) {
      found.emplace_back(Code::register_type, s.place,
                         cat("a vector register has at most 4 elements and 128 bits, not ",
                             static_cast<int>(first.vector), " of .", type));
    }
    if (first.vector > 1 && first.type == isa::Type::pred) {
      found.emplace_back(Code::register_type, s.place, "there are no vectors of predicates");
    }
    if (const auto* since = type_since(first.type); since && !reaches(target, *since)) {
      found.emplace_back(target.has(since->version) ? Code::needs_target : Code::needs_version, s.place,
                         cat("registers of .", type, " need ", isa::to_string(*since)));
    }
    for (std::uint32_t r = 0; r < (declaration.range ? 1 : declaration.count); ++r) {
      const ir::Register& reg = function.registers[declaration.first + r];
      if (reg.index < 0) check_name(reg.base, false, s.place, found);
      const RegisterNames::Beside one{symbols.block_of(i), i, declaration.count, reg.base};
      declaration.range ? names.range_at(one) : singles.push_back(one);
      if (names.add(symbols.block_of(i), reg.base, declaration.range ? RegisterNames::range : reg.index)) continue;
      redeclared(s.place, declaration.range ? cat(reg.base.view(), "<..>") : ir::name(reg));
    }
  }
  check_other_names(function, symbols, names, singles, found);
  names.each_beside(
      singles, [&](std::size_t at, std::string_view name) { redeclared(function.body[at].place, std::string(name)); });
}

namespace {

bool ends_path(const ir::Instruction& i) {
  return i.guard.reg == ir::no_id && (i.mnemonic->is(isa::Trait::branches) || i.mnemonic->is(isa::Trait::ends));
}

// Names of labels that something mentions: operands and tables of targets.
std::unordered_set<std::uint32_t> mentioned(const ir::Function& function) {
  std::unordered_set<std::uint32_t> names;
  for (const Operand& o : function.operands) {
    if (o.kind == Operand::Kind::symbol) names.insert(o.id);
  }
  for (const ir::Table& table : function.tables) {
    for (const Name target : table.targets) names.insert(target.id());
  }
  return names;
}

}  // namespace

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
                         cat("this `", i.mnemonic->text,
                             "` is never reached: the path before it ends, and no branch names a label in between"));
      told = true;
    }
    dead = dead || ends_path(i);
  }
}

// 9.7.16.12.1
void check_cta_groups(const ir::Function& function, Diagnostics& found) {
  std::string_view first;
  for (const Statement& s : function.body) {
    if (s.kind != Statement::Kind::instruction) continue;
    const ir::Instruction& i = function.instructions[s.index];
    if (!i.match || i.mnemonic->opcode != "tcgen05") continue;
    const std::string_view group = i.match->value("cta_group");
    if (first.empty()) first = group;
    if (group.empty() || group == first) continue;
    found.emplace_back(Code::illegal_modifiers, s.place,
                       cat("all tcgen05 instructions of a kernel must have the same .cta_group; the first has .", first,
                           ", this has .", group));
    return;
  }
}

}  // namespace ptx::check
