// A kernel that C++ runs: its text, what its arguments are, the shape of its launch.
//
//   ptx::Program axpy(built, {ptx::tensor("x", ptx::Element::f32, {"n"}), ptx::tensor("y", ptx::Element::f32, {"n"}),
//                             ptx::scalar("a", "f32")},
//                     {.grid = {4}, .block = {128}});
//   axpy.run({x, y, 2.0});                     // std::vector, std::span: host memory, so the simulator runs it
//   axpy.run({dx, dy, 2.0}, {.stream = s});    // DLTensor on a GPU: the driver of that GPU
//
// What cannot run throws Refused, with every reason, the argument's name and the line of the call. Nothing here copies
// tensors or waits for a GPU.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ptx/author/builder.h"
#include "ptx/interop/plan.h"
#include "ptx/launch/signature.h"

namespace ptx::interop {

// The element type of a C++ type. Types that C++ has not (f16, bf16, e4m3) are given by name: view(Element::bf16, ...).
template <class T>
constexpr std::optional<launch::Element> element_of() {
  using launch::Element;
  if constexpr (std::same_as<T, float>) return Element::f32;
  if constexpr (std::same_as<T, double>) return Element::f64;
  if constexpr (std::same_as<T, bool>) return Element::boolean;
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    constexpr Element is_signed[] = {Element::s8, Element::s16, Element::s32, Element::s64};
    constexpr Element is_unsigned[] = {Element::u8, Element::u16, Element::u32, Element::u64};
    constexpr int log = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::signed_integral<T> ? is_signed[log] : is_unsigned[log];
  }
  return std::nullopt;
}

class Value;
// Host memory as a tensor of these sizes, row-major; refused unless it has as many elements.
template <std::ranges::contiguous_range R>
Value view(R&& memory, std::vector<std::int64_t> shape, std::source_location at = std::source_location::current());
// The same for elements of a type that C++ does not have; refused unless it has as many bytes.
template <std::ranges::contiguous_range R>
Value view(launch::Element element, R&& memory, std::vector<std::int64_t> shape,
           std::source_location at = std::source_location::current());

// Memory of a GPU, as cudaMalloc gives it, as a tensor of these sizes, row-major. Nothing tells how large it is.
Value device_view(launch::Element element, const void* memory, std::vector<std::int64_t> shape, std::int32_t gpu = 0);
template <class T>
  requires(element_of<std::remove_cv_t<T>>().has_value())
Value device_view(T* memory, std::vector<std::int64_t> shape, std::int32_t gpu = 0);

// One argument of a run: a tensor, whose memory stays the caller's, or a scalar.
class Value {
 public:
  template <std::ranges::contiguous_range R>
    requires(element_of<std::remove_cv_t<std::ranges::range_value_t<R>>>().has_value())
  Value(R&& memory)  // of one dimension
      : Value(*element_of<std::remove_cv_t<std::ranges::range_value_t<R>>>(), std::ranges::data(memory),
              {static_cast<std::int64_t>(std::ranges::size(memory))}) {
    constant_ = std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
  }
  Value(launch::Element element, const void* memory, std::vector<std::int64_t> shape, DLDevice device = {});
  Value(const DLTensor& tensor);
  Value(std::integral auto value) { set(value); }
  Value(std::floating_point auto value) : what_(static_cast<double>(value)) {}

  const DLTensor* tensor() const { return std::get_if<DLTensor>(&what_); }
  bool constant() const { return constant_; }  // memory that is const, which no kernel writes
  // Its bits as this parameter takes them. wrong_scalar where they do not fit.
  Expected<std::uint64_t> bits(const launch::ScalarArgument& argument) const;

 private:
  void set(std::signed_integral auto value) { what_ = static_cast<std::int64_t>(value); }
  void set(std::unsigned_integral auto value) { what_ = static_cast<std::uint64_t>(value); }

