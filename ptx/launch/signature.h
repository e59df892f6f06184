// What a kernel's arguments are, said once, and how they become a launch record. A Signature is for those who write
// C++; the functions below it are the parts, which the Python face uses as well. What is at fault is named in the
// message.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/expected.h"
#include "ptx/launch/record.h"

namespace ptx::launch {

// One argument of a call, in the order in which calls give them. Tensors lie in row-major order; a dimension is a size
// or a name, which stands for one size in all arguments of a call.
//   tensor("x", Element::f32, {"rows", 512})   output("y", Element::f32, {"rows", 512})   scalar("n", "u32")
struct Argument {
  enum class Kind : std::uint8_t { tensor, scalar };
  Kind kind = Kind::tensor;
  TensorArgument tensor;
  std::string type{};                    // of a scalar, as PTX names it
  std::vector<TensorMapRecipe> boxes{};  // of a tensor whose map the kernel takes: one (recipe.tensor is not read)

  const std::string& name() const { return tensor.name; }
  // With a tensor map that cuts it into these boxes: tensor(...).boxed({.rank = 2, .box = {64, 128}}).
  Argument boxed(TensorMapRecipe recipe) const {
    Argument made = *this;
    made.boxes = {recipe};
    return made;
  }
};

// A size, or the name of one: 512, "rows".
struct Size : Dimension {
  Size(std::integral auto size) : Dimension{static_cast<std::int64_t>(size), {}} {}
  Size(const char* symbol) : Dimension{-1, symbol} {}
};

Argument tensor(std::string name, Element element, std::initializer_list<Size> shape);
Argument output(std::string name, Element element, std::initializer_list<Size> shape);  // behind all inputs
Argument scalar(std::string name, std::string type);

using Signature = std::vector<Argument>;

// The shape of a launch.
struct Shape {
  Dim3 grid{}, block{}, cluster{};
  Attributes attributes{};
  std::string assembler{};  // as Record::assembler
};

// A parameter of an .entry, as its text declares it.
struct Declared {
  std::string name;
  std::uint32_t bytes = 0, alignment = 0;
};

// The record of an .entry with these parameters. Each parameter is an argument of its name, or the map of one
// (`name`_tma_desc); refused (parameter_layout) where one is neither, has another size, or an argument is no parameter.
// Entry, target and dynamic shared memory are the caller's to set.
Expected<Record> make_record(const Signature& signature, const std::vector<Declared>& parameters, const Shape& shape);

// --- The parts ---

Expected<Element> element_named(std::string_view name);       // "f32", "e4m3"
Expected<std::uint32_t> scalar_bytes(std::string_view type);  // of a parameter of this type: 4 of "u32", 1 of "pred"

// Append an argument, and the kernel parameter that carries it (of a tensor only with `parameter`).
void add_tensor(Record& record, TensorArgument tensor, bool parameter = true);
Expected<Done> add_scalar(Record& record, std::string name, std::string type, std::uint32_t alignment = 0);
// The map of the tensor of this name, which then has to start at a multiple of 16 bytes.
Expected<Done> add_tensor_map(Record& record, std::string_view tensor, TensorMapRecipe recipe);

// That many launches in one: side by side along an axis (0: x) of the grid, which a single launch has to leave 1 long.
// Each tensor gets the copies as its first dimension.
Expected<Done> repeat(Record& record, std::uint32_t copies, int axis);

}  // namespace ptx::launch
