// Calls and brx.idx: what is called, with what, and the tables and prototypes of indirect ones (manual 9.7.12, 11.3).
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "ptx/base/text.h"
#include "ptx/check/detail/module.h"
#include "ptx/check/detail/operands.h"

namespace ptx::check {

namespace {

using ir::Operand;
using ir::Table;
using ir::Variable;

// The operands of a call, by what they are.
struct Call {
  const Operand* returns = nullptr;  // lists
  const Operand* arguments = nullptr;
  const Operand* callee = nullptr;  // a function or a register
  const Operand* table = nullptr;
};

class Calls {
 public:
  Calls(const ir::Function& function, const Symbols& symbols, bool abi, Diagnostics& found)
      : function_(function), symbols_(symbols), found_(found), abi_(abi) {}

  void instruction(const ir::Instruction& i, std::uint32_t statement, const Place& place) {
    statement_ = statement, place_ = &place;
    const auto operands = function_.operands_of(i);
    if (i.mnemonic->is(isa::Trait::branches)) {
      if (operands.size() == 2)  // brx.idx
        table_of(operands[1], {Table::Kind::branches});
    } else if (i.mnemonic->is(isa::Trait::calls)) {
      call(read(operands));
    }
  }

 private:
  static Call read(std::span<const Operand> operands) {
    Call call;
    for (const Operand& o : operands) {
      if (o.kind == Operand::Kind::list) {
        (call.callee ? call.arguments : call.returns) = &o;
      } else {
        (call.callee ? call.table : call.callee) = &o;
      }
    }
    return call;
  }

  template <class... Parts>
  void refuse(const Parts&... what) {
    found_.emplace_back(Code::wrong_arguments, *place_, cat(what...));
  }

  void call(const Call& call) {
    if (!call.callee) return;
    if (call.callee->kind == Operand::Kind::reg) return indirect(call);
    const Symbol* symbol = symbols_.find(call.callee->id, statement_);
    if (!symbol || !symbol->function) return;
    const ir::Function& callee = *symbol->function;
    const std::string name = cat("`call ", callee.name.view(), '`');
    if (call.table) return refuse(name, ": only a call through a register takes a prototype");
    if (callee.entry) return refuse(name, ": an .entry cannot be called, only a .func");
    match(name, call, callee.returns, callee.parameters);
  }

  void indirect(const Call& call) {
    if (!call.table) return refuse("a call through a register needs a .callprototype, .calltargets or a call table");
    if (const Symbol* symbol = symbols_.find(call.table->id, statement_); is_array(call, symbol)) {
      if (!one_of(call, functions_in(symbol->variable->initializer)))
        refuse('`', symbol->variable->name.view(),
               "` is no call table: an array of .u64, initialised with names of functions");
      return;
    }
    const Table* table = table_of(*call.table, {Table::Kind::prototype, Table::Kind::calls});
    if (!table) return;
    if (table->kind == Table::Kind::prototype) return match("the call", call, table->returns, table->parameters);
    one_of(call, table->targets);
  }

  // Whether the operand names a variable, which is a call table then: .global .u64 f[2] = {a, b};
  static bool is_array(const Call& call, const Symbol* symbol) {
    return call.table->kind == Operand::Kind::symbol && symbol && symbol->kind == Symbol::Kind::variable;
  }
  static std::vector<Name> functions_in(std::string_view initializer) {
    std::vector<Name> names;
    constexpr std::string_view between = " \t\r\n{},";
    for (std::size_t at = 0; (at = initializer.find_first_not_of(between, at)) != initializer.npos;) {
      const std::size_t end = std::min(initializer.find_first_of(between, at), initializer.size());
      names.emplace_back(initializer.substr(at, end - at));
      at = end;
    }
    return names;
  }

  // All that may be called agree with the call. Whether there is any.
  bool one_of(const Call& call, const std::vector<Name>& targets) {
    bool any = false;
    const std::size_t before = found_.size();
    for (const Name name : targets) {
      const Symbol* symbol = symbols_.find(name.id(), statement_);
      if (!symbol || !symbol->function || found_.size() != before) continue;
      match(cat("a call of `", name.view(), '`'), call, symbol->function->returns, symbol->function->parameters);
      any = true;
    }
    return any;
  }

  // The table behind a label in front of this statement.
  const Table* table_of(const Operand& o, std::initializer_list<Table::Kind> kinds) {
    if (o.kind != Operand::Kind::symbol) return nullptr;
    const Symbol* label = symbols_.find(o.id, statement_);
    for (const Table& t : function_.tables) {
      if (!label || t.label != o.id || label->at > t.statement) continue;
      if (t.statement < statement_ && std::find(kinds.begin(), kinds.end(), t.kind) != kinds.end()) return &t;
      break;
    }
    const bool branch = *kinds.begin() == Table::Kind::branches;
    refuse('`', Name::from_id(o.id).view(), "` is no label in front of a ",
           branch ? ".branchtargets" : ".callprototype or .calltargets", " above");
    return nullptr;
  }

