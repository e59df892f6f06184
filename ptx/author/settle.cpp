// What finish() settles, once every use of every register is known:
//   - a 32-bit product that was widened for 64-bit arithmetic becomes a mul.wide where the product was written;
//   - `array[i] = value` needs no mov if the value was made just for it;
//   - unnamed predicates become one declaration; shared memory becomes static or dynamic.
// Each is decided by counting, in passes over the operands; nothing is moved past another instruction.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ptx/arch/target.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/shared.h"
#include "ptx/base/text.h"

namespace ptx::author {
namespace {

using ir::RegisterId;
using Kind = ir::Operand::Kind;

constexpr std::string_view between_names = " \t\r\n,;:()[]{}<>|@!+-*/~^&=?\"'";

struct Uses {
  std::vector<std::uint32_t> writes, reads;

  // Text of the author's own reads and writes whatever it names.
  explicit Uses(const ir::Function& f) : writes(f.registers.size()), reads(f.registers.size()) {
    for (const ir::Instruction& i : f.instructions) {
      if (i.guard.reg != ir::no_id) ++reads[i.guard.reg];
      const auto operands = f.operands_of(i);
      for (std::size_t n = 0; n < operands.size(); ++n) add(f, operands[n], n == 0);
    }
    std::unordered_set<std::string_view> named;
    for (const ir::Statement& s : f.body)
      if (s.kind == ir::Statement::Kind::directive) add_names(f.texts[s.index], named);
    for (std::size_t id = 0; !named.empty() && id < f.registers.size(); ++id)
      if (named.contains(ir::name(f.registers[id]))) ++reads[id], ++writes[id];
  }

 private:
  // The first operand of an instruction is its destination, unless it is an address. bar.sync a has a source there, and
  // counts as a write too: a register that is written twice is left as it is, which is always right.
  void add(const ir::Function& f, const ir::Operand& o, bool destination) {
    if (o.kind == Kind::reg) ++(destination ? writes : reads)[o.id];
    for (const ir::Operand& child : f.children(o)) add(f, child, destination && o.kind != Kind::address);
  }

  static void add_names(std::string_view text, std::unordered_set<std::string_view>& names) {
    for (std::size_t end = 0; end < text.size();) {
      const std::size_t begin = std::min(text.find_first_not_of(between_names, end), text.size());
      end = std::min(text.find_first_of(between_names, begin), text.size());
      if (begin != end) names.insert(text.substr(begin, end - begin));
    }
  }
};

class Settling {
 public:
  Settling(Builder::State& s) : s_(s), f_(s.function) {}

  void registers() {
    renamed_.resize(f_.registers.size());
    for (std::size_t i = 0; i < renamed_.size(); ++i) renamed_[i] = static_cast<RegisterId>(i);
    dead_.resize(f_.registers.size());
    gone_.resize(f_.instructions.size());
    if (s_.widenings.empty() && s_.folds.empty()) return;
    local_.resize(f_.registers.size());
    wide_.assign(f_.registers.size(), none);
    for (const auto& d : f_.declarations) local_[d.first] = true;
    Uses uses(f_);
    for (const auto& w : s_.widenings) widen(w, uses);
    for (const RegisterId source : order_) place_product(source, wide_[source], uses);
    for (const auto& fold : s_.folds) this->fold(fold, uses);
  }

  // Declarations, variables, prologue, statements.
  void body() {
    std::vector<ir::Statement> statements = std::move(f_.body);
    f_.body.clear();
    f_.body.reserve(statements.size() + s_.hoisted.size() + s_.prologue.size() + 4);
    declare();
    for (std::uint32_t i = 0; i < f_.variables.size(); ++i) {
      if (i >= s_.in_block.size() || !s_.in_block[i]) add(ir::Statement::Kind::variable, i);
    }
    f_.body.insert(f_.body.end(), s_.prologue.begin(), s_.prologue.end());
    for (const ir::Statement& statement : statements) append(statement);
    rename();
  }

 private:
  void add(ir::Statement::Kind kind, std::uint32_t index) { f_.body.push_back({kind, index, f_.place}); }

  void widen(const Builder::State::Widening& w, Uses& uses) {
    if (uses.writes[w.source] != 1) return;
    gone_[w.instruction] = true;
    --uses.reads[w.source];
    RegisterId& wide = wide_[w.source];
    if (wide == none) {
      wide = w.result;
      order_.push_back(w.source);
    } else {
      renamed_[w.result] = wide;
      dead_[w.result] = true;
    }
  }

