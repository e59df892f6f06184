// Calls of functions whose signature is as kernels have theirs (FunctionOptions::raw_parameters), or is known as text
// alone: a block with a .param variable for each parameter and for the result, as compilers write it. The variables are
// those of the signature; what is stored and loaded follows from the values.
#include <algorithm>

#include "ptx/author/detail/call.h"
#include "ptx/author/detail/names.h"
#include "ptx/author/detail/state.h"
#include "ptx/base/text.h"

namespace ptx::author {
namespace {

using isa::Type;

class RawCall {
 public:
  RawCall(Builder& b, const Function& function, std::span<const Argument> arguments, const CallOptions& options)
      : b_(b), s_(b.state()), head_(function.entry->head), arguments_(arguments), options_(options) {}

  std::vector<Reg> write() {
    judge();
    const std::vector<Reg> results = results_of();
    s_.all_or_none([&] { block(results); });
    return results;
  }

 private:
  std::string name() const { return cat('`', head_.name.view(), '`'); }
  std::string what(std::size_t i) const {
    return cat(name(), ": argument ", i + 1, " (", head_.parameters[i].name.view(), ")");
  }

  void judge() const {
    const std::size_t wanted = head_.parameters.size();
    if (arguments_.size() != wanted)
      b_.refuse(Code::wrong_arguments,
                cat(name(), " takes ", wanted, wanted == 1 ? " argument" : " arguments", ", not ", arguments_.size()));
    for (const auto* list : {&head_.parameters, &head_.returns})
      for (const ir::Variable& v : *list)
        if (v.space == isa::Space::reg || v.vector > 1 || v.dims.size() > 1 || (!v.dims.empty() && v.dims[0] < 0))
          b_.refuse(Code::bad_argument,
                    cat(name(), ": `", v.name.view(),
                        "` is in .reg, or has no size; a call of such a function must be written as ptx.inst.call"));
    std::vector<std::uint32_t> sorted = options_.order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i)
      if (sorted.size() != wanted || sorted[i] != i)
        b_.refuse(Code::wrong_arguments,
                  cat(name(), ": an order names each of the ", wanted, " arguments once, by its number from 0"));
    for (std::size_t i = 0; i < wanted; ++i) {
      if (head_.parameters[i].dims.empty() && arguments_[i].size() != 1)
        b_.refuse(Code::wrong_arguments, cat(what(i), " is one value, not ", arguments_[i].size()));
      for (const Operand& o : arguments_[i])
        if (o.is_register() && o.builder != &b_)
          b_.refuse(Code::foreign_register, cat(what(i), " is a register of another function"));
    }
  }

  // What st.param and ld.param move: bits, but for registers of real numbers.
  static Type moved(Type type, int bits) {
    const bool real = isa::info(type).kind == isa::TypeKind::floating && isa::info(type).bits == bits && bits >= 32;
    return isa::type_named(cat(real ? 'f' : 'b', bits)).value_or(Type::none);
  }
  const isa::Mnemonic* moving(std::string_view opcode, Type type, const ir::Variable& v, const Operand* value) const {
    int bits = isa::info(v.dims.empty() ? v.type : type).bits;
    const bool real = value && (value->literal == Operand::Literal::real || value->ir.kind == ir::Operand::Kind::f32 ||
                                value->ir.kind == ir::Operand::Kind::f64);
    if (real && !value->is_register()) type = bits == 64 ? Type::f64 : Type::f32;
    const isa::Mnemonic* const made = isa::resolve(cat(opcode, isa::info(moved(type, bits)).name));
    if (!made)
      b_.refuse(Code::wrong_arguments, cat(name(), ": a value of type .", isa::info(type).name, " cannot be passed"));
    return made;
  }

  std::vector<Reg> results_of() const {
    if (!options_.into.empty()) return options_.into;
    std::vector<Reg> made;
    if (head_.returns.empty() || (options_.returns && options_.returns->empty())) return made;
    const ir::Variable& v = head_.returns.front();
    if (options_.returns) {
      for (const Type type : *options_.returns) made.push_back(b_.scalar(type));
    } else if (v.dims.empty()) {
      const int bits = std::max<int>(isa::info(v.type).bits, 16);
      made.push_back(b_.scalar(
          isa::info(v.type).kind == isa::TypeKind::bits ? isa::type_named(cat('u', bits)).value_or(v.type) : v.type));
    } else {
      b_.refuse(Code::wrong_arguments, cat(name(), " returns ", v.dims[0], " bytes: name the types of its fields"));
    }
    return made;
  }

