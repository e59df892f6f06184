// The Builder: one kernel while it is written. Each call appends one whole instruction with the author's place,
// checked, or throws Refused and appends nothing. What belongs to one kind of value or statement is in its own header:
// expression.h (operators), control.h (if, loops, scopes), shared.h (shared memory), barrier.h, copy.h, matrix.h,
// warp.h (families of instructions), kernel.h (the C++ face: one method a mnemonic). Nothing here knows Python or
// launches.
//
// Names depend on the kernel alone: one counter a prefix, one for labels. A Builder is used by one thread at a time.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ptx/arch/matrix.h"
#include "ptx/author/value.h"
#include "ptx/base/allocated.h"
#include "ptx/ir/ir.h"
#include "ptx/isa/form.h"

namespace ptx::author {

struct Options {
  std::string name = "kernel";
  std::string target = "sm_90a";
  isa::Version version{};                 // {0, 0}: the smallest that target and instructions need
  std::vector<std::string> directives{};  // ".maxntid 384, 1, 1"
  std::string extern_shared{};            // symbol of the author's own dynamic shared memory; "": none
  std::uint32_t dynamic_shared = 0;       // bytes of it
  Place place{};                          // of the kernel's definition
  std::string linking = "visible";        // or "", "weak", "extern"
  std::string attributes{};               // text inside .attribute(...)
  std::uint8_t address_size = 64;         // 0: not written
  // Registers and variables are declared where the body says so, not before it, and a debug section stands where the
  // module has it. Transpiled kernels are, so that their text is that of their source.
  bool as_written = false;
  // Registers of integers are declared by their width, .b32, and operators on them write what compilers do: add.s32
  // and mul.lo.s32 whatever the sign, shr.u32 of bits.
  bool bits = false;
};

// A tensor copy into a tile that wgmma multiplies: the tensor map has to swizzle as the tile's descriptor says.
struct TileCopy {
  std::string tensor, tile;
  arch::Swizzle swizzle;  // of the tile
  Place place;
};

// What finish() made. The module holds one entry.
struct Built {
  ir::Module module;
  std::uint32_t dynamic_shared = 0;  // bytes that a launch has to give
  std::uint32_t static_shared = 0;
  std::vector<std::string> tensor_maps{};  // tensors whose map became a parameter, in parameter order
  Diagnostics notes;                       // warnings, of instructions first, then of the whole function
  std::vector<TileCopy> tile_copies{};     // of the kernel's own body
  std::vector<Allocated> allocated{};      // shared memory of the kernel's own body
};

struct Function;
struct Draft;
class Builder;

// A parameter as one word: [reg.]type[.v2|.v4][.ptr][.global|shared|local|const|OPAQUE][.alignN][.palignN][.arrayN]...,
// or OPAQUE: texref, samplerref, surfref. `.palignN` is the alignment of what a pointer points to; `.array` is [].
ir::Variable raw_variable(const Builder& builder, std::string_view type, std::string_view name);

class Builder {
 public:
  explicit Builder(Options options);
  Builder(Options options, std::shared_ptr<Draft> module);  // one of several kernels of a module (kernel.h)
  Builder(const Function& function, Builder& caller);       // the body of a function; see function.h
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  const Options& options() const { return options_; }

  // The author's line for everything appended until the next call.
  void set_place(const Place& place) { place_ = place; }
  void set_place(const std::source_location& at) {
    if (at.file_name() != file_text_) file_text_ = at.file_name(), file_ = Name(file_text_);
    place_ = {file_, at.line(), at.column()};
  }
  const Place& place() const { return place_; }

  // Parameters, in this order: positional(...), raw(...), then the tensor maps in the order of their first use.
  void add_pointer(std::string_view name);  // .param .u64 name
  void add_raw(std::string_view type,
               std::string_view name);  // "u32", "u64.ptr.global.palign16", "b8.align64.array128": see raw_variable

  // Registers. `name`: "" takes the next of the type's prefix.
  Reg scalar(isa::Type type, std::string_view name = {});
  Reg vector_register(isa::Type type, std::uint8_t length, std::string_view name);  // .reg .v4 .f32 v; of .x .y .z .w
  Reg scalar(isa::Type type, const char* name) { return scalar(type, std::string_view(name)); }
  Reg scalar(isa::Type type, const Operand& init, std::string_view name = {});                     // and a mov
  Reg scalar(isa::Type type, std::same_as<int> auto init) { return scalar(type, Operand(init)); }  // 0 is no name
  RegArray array(isa::Type type, std::int64_t count, std::string_view name = {},
                 std::uint8_t length = 1);  // length 2 or 4: of vectors, as vector_register
  std::vector<Reg> scalars(isa::Type type, std::span<const std::string> names,
                           std::uint8_t length = 1);  // of one .reg, as named; of vectors, as vector_register
  Reg alloc(isa::Type type);                          // the other family of prefixes, %af0
  RegArray alloc_array(isa::Type type, std::int64_t count);
  Reg from(const Operand& value, isa::Type type);                              // a new register and a mov
  const Reg special(std::string_view name, isa::Type type = isa::Type::none);  // "%tid.x"; appends nothing
  std::optional<Reg> named(std::string_view name) const;                       // a register of this kernel by its text
  std::string name(const Reg& reg) const;

