// Runs of statements that repeat, as loops of the program. Two rounds are one if they differ only in numbers and
// registers, and each of these either goes on by the same step from round to round, or is a register that no other
// round and nothing outside names. Short rounds come first, so an unrolled product becomes loops in loops.
//
// Here a register's step is that of its number in the function; which array it is an element of is said by arrays.cpp.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ptx/transpile/detail/cpp.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::Operand;
using ir::Statement;
using Where = PlannedRegister::Where;

// What may be another in each round.
struct Slot {
  const void* key = nullptr;  // the ir::Operand or ir::Guard
  std::int64_t value = 0;     // a number, or a RegisterId
  bool is_register = false;
  bool walks = false;  // in a repetition inside of the token
  bool in_table = false;
  std::uint32_t depth = 0;  // repetitions inside of the token that it is in
};

// A statement, or a block of them, of a list that is folded.
struct Token {
  std::uint32_t shape = 0;  // what has to be equal
  std::uint32_t first = 0, last = 0;
  std::uint32_t lines = 1;
  std::int32_t opened = 0;   // scopes: +1, -1
  std::uint32_t nested = 0;  // blocks of Python in each other that it is
  bool names = false;        // a label or a variable, which stands once in a scope of PTX
  std::vector<Slot> slots{};
  Node node{};
};

// Beyond it a number stays as it is, so that differences are numbers, too.
constexpr std::int64_t greatest = 0x5fff'ffff'ffff'ffff;
// CPython takes 20 blocks in each other.
constexpr std::uint32_t deepest_repeat = 19;
// Longer rounds are rare, and looking for them costs their length for each statement.
constexpr std::size_t longest_round = 400;
// What a loop has to save, in lines.
constexpr std::size_t least_saved = 2;
// Numbers that go by no step stand in a table at the loop's head, which is one line.
constexpr std::size_t most_tables = 2, least_in_table = 4, widest_table = 90;

class Folding {
 public:
  Folding(const ir::Function& f, const Extents& extents, Plan& plan) : f_(f), extents_(extents), plan_(plan) {
    seen_.resize(f.registers.size());
    walked_.resize(f.registers.size());
    for (const Statement& s : f.body) {
      if (s.kind != Statement::Kind::label) continue;
      const std::string_view name = Name::from_id(s.index).view();
      const std::size_t stem = name.find_last_not_of("0123456789");
      if (stem != name.npos && stem + 1 < name.size() && name[stem] == '_') numbered_.insert(name.substr(0, stem));
    }
  }

  void run() { plan_.nodes = nodes(fold(tokens(plan_.nodes))); }

 private:
  // ---- shapes

