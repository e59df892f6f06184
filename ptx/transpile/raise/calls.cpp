// Calls in the block that compilers write around them: a .param variable for each parameter and for the result, what is
// stored in them, the call, what is loaded. A block that holds anything else, or whose variables are not those of the
// function's signature, stays one: the instructions keep their order.
#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/transpile/detail/plan.h"

namespace ptx::transpile {
namespace {

using ir::Operand;
using ir::Statement;
using isa::Type;

const ir::Function* function_named(const ir::Module& module, std::uint32_t name) {
  for (const ir::Function& f : module.functions)
    if (f.name.id() == name && !f.entry) return &f;
  return nullptr;
}

class ReadingCall {
 public:
  ReadingCall(const ir::Module& module, const ir::Function& f, std::uint32_t at) : module_(module), f_(f), at_(at) {}

  std::optional<Call> run() {
    std::vector<std::uint32_t> stores;
    while (++at_ < f_.body.size()) {
      const Statement& s = f_.body[at_];
      if (s.kind == Statement::Kind::registers) continue;
      if (s.kind == Statement::Kind::variable) {
        variables_.push_back(&f_.variables[s.index]);
        continue;
      }
      if (s.kind == Statement::Kind::close) break;
      if (s.kind != Statement::Kind::instruction) return {};
      const ir::Instruction& i = instruction(at_);
      if (!i.mnemonic || i.guard.reg != ir::no_id) return {};
      if (i.mnemonic->opcode == "call") {
        if (head_ || !calls(i)) return {};
        made_.called = at_;
      } else if (i.mnemonic->opcode == (head_ ? "ld" : "st") && i.count == 2) {
        (head_ ? made_.results : stores).push_back(at_);
      } else {
        return {};
      }
    }
    made_.end = at_;
    if (!head_ || !declares() || !arguments(stores) || !results()) return {};
    return std::move(made_);
  }

 private:
  const ir::Instruction& instruction(std::uint32_t at) const { return f_.instructions[f_.body[at].index]; }
  const Operand& operand(std::uint32_t at, std::size_t n) const { return f_.operands[instruction(at).first + n]; }

  static bool is_symbol(const Operand& o, const std::string& name) {
    return o.kind == Operand::Kind::symbol && o.value == 0 && Name::from_id(o.id).view() == name;
  }

  bool calls(const ir::Instruction& i) {
    const auto operands = f_.operands_of(i);
    std::size_t n = 0;
    const bool returns = !operands.empty() && operands[0].kind == Operand::Kind::list;
    if (returns) n = 1;
    if (n >= operands.size() || operands[n].kind != Operand::Kind::symbol || operands.size() > n + 2) return false;
    made_.callee = Name::from_id(operands[n].id);
    made_.uniform = i.mnemonic->canonical == "call.uni";
    head_ = function_named(module_, operands[n].id);
    if (!head_ || (!made_.uniform && i.mnemonic->canonical != "call")) return false;
    const auto returned = returns ? f_.children(operands[0]) : std::span<const Operand>();
    const auto passed = n + 1 < operands.size() ? f_.children(operands[n + 1]) : std::span<const Operand>();
    if (n + 1 < operands.size() && operands[n + 1].kind != Operand::Kind::list) return false;
    if (returned.size() != head_->returns.size() || returned.size() > 1 || passed.size() != head_->parameters.size())
      return false;
    if (!returned.empty() && !is_symbol(returned[0], "retval0")) return false;
    for (std::size_t p = 0; p < passed.size(); ++p)
      if (!is_symbol(passed[p], cat("param", p))) return false;
    return n + 1 < operands.size();
  }

