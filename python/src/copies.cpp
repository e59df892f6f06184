// Asynchronous and tensor copies: pyptx.ptx turns Python values into the library's.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "ptx/author/copy.h"
#include "python/src/shared.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

using author::Builder;

std::optional<author::Operand> optional_operand(nb::handle value, Builder& builder) {
  if (value.is_none()) return {};
  return operand(value, builder);
}

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

}  // namespace

void init_copies(nb::module_& m) { init_copy(m.def_submodule("cp_async")); }

}  // namespace ptx::python
