// Whole modules with tokens and lines exchanged: of a text that check finds legal, each way to transpile comes to an
// end, and the simulator runs each entry, plainly and with all checks. A report is as good as a result. Texts with `//
// run:` are launched as that line says.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>

#include "ptx/base/diagnostic.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/sim/checks.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/simulator.h"
#include "ptx/syntax/parse.h"
#include "ptx/transpile/transpile.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

constexpr std::size_t buffer_bytes = 4096;

// What lies behind the parameters of one entry: each of 8 bytes is a buffer, any other is a small number.
struct Arguments {
  explicit Arguments(launch::Record& record, const ir::Function& entry) {
    for (const ir::Variable& parameter : entry.parameters) {
      const auto size = static_cast<std::uint32_t>(ir::bytes(parameter));
      const auto alignment = std::max(parameter.alignment, std::min(size & (~size + 1), 8u));
      block.resize((block.size() + alignment - 1) / alignment * alignment);
      const auto offset = static_cast<std::uint32_t>(block.size());
      block.resize(offset + size);
      if (size == 8) {
        launch::TensorArgument tensor;
        tensor.name = "argument " + std::to_string(offset);
        memory.push_back(std::make_unique<Memory>());
        for (std::size_t i = 0; i < buffer_bytes; ++i) memory.back()->bytes[i] = static_cast<std::byte>(i % 61);
        void* pointer = memory.back()->bytes;
        std::memcpy(&block[offset], &pointer, sizeof pointer);
        const auto source = static_cast<std::uint32_t>(record.tensors.size());
        record.parameters.push_back({launch::Parameter::Kind::tensor, tensor.name, offset, 8, source});
        record.tensors.push_back(std::move(tensor));
        buffers.push_back({pointer, {}, {}, buffer_bytes, false});
      } else if (size) {
        block[offset] = std::byte{16};
      }
    }
    record.parameter_bytes = static_cast<std::uint32_t>(block.size());
  }

  struct alignas(256) Memory {
    std::byte bytes[buffer_bytes];
  };
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<launch::Buffer> buffers;
  std::vector<std::byte> block;
};

std::size_t digest(std::string_view text) { return std::hash<std::string_view>{}(text); }

void simulate(const std::string& text, const ir::Module& module) {
  const sim_test::Fixture shape = sim_test::parse_fixture(text.starts_with("// ") ? text : "");
  for (const sim::Checks checks : {sim::Checks{0}, *sim::checks_named("all")}) {
    for (const ir::Function& entry : module.functions) {
      if (!entry.entry || entry.declaration) continue;
      launch::Record record;
      record.entry = std::string(entry.name.view());
      record.grid = shape.grid, record.block = shape.block, record.cluster = shape.cluster;
      record.dynamic_shared = shape.dynamic_shared;
      if (shape.entry.empty()) record.grid.x = 2, record.block.x = 64, record.dynamic_shared = 16384;
      const Arguments arguments(record, entry);
      sim::Simulator simulator(
          {.cores = 1, .budget = 5'000, .seed = digest(text) % 3, .checks = checks, .print = [](const sim::Printed&) {
           }});
      const auto program = simulator.prepare(text, record);
      if (program) (void)(*program)->run(record, arguments.block, arguments.buffers, nullptr);
    }
  }
}

// The tokens of a text, by their spans.
std::vector<std::string_view> tokens(const syntax::Tree& tree, std::string_view text) {
  std::vector<std::string_view> found;
  for (syntax::TokenId id = 0; id < tree.tokens().size(); ++id) {
    const std::string_view token = tree.text(id);
    if (!token.empty() && token.data() >= text.data() && token.data() + token.size() <= text.data() + text.size())
      found.push_back(token);
  }
  return found;
}

}  // namespace

// One to four times: a token in another's place, a number changed, a line left out, doubled or moved.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  for (auto times = 1 + random() % 4; times; --times) {
    const syntax::Parsed parsed = syntax::parse(text);
    const std::string_view whole = parsed.tree.source();
    const auto all = tokens(parsed.tree, whole);
    if (all.empty()) break;
    const auto any = [&] { return all[random() % all.size()]; };
    const std::string_view one = any();
    const auto at = static_cast<std::size_t>(one.data() - whole.data());
    const auto line = whole.rfind('\n', at) == whole.npos ? 0 : whole.rfind('\n', at) + 1;
    const auto end = std::min(whole.find('\n', at), whole.size() - 1) + 1;
    const std::string row(whole.substr(line, end - line));
    static constexpr const char* numbers[] = {"0",
                                              "1",
                                              "-1",
                                              "3",
                                              "31",
                                              "64",
                                              "255",
                                              "4096",
                                              "4294967295",
                                              "0x80000000",
                                              "-9223372036854775808",
                                              "18446744073709551615",
                                              "0f7FC00000",
                                              "1e30"};
    std::string made(whole);
    switch (random() % 6) {
      case 0: made.replace(line, row.size(), ""); break;
      case 1: made.insert(line, row); break;
      case 2:
        made.replace(line, row.size(), ""),
            made.insert(std::min(made.size(), made.find('\n', random() % (made.size() + 1))), "\n" + row);
        break;
      case 3: made.replace(at, one.size(), numbers[random() % std::size(numbers)]); break;
      default: {
        // of the same first character where there is one: a register for a register, a modifier for a modifier
        std::string_view other = any();
        for (int i = 0; i < 20 && other.front() != one.front(); ++i) other = any();
        made.replace(at, one.size(), std::string(other));
      }
    }
    text = std::move(made);
  }
  if (text.size() > most) return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const syntax::Parsed parsed = syntax::parse(text);
  if (!parsed.diagnostics.empty()) return 0;
  auto lowered = ir::lower(parsed.tree);
  if (!lowered.diagnostics.empty()) return 0;
  if (has_error(check::check(lowered.module))) return 0;
  const transpile::Options options{.sugar = static_cast<transpile::Sugar>(digest(text) % 4),
                                   .launch = digest(text) % 8 > 3};
  (void)transpile::to_python(parsed.tree, options);
  (void)transpile::to_cpp(parsed.tree, options);
  simulate(text, lowered.module);
  return 0;
}
