#include "ptx/sim/machine/decode.h"

#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/sim/machine/decode_function.h"

namespace ptx::sim {

namespace {

// Names in operands and initializers: what a function may reach.
class Reach {
 public:
  Reach(const ir::Module& module, const ir::Function& entry) {
    for (const ir::Function& f : module.functions) {
      if (!f.declaration) bodies_[f.name.id()] = &f;
    }
    add(entry);
    for (std::size_t i = 0; i < functions.size(); ++i) {
      for (const ir::Operand& o : functions[i]->operands) {
        if (o.kind == ir::Operand::Kind::symbol) use(Name::from_id(o.id));
      }
    }
    // A table of functions in a variable: whatever it names is reachable.
    for (const ir::Variable& v : module.variables) use_words(v.initializer);
    for (std::size_t i = 0; i < functions.size(); ++i) {
      for (const ir::Operand& o : functions[i]->operands) {
        if (o.kind == ir::Operand::Kind::symbol) use(Name::from_id(o.id));
      }
    }
  }
  std::vector<const ir::Function*> functions;  // [0]: the entry
  std::unordered_map<std::uint32_t, bool> used;

 private:
  void add(const ir::Function& f) {
    functions.push_back(&f);
    bodies_.erase(f.name.id());
  }
  void use(Name name) {
    used[name.id()] = true;
    const auto body = bodies_.find(name.id());
    if (body != bodies_.end() && !body->second->entry) add(*body->second);
  }
  void use_words(std::string_view text) {
    while (!text.empty()) {
      const auto begin = text.find_first_not_of("{}(), +-\n\t");
      if (begin == text.npos) return;
      text.remove_prefix(begin);
      const std::string_view word = text.substr(0, text.find_first_of("{}(), +-\n\t"));
      if (word[0] < '0' || word[0] > '9') use(Name(word));
      text.remove_prefix(word.size());
    }
  }

  std::unordered_map<std::uint32_t, const ir::Function*> bodies_;
};

const ir::Function* find_entry(const ir::Module& module, std::string_view name) {
  for (const ir::Function& f : module.functions) {
    if (f.entry && !f.declaration && (name.empty() || f.name.view() == name)) return &f;
  }
  return nullptr;
}

}  // namespace

Expected<std::unique_ptr<Program>> decode(const ir::Module& module, std::string_view entry,
                                          const std::vector<Place>& lines) {
  const ir::Function* root = find_entry(module, entry);
  if (!root) {
    Diagnostic d(Code::no_such_entry, {}, cat("the text has no .entry `", entry, "`"));
    for (const ir::Function& f : module.functions) {
      if (f.entry) d.notes.push_back(cat("it has `", f.name.view(), "`"));
    }
    return d;
  }
  const Reach reach(module, *root);
  auto program = std::make_unique<Program>();
  Layout layout(module, reach.used, reach.functions, *program);
  for (const ir::Function* f : reach.functions) {
    FunctionCode& code = program->functions.emplace_back();
    code.name = f->name;
    code.entry = f->entry;
    code.index = static_cast<std::uint32_t>(program->functions.size() - 1);
    if (!f->entry) layout.function(f->name, code.index);
  }
  if (auto problem = layout.initialize()) return Diagnostic(Code::cannot_simulate, root->place, std::move(*problem));

  Diagnostics diagnostics;
  Constants constants(*program);
  constants.row(0, 16);
  std::deque<FunctionDecoder> decoders;
  for (std::size_t i = 0; i < reach.functions.size(); ++i) {
    decoders.emplace_back(*reach.functions[i], program->functions[i], *program, layout, constants, lines, diagnostics);
    decoders.back().signature();
  }
  for (FunctionDecoder& decoder : decoders) decoder.body();
  if (!diagnostics.empty()) return diagnostics;
  for (Op& op : program->ops) op.operands = program->operands.data() + reinterpret_cast<std::size_t>(op.operands);
  return program;
}

}  // namespace ptx::sim
