// Targets and versions (manual 11.1.2), special registers (manual 10).
#include <doctest/doctest.h>

#include "ptx/isa/form.h"

using namespace ptx::isa;

namespace {

bool meets_named(std::string_view have, std::string_view need) {
  return meets(target_named(have).value(), target_named(need).value());
}

}  // namespace

TEST_CASE("names of targets") {
  for (const Target target : all_targets()) CHECK(target_named(to_string(target)) == target);
  CHECK_FALSE(target_named("sm_91"));
  CHECK_FALSE(target_named("sm_90f"));
  CHECK_FALSE(target_named("90"));
  CHECK(first_version(target_named("sm_90a").value()) == Version{8, 0});
  CHECK(first_version(target_named("sm_107f").value()) == Version{9, 4});
}

TEST_CASE("plain targets stand for later ones, a for itself, f for its family from it on") {
  CHECK(meets_named("sm_100a", "sm_90"));
  CHECK_FALSE(meets_named("sm_89", "sm_90"));
  CHECK(meets_named("sm_90a", "sm_90a"));
  CHECK_FALSE(meets_named("sm_100a", "sm_90a"));
  CHECK_FALSE(meets_named("sm_90", "sm_90a"));
  CHECK(meets_named("sm_103a", "sm_100f"));
  CHECK(meets_named("sm_107f", "sm_103f"));
  CHECK_FALSE(meets_named("sm_103f", "sm_107f"));
  CHECK_FALSE(meets_named("sm_110f", "sm_100f"));
  CHECK_FALSE(meets_named("sm_100", "sm_100f"));
  CHECK(meets_named("sm_101a", "sm_110f"));  // one architecture, two names
}

TEST_CASE("special registers") {
  const SpecialRegister* tid = special_register("%tid.x");
  REQUIRE(tid);
  CHECK(tid->type == Type::u32);
  CHECK(special_register("%tid")->vector == 4);
  CHECK(special_register("%clock64")->type == Type::u64);
  CHECK(special_register("%cluster_ctarank")->since.version == Version{7, 8});
  CHECK_FALSE(special_register("%tidx"));
}
