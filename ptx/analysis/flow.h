// The control-flow graph of a function: basic blocks, edges, dominators, loops. It says what the text says: both ways
// of a guarded branch may be taken, and a call comes back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::analysis {

using BlockId = std::uint32_t;  // in the order of the text; the entry is 0
inline constexpr BlockId no_block = 0xffffffff;

struct Edge {
  enum class Kind : std::uint8_t {
    falls,   // to the next statement
    branch,  // bra
    table,   // brx.idx; `entry` of its table
  };
  BlockId from = no_block, to = no_block;
  Kind kind = Kind::falls;
  std::uint32_t entry = 0;
};

struct Block {
  std::uint32_t first = 0, last = 0;  // statements [first, last) of Function::body; labels are at the beginning
  std::uint32_t end = ir::no_id;      // the statement of its last instruction if that branches or ends; else no_id
  bool leaves = false;                // it may leave the function: ret, exit, trap, or the end of the body
};

// Natural: its blocks are those from which a latch is reached without the header. Loops with one header are one.
struct Loop {
  BlockId header = no_block;
  std::vector<BlockId> latches;      // in order
  std::uint32_t parent = ir::no_id;  // index of the loop around
  std::uint32_t depth = 1;           // of an outermost loop
};

class Flow {
 public:
  // Labels and tables that do not exist make no edge. O(statements + edges log blocks).
  explicit Flow(const ir::Function& function);

  std::span<const Block> blocks() const { return blocks_; }
  // Falls first, then the targets in their order; an entry that a table has twice is there twice.
  std::span<const Edge> successors(BlockId block) const {
    return {edges_.data() + first_edge_[block], first_edge_[block + 1] - first_edge_[block]};
  }
  std::span<const BlockId> predecessors(BlockId block) const {
    return {sources_.data() + first_source_[block], first_source_[block + 1] - first_source_[block]};
  }
  BlockId block_of(std::uint32_t statement) const { return block_of_[statement]; }

  // Blocks that the entry reaches, each before those that it dominates (reverse postorder).
  std::span<const BlockId> order() const { return order_; }
  bool reached(BlockId block) const { return position_[block] != no_block; }

  // The nearest other block on every path from the entry; no_block for the entry and what is not reached.
  BlockId dominator(BlockId block) const { return dominators_[block]; }
  bool dominates(BlockId a, BlockId b) const;  // a block dominates itself
  // The nearest other block on every path out of the function; no_block where there is none.
  BlockId post_dominator(BlockId block) const { return post_dominators_[block]; }

  std::span<const Loop> loops() const { return loops_; }                  // outer ones before inner ones
  std::uint32_t loop_of(BlockId block) const { return loop_of_[block]; }  // the innermost; no_id: none
  std::vector<BlockId> blocks_of(std::uint32_t loop) const;               // in order, those of inner loops as well
  // Whether every cycle has one header: goto-free code can have its shape.
  bool reducible() const { return reducible_; }

 private:
  void find_blocks(const ir::Function& function);
  void find_edges(const ir::Function& function);
  void find_dominators();
  void find_post_dominators();
  void find_loops();
  void list_loops();

  std::vector<Block> blocks_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> first_edge_, first_source_;
  std::vector<BlockId> sources_, block_of_, order_, position_, dominators_, post_dominators_;
  std::vector<std::uint32_t> dominated_, dominator_place_;  // how many blocks each dominates; its place before them
  std::vector<Loop> loops_;
  std::vector<std::uint32_t> loop_of_, loop_sizes_, loop_begins_;
  std::vector<BlockId> loop_blocks_;  // those of each loop in one piece
  bool reducible_ = true;
};

}  // namespace ptx::analysis
