#include "ptx/ir/symbols.h"

#include <algorithm>
#include <charconv>

#include "ptx/base/text.h"

namespace ptx::ir {

namespace {

std::uint64_t key(std::uint32_t block, std::uint32_t name) { return static_cast<std::uint64_t>(block) << 32 | name; }

// `look` on a name; where it finds nothing, on the base of a `name<count>` that has it.
template <class Look>
const Symbol* with_counts(std::uint32_t name, Look look) {
  if (const Symbol* exact = look(name)) return exact;
  const std::string_view text = Name::from_id(name).view();
  const std::size_t digits = text.find_last_not_of("0123456789") + 1;
  std::int64_t index = 0;
  if (digits == 0 || digits == text.size()) return nullptr;
  if (std::from_chars(text.data() + digits, text.data() + text.size(), index).ec != std::errc()) return nullptr;
  const Symbol* base = look(Name(text.substr(0, digits)).id());
  return base && base->variable && index < base->variable->count ? base : nullptr;
}

std::string in_line(const Place& place) { return place.line ? cat(", in line ", place.line) : std::string(); }

std::string of_ended_block(const Place& place) {
  return cat("is declared in a block { }", in_line(place), ", and this is outside of that block");
}

bool declares_register(const Function& function, const Statement& s, Name name) {
  const RegisterDeclaration& declared = function.declarations[s.index];
  const auto first = function.registers.begin() + declared.first;
  const auto is_it = [&](const Register& r) { return r.index >= 0 ? ir::name(r) == name.view() : r.base == name; };
  if (!declared.range) return std::any_of(first, first + declared.count, is_it);
  const std::string_view base = first->base.view(), spelled = name.view();
  std::uint32_t index = 0;
  return spelled.starts_with(base) &&
         std::from_chars(spelled.data() + base.size(), spelled.data() + spelled.size(), index).ec == std::errc() &&
         index < declared.count && is_it(first[index]);
}

}  // namespace

const Table* table_behind(const Function& function, std::uint32_t label) {
  const auto at =
      std::ranges::lower_bound(function.tables, label + 1, {}, [](const Table& table) { return table.statement; });
  return at != function.tables.end() && at->statement == label + 1 ? &*at : nullptr;
}

ModuleSymbols::ModuleSymbols(const Module& module) {
  for (std::uint32_t i = 0; i < module.items.size(); ++i) {
    const Module::Item& item = module.items[i];
    if (item.kind == Module::Item::Kind::variable) {
      const Variable& v = module.variables[item.index];
      symbols_.try_emplace(v.name.id(), Symbol{Symbol::Kind::variable, &v, nullptr, i, item.place});
    } else if (item.kind == Module::Item::Kind::function) {
      const Function& f = module.functions[item.index];
      symbols_.try_emplace(f.name.id(), Symbol{Symbol::Kind::function, nullptr, &f, i, f.place});
    }
  }
}

const Symbol* ModuleSymbols::find(std::uint32_t name) const {
  return with_counts(name, [&](std::uint32_t exact) {
    const auto found = symbols_.find(exact);
    return found == symbols_.end() ? nullptr : &found->second;
  });
}

Symbols::Symbols(const ModuleSymbols& module, const Function& function, std::uint32_t item)
    : module_(module), function_(function), item_(item) {
  for (const auto* list : {&function.parameters, &function.returns}) {
    for (const Variable& v : *list) {
      symbols_[key(0, v.name.id())] = {Symbol::Kind::parameter, &v, nullptr, 0, function.place};
    }
  }
  add_body(function);
}

void Symbols::add(std::uint32_t block, Name name, Symbol symbol) {
  const auto [at, fresh] = symbols_.try_emplace(key(block, name.id()), symbol);
  if (!fresh) duplicates_.push_back(symbol.at);
}

void Symbols::add_body(const Function& function) {
  std::uint32_t block = outermost;
  parents_.push_back(0);
  blocks_.reserve(function.body.size() + 1);
  for (std::uint32_t i = 0; i < function.body.size(); ++i) {
    const Statement& s = function.body[i];
    if (s.kind == Statement::Kind::open) {
      parents_.push_back(block);
      block = static_cast<std::uint32_t>(parents_.size() - 1);
    } else if (s.kind == Statement::Kind::close) {
      block = parents_[block];
    } else if (s.kind == Statement::Kind::label) {
      add(block, Name::from_id(s.index), {Symbol::Kind::label, nullptr, nullptr, i, s.place});
    } else if (s.kind == Statement::Kind::variable) {
      const Variable& v = function.variables[s.index];
      add(block, v.name, {Symbol::Kind::variable, &v, nullptr, i, s.place});
    } else if (s.kind == Statement::Kind::registers) {
      registers_.push_back(i);
    }
    blocks_.push_back(block);
  }
  blocks_.push_back(block);  // behind the last: where its own name is known
}

// The innermost symbol of the body or the parameters that is accepted.
template <class Accept>
const Symbol* Symbols::search(std::uint32_t name, std::uint32_t block, Accept accept) const {
  return with_counts(name, [&](std::uint32_t exact) -> const Symbol* {
    for (std::uint32_t at = block;; at = parents_[at]) {
      if (const auto found = symbols_.find(key(at, exact)); found != symbols_.end() && accept(found->second))
        return &found->second;
      if (at == 0) return nullptr;
    }
  });
}

const Symbol* Symbols::find(std::uint32_t name, std::uint32_t statement) const {
  const std::uint32_t block = blocks_[statement];
  const auto above = [&](const Symbol& s) { return s.kind == Symbol::Kind::parameter || s.at < statement; };
  if (const Symbol* own = search(name, block, above)) return own;
  if (const Symbol* outer = find_above(module_, name, item_)) return outer;
  return search(name, block, [](const Symbol& s) { return s.kind == Symbol::Kind::label; });
}

const Symbol* Symbols::find_below(std::uint32_t name, std::uint32_t statement) const {
  if (const Symbol* own = search(name, blocks_[statement], [](const Symbol&) { return true; })) return own;
  return module_.find(name);
}

std::string Symbols::not_declared(std::uint32_t name, std::uint32_t statement) const {
  if (const Symbol* below = find_below(name, statement)) return ir::not_declared(below);
  const Symbol* elsewhere = with_counts(name, [&](std::uint32_t exact) -> const Symbol* {
    for (std::uint32_t block = 1; block < parents_.size(); ++block)
      if (const auto found = symbols_.find(key(block, exact)); found != symbols_.end()) return &found->second;
    return nullptr;
  });
  if (elsewhere) return of_ended_block(elsewhere->place);
  for (const std::uint32_t i : registers_) {
    const Statement& s = function_.body[i];
    if (!declares_register(function_, s, Name::from_id(name))) continue;
    return i < statement ? of_ended_block(s.place)
                         : cat("is declared below", in_line(s.place), "; registers are declared above their first use");
  }
  return ir::not_declared(nullptr);
}

std::string not_declared(const Symbol* below) {
  if (!below) return "is not declared";
  return cat("is declared below", in_line(below->place), "; variables and functions are declared above their first use",
             below->function && !below->function->entry
                 ? cat("; a prototype, `.func ", below->function->name.view(), " (..);`, is enough")
                 : "");
}

}  // namespace ptx::ir
