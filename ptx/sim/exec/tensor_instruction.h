// What a tcgen05.mma is to do: what its modifiers say, once, and what its instruction descriptor says, each time
// (manual 9.7.16.2, 9.7.16.4.2). Which fields are legal with which instruction is judged here.
#pragma once

#include <string>

#include "ptx/isa/form.h"
#include "ptx/sim/exec/lane.h"

namespace ptx::sim {

enum class MmaKind : u8 { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };
std::string_view name(MmaKind kind);  // "kind::f16"

// What the modifiers of a match say.
struct TensorMma {
  MmaKind kind = MmaKind::f16;
  bool pair = false, sparse = false, stationary = false;  // cta_group::2, .sp, .ws
  bool a_in_tensor = false, shift_a = false;
  int scales = 0;                                   // scale factors of a row; 0: none
  u8 collector = 0;                                 // bit of the buffer that it fills or uses
  bool fills = false, uses = false, keeps = false;  // that buffer; and it stays valid

  bool scaled() const { return scales != 0; }
  bool four_bits() const { return kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4; }
  int ctas() const { return pair ? 2 : 1; }
};
// "": it is simulated; else why not.
const char* read_match(const isa::Match& match, TensorMma& out);

// What an instruction descriptor says.
struct TensorShape {
  int m = 0, n = 0, k = 0;
  int stored = 0;  // numbers of a row of A in memory: half of k where A is sparse
  isa::Type a = isa::Type::none, b = isa::Type::none, d = isa::Type::none, scale = isa::Type::none;
  bool negate_a = false, negate_b = false, transpose_a = false, transpose_b = false, saturate = false;
  u32 selector = 0, max_shift = 0, scale_a_id = 0, scale_b_id = 0;
};
// What is wrong with it, as "atype (bits 7 to 9) = 6; legal: 0 (f16), 1 (bf16)"; "": nothing.
std::string read_instruction(const TensorMma& mma, u32 bits, TensorShape& out);

// Where D lies (manual 9.7.16.10.5): the rows of a CTA, and into how many parts the columns are folded. What a lane
// adds, it reads of A, of the metadata and of the scale factors from itself or its own 32 lanes.
struct DataPath {
  u32 rows = 128, parts = 1;
  bool half = false;  // 16 of each 32 lanes
  u32 lane(u32 row, u32 part) const { return half ? row % 16 + row / 16 * 32 : row + part * rows; }
};
DataPath data_path(const TensorMma& mma, const TensorShape& shape);

}  // namespace ptx::sim
