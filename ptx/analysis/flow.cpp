#include "ptx/analysis/flow.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ptx/analysis/labels.h"

namespace ptx::analysis {

using ir::Statement;

namespace {

bool is(const ir::Instruction& i, isa::Trait trait) { return i.mnemonic && i.mnemonic->is(trait); }
bool ends_block(const ir::Instruction& i) { return is(i, isa::Trait::branches) || is(i, isa::Trait::ends); }

// A depth-first walk from `root`, without recursion: texts are as deep as they like.
struct DepthFirst {
  std::vector<BlockId> order;          // reverse postorder
  std::vector<BlockId> first_seen;     // preorder
  std::vector<std::uint32_t> place;    // of each block in preorder; no_block: not reached
  std::vector<std::uint32_t> parents;  // of each place, the place it was seen from
};
template <class Next>
DepthFirst depth_first(BlockId root, std::size_t count, Next next) {
  DepthFirst found{{}, {root}, std::vector<std::uint32_t>(count, no_block), {0}};
  std::vector<std::pair<BlockId, std::uint32_t>> path{{root, 0}};
  found.place[root] = 0;
  while (!path.empty()) {
    auto& [block, at] = path.back();
    const BlockId to = next(block, at++);
    if (to == no_block) {
      found.order.push_back(block);
      path.pop_back();
    } else if (found.place[to] == no_block) {
      found.place[to] = static_cast<std::uint32_t>(found.first_seen.size());
      found.first_seen.push_back(to);
      found.parents.push_back(found.place[block]);
      path.emplace_back(to, 0);
    }
  }
  std::reverse(found.order.begin(), found.order.end());
  return found;
}

// Immediate dominators by places in preorder (Lengauer, Tarjan: A Fast Algorithm for Finding Dominators, 1979, with
// its simple links). O(edges log blocks) for every graph; the shorter way of Cooper, Harvey and Kennedy is quadratic
// where thousands of branches go to one label.
template <class Predecessors>
std::vector<std::uint32_t> immediate_dominators(const std::vector<std::uint32_t>& parents, Predecessors predecessors) {
  const auto count = static_cast<std::uint32_t>(parents.size());
  std::vector<std::uint32_t> result(count), semi(count), best(count), above(count, no_block);
  std::vector<std::uint32_t> bucket(count, no_block), next(count, no_block), path;
  for (std::uint32_t v = 0; v < count; ++v) semi[v] = best[v] = v;
  const auto least = [&](std::uint32_t v) {  // on the linked path above v, what has the least semidominator
    if (above[v] == no_block) return v;
    path.clear();
    for (std::uint32_t u = v; above[above[u]] != no_block; u = above[u]) path.push_back(u);
    for (std::size_t i = path.size(); i-- > 0;) {
      const std::uint32_t u = path[i], over = above[u];
      if (semi[best[over]] < semi[best[u]]) best[u] = best[over];
      above[u] = above[over];
    }
    return best[v];
  };
  for (std::uint32_t v = count; v-- > 1;) {
    predecessors(v, [&](std::uint32_t from) { semi[v] = std::min(semi[v], semi[least(from)]); });
    next[v] = std::exchange(bucket[semi[v]], v);
    const std::uint32_t parent = above[v] = parents[v];
    for (std::uint32_t u = std::exchange(bucket[parent], no_block); u != no_block; u = next[u]) {
      const std::uint32_t w = least(u);
      result[u] = semi[w] < semi[u] ? w : parent;
    }
  }
  for (std::uint32_t v = 1; v < count; ++v) {
    if (result[v] != semi[v]) result[v] = result[result[v]];
  }
  return result;
}

// Where each node of a forest begins in a list that has each tree in one piece, a parent's own `weight` before its
// children. `order` has parents first; a node whose parent is no_block is a root.
template <class Parent>
void lay_out(std::span<const std::uint32_t> order, Parent parent, std::vector<std::uint32_t>& sizes,
             std::vector<std::uint32_t>& begins) {
  std::vector<std::uint32_t> free = sizes;  // in what a parent has, the first place behind its own and earlier children
  for (std::size_t i = order.size(); i-- > 0;) {
    if (parent(order[i]) != no_block) sizes[parent(order[i])] += sizes[order[i]];
  }
  std::uint32_t roots = 0;
  begins.assign(sizes.size(), no_block);
  for (const std::uint32_t at : order) {
    std::uint32_t& from = parent(at) == no_block ? roots : free[parent(at)];
    begins[at] = from;
    free[at] += from;
    from += sizes[at];
  }
}

}  // namespace

Flow::Flow(const ir::Function& function) {
  find_blocks(function);
  find_edges(function);
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

void Flow::find_dominators() {
  const DepthFirst found = depth_first(0, blocks_.size(), [&](BlockId block, std::uint32_t at) {
    const auto next = successors(block);
    // The last successor first, so that what falls through follows in the order.
    return at < next.size() ? next[next.size() - 1 - at].to : no_block;
  });
  order_ = found.order;
  position_.assign(blocks_.size(), no_block);
  for (std::uint32_t at = 0; at < order_.size(); ++at) position_[order_[at]] = at;
  const auto above = immediate_dominators(found.parents, [&](std::uint32_t at, auto take) {
    for (const BlockId from : predecessors(found.first_seen[at])) {
      if (found.place[from] != no_block) take(found.place[from]);
    }
  });
  dominators_.assign(blocks_.size(), no_block);
  for (std::uint32_t at = 1; at < above.size(); ++at) dominators_[found.first_seen[at]] = found.first_seen[above[at]];
  dominated_.assign(blocks_.size(), 1);
  lay_out(order_, [&](BlockId block) { return dominators_[block]; }, dominated_, dominator_place_);
}

bool Flow::dominates(BlockId a, BlockId b) const {
  if (a == b || !reached(a) || !reached(b)) return a == b;
  return dominator_place_[b] - dominator_place_[a] < dominated_[a];  // one before it wraps round
}

// Dominators of the graph turned round; its root is an exit behind all blocks that leave.
void Flow::find_post_dominators() {
  const auto exit = static_cast<BlockId>(blocks_.size());
  std::vector<BlockId> leaving;
  for (BlockId b = 0; b < exit; ++b) {
    if (blocks_[b].leaves) leaving.push_back(b);
  }
  const DepthFirst found = depth_first(exit, blocks_.size() + 1, [&](BlockId block, std::uint32_t at) {
    const auto next = block == exit ? std::span<const BlockId>(leaving) : predecessors(block);
    return at < next.size() ? next[at] : no_block;
  });
  const auto below = immediate_dominators(found.parents, [&](std::uint32_t at, auto take) {
    const BlockId block = found.first_seen[at];
    if (blocks_[block].leaves) take(0);
    for (const Edge& edge : successors(block)) {
      if (found.place[edge.to] != no_block) take(found.place[edge.to]);
    }
  });
  post_dominators_.assign(blocks_.size(), no_block);
  for (std::uint32_t at = 1; at < below.size(); ++at) {
    if (below[at] != 0) post_dominators_[found.first_seen[at]] = found.first_seen[below[at]];
  }
}

// Inner loops first; a walk back from an outer loop's latches steps over an inner one as if it were its header.
void Flow::find_loops() {
  loop_of_.assign(blocks_.size(), ir::no_id);
  std::vector<std::uint32_t> outermost;  // of each loop, on the way to the outermost around it that is known
  std::vector<BlockId> open;
  for (std::size_t at = order_.size(); at-- > 0;) {  // a header dominates the inner ones, so it comes before them
    const BlockId header = order_[at];
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
    outermost.push_back(id);
    open = loop.latches;
    while (!open.empty()) {
      BlockId block = open.back();
      open.pop_back();
      if (position_[block] == no_block) continue;
      if (std::uint32_t inner = loop_of_[block]; inner == ir::no_id) {
        loop_of_[block] = id;
      } else {
        while (outermost[inner] != inner) inner = outermost[inner] = outermost[outermost[inner]];
        if (inner == id) continue;
        outermost[inner] = loops_[inner].parent = id;
        block = loops_[inner].header;
      }
      if (block == header) continue;
      const auto before = predecessors(block);
      open.insert(open.end(), before.begin(), before.end());
    }
    loop.header = header;
    std::sort(loop.latches.begin(), loop.latches.end());
    loops_.push_back(std::move(loop));
  }
  list_loops();
}

// Outer loops before inner ones, and which blocks each has.
void Flow::list_loops() {
  std::reverse(loops_.begin(), loops_.end());
  const auto count = static_cast<std::uint32_t>(loops_.size());
  const auto turned = [&](std::uint32_t id) { return id == ir::no_id ? id : count - 1 - id; };
  std::vector<std::uint32_t> all(count), next;
  loop_sizes_.assign(count, 0);
  for (std::uint32_t id = 0; id < count; ++id) {
    Loop& loop = loops_[all[id] = id];
    loop.parent = turned(loop.parent);
    loop.depth = loop.parent == ir::no_id ? 1 : loops_[loop.parent].depth + 1;
  }
  for (std::uint32_t& id : loop_of_) {
    id = turned(id);
    if (id != ir::no_id) ++loop_sizes_[id];
  }
  lay_out(all, [&](std::uint32_t id) { return loops_[id].parent; }, loop_sizes_, loop_begins_);
  next = loop_begins_;
  loop_blocks_.resize(blocks_.size());
  for (BlockId block = 0; block < blocks_.size(); ++block) {
    if (loop_of_[block] != ir::no_id) loop_blocks_[next[loop_of_[block]]++] = block;
  }
}

std::vector<BlockId> Flow::blocks_of(std::uint32_t loop) const {
  const auto begin = loop_blocks_.begin() + loop_begins_[loop];
  std::vector<BlockId> result(begin, begin + loop_sizes_[loop]);
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace ptx::analysis