  // The block's variables are those of the signature, each once.
  bool declares() const {
    if (variables_.size() != head_->parameters.size() + head_->returns.size()) return false;
    for (std::size_t p = 0; p < head_->parameters.size(); ++p)
      if (!declares(head_->parameters[p], cat("param", p))) return false;
    return head_->returns.empty() || declares(head_->returns[0], "retval0");
  }
  bool declares(const ir::Variable& like, const std::string& name) const {
    if (like.space != isa::Space::param || like.vector > 1 || like.dims.size() > 1) return false;
    if (!like.dims.empty() && (like.dims[0] <= 0 || like.alignment == 0)) return false;
    return std::any_of(variables_.begin(), variables_.end(), [&](const ir::Variable* v) {
      return v->name.view() == name && v->space == like.space && v->type == like.type && v->vector == like.vector &&
             v->dims == like.dims && v->alignment == like.alignment && v->linking.empty() && v->attributes.empty() &&
             v->initializer.empty() && v->count < 0 && v->opaque.empty();
    });
  }

  // What moves it: bits, but for registers of real numbers.
  static bool moves(const ir::Instruction& i, std::string_view opcode, Type type, int bits) {
    const bool real = isa::info(type).kind == isa::TypeKind::floating && isa::info(type).bits == bits && bits >= 32;
    return i.mnemonic->canonical == cat(opcode, real ? 'f' : 'b', bits);
  }
  bool is_register(const Operand& o) const {
    return o.kind == Operand::Kind::reg && o.component == 0xff && !o.negated && !o.minus &&
           f_.registers[o.id].vector == 1 && f_.registers[o.id].type != Type::pred;
  }
  // [name + at]
  bool is_place(const Operand& o, const std::string& name, std::int64_t at) const {
    if (o.kind != Operand::Kind::address || o.child_count != 1 || o.unified || o.value != at) return false;
    return is_symbol(f_.children(o)[0], name);
  }
  static std::int64_t next_place(std::int64_t& next, Type type) {
    const std::int64_t size = std::max(1, isa::info(type).bits / 8), at = (next + size - 1) / size * size;
    next = at + size;
    return at;
  }

  // `alone`: no other store goes to the variable. A number in a structure is as in author/raw_call.cpp.
  bool stores(std::uint32_t at, const ir::Variable& v, const std::string& name, bool alone, std::int64_t& next) const {
    const ir::Instruction& i = instruction(at);
    const Operand& value = operand(at, 1);
    if (is_register(value)) {
      const Type type = f_.registers[value.id].type;
      const std::int64_t place = v.dims.empty() ? 0 : next_place(next, type);
      return is_place(operand(at, 0), name, place) &&
             moves(i, "st.param.", type, isa::info(v.dims.empty() ? v.type : type).bits);
    }
    int bits = isa::info(v.type).bits;
    std::int64_t place = 0;
    if (!v.dims.empty()) {
      bits = alone && (v.dims[0] < 3 || v.dims[0] == 8) ? static_cast<int>(8 * v.dims[0]) : 32;
      place = next_place(next, isa::type_named(cat('b', bits)).value_or(Type::none));
    }
    if (!is_place(operand(at, 0), name, place)) return false;
    if (value.kind == Operand::Kind::integer) return !value.wide && moves(i, "st.param.", Type::none, bits);
    return is_finite(value) && moves(i, "st.param.", value.kind == Operand::Kind::f32 ? Type::f32 : Type::f64, bits);
  }
  static bool is_finite(const Operand& o) {
    if (o.kind == Operand::Kind::f32) return (o.bits & 0x7f800000) != 0x7f800000;
    return o.kind == Operand::Kind::f64 && (o.bits & 0x7ff0000000000000) != 0x7ff0000000000000;
  }

