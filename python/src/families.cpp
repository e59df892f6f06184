// Families of instructions with an object of their own in pyptx.ptx: mbarrier, wgmma, cp.async and tensor copies, mma,
// warps, fences, clusters. Each function turns Python values into the library's and calls it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>

#include "ptx/author/barrier.h"
#include "ptx/author/copy.h"
#include "ptx/author/matrix.h"
#include "ptx/author/warp.h"
#include "python/src/shared.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

using author::Builder;
using Shape = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

struct SlotValue {
  author::mbarrier::Slot slot;
  nb::object owner;
};

std::optional<author::Operand> optional_operand(nb::handle value, Builder& builder) {
  if (value.is_none()) return {};
  return operand(value, builder);
}

std::string type_text(nb::handle type) {
  if (const PtxType* known = as_type(type)) return known->name;
  throw nb::type_error(cat("a type is expected, for example pyptx.types.f32, not ", shown(type)).c_str());
}

std::array<std::uint32_t, 3> shape_of(const Shape& shape) {
  return {std::get<0>(shape), std::get<1>(shape), std::get<2>(shape)};
}

author::Reg predicate_or(nb::handle value, const char* what) { return reg_argument(value, what); }

// mbarrier ---------------------------------------------------------------------------------------------------------

template <void (*function)(const author::Address&, const author::Operand&, ir::Guard)>
void with_number(nb::handle bar, nb::handle number, nb::handle predicate) {
  Builder& builder = active();
  function(address(bar, builder), operand(number, builder), guard(predicate, builder));
}

void init_slots(nb::module_& m) {
  nb::class_<SlotValue>(m, "BarrierSlot", "One barrier of an array")
      .def_prop_ro("byte_offset", [](const SlotValue& s) { return s.slot.offset(); })
      .def("address_operand", [](SlotValue& s) { return active(), make(s.slot.address()); })
      .def("addr_reg", [](SlotValue& s) { return active(), make(s.slot.address_register()); })
      .def(
          "init", [](SlotValue& s, nb::handle count) { s.slot.init(operand(count, active())); }, nb::arg("count"))
      .def(
          "wait", [](SlotValue& s, nb::handle phase) { s.slot.wait(operand(phase, active())); }, nb::arg("phase"))
      .def("arrive", [](SlotValue& s) { return active(), make(s.slot.arrive()); })
      .def(
          "arrive_expect_tx",
          [](SlotValue& s, nb::handle bytes) { return make(s.slot.arrive_expect_tx(operand(bytes, active()))); },
          nb::arg("tx_count"))
      .def(
          "arrive_remote",
          [](SlotValue& s, nb::handle cta, nb::handle count, nb::handle predicate) {
            Builder& builder = active();
            s.slot.arrive_remote(operand(cta, builder), operand(count, builder), guard(predicate, builder));
          },
          nb::arg("cta_id"), nb::arg("count") = 1, nb::kw_only(), nb::arg("pred") = nb::none());
  struct ArrayValue {
    author::mbarrier::Array array;
    nb::object owner;
  };
  nb::class_<ArrayValue>(m, "BarrierArray", "Barriers that lie side by side")
      .def("__getitem__", [](const ArrayValue& a, std::int64_t i) { return active(), SlotValue{a.array[i], a.owner}; })
      .def("__len__", [](const ArrayValue& a) { return a.array.count; })
      .def(
          "at",
          [](const ArrayValue& a, nb::handle stage) {
            Builder& builder = active();
            if (const auto* reg = as_reg(stage)) return SlotValue{a.array.at(*reg), a.owner};
            const author::Operand index = operand(stage, builder);
            if (!index.is_integer()) throw nb::type_error("a stage is a register or an int");
            return SlotValue{a.array[index.ir.value], a.owner};
          },
          nb::arg("stage"))
      .def(
          "init_all", [](const ArrayValue& a, nb::handle count) { a.array.init_all(operand(count, active())); },
          nb::arg("count"))
      .def(
          "arrive_remote_all",
          [](const ArrayValue& a, nb::handle cta, nb::handle count) {
            Builder& builder = active();
            a.array.arrive_remote_all(operand(cta, builder), operand(count, builder));
          },
          nb::arg("cta_id"), nb::arg("count") = 1);
  m.def(
      "array",
      [](nb::handle base, std::int64_t offset, std::uint32_t count) {
        Builder& builder = active();
        return ArrayValue{{&builder, operand(base, builder), offset, count}, nb::borrow(active_owner())};
      },
      nb::arg("base"), nb::arg("byte_offset"), nb::arg("count"));
}

