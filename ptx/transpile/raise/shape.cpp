// Labels and branches as blocks. The order of the text stays, so a block is a range of statements: from a guarded
// branch to the label that it jumps to, from a label to the last branch back to it, or from a brx.idx to the label
// behind what its table names. A range becomes a block if nothing jumps into it, if it ends in the scope where it
// begins, and if Python can nest that deep.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ptx/analysis/labels.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::Statement;

// More when blocks that end in one place are one block, which branches leave.
constexpr int longest_chain = 3;

struct Branch {
  std::uint32_t target = ir::no_id;  // statement of the label
  bool guarded = false;
};

struct Label {
  std::uint32_t at = 0;
  std::uint32_t first = ir::no_id, last = 0;  // of the branches to it
  std::uint32_t count = 0;
  std::uint32_t back = ir::no_id;  // the last branch from below
};

class Shaping {
 public:
  Shaping(const ir::Function& f, Language language, Plan& plan)
      : f_(f), language_(language), plan_(plan), size_(static_cast<std::uint32_t>(f.body.size())), names_(f) {}

  void run() {
    do {
      find_labels();
      find_branches();
      plan_.unneeded_label.assign(size_, false);
      loops_.assign(size_, false);
      waited_.assign(size_, false);
      plan_.nodes = range(0, size_, 0);
      find_ways();
      for (const Label& label : labels_) {
        if (label.count == 0 && taken_[label.at] > 0) plan_.unneeded_label[label.at] = true;
      }
    } while (forbid_loops());
    plan_.shaped = true;
  }

 private:
  void find_labels() {
    scope_.assign(size_, 0);
    labels_.clear();
    label_of_.assign(size_, ir::no_id);
    std::vector<std::uint32_t> open{0};
    std::uint32_t next = 1;
    for (std::uint32_t i = 0; i < size_; ++i) {
      const Statement& s = f_.body[i];
      if (s.kind == Statement::Kind::open) open.push_back(next++);
      scope_[i] = open.back();
      if (s.kind == Statement::Kind::close) open.pop_back();
      if (s.kind != Statement::Kind::label) continue;
      label_of_[i] = static_cast<std::uint32_t>(labels_.size());
      labels_.push_back({i, ir::no_id, 0, 0, ir::no_id});
    }
  }

  // A name that stands in several scopes means to the author the loop that was written last. So either each is a loop
  // that nobody else names, whose labels become L, L_1, L_2, or none is one. Whether there are names to begin anew
  // without.
  bool forbid_loops() {
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> places;
    for (const Label& label : labels_)
      if (!waited_[label.at] && (loops_[label.at] || !plan_.unneeded_label[label.at]))
        places[name_at(label.at)].push_back(label.at);
    bool any = false;
    for (const auto& [name, all] : places) {
      if (all.size() == 1 || std::none_of(all.begin(), all.end(), [&](std::uint32_t at) { return loops_[at]; }))
        continue;
      bool taken = std::any_of(all.begin(), all.end(),
                               [&](std::uint32_t at) { return !loops_[at] || !plan_.unneeded_label[at]; });
      const std::string stem = std::string(Name::from_id(name).view()) + '_';
      for (const auto& [other, _] : places) {
        const std::string_view text = Name::from_id(other).view();
        taken = taken || (text.starts_with(stem) && text.find_first_not_of("0123456789", stem.size()) == text.npos);
      }
      if (taken) any |= no_loops_.insert(name).second;
    }
    return any;
  }
  std::uint32_t name_at(std::uint32_t label) const { return f_.body[label].index; }

  // The label that a name means in a statement; nullptr: none.
  Label* named(std::uint32_t name, std::uint32_t statement) {
    const std::uint32_t at = names_.find(name, statement);
    return at == ir::no_id ? nullptr : &labels_[label_of_[at]];
  }

