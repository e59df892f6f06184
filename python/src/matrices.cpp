// The families of matrix instructions: wgmma, mma, matrix, tcgen05. A Convert for every type that they alone
// take, and their rows.
#include <nanobind/stl/string.h>

#include "ptx/author/matrix.h"
#include "ptx/author/tcgen05.h"
#include "python/src/function.h"
#include "python/src/shared.h"

namespace ptx::python {
namespace {

template <std::size_t size>
std::array<std::int64_t, size> numbers(nb::handle value) {
  std::array<std::int64_t, size> made{};
  const nb::object all = nb::steal(PySequence_Tuple(value.ptr()));
  if (!all.is_valid()) PyErr_Clear();
  if (!all.is_valid() || PyTuple_Size(all.ptr()) != static_cast<Py_ssize_t>(size)) throw nb::type_error("");
  for (std::size_t i = 0; i < size; ++i) {
    PyObject* item = PyTuple_GetItem(all.ptr(), static_cast<Py_ssize_t>(i));
    if (!is_index(item) || !nb::try_cast(nb::steal(PyNumber_Index(item)), made[i])) throw nb::type_error("");
  }
  return made;
}

}  // namespace

template <>
struct Convert<author::Shape> {
  static constexpr const char* text = "tuple[int, int, int]";
  static constexpr const char* legal = "(m, n, k), three ints";
  static author::Shape from(nb::handle value, Call&) { return numbers<3>(value); }
};
template <>
struct Convert<author::Extents> {
  static constexpr const char* text = "tuple[int, int]";
  static constexpr const char* legal = "(rows, columns), two ints";
  static author::Extents from(nb::handle value, Call&) { return numbers<2>(value); }
};
template <>
struct Convert<author::Major> {
  static constexpr const char* text = "Literal[\"K\", \"MN\", 0, 1]";
  static constexpr const char* legal = "\"K\" or \"MN\"";
  static author::Major from(nb::handle value, Call& call) { return {mn_major(call.builder, value)}; }
  static std::string show(author::Major value) { return value.mn ? "\"MN\"" : "\"K\""; }
};
template <>
struct Convert<author::Enable> {
  static constexpr const char* text = "Reg | NegPred | bool | int";
  static constexpr const char* legal = "a predicate register, ~register, or a bool";
  static author::Enable from(nb::handle value, Call& call) { return operand(value, call.builder); }
  static std::string show(const author::Enable& value) { return value.value.ir.value ? "True" : "False"; }
};
template <>
struct Convert<author::wgmma::MatrixA> {
  static constexpr const char* text = "Reg | SharedAlloc | Registers";
  static constexpr const char* legal = "a descriptor, a tile of smem.wgmma_tile, or a list of registers";
  static author::wgmma::MatrixA from(nb::handle value, Call& call) {
    if (const author::Shared* tile = as_shared(value)) return *tile;
    if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()) || as_array(value))
      return operands(value, call.builder);
    return operand(value, call.builder);
  }
};
template <>
struct Convert<author::wgmma::MatrixB> {
  static constexpr const char* text = "Reg | SharedAlloc";
  static constexpr const char* legal = "a descriptor, or a tile of smem.wgmma_tile";
  static author::wgmma::MatrixB from(nb::handle value, Call& call) {
    if (const author::Shared* tile = as_shared(value)) return *tile;
    return operand(value, call.builder);
  }
};
template <>
struct Convert<std::string> {
  static constexpr const char* text = "str";
  static constexpr const char* legal = "a str";
  static std::string from(nb::handle value, Call&) {
    if (!PyUnicode_Check(value.ptr())) throw nb::type_error("");
    return text_of(value);
  }
  static std::string show(const std::string& value) { return cat('"', value, '"'); }
};

}  // namespace ptx::python

#define PTX_FAMILY "ptx/author/families/wgmma.def"
#define PTX_SPACE wgmma
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/mma.def"
#define PTX_SPACE mma
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/matrix.def"
#define PTX_SPACE matrix
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/tcgen05.def"
#define PTX_SPACE tcgen05
#include "python/src/family.h"

namespace ptx::python {

std::span<const Family* const> matrix_families() {
  static const Family* const all[] = {&rows::wgmma::family, &rows::mma::family, &rows::matrix::family,
                                      &rows::tcgen05::family};
  return all;
}

// The numbers that descriptors have names for.
void name_constants(nb::module_& m) {
  nb::module_ wgmma = nb::borrow<nb::module_>(m.attr("wgmma")), tcgen05 = nb::borrow<nb::module_>(m.attr("tcgen05"));
  wgmma.attr("MASKED_DESC_B128") = author::wgmma::masked_desc_b128;
  for (const arch::SwizzleInfo& swizzle : arch::swizzle_table)
    if (swizzle.wgmma != arch::no_code) wgmma.attr(cat("SWIZZLE_", swizzle.name).c_str()) = swizzle.wgmma;
  tcgen05.attr("BLACKWELL_MASKED_DESC_B128") = author::tcgen05::masked_desc_b128;
}

}  // namespace ptx::python