  void add(std::uint64_t value) { key_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  std::uint32_t interned() {
    const auto next = static_cast<std::uint32_t>(shapes_.size());
    return shapes_.try_emplace(key_, next).first->second;
  }
  std::uint32_t alone() {  // like nothing else
    key_.assign(1, '!');
    add(alone_++);
    return interned();
  }

  void reg(ir::RegisterId id, const void* key, Token& token) {
    if (is_parameter(f_, f_.registers[id])) return add(id);
    add(static_cast<std::uint64_t>(f_.registers[id].type) | std::uint64_t{1} << 63);
    token.slots.push_back({key, id, true});
  }

  void operand(const Operand& o, Token& token) {
    add(static_cast<std::uint64_t>(o.kind) | static_cast<std::uint64_t>(o.component) << 8 |
        static_cast<std::uint64_t>(o.negated) << 16 | static_cast<std::uint64_t>(o.minus) << 17 |
        static_cast<std::uint64_t>(o.unified) << 18 | static_cast<std::uint64_t>(o.wide) << 19 |
        static_cast<std::uint64_t>(o.child_count) << 32);
    using Kind = Operand::Kind;
    switch (o.kind) {
      case Kind::reg:
        if (o.component == Operand::part) add(o.bits);
        return reg(o.id, &o, token);
      case Kind::integer:
        if (o.wide || o.value > greatest || o.value < greatest - INT64_MAX) return add(o.bits);
        token.slots.push_back({&o, o.value});
        return;
      case Kind::address: token.slots.push_back({&o, o.value}); break;
      case Kind::vector:
      case Kind::list:
      case Kind::pair: break;
      default: add(o.id), add(o.bits);
    }
    for (const Operand& child : f_.children(o)) operand(child, token);
  }

  void spell(std::string_view text) {
    add(text.size());
    key_ += text;
  }

  bool is_table(std::uint32_t i) const {
    return std::any_of(f_.tables.begin(), f_.tables.end(),
                       [&](const ir::Table& table) { return table.statement == i; });
  }

  Token statement(const Node& node) {
    const Statement& s = f_.body[node.at];
    Token token{0, node.at, node.at};
    token.node = node;
    using Kind = Statement::Kind;
    key_.assign(1, static_cast<char>(s.kind));
    switch (s.kind) {
      case Kind::instruction: {
        const ir::Instruction& i = f_.instructions[s.index];
        add(reinterpret_cast<std::uintptr_t>(i.mnemonic));
        add((i.guard.reg != ir::no_id) + 2 * i.guard.negated);
        if (i.guard.reg != ir::no_id) reg(i.guard.reg, &i.guard, token);
        for (const Operand& o : f_.operands_of(i)) operand(o, token);
        break;
      }
      case Kind::location: {
        const ir::Location& at = f_.locations[s.index];
        add(at.file), add(at.line), add(at.column);
        key_ += at.inlined;
        break;
      }
      case Kind::open: token.opened = 1; break;
      case Kind::close: token.opened = -1; break;
      case Kind::variable:
        token.names = true;
        spell(fields(f_.variables[s.index]));
        break;
      case Kind::label:
        if (is_table(node.at + 1)) return token.shape = alone(), token;
        token.names = true;
        add(s.index);
        break;
      case Kind::directive:
        if (is_table(node.at)) return token.shape = alone(), token;
        spell(f_.texts[s.index]);
        break;
      default: return token.shape = alone(), token;
    }
    token.shape = interned();
    return token;
  }

  // Folds what a block holds; its parts are added to what says the block's shape.
  void within(std::vector<Node>& side, Token& token, std::vector<std::uint64_t>& parts) {
    std::vector<Token> list = fold(tokens(side));
    parts.push_back(list.size());
    std::int32_t open = 0;
    for (Token& one : list) {
      parts.push_back(one.shape);
      token.slots.insert(token.slots.end(), one.slots.begin(), one.slots.end());
      token.last = std::max(token.last, one.last);
      token.lines += one.lines;
      open += one.opened;
      token.nested = std::max(token.nested, one.nested + 1 + static_cast<std::uint32_t>(std::max(open, 0)));
      token.names |= one.names && open == 0;
    }
    side = nodes(std::move(list));
  }

  Token when(Node node) {
    const ir::Instruction& over = f_.instructions[f_.body[node.at].index];
    Token token{0, node.at, node.at};
    std::vector<std::uint64_t> parts{over.guard.negated, reinterpret_cast<std::uintptr_t>(over.mnemonic), node.end};
    if (node.end != ir::no_id)
      parts[2] = reinterpret_cast<std::uintptr_t>(f_.instructions[f_.body[node.end].index].mnemonic);
    token.slots.push_back({&over.guard, over.guard.reg, true});
    ++around_;
    for (std::vector<Node>* side : {&node.body, &node.otherwise}) within(*side, token, parts);
    --around_;
    if (node.end != ir::no_id) token.last = std::max(token.last, node.end);
    key_.assign(1, 'w');
    for (const std::uint64_t part : parts) add(part);
    token.shape = interned();
    token.node = std::move(node);
    return token;
  }

  // Each round of a repetition makes another copy of a label that only the loop itself names: L, L_1, L_2.
  Token loop(Node node) {
    const ir::Instruction& back = f_.instructions[f_.body[node.end].index];
    const std::uint32_t label = f_.body[node.at].index;
    Token token{0, node.at, node.end, 2};
    token.names = !plan_.unneeded_label[node.at];
    std::vector<std::uint64_t> parts{token.names ? label : ir::no_id, back.guard.negated, back.guard.reg != ir::no_id,
                                     reinterpret_cast<std::uintptr_t>(back.mnemonic)};
    ++around_;
    ways_.push_back(node.way);
    within(node.body, token, parts);
    ways_.pop_back();
    --around_;
    if (back.guard.reg != ir::no_id) token.slots.push_back({&back.guard, back.guard.reg, true});
    key_.assign(1, 'l');
    for (const std::uint64_t part : parts) add(part);
    token.shape = numbered_.contains(Name::from_id(label).view()) ? alone() : interned();
    token.node = std::move(node);
    return token;
  }

  Token block(Node node) {
    Token token{0, node.at, node.at};
    const bool begins = node.end != ir::no_id;
    const std::uint32_t label = begins ? f_.body[node.end].index : ir::no_id;
    token.names = begins && !plan_.unneeded_label[node.end];
    std::vector<std::uint64_t> parts{token.names ? label : ir::no_id, begins, 0};
    if (node.late != ir::no_id)
      parts.back() = reinterpret_cast<std::uintptr_t>(f_.instructions[f_.body[node.late].index].mnemonic);
    ++around_;
    ways_.push_back(node.way);
    within(node.body, token, parts);
    ways_.pop_back();
    --around_;
    key_.assign(1, 'b');
    for (const std::uint64_t part : parts) add(part);
    token.shape = begins && numbered_.contains(Name::from_id(label).view()) ? alone() : interned();
    token.node = std::move(node);
    return token;
  }

  // Out of a block or loop: of several around it, by how many are in between.
  Token way(Node node) {
    if (node.kind == Node::Kind::enter) return enter(std::move(node));
    const ir::Instruction& over = f_.instructions[f_.body[node.at].index];
    Token token{0, node.at, node.at};
    key_.assign(1, node.kind == Node::Kind::leave ? 'e' : 'g');
    add(reinterpret_cast<std::uintptr_t>(over.mnemonic));
    add((over.guard.reg != ir::no_id) + 2 * over.guard.negated);
    add(static_cast<std::uint64_t>(std::find(ways_.rbegin(), ways_.rend(), node.way) - ways_.rbegin()));
    if (over.guard.reg != ir::no_id) reg(over.guard.reg, &over.guard, token);
    token.shape = interned();
    token.node = std::move(node);
    return token;
  }

  Token enter(Node node) {
    Token token{0, node.at, node.at};
    token.names = node.end != ir::no_id && !plan_.unneeded_label[node.at];
    key_.assign(1, 'n');
    add(token.names ? f_.body[node.at].index : ir::no_id);
    add(static_cast<std::uint64_t>(std::find(ways_.rbegin(), ways_.rend(), node.way) - ways_.rbegin()));
    token.shape = interned();
    token.node = std::move(node);
    return token;
  }

  Token wait(Node node) {
    const Wait one = wait_of(f_, node);
    const ir::Instruction& tried = f_.instructions[f_.body[one.tried].index];
    Token token{0, node.at, node.end};
    key_.assign(1, 'a');
    add(reinterpret_cast<std::uintptr_t>(tried.mnemonic));
    add(one.leave + 2 * one.uniform + 4 * one.braces);
    for (const Operand& o : f_.operands_of(tried).subspan(1)) operand(o, token);
    token.shape = interned();
    token.node = std::move(node);
    return token;
  }

  Token call(Node node) {
    const Call& one = plan_.calls.at(node.at);
    Token token{0, node.at, node.end};
    key_.assign(1, 'c');
    add(one.callee.id());
    add(one.uniform + 2 * one.unloaded);
    for (const std::uint32_t index : one.order) add(index);
    for (std::uint32_t i = node.at; i < node.end; ++i) {
      if (f_.body[i].kind != Statement::Kind::instruction || i == one.called) continue;
      const ir::Instruction& moves = f_.instructions[f_.body[i].index];
      add(reinterpret_cast<std::uintptr_t>(moves.mnemonic));
      for (const Operand& o : f_.operands_of(moves))
        if (o.kind != Operand::Kind::address) operand(o, token);
    }
    token.shape = interned();
    token.node = std::move(node);
    return token;
  }

  // A brx.idx whose labels are those of its options alone; the library names them anew in each round.
  Token choose(Node node) {
    const ir::Instruction& jump = f_.instructions[f_.body[node.end].index];
    const Statement& head = f_.body[node.at];
    const bool checked = head.kind == Statement::Kind::instruction;
    Token token{0, node.at, node.end};
    std::vector<std::uint64_t> parts{reinterpret_cast<std::uintptr_t>(jump.mnemonic), node.targets, checked};
    if (checked) {
      const ir::Instruction& over = f_.instructions[head.index];
      parts.push_back(reinterpret_cast<std::uintptr_t>(over.mnemonic));
      parts.push_back(over.guard.negated);
      token.slots.push_back({&over.guard, over.guard.reg, true});
    }
    key_.clear();
    operand(f_.operands_of(jump)[0], token);
    ++around_;
    for (Node& option : node.body) {
      parts.insert(parts.end(), option.indices.begin(), option.indices.end());
      parts.push_back(option.end == ir::no_id
                          ? 0
                          : reinterpret_cast<std::uintptr_t>(f_.instructions[f_.body[option.end].index].mnemonic));
      ++around_;
      within(option.body, token, parts);
      --around_;
      token.lines += 1;
      token.last = std::max({token.last, option.at, option.end == ir::no_id ? 0 : option.end});
    }
    --around_;
    token.nested += 1;
    key_.assign(1, 's');
    for (const std::uint64_t part : parts) add(part);
    token.shape = interned();
    token.node = std::move(node);
    return token;
  }

  std::vector<Token> tokens(std::vector<Node>& list) {
    std::vector<Token> made;
    made.reserve(list.size());
    for (Node& node : list) {
      if (node.kind == Node::Kind::statement) {
        const Statement& s = f_.body[node.at];
        const bool silent =
            s.kind == Statement::Kind::registers || (s.kind == Statement::Kind::label && plan_.unneeded_label[node.at]);
        if (!silent) made.push_back(statement(node));
      } else if (node.kind == Node::Kind::when) {
        made.push_back(when(std::move(node)));
      } else if (node.kind == Node::Kind::wait) {
        made.push_back(wait(std::move(node)));
      } else if (node.kind == Node::Kind::loop) {
        made.push_back(loop(std::move(node)));
      } else if (node.kind == Node::Kind::call) {
        made.push_back(call(std::move(node)));
      } else if (node.kind == Node::Kind::block) {
        made.push_back(block(std::move(node)));
      } else if (node.kind == Node::Kind::leave || node.kind == Node::Kind::again || node.kind == Node::Kind::enter) {
        made.push_back(way(std::move(node)));
      } else {
        made.push_back(choose(std::move(node)));
      }
    }
    return made;
  }

  static std::vector<Node> nodes(std::vector<Token> list) {
    std::vector<Node> made;
    made.reserve(list.size());
    for (Token& token : list) made.push_back(std::move(token.node));
    return made;
  }

  // ---- rounds

  // Folds what can be, the shortest rounds first; what is made may repeat in turn. Tables come last.
  std::vector<Token> fold(std::vector<Token> list) {
    for (const bool tables : {false, true}) {
      for (std::size_t length = 1; length <= std::min(list.size() / 2, longest_round);) {
        with_tables_ = tables;
        length = fold(list, length) ? 1 : length + 1;
      }
    }
    return list;
  }

  bool fold(std::vector<Token>& list, std::size_t length) {
    std::vector<Token> made;
    std::size_t from = 0, equal = 0;  // tokens [i, i + equal) have the shapes of those `length` behind them
    bool any = false;
    for (std::size_t i = 0; i + 2 * length <= list.size();) {
      if (equal > 0) --equal;
      while (i + equal + length < list.size() && list[i + equal].shape == list[i + equal + length].shape) ++equal;
      std::size_t rounds = equal / length + 1;
      if (rounds > 1) rounds = worthwhile(list, i, length, rounds);
      if (rounds < 2) {
        ++i;
        continue;
      }
      for (; from < i; ++from) made.push_back(std::move(list[from]));
      made.push_back(repeat(list, i, length, rounds));
      from = i += length * rounds;
      equal -= std::min(equal, length * rounds - 1);  // the next step takes one more
      any = true;
    }
    if (!any) return false;
    for (; from < list.size(); ++from) made.push_back(std::move(list[from]));
    list = std::move(made);
    return true;
  }

  // How many of the rounds from `at` are one loop; 0 where it is not worth it.
  std::size_t worthwhile(const std::vector<Token>& list, std::size_t at, std::size_t length, std::size_t rounds) {
    std::size_t lines = 0;
    std::int32_t open = 0;
    std::uint32_t nested = 0;
    for (std::size_t i = at; i < at + length; ++i) {
      lines += list[i].lines;
      open += list[i].opened;
      if (open < 0 || (open == 0 && list[i].names)) return 0;
      nested = std::max(nested, list[i].nested + static_cast<std::uint32_t>(open));
    }
    if (around_ + nested + 1 > deepest_repeat) return 0;
    const auto saves = [&](std::size_t n) {
      return n > 1 && (n - 1) * lines >= least_saved + 1 && (n > 2 || lines >= 8);
    };
    if (open != 0 || !saves(rounds)) return 0;
    rounds = agreeing(list, at, length, rounds);
    return saves(rounds) ? rounds : 0;
  }

  // How many of the rounds go on as the first two do. Leaves what repeat() needs: first_, steps_, local_, tables_.
  std::size_t agreeing(const std::vector<Token>& list, std::size_t at, std::size_t length, std::size_t rounds) {
    round(list, at, length, first_, first_canon_);
    const std::size_t count = first_.size();
    steps_.assign(count, 0);
    table_of_.assign(count, ir::no_id);
    tables_.clear();
    local_.assign(count, 0);
    std::vector<char> goes_on(count, 1), stays(count, 0);
    std::vector<std::size_t> went_on(count, 1);
    std::vector<std::int64_t> before(count);
    for (std::size_t j = 0; j < count; ++j) before[j] = first_[j]->value;
    for (std::size_t j = 0; j < count; ++j) stays[j] = first_[j]->is_register && !first_[j]->walks;
    keep_local(first_, first_canon_, list[at], list[at + length - 1], stays);
    std::size_t n = 1;
    for (; n < rounds; ++n) {
      const std::size_t here = at + n * length;
      round(list, here, length, other_, other_canon_);
      for (std::size_t j = 0; j < count; ++j) {
        const std::int64_t step = other_[j]->value - before[j];
        before[j] = other_[j]->value;
        if (n == 1) steps_[j] = step;
        goes_on[j] = goes_on[j] && step == steps_[j];
        stays[j] = stays[j] && other_canon_[j] == first_canon_[j] && same_place(*first_[j], *other_[j]);
      }
      keep_local(other_, other_canon_, list[here], list[here + length - 1], stays);
      bool all = true;
      for (std::size_t j = 0; j < count && all; ++j) all = goes_on[j] || stays[j] || from_table(j, n);
      if (!all) break;
      for (std::size_t j = 0; j < count; ++j) {
        if (stays[j]) local_[j] = n + 1;
        if (goes_on[j]) went_on[j] = n + 1;
      }
    }
    for (std::size_t j = 0; j < count; ++j)
      if (went_on[j] >= n) table_of_[j] = ir::no_id;  // its table was of the round that is none
    keep_tables(n);
    for (std::size_t j = 0; j < count; ++j) local_[j] = n > 1 && local_[j] >= n;
    return tables_.empty() || n >= least_in_table ? n : 0;
  }

  // Whether a number of round `n` is that of a table, which is made, or goes on with it.
  bool from_table(std::size_t j, std::size_t n) {
    if (!with_tables_ || first_[j]->is_register || first_[j]->in_table) return false;
    const std::int64_t first = first_[j]->value, value = other_[j]->value;
    if (table_of_[j] == ir::no_id) {
      const auto earlier = [&](std::size_t k) { return first + steps_[j] * static_cast<std::int64_t>(k); };
      for (std::uint32_t t = 0; t < tables_.size(); ++t) {
        bool same = tables_[t].size() >= n;
        for (std::size_t k = 0; k < n && same; ++k) same = tables_[t][k] - tables_[t][0] == earlier(k) - first;
        if (same) table_of_[j] = t;
      }
      if (table_of_[j] == ir::no_id) {
        if (tables_.size() == most_tables) return false;
        table_of_[j] = static_cast<std::uint32_t>(tables_.size());
        tables_.emplace_back();
        for (std::size_t k = 0; k < n; ++k) tables_.back().push_back(earlier(k));
      }
    }
    std::vector<std::int64_t>& table = tables_[table_of_[j]];
    if (table.size() == n) {
      std::size_t width = 0;
      for (const std::int64_t one : table) width += std::to_string(one).size() + 2;
      if (width > widest_table / most_tables) return false;
      table.push_back(table[0] + value - first);
    }
    return table[n] - table[0] == value - first;
  }

  // Those that a slot names.
  void keep_tables(std::size_t rounds) {
    for (std::uint32_t t = static_cast<std::uint32_t>(tables_.size()); t-- > 0;) {
      tables_[t].resize(rounds);
      if (std::find(table_of_.begin(), table_of_.end(), t) != table_of_.end()) continue;
      tables_.erase(tables_.begin() + t);
      for (std::uint32_t& of : table_of_)
        if (of != ir::no_id && of > t) --of;
    }
  }

  bool same_place(const Slot& a, const Slot& b) const {
    const PlannedRegister& left = plan_.registers[static_cast<std::size_t>(a.value)];
    const PlannedRegister& right = plan_.registers[static_cast<std::size_t>(b.value)];
    return left.where == right.where && left.index == right.index;
  }

  // The slots of a round, and for each register the slot that names it first.
  void round(const std::vector<Token>& list, std::size_t at, std::size_t length, std::vector<const Slot*>& slots,
             std::vector<std::uint32_t>& canon) {
    slots.clear();
    canon.clear();
    ++stamp_;
    for (std::size_t i = at; i < at + length; ++i) {
      for (const Slot& slot : list[i].slots) {
        const auto here = static_cast<std::uint32_t>(slots.size());
        slots.push_back(&slot);
        canon.push_back(here);
        if (!slot.is_register) continue;
        auto& [stamp, first] = seen_[static_cast<std::size_t>(slot.value)];
        if (stamp != stamp_) stamp = stamp_, first = here;
        canon.back() = first;
      }
    }
  }

  // Leaves in `stays` the registers that nothing outside of this round names, and in it no slot that walks on.
  void keep_local(const std::vector<const Slot*>& slots, const std::vector<std::uint32_t>& canon, const Token& first,
                  const Token& last, std::vector<char>& stays) const {
    for (std::size_t j = 0; j < slots.size(); ++j)
      if (stays[j]) stays[j] = is_within(static_cast<ir::RegisterId>(slots[j]->value), first.first, last.last);
    for (std::size_t j = 0; j < slots.size(); ++j)
      if (!stays[j]) stays[first_canon_[j]] = stays[canon[j]] = 0;
    for (std::size_t j = 0; j < slots.size(); ++j)
      if (!stays[first_canon_[j]]) stays[j] = 0;
  }
  bool is_within(ir::RegisterId id, std::uint32_t from, std::uint32_t to) const {
    const PlannedRegister& r = plan_.registers[id];
    const auto inside = [&](ir::RegisterId one) {
      return extents_.first[one] >= from && extents_.last[one] <= to && !walked_[one];
    };
    if (r.where == Where::inside || r.where == Where::before) return inside(id);
    if (r.where != Where::element) return false;
    const std::vector<ir::RegisterId>& all = plan_.arrays[r.array].elements;
    return std::all_of(all.begin(), all.end(), inside);
  }

  // The registers of a round alone are its own.
  void own(const std::vector<Token>& list, std::size_t at, std::size_t length) {
    round(list, at, length, other_, other_canon_);
    ++plan_.owners;
    for (std::size_t j = 0; j < other_.size(); ++j)
      if (local_[j]) plan_.registers[static_cast<std::size_t>(other_[j]->value)].owner = plan_.owners;
  }

  // The loop of rounds that worthwhile() has looked at.
  Token repeat(std::vector<Token>& list, std::size_t at, std::size_t length, std::size_t rounds) {
    round(list, at, length, first_, first_canon_);
    Token token{0, list[at].first, list[at + length * rounds - 1].last};
    token.node.kind = Node::Kind::repeat;
    token.node.at = token.first;
    token.node.end = token.last;
    token.node.rounds = static_cast<std::uint32_t>(rounds);
    token.node.round_end = list[at + length - 1].last;
    std::vector<std::uint64_t> parts{rounds, length};
    for (std::size_t i = at; i < at + length; ++i) {
      parts.push_back(list[i].shape);
      token.lines += list[i].lines;
      token.nested = std::max(token.nested, list[i].nested + 1);
    }
    for (std::size_t n = 0; n < rounds; ++n) own(list, at + n * length, length);
    for (std::size_t j = 0; j < first_.size(); ++j) {
      Slot slot = *first_[j];
      if (local_[j]) {
        parts.push_back(~std::uint64_t{0});
        parts.push_back(first_canon_[j]);
        continue;
      }
      const bool tabled = table_of_[j] != ir::no_id;
      const std::int64_t by = tabled ? 0 : steps_[j];
      parts.push_back(static_cast<std::uint64_t>(by));
      parts.push_back(table_of_[j]);
      if (by != 0 || tabled) {
        Walk& walk = plan_.walks[slot.key];
        walk.steps.resize(slot.depth);
        walk.steps.push_back({by, static_cast<std::uint32_t>(rounds)});
        if (slot.is_register) walk.reg = static_cast<ir::RegisterId>(slot.value);
        if (tabled) {
          walk.table = table_of_[j];
          walk.table_of = slot.depth;
          walk.origin = tables_[table_of_[j]][0];
          slot.in_table = true;
        }
        for (std::size_t n = 0; n < rounds && slot.is_register; ++n)
          walked_[static_cast<std::size_t>(slot.value + by * static_cast<std::int64_t>(n))] = true;
        slot.walks = true;
        token.node.counted |= by != 0;
      }
      ++slot.depth;
      token.slots.push_back(slot);
    }
    for (const auto& table : tables_) parts.insert(parts.end(), table.begin(), table.end());
    for (std::size_t i = at; i < at + length; ++i) token.node.body.push_back(std::move(list[i].node));
    token.node.tables = tables_;
    key_.assign(1, 'r');
    for (const std::uint64_t part : parts) add(part);
    token.shape = interned();
    return token;
  }

  const ir::Function& f_;
  const Extents& extents_;
  Plan& plan_;
  std::unordered_set<std::string_view> numbered_;  // L, where a label is L_1
  std::unordered_map<std::string, std::uint32_t> shapes_;
  std::uint64_t alone_ = 0;
  std::string key_;
  bool with_tables_ = false;
  std::uint32_t around_ = 0;         // blocks around the list that is folded
  std::vector<std::uint32_t> ways_;  // Node::way of the blocks and loops around it
  // of the rounds that are compared
  std::vector<const Slot*> first_, other_;
  std::vector<std::uint32_t> first_canon_, other_canon_;
  std::vector<std::int64_t> steps_;
  std::vector<std::uint32_t> table_of_;
  std::vector<std::vector<std::int64_t>> tables_;
  std::vector<std::size_t> local_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> seen_;  // by register: in which round, by which slot
  std::uint64_t stamp_ = 0;
  std::vector<bool> walked_;  // by register: an element of what will be an array
};

}  // namespace

void fold(const ir::Function& function, const Extents& extents, Plan& plan) {
  if (!plan.shaped) {
    for (std::uint32_t i = 0; i < function.body.size(); ++i) plan.nodes.push_back({Node::Kind::statement, i});
    plan.unneeded_label.assign(function.body.size(), false);
    plan.shaped = true;
  }
  Folding(function, extents, plan).run();
}

}  // namespace ptx::transpile