void init_mbarrier(nb::module_ m) {
  using namespace author::mbarrier;
  m.def("init", with_number<author::mbarrier::init>, nb::arg("mbar"), nb::arg("count"), nb::kw_only(),
        nb::arg("pred") = nb::none());
  m.def(
      "inval",
      [](nb::handle bar, nb::handle predicate) {
        Builder& builder = active();
        inval(address(bar, builder), guard(predicate, builder));
      },
      nb::arg("mbar"), nb::kw_only(), nb::arg("pred") = nb::none());
  m.def(
      "arrive",
      [](nb::handle bar, nb::handle predicate) {
        Builder& builder = active();
        return make(arrive(address(bar, builder), guard(predicate, builder)));
      },
      nb::arg("mbar"), nb::kw_only(), nb::arg("pred") = nb::none());
  m.def(
      "arrive_expect_tx",
      [](nb::handle bar, nb::handle bytes, nb::handle predicate) {
        Builder& builder = active();
        return make(arrive_expect_tx(address(bar, builder), operand(bytes, builder), guard(predicate, builder)));
      },
      nb::arg("mbar"), nb::arg("tx_count"), nb::kw_only(), nb::arg("pred") = nb::none());
  m.def("expect_tx", with_number<expect_tx>, nb::arg("mbar"), nb::arg("tx_count"), nb::kw_only(),
        nb::arg("pred") = nb::none());
  m.def(
      "try_wait",
      [](nb::handle bar, nb::handle phase, bool parity) {
        Builder& builder = active();
        return make(try_wait(address(bar, builder), operand(phase, builder), parity));
      },
      nb::arg("mbar"), nb::arg("phase"), nb::kw_only(), nb::arg("parity") = true);
  m.def("wait", with_number<wait>, nb::arg("mbar"), nb::arg("phase"), nb::kw_only(), nb::arg("pred") = nb::none());
  init_slots(m);
}

// wgmma, mma, ldmatrix, stmatrix -----------------------------------------------------------------------------------

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
  m.attr("SWIZZLE_NONE") = 0, m.attr("SWIZZLE_128B") = 1, m.attr("SWIZZLE_64B") = 2, m.attr("SWIZZLE_32B") = 3;
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
        constexpr int codes[] = {0, 3, 2, 1};  // none 32B 64B 128B as a descriptor numbers them
        return make(
            make_descriptor(start, layout.leading, layout.stride, codes[static_cast<int>(layout.swizzle)], 0, 0));
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

// Copies -----------------------------------------------------------------------------------------------------------

author::tensor::Load::Mode mode_named(Builder& builder, const std::string& mode) {
  using enum author::tensor::Load::Mode;
  constexpr std::pair<const char*, author::tensor::Load::Mode> known[] = {
      {"", none}, {"tile", tile}, {"im2col", im2col}, {"gather4", gather4}, {"scatter4", gather4}};
  for (const auto& [text, value] : known)
    if (mode == text) return value;
  builder.refuse(Code::bad_argument, cat("a tensor copy has no mode ", mode));
}

