// The C++ face: typed registers, operators, one method a mnemonic, blocks as lambdas.
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
#include <source_location>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ptx/author/builder.h"
#include "ptx/author/control.h"
#include "ptx/author/expression.h"
#include "ptx/author/function.h"
#include "ptx/author/modifiers.h"
#include "ptx/author/print.h"
#include "ptx/author/variable.h"

namespace ptx::author {

// Where a call was written: the first parameter of what appends, converted from the author's first argument, so that
// the default argument is evaluated at the author's line. It costs a pointer.
struct Here {
  Operand operand;
  std::source_location at;

  template <std::convertible_to<Operand> T>
  Here(const T& value, std::source_location at = std::source_location::current()) : operand(value), at(at) {}
};

struct First {
  Operand operand;
  ir::Guard guard;
  Modifier modifier{0, {}};
  std::source_location at;

  First(Modifier modifier, std::source_location at = std::source_location::current()) : modifier(modifier), at(at) {}
  First(ir::Guard guard, std::source_location at = std::source_location::current()) : guard(guard), at(at) {}
  template <std::convertible_to<Operand> T>
  First(const T& value, std::source_location at = std::source_location::current()) : operand(value), at(at) {}
};

// What a call returns: one register, or the fields of a structure.
struct Results {
  std::vector<Reg> all;
  operator Reg() const { return all.at(0); }
  const Reg& operator[](std::size_t i) const { return all.at(i); }
};

// An argument of a call, with the caller's line. A structure is written {a, b}.
struct Passed {
  Argument value;
  std::source_location at;

  template <std::convertible_to<Operand> T>
  Passed(const T& value, std::source_location at = std::source_location::current()) : value{Operand(value)}, at(at) {}
  Passed(std::initializer_list<Operand> fields, std::source_location at = std::source_location::current())
      : value(fields), at(at) {}
  Passed(const Results& results, std::source_location at = std::source_location::current())
      : value(results.all.begin(), results.all.end()), at(at) {}
};

// A function that is called as one of C++ is, in the kernel or function that this thread is writing.
struct Callable : Function {
  Results operator()(std::source_location at = std::source_location::current()) const { return call({}, at); }
  Results operator()(const Passed& a) const { return call({a.value}, a.at); }
  Results operator()(const Passed& a, const Passed& b) const { return call({a.value, b.value}, a.at); }
  template <std::convertible_to<Passed>... Rest>
  Results operator()(const Passed& a, const Passed& b, const Passed& c, const Rest&... rest) const {
    return call({a.value, b.value, c.value, Passed(rest).value...}, a.at);
  }

 private:
  Results call(std::initializer_list<Argument> arguments, const std::source_location& at) const;
};

// What the body of a function gets: the value of each parameter; in.field(i, f) of a structure.
struct Arguments {
  std::vector<std::vector<Operand>> all;
  const Reg operator[](std::size_t i) const { return field(i, 0); }
  const Reg field(std::size_t i, std::size_t f) const {
    const Operand& o = all.at(i).at(f);
    return {o.builder, o.ir.id, o.type};
  }
};

// Order. C++ leaves open which of two arguments, or which side of a +, is computed first; where both append
// instructions, g++ and clang would write different kernels. So of the operands of one operator or one mnemonic at most
// one may be a register that was just made (a temporary Reg); the others have names:
//   const Reg first = k.from(k.ctaid_x(), u32) * 128;
//   const Reg i = first + k.from(k.tid_x(), u32);
// What names a register and appends nothing (array[i], k.tid_x()) returns const Reg and may stand anywhere.
template <class A, class B>
concept BothTemporary = std::same_as<A, Reg> && std::same_as<B, Reg>;
template <class... All>
inline constexpr int temporaries = (0 + ... + static_cast<int>(std::same_as<All, Reg>));

class Kernel : public Builder {
 public:
  using Builder::Builder;

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
  // In the body of a function: its results and `ret`.
  void give(const Passed& first) { set_place(first.at), author::give(*this, first.value); }

  // A variable of the module or of the body; variable.h.
  Variable variable(VariableOptions options, std::source_location at = std::source_location::current()) {
    set_place(at);
    return author::variable(*this, std::move(options));
  }
  using Builder::variable;

  // Addresses: [base + offset].
  Address at(const Operand& base, std::int64_t offset = 0) { return address(base, offset); }
  Address at(const Operand& base, const Reg& offset) { return address(base, offset); }
  // [a, b, {x, y}], as textures and tensor copies take it: bracket(texture, sampler, vector({x, y})).
  template <std::convertible_to<Operand>... Parts>
  Operand bracket(const Parts&... parts) {
    const Operand all[] = {Operand(parts)...};
    return Builder::bracket(all);
  }

