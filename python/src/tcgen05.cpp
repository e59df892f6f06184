// pyptx.ptx.tcgen05: Blackwell's tensor memory.
#include "ptx/author/tcgen05.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "python/src/shared.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

namespace tcgen05 = author::tcgen05;
using author::Builder;

std::optional<author::Operand> optional_operand(nb::handle value, Builder& builder) {
  if (value.is_none()) return {};
  return operand(value, builder);
}

void mma(nb::handle d, nb::handle a, nb::handle b, nb::handle idesc, int cta_group, const std::string& kind,
         bool enable_input_d, nb::handle scale_d, bool sparse, bool ashift,
         const std::optional<std::string>& collector_a, bool a_is_tmem, nb::handle metadata, nb::handle pred_operand,
         nb::handle scale_c, nb::handle scale_a, nb::handle scale_b, const std::optional<std::string>& scale_vectorsize,
         nb::handle predicate) {
  Builder& builder = active();
  tcgen05::Mma what;
  what.d = operand(d, builder), what.a = operand(a, builder), what.b = operand(b, builder);
  what.idesc = operand(idesc, builder);
  what.a_is_tmem = a_is_tmem, what.cta_group = cta_group, what.kind = kind;
  what.collector_a = collector_a.value_or("");
  what.scale_vectorsize = scale_vectorsize.value_or("");
  what.sparse = sparse, what.ashift = ashift;
  what.sparse_metadata = optional_operand(metadata, builder);
  what.scale_a = optional_operand(scale_a, builder), what.scale_b = optional_operand(scale_b, builder);
  // The most particular of the three arguments that say whether D is read.
  const nb::handle enable = !pred_operand.is_none() ? pred_operand : scale_d;
  what.enable_d = enable.is_none() ? author::Operand(enable_input_d) : operand(enable, builder);
  what.scale_d = optional_operand(scale_c, builder);
  what.guard = guard(predicate, builder);
  tcgen05::mma(builder, what);
}

void init_descriptors(nb::module_& m) {
  m.def(
      "make_instr_desc_f16bf16_f32",
      [](int columns_m, int columns_n, const std::string& ab_type, const std::string& a_major,
         const std::string& b_major, int scale_a, int scale_b, bool saturate, bool sparse, int max_shift) {
        return tcgen05::instruction_descriptor(
            {columns_m, columns_n, ab_type, a_major, b_major, scale_a, scale_b, saturate, sparse, max_shift});
      },
      nb::kw_only(), nb::arg("m") = 128, nb::arg("n") = 256, nb::arg("ab_dtype") = "bf16", nb::arg("a_major") = "K",
      nb::arg("b_major") = "K", nb::arg("scale_a") = 1, nb::arg("scale_b") = 1, nb::arg("saturate") = false,
      nb::arg("sparse") = false, nb::arg("max_shift") = 0, "The 32 bits of an instruction descriptor.");
  m.def(
      "descriptor",
      [](nb::handle start, std::int64_t offset, std::int64_t stride, std::int64_t leading, const std::string& swizzle,
         int version, int base_offset, int lbo_mode) {
        Builder& builder = active();
        return make(tcgen05::descriptor(builder, operand(start, builder),
                                        {offset, stride, leading, swizzle, version, base_offset, lbo_mode}));
      },
      nb::arg("smem_addr"), nb::kw_only(), nb::arg("byte_offset") = 0, nb::arg("stride_bytes"),
      nb::arg("leading_bytes") = 16, nb::arg("swizzle") = "128B", nb::arg("version") = 1, nb::arg("base_offset") = 0,
      nb::arg("lbo_mode") = 0);
  m.def(
      "masked_descriptor",
      [](nb::handle start, std::int64_t offset, std::uint64_t mask, std::uint64_t bits) {
        Builder& builder = active();
        return make(tcgen05::masked_descriptor(builder, operand(start, builder), offset, mask, bits));
      },
      nb::arg("smem_addr"), nb::kw_only(), nb::arg("byte_offset") = 0, nb::arg("mask") = 0x3FFF0,
      nb::arg("const_bits") = tcgen05::masked_desc_b128);
}