  void match(std::string_view name, const Call& call, const std::vector<Variable>& returns,
             const std::vector<Variable>& parameters) {
    const std::size_t results = call.returns ? call.returns->child_count : 0;
    const std::size_t arguments = call.arguments ? call.arguments->child_count : 0;
    if (results != returns.size() || arguments != parameters.size()) {
      return refuse(name, " has ", results, " results and ", arguments, " arguments; the function has ", returns.size(),
                    " and ", parameters.size());
    }
    for (std::size_t i = 0; i < results; ++i) pass(name, "result", i, function_.children(*call.returns)[i], returns[i]);
    for (std::size_t i = 0; i < arguments; ++i)
      pass(name, "argument", i, function_.children(*call.arguments)[i], parameters[i]);
  }

  void pass(std::string_view name, std::string_view what, std::size_t i, const Operand& o, const Variable& formal) {
    const bool named = o.kind == Operand::Kind::symbol && !is_warp_size(o);
    const Symbol* symbol = named ? symbols_.find(o.id, statement_) : nullptr;
    if (named && !symbol) {
      found_.emplace_back(Code::undefined_name, *place_,
                          cat(name, ": ", what, ' ', i + 1, " is `", ir::to_string(function_, o), "`, which ",
                              symbols_.not_declared(o.id, statement_)));
      return;
    }
    if (symbol && !is_argument(*symbol))
      return refuse(name, ": ", what, ' ', i + 1, " is `", ir::to_string(function_, o),
                    "`; an argument is a register, a constant or a .param variable that the body declares");
    const bool result = what == "result";
    if (o.kind == Operand::Kind::sink && !result)
      return refuse(name, ": argument ", i + 1, " is the sink `_`, which stands for results alone");
    if (!is_whole(o) || (result && is_number(o)))
      return refuse(name, ": ", what, ' ', i + 1, " is `", ir::to_string(function_, o),
                    "`; it must be a whole register, ", result ? "`_`" : "a constant",
                    " or a .param variable that the body declares");
    if (abi_ && too_small(formal))
      return refuse(name, ": ", what, ' ', i + 1, " is passed as .", isa::info(formal.type).name,
                    "; functions pass no predicates, and integers of 8 and 16 bits as .b8 and .b16");
    if (fits(o, formal)) return;
    refuse(name, ": ", what, ' ', i + 1, " is `", ir::to_string(function_, o), "`, which is not passed as .",
           isa::info(formal.type).name, formal.dims.empty() ? "" : "[]");
  }

  static bool is_number(const Operand& o) {
    using Kind = Operand::Kind;
    return o.kind == Kind::integer || o.kind == Kind::f32 || o.kind == Kind::f64 || is_warp_size(o);
  }
  // Neither v.x, -r, r+1, nor {r, s}.
  static bool is_whole(const Operand& o) {
    using Kind = Operand::Kind;
    if (o.kind == Kind::reg) return o.component == 0xff && !o.negated && !o.minus;
    return o.kind == Kind::symbol || o.kind == Kind::sink || o.kind == Kind::special || is_number(o);
  }
  // The assembler says so of the module, without a line: "In ABI compilation, passing predicate, 8-bit and 16-bit
  // parameters to device functions is not supported".
  static bool too_small(const Variable& formal) {
    const isa::TypeInfo& type = isa::info(formal.type);
    const bool integer = type.kind == isa::TypeKind::signed_ || type.kind == isa::TypeKind::unsigned_;
    return formal.dims.empty() && formal.vector == 1 &&
           (type.kind == isa::TypeKind::predicate || (integer && type.bits < 32));
  }

  static bool is_argument(const Symbol& symbol) {
    return symbol.kind == Symbol::Kind::variable && symbol.variable->space == isa::Space::param;
  }

  bool fits(const Operand& o, const Variable& formal) const {
    if (is_warp_size(o)) return formal.dims.empty() && isa::info(formal.type).kind != isa::TypeKind::floating;
    if (o.kind == Operand::Kind::symbol) return fits(*symbols_.find(o.id, statement_)->variable, formal);
    if (o.kind == Operand::Kind::sink) return true;
    if (!formal.dims.empty()) return false;
    const isa::TypeKind kind = isa::info(formal.type).kind;
    switch (o.kind) {
      case Operand::Kind::reg: {
        const ir::Register& reg = function_.registers[o.id];
        return reg.vector > 1 || agrees(formal.type, reg.type, false);
      }
      case Operand::Kind::integer: return kind != isa::TypeKind::floating;
      case Operand::Kind::f32:
      case Operand::Kind::f64: return kind == isa::TypeKind::floating || kind == isa::TypeKind::bits;
      default: return o.kind != Operand::Kind::special;
    }
  }

