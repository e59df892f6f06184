// Warps, CTAs, clusters: pyptx.ptx turns Python values into the library's.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "ptx/author/warp.h"
#include "python/src/shared.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

using author::Builder;

std::optional<author::Operand> optional_operand(nb::handle value, Builder& builder) {
  if (value.is_none()) return {};
  return operand(value, builder);
}

author::Reg predicate_or(nb::handle value, const char* what) { return reg_argument(value, what); }

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

void init_warps(nb::module_& m) {
  init_cluster(m.def_submodule("cluster"));
  init_warp(m);
}

}  // namespace ptx::python
