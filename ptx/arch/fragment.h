// Where the elements of a warp's matrices lie in its registers (manual 9.7.14.5, 9.7.14.6): element `i` of a lane,
// counted through its registers from their low bits, and the place in the matrix. Every fragment of mma, ldmatrix,
// stmatrix and movmatrix is one formula with two numbers; mma.m8n8k4 with .f16 alone has formulas of its own.
#pragma once

#include <cstdint>

namespace ptx::arch {

// A line is what a group of four lanes holds: a row of A, C and D, a column of B. The position counts along it.
struct Cell {
  int line = 0, position = 0;
  friend constexpr bool operator==(const Cell&, const Cell&) = default;
};

struct Fragment {
  int together;   // elements of a line that a lane holds side by side
  int lines = 8;  // of the matrix, a multiple of 8

  constexpr Cell cell(int lane, int i) const {
    const int block = i / together, down = lines / 8;
    return {lane / 4 + block % down * 8, (lane % 4 + block / down * 4) * together + i % together};
  }
  // Which lane and which of its elements lie at `cell`.
  constexpr int lane(Cell cell) const { return cell.line % 8 * 4 + cell.position / together % 4; }
  constexpr int element(Cell cell) const {
    const int block = cell.position / (4 * together) * (lines / 8) + cell.line / 8;
    return block * together + cell.position % together;
  }
};

// Elements of that many bits: what lies in one register lies side by side. Of sparse matrices A those that are stored.
constexpr Fragment multiplicand(int bits, int lines) { return {bits < 32 ? 32 / bits : 1, lines}; }
constexpr Fragment accumulator(int lines) { return {2, lines}; }

// mma.m8n8k4 with .f16 (9.7.14.5.1): four products, each of the lanes 4p to 4p+3 and 16 above them.
namespace quad {
constexpr int product(int lane) { return lane / 4 % 4; }
constexpr int upper(int lane) { return lane / 16 * 4; }
// A by rows, B by columns; with `across`, A by columns, B by rows.
constexpr Cell multiplicand(int lane, int i, bool across) {
  return across ? Cell{i + upper(lane), lane % 4} : Cell{lane % 4 + upper(lane), i};
}
constexpr Cell accumulator(int lane, int i, bool f32) {
  if (!f32) return {lane % 4 + upper(lane), i};
  return {(lane & 1) + (i & 2) + upper(lane), (i & 4) + (lane & 2) + (i & 1)};
}
}  // namespace quad

// Where the metadata of a sparse A is (9.7.14.6.2): the four bits for a chunk of A's row, which say what two of its
// four parts are stored. `chunks` are the chunks of a row. Elements of 16 bits and more: a lane has 16 bits of two
// rows; of 8 and 4 bits: 32 bits of one.
struct Metadata {
  int lane, bit;
};
constexpr Metadata metadata(int row, int chunk, int chunks, int bits, int selector) {
  const int quad_lane = row % 8 * 4, below = row / 8;
  if (bits >= 16) return {quad_lane + (chunks > 4 ? 2 * selector : selector) + chunk / 4, 16 * below + chunk % 4 * 4};
  return {quad_lane + 2 * (chunks > 8 ? 0 : selector) + chunk / 8 * 2 + below, chunk % 8 * 4};
}

// The four bits of metadata of a chunk that name two of its parts: a set, by value. In order, or also the other way
// round; of a .tf32 they name both halves of one.
constexpr std::uint32_t metadata_values(int bits, bool ordered) {
  if (bits == 32) return 1u << 4 | 1u << 14;
  constexpr std::uint32_t equal = 1u << 0 | 1u << 5 | 1u << 10 | 1u << 15;
  return ordered ? 1u << 4 | 1u << 8 | 1u << 9 | 1u << 12 | 1u << 13 | 1u << 14 : 0xffffu & ~equal;
}

// Which lane of the quad has the scale factors of a line of A or B (9.7.14.3).
constexpr int scale_lane_a(int row, int thread_id) { return row % 8 * 4 + 2 * thread_id + row / 8; }
constexpr int scale_lane_b(int column, int thread_id) { return column % 8 * 4 + thread_id; }

}  // namespace ptx::arch