  void find_branches() {
    branches_.assign(size_, {});
    taken_.assign(size_, 0);
    table_of_.clear();
    std::unordered_map<const ir::Table*, std::vector<std::uint32_t>> jumps;  // by table
    for (std::uint32_t i = 0; i < size_; ++i) {
      const Statement& s = f_.body[i];
      if (s.kind != Statement::Kind::instruction) continue;
      const ir::Instruction& instruction = f_.instructions[s.index];
      const auto operands = f_.operands_of(instruction);
      const bool branch = instruction.mnemonic && instruction.mnemonic->opcode == "bra" && operands.size() == 1;
      for (const ir::Operand& o : operands) {
        Label* const found = o.kind == ir::Operand::Kind::symbol ? named(o.id, i) : nullptr;
        if (!found) continue;
        Label& label = *found;
        if (const ir::Table* table = table_at(label.at + 1)) {
          jumps[table].push_back(i);
          continue;
        }
        come(label, i);
        if (!branch) {
          come(label, 0), come(label, size_);  // an address that anyone may have
          continue;
        }
        branches_[i] = {label.at, instruction.guard.reg != ir::no_id};
        if (i > label.at) label.back = i;
      }
    }
    for (const ir::Table& table : f_.tables) {
      const auto from = jumps.find(&table);
      const bool once = from != jumps.end() && from->second.size() == 1;
      if (once) table_of_.emplace(from->second[0], &table);
      for (const Name target : table.targets) {
        Label* const found = named(target.id(), table.statement);
        if (!found) continue;
        Label& label = *found;
        once ? come(label, from->second[0]) : (come(label, 0), come(label, size_));
      }
    }
  }
  const ir::Table* table_at(std::uint32_t i) const {
    for (const ir::Table& table : f_.tables)
      if (table.statement == i && table.kind == ir::Table::Kind::branches) return &table;
    return nullptr;
  }
  static void come(Label& label, std::uint32_t from) {
    label.first = std::min(label.first, from);
    label.last = std::max(label.last, from);
    ++label.count;
  }

  const Label& label_at(std::uint32_t statement) const { return labels_[label_of_[statement]]; }
  Label& label_at(std::uint32_t statement) { return labels_[label_of_[statement]]; }
  bool is_label(std::uint32_t i) const { return i < size_ && f_.body[i].kind == Statement::Kind::label; }

  std::uint32_t first_of(std::uint32_t label) const {
    while (label > 0 && is_label(label - 1)) --label;
    return label;
  }
  const ir::Instruction& instruction(std::uint32_t i) const { return f_.instructions[f_.body[i].index]; }

  // Behind the labels at `i`: where several stand, each is the same place.
  std::uint32_t place(std::uint32_t i) const {
    while (is_label(i)) ++i;
    return i;
  }

  // Whether nobody outside of (from, to) jumps into it.
  bool entered_above(std::uint32_t from, std::uint32_t to) const {
    auto label = std::lower_bound(labels_.begin(), labels_.end(), from + 1,
                                  [](const Label& l, std::uint32_t at) { return l.at < at; });
    for (; label != labels_.end() && label->at < to; ++label) {
      if (label->count && (label->first < from || label->last > to)) return false;
    }
    return true;
  }

  // `chain`: how many when blocks around end where the range does.
  std::vector<Node> range(std::uint32_t from, std::uint32_t to, int depth, int chain = 0) {
    std::vector<Node> nodes;
    for (std::uint32_t i = from; i < to;) {
      if (const auto call = plan_.calls.find(i); call != plan_.calls.end()) {
        nodes.push_back({Node::Kind::call, i, call->second.end});
        i = call->second.end + 1;
        continue;
      }
      std::uint32_t next = wait(i, to, nodes);
      if (next == i && depth < deepest) next = block(i, to, depth, chain, nodes);
      if (next != i) {
        i = next;
        continue;
      }
      if (f_.body[i].kind == Statement::Kind::open) ++depth;
      if (f_.body[i].kind == Statement::Kind::close) --depth;
      nodes.push_back({Node::Kind::statement, i++});
    }
    return nodes;
  }

  std::uint32_t wait(std::uint32_t i, std::uint32_t to, std::vector<Node>& nodes) {
    const bool begins = f_.body[i].kind == Statement::Kind::open || is_label(i);
    const std::optional<Wait> found = plan_.expressions && begins ? wait_at(f_, language_, i) : std::nullopt;
    if (!found || found->end >= to || label_at(found->top).count != 1) return i;
    if (found->leave && label_at(found->out).count != 1) return i;
    const ir::RegisterId done = f_.operands_of(instruction(found->tried))[0].id;
    if (!extents_) extents_.emplace(f_);
    if (extents_->first[done] != found->tried || extents_->last[done] > found->end) return i;
    plan_.registers[done].where = PlannedRegister::Where::nowhere;
    for (const std::uint32_t label : {found->top, found->out})
      if (label != ir::no_id) leave(label), waited_[label] = true;
    nodes.push_back({Node::Kind::wait, i, found->end});
    return found->end + 1;
  }

