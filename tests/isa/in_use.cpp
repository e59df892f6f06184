// Every mnemonic that compilers write is known. Reads ../shared/corpus/mnemonics_in_use.tsv.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "ptx/isa/form.h"

using namespace ptx::isa;

TEST_CASE("mnemonics in use are known") {
  std::ifstream file(PTX_SOURCE_DIR "/../shared/corpus/mnemonics_in_use.tsv");
  if (!file) {
    MESSAGE("skipped: no ../shared/corpus");
    return;
  }
  std::string line;
  std::getline(file, line);
  int known = 0;
  for (; std::getline(file, line); ++known) {
    const std::string text = line.substr(0, line.find('\t'));
    CHECK_MESSAGE(!resolve(text)->matches.empty(), explain(text));
  }
  CHECK(known > 2800);
}
