#include "ptx/launch/record.h"

#include <doctest/doctest.h>

using namespace ptx::launch;

TEST_CASE("parameters lie as PTX lays them") {
  using Kind = Parameter::Kind;
  Record record;
  record.parameters = {{Kind::scalar, "n", 0, 4, 0},
                       {Kind::tensor, "A", 0, 8, 0},
                       {Kind::scalar, "h", 0, 2, 1},
                       {Kind::tensor_map, "A_tma_desc", 0, 128, 0},
                       {Kind::scalar, "c", 0, 1, 2}};
  lay_out(record);
  const std::uint32_t offsets[] = {0, 8, 16, 64, 192};
  for (int i = 0; i < 5; ++i) CHECK(record.parameters[i].offset == offsets[i]);
  CHECK(record.parameter_bytes == 193);
  record.parameters.clear();
  lay_out(record);
  CHECK(record.parameter_bytes == 0);
}
