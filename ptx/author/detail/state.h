// What a Builder holds while the kernel is written. Private to this room: the public headers say what may be relied on.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ptx/author/builder.h"
#include "ptx/author/function.h"
#include "ptx/author/shared.h"
#include "ptx/check/check.h"

namespace ptx::author {

inline constexpr std::uint32_t none = 0xffffffff;

// A number in the operand pool whose spelling waits for the instruction, and one that was text: `component` of an
// integer or f64 operand.
inline constexpr std::uint8_t unspelled = 0xfe, unspelled_text = 0xfd;

// Room for `more`, four times as much at each turn: pages that are never touched cost nothing, copies do.
template <class T>
void make_room(std::vector<T>& list, std::size_t more = 1) {
  if (list.size() + more > list.capacity()) list.reserve(std::max<std::size_t>(64, 4 * list.capacity()) + more);
}

// A module while it is written; the builders of its kernels and functions share it. Items stand in the order in which
// they were finished, so what is used stands above its use.
struct Draft {
  ir::Module module;
  check::ModuleTarget target;
  std::unordered_set<Name> names;                // of functions and variables
  std::unordered_map<Name, Function> functions;  // but for those that declare() of text declared
  std::vector<std::string> sections;             // behind everything else
  Diagnostics notes;                             // of functions
  std::uint32_t next_variable = 0;
  std::uint64_t static_shared = 0;  // of functions and of the module's own variables
  bool has_text = false;            // there are statements or functions as text: finish() has to check them

  void add(ir::Function function);
  void add(ir::Variable variable, const Place& place);
  void add(std::string text, const Place& place);
  bool defines(Name function) const;
  bool may_define(Name function) const;  // what it has is a prototype as text
  void finish(Built& built);             // checks the module and gives it away
};

std::shared_ptr<Draft> draft_of(const Options& options);  // an empty module for this target and version

struct Function::Entry {
  FunctionOptions options;
  ir::Function head;                   // signature
  std::vector<std::uint32_t> offsets;  // of the result's fields
  Draft* draft = nullptr;
  bool finished = false;  // its body stands in the module
  bool declared = false;  // a prototype does
  bool begun = false;     // its body is being written
};

struct Builder::State {
  std::shared_ptr<Draft> draft;
  check::ModuleTarget target;
  bool alone = false;          // the module is this kernel and what it uses
  std::optional<Function> of;  // the function whose body this is; none: a kernel
  ir::Function function;       // body without the hoisted declarations, until finish()
  std::vector<ir::Variable> raw_parameters;
  Diagnostics notes;  // what the assembler takes and the manual does not have
  std::vector<std::string> tensor_maps;
  std::vector<Reg> tensor_map_registers;
  std::vector<ir::Statement> prologue;  // before the first statement
  std::array<Operand, 24> operands;     // of the instruction that a family's function writes, while it does

  // Declarations before the body. The pool of unnamed predicates is one declaration, placed where it last grew.
  std::vector<ir::RegisterDeclaration> hoisted;
  std::vector<ir::RegisterId> pool;
  std::size_t pool_at = 0;

  struct Prefix {
    std::uint32_t next = 0;                        // number
    bool named = false;                            // the author has named a register so
    std::unordered_set<std::uint32_t> promised{};  // numbers that the author asked for, to declare them
  };
  std::unordered_map<Name, Prefix> counters;
  std::array<Prefix*, std::size(isa::type_table)> plain{};  // of each type's prefix, once it is used
  struct Range {
    std::int64_t first, count;  // of a base alone: -1, 1
  };
  struct Block {                                         // { }, the whole body first
    std::unordered_map<Name, std::vector<Range>> taken;  // numbers that the author's own names have, and arrays
    std::unordered_set<Name> labels;
    std::unordered_set<ir::RegisterId> hidden;  // of outer blocks, by a register of the same name here
    std::vector<ir::RegisterDeclaration> own;   // declared here
  };
  std::vector<Block> blocks{1};
  std::unordered_set<ir::RegisterId> ended;  // declared in a block that is closed

  std::uint32_t next_label = 0;
  std::uint32_t next_print = 0;
  std::unordered_set<Name> labels;  // all that stand or are spoken for
  std::unordered_map<std::string, std::string> latest_loop;
  struct OpenLoop {
    std::string written, label;
    ir::Guard guard;
    bool uniform;
  };
  std::vector<OpenLoop> loops;

  struct OpenSwitch {
    std::size_t table = 0, text = 0;       // of the function
    std::vector<Name> targets;             // an empty name: of no case yet
    Name end, otherwise;                   // an empty name: there is no default
    bool has_otherwise = false;            // its case stands
    std::size_t instructions = 0;          // that stood where the last case ended
    bool breaks = false, uniform = false;  // how that ends
    Place place{};
  };
  std::vector<OpenSwitch> switches;

