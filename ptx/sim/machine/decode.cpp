#include "ptx/sim/machine/decode.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <numeric>

#include "ptx/arch/target.h"
#include "ptx/base/text.h"
#include "ptx/ir/directive.h"
#include "ptx/sim/machine/decode_function.h"

namespace ptx::sim {

namespace {

constexpr std::string_view gaps = "{}(), +-\n\t;";

// Second names of functions: .alias second, first;
std::unordered_map<std::uint32_t, Name> aliases(const ir::Module& module) {
  std::unordered_map<std::uint32_t, Name> found;
  for (const std::string_view text : module.texts) {
    if (!text.starts_with(".alias")) continue;
    std::string_view names[2], rest = text.substr(6);
    for (std::string_view& name : names) {
      rest.remove_prefix(std::min(rest.find_first_not_of(gaps), rest.size()));
      name = rest.substr(0, rest.find_first_of(gaps));
      rest.remove_prefix(name.size());
    }
    found.emplace(Name(names[0]).id(), Name(names[1]));
  }
  return found;
}

// Names in operands and initializers: what a function may reach.
class Reach {
 public:
  Reach(const ir::Module& module, const ir::Function& entry) : second_names(aliases(module)) {
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
  bool asks_for_reserved_shared() const {
    const auto asks = [](const ir::Operand& o) {
      return o.kind == ir::Operand::Kind::special && Name::from_id(o.id).view().starts_with("%reserved_smem_offset");
    };
    return std::ranges::any_of(functions,
                               [&](const ir::Function* f) { return std::ranges::any_of(f->operands, asks); });
  }

  std::vector<const ir::Function*> functions;  // [0]: the entry
  std::unordered_map<std::uint32_t, bool> used;
  const std::unordered_map<std::uint32_t, Name> second_names;

 private:
  void add(const ir::Function& f) {
    functions.push_back(&f);
    bodies_.erase(f.name.id());
  }
  void use(Name name) {
    used[name.id()] = true;
    if (const auto first = second_names.find(name.id()); first != second_names.end()) name = first->second;
    const auto body = bodies_.find(name.id());
    if (body != bodies_.end() && !body->second->entry) add(*body->second);
  }
  void use_words(std::string_view text) {
    while (!text.empty()) {
      const auto begin = text.find_first_not_of(gaps);
      if (begin == text.npos) return;
      text.remove_prefix(begin);
      const std::string_view word = text.substr(0, text.find_first_of(gaps));
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

// The product of a directive's numbers: .maxntid nx{, ny{, nz}}; 0: there is none.
std::uint32_t product_of(const ir::Function& entry, std::string_view name) {
  const auto numbers = ir::directive_numbers(entry, name);
  return numbers ? std::accumulate(numbers->begin(), numbers->end(), 1U, std::multiplies()) : 0;
}

// The directives' bound of the registers of a thread; 0: they set none, and setmaxnreg does nothing (9.7.19.5).
std::uint32_t bound_of_registers(const ir::Function& entry) {
  if (const std::uint32_t n = product_of(entry, ".maxnreg")) return (n + 7) / 8 * 8;
  const std::uint32_t threads = std::max(product_of(entry, ".maxntid"), product_of(entry, ".reqntid"));
  const std::uint32_t ctas = product_of(entry, ".minnctapersm");
  if (threads == 0 || ctas == 0) return 0;
  return std::min(arch::thread_registers, arch::sm_registers / ((threads + 31) / 32 * 32 * ctas)) / 8 * 8;
}

// What each thread has at first. The assembler gives a thread no more than the largest setmaxnreg.inc asks for.
std::uint32_t first_registers(const std::vector<const ir::Function*>& functions) {
  std::uint32_t largest = 0;
  for (const ir::Function* f : functions) {
    for (const ir::Instruction& i : f->instructions) {
      const bool sets = i.match && std::ranges::find(i.match->form->rules, isa::Rule::multiple_of_8) !=
                                       std::end(i.match->form->rules);
      if (sets && i.match->has("inc"))
        largest = std::max(largest, static_cast<std::uint32_t>(f->operands_of(i)[0].value));
    }
  }
  const std::uint32_t bound = bound_of_registers(*functions.front());
  return largest ? std::min(bound, largest) : bound;
}

// The sizes of a directive: .reqntid nx{, ny{, nz}}, .reqnctapercluster
std::optional<launch::Dim3> required(const ir::Function& entry, std::string_view name) {
  auto numbers = ir::directive_numbers(entry, name);
  if (!numbers) return std::nullopt;
  numbers->resize(3, 1);
  return launch::Dim3{(*numbers)[0], (*numbers)[1], (*numbers)[2]};
}

// Where each allocation of the author was written, and those that are parts of dynamic memory by their own names.
void name_allocations(Program& program, const std::vector<Allocated>& allocated) {
  std::vector<NamedBytes>& all = program.shared_variables;
  const std::size_t count = all.size();
  for (const Allocated& a : allocated) {
    const std::string_view name = (a.array == Name() ? a.name : a.array).view();
    const auto at = std::find_if(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count),
                                 [&](const NamedBytes& v) { return v.name == name; });
    if (at == all.begin() + static_cast<std::ptrdiff_t>(count)) continue;
    if (a.array == Name()) {
      at->place = a.place;
    } else {
      const std::uint64_t begin = at->begin + a.offset;
      all.push_back({std::string(a.name.view()), begin, begin + a.bytes, a.place, true});
    }
  }
}

// The files of `.file number "name"`.
std::map<std::uint32_t, Name> files_of(const ir::Module& module) {
  std::map<std::uint32_t, Name> out;
  for (const std::string_view text : module.texts) {
    const auto quote = text.find('"'), end = text.find('"', quote + 1);
    if (!text.starts_with(".file ") || end == text.npos) continue;
    std::uint32_t number = 0;
    std::from_chars(text.data() + 6, text.data() + quote, number);
    out[number] = Name(text.substr(quote + 1, end - quote - 1));
  }
  return out;
}

}  // namespace

Expected<std::unique_ptr<Program>> decode(const ir::Module& module, std::string_view entry,
                                          const std::vector<Place>& lines, const std::vector<Allocated>& allocated) {
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
  program->generated = !module.generator.empty();
  if (const auto* hardware = arch::architecture(std::string_view(module.target).substr(0, module.target.find(','))))
    program->architecture = hardware->is;
  program->cluster = required(*root, ".reqnctapercluster");
  program->block = required(*root, ".reqntid");
  program->most_threads = product_of(*root, ".maxntid");
  program->first_registers = first_registers(reach.functions);
  if (reach.asks_for_reserved_shared()) {
    program->reserved_shared = program->static_shared = arch::architecture(program->architecture)->reserved_shared();
    program->shared_variables.push_back({"reserved shared memory", 0, program->reserved_shared});
  }
  Layout layout(module, reach.used, reach.functions, *program);
  name_allocations(*program, allocated);
  for (const ir::Function* f : reach.functions) {
    FunctionCode& code = program->functions.emplace_back();
    code.name = f->name;
    code.entry = f->entry;
    code.index = static_cast<std::uint32_t>(program->functions.size() - 1);
    if (!f->entry) layout.function(f->name, code.index);
  }
  for (const auto& [second, first] : reach.second_names) {
    for (const FunctionCode& code : program->functions)
      if (code.name == first) layout.function(Name::from_id(second), code.index);
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
  const std::map<std::uint32_t, Name> files = files_of(module);
  for (FunctionDecoder& decoder : decoders) decoder.body(files);
  if (!diagnostics.empty()) return diagnostics;
  for (Op& op : program->ops) op.operands = program->operands.data() + reinterpret_cast<std::size_t>(op.operands);
  return program;
}

std::vector<Line> constants_of(const Program& program, std::uint32_t rank) {
  std::vector<Line> constants = program.constants;
  const std::uint64_t bits = std::uint64_t{rank} << shared_rank_shift;
  for (const Operand& o : program.shared_addresses) {
    std::byte* const row = reinterpret_cast<std::byte*>(constants.data()) + o.offset;
    for (int lane = 0; lane < lanes; ++lane) {
      std::uint64_t address = 0;
      std::memcpy(&address, row + lane * o.cell, o.cell);
      address += bits;
      std::memcpy(row + lane * o.cell, &address, o.cell);
    }
  }
  return constants;
}

}  // namespace ptx::sim
