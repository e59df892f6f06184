// The C++ face: one method a mnemonic, with typed registers. Its other parts have headers of their own, which this one
// includes: operators (operators.h), blocks as lambdas (blocks.h), calls of functions (callable.h).
//
//   using namespace ptx::modifiers;
//   auto built = ptx::author::kernel({.name = "axpy"}, [](ptx::author::Kernel& k) {
//     const auto [x, y] = k.pointers<2>({"x", "y"});           // parameters, in global space
//     ptx::author::Reg a = k.scalar(f32), b = k.scalar(f32);
//     k.ld(global, f32, a, k.at(x, 16));                       // modifiers first, operands as PTX writes them
//     k.fma(rn, f32, b, a, a, b);
//     "add.f32"_ptx(b, b, 1.0);                                // refused at compile time if it is no PTX (literal.h)
//     k.st(global, f32, k.at(y), b);
//     k.ret();
//   });
//   std::string text = ptx::ir::emit(built.module);
//
// A wrong instruction throws Refused, with the C++ file and line that wrote it.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <string_view>

#include "ptx/author/blocks.h"
#include "ptx/author/callable.h"
#include "ptx/author/here.h"
#include "ptx/author/operators.h"
#include "ptx/author/print.h"
#include "ptx/author/variable.h"

namespace ptx::author {

class Kernel : public Blocks {
 public:
  using Blocks::Blocks;

  // The kernel that this thread is writing; what literals append to.
  static Kernel& current();