void init_copy(nb::module_ m) {
  namespace cp = author::cp_async;
  const auto async = [](void (*function)(const author::Operand&, const author::Operand&, const author::Operand&,
                                         Builder&, ir::Guard)) {
    return [function](nb::handle to, nb::handle from, nb::handle bytes, nb::handle predicate) {
      Builder& builder = active();
      function(author::Operand(address(to, builder)), author::Operand(address(from, builder)), operand(bytes, builder),
               builder, guard(predicate, builder));
    };
  };
  m.def("cg", async(cp::cg), nb::arg("smem_dst"), nb::arg("global_src"), nb::arg("byte_count"), nb::kw_only(),
        nb::arg("pred") = nb::none());
  m.def("ca", async(cp::ca), nb::arg("smem_dst"), nb::arg("global_src"), nb::arg("byte_count"), nb::kw_only(),
        nb::arg("pred") = nb::none());
  m.def("commit_group", [] { cp::commit_group(active()); });
  m.def("wait_group", [](std::int64_t pending) { cp::wait_group(active(), pending); }, nb::arg("n"));
  m.def("wait_all", [] { cp::wait_all(active()); });
  m.def("bulk_commit_group", [] { cp::bulk_commit_group(active()); });
  m.def(
      "bulk_wait_group", [](std::int64_t pending, bool read) { cp::bulk_wait_group(active(), pending, read); },
      nb::arg("n"), nb::kw_only(), nb::arg("read") = false);
  m.def(
      "tensor_load",
      [](nb::handle to, nb::handle map, nb::handle at, nb::handle bar, nb::handle multicast, nb::handle cache_hint,
         int cta_group, const std::string& mode, bool to_cta, nb::handle offsets, nb::handle predicate) {
        Builder& builder = active();
        author::tensor::Load load;
        load.to = address(to, builder);
        load.map = operand(map, builder);
        load.at = operands(at, builder);
        load.bar = address(bar, builder);
        load.multicast = optional_operand(multicast, builder);
        load.cache_hint = optional_operand(cache_hint, builder);
        load.cta_group = cta_group;
        load.mode = mode_named(builder, mode);
        load.to_cta = to_cta;
        load.im2col_offsets = operands(offsets, builder);
        load.guard = guard(predicate, builder);
        author::tensor::load(builder, load);
      },
      nb::arg("to"), nb::arg("map"), nb::arg("at"), nb::arg("bar"), nb::arg("multicast") = nb::none(),
      nb::arg("cache_hint") = nb::none(), nb::arg("cta_group") = 1, nb::arg("mode") = "", nb::arg("to_cta") = false,
      nb::arg("offsets") = nb::make_tuple(), nb::arg("pred") = nb::none());
  m.def(
      "tensor_store",
      [](nb::handle map, nb::handle at, nb::handle from, nb::handle cache_hint, const std::string& mode,
         nb::handle predicate) {
        Builder& builder = active();
        author::tensor::store(
            builder, {operand(map, builder), operands(at, builder), address(from, builder),
                      optional_operand(cache_hint, builder), mode_named(builder, mode), guard(predicate, builder)});
      },
      nb::arg("map"), nb::arg("at"), nb::arg("from_"), nb::arg("cache_hint") = nb::none(), nb::arg("mode") = "",
      nb::arg("pred") = nb::none());
  m.def("column_block", [](nb::handle row, nb::handle column) {
    // Numbers stay Python ints; what is a register was made by this call or given.
    Builder& builder = active();
    if (!as_reg(column)) {
      const author::Operand number = operand(column, builder);
      return nb::make_tuple(0, row, number.ir.value / 64);
    }
    const auto at = author::tensor::column_block(builder, operand(row, builder), operand(column, builder));
    return nb::make_tuple(0, row, make(author::Reg{&builder, at[2].ir.id, at[2].type, false}));
  });
}

// Warps, CTAs, clusters --------------------------------------------------------------------------------------------

