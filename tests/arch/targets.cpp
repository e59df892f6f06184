// Targets and PTX versions (manual 11.1.2, 13), and how devices run them.
#include <doctest/doctest.h>

#include <algorithm>

#include "ptx/arch/target.h"

using namespace ptx::arch;

namespace {

bool meets_named(std::string_view have, std::string_view need) {
  return meets(target_named(have).value(), target_named(need).value());
}

std::string runs(std::string_view code, int device) {
  const auto found = assembled_for(target_named(code).value(), device);
  return found ? to_string(*found) : "refused";
}

}  // namespace

TEST_CASE("names of targets") {
  for (const Target target : all_targets()) CHECK(target_named(to_string(target)) == target);
  CHECK(all_targets().size() == 46);
  for (const char* name : {"sm_91", "sm_90f", "90", "sm_", "sm_90aa", "sm_90x", "sm_a", "sm_99999990", "compute_90"})
    CHECK_FALSE(target_named(name));
  CHECK(first_version(target_named("sm_90a").value()) == Version{8, 0});
  CHECK(first_version(target_named("sm_107f").value()) == Version{9, 4});
}

TEST_CASE("rows are sorted, name rows of their own, and have sizes where the others do") {
  CHECK(std::ranges::is_sorted(architectures(), {}, &Architecture::number));
  for (const Architecture& row : architectures()) {
    CAPTURE(row.number);
    const Architecture* present = architecture(row.is);
    REQUIRE(present);
    CHECK(present->is == row.is);
    CHECK(present->warps == row.warps);
    CHECK(present->tensor_columns == row.tensor_columns);
    CHECK((row.number >= 75) == (row.warps != 0));
    CHECK(row.ctas <= row.warps);
    CHECK((row.number >= 90) == (row.cluster > 1));
    if (row.sm_shared != 0) CHECK(row.cta_shared + row.reserved_shared() <= row.sm_shared);
    for (const Version since : {row.since, row.since_a, row.since_f}) CHECK((since == Version{} || exists(since)));
  }
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

TEST_CASE("what a device runs, and under which name it is assembled") {
  CHECK(runs("sm_75", 90) == "sm_90");
  CHECK(runs("sm_90a", 90) == "sm_90a");
  CHECK(runs("sm_90a", 100) == "refused");
  CHECK(runs("sm_100", 90) == "refused");
  CHECK(runs("sm_100f", 103) == "sm_100f");
  CHECK(runs("sm_103f", 100) == "refused");
  CHECK(runs("sm_100f", 120) == "refused");
  // The assemblers of CUDA 13 take the text of sm_101a for -arch=sm_110a and know no -arch=sm_101a.
  CHECK(runs("sm_101a", 110) == "sm_110a");
  CHECK(runs("sm_101f", 110) == "sm_110f");
  CHECK(runs("sm_101", 110) == "sm_110");
  CHECK(runs("sm_100f", 110) == "refused");
  CHECK(runs("sm_90", 130) == "sm_130");  // a device younger than the table
}

TEST_CASE("the target of a device is its most specific") {
  const auto of = [](int major, int minor) { return to_string(target_of_device(major, minor)); };
  CHECK(of(8, 9) == "sm_89");
  CHECK(of(9, 0) == "sm_90a");
  CHECK(of(11, 0) == "sm_110a");
  CHECK(of(12, 1) == "sm_121a");
  CHECK(of(13, 0) == "sm_130");
}
