// Which thread holds which element of the matrices of an instruction: the tables that the simulator runs mma, wgmma,
// wmma, ldmatrix, stmatrix, movmatrix, tcgen05.ld and tcgen05.st by, for pictures and tests. Runs nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/expected.h"

namespace ptx::sim {

// One matrix of an instruction, or several alike (ldmatrix.x4 has four, mma.m8n8k4 with .f16 as well).
struct FragmentTable {
  std::string name;       // "a", "b", "c", "d" of a product; "matrix"; "lanes" of tensor memory, which are its rows
  int matrices = 1;       // of so many
  int rows = 0;           // each
  int columns = 0;        // elements that are stored: half of a row where A is sparse
  int bits = 32;          // of an element in its register
  int registers = 0;      // of a thread
  int threads = 32;       // of a warp, or the 128 of a warpgroup
  std::vector<int> at{};  // [thread * elements() + i]: (matrix * rows + row) * columns + column; -1: holds nothing
  int elements() const { return bits < 32 ? registers * (32 / bits) : registers; }  // of a thread
};

// The tables of a whole mnemonic, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32". Refuses one that no form has
// (illegal_modifiers), and one that has no such matrices (bad_argument).
Expected<std::vector<FragmentTable>> fragments(std::string_view mnemonic);

}  // namespace ptx::sim