void init_warp(nb::module_& m) {
  nb::module_ warp = m.def_submodule("warp");
  const auto reduction = [](author::Reduce op) {
    return [op](nb::handle value, std::uint32_t width) {
      active();
      author::reduce(op, reg_argument(value, "a reduced value"), width);
    };
  };
  warp.def("reduce_sum", reduction(author::Reduce::sum), nb::arg("val"), nb::kw_only(), nb::arg("width") = 32);
  warp.def("reduce_max", reduction(author::Reduce::max), nb::arg("val"), nb::kw_only(), nb::arg("width") = 32);
  warp.def("reduce_min", reduction(author::Reduce::min), nb::arg("val"), nb::kw_only(), nb::arg("width") = 32);
  m.def(
      "bar_sync",
      [](nb::handle barrier, nb::handle threads, nb::handle predicate) {
        Builder& builder = active();
        author::bar_sync(builder, operand(barrier, builder), optional_operand(threads, builder),
                         guard(predicate, builder));
      },
      nb::arg("n") = 0, nb::arg("count") = nb::none(), nb::kw_only(), nb::arg("pred") = nb::none());
  m.def(
      "setmaxnreg", [](std::int64_t count, bool increase) { author::setmaxnreg(active(), count, increase); },
      nb::arg("count"), nb::kw_only(), nb::arg("inc") = true);
  m.def(
      "elect_sync",
      [](nb::handle lane, nb::handle predicate, nb::handle mask) {
        Builder& builder = active();
        author::elect_sync(predicate_or(lane, "dst"), predicate_or(predicate, "pred_out"), operand(mask, builder));
      },
      nb::arg("dst"), nb::arg("pred_out"), nb::arg("membermask"));
}

void init_fence(nb::module_ m) {
  namespace fence = author::fence;
  m.def("proxy_async", [] { fence::proxy_async(active()); });
  m.def("proxy_async_shared_cta", [] { fence::proxy_async_shared_cta(active()); });
  m.def("mbarrier_init", [] { fence::mbarrier_init(active()); });
  m.def(
      "proxy_async_generic_acquire_shared_cluster",
      [](nb::handle predicate) {
        Builder& builder = active();
        fence::proxy_async_generic_acquire_shared_cluster(builder, guard(predicate, builder));
      },
      nb::kw_only(), nb::arg("pred") = nb::none());
}

void init_cluster(nb::module_ m) {
  namespace cluster = author::cluster;
  m.def("arrive", [](bool aligned) { cluster::arrive(active(), aligned); }, nb::kw_only(), nb::arg("aligned") = false);
  m.def("wait", [](bool aligned) { cluster::wait(active(), aligned); }, nb::kw_only(), nb::arg("aligned") = false);
  m.def("sync", [] {
    Builder& builder = active();
    cluster::arrive(builder);
    cluster::wait(builder);
  });
  m.def(
      "rank",
      [](nb::handle rank) {
        Builder& builder = active();
        return make(cluster::rank_is(builder, operand(rank, builder)));
      },
      nb::arg("r"));
  m.def(
      "map_shared_u32",
      [](nb::handle where, nb::handle cta, nb::handle predicate) {
        Builder& builder = active();
        return make(
            cluster::map_shared(operand(where, builder), operand(cta, builder), builder, guard(predicate, builder)));
      },
      nb::arg("bar_addr"), nb::arg("cta_id"), nb::kw_only(), nb::arg("pred") = nb::none());
  m.def(
      "arrive_remote",
      [](nb::handle where, nb::handle cta, nb::handle count, nb::handle predicate) {
        Builder& builder = active();
        cluster::arrive_remote(builder, operand(where, builder), operand(cta, builder), operand(count, builder),
                               guard(predicate, builder));
      },
      nb::arg("bar_addr"), nb::arg("cta_id"), nb::arg("count") = 1, nb::kw_only(), nb::arg("pred") = nb::none());
  m.def("arrive_multicast", [](nb::args, nb::kwargs) {
    active().refuse(Code::bad_argument,
                    "PTX has no mbarrier.arrive with multicast; write arrive_remote for each CTA of the cluster");
  });
}

}  // namespace

bool slot_address(nb::handle value, author::Address& out) {
  if (!nb::isinstance<SlotValue>(value)) return false;
  return out = nb::cast<SlotValue&>(value).slot.address(), true;
}

void init_families(nb::module_& m) {
  init_mbarrier(m.def_submodule("mbarrier"));
  init_wgmma(m.def_submodule("wgmma"));
  init_copy(m.def_submodule("cp_async"));
  init_fence(m.def_submodule("fence"));
  init_cluster(m.def_submodule("cluster"));
  init_tcgen05(m.def_submodule("tcgen05"));
  init_matrix(m);
  init_warp(m);
}

}  // namespace ptx::python
