// Whether the .shared variables of each kernel fit. The assembler lays out those of the module that the kernel names,
// or a function that it names, and all those of their bodies, also where nothing reaches the statement; variables
// without a size, and .extern ones, are not counted.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ptx/arch/target.h"
#include "ptx/base/text.h"
#include "ptx/check/detail/module.h"

namespace ptx::check {

namespace {

bool is_counted(const ir::Variable& v) {
  return v.space == isa::Space::shared && !is_extern(v) && (v.dims.empty() || v.dims[0] >= 0);
}

std::uint64_t behind(std::uint64_t end, const ir::Variable& v) {
  const std::uint64_t align = alignment(v);
  return (end + align - 1) / align * align + bytes(v);
}

// Bytes that a kernel of the target may have. For targets with `a`, all that a CTA may ask for; for others what it has
// without asking.
std::uint64_t most_of(const isa::Target& target) {
  const arch::Architecture* found = arch::architecture(target.number);
  return target.suffix == 'a' && found ? found->cta_shared : arch::static_shared;
}

// Which item of the module has the body of a function.
using Bodies = std::unordered_map<std::uint32_t, std::uint32_t>;

Bodies bodies_of(const ir::Module& module) {
  Bodies found;
  for (std::uint32_t i = 0; i < module.items.size(); ++i) {
    if (module.items[i].kind != ir::Module::Item::Kind::function) continue;
    const ir::Function& f = module.functions[module.items[i].index];
    if (!f.declaration) found.emplace(f.name.id(), i);
  }
  return found;
}

// The variables of the module and the bodies that a kernel names, itself or by functions that it names.
class Named {
 public:
  Named(const ir::Module& module, const ModuleSymbols& symbols, const Bodies& items, Name kernel)
      : module_(module), symbols_(symbols), items_(items) {
    add(kernel.id());
    while (!pending_.empty()) {
      const std::uint32_t item = pending_.back();
      pending_.pop_back();
      look_through(module.functions[module.items[item].index], item);
    }
  }

  std::unordered_set<const ir::Variable*> variables;
  std::unordered_set<const ir::Function*> bodies;

 private:
  void add(std::uint32_t name) {
    const auto item = items_.find(name);
    if (item == items_.end()) return;
    if (bodies.insert(&module_.functions[module_.items[item->second].index]).second) pending_.push_back(item->second);
  }

  void look_through(const ir::Function& f, std::uint32_t item) {
    const Symbols symbols(symbols_, f, item);
    for (std::uint32_t at = 0; at < f.body.size(); ++at) {
      const ir::Statement& s = f.body[at];
      if (s.kind == ir::Statement::Kind::instruction) add(f, f.operands_of(f.instructions[s.index]), symbols, at);
    }
  }

  void add(const ir::Function& f, std::span<const ir::Operand> operands, const Symbols& symbols, std::uint32_t at) {
    for (const ir::Operand& o : operands) {
      if (o.child_count) add(f, f.children(o), symbols, at);
      if (o.kind != ir::Operand::Kind::symbol) continue;
      const Symbol* symbol = symbols.find(o.id, at);
      if (symbol && symbol->function) add(symbol->function->name.id());
      if (symbol && symbol->variable) variables.insert(symbol->variable);
    }
  }

  const ir::Module& module_;
  const ModuleSymbols& symbols_;
  const Bodies& items_;
  std::vector<std::uint32_t> pending_;
};

// Of all variables where no kernel is asked for.
std::uint64_t bytes_of(const ir::Module& module, const Named* kernel = nullptr) {
  std::uint64_t end = 0;
  for (const ir::Variable& v : module.variables) {
    if (is_counted(v) && (!kernel || kernel->variables.contains(&v))) end = behind(end, v);
  }
  for (const ir::Function& f : module.functions) {
    if (kernel && !kernel->bodies.contains(&f)) continue;
    for (const ir::Variable& v : f.variables) {
      if (is_counted(v)) end = behind(end, v);
    }
  }
  return end;
}

}  // namespace

void check_shared(const ModuleTarget& target, const ir::Module& module, const ModuleSymbols& symbols,
                  Diagnostics& found) {
  const std::uint64_t most = most_of(target.sm);
  if (target.sm.number == 0 || bytes_of(module) <= most) return;
  const Bodies bodies = bodies_of(module);
  for (const ir::Function& f : module.functions) {
    if (!f.entry || f.declaration) continue;
    const Named named(module, symbols, bodies, f.name);
    const std::uint64_t size = bytes_of(module, &named);
    if (size <= most) continue;
    found.emplace_back(
        Code::directive_value, f.place,
        cat("`", f.name.view(), "`: its .shared variables take ", size, " bytes; at most ", most, " for ",
            arch::to_string(target.sm), ", more as an .extern array whose size the launch gives"));
  }
}

}  // namespace ptx::check
