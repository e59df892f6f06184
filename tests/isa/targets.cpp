// What forms need of targets (manual 11.1.2), special registers (manual 10).
#include <doctest/doctest.h>

#include "ptx/isa/form.h"

using namespace ptx::isa;

TEST_CASE("any one of the targets of a requirement is enough") {
  const Requirement need{{8, 6}, {{100, 'f'}, {120, 'a'}}};
  CHECK(meets(target_named("sm_103a").value(), need));
  CHECK(meets(target_named("sm_120a").value(), need));
  CHECK_FALSE(meets(target_named("sm_121a").value(), need));
  CHECK(meets(target_named("sm_10").value(), Requirement{}));
  CHECK(to_string(need) == "PTX 8.6 and sm_100f or sm_120a");
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