  // A number in a structure has 32 bits; alone, it is all of one of 1, 2 or 8 bytes.
  static Type number(const Operand& o, const ir::Variable& v, bool alone) {
    const std::int64_t bytes = alone && (v.dims[0] < 3 || v.dims[0] == 8) ? v.dims[0] : 4;
    const bool real = o.literal == Operand::Literal::real || o.ir.kind != ir::Operand::Kind::integer;
    return isa::type_named(cat(real ? 'f' : 'b', 8 * bytes)).value_or(Type::none);
  }
  // Where a field of a structure lies; of one value, at 0.
  static std::int64_t place(std::int64_t& next, Type type) {
    const std::int64_t size = std::max(1, isa::info(type).bits / 8);
    const std::int64_t at = (next + size - 1) / size * size;
    next = at + size;
    return at;
  }
  void fits(const ir::Variable& v, std::int64_t end) const {
    if (!v.dims.empty() && end > v.dims[0])
      b_.refuse(Code::wrong_arguments,
                cat(name(), ": `", v.name.view(), "` has ", v.dims[0], " bytes; the values have ", end));
  }

  Operand variable(const ir::Variable& like, std::string name) {
    ir::Variable v;
    v.space = isa::Space::param;
    v.type = like.type;
    v.alignment = like.alignment;
    v.dims = like.dims;
    v.name = Name(name);
    s_.declare_here(v, b_.place());
    return symbol(v.name);
  }

  void block(const std::vector<Reg>& results) {
    s_.statement(ir::Statement::Kind::open, 0, b_.place());
    std::vector<Operand> passed, operands;
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      passed.push_back(variable(head_.parameters[i], cat("param", i)));
    if (!head_.returns.empty()) operands.push_back(b_.list({variable(head_.returns[0], "retval0")}));
    const Operand returned = operands.empty() ? Operand() : symbol(Name("retval0"));
    for (std::size_t n = 0; n < passed.size(); ++n) store(options_.order.empty() ? n : options_.order[n], passed);
    operands.push_back(symbol(head_.name));
    operands.push_back(b_.list(passed));
    b_.emit(isa::resolve(options_.uniform ? "call.uni" : "call"), operands, options_.guard);
    std::int64_t next = 0;
    for (const Reg& one : results) {
      const ir::Variable& v = head_.returns[0];
      b_.emit(moving("ld.param.", one.type, v, nullptr),
              std::array{Operand(one), Operand(b_.address(returned, place(next, one.type)))});
      fits(v, next);
    }
    s_.statement(ir::Statement::Kind::close, 0, b_.place());
  }

  void store(std::size_t i, const std::vector<Operand>& passed) {
    const ir::Variable& v = head_.parameters[i];
    std::int64_t next = 0;
    for (const Operand& o : arguments_[i]) {
      const Type type = o.is_register() || v.dims.empty() ? o.type : number(o, v, arguments_[i].size() == 1);
      const std::int64_t at = v.dims.empty() ? 0 : place(next, type);
      fits(v, next);
      b_.emit(moving("st.param.", type, v, &o), std::array{Operand(b_.address(passed[i], at)), o});
    }
  }

  Builder& b_;
  Builder::State& s_;
  const ir::Function& head_;
  const std::span<const Argument> arguments_;
  const CallOptions& options_;
};

}  // namespace

bool is_raw(const Function& function) {
  const FunctionOptions& o = function.options();
  return o.as_written || o.bits || !o.raw_parameters.empty() || !o.raw_returns.empty();
}

std::vector<Reg> raw_call(Builder& b, const Function& function, std::span<const Argument> arguments,
                          const CallOptions& options) {
  return RawCall(b, function, arguments, options).write();
}

Function function_named(Builder& b, std::string_view name) {
  const Builder::State& s = b.state();
  const Name wanted(name);
  if (const auto known = s.draft->functions.find(wanted); known != s.draft->functions.end()) return known->second;
  for (const ir::Function& f : s.draft->module.functions) {
    if (f.name != wanted || f.entry) continue;
    auto entry = std::make_shared<Function::Entry>();
    entry->head = f;
    entry->options.name = name;
    entry->options.as_written = true;
    entry->draft = s.draft.get();
    entry->declared = true;
    return Function{std::move(entry)};
  }
  b.refuse(Code::bad_argument, cat("the module has no function `", name, "` above this line"));
}

}  // namespace ptx::author
