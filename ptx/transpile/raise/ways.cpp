// Branches out of blocks: behind a loop, to its beginning, or behind a block that is made for them, or to its
// beginning. A block that is left reaches from the first branch to the label, one that begins again from the label to
// the last branch. Where two overlap, the one that is left begins earlier, or the one that begins again ends later. The
// branch in front of a block may lead into its middle, as compilers write loops with a `continue`. So labels stay only
// where another branch leads from above into the middle of what begins again.
#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::Statement;
using Kind = Node::Kind;

// CPython takes 20 blocks in each other.
constexpr int deepest_way = 18;
// Where a list has more ways, those back to labels stay branches: they are compared each with each.
constexpr std::size_t most_with_loops = 400;

// The greatest of numbers in a range, while some of them grow.
class Highest {
 public:
  explicit Highest(const std::vector<int>& values) : size_(values.size()), tree_(2 * values.size()) {
    std::copy(values.begin(), values.end(), tree_.begin() + static_cast<std::ptrdiff_t>(size_));
    for (std::size_t i = size_; i-- > 1;) tree_[i] = std::max(tree_[2 * i], tree_[2 * i + 1]);
  }
  void raise(std::size_t at, int value) {
    for (at += size_; at > 0; at /= 2) tree_[at] = std::max(tree_[at], value);
  }
  int in(std::size_t from, std::size_t to) const {
    int result = 0;
    for (from += size_, to += size_; from < to; from /= 2, to /= 2) {
      if (from % 2) result = std::max(result, tree_[from++]);
      if (to % 2) result = std::max(result, tree_[--to]);
    }
    return result;
  }

 private:
  std::size_t size_;
  std::vector<int> tree_;
};

class Ways {
 public:
  Ways(const ir::Function& f, const std::vector<std::uint32_t>& targets, const std::vector<bool>& may_begin)
      : f_(f), targets_(targets), may_begin_(may_begin), places_(f.body.size() + 1) {
    for (auto i = static_cast<std::uint32_t>(places_.size()); i-- > 0;)
      places_[i] = i < f.body.size() && f.body[i].kind == Statement::Kind::label ? places_[i + 1] : i;
  }

  FoundWays run(std::vector<Node>& nodes) {
    const bool any = std::any_of(targets_.begin(), targets_.end(), [](std::uint32_t t) { return t != ir::no_id; });
    if (!any) return {};
    list(nodes, static_cast<std::uint32_t>(f_.body.size()), 0);
    uses_.resize(next_way_);
    for (const Made& one : made_) {
      const auto same = same_.find(one.way);
      ++uses_[same == same_.end() ? one.way : same->second];
    }
    settle(nodes);
    for (const Made& one : made_)
      if (!refused_.contains(one.way)) found_.labels.push_back(one.label);
    return std::move(found_);
  }

 private:
  static constexpr auto nowhere = static_cast<std::size_t>(-1);
  struct Exit {  // nodes [from, to) of a list
    std::size_t from, to;
    std::uint32_t way;
    bool back;                    // to the beginning, which is a label; else to the end
    std::size_t enter = nowhere;  // the label among the nodes to which the branch `from` leads
  };
  struct Late {  // nodes: a branch, and the label that it leads to
    std::size_t from, enter;
  };
  struct List {
    std::vector<Node>* nodes;
    std::uint32_t end;  // the statement behind it
    std::size_t at = 0;
    std::vector<Exit> exits{};
    std::unordered_map<std::size_t, std::size_t> left{}, begun{};  // exits by `to`, and those back by `from`
  };
  struct Made {
    std::uint32_t label, way;
  };

