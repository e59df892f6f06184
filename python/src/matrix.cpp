// wgmma, mma, ldmatrix, stmatrix: pyptx.ptx turns Python values into the library's.
#include "ptx/author/matrix.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>

#include "python/src/shared.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

using author::Builder;
using Shape = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

std::string type_text(nb::handle type) {
  if (const PtxType* known = as_type(type)) return known->name;
  throw nb::type_error(cat("a type is expected, for example pyptx.types.f32, not ", shown(type)).c_str());
}

std::array<std::uint32_t, 3> shape_of(const Shape& shape) {
  return {std::get<0>(shape), std::get<1>(shape), std::get<2>(shape)};
}

author::Reg make_descriptor(nb::handle start, std::int64_t leading, std::int64_t stride, int swizzle, int base_offset,
                            std::int64_t offset) {
  Builder& builder = active();
  const std::uint64_t bits = author::wgmma::descriptor_bits(builder, leading, stride, swizzle, base_offset);
  return author::wgmma::make_descriptor(builder, operand(start, builder), bits, offset);
}

void mma_async(const Shape& shape, nb::handle dtype_d, nb::handle dtype_a, nb::handle dtype_b, nb::handle d,
               nb::handle a, nb::handle b, nb::handle scale_d, int scale_a, int scale_b, int trans_a, int trans_b,
               std::int64_t a_offset, std::int64_t b_offset, bool saturate, nb::handle predicate) {
  Builder& builder = active();
  author::wgmma::Mma mma;
  mma.shape = shape_of(shape);
  mma.d_type = type_text(dtype_d), mma.a_type = type_text(dtype_a), mma.b_type = type_text(dtype_b);
  mma.d = operands(d, builder);
  if (const author::Shared* tile = as_shared(a))
    mma.a = *tile;
  else if (PyList_Check(a.ptr()) || as_array(a))
    mma.a = operands(a, builder);
  else
    mma.a = operand(a, builder);
  if (const author::Shared* tile = as_shared(b))
    mma.b = *tile;
  else
    mma.b = operand(b, builder);
  mma.scale_d = operand(scale_d, builder);
  mma.scale_a = scale_a, mma.scale_b = scale_b, mma.trans_a = trans_a, mma.trans_b = trans_b;
  mma.a_offset = a_offset, mma.b_offset = b_offset, mma.saturate = saturate;
  mma.guard = guard(predicate, builder);
  author::wgmma::mma_async(builder, mma);
}

void init_wgmma(nb::module_ m) {
  namespace wgmma = author::wgmma;
  m.attr("MASKED_DESC_B128") = wgmma::masked_desc_b128;
  for (const arch::SwizzleInfo& swizzle : arch::swizzle_table)
    if (swizzle.wgmma != arch::no_code) m.attr(cat("SWIZZLE_", swizzle.name).c_str()) = swizzle.wgmma;
  m.def("mma_async", mma_async, nb::kw_only(), nb::arg("shape"), nb::arg("dtype_d"), nb::arg("dtype_a"),
        nb::arg("dtype_b"), nb::arg("d"), nb::arg("a"), nb::arg("b"), nb::arg("scale_d") = false,
        nb::arg("scale_a") = 1, nb::arg("scale_b") = 1, nb::arg("trans_a") = 0, nb::arg("trans_b") = 0,
        nb::arg("a_k_offset") = 0, nb::arg("b_k_offset") = 0, nb::arg("satfinite") = false,
        nb::arg("pred") = nb::none());
  m.def("fence", [] { wgmma::fence(active()); });
  m.def("commit_group", [] { wgmma::commit_group(active()); });
  m.def("wait_group", [](std::int64_t pending) { wgmma::wait_group(active(), pending); }, nb::arg("n"));
  m.def(
      "make_descriptor",
      [](nb::handle start, std::int64_t leading, std::int64_t stride, int swizzle, int base_offset,
         std::int64_t offset) { return make(make_descriptor(start, leading, stride, swizzle, base_offset, offset)); },
      nb::arg("smem_base"), nb::kw_only(), nb::arg("leading_byte_offset"), nb::arg("stride_byte_offset"),
      nb::arg("swizzle") = 0, nb::arg("base_offset") = 0, nb::arg("addr_byte_offset") = 0);
  m.def(
      "auto_descriptor",
      [](nb::handle start, nb::handle type, const std::pair<std::int64_t, std::int64_t>& shape, nb::handle major) {
        Builder& builder = active();
        const auto layout =
            author::tile_layout(builder, type_argument(type), shape.first, shape.second, mn_major(builder, major));
        return make(make_descriptor(start, layout.leading, layout.stride, arch::info(layout.swizzle).wgmma, 0, 0));
      },
      nb::arg("smem_base"), nb::kw_only(), nb::arg("dtype"), nb::arg("shape"), nb::arg("major"));
  m.def(
      "masked_descriptor",
      [](nb::handle start, std::int64_t offset, std::uint64_t mask, std::uint64_t bits) {
        Builder& builder = active();
        return make(wgmma::masked_descriptor(builder, operand(start, builder), offset, mask, bits));
      },
      nb::arg("smem_addr"), nb::kw_only(), nb::arg("byte_offset") = 0, nb::arg("mask") = 0x3FF80,
      nb::arg("const_bits") = wgmma::masked_desc_b128);
}

