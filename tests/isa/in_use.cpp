// Every mnemonic that compilers write, of the chapters that have rows, is known. Reads
// ../shared/corpus/mnemonics_in_use.tsv.
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <string>

#include "ptx/isa/form.h"

using namespace ptx::isa;

namespace {

// Opcodes whose rows are not complete yet, by the first words of a mnemonic.
constexpr std::string_view later[] = {
    "cp.async.bulk.prefetch.L2",
    "cp.reduce",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob",
    "red.async",
    "multimem.",
};

bool is_later(std::string_view text) {
  for (const auto prefix : later) {
    if (text.starts_with(prefix)) return true;
  }
  return !resolve(text.substr(0, text.find('.')))->known_opcode;
}

}  // namespace

TEST_CASE("mnemonics in use are known") {
  std::ifstream file(PTX_SOURCE_DIR "/../shared/corpus/mnemonics_in_use.tsv");
  if (!file) {
    MESSAGE("skipped: no ../shared/corpus");
    return;
  }
  std::string line;
  std::getline(file, line);
  int known = 0, others = 0;
  while (std::getline(file, line)) {
    const std::string text = line.substr(0, line.find('\t'));
    if (is_later(text)) {
      ++others;
      continue;
    }
    const bool matches = !resolve(text)->matches.empty();
    CHECK_MESSAGE(matches, explain(text));
    known += matches;
  }
  MESSAGE(known << " known, " << others << " of later chapters");
  CHECK(known > 1000);
}