  template <std::ranges::contiguous_range R>
  friend Value view(launch::Element element, R&& memory, std::vector<std::int64_t> shape, std::source_location at);
  template <class T>
    requires(element_of<std::remove_cv_t<T>>().has_value())
  friend Value device_view(T* memory, std::vector<std::int64_t> shape, std::int32_t gpu);

  std::variant<std::int64_t, std::uint64_t, double, DLTensor> what_;
  std::shared_ptr<const std::vector<std::int64_t>> shape_;  // of the tensor, where it is ours
  bool constant_ = false;
};

// A pointer is taken as it is.
inline Value view(launch::Element element, const void* memory, std::vector<std::int64_t> shape) {
  return Value(element, memory, std::move(shape));
}

// How one run differs from the next.
struct Run {
  std::optional<launch::Dim3> grid{};  // another than the shape's
  void* stream = nullptr;              // CUstream
  launch::Executor* on = nullptr;      // instead of the one that the tensors' device has: a simulator with options
};

// A kernel as text: what a Program is made of.
struct Entry {
  std::string text;
  std::string name, target;
  std::vector<launch::Declared> parameters;
  std::uint32_t dynamic_shared = 0;  // bytes
  std::vector<Place> lines;          // of the author, as launch::Record has them
  std::vector<Allocated> allocated{};

  Entry(const author::Built& built);
  // One kernel of a module of several: what author::Module::finish() and author::Module::kernel() returned.
  Entry(const author::Built& module, std::string_view entry, const author::Built& kernel,
        std::source_location at = std::source_location::current());
  // Takes any PTX that passes check: its .entry of this name, or its only one. `file` is what messages call the text.
  Entry(std::string ptx, std::string_view entry, std::string_view file = "ptx",
        std::source_location at = std::source_location::current());
};

class Program {
 public:
  // Refused where signature and kernel do not fit each other: see launch::make_record.
  Program(Entry entry, const launch::Signature& signature, const launch::Shape& shape,
          std::source_location at = std::source_location::current());
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  // One value for each argument of the signature, in its order. Several threads may run one Program.
  void run(std::initializer_list<Value> values, const Run& how = {},
           std::source_location at = std::source_location::current()) {
    run({values.begin(), values.size()}, how, at);
  }
  void run(std::span<const Value> values, const Run& how = {},
           std::source_location at = std::source_location::current());

  const std::string& text() const;
  const launch::Record& record() const;

 private:
  struct State;
  void launch(std::span<const Value> values, const Run& how);
  std::unique_ptr<State> state_;
};

[[noreturn]] void refuse_size(std::size_t elements, std::span<const std::int64_t> shape,
                              const std::source_location& at);

template <std::ranges::contiguous_range R>
Value view(launch::Element element, R&& memory, std::vector<std::int64_t> shape, std::source_location at) {
  std::uint64_t elements = 1;
  bool fits = true;  // no size is negative, and their product is a number
  for (const std::int64_t size : shape)
    fits = fits && size >= 0 && !__builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements);
  const std::uint64_t bytes = std::ranges::size(memory) * sizeof(std::ranges::range_value_t<R>);
  if (!fits || bytes != arch::bytes(element, elements)) refuse_size(bytes * 8 / arch::info(element).bits, shape, at);
  Value made(element, std::ranges::data(memory), std::move(shape));
  made.constant_ = std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
  return made;
}

template <std::ranges::contiguous_range R>
Value view(R&& memory, std::vector<std::int64_t> shape, std::source_location at) {
  constexpr auto element = element_of<std::remove_cv_t<std::ranges::range_value_t<R>>>();
  static_assert(element.has_value(), "no element type of tensors is this C++ type: view(Element::..., memory, shape)");
  return view(*element, std::forward<R>(memory), std::move(shape), at);
}

template <class T>
  requires(element_of<std::remove_cv_t<T>>().has_value())
Value device_view(T* memory, std::vector<std::int64_t> shape, std::int32_t gpu) {
  Value made = device_view(*element_of<std::remove_cv_t<T>>(), memory, std::move(shape), gpu);
  made.constant_ = std::is_const_v<T>;
  return made;
}

}  // namespace ptx::interop