  // How many blocks in each other the list has.
  int list(std::vector<Node>& nodes, std::uint32_t end, int depth) {
    lists_.push_back({&nodes, end});
    const std::size_t mine = lists_.size() - 1;
    std::vector<int> heights(nodes.size()), braces(nodes.size() + 1);
    std::vector<Late> lates;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      Node& node = nodes[n];
      lists_[mine].at = n;
      const Statement::Kind kind = f_.body[node.at].kind;
      const bool statement = node.kind == Kind::statement;
      if (const std::size_t enter = late(nodes, n); enter != nowhere)
        lates.push_back({n, enter});
      else
        heights[n] = braces[n] + inside(node, n + 1 < nodes.size() ? nodes[n + 1].at : end, depth + braces[n]);
      braces[n + 1] =
          braces[n] + (statement && kind == Statement::Kind::open) - (statement && kind == Statement::Kind::close);
    }
    for (const Late& one : lates) {
      const auto begun = lists_[mine].begun.find(one.from + 1);
      Exit* const exit = begun == lists_[mine].begun.end() ? nullptr : &lists_[mine].exits[begun->second];
      lists_[mine].at = one.from;
      if (exit && exit->to > one.enter) {
        exit->from = one.from;
        exit->enter = one.enter;
        made_.push_back({targets_[nodes[one.from].at], exit->way});
      } else {
        branch(nodes[one.from], targets_[nodes[one.from].at]);
      }
    }
    std::vector<Exit> exits = std::move(lists_[mine].exits);
    lists_.pop_back();
    return wrap(nodes, std::move(exits), heights, braces, depth);
  }

  // The label to which a branch leads that stands in front of another label; nowhere: it is none, or not of the list.
  std::size_t late(const std::vector<Node>& nodes, std::size_t n) const {
    if (nodes[n].kind != Kind::statement || n + 1 >= nodes.size() || !is_label(nodes[n + 1])) return nowhere;
    const std::uint32_t target = targets_[nodes[n].at];
    if (target == ir::no_id || target < nodes[n + 1].at || places_[target] == places_[nodes[n + 1].at]) return nowhere;
    if (f_.instructions[f_.body[nodes[n].at].index].guard.reg != ir::no_id) return nowhere;
    const auto found = std::partition_point(nodes.begin() + static_cast<std::ptrdiff_t>(n), nodes.end(),
                                            [&](const Node& other) { return other.at < target; });
    const bool there = found != nodes.end() && found->at == target && is_label(*found);
    return there ? static_cast<std::size_t>(found - nodes.begin()) : nowhere;
  }
  bool is_label(const Node& node) const {
    return node.kind == Kind::statement && f_.body[node.at].kind == Statement::Kind::label;
  }

  int inside(Node& node, std::uint32_t behind, int depth) {
    switch (node.kind) {
      case Kind::when: {
        const int then = list(node.body, node.otherwise.empty() ? behind : node.end, depth + 1);
        return 1 + std::max(then, node.otherwise.empty() ? 0 : list(node.otherwise, behind, depth + 1));
      }
      case Kind::loop: return 1 + list(node.body, node.end, depth + 1);
      case Kind::choose: {
        int height = 0;
        for (std::size_t n = 0; n < node.body.size(); ++n) {
          Node& option = node.body[n];
          const std::uint32_t next = n + 1 < node.body.size() ? node.body[n + 1].at : behind;
          height = std::max(height, list(option.body, option.end == ir::no_id ? next : option.end, depth + 2));
        }
        return 2 + height;
      }
      case Kind::statement:
        if (targets_[node.at] != ir::no_id) branch(node, targets_[node.at]);
        return 0;
      default: return 0;
    }
  }

  // From the innermost list to the outermost, the first that has the label or the loop.
  void branch(Node& node, std::uint32_t label) {
    for (std::size_t n = lists_.size(); n-- > 0;) {
      List& here = lists_[n];
      Node& around = (*here.nodes)[here.at];
      if (around.kind == Kind::loop && places_[around.at] == places_[label])
        return take(node, Kind::again, way_of(around), label);
      if (label < node.at ? begins(here, node, label) : ends(here, around, node, label)) return;
    }
  }
  // Whether the list has the label above; what begins there reaches at least to here.
  bool begins(List& here, Node& node, std::uint32_t label) {
    const auto end = here.nodes->begin() + static_cast<std::ptrdiff_t>(here.at) + 1;
    const auto found =
        std::partition_point(here.nodes->begin(), end, [&](const Node& other) { return other.at < label; });
    if (found == end || found->at != label || found->kind != Kind::statement) return false;
    if (!may_begin_[label]) return true;
    const auto from = static_cast<std::size_t>(found - here.nodes->begin());
    Exit& exit = known(here, from, {from, 0, ir::no_id, true});
    exit.to = here.at + 1;
    take(node, Kind::again, exit.way, label);
    return true;
  }
  // Whether the list has the label below, or something that has it.
  bool ends(List& here, Node& around, Node& node, std::uint32_t label) {
    const auto next =
        std::partition_point(here.nodes->begin() + static_cast<std::ptrdiff_t>(here.at) + 1, here.nodes->end(),
                             [&](const Node& other) { return places_[other.at] < places_[label]; });
    const bool last = next == here.nodes->end();
    if (places_[last ? here.end : next->at] != places_[label]) return !last;
    const auto to = static_cast<std::size_t>(next - here.nodes->begin());
    const bool behind = around.kind == Kind::loop && to == here.at + 1;
    const std::uint32_t way = behind ? way_of(around) : known(here, to, {here.at, to, ir::no_id, false}).way;
    take(node, Kind::leave, way, label);
    return true;
  }
  Exit& known(List& here, std::size_t key, Exit made) {
    const auto [at, first] = (made.back ? here.begun : here.left).try_emplace(key, here.exits.size());
    if (first) {
      made.way = next_way_++;
      here.exits.push_back(made);
    }
    Exit& exit = here.exits[at->second];
    exit.from = std::min(exit.from, made.from);
    return exit;
  }
  void take(Node& node, Kind kind, std::uint32_t way, std::uint32_t label) {
    node.kind = kind;
    node.way = way;
    made_.push_back({label, way});
  }
  std::uint32_t way_of(Node& loop) {
    if (loop.way == ir::no_id) loop.way = next_way_++;
    return loop.way;
  }

  // Puts blocks around the nodes of a list.
  int wrap(std::vector<Node>& nodes, std::vector<Exit> exits, const std::vector<int>& heights,
           const std::vector<int>& braces, int depth) {
    Highest highest(heights);
    lay(exits, braces);
    std::vector<Exit> taken;
    for (const Exit& exit : exits) {  // inner ones first
      if (!taken.empty() && taken.back().from == exit.from && taken.back().to == exit.to && exit.enter == nowhere) {
        same_[exit.way] = taken.back().way;
        taken.back().back |= exit.back;
        continue;
      }
      const int height = 1 + highest.in(exit.from, exit.to);
      if (depth + height > deepest_way) {
        refused_.insert(exit.way);
        deep_.insert(exit.way);
        continue;
      }
      highest.raise(exit.from, height);
      taken.push_back(exit);
    }
    const int whole = highest.in(0, nodes.size());
    if (!taken.empty()) nodes = wrapped(std::move(nodes), std::move(taken));
    return whole;
  }

  std::vector<Node> wrapped(std::vector<Node> nodes, std::vector<Exit> blocks) {
    std::vector<Node> result;
    std::vector<std::pair<Node, std::size_t>> open;  // with where each ends
    std::sort(blocks.begin(), blocks.end(), [](const Exit& a, const Exit& b) {
      return std::tuple(a.from, b.to, a.way) < std::tuple(b.from, a.to, b.way);
    });
    for (const Exit& block : blocks) {
      if (block.enter == nowhere) continue;
      nodes[block.enter].kind = Kind::enter;
      nodes[block.enter].end = nodes[block.enter].at;
      nodes[block.enter].way = block.way;
    }
    const auto add = [&](Node node) { (open.empty() ? result : open.back().first.body).push_back(std::move(node)); };
    for (std::size_t n = 0, next = 0; n <= nodes.size(); ++n) {
      while (!open.empty() && open.back().second == n) {
        Node block = std::move(open.back().first);
        open.pop_back();
        add(std::move(block));
      }
      if (n == nodes.size()) break;
      bool begun = false, late = false;
      for (; next < blocks.size() && blocks[next].from == n; ++next) {
        Node block{Kind::block, nodes[n].at};
        block.way = blocks[next].way;
        if (blocks[next].back) {
          begun = true;
          late = blocks[next].enter != nowhere;
          if (late) block.late = nodes[n].at;
          found_.begun.push_back(block.end = nodes[n + late].at);
        }
        open.emplace_back(std::move(block), blocks[next].to);
      }
      n += late;
      if (begun && nodes[n].kind == Kind::enter) nodes[n].end = ir::no_id;  // its label is the block's
      if (!begun || nodes[n].kind == Kind::enter) add(std::move(nodes[n]));
    }
    return result;
  }

  // Makes none overlap another one, and sorts them, inner ones first.
  void lay(std::vector<Exit>& exits, const std::vector<int>& braces) {
    const auto is_back = [](const Exit& exit) { return exit.back; };
    if (exits.size() > most_with_loops) {
      for (const Exit& exit : exits)
        if (exit.back) refused_.insert(exit.way);
      std::erase_if(exits, is_back);
    }
    for (Exit& exit : exits) {  // not out of braces of PTX
      while (!exit.back && exit.from > 0 && braces[exit.from] > braces[exit.to]) --exit.from;
      while (exit.back && exit.to + 1 < braces.size() && braces[exit.to] > braces[exit.from]) ++exit.to;
    }
    std::sort(exits.begin(), exits.end(), [](const Exit& a, const Exit& b) { return a.to < b.to; });
    if (std::any_of(exits.begin(), exits.end(), is_back)) {
      while (nest(exits)) {
      }
    } else {
      std::vector<Exit> apart;
      for (Exit& exit : exits) {
        for (; !apart.empty() && apart.back().to > exit.from; apart.pop_back())
          exit.from = std::min(exit.from, apart.back().from);
        apart.push_back(exit);
      }
    }
    std::sort(exits.begin(), exits.end(), [](const Exit& a, const Exit& b) {
      return std::tuple(a.to - a.from, a.from, a.way) < std::tuple(b.to - b.from, b.from, b.way);
    });
  }

  // Mends the overlaps that there are; whether there were any.
  bool nest(std::vector<Exit>& exits) {
    bool any = false;
    for (std::size_t i = 0; i < exits.size(); ++i) {
      for (std::size_t j = 0; j < exits.size(); ++j) {
        Exit &a = exits[i], &b = exits[j];
        if (a.from >= b.from || b.from >= a.to || a.to >= b.to) continue;
        any = true;
        if (!b.back) {
          b.from = a.from;
        } else if (a.back) {
          a.to = b.to;
        } else {
          refused_.insert(b.way);
          exits.erase(exits.begin() + static_cast<std::ptrdiff_t>(j));
          return true;
        }
      }
    }
    return any;
  }

  // Ways that are none after all; blocks that end in a branch to their beginning are loops.
  void settle(std::vector<Node>& nodes) {
    for (Node& node : nodes) {
      if (const auto same = same_.find(node.way); same != same_.end()) node.way = same->second;
      if ((node.kind == Kind::leave || node.kind == Kind::again) && refused_.contains(node.way)) {
        if (deep_.contains(node.way)) found_.deep.push_back(node.at);
        node.kind = Kind::statement;
        node.way = ir::no_id;
      }
      settle(node.body);
      settle(node.otherwise);
      if (node.kind != Kind::block || node.end == ir::no_id || node.late != ir::no_id || node.body.empty()) continue;
      const Node& last = node.body.back();
      if (last.kind != Kind::again || last.way != node.way) continue;
      node.kind = Kind::loop;
      node.end = last.at;
      node.body.pop_back();
      if (uses_[node.way] == 1) node.way = ir::no_id;
    }
  }

  const ir::Function& f_;
  const std::vector<std::uint32_t>& targets_;
  const std::vector<bool>& may_begin_;
  std::vector<std::uint32_t> places_;  // behind the labels at a statement
  std::vector<List> lists_;            // around the node that is looked at, the outermost first
  std::uint32_t next_way_ = 0;
  std::vector<Made> made_;
  std::vector<std::uint32_t> uses_;                          // by way
  std::unordered_set<std::uint32_t> refused_;                // nested too deep, or overlapping others
  std::unordered_set<std::uint32_t> deep_;                   // of them, those of the first kind
  std::unordered_map<std::uint32_t, std::uint32_t> same_{};  // a way by that of the same block
  FoundWays found_;
};

}  // namespace

FoundWays find_ways(const ir::Function& function, const std::vector<std::uint32_t>& targets,
                    const std::vector<bool>& may_begin, std::vector<Node>& nodes) {
  return Ways(function, targets, may_begin).run(nodes);
}

}  // namespace ptx::transpile