  // Elements of an array that lie side by side, {a, b}; refused (index_range) unless first + count <= array.count.
  Operand vector(const RegArray& array, std::uint32_t first, std::uint32_t count) {
    if (count != 0) array[first + count - 1];
    return Builder::vector(RegArray{array.builder, array.first + first, count, array.type});
  }
  using Builder::vector;
  // The same as a list, as functions of a family take registers: wgmma::mma_async(k, ..., k.elements(acc), ...).
  std::vector<Operand> elements(const RegArray& array, std::uint32_t first, std::uint32_t count) {
    std::vector<Operand> list;
    for (std::uint32_t i = 0; i < count; ++i) list.push_back(array[first + i]);
    return list;
  }
  std::vector<Operand> elements(const RegArray& array) { return elements(array, 0, array.count); }

  const Reg tid_x() { return special("%tid.x"); }
  const Reg ctaid_x() { return special("%ctaid.x"); }

  // Pointer parameters: declared, loaded, made global.
  template <std::size_t N>
  std::array<Reg, N> pointers(const char* const (&names)[N],
                              std::source_location at = std::source_location::current()) {
    set_place(at);
    std::array<Reg, N> made;
    for (const char* name : names) add_pointer(name);
    for (std::size_t i = 0; i < N; ++i) {
      const std::string one[] = {names[i]};
      made[i] = global_pointers(one).front();
    }
    return made;
  }

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

  // Blocks.
  template <class P>
  void if_(const P& predicate, const std::function<void()>& then, const std::function<void()>& otherwise = {},
           std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_if(*this, predicate);
    then();
    end_if(*this);
    if (!otherwise) return;
    begin_else(*this);
    otherwise();
    end_else(*this);
  }
  void loop(std::string_view label, ir::Guard predicate, const std::function<void()>& body,
            std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_loop(*this, label, predicate);
    body();
    end_loop(*this);
  }
  // Blocks as compilers write them (control.h): no branch and no label more than is needed. `uni` in front: bra.uni.
  template <class P>
  void when(const P& predicate, const std::function<void()>& then,
            std::source_location at = std::source_location::current()) {
    set_place(at);
    write_when(predicate, false, then);
  }
  template <class P>
  void when(Modifier uniform, const P& predicate, const std::function<void()>& then,
            std::source_location at = std::source_location::current()) {
    set_place(at);
    write_when(predicate, is_uniform(uniform), then);
  }
  void otherwise(const std::function<void()>& body, std::source_location at = std::source_location::current()) {
    set_place(at);
    write_otherwise(false, body);
  }
  void otherwise(Modifier uniform, const std::function<void()>& body,
                 std::source_location at = std::source_location::current()) {
    set_place(at);
    write_otherwise(is_uniform(uniform), body);
  }
  // In the block, loop_while says when it runs again.
  void loop(std::string_view label, const std::function<void()>& body,
            std::source_location at = std::source_location::current()) {
    loop(label, ir::Guard{}, body, at);
  }
  void loop_while(std::source_location at = std::source_location::current()) {
    set_place(at);
    author::loop_while(*this, {});
  }
  template <class P>
  void loop_while(const P& predicate, std::source_location at = std::source_location::current()) {
    set_place(at);
    author::loop_while(*this, guard(predicate));
  }
  template <class P>
  void loop_while(Modifier uniform, const P& predicate, std::source_location at = std::source_location::current()) {
    set_place(at);
    author::loop_while(*this, guard(predicate), is_uniform(uniform));
  }
  // brx.idx: in the block, one case_ a target of the table.
  void switch_(const Reg& index, const SwitchOptions& options, const std::function<void()>& cases,
               std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_switch(*this, index, options);
    cases();
    end_switch(*this);
  }
  void switch_(const Reg& index, const std::function<void()>& cases,
               std::source_location at = std::source_location::current()) {
    switch_(index, SwitchOptions{}, cases, at);
  }
  void case_(std::initializer_list<std::uint32_t> indices, const CaseOptions& options,
             const std::function<void()>& body, std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_case(*this, {indices.begin(), indices.size()}, options);
    body();
    end_case(*this);
  }
  void case_(std::initializer_list<std::uint32_t> indices, const std::function<void()>& body,
             std::source_location at = std::source_location::current()) {
    case_(indices, CaseOptions{}, body, at);
  }
  void range(const Operand& start, const Operand& stop, const Operand& step,
             const std::function<void(const Reg&)>& body, std::source_location at = std::source_location::current()) {
    set_place(at);
    const Reg variable = begin_range(*this, start, stop, step);
    body(variable);
    end_range(*this);
  }
  void scope(const std::function<void()>& body, std::source_location at = std::source_location::current()) {
    set_place(at);
    open_scope();
    body();
    close_scope();
  }