  bool arguments(const std::vector<std::uint32_t>& list) {
    made_.arguments.resize(head_->parameters.size());
    for (const ir::Variable& v : head_->parameters) made_.structures.push_back(!v.dims.empty());
    for (std::size_t n = 0; n < list.size();) {
      std::size_t p = 0;
      const auto base = [&](std::size_t at) { return f_.children(operand(list[at], 0)); };
      while (p < made_.arguments.size() && (base(n).size() != 1 || !is_symbol(base(n)[0], cat("param", p)))) ++p;
      if (p == made_.arguments.size() || !made_.arguments[p].empty()) return false;
      const ir::Variable& v = head_->parameters[p];
      std::int64_t next = 0;
      const bool alone = n + 1 == list.size() || base(n + 1).size() != 1 || !is_symbol(base(n + 1)[0], cat("param", p));
      for (; n < list.size() && base(n).size() == 1 && is_symbol(base(n)[0], cat("param", p)); ++n) {
        if ((v.dims.empty() && !made_.arguments[p].empty()) || !stores(list[n], v, cat("param", p), alone, next))
          return false;
        made_.arguments[p].push_back(list[n]);
      }
      made_.order.push_back(static_cast<std::uint32_t>(p));
    }
    if (made_.order.size() != made_.arguments.size()) return false;
    if (std::is_sorted(made_.order.begin(), made_.order.end())) made_.order.clear();
    return true;
  }

  bool results() {
    made_.unloaded = made_.results.empty() && !head_->returns.empty();
    if (made_.results.empty()) return true;
    const ir::Variable& v = head_->returns[0];
    made_.scalar = v.dims.empty();
    if (made_.scalar && made_.results.size() > 1) return false;
    std::int64_t next = 0;
    for (const std::uint32_t at : made_.results) {
      const Operand& value = operand(at, 0);
      if (!is_register(value)) return false;
      const Type type = f_.registers[value.id].type;
      if (!is_place(operand(at, 1), "retval0", made_.scalar ? 0 : next_place(next, type))) return false;
      if (!moves(instruction(at), "ld.param.", type, isa::info(made_.scalar ? v.type : type).bits)) return false;
    }
    if (made_.scalar) made_.bits = isa::info(v.type).bits;
    return true;
  }

  const ir::Module& module_;
  const ir::Function& f_;
  std::uint32_t at_;
  const ir::Function* head_ = nullptr;  // of what is called
  std::vector<const ir::Variable*> variables_;
  Call made_;
};

// Why the block that begins at a brace is no call, if it holds one.
const char* why_kept(const ir::Function& f, std::uint32_t at) {
  bool calls = false, others = false, vectors = false, pointer = false, places = false, guarded = false;
  for (++at; at < f.body.size() && f.body[at].kind != Statement::Kind::close; ++at) {
    if (f.body[at].kind == Statement::Kind::open) return nullptr;
    places |= f.body[at].kind == Statement::Kind::label || f.body[at].kind == Statement::Kind::location;
    if (f.body[at].kind != Statement::Kind::instruction) continue;
    const ir::Instruction& i = f.instructions[f.body[at].index];
    if (!i.mnemonic) return nullptr;
    guarded |= i.guard.reg != ir::no_id;
    const auto operands = f.operands_of(i);
    const auto any = [&](Operand::Kind kind) {
      return std::any_of(operands.begin(), operands.end(), [&](const Operand& o) { return o.kind == kind; });
    };
    if (i.mnemonic->opcode == "call") {
      calls = true;
      pointer = any(Operand::Kind::reg);
    } else if (i.mnemonic->opcode == "st" || i.mnemonic->opcode == "ld") {
      vectors |= any(Operand::Kind::vector);
    } else {
      others = true;
    }
  }
  if (!calls) return nullptr;
  if (pointer || others) return pointer ? kept_pointer : kept_others;
  if (guarded) return kept_guarded;
  return vectors ? kept_vectors : places ? kept_places : kept_variables;
}

}  // namespace

void find_calls(const ir::Module& module, const ir::Function& function, Plan& plan) {
  const bool calls = std::any_of(function.instructions.begin(), function.instructions.end(),
                                 [](const ir::Instruction& i) { return i.mnemonic && i.mnemonic->opcode == "call"; });
  for (std::uint32_t i = 0; calls && i < function.body.size(); ++i) {
    if (function.body[i].kind != Statement::Kind::open) continue;
    if (auto found = ReadingCall(module, function, i).run())
      plan.calls.emplace(i, std::move(*found));
    else if (const char* why = why_kept(function, i))
      plan.kept.emplace(i, why);
  }
}

}  // namespace ptx::transpile