  // The block that begins at `i`, appended; where the text goes on, or `i` if none begins.
  std::uint32_t block(std::uint32_t i, std::uint32_t to, int depth, int chain, std::vector<Node>& nodes) {
    if (const std::uint32_t behind = choose(i, to, depth, nodes); behind != i) return behind;
    if (is_label(i)) return loop(i, to, depth, nodes);
    const Branch& branch = branches_[i];
    if (!branch.guarded || branch.target == ir::no_id || branch.target <= i + 1) return i;
    if (place(branch.target) > place(to) || scope_[branch.target] != scope_[i]) return i;
    const std::uint32_t end = std::min(branch.target, to);
    const bool chained = place(branch.target) == place(to);
    if ((chained && chain >= longest_chain) || !entered_above(i, end)) return i;
    const std::uint32_t behind = two_sided(i, end, to, depth, nodes);
    if (behind != i) return behind;
    Node node{Node::Kind::when, i};
    leave(branch.target);
    node.body = range(i + 1, end, depth + 1, chained ? chain + 1 : 1);
    nodes.push_back(std::move(node));
    return end;
  }

  // @!p bra E; ... bra M; E: ... M:
  std::uint32_t two_sided(std::uint32_t i, std::uint32_t end, std::uint32_t to, int depth, std::vector<Node>& nodes) {
    const std::uint32_t over = end - 1;
    if (end == to || over <= i + 1 || is_label(end + 1) || is_label(over)) return i;
    const Branch& last = branches_[over];
    const bool forward = last.target != ir::no_id && !last.guarded && last.target > end;
    if (!forward || label_at(end).count != 1) return i;
    if (place(last.target) > place(to) || scope_[last.target] != scope_[i] || scope_[over] != scope_[i]) return i;
    const std::uint32_t close = std::min(last.target, to);
    if (close == end + 1 || !entered_above(end, close)) return i;
    Node node{Node::Kind::when, i, over};
    leave(end);
    leave(last.target);
    node.body = range(i + 1, over, depth + 1);
    node.otherwise = range(end + 1, close, depth + 1);
    nodes.push_back(std::move(node));
    taken_[end] += 1;
    return close;
  }

  std::uint32_t loop(std::uint32_t i, std::uint32_t to, int depth, std::vector<Node>& nodes) {
    const Label& label = label_at(i);
    const std::uint32_t end = label.back;
    if (end == ir::no_id || end >= to || scope_[end] != scope_[i] || label.last == size_) return i;
    if (no_loops_.contains(name_at(i))) return i;
    if (!entered_above(i, end)) return i;
    Node node{Node::Kind::loop, i, end};
    loops_[i] = true;
    leave(i);
    node.body = range(i + 1, end, depth + 1);
    nodes.push_back(std::move(node));
    return end + 1;
  }

  // {@p bra D;} t: .branchtargets A, B, D, E; brx.idx r, t; A: ... bra E; B: ... D: ... E:
  struct Choice {
    std::uint32_t jump = 0, close = 0;           // the brx.idx; where the last option ends
    std::uint32_t end = 0, other = ir::no_id;    // labels: of the end, and of the default
    std::vector<std::uint32_t> targets, starts;  // labels: of the table, by index, and of the options
  };

  std::optional<Choice> choice(std::uint32_t i, std::uint32_t to) const {
    Choice made;
    const bool checked = branches_[i].guarded;
    made.jump = i + 2 + checked;
    const auto found = made.jump < to ? table_of_.find(made.jump) : table_of_.end();
    if (found == table_of_.end() || found->second->statement != made.jump - 1 || !is_label(made.jump - 2)) return {};
    const ir::Instruction& jump = instruction(made.jump);
    const bool by_register = f_.operands_of(jump)[0].kind == ir::Operand::Kind::reg;  // and not by a number
    if (jump.guard.reg != ir::no_id || !by_register) return {};
    if (checked && instruction(i).mnemonic->canonical == "bra.uni") return {};
    for (const Name target : found->second->targets) {
      const std::uint32_t label = names_.find(target.id(), found->second->statement);
      if (label == ir::no_id) return {};
      made.targets.push_back(label);
      made.starts.push_back(first_of(made.targets.back()));
    }
    if (checked) made.starts.push_back(made.other = first_of(branches_[i].target));
    std::sort(made.starts.begin(), made.starts.end());
    made.starts.erase(std::unique(made.starts.begin(), made.starts.end()), made.starts.end());
    for (const std::uint32_t start : made.starts)
      if (start <= made.jump || scope_[start] != scope_[i]) return {};
    made.end = end_of(made.starts);
    if (made.starts[0] != made.jump + 1 || place(made.end) > place(to) || scope_[made.end] != scope_[i]) return {};
    const bool to_end = made.starts.back() == made.end;  // some targets have no option
    if (to_end && checked) return {};
    if (to_end) made.starts.pop_back();
    made.close = std::min(made.end, to);
    if (made.starts.empty() || !entered_above(i, made.close)) return {};
    return made;
  }
  // What options leave for, or, if none does, the last of them.
  std::uint32_t end_of(const std::vector<std::uint32_t>& starts) const {
    for (const std::uint32_t start : starts) {
      const Branch& last = branches_[start - 1];
      if (last.target != ir::no_id && !last.guarded && last.target >= starts.back()) return first_of(last.target);
    }
    return starts.back();
  }

