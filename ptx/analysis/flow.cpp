#include "ptx/analysis/flow.h"

#include <algorithm>
#include <unordered_map>

#include "ptx/analysis/labels.h"

namespace ptx::analysis {

using ir::Statement;

namespace {

bool is(const ir::Instruction& i, isa::Trait trait) { return i.mnemonic && i.mnemonic->is(trait); }
bool ends_block(const ir::Instruction& i) { return is(i, isa::Trait::branches) || is(i, isa::Trait::ends); }

// Where each block lies in an order of a graph, and its immediate dominators there (Cooper, Harvey, Kennedy: A Simple,
// Fast Dominance Algorithm, 2001). Blocks are given by their positions; the root is position 0.
template <class Predecessors>
std::vector<std::uint32_t> immediate_dominators(std::uint32_t count, Predecessors predecessors) {
  std::vector<std::uint32_t> result(count, no_block);
  if (count == 0) return result;
  result[0] = 0;
  const auto meet = [&](std::uint32_t a, std::uint32_t b) {
    while (a != b) {
      while (a > b) a = result[a];
      while (b > a) b = result[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t at = 1; at < count; ++at) {
      std::uint32_t best = no_block;
      predecessors(at, [&](std::uint32_t from) {
        if (result[from] != no_block) best = best == no_block ? from : meet(from, best);
      });
      changed = changed || best != result[at];
      result[at] = best;
    }
  }
  return result;
}

// Positions in reverse postorder from `root`; no_block: not reached. Without recursion: texts are as deep as they like.
template <class Next>
std::vector<BlockId> reverse_postorder(BlockId root, std::size_t count, Next next) {
  std::vector<BlockId> order;
  std::vector<bool> seen(count);
  std::vector<std::pair<BlockId, std::uint32_t>> path{{root, 0}};
  seen[root] = true;
  while (!path.empty()) {
    auto& [block, at] = path.back();
    const BlockId to = next(block, at++);
    if (to == no_block) {
      order.push_back(block);
      path.pop_back();
    } else if (!seen[to]) {
      seen[to] = true;
      path.emplace_back(to, 0);
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

Flow::Flow(const ir::Function& function) {
  find_blocks(function);
  find_edges(function);
  find_order();
  find_dominators();
  find_post_dominators();
  find_loops();
}

void Flow::find_blocks(const ir::Function& function) {
  blocks_.push_back({});
  bool has_code = false, ended = false;
  for (std::uint32_t s = 0; s < function.body.size(); ++s) {
    const Statement& statement = function.body[s];
    const bool label = statement.kind == Statement::Kind::label;
    const bool code = statement.kind == Statement::Kind::instruction;
    if ((label && has_code) || (code && ended)) {
      blocks_.push_back({s, s});
      has_code = ended = false;
    }
    blocks_.back().last = s + 1;
    block_of_.push_back(static_cast<BlockId>(blocks_.size() - 1));
    if (!code) continue;
    has_code = true;
    ended = ends_block(function.instructions[statement.index]);
    if (ended) blocks_.back().end = s;
  }
}

void Flow::find_edges(const ir::Function& function) {
  const Labels labels(function);
  std::unordered_map<std::uint32_t, const ir::Table*> tables;  // by the statement of their label
  for (const ir::Table& table : function.tables) {
    const bool labelled = table.kind == ir::Table::Kind::branches && table.label != ir::no_id && table.statement > 0;
    if (labelled) tables.try_emplace(table.statement - 1, &table);
  }
  const auto target = [&](std::uint32_t name, std::uint32_t from) {
    const std::uint32_t label = labels.find(name, from);
    return label == ir::no_id ? no_block : block_of_[label];
  };
  for (BlockId b = 0; b < blocks_.size(); ++b) {
    first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
    Block& block = blocks_[b];
    const ir::Instruction* const last =
        block.end == ir::no_id ? nullptr : &function.instructions[function.body[block.end].index];
    const bool passes = !last || last->guard.reg != ir::no_id;
    const bool next = b + 1 < blocks_.size();
    if (passes && next) edges_.push_back({b, b + 1, Edge::Kind::falls, 0});
    block.leaves = (passes && !next) || (last && is(*last, isa::Trait::ends));
    if (!last || !is(*last, isa::Trait::branches) || last->count == 0) continue;
    const ir::Operand& to = function.operands_of(*last).back();
    if (to.kind != ir::Operand::Kind::symbol) continue;
    const std::uint32_t label = labels.find(to.id, block.end);
    const auto table = last->count == 2 ? tables.find(label) : tables.end();
    if (table != tables.end()) {
      std::uint32_t entry = 0;
      for (const Name name : table->second->targets) {
        const BlockId place = target(name.id(), table->second->statement);
        if (place != no_block) edges_.push_back({b, place, Edge::Kind::table, entry});
        ++entry;
      }
    } else if (last->count == 1 && label != ir::no_id) {
      edges_.push_back({b, block_of_[label], Edge::Kind::branch, 0});
    }
  }
  first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));

  first_source_.assign(blocks_.size() + 1, 0);
  for (const Edge& edge : edges_) ++first_source_[edge.to + 1];
  for (std::size_t b = 0; b < blocks_.size(); ++b) first_source_[b + 1] += first_source_[b];
  sources_.resize(edges_.size());
  std::vector<std::uint32_t> at(first_source_.begin(), first_source_.end() - 1);
  for (const Edge& edge : edges_) sources_[at[edge.to]++] = edge.from;
}

void Flow::find_order() {
  order_ = reverse_postorder(0, blocks_.size(), [&](BlockId block, std::uint32_t at) {
    const auto next = successors(block);
    // The last successor first, so that what falls through follows in the order.
    return at < next.size() ? next[next.size() - 1 - at].to : no_block;
  });
  position_.assign(blocks_.size(), no_block);
  for (std::uint32_t at = 0; at < order_.size(); ++at) position_[order_[at]] = at;
}

void Flow::find_dominators() {
  const auto count = static_cast<std::uint32_t>(order_.size());
  const auto found = immediate_dominators(count, [&](std::uint32_t at, auto take) {
    for (const BlockId from : predecessors(order_[at])) {
      if (position_[from] != no_block) take(position_[from]);
    }
  });
  dominators_.assign(blocks_.size(), no_block);
  for (std::uint32_t at = 1; at < count; ++at) dominators_[order_[at]] = order_[found[at]];
}

bool Flow::dominates(BlockId a, BlockId b) const {
  while (b != a && b != no_block && position_[b] > position_[a]) b = dominators_[b];
  return a == b;
}

// Dominators of the graph turned round; its root is an exit behind all blocks that leave.
void Flow::find_post_dominators() {
  const auto exit = static_cast<BlockId>(blocks_.size());
  std::vector<BlockId> leaving;
  for (BlockId b = 0; b < exit; ++b) {
    if (blocks_[b].leaves) leaving.push_back(b);
  }
  const auto order = reverse_postorder(exit, blocks_.size() + 1, [&](BlockId block, std::uint32_t at) {
    const auto next = block == exit ? std::span<const BlockId>(leaving) : predecessors(block);
    return at < next.size() ? next[at] : no_block;
  });
  std::vector<std::uint32_t> position(blocks_.size() + 1, no_block);
  for (std::uint32_t at = 0; at < order.size(); ++at) position[order[at]] = at;
  const auto count = static_cast<std::uint32_t>(order.size());
  const auto found = immediate_dominators(count, [&](std::uint32_t at, auto take) {
    if (blocks_[order[at]].leaves) take(0);
    for (const Edge& edge : successors(order[at])) {
      if (position[edge.to] != no_block) take(position[edge.to]);
    }
  });
  post_dominators_.assign(blocks_.size(), no_block);
  for (std::uint32_t at = 1; at < count; ++at) {
    if (order[found[at]] != exit) post_dominators_[order[at]] = order[found[at]];
  }
}

void Flow::find_loops() {
  loop_of_.assign(blocks_.size(), ir::no_id);
  std::vector<std::uint32_t> marks(blocks_.size(), no_block);  // the last loop that took the block
  for (const BlockId header : order_) {                        // outer headers come first: they dominate the inner ones
    Loop loop;
    for (const BlockId from : predecessors(header)) {
      if (position_[from] == no_block || position_[from] < position_[header]) continue;
      if (!dominates(header, from))
        reducible_ = false;
      else if (loop.latches.empty() || loop.latches.back() != from)
        loop.latches.push_back(from);
    }
    if (loop.latches.empty()) continue;
    const auto id = static_cast<std::uint32_t>(loops_.size());
    loop.header = header;
    loop.parent = loop_of_[header];
    loop.depth = loop.parent == ir::no_id ? 1 : loops_[loop.parent].depth + 1;
    loop.blocks = {header};
    marks[header] = id;
    std::vector<BlockId> open = loop.latches;
    while (!open.empty()) {
      const BlockId block = open.back();
      open.pop_back();
      if (marks[block] == id || position_[block] == no_block) continue;
      marks[block] = id;
      loop.blocks.push_back(block);
      const auto before = predecessors(block);
      open.insert(open.end(), before.begin(), before.end());
    }
    for (const BlockId block : loop.blocks) loop_of_[block] = id;
    std::sort(loop.latches.begin(), loop.latches.end());
    std::sort(loop.blocks.begin(), loop.blocks.end());
    loops_.push_back(std::move(loop));
  }
}

}  // namespace ptx::analysis