  // Operands with children.
  Operand vector(std::span<const Operand> elements);  // {a, b}
  Operand list(std::span<const Operand> elements);    // (a, b)
  Operand vector(std::initializer_list<Operand> elements) { return vector({elements.begin(), elements.size()}); }
  Operand list(std::initializer_list<Operand> elements) { return list({elements.begin(), elements.size()}); }
  Operand vector(std::span<const Reg> registers) {
    return vector(std::vector<Operand>(registers.begin(), registers.end()));
  }
  Operand vector(const RegArray& registers);
  Operand pair(const Operand& left, const Operand& right);                // {a, b}|p, p|_
  Operand bracket(std::span<const Operand> parts);                        // [a, b, {x, y}]: textures, tensor copies
  Operand coordinates(const Address& base, std::span<const Operand> at);  // [base, {x, y}]
  Address address(const Operand& base, std::int64_t offset = 0);          // of a register, symbol or address
  Address address(const Operand& base, const Reg& offset);  // one addition, by the offset's sign and width
  ir::Guard guard(const Reg& predicate) const;
  ir::Guard guard(const Not& predicate) const;

  // Appends `mnemonic operands;`.
  void emit(const isa::Mnemonic* mnemonic, std::span<const Operand> operands, ir::Guard guard = {});
  void emit(std::string_view mnemonic, std::initializer_list<Operand> operands = {}, ir::Guard guard = {}) {
    emit(isa::resolve(mnemonic), {operands.begin(), operands.size()}, guard);
  }

  // Statements that are no instructions.
  void label(std::string_view name);                       // refused (duplicate_label) if it stands already
  std::string fresh_label(std::string_view prefix);        // "$_else_0", one counter for all prefixes
  std::string loop_label(std::string_view wanted);         // `wanted`, or `wanted_1` ... if that stands already
  std::string label_name(std::string_view written) const;  // what `written` means here: of the innermost open loop
  void comment(std::string_view text);                     // "BEGIN name"
  void directive(std::string_view text);                   // ".pragma \"nounroll\";", as written
  // Text that is looked into, refused if it is something else: "t: .branchtargets a, b;", .calltargets, .callprototype;
  // and in front of the kernel, ".extern .func f (.param .b32 x);".
  void table(std::string_view text);
  void declare(std::string_view text);
  // Statements as text, a line each: labels, tables and lines of declarations are the builder's too, the rest is
  // printed as it stands. A module with such text is judged again by finish(), as it is printed.
  void text(std::string_view statements);
  // Anything else of a module as text: functions with their bodies, variables, `.pragma "x";`, `.alias f, g;`,
  // `.file 1 "a.py"`; debug sections, which go to the end of the module.
  void module_text(std::string_view text);
  // .loc; `inlined`: ", function_name f, inlined_at 1 2 3"
  void location(std::uint32_t file, std::uint32_t line, std::uint32_t column, std::string_view inlined = {});
  void file(std::uint32_t index, std::string_view name);  // .file, before the kernel
  void variable(ir::Variable declared, bool in_module);   // of the body, or of the module

  // { }: registers declared inside are local to it (unnamed predicates are not).
  void open_scope();
  void close_scope();

  // ld.param of a scalar, mov of an array.
  Reg param(isa::Type type, std::string_view name, std::optional<Reg> into = {});
  std::vector<Reg> global_pointers(std::span<const std::string> names);  // ld.param.u64, cvta.to.global.u64
  // The address of the tensor map of `tensor`, a parameter `tensor_tma_desc` of 128 bytes by value. The same register
  // each time; formed at the first call, or at the start of the kernel if that call may be jumped over.
  Reg tensor_map(std::string_view tensor);

  // Ends the kernel: settles what could not be known before (see settle.cpp), checks the whole function, and gives the
  // module away. Refused if a block is open or the check has errors. Nothing else may be called afterwards but name().
  Built finish();
  // Afterwards: the registers of the text. A product may have become one of 64 bits.
  struct Settled {
    std::shared_ptr<const std::vector<ir::Register>> registers;  // as they were declared
    std::unordered_map<ir::RegisterId, ir::RegisterId> became;
    const ir::Register& of(ir::RegisterId id) const {
      const auto found = became.find(id);
      return (*registers)[found == became.end() ? id : found->second];
    }
  };
  Settled settled() const;
  // Ends the body of a function, which becomes part of the module of the builder that it was begun in. A function
  // without results needs no `ret` at its end.
  void finish_function();

  // What is written so far: the module's text as finish() would settle it now, with a } for each block that is open.
  struct Written {
    std::string text;
    std::size_t open = 0;  // blocks
  };
  Written written() const;
  std::uint64_t shared_bytes() const;     // of all allocations so far, laid one behind another
  void force_dynamic_shared(bool force);  // dynamic shared memory whatever its size
  bool dynamic_shared_forced() const;
  // The next number of a prefix of registers, "%r": of a register that the author declares by that name later.
  std::uint32_t register_number(std::string_view prefix);

  // For the other files of this room.
  struct State;
  State& state() { return *state_; }
  [[noreturn]] void refuse(Code code, std::string message) const;

 private:
  void add_parameter(ir::Variable parameter);
  void take(ir::Module declared);
  std::size_t append(const isa::Mnemonic& mnemonic, std::span<const Operand> operands, bool elements);
  bool resolve(const isa::Mnemonic& mnemonic, ir::Operand& operand, std::size_t i, std::size_t count);
  [[noreturn]] void refuse_unreachable(const isa::Mnemonic& mnemonic, std::uint32_t id) const;
  [[noreturn]] void refuse_number(const isa::Mnemonic& mnemonic, std::size_t i, const Operand& number) const;

  Options options_;
  Place place_{};
  const char* file_text_ = nullptr;  // the last file of set_place(source_location), interned once
  Name file_;
  std::unique_ptr<State> state_;
};

}  // namespace ptx::author