  std::uint32_t choose(std::uint32_t i, std::uint32_t to, int depth, std::vector<Node>& nodes) {
    const std::optional<Choice> found = choice(i, to);
    if (!found) return i;
    Node node{Node::Kind::choose, i, found->jump};
    if (found->other != ir::no_id) leave(branches_[i].target);
    for (const std::uint32_t target : found->targets) leave(target);
    std::uint32_t listed = 0;
    for (std::size_t n = 0; n < found->starts.size(); ++n) {
      const std::uint32_t start = found->starts[n];
      Node one{Node::Kind::option, start};
      for (std::uint32_t index = 0; index < found->targets.size(); ++index) {
        if (start == found->other || first_of(found->targets[index]) != start) continue;
        one.indices.push_back(index);
        listed = std::max(listed, index + 1);
      }
      if (start == found->other) one.indices.push_back(ir::no_id);
      std::uint32_t stop = n + 1 < found->starts.size() ? found->starts[n + 1] : found->close;
      const Branch& last = branches_[stop - 1];
      const bool leaves = last.target != ir::no_id && !last.guarded && first_of(last.target) == found->end;
      if (stop != found->close && leaves && scope_[stop - 1] == scope_[i]) {
        one.end = --stop;
        leave(last.target);
      }
      one.body = range(start, stop, depth + 2);
      node.body.push_back(std::move(one));
    }
    if (listed < found->targets.size()) node.targets = static_cast<std::uint32_t>(found->targets.size());
    nodes.push_back(std::move(node));
    return found->close;
  }

  void find_ways() {
    std::vector<std::uint32_t> targets(size_, ir::no_id);
    for (std::uint32_t i = 0; i < size_; ++i) targets[i] = branches_[i].target;
    std::vector<bool> may_begin(size_);
    for (const Label& label : labels_)
      may_begin[label.at] = label.last != size_ && !no_loops_.contains(name_at(label.at));
    const FoundWays found = transpile::find_ways(f_, targets, may_begin, plan_.nodes);
    for (const std::uint32_t label : found.labels) leave(label);
    for (const std::uint32_t label : found.begun) loops_[label] = true;
    for (std::uint32_t i = 0; i < size_; ++i)
      if (targets[i] != ir::no_id) plan_.kept[i] = targets[i] < i && !may_begin[targets[i]] ? kept_named : kept_branch;
    for (const std::uint32_t branch : found.deep) plan_.kept[branch] = kept_deep;
  }

  // One branch to a label is a block's now.
  void leave(std::uint32_t label) {
    --label_at(label).count;
    ++taken_[label];
  }

  const ir::Function& f_;
  const Language language_;
  Plan& plan_;
  const std::uint32_t size_;
  const analysis::Labels names_;
  std::vector<std::uint32_t> scope_;  // innermost, of each statement; a brace belongs to what it opens or closes
  std::vector<Label> labels_;
  std::vector<std::uint32_t> label_of_;                           // by statement
  std::vector<Branch> branches_;                                  // by statement
  std::unordered_map<std::uint32_t, const ir::Table*> table_of_;  // by its brx.idx, if that is the only one
  std::vector<std::uint32_t> taken_;            // by statement: branches to this label that are blocks'
  std::optional<Extents> extents_;              // once a wait asks for them
  std::vector<bool> waited_;                    // by statement: this label is of a wait
  std::vector<bool> loops_;                     // by statement: this label begins one
  std::unordered_set<std::uint32_t> no_loops_;  // names of labels
};

}  // namespace

void shape(const ir::Function& function, Language language, Plan& plan) { Shaping(function, language, plan).run(); }

}  // namespace ptx::transpile
