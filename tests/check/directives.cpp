// What a function's directives need: an .entry or a .func, a PTX version, a target, each other.
#include <doctest/doctest.h>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"

namespace {

using ptx::Code;

Code first_code(std::string_view version, std::string_view target, std::string_view header,
                std::string_view body = "") {
  const std::string text =
      ptx::cat(".version ", version, "\n.target ", target, "\n.address_size 64\n.func h() { ret; }\n.visible ", header,
               "\n{\n", body, "ret;\n}\n");
  const ptx::syntax::Parsed parsed = ptx::syntax::parse(text);
  REQUIRE(parsed.diagnostics.empty());
  ptx::ir::Lowered lowered = ptx::ir::lower(parsed.tree);
  const ptx::Diagnostics found = ptx::check::check(lowered.module);
  return found.empty() ? Code{} : found[0].code;
}

}  // namespace

TEST_CASE("a directive of another kind of function is refused") {
  CHECK(first_code("9.0", "sm_90", ".func k() .maxnreg 32") == Code::directive_value);
  CHECK(first_code("9.0", "sm_90", ".entry k() .maxnreg 32") == Code{});
  CHECK(first_code("9.0", "sm_90", ".entry k() .noreturn") == Code::directive_value);
  CHECK(first_code("9.0", "sm_90", ".func k() .noreturn") == Code{});
}

TEST_CASE("a directive of a later version is refused") {
  CHECK(first_code("8.8", "sm_90", ".func k() .abi_preserve 4") == Code::needs_version);
  CHECK(first_code("9.0", "sm_90", ".func k() .abi_preserve 4") == Code{});
  constexpr std::string_view prototype = "p: .callprototype _ () .abi_preserve 4;\n";
  CHECK(first_code("8.8", "sm_90", ".entry k()", prototype) == Code::needs_version);
  CHECK(first_code("9.0", "sm_90", ".entry k()", prototype) == Code{});
}

TEST_CASE("a directive of a later target is refused") {
  CHECK(first_code("8.8", "sm_89", ".entry k() .explicitcluster") == Code::needs_target);
  CHECK(first_code("8.8", "sm_90", ".entry k() .explicitcluster") == Code{});
}

TEST_CASE("blocksareclusters needs both sizes") {
  CHECK(first_code("9.0", "sm_90", ".entry k() .reqntid 32 .blocksareclusters") == Code::directive_value);
  CHECK(first_code("9.0", "sm_90", ".entry k() .reqntid 32 .reqnctapercluster 2 .blocksareclusters") == Code{});
}