  // Arrays: of one size and alignment. The last parameter of a variadic function has no size.
  static bool fits(const Variable& actual, const Variable& formal) {
    if (formal.dims.empty() && actual.dims.empty()) return agrees(formal.type, actual.type, false);
    if (formal.dims.empty() != actual.dims.empty()) return false;
    return alignment(actual) == alignment(formal) && (formal.dims[0] < 0 || ir::bytes(actual) == ir::bytes(formal));
  }

  const ir::Function& function_;
  const Symbols& symbols_;
  Diagnostics& found_;
  bool abi_;
  std::uint32_t statement_ = 0;
  const Place* place_ = nullptr;
};

// Every name of a table is declared.
void check_tables(const ir::Function& function, const Symbols& symbols, Diagnostics& found) {
  for (const Table& table : function.tables) {
    const ir::Statement& s = function.body[table.statement];
    const bool branches = table.kind == Table::Kind::branches;
    if (table.label == ir::no_id) {
      found.emplace_back(Code::directive_value, s.place, "a table of targets or a prototype needs a label");
    }
    for (const Name name : table.targets) {
      const Symbol* symbol = symbols.find(name.id(), table.statement);
      const bool fits = symbol && symbol->kind == (branches ? Symbol::Kind::label : Symbol::Kind::function) &&
                        !(branches && ir::table_behind(function, symbol->at));
      if (fits) continue;
      found.emplace_back(symbol ? Code::operand_kind : Code::undefined_name, s.place,
                         symbol ? cat('`', name.view(), "` is no ", branches ? "label to branch to" : "function")
                                : cat('`', name.view(), "` ", symbols.not_declared(name.id(), table.statement)));
    }
  }
}

// The .param variables of the body that calls write, and loads of others (manual 7.1).
class Results {
 public:
  Results(const ir::Function& function, const Symbols& symbols) : function_(function), symbols_(symbols) {}

  // Each instruction of the body, in turn.
  void instruction(const ir::Instruction& i, std::uint32_t statement) {
    const auto operands = function_.operands_of(i);
    if (i.mnemonic->is(isa::Trait::calls) && operands[0].kind == Operand::Kind::list) {
      for (const Operand& o : function_.children(operands[0])) written_.insert(variable(o, statement));
    }
    if (operands.size() != 2 || operands[1].kind != Operand::Kind::address || i.match->space() == isa::Space::generic)
      return;
    const Variable* read = variable(function_.children(operands[1])[0], statement);
    if (read) loads_.emplace_back(read, statement);
  }
  void tell(Diagnostics& found) const {
    for (const auto& [read, statement] : loads_) {
      if (!written_.contains(read))
        found.emplace_back(
            Code::wrong_arguments, function_.body[statement].place,
            cat("no call of this function writes `", read->name.view(), "`; a .param variable of the body ",
                "passes one argument or result and stores nothing, which .local variables do"));
    }
  }

 private:
  const Variable* variable(const Operand& o, std::uint32_t statement) const {
    const Symbol* symbol = o.kind == Operand::Kind::symbol ? symbols_.find(o.id, statement) : nullptr;
    const bool of_body =
        symbol && symbol->kind == Symbol::Kind::variable && symbol->variable->space == isa::Space::param;
    return of_body ? symbol->variable : nullptr;
  }

  const ir::Function& function_;
  const Symbols& symbols_;
  std::unordered_set<const Variable*> written_;
  std::vector<std::pair<const Variable*, std::uint32_t>> loads_;
};

}  // namespace

void check_calls(const ir::Function& function, const Symbols& symbols, bool abi, Diagnostics& found) {
  check_tables(function, symbols, found);
  Calls calls(function, symbols, abi, found);
  const bool passes = std::any_of(function.variables.begin(), function.variables.end(),
                                  [](const Variable& v) { return v.space == isa::Space::param; });
  Results results(function, symbols);
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const ir::Statement& s = function.body[i];
    if (s.kind != ir::Statement::Kind::instruction) continue;
    const ir::Instruction& instruction = function.instructions[s.index];
    if (!instruction.match) continue;
    calls.instruction(instruction, static_cast<std::uint32_t>(i), s.place);
    if (passes) results.instruction(instruction, static_cast<std::uint32_t>(i));
  }
  results.tell(found);
}

}  // namespace ptx::check