  // mul.lo -> mul.wide, or both if the 32-bit value is used too.
  void place_product(RegisterId source, RegisterId wide, const Uses& uses) {
    const std::uint32_t index = s_.product_of[source];
    static const isa::Mnemonic *const of_signed = isa::resolve("mul.wide.s32"), *const of_unsigned =
                                                                                    isa::resolve("mul.wide.u32");
    const isa::Mnemonic* mnemonic = is_signed(f_.registers[source].type) ? of_signed : of_unsigned;
    hoist(wide);
    if (uses.reads[source] == 0) {
      ir::Instruction& mul = f_.instructions[index];
      mul.mnemonic = mnemonic;
      mul.match = mnemonic->matches.empty() ? nullptr : &mnemonic->matches.front();
      f_.operands[mul.first].id = wide;
      dead_[source] = true;
      s_.became[source] = wide;
      return;
    }
    ir::Instruction made = f_.instructions[index];
    const auto first = static_cast<std::uint32_t>(f_.operands.size());
    for (std::uint32_t i = 0; i < made.count; ++i) f_.operands.push_back(ir::Operand(f_.operands[made.first + i]));
    f_.operands[first].id = wide;
    made.first = first;
    made.mnemonic = mnemonic;
    made.match = mnemonic->matches.empty() ? nullptr : &mnemonic->matches.front();
    beside_[index] = static_cast<std::uint32_t>(f_.instructions.size());
    f_.instructions.push_back(made);
    gone_.push_back(false);
  }

  void fold(const Builder::State::Fold& fold, const Uses& uses) {
    if (uses.writes[fold.value] != 1 || uses.reads[fold.value] != 1 || wide_[fold.value] != none) return;
    f_.operands[f_.instructions[fold.definition].first].id = fold.target;
    gone_[fold.instruction] = true;
    dead_[fold.value] = true;
  }

  // A register that was declared in a block is declared before the body instead: its product may stand outside the
  // block.
  void hoist(RegisterId id) {
    if (!local_[id]) return;
    for (auto& d : f_.declarations) {
      if (d.first != id) continue;
      s_.hoisted.push_back(d);
      d.count = 0;
    }
  }

  bool is_dead(const ir::RegisterDeclaration& d) const {
    return d.count == 0 || (!d.range && d.count == 1 && dead_[d.first]);
  }

  void declare() {
    for (std::size_t i = 0; i <= s_.hoisted.size(); ++i) {
      if (i == s_.pool_at && !s_.pool.empty()) declare_pool();
      if (i == s_.hoisted.size() || is_dead(s_.hoisted[i])) continue;
      add(ir::Statement::Kind::registers, static_cast<std::uint32_t>(f_.declarations.size()));
      f_.declarations.push_back(s_.hoisted[i]);
    }
  }

  // The pool's registers have to lie together: they move behind all others.
  void declare_pool() {
    const std::vector<ir::Register> before = f_.registers;
    std::vector<RegisterId> moved(before.size());
    std::vector<bool> pooled(before.size());
    for (const RegisterId id : s_.pool) pooled[id] = true;
    f_.registers.clear();
    for (std::size_t id = 0; id < before.size(); ++id) {
      if (pooled[id]) continue;
      moved[id] = static_cast<RegisterId>(f_.registers.size());
      f_.registers.push_back(before[id]);
    }
    pool_first_ = static_cast<RegisterId>(f_.registers.size());
    for (const RegisterId id : s_.pool) {
      moved[id] = static_cast<RegisterId>(f_.registers.size());
      f_.registers.push_back(before[id]);
    }
    moved_ = std::move(moved);
    add(ir::Statement::Kind::registers, static_cast<std::uint32_t>(f_.declarations.size()));
    f_.declarations.push_back({pool_first_, static_cast<std::uint32_t>(s_.pool.size()), true});
    pool_declaration_ = f_.declarations.size() - 1;
  }

  void append(const ir::Statement& s) {
    if (s.kind == ir::Statement::Kind::registers && is_dead(f_.declarations[s.index])) return;
    if (s.kind != ir::Statement::Kind::instruction) {
      f_.body.push_back(s);
      return;
    }
    if (gone_[s.index]) return;
    f_.body.push_back(s);
    if (beside_.empty()) return;
    const auto beside = beside_.find(s.index);
    if (beside != beside_.end()) f_.body.push_back({s.kind, beside->second, s.place});
  }

