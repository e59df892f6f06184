// Random instances of the rows, right and wrong: what check says of an instruction it says again of its text, the text
// is its own print, and a Builder appends it or refuses. With PYPTX_FUZZ_ASSEMBLER=FOLDER (of Python packages)
// nvJitLink is asked as well, and what it says otherwise is printed: tests/oracle/known.tsv has the reasons, so nothing
// stops at it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "ptx/author/builder.h"
#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/cuda/assembler.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"
#include "ptx/syntax/print.h"
#include "tests/oracle/generate.h"

using namespace ptx;

namespace {

// The bytes of the fuzzer as choices; zeros when they end.
struct Bytes {
  const std::uint8_t* data;
  std::size_t size;
  std::size_t operator()(std::size_t n) {
    std::size_t value = 0;
    for (std::size_t limit = 1; limit < n; limit <<= 8) {
      value = value << 8 | (size ? *data : 0);
      if (size) ++data, --size;
    }
    return value % n;
  }
};

[[noreturn]] void fail(const char* why, const std::string& text) {
  std::fprintf(stderr, "%s\n%s\n", why, text.c_str());
  std::abort();
}

// Lines of the module that the check of its text refuses; none is legal.
std::string reread(const std::string& text) {
  const syntax::Parsed parsed = syntax::parse(text);
  if (syntax::print(parsed.tree) != text) fail("the text is not its own print", text);
  ir::Lowered lowered = ir::lower(parsed.tree);
  Diagnostics all = parsed.diagnostics;
  all.insert(all.end(), lowered.diagnostics.begin(), lowered.diagnostics.end());
  const Diagnostics found = check::check(lowered.module);
  all.insert(all.end(), found.begin(), found.end());
  if (all.empty() && ir::emit(lowered.module) != text) fail("the ir prints another text", text);
  std::string errors;
  for (const Diagnostic& d : all) {
    if (d.severity == Severity::error) errors += to_string(d);
  }
  return errors;
}

// Registers, numbers and vectors of registers, as a Builder has them; nothing where it has no such operand.
std::optional<author::Operand> built(author::Builder& b, const ir::Function& f, const ir::Operand& o) {
  switch (o.kind) {
    case ir::Operand::Kind::reg: return author::Operand(b.scalar(f.registers[o.id].type));
    case ir::Operand::Kind::integer: return author::Operand(o.value);
    case ir::Operand::Kind::f64: return author::Operand(1.0);
    case ir::Operand::Kind::special: return author::Operand(b.special(Name::from_id(o.id).view()));
    case ir::Operand::Kind::sink: return author::sink();
    case ir::Operand::Kind::address: {
      const ir::Operand& base = f.children(o)[0];
      if (o.child_count != 1 || base.kind != ir::Operand::Kind::reg) return {};
      return author::Operand(b.address(author::Operand(b.scalar(f.registers[base.id].type)), o.value));
    }
    case ir::Operand::Kind::vector: {
      std::vector<author::Operand> elements;
      for (const ir::Operand& element : f.children(o)) {
        if (element.kind != ir::Operand::Kind::reg) return {};
        elements.emplace_back(b.scalar(f.registers[element.id].type));
      }
      return b.vector(elements);
    }
    default: return {};
  }
}

void write_again(const ir::Function& f, const ir::Instruction& i, const std::string& target) {
  author::Options options;
  options.target = target;
  options.version = {9, 4};  // rules of operands may need a later one than the forms, which the smallest comes from
  author::Builder b(options);
  try {
    std::vector<author::Operand> operands;
    for (const ir::Operand& o : f.operands_of(i)) {
      const auto operand = built(b, f, o);
      if (!operand) return;
      operands.push_back(*operand);
    }
    b.emit(i.mnemonic, operands);
    b.emit("ret");
    const std::string text = ir::emit(b.finish().module);
    if (const std::string errors = reread(text); !errors.empty()) fail(errors.c_str(), text);
  } catch (const author::Refused&) {
  }
}

void ask_assembler(const std::string& text, const std::string& target, bool legal) {
  static const char* const folder = std::getenv("PYPTX_FUZZ_ASSEMBLER");
  if (!folder) return;
  static const auto& found = *new std::vector(cuda::find_nvjitlink({{folder}, false}));
  if (found.empty() || found.front().assembler == nullptr) return;
  const bool taken = static_cast<bool>(found.front().assembler->assemble(text, target, {}));
  if (taken != legal) std::fprintf(stderr, "check: %s\n%s\n", legal ? "legal" : "refused", text.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static oracle::Pool& pool = *new oracle::Pool;
  static constexpr const char* targets[] = {"sm_75", "sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a"};
  Bytes bytes{data, size};
  oracle::Generator generator(pool, [&](std::size_t n) { return bytes(n); });
  const isa::Form& form = isa::forms()[bytes(isa::forms().size())];
  const std::string target = targets[bytes(std::size(targets))];
  const check::ModuleTarget module_target{*isa::target_named(target), {9, 4}};
  if (oracle::Generator::calls(form)) return 0;

  const oracle::Modifiers modifiers = generator.modifiers(form, generator.random(form));
  const isa::Match* match = generator.match(form, modifiers);
  if (!match) return 0;
  const auto groups = generator.operand_groups(*match);
  const unsigned chosen = groups[bytes(groups.size())];
  oracle::Operands operands = generator.operands(form, *match, chosen);
  if (!operands.empty() && bytes(2)) {
    const int at = static_cast<int>(bytes(operands.size()));
    const int change = 1 + static_cast<int>(bytes(static_cast<std::size_t>(generator.changes(at))));
    operands = generator.operands(form, *match, chosen, at, change);
  }
  const auto beside = bytes(4) ? std::vector<oracle::Modifiers>{} : generator.beside(form, modifiers);
  const oracle::Modifiers& written = beside.empty() ? modifiers : beside[bytes(beside.size())];

  ir::Function& f = pool.function();
  ir::Instruction& i = pool.put(*isa::resolve(oracle::join(form, written)), operands);
  pool.module.target = target, pool.module.version = module_target.version;
  const check::ModuleSymbols names(pool.module);
  const check::Symbols symbols(names, f, pool.item());
  auto problem = check::check_instruction(module_target, f, i, {}, &symbols, pool.statement());
  if (problem && problem->severity != Severity::error) problem.reset();
  const std::string text = ir::emit(pool.module);
  const std::string errors = reread(text);
  if (errors.empty() != !problem) fail(problem ? to_string(*problem).c_str() : errors.c_str(), pool.text());
  ask_assembler(text, target, !problem);
  write_again(f, i, target);
  return 0;
}