void init_memory(nb::module_& m) {
  m.def(
      "alloc",
      [](nb::handle to, nb::handle columns, int cta_group) {
        Builder& builder = active();
        tcgen05::alloc(builder, address(to, builder), operand(columns, builder), cta_group);
      },
      nb::arg("tmem_addr"), nb::arg("ncols"), nb::kw_only(), nb::arg("cta_group") = 1);
  m.def(
      "dealloc",
      [](nb::handle taddr, nb::handle columns, int cta_group) {
        Builder& builder = active();
        tcgen05::dealloc(builder, operand(taddr, builder), operand(columns, builder), cta_group);
      },
      nb::arg("taddr"), nb::arg("ncols"), nb::kw_only(), nb::arg("cta_group") = 1);
  m.def(
      "relinquish_alloc_permit", [](int cta_group) { tcgen05::relinquish_alloc_permit(active(), cta_group); },
      nb::kw_only(), nb::arg("cta_group") = 1);
  m.def(
      "ld",
      [](nb::handle to, nb::handle taddr, const std::string& shape, int count, nb::handle, bool pack) {
        Builder& builder = active();
        tcgen05::ld(builder, operands(to, builder), operand(taddr, builder), shape, count, pack);
      },
      nb::arg("dst_regs"), nb::arg("taddr"), nb::kw_only(), nb::arg("shape") = "16x128b", nb::arg("count") = 1,
      nb::arg("dtype") = "b32", nb::arg("pack") = false);
  m.def(
      "st",
      [](nb::handle taddr, nb::handle from, const std::string& shape, int count, nb::handle, bool unpack) {
        Builder& builder = active();
        tcgen05::st(builder, operand(taddr, builder), operands(from, builder), shape, count, unpack);
      },
      nb::arg("taddr"), nb::arg("src_regs"), nb::kw_only(), nb::arg("shape") = "16x128b", nb::arg("count") = 1,
      nb::arg("dtype") = "b32", nb::arg("unpack") = false);
  m.def(
      "cp",
      [](nb::handle taddr, nb::handle descriptor, int cta_group, const std::string& size, nb::handle) {
        Builder& builder = active();
        tcgen05::cp(builder, operand(taddr, builder), operand(descriptor, builder), cta_group, size);
      },
      nb::arg("taddr"), nb::arg("src"), nb::kw_only(), nb::arg("cta_group") = 1, nb::arg("size") = "128x256b",
      nb::arg("src_is_addr") = nb::none());
  m.def(
      "shift",
      [](nb::handle taddr, int cta_group) {
        Builder& builder = active();
        tcgen05::shift(builder, operand(taddr, builder), cta_group);
      },
      nb::arg("taddr"), nb::kw_only(), nb::arg("cta_group") = 1);
}

}  // namespace

void init_tcgen05(nb::module_ m) {
  m.attr("BLACKWELL_MASKED_DESC_B128") = tcgen05::masked_desc_b128;
  m.def("mma", mma, nb::arg("d_tmem"), nb::arg("a_desc"), nb::arg("b_desc"), nb::arg("idesc"), nb::kw_only(),
        nb::arg("cta_group") = 1, nb::arg("kind") = "f16", nb::arg("enable_input_d") = true,
        nb::arg("scale_d") = nb::none(), nb::arg("sparse") = false, nb::arg("ashift") = false,
        nb::arg("collector_a") = nb::none(), nb::arg("a_is_tmem") = false, nb::arg("sparse_metadata") = nb::none(),
        nb::arg("pred_operand") = nb::none(), nb::arg("scale_c") = nb::none(), nb::arg("scale_vec_a") = nb::none(),
        nb::arg("scale_vec_b") = nb::none(), nb::arg("scale_vectorsize") = nb::none(), nb::arg("pred") = nb::none());
  m.def(
      "commit",
      [](nb::handle bar, int cta_group, bool multicast, nb::handle mask, const std::string& space) {
        Builder& builder = active();
        if (multicast && mask.is_none())
          builder.refuse(Code::bad_argument, "commit(multicast=True) needs multicast_mask=, the CTAs of the cluster");
        tcgen05::commit(builder, address(bar, builder), cta_group, optional_operand(mask, builder), space);
      },
      nb::arg("mbar"), nb::kw_only(), nb::arg("cta_group") = 1, nb::arg("multicast") = false,
      nb::arg("multicast_mask") = nb::none(), nb::arg("space") = "cluster");
  m.def("fence_before_thread_sync", [] { tcgen05::fence_before_thread_sync(active()); });
  m.def("fence_after_thread_sync", [] { tcgen05::fence_after_thread_sync(active()); });
  m.def("wait_ld", [] { tcgen05::wait_ld(active()); });
  m.def("wait_st", [] { tcgen05::wait_st(active()); });
  init_memory(m);
  init_descriptors(m);
}

}  // namespace ptx::python