  void rename() {
    const bool moves = !moved_.empty();
    if (!moves && order_.empty()) return;
    const auto to = [&](RegisterId id) { return moves ? moved_[renamed_[id]] : renamed_[id]; };
    for (ir::Operand& o : f_.operands) {
      if (o.kind == Kind::reg) o.id = to(o.id);
    }
    for (ir::Instruction& i : f_.instructions) {
      if (i.guard.reg != ir::no_id) i.guard.reg = to(i.guard.reg);
    }
    if (!moves) return;
    for (std::size_t i = 0; i < f_.declarations.size(); ++i) {
      if (i != pool_declaration_) f_.declarations[i].first = moved_[f_.declarations[i].first];
    }
  }

  Builder::State& s_;
  ir::Function& f_;
  std::vector<RegisterId> renamed_, moved_;
  std::vector<bool> dead_, gone_, local_;                    // local: declared in a block
  std::vector<RegisterId> wide_;                             // by product: its 64-bit register, or none
  std::vector<RegisterId> order_;                            // products that have one
  std::unordered_map<std::uint32_t, std::uint32_t> beside_;  // mul.lo -> the mul.wide behind it
  RegisterId pool_first_ = 0;
  std::size_t pool_declaration_ = none;
};

ir::Variable extern_array(std::string_view name, std::uint32_t align) {
  ir::Variable v;
  v.linking = "extern";
  v.space = isa::Space::shared;
  v.alignment = align;
  v.type = isa::Type::b8;
  v.name = Name(name);
  v.dims = {-1};
  return v;
}

// The allocations go into one array, and every mention of one becomes the array plus an offset.
void move_into(Builder::State& s, Name array, std::uint64_t base) {
  std::unordered_map<std::uint32_t, std::uint64_t> at;
  std::vector<bool> moved(s.function.variables.size());
  for (const auto& a : s.allocations) {
    at[s.function.variables[a.variable].name.id()] = base + a.offset;
    moved[a.variable] = true;
  }
  const auto move = [&](ir::Operand& o) {
    const auto found = o.kind == Kind::symbol ? at.find(o.id) : at.end();
    if (found == at.end()) return;
    o.id = array.id();
    o.value += static_cast<std::int64_t>(found->second);
  };
  for (ir::Operand& o : s.function.operands) {
    move(o);
    if (o.kind != Kind::address) continue;
    ir::Operand& base = s.function.operands[o.id];  // [array+1+2] is written [array+3]
    move(base);
    if (base.kind == Kind::symbol) o.value += std::exchange(base.value, 0);
  }
  std::vector<ir::Variable> kept;
  std::vector<bool> in_block;
  std::vector<std::uint32_t> now(moved.size());
  for (std::size_t i = 0; i < moved.size(); ++i) {
    now[i] = static_cast<std::uint32_t>(kept.size());
    if (moved[i]) continue;
    kept.push_back(std::move(s.function.variables[i]));
    in_block.push_back(i < s.in_block.size() && s.in_block[i]);
  }
  s.function.variables = std::move(kept);
  s.in_block = std::move(in_block);
  for (ir::Statement& statement : s.function.body) {
    if (statement.kind == ir::Statement::Kind::variable) statement.index = now[statement.index];
  }
}

// The module's array of dynamic shared memory; kernels of one module share its declaration.
void declare_dynamic(Draft& draft, std::string_view name, std::uint32_t align) {
  for (ir::Variable& v : draft.module.variables) {
    if (v.name != Name(name) || v.linking != "extern") continue;
    v.alignment = std::max(v.alignment, align);
    return;
  }
  draft.names.insert(Name(name));
  draft.add(extern_array(name, align), {});
}

// Shared memory of functions and of the module stays static, so less of the 48 KiB is left for the kernel.
void settle_shared(Builder::State& s, const Options& options, Built& built) {
  if (s.of) return void(s.draft->static_shared += s.shared_bytes);
  for (const auto& a : s.allocations)
    built.allocated.push_back({s.function.variables[a.variable].name, {}, a.offset, a.bytes, a.place});
  const bool author = !options.extern_shared.empty();
  const std::uint64_t all = s.shared_bytes + s.draft->static_shared;
  const bool dynamic = !s.allocations.empty() && (s.force_dynamic || all > arch::static_shared ||
                                                  (!author && options.dynamic_shared > arch::static_shared));
  built.dynamic_shared = options.dynamic_shared;
  built.static_shared = static_cast<std::uint32_t>(dynamic ? s.draft->static_shared : all);
  if (!author && !dynamic) return;
  const std::string name = author ? options.extern_shared : "dyn_smem";
  declare_dynamic(*s.draft, name, dynamic ? s.shared_align : 128);
  if (!dynamic) return;
  // Behind the author's own bytes, if there is an array that the author uses.
  const std::uint64_t align = s.shared_align;
  const std::uint64_t base = author ? (options.dynamic_shared + align - 1) / align * align : 0;
  move_into(s, Name(name), base);
  for (Allocated& a : built.allocated) a.array = Name(name), a.offset += base;
  built.dynamic_shared =
      static_cast<std::uint32_t>(std::max(std::uint64_t{options.dynamic_shared}, base + s.shared_bytes));
}

// A table knows the number of its statement, the directive behind its label; the new body has other numbers.
void find_tables(ir::Function& f) {
  for (ir::Table& table : f.tables) {
    bool labelled = false;
    for (std::uint32_t i = 0; i < f.body.size(); ++i) {
      const ir::Statement& s = f.body[i];
      labelled = labelled || (s.kind == ir::Statement::Kind::label && s.index == table.label);
      if (!labelled || s.kind != ir::Statement::Kind::directive) continue;
      table.statement = i;
      break;
    }
  }
}

// The operand that an address begins with.
const ir::Operand& base_of(const ir::Function& f, const ir::Operand& o) {
  return o.kind == ir::Operand::Kind::address && o.child_count ? f.children(o)[0] : o;
}

void find_tile_copies(const Builder::State& s, Built& built) {
  if (s.multiplied.empty() || s.tensor_maps.empty()) return;
  for (const ir::Statement& statement : s.function.body) {
    if (statement.kind != ir::Statement::Kind::instruction) continue;
    const ir::Instruction& i = s.function.instructions[statement.index];
    if (!i.match || !i.match->form->is(isa::Trait::loads_tensor) || i.count < 2) continue;
    const auto operands = s.function.operands_of(i);
    const ir::Operand &to = base_of(s.function, operands[0]), &map = base_of(s.function, operands[1]);
    const auto moving = to.kind == ir::Operand::Kind::reg ? s.tile_at.find(to.id) : s.tile_at.end();
    const auto tile = s.multiplied.find(moving == s.tile_at.end() ? to.id : moving->second);
    if (tile == s.multiplied.end() || (to.kind == ir::Operand::Kind::reg && moving == s.tile_at.end())) continue;
    for (std::size_t k = 0; k < s.tensor_maps.size(); ++k)
      if (map.kind == ir::Operand::Kind::reg && map.id == s.tensor_map_registers[k].id)
        built.tile_copies.push_back(
            {s.tensor_maps[k], std::string(Name::from_id(tile->first).view()), tile->second, statement.place});
  }
}

}  // namespace

void settle(Builder::State& s, const Options& options, Built& built) {
  s.names = std::make_shared<const std::vector<ir::Register>>(s.function.registers);
  find_tile_copies(s, built);
  settle_shared(s, options, built);
  Settling settling(s);
  settling.registers();
  settling.body();
  find_tables(s.function);
  built.tensor_maps = s.tensor_maps;
  s.draft->add(std::move(s.function));
}

Builder::Written Builder::written() const {
  State now = *state_;
  now.draft = draft_of(options_);
  now.draft->static_shared = state_->draft->static_shared;
  Written made;
  made.open = now.blocks.size() - 1;
  for (std::size_t i = 0; i < made.open; ++i) now.function.body.push_back({ir::Statement::Kind::close, 0, place_});
  Built built;
  settle(now, options_, built);
  made.text = ir::emit(now.draft->module);
  return made;
}

Builder::Settled Builder::settled() const { return {state_->names, state_->became}; }

std::uint64_t Builder::shared_bytes() const { return state_->shared_bytes; }
void Builder::force_dynamic_shared(bool force) { state_->force_dynamic = force; }
bool Builder::dynamic_shared_forced() const { return state_->force_dynamic; }

}  // namespace ptx::author