 private:
  bool is_uniform(Modifier modifier) const;  // refused (bad_argument) if it is another than uni
  template <class P>
  void write_when(const P& predicate, bool uniform, const std::function<void()>& then) {
    begin_when(*this, guard(predicate), uniform);
    then();
    end_when(*this);
  }
  void write_otherwise(bool uniform, const std::function<void()>& body) {
    begin_otherwise(*this, uniform);
    body();
    end_otherwise(*this);
  }

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
inline ir::Guard when(const Reg& predicate) { return predicate.builder->guard(predicate); }
inline ir::Guard when(const Not& predicate) { return predicate.reg.builder->guard(predicate); }

// Traces `body` and finishes the kernel.
Built kernel(Options options, const std::function<void(Kernel&)>& body,
             std::source_location at = std::source_location::current());

// Several kernels in one module, with the functions and variables that they share.
class Module {
 public:
  explicit Module(std::string target = "sm_90a", isa::Version version = {}, std::uint8_t address_size = 64);
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

// Operators, with the author's line.
inline namespace operators {
inline void put(const Reg& a, const Here& b) { a.builder->set_place(b.at); }
#define PTX_OPERATOR(symbol, result)                                                      \
  inline Reg operator symbol(const Reg& a, const Here& b) { return put(a, b), result; }   \
  template <class A, class B>                                                             \
    requires BothTemporary<A, B>                                                          \
  Reg operator symbol(A&& a, B&&) {                                                       \
    static_assert(sizeof(A) == 0,                                                         \
                  "both sides of the operator append instructions, and C++ does not say " \
                  "which is first: name one");                                            \
    return a;                                                                             \
  }
PTX_OPERATOR(+, add(a, b.operand))
PTX_OPERATOR(-, sub(a, b.operand))
PTX_OPERATOR(*, mul(a, b.operand))
PTX_OPERATOR(<<, shl(a, b.operand))
PTX_OPERATOR(>>, shr(a, b.operand))
PTX_OPERATOR(&, and_(a, b.operand))
PTX_OPERATOR(|, or_(a, b.operand))
PTX_OPERATOR(^, xor_(a, b.operand))
PTX_OPERATOR(<, compare(Compare::lt, a, b.operand))
PTX_OPERATOR(<=, compare(Compare::le, a, b.operand))
PTX_OPERATOR(>, compare(Compare::gt, a, b.operand))
PTX_OPERATOR(>=, compare(Compare::ge, a, b.operand))
PTX_OPERATOR(==, compare(Compare::eq, a, b.operand))
PTX_OPERATOR(!=, compare(Compare::ne, a, b.operand))
#undef PTX_OPERATOR
inline const Reg& operator+=(const Reg& a, const Here& b) { return put(a, b), assign('+', a, b.operand), a; }
inline const Reg& operator-=(const Reg& a, const Here& b) { return put(a, b), assign('-', a, b.operand), a; }
inline const Reg& operator*=(const Reg& a, const Here& b) { return put(a, b), assign('*', a, b.operand), a; }
inline const Reg& operator<<=(const Reg& a, const Here& b) { return put(a, b), assign('<', a, b.operand), a; }
inline const Reg& operator>>=(const Reg& a, const Here& b) { return put(a, b), assign('>', a, b.operand), a; }
inline const Reg& operator&=(const Reg& a, const Here& b) { return put(a, b), assign('&', a, b.operand), a; }
inline const Reg& operator|=(const Reg& a, const Here& b) { return put(a, b), assign('|', a, b.operand), a; }
inline const Reg& operator^=(const Reg& a, const Here& b) { return put(a, b), assign('^', a, b.operand), a; }
template <class T>
concept Number = std::integral<T> || std::floating_point<T>;
inline Reg operator+(Number auto a, const Reg& b) { return add(a, b); }
inline Reg operator-(Number auto a, const Reg& b) { return sub(a, b); }
inline Reg operator*(Number auto a, const Reg& b) { return mul(a, b); }
inline Reg operator-(const Reg& a) { return neg(a); }
inline Reg operator~(const Reg& a) { return not_(a); }
#define PTX_NO_OPERATOR(symbol)                                                           \
  template <class T>                                                                      \
  void operator symbol(const Reg&, const T&) {                                            \
    static_assert(sizeof(T) == 0, "registers have no " #symbol                            \
                                  ", as PTX has several divisions: k.div(rn, f32, ...), " \
                                  "k.rem(u32, ...)");                                     \
  }
PTX_NO_OPERATOR(/)
PTX_NO_OPERATOR(%)
#undef PTX_NO_OPERATOR
inline Not operator!(const Reg& predicate) { return Not{predicate}; }
}  // namespace operators

}  // namespace ptx::author
