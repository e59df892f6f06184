// How a body is written: what the steps of sugar have found out about it. Each step is a file of raise/ and adds its
// part; a body that none has touched is written statement by statement.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/ir/ir.h"
#include "ptx/transpile/detail/language.h"
#include "ptx/transpile/transpile.h"

namespace ptx::transpile {

// A statement, a block out of labels and branches, or a run that repeats.
struct Node {
  enum class Kind : std::uint8_t {
    statement,
    when,  // the guarded branch `at` jumps over `body`; with `otherwise`, the branch `end` at the body's end jumps over
           // that
    loop,  // the branch `end` goes back to the label `at`
    call,  // the block from the brace `at` to `end` is one of Plan::calls
    wait,  // from the label or brace `at` to `end`: an instruction, again until its first operand is true
    choose,  // the brx.idx `end`, its table and, if `at` is one, the branch to the default; `body` are options
    option,  // of `choose`: from the label `at` to the branch `end` behind the last one, or into the next
    block,   // `body` can be left and, if `end` is its label, begun again
    leave,   // the branch `at` goes behind the block or loop `way`
    enter,   // the block `way` is entered at the label `at`, which `end` is, too, unless another block begins with it
    again,   // the branch `at` goes to the beginning of the loop or block `way`
    repeat,  // `body`, the first round, stands `rounds` times from `at` to `end`; what differs are Plan::walks
  } kind = Kind::statement;
  std::uint32_t at = 0, end = ir::no_id;
  std::vector<Node> body{}, otherwise{};
  std::vector<std::uint32_t> indices{};  // of an option, in the table; no_id: it is the default
  std::uint32_t targets = 0;             // of a choose, if more than its options say
  std::uint32_t late = ir::no_id;        // of a block: the branch in front to where it is entered
  std::uint32_t way = ir::no_id;         // of a block or loop, a number for those that leave it or begin it again
  // of a repeat
  std::uint32_t rounds = 0, round_end = ir::no_id;  // the last statement of the first round
  bool counted = false;                             // a walk has a step here
  std::vector<std::vector<std::int64_t>> tables{};  // what walks take from a table, by round
};

// A number, or the index of an array's element, that is another in each round of the repetitions around it.
struct Walk {
  struct Step {
    std::int64_t by = 0;
    std::uint32_t rounds = 1;
  };
  std::vector<Step> steps;         // of each repetition, the innermost first; none: 0
  ir::RegisterId reg = ir::no_id;  // in the first round; no_id: a number
  // What it takes from a table of the repetition steps[table_of]; `origin` is that of the first round.
  std::uint32_t table = ir::no_id, table_of = 0;
  std::int64_t origin = 0;
};

struct PlannedRegister {
  enum class Where : std::uint8_t {
    nowhere,  // nobody names it
    ahead,    // before the body: it is read above its first write, or a block hides where that is
    before,   // in front of `statement`
    inside,   // in `statement`, whose first operand it is
    element,  // of an array
  } where = Where::nowhere;
  std::uint32_t statement = ir::no_id;
  std::uint32_t depth = 0;  // repetitions around the place
  std::uint32_t scope = 0;  // the braces of PTX around its first use
  std::uint32_t owner = 0;  // the round of a repetition, from 1, that alone names it; 0: none
  std::uint32_t array = ir::no_id, index = 0;
  isa::Type type = isa::Type::none;  // for the author
  bool accumulates = false;
  std::string name;  // wanted
};

struct PlannedArray {
  std::uint32_t statement = ir::no_id, depth = 0;  // in front of it
  std::vector<ir::RegisterId> elements;            // no_id: an element that nobody names
  std::string name;
};

// What shared memory holds, as every use of it shows: 16 rows of 32 numbers.
struct Contents {
  isa::Type type = isa::Type::none;
  std::vector<std::int64_t> shape{};
};

// A number as the call that makes it, and the types that it names.
struct Spelled {
  std::string head, start_name, rest, end;  // head, start_name and `start` unless it is 0, rest, end
  std::int64_t start = 0;                   // of a matrix, in bytes: 16 a unit of the number
  std::vector<isa::Type> types{};
};

// A block that is a call of a function with arguments. Statements.
struct Call {
  std::uint32_t called = ir::no_id, end = ir::no_id;  // the instruction; the brace
  Name callee{};
  std::string spelled{};  // what the program calls
  bool uniform = false, scalar = false, unloaded = false;
  int bits = 0;                                       // of a result that is no structure
  std::vector<bool> structures;                       // by argument: it is one, of fields
  std::vector<std::vector<std::uint32_t>> arguments;  // st.param of each field
  std::vector<std::uint32_t> order, results;          // {}: as they stand; ld.param of each field
};

struct Plan {
  bool raised = false;  // registers have names of their own, and are declared where they are first written
  bool bits = false;    // Options::bits of the author
  std::vector<PlannedRegister> registers;
  std::vector<PlannedArray> arrays;  // by where they are declared
  bool shaped = false;               // `nodes` are the body
  std::vector<Node> nodes;           // in order
  std::vector<bool> unneeded_label;  // by statement: blocks make it
  bool expressions = false;
  bool allocates = false;                               // shared memory is allocated
  std::vector<std::string> arguments;                   // of the program's function
  std::unordered_map<std::uint32_t, Call> calls;        // by the brace that opens
  std::unordered_map<std::uint32_t, const char*> kept;  // branches, and braces around calls: why they stay
  std::uint32_t owners = 0;
  std::unordered_map<const void*, Walk> walks;         // by the ir::Operand or ir::Guard
  std::unordered_map<const void*, Contents> contents;  // by the ir::Variable
  std::unordered_map<const void*, Spelled> spelled;    // by the ir::Operand
};

// Whether the signature declares it: (.reg .b32 %a). The statements do not.
bool is_parameter(const ir::Function& function, const ir::Register& r);

std::uint64_t static_shared(const ir::Module& module);  // bytes, with room for alignment

Plan plan_of(const ir::Module& module, const ir::Function& function, Sugar sugar, Language language);

inline constexpr int deepest = 16;  // blocks in each other; CPython takes 20

// What stands in front of what stays as the text has it: a brx.idx; a branch; the block around a call.
inline constexpr const char* kept_table = "Labels stay: others jump between the targets of this table, or behind them.";
inline constexpr const char* kept_branch = "Labels stay: a branch leads into the middle of what would be a block.";
inline constexpr const char* kept_named =
    "Labels stay: more than branches names them, or their name stands in several scopes.";
inline constexpr const char* kept_deep = "Labels stay: as blocks, what follows would be nested too deep.";
inline constexpr const char* kept_pointer = "No call with arguments: it goes through a register.";
inline constexpr const char* kept_others = "No call with arguments: other instructions stand between them.";
inline constexpr const char* kept_vectors = "No call with arguments: vectors are stored or loaded.";
inline constexpr const char* kept_guarded = "No call with arguments: it is guarded, or what stands around it.";
inline constexpr const char* kept_places = "No call with arguments: a label or a .loc stands between them.";
inline constexpr const char* kept_variables =
    "No call with arguments: the variables or types are not those of the signature.";

// What a wait consists of: statements, of which `tried` waits and `out` is the label behind the loop, and how it
// branches.
struct Wait {
  std::uint32_t top = ir::no_id, tried = ir::no_id, out = ir::no_id, end = ir::no_id;
  bool leave = false, uniform = false, braces = false;
};
// That which begins there, if it is one but for who else names its labels and its register.
std::optional<Wait> wait_at(const ir::Function& function, Language language, std::uint32_t at);
Wait wait_of(const ir::Function& function, const Node& node);

// Where each register is first and last named, as statements; no_id: nowhere.
struct Extents {
  explicit Extents(const ir::Function& function);
  std::vector<std::uint32_t> first, last;
};

// The part of a parameter's name behind the function's: `axpy_param_0` of axpy is param_0.
std::string_view short_name(std::string_view name, std::string_view function);

// The steps.
void find_calls(const ir::Module& module, const ir::Function& function, Plan& plan);
void name_registers(const ir::Function& function, Plan& plan);
void shape(const ir::Function& function, Language language, Plan& plan);
// Branches that are still there (by statement: the label that each goes to, or no_id) as ways out of blocks and loops.
struct FoundWays {
  std::vector<std::uint32_t> labels;  // of the branches that have become ways
  std::vector<std::uint32_t> begun;   // labels that begin a block or loop now
  std::vector<std::uint32_t> deep;    // branches that stay, as blocks would be nested too deep
};
FoundWays find_ways(const ir::Function& function, const std::vector<std::uint32_t>& targets,
                    const std::vector<bool>& may_begin, std::vector<Node>& nodes);
void fold(const ir::Function& function, const Extents& extents, Plan& plan);
void form_arrays(const ir::Function& function, const Extents& extents, Plan& plan);
void find_contents(const ir::Function& function, Plan& plan);
void sign_registers(const ir::Function& function, Plan& plan);
void spell_descriptors(const ir::Function& function, Language language, Plan& plan);
void place_declarations(const ir::Function& function, const Extents& extents, Plan& plan);
void declare_outside_of_blocks(const ir::Function& function, Plan& plan);  // for C++
void sort_arrays(Plan& plan);                                              // by where they are declared

}  // namespace ptx::transpile