  // One method a mnemonic: k.add(s32, d, a, b), k.bra(when(p), "loop"), k.ret(). Names that C++ or a macro of the C
  // library has end in `_`: k.and_, k.alloca_. What is returned is the first operand if that is a register:
  // const Reg sum = k.add(s32, k.scalar(s32), a, b).
#define PTX_SECOND(a, b, ...) b
#define PTX_CHOOSE(...) PTX_SECOND(__VA_ARGS__, )
#define PTX_RESERVED_and ~, and_
#define PTX_RESERVED_or ~, or_
#define PTX_RESERVED_xor ~, xor_
#define PTX_RESERVED_not ~, not_
#define PTX_RESERVED_alloca ~, alloca_
#define PTX_METHOD(name) PTX_CHOOSE(PTX_RESERVED_##name, name)
#define SECTION(number, title)
#define FORM(...)
#define OPCODE(name, ...)                                       \
  template <class... Rest>                                      \
  Reg PTX_METHOD(name)(const First& first, Rest&&... rest) {    \
    static_assert(temporaries<Rest...> <= 1,                    \
                  "two arguments append instructions, and C++ " \
                  "does not say which is first: name one");     \
    return write(#name, first, rest...);                        \
  }                                                             \
  void PTX_METHOD(name)(std::source_location at = std::source_location::current()) { write(#name, at); }
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef FORM
#undef SECTION
#undef PTX_METHOD
#undef PTX_RESERVED_and
#undef PTX_RESERVED_or
#undef PTX_RESERVED_xor
#undef PTX_RESERVED_not
#undef PTX_RESERVED_alloca
#undef PTX_CHOOSE
#undef PTX_SECOND

  // A function of this module: `const Callable square = k.func({.name = "square", .parameters = {{f32, "x"}},
  // .returns = {f32}}, [](Kernel& f, const Arguments& in) { f.give(in[0] * in[0]); });`, then `square(x)`. Without a
  // body it is .extern, or is defined later: functions that call each other.
  using Body = std::function<void(Kernel&, const Arguments&)>;
  Callable func(FunctionOptions options, const Body& body = {},
                std::source_location at = std::source_location::current());
  void define(const Callable& function, const Body& body, std::source_location at = std::source_location::current());
  // A function of the module by its name, and how it is called: `k.function("f", {.uniform = true})(x)`.
  Callable function(std::string_view name, CallOptions options = {},
                    std::source_location at = std::source_location::current());
  // In the body of a function: its results and `ret`.
  void give(const Passed& first) { set_place(first.at), author::give(*this, first.value); }

  // A variable of the module or of the body; variable.h.
  Variable variable(VariableOptions options, std::source_location at = std::source_location::current()) {
    set_place(at);
    return author::variable(*this, std::move(options));
  }
  using Builder::variable;

  // [a, b, {x, y}], as textures and tensor copies take it: bracket(texture, sampler, vector({x, y})).
  template <std::convertible_to<Operand>... Parts>
  Operand bracket(const Parts&... parts) {
    const Operand all[] = {Operand(parts)...};
    return Builder::bracket(all);
  }

  // Elements of an array as a list, which functions of a family take: wgmma::mma_async(k, ..., k.elements(acc), ...).
  // Refused (index_range) unless they are elements.
  std::vector<Operand> elements(const RegArray& array, const Index& first, const Index& count) {
    std::vector<Operand> list;
    for (std::int64_t i = 0; i < count.value; ++i) list.push_back(array[{first.value + i, first.at}]);
    return list;
  }
  std::vector<Operand> elements(const RegArray& array) { return elements(array, 0, array.count); }
  // The same side by side as one operand, {a, b}.
  Operand vector(const RegArray& array, const Index& first, const Index& count) {
    return Builder::vector(elements(array, first, count));
  }
  using Builder::vector;

  // Special registers that most kernels read; any other is k.special("%clock64").
#define PTX_AXES(name)                                              \
  const Reg name##_x() { return Builder::special("%" #name ".x"); } \
  const Reg name##_y() { return Builder::special("%" #name ".y"); } \
  const Reg name##_z() { return Builder::special("%" #name ".z"); }
  PTX_AXES(tid)
  PTX_AXES(ntid)
  PTX_AXES(ctaid)
  PTX_AXES(nctaid)
#undef PTX_AXES
  const Reg laneid() { return Builder::special("%laneid"); }
  const Reg warpid() { return Builder::special("%warpid"); }

  // printf and assertions (print.h): k.print("x = {}", {x}); k.check(x < 10, "x = {}", {x});
  void print(std::string_view format, std::initializer_list<Operand> values = {}, ir::Guard guard = {},
             std::source_location at = std::source_location::current()) {
    set_place(at);
    author::print(*this, format, values, guard);
  }
  template <class P>
  void check(const P& holds, std::string_view message, std::initializer_list<Operand> values = {},
             std::source_location at = std::source_location::current()) {
    set_place(at);
    author::check(*this, guard(holds), message, values);
  }

 private:
  template <std::size_t Arguments>
  struct Call {
    std::array<Operand, Arguments> operands;
    std::array<Modifier, Arguments> modifiers;
    std::size_t operand_count = 0, modifier_count = 0;
    ir::Guard guard;

    void add(const First& first) {
      if (!first.modifier.text.empty()) return add(first.modifier);
      if (first.guard.reg != ir::no_id) return add(first.guard);
      operands[operand_count++] = first.operand;
    }
    void add(const Modifier& modifier) { modifiers[modifier_count++] = modifier; }
    void add(const ir::Guard& on) { guard = on; }
    template <std::convertible_to<Operand> T>
    void add(const T& value) {
      operands[operand_count++] = Operand(value);
    }
  };

  template <class... Rest>
  Reg write(const char* opcode, const First& first, const Rest&... rest) {
    set_place(first.at);
    Call<1 + sizeof...(Rest)> call;
    call.add(first);
    (call.add(rest), ...);
    emit(mnemonic(opcode, {call.modifiers.data(), call.modifier_count}), {call.operands.data(), call.operand_count},
         call.guard);
    const Operand& made = call.operands[0];
    return call.operand_count && made.is_register() ? Reg{made.builder, made.ir.id, made.type} : Reg{};
  }
  void write(const char* opcode, const std::source_location& at) {
    set_place(at);
    emit(mnemonic(opcode, {}), {}, {});
  }

  // Mnemonics by opcode and modifiers, found without building their text.
  const isa::Mnemonic* mnemonic(const char* opcode, std::span<const Modifier> modifiers);
  struct Known {
    const char* opcode = nullptr;
    std::array<std::uint16_t, 14> modifiers{};
    const isa::Mnemonic* mnemonic = nullptr;
  };
  std::array<Known, 256> known_;
};

// @p, @!p: k.ret(when(p)).
ir::Guard when(const Reg& predicate, std::source_location at = std::source_location::current());
ir::Guard when(const Not& predicate, std::source_location at = std::source_location::current());

// Traces `body` and finishes the kernel.
Built kernel(Options options, const std::function<void(Kernel&)>& body,
             std::source_location at = std::source_location::current());

// Several kernels in one module, with the functions and variables that they share.
class Module {
 public:
  explicit Module(std::string target = "sm_90a", isa::Version version = {}, std::uint8_t address_size = 64,
                  std::source_location at = std::source_location::current());
  ~Module();
  // Each kernel's target and version are the module's. What is returned says what a launch of it needs; the module of
  // it is empty, finish() has that.
  Built kernel(Options options, const std::function<void(Kernel&)>& body,
               std::source_location at = std::source_location::current());
  // Writes what stands beside the kernels: variables, functions, text. Of the options as_written counts.
  void beside(const std::function<void(Kernel&)>& body, Options options = {},
              std::source_location at = std::source_location::current());
  Built finish();  // checks all of it
  const Options& options() const { return options_; }
  const std::shared_ptr<Draft>& draft() const { return draft_; }  // for a Builder of one of its kernels

 private:
  Options options_;
  std::shared_ptr<Draft> draft_;
};

}  // namespace ptx::author