void init_matrix(nb::module_& m) {
  m.def(
      "mma_sync",
      [](const Shape& shape, nb::handle dtype_d, nb::handle dtype_a, nb::handle dtype_b, nb::handle dtype_c,
         nb::handle d, nb::handle a, nb::handle b, nb::handle c, const std::string& a_layout,
         const std::string& b_layout, nb::handle predicate) {
        Builder& builder = active();
        author::mma_sync(builder, {shape_of(shape), type_text(dtype_d), type_text(dtype_a), type_text(dtype_b),
                                   type_text(dtype_c), operands(d, builder), operands(a, builder), operands(b, builder),
                                   operands(c, builder), a_layout, b_layout, guard(predicate, builder)});
      },
      nb::kw_only(), nb::arg("shape"), nb::arg("dtype_d"), nb::arg("dtype_a"), nb::arg("dtype_b"), nb::arg("dtype_c"),
      nb::arg("d"), nb::arg("a"), nb::arg("b"), nb::arg("c"), nb::arg("a_layout") = "row", nb::arg("b_layout") = "col",
      nb::arg("pred") = nb::none());
  m.def(
      "stmatrix",
      [](nb::handle to, nb::handle from, const std::string& layout, bool trans, const std::string& shape,
         nb::handle predicate) {
        Builder& builder = active();
        author::stmatrix(builder, address(to, builder), operands(from, builder), layout, trans, shape,
                         guard(predicate, builder));
      },
      nb::kw_only(), nb::arg("smem"), nb::arg("regs"), nb::arg("layout") = "x4", nb::arg("trans") = false,
      nb::arg("shape") = "m8n8", nb::arg("pred") = nb::none());
  m.def(
      "ldmatrix",
      [](nb::handle to, nb::handle from, const std::string& layout, bool trans, nb::handle predicate) {
        Builder& builder = active();
        author::ldmatrix(builder, operands(to, builder), address(from, builder), layout, trans,
                         guard(predicate, builder));
      },
      nb::kw_only(), nb::arg("dst"), nb::arg("src"), nb::arg("layout") = "x4", nb::arg("trans") = false,
      nb::arg("pred") = nb::none());
  m.def(
      "stmatrix_x4_trans_f32_bf16",
      [](nb::handle fragment, nb::handle base, nb::handle lane, nb::handle row_stride, nb::handle bf16,
         nb::handle packed) {
        Builder& builder = active();
        const auto registers = [](nb::handle list, const char* what) {
          std::vector<author::Reg> found;
          if (!list.is_none())
            for (nb::handle item : list) found.push_back(reg_argument(item, what));
          return found;
        };
        author::stmatrix_x4_trans_f32_bf16(builder, registers(fragment, "an element of frag"), operand(base, builder),
                                           reg_argument(lane, "lane"), operand(row_stride, builder),
                                           registers(bf16, "an element of tmp_bf16"),
                                           registers(packed, "an element of tmp_pack"));
      },
      nb::kw_only(), nb::arg("frag"), nb::arg("smem_base"), nb::arg("lane"), nb::arg("row_stride"),
      nb::arg("tmp_bf16") = nb::none(), nb::arg("tmp_pack") = nb::none());
}

}  // namespace

void init_matrices(nb::module_& m) {
  init_wgmma(m.def_submodule("wgmma"));
  init_matrix(m);
}

}  // namespace ptx::python
