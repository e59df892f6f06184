// Branches out of blocks: behind a loop, to its beginning, or behind a block that is made for them. So text whose
// branches all lead on, or back to the head of a loop, needs no label. A block begins with the first statement that
// leaves it; where two would overlap, the one that ends later begins earlier.
#include <algorithm>
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
  Ways(const ir::Function& f, const std::vector<std::uint32_t>& targets)
      : f_(f), targets_(targets), places_(f.body.size() + 1) {
    for (auto i = static_cast<std::uint32_t>(places_.size()); i-- > 0;)
      places_[i] = i < f.body.size() && f.body[i].kind == Statement::Kind::label ? places_[i + 1] : i;
  }

  std::vector<std::uint32_t> run(std::vector<Node>& nodes) {
    const bool any = std::any_of(targets_.begin(), targets_.end(), [](std::uint32_t t) { return t != ir::no_id; });
    if (!any) return {};
    list(nodes, static_cast<std::uint32_t>(f_.body.size()), 0);
    if (!refused_.empty()) undo(nodes);
    std::erase_if(made_, [&](const Made& one) { return refused_.contains(one.way); });
    std::vector<std::uint32_t> labels;
    for (const Made& one : made_) labels.push_back(one.label);
    return labels;
  }

 private:
  struct Exit {  // of a list: from node `from` or one in it to the place in front of node `to`
    std::size_t from, to;
    std::uint32_t way;
  };
  struct List {
    std::vector<Node>* nodes;
    std::uint32_t end;  // the statement behind it
    std::size_t at = 0;
    std::vector<Exit> exits{};
    std::unordered_map<std::size_t, std::uint32_t> ways{};  // of exits, by `to`
  };
  struct Made {
    std::uint32_t label, way;
  };

  // How many blocks in each other the list has.
  int list(std::vector<Node>& nodes, std::uint32_t end, int depth) {
    lists_.push_back({&nodes, end});
    const std::size_t mine = lists_.size() - 1;
    std::vector<int> heights(nodes.size()), braces(nodes.size() + 1);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      Node& node = nodes[n];
      lists_[mine].at = n;
      heights[n] = braces[n] + inside(node, n + 1 < nodes.size() ? nodes[n + 1].at : end, depth + braces[n]);
      const bool statement = node.kind == Kind::statement;
      braces[n + 1] = braces[n] + (statement && f_.body[node.at].kind == Statement::Kind::open) -
                      (statement && f_.body[node.at].kind == Statement::Kind::close);
    }
    std::vector<Exit> exits = std::move(lists_[mine].exits);
    lists_.pop_back();
    return wrap(nodes, std::move(exits), heights, braces, depth);
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
    const std::uint32_t place = places_[label];
    for (std::size_t n = lists_.size(); n-- > 0;) {
      List& here = lists_[n];
      Node& around = (*here.nodes)[here.at];
      if (around.kind == Kind::loop && places_[around.at] == place)
        return take(node, Kind::again, way_of(around), label);
      if (label < node.at) continue;
      const auto next =
          std::partition_point(here.nodes->begin() + static_cast<std::ptrdiff_t>(here.at) + 1, here.nodes->end(),
                               [&](const Node& other) { return places_[other.at] < place; });
      const bool ends = next == here.nodes->end();
      if (places_[ends ? here.end : next->at] != place) {
        if (ends) continue;
        return;
      }
      const auto to = static_cast<std::size_t>(next - here.nodes->begin());
      if (around.kind == Kind::loop && to == here.at + 1) return take(node, Kind::leave, way_of(around), label);
      const auto [known, first] = here.ways.try_emplace(to, next_way_);
      if (first) here.exits.push_back({here.at, to, next_way_++});
      return take(node, Kind::leave, known->second, label);
    }
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

  // Puts blocks around what is left, inner ones first.
  int wrap(std::vector<Node>& nodes, std::vector<Exit> exits, const std::vector<int>& heights,
           const std::vector<int>& braces, int depth) {
    Highest highest(heights);
    std::sort(exits.begin(), exits.end(), [](const Exit& a, const Exit& b) { return a.to < b.to; });
    std::vector<Exit> apart, taken;
    for (Exit exit : exits) {
      while (exit.from > 0 && braces[exit.from] > braces[exit.to]) --exit.from;  // not out of braces of PTX
      for (; !apart.empty() && apart.back().to > exit.from; apart.pop_back())
        exit.from = std::min(exit.from, apart.back().from);
      apart.push_back(exit);
      const int height = 1 + highest.in(exit.from, exit.to);
      if (depth + height > deepest_way) {
        refused_.insert(exit.way);
        continue;
      }
      highest.raise(exit.from, height);
      taken.push_back(exit);
    }
    const int whole = highest.in(0, nodes.size());
    if (taken.empty()) return whole;
    // The one that ends last is around those that begin where it does.
    std::vector<Node> result;
    std::vector<std::pair<Node, std::size_t>> open;  // with where each ends
    std::stable_sort(taken.begin(), taken.end(),
                     [](const Exit& a, const Exit& b) { return a.from != b.from ? a.from < b.from : a.to > b.to; });
    const auto add = [&](Node node) { (open.empty() ? result : open.back().first.body).push_back(std::move(node)); };
    for (std::size_t n = 0, next = 0; n <= nodes.size(); ++n) {
      while (!open.empty() && open.back().second == n) {
        Node block = std::move(open.back().first);
        open.pop_back();
        add(std::move(block));
      }
      if (n == nodes.size()) break;
      for (; next < taken.size() && taken[next].from == n; ++next) {
        Node block{Kind::block, nodes[n].at};
        block.way = taken[next].way;
        open.emplace_back(std::move(block), taken[next].to);
      }
      add(std::move(nodes[n]));
    }
    nodes = std::move(result);
    return whole;
  }

  void undo(std::vector<Node>& nodes) const {
    for (Node& node : nodes) {
      if (node.kind == Kind::leave && refused_.contains(node.way)) node.kind = Kind::statement, node.way = ir::no_id;
      undo(node.body);
      undo(node.otherwise);
    }
  }

  const ir::Function& f_;
  const std::vector<std::uint32_t>& targets_;
  std::vector<std::uint32_t> places_;  // behind the labels at a statement
  std::vector<List> lists_;            // around the node that is looked at, the outermost first
  std::uint32_t next_way_ = 0;
  std::vector<Made> made_;
  std::unordered_set<std::uint32_t> refused_;  // blocks that would be nested too deep
};

}  // namespace

std::vector<std::uint32_t> find_ways(const ir::Function& function, const std::vector<std::uint32_t>& targets,
                                     std::vector<Node>& nodes) {
  return Ways(function, targets).run(nodes);
}

}  // namespace ptx::transpile