  // What is open, innermost last. A value computed while `regions` held region r is certain to be there while r is
  // still open, unless a label of the author's own stands in between (epoch).
  enum class Open : std::uint8_t { if_, else_, when, otherwise, loop, block, choose, option, range, scope, intrinsic };
  struct Region {
    Open what;
    std::uint32_t id;
    Name a, b, enter;            // labels
    ir::Operand variable, step;  // range
    isa::Type type = isa::Type::none;
    bool fixed_step = false;
    std::string text;  // intrinsic
  };
  std::vector<Region> regions;
  std::uint32_t next_region = 1;
  std::uint32_t epoch = 0;
  bool branched = false;       // a bra stands
  std::size_t after_if = 0;    // body size just behind an if block: where else may begin
  std::size_t after_when = 0;  // the same of a when block, and otherwise
  Name endif;

  // Descriptors of tiles at fixed addresses: by symbol and byte offset, where they were formed.
  struct Formed {
    Reg reg;
    std::uint64_t token = 0;
  };
  std::map<std::pair<std::uint32_t, std::int64_t>, Formed> descriptors;

  // Which tile an address in a register is of, and the swizzle of those that are multiplied; by id.
  std::unordered_map<ir::RegisterId, std::uint32_t> tile_at;
  std::unordered_map<std::uint32_t, Swizzle> multiplied;

  // Settled by finish().
  std::vector<std::uint32_t> product_of;  // by register: instruction that is its mul.lo, or none
  struct Widening {
    std::uint32_t instruction;  // cvt.u64.u32 result, source
    ir::RegisterId source, result;
  };
  std::vector<Widening> widenings;
  struct Fold {
    std::uint32_t instruction, definition;  // mov target, value; and what made the value
    ir::RegisterId value, target;
  };
  std::vector<Fold> folds;

  struct Allocation {
    std::size_t variable = 0;  // of the function
    std::uint64_t offset = 0;  // in dynamic memory
    std::uint64_t bytes = 0;
    Place place{};
  };
  std::vector<Allocation> allocations;
  std::vector<bool> in_block;  // by variable: declared where it stands, in a block
  std::uint32_t next_argument = 0;
  std::uint32_t shared_align = 128;
  std::uint64_t shared_bytes = 0;  // of all allocations, laid one behind another
  bool force_dynamic = false;
  std::uint32_t smem_names = 0, mbar_names = 0;

  std::shared_ptr<const std::vector<ir::Register>> names;     // registers as they were, for name() after finish()
  std::unordered_map<ir::RegisterId, ir::RegisterId> became;  // products that are of 64 bits alone
  bool finished = false;

  ir::Register& declare(isa::Type type, Name base, std::int32_t index);
  void statement(ir::Statement::Kind kind, std::uint32_t index, const Place& place) {
    make_room(function.body);
    function.body.push_back({kind, index, place});
  }
  // A variable that is declared where it stands, in a block.
  void declare_here(ir::Variable variable, const Place& place) {
    in_block.resize(function.variables.size());
    in_block.push_back(true);
    statement(ir::Statement::Kind::variable, static_cast<std::uint32_t>(function.variables.size()), place);
    function.variables.push_back(std::move(variable));
  }
  // Statements and variables that `write` appends; if it refuses, none of them.
  void all_or_none(std::invocable auto&& write) {
    const std::size_t body = function.body.size(), variables = function.variables.size();
    try {
      write();
    } catch (...) {
      function.body.resize(body);
      function.variables.resize(variables);
      in_block.resize(std::min(in_block.size(), variables));
      throw;
    }
  }
  std::uint64_t token() const { return std::uint64_t{epoch} << 32 | (regions.empty() ? 0 : regions.back().id); }
  bool holds(std::uint64_t token) const;
  Region& open(Open what) {
    regions.push_back({});
    regions.back().what = what;
    regions.back().id = next_region++;
    return regions.back();
  }
  bool inside_scope() const { return blocks.size() > 1; }
};

isa::Type declared_type(isa::Type type);  // bf16 -> b16
isa::Type move_type(isa::Type type);      // f16 -> b16
bool is_signed(isa::Type type);
int integer_bits(isa::Type type);         // 32, 64; 0: not an integer or bits type of these widths
bool has_no_literals(isa::Type type);     // f16, bf16, and packed floating point
Operand real_of(const Operand& literal);  // an integer or real number as a real one

// registers.cpp
void check_no_parameter(Builder& b, std::string_view what, Name name);  // refuses the name of one
bool declare_as_text(Builder& b, ir::Function& text);  // false: `text` is not declarations alone, or a name is taken

// control.cpp
void branch(Builder& b, Name label, ir::Guard guard = {}, bool uniform = false);
void place_label(Builder& b, Name label);  // one that fresh_label() made

// settle.cpp
void settle(Builder::State& state, const Options& options, Built& built);

}  // namespace ptx::author
