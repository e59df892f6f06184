#include "ptx/check/detail/symbols.h"

#include <charconv>

namespace ptx::check {

namespace {

std::uint64_t key(std::uint32_t block, std::uint32_t name) { return static_cast<std::uint64_t>(block) << 32 | name; }

}  // namespace

Symbols::Symbols(const ir::Module& module, const ir::Function& function) {
  add_module(module, function);
  add_body(function);
}

void Symbols::add(std::uint32_t block, Name name, Symbol symbol) {
  const auto [at, fresh] = symbols_.try_emplace(key(block, name.id()), symbol);
  if (!fresh && block != 0) duplicates_.push_back(symbol.statement);
}

// Block 0. The last meaning in front of the function counts, so a prototype and its definition do not clash here.
void Symbols::add_module(const ir::Module& module, const ir::Function& function) {
  for (const ir::Variable& v : module.variables) add(0, v.name, {Symbol::Kind::variable, &v, nullptr, 0});
  for (const ir::Function& f : module.functions) add(0, f.name, {Symbol::Kind::function, nullptr, &f, 0});
  for (const auto* list : {&function.parameters, &function.returns}) {
    for (const ir::Variable& v : *list) {
      symbols_[key(0, v.name.id())] = {Symbol::Kind::parameter, &v, nullptr, 0};
    }
  }
}

void Symbols::add_body(const ir::Function& function) {
  std::uint32_t block = 1;
  parents_.push_back(0);
  blocks_.reserve(function.body.size());
  for (std::uint32_t i = 0; i < function.body.size(); ++i) {
    const ir::Statement& s = function.body[i];
    if (s.kind == ir::Statement::Kind::open) {
      parents_.push_back(block);
      block = static_cast<std::uint32_t>(parents_.size() - 1);
    } else if (s.kind == ir::Statement::Kind::close) {
      block = parents_[block];
    } else if (s.kind == ir::Statement::Kind::label) {
      add(block, Name::from_id(s.index), {Symbol::Kind::label, nullptr, nullptr, i});
    } else if (s.kind == ir::Statement::Kind::variable) {
      const ir::Variable& v = function.variables[s.index];
      add(block, v.name, {Symbol::Kind::variable, &v, nullptr, i});
    }
    blocks_.push_back(block);
  }
}

const Symbol* Symbols::find_exact(std::uint32_t name, std::uint32_t block) const {
  for (;; block = parents_[block]) {
    if (const auto found = symbols_.find(key(block, name)); found != symbols_.end()) return &found->second;
    if (block == 0) return nullptr;
  }
}

const Symbol* Symbols::find(std::uint32_t name, std::uint32_t block) const {
  if (const Symbol* exact = find_exact(name, block)) return exact;
  const std::string_view text = Name::from_id(name).view();
  const std::size_t digits = text.find_last_not_of("0123456789") + 1;
  std::int64_t index = 0;
  if (digits == 0 || digits == text.size()) return nullptr;
  if (std::from_chars(text.data() + digits, text.data() + text.size(), index).ec != std::errc()) return nullptr;
  const Symbol* base = find_exact(Name(text.substr(0, digits)).id(), block);
  return base && base->variable && index < base->variable->count ? base : nullptr;
}

}  // namespace ptx::check
