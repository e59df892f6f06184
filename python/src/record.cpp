// Launch records as Python values: the face appends the arguments in the order of the .entry's parameters.
#include "ptx/launch/record.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <span>

#include "ptx/base/text.h"
#include "ptx/launch/serial.h"
#include "ptx/launch/signature.h"
#include "python/src/built.h"
#include "python/src/launch.h"

namespace ptx::python {
namespace {

using Recipe = launch::TensorMapRecipe;

void add_tensor(launch::Record& record, const std::string& name, const std::string& dtype, const nb::sequence& shape,
                bool output, bool parameter, bool column_major, bool untyped, bool strided, std::uint32_t alignment,
                bool written) {
  launch::TensorArgument tensor;
  tensor.name = name;
  tensor.element = value_or_raise(launch::element_named(dtype));
  tensor.output = output;
  tensor.column_major = column_major;
  tensor.untyped = untyped;
  tensor.strided = strided;
  tensor.alignment = alignment;
  tensor.written = written;
  for (const nb::handle size : shape)
    if (nb::isinstance<nb::str>(size))
      tensor.shape.push_back({-1, nb::cast<std::string>(size)});
    else
      tensor.shape.push_back({nb::cast<std::int64_t>(size), {}});
  launch::add_tensor(record, std::move(tensor), parameter);
}

// Sizes of a box or of strides, innermost first.
std::array<std::uint32_t, 5> five(const char* what, const std::vector<std::uint32_t>& given, std::size_t rank) {
  std::array<std::uint32_t, 5> made{1, 1, 1, 1, 1};
  if (given.size() != rank)
    throw nb::value_error(cat(what, " has ", given.size(), " entries, the tensor map ", rank).c_str());
  std::copy(given.begin(), given.end(), made.begin());
  return made;
}

// The value of an argument among the names of an enumeration, in its order.
template <class Enum>
Enum choice(const char* what, const std::string& given, std::span<const std::string_view> names) {
  int at = 0;
  for (const std::string_view name : names) {
    if (name == given) return static_cast<Enum>(at);
    ++at;
  }
  std::string legal;
  for (const std::string_view name : names) legal += cat(legal.empty() ? "" : ", ", name);
  throw nb::value_error(cat(what, " = ", given, "; legal: ", legal).c_str());
}

nb::dict tensor_map_names() {
  const auto list = [](auto&& names) {
    nb::list made;
    for (const std::string_view name : names) made.append(name);
    return nb::tuple(made);
  };
  nb::dict made;
  made["tma_interleave"] = list(arch::interleave_names);
  made["tma_fill"] = list(Recipe::fill_names);
  made["tma_l2"] = list(Recipe::promotion_names);
  return made;
}

using Corners = std::tuple<std::vector<std::int32_t>, std::vector<std::int32_t>, std::uint32_t, std::uint32_t>;

launch::TensorMapRecipe::Im2col im2col_of(const Corners& given, std::uint32_t rank) {
  const auto& [lower, upper, channels, pixels] = given;
  launch::TensorMapRecipe::Im2col made;
  if (rank < 3 || lower.size() != rank - 2 || upper.size() != rank - 2)
    throw nb::value_error(cat("tma_im2col: a tensor of rank ", rank, " needs rank 3 to 5 and corners of ",
                              rank < 3 ? 0 : rank - 2, " offsets, not ", lower.size(), " and ", upper.size())
                              .c_str());
  if (channels == 0) throw nb::value_error("tma_im2col: 1 to 256 channels, not 0");
  std::copy(lower.begin(), lower.end(), made.lower.begin());
  std::copy(upper.begin(), upper.end(), made.upper.begin());
  made.channels = channels, made.pixels = pixels;
  return made;
}

void add_tensor_map(launch::Record& record, const std::string& tensor, const std::vector<std::uint32_t>& box,
                    const std::string& swizzle, bool column_blocks, bool padding,
                    const std::optional<std::vector<std::uint32_t>>& element_strides,
                    const std::optional<std::string>& dtype, const std::string& interleave, const std::string& fill,
                    const std::string& promotion, bool spread, const std::optional<Corners>& im2col) {
  Recipe recipe;
  if (box.size() > recipe.box.size()) throw nb::value_error("a tensor map has rank 1 to 5");
  recipe.rank = static_cast<std::uint32_t>(box.size());
  recipe.box = five("tma_box", box, box.size());
  if (element_strides) recipe.element_strides = five("tma_element_strides", *element_strides, box.size());
  if (dtype) recipe.element = value_or_raise(launch::element_named(*dtype));
  const auto pattern = arch::swizzle_named(swizzle);
  if (!pattern) throw nb::value_error(cat("tma_swizzle = ", swizzle, "; legal: ", arch::swizzle_names()).c_str());
  recipe.swizzle = *pattern;
  recipe.interleave = choice<launch::Interleave>("tma_interleave", interleave, arch::interleave_names);
  recipe.fill = choice<Recipe::Fill>("tma_fill", fill, Recipe::fill_names);
  recipe.promotion = choice<Recipe::Promotion>("tma_l2", promotion, Recipe::promotion_names);
  recipe.spread = spread;
  if (im2col) recipe.im2col = im2col_of(*im2col, recipe.rank);
  recipe.column_blocks = column_blocks;
  recipe.padding = padding;
  value_or_raise(launch::add_tensor_map(record, tensor, recipe));
}

// Whether a tensor argument of this element, or of bits, takes tensors of another.
bool element_takes(const std::string& wanted, bool untyped, const std::string& given) {
  launch::TensorArgument argument;
  argument.element = value_or_raise(launch::element_named(wanted));
  argument.untyped = untyped;
  return launch::takes(argument, value_or_raise(launch::element_named(given)));
}

// (name, element, dimensions, whether it is an output) of each tensor; a dimension is a size or the name of a symbol.
nb::list tensors_of(const launch::Record& record) {
  nb::list rows;
  for (const launch::TensorArgument& tensor : record.tensors) {
    nb::list shape;
    for (const launch::Dimension& dimension : tensor.shape)
      if (dimension.size < 0)
        shape.append(dimension.symbol);
      else
        shape.append(dimension.size);
    rows.append(nb::make_tuple(tensor.name, arch::name(tensor.element), nb::tuple(shape), tensor.output));
  }
  return rows;
}

}  // namespace

using Piece = std::tuple<std::string, std::string, std::uint64_t, std::uint64_t, std::string, std::uint32_t>;

std::vector<Place> places(const Lines& lines) {
  std::vector<Place> list;
  for (const auto& [file, line] : lines) list.push_back({Name(file), line, 0});
  return list;
}

void init_record(nb::module_& m) {
  m.def("element_takes", &element_takes, nb::arg("wanted"), nb::arg("untyped"), nb::arg("given"));
  m.def("tensor_map_names", &tensor_map_names, "Names of the values of a Tile's tma_interleave, tma_fill and tma_l2");
  using launch::Record;
  nb::class_<Record>(m, "Record",
                     "What a launch is: shape of the grid, arguments in the order of the .entry's parameters")
      .def(
          "__init__",
          [](Record* self, std::string entry, std::string target, Three grid, Three block, Three cluster,
             std::uint32_t dynamic_shared, std::string assembler) {
            new (self) Record;
            self->assembler = std::move(assembler);
            self->entry = std::move(entry);
            self->target = std::move(target);
            self->grid = three(grid), self->block = three(block), self->cluster = three(cluster);
            self->dynamic_shared = dynamic_shared;
          },
          nb::arg("entry"), nb::arg("target"), nb::arg("grid"), nb::arg("block"), nb::arg("cluster") = Three{1, 1, 1},
          nb::arg("dynamic_shared") = 0, nb::arg("assembler") = "")
      .def("tensor", &add_tensor, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), nb::arg("output") = false,
           nb::arg("parameter") = true, nb::arg("column_major") = false, nb::arg("untyped") = false,
           nb::arg("strided") = false, nb::arg("alignment") = 0, nb::arg("written") = true,
           "Inputs first, then outputs; dimensions are sizes or names of symbols. Adds the pointer's parameter unless "
           "told "
           "otherwise")
      .def(
          "attributes",
          [](Record& self, bool cooperative, bool dependent, std::int32_t priority, std::int32_t shared_carveout) {
            self.attributes = {cooperative, dependent, priority, shared_carveout};
          },
          nb::arg("cooperative") = false, nb::arg("dependent") = false, nb::arg("priority") = 0,
          nb::arg("shared_carveout") = -1)
      .def(
          "scalar",
          [](Record& self, const std::string& name, const std::string& type, std::uint32_t alignment) {
            value_or_raise(launch::add_scalar(self, name, type, alignment));
          },
          nb::arg("name"), nb::arg("type"), nb::arg("alignment") = 0)
      .def("tensor_map", &add_tensor_map, nb::arg("tensor"), nb::arg("box"), nb::arg("swizzle") = "NONE",
           nb::arg("column_blocks") = false, nb::arg("padding") = false, nb::arg("element_strides") = nb::none(),
           nb::arg("dtype") = nb::none(), nb::arg("interleave") = "none", nb::arg("fill") = "zero",
           nb::arg("promotion") = "128B", nb::arg("spread") = false, nb::arg("im2col") = nb::none(),
           "A map of a tensor, by value: box and element strides innermost dimension first. im2col: lower and upper "
           "corner, innermost spatial dimension first, channels, pixels")
      .def(
          "lines", [](Record& self, const Lines& lines) { self.lines = places(lines); }, nb::arg("lines"),
          "The author's (file, line) of each line of the PTX text; entry 0 is not used")
      .def(
          "allocated",
          [](Record& self, const std::vector<Piece>& pieces) {
            self.allocated.clear();
            for (const auto& [name, array, offset, bytes, file, line] : pieces)
              self.allocated.push_back({Name(name), Name(array), offset, bytes, {Name(file), line, 0}});
          },
          nb::arg("pieces"), "The author's shared memory, as Module.allocated has it")
      .def(
          "registers",
          [](Record& self, const RegistersOfModule* made) {
            self.registers = made ? std::make_shared<const std::vector<MadeRegisters>>(rows_of(*made->all)) : nullptr;
          },
          nb::arg("made").none(), "The author's registers, as Module.registers has them")
      .def(
          "repeat",
          [](Record& self, std::uint32_t copies, int axis) { value_or_raise(launch::repeat(self, copies, axis)); },
          nb::arg("copies"), nb::arg("axis"),
          "That many grids in one launch, side by side along an axis of the grid; tensors have them as first dimension")
      .def(
          "to_bytes",
          [](const Record& self) {
            const std::string bytes = launch::serialise(self);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "What programs of other frameworks carry; the same record gives the same bytes in every process")
      .def_static(
          "from_bytes",
          [](const nb::bytes& bytes) { return value_or_raise(launch::deserialise({bytes.c_str(), bytes.size()})); },
          nb::arg("bytes"))
      .def(
          "takes",
          [](const Record& self, std::size_t index, const std::string& element) {
            return !element.empty() &&
                   launch::takes(self.tensors.at(index), value_or_raise(launch::element_named(element)));
          },
          nb::arg("index"), nb::arg("element"), "Whether tensor `index` may have elements of this type")
      .def_ro("entry", &Record::entry)
      .def_ro("target", &Record::target)
      .def_ro("dynamic_shared", &Record::dynamic_shared)
      .def_prop_rw(
          "grid", [](const Record& self) { return Three(self.grid.x, self.grid.y, self.grid.z); },
          [](Record& self, Three grid) { self.grid = three(grid); })
      .def_prop_ro("tensors", &tensors_of)
      .def_prop_ro("scalars",
                   [](const Record& self) {
                     nb::list rows;
                     for (const auto& scalar : self.scalars) rows.append(nb::make_tuple(scalar.name, scalar.type));
                     return rows;
                   })
      .def_prop_ro("parameters", [](const Record& self) {
        nb::list rows;
        for (const auto& row : self.parameters) rows.append(nb::make_tuple(row.name, row.offset, row.size));
        return rows;
      });
}

}  // namespace ptx::python
