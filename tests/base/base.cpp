#include <doctest/doctest.h>

#include <limits>
#include <thread>
#include <vector>

#include "ptx/base/diagnostic.h"
#include "ptx/base/expected.h"
#include "ptx/base/names.h"
#include "ptx/base/text.h"

using namespace ptx;

TEST_CASE("equal texts intern to equal names") {
  CHECK(Name("tid") == Name("tid"));
  CHECK(Name("tid") != Name("ctaid"));
  CHECK(Name("tid").view() == "tid");
  CHECK(Name().empty());
  CHECK(Name("") == Name());
}

TEST_CASE("names are interned by many threads at once") {
  std::vector<std::thread> threads;
  std::vector<std::vector<Name>> seen(4);
  for (auto& list : seen) {
    threads.emplace_back([&list] {
      for (int i = 0; i < 2000; ++i) list.emplace_back(cat("thread_", i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& list : seen) CHECK(list == seen[0]);
  CHECK(seen[0][1999].view() == "thread_1999");
}

TEST_CASE("text joins strings, characters and integers") {
  CHECK(cat("r", 12, ',', -3, "x") == "r12,-3x");
  CHECK(cat(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
  Text text;
  text.hex(0x3f, 8) << ' ';
  text.real(0.1);
  CHECK(text.view() == "0000003f 0.1");
}

TEST_CASE("a diagnostic prints place, code, message, section and notes") {
  Diagnostic diagnostic(Code::unknown_instruction, {Name("gemm.py"), 41, 5}, "no such thing");
  diagnostic.section = "9.7.1.1";
  diagnostic.notes.push_back("did you mean `add`?");
  CHECK(to_string(diagnostic) == "gemm.py:41:5: PTX2001 no such thing  [PTX ISA 9.7.1.1]\n    did you mean `add`?");
  diagnostic.place = {};
  diagnostic.severity = Severity::warning;
  CHECK(to_string(diagnostic).starts_with("PTX2001 warning: no such thing"));
  CHECK_FALSE(has_error({diagnostic}));
}

TEST_CASE("codes are sorted and found") {
  const auto& rows = all_codes();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(&info(rows[i].code) == &rows[i]);
    if (i > 0) CHECK(rows[i - 1].code < rows[i].code);
  }
}

TEST_CASE("expected holds a value or the reasons") {
  Expected<int> good = 7;
  CHECK(good);
  CHECK(*good == 7);
  Expected<int> bad = Diagnostic(Code::unknown_instruction, {}, "because");
  CHECK_FALSE(bad);
  CHECK(bad.why().front().message == "because");
}
