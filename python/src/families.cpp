// The families of pyptx.ptx: each is a row of `all` here, a file of rows in ptx/author/families, and a Convert for
// every type of the library that its functions alone take.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>

#include "ptx/author/barrier.h"
#include "ptx/author/copy.h"
#include "ptx/author/warp.h"
#include "python/src/function.h"
#include "python/src/shared.h"

namespace ptx::python {
namespace {

struct SlotValue {
  author::mbarrier::Slot slot;
  nb::object owner;
};
struct ArrayValue {
  author::mbarrier::Array array;
  nb::object owner;
};

template <class Value>
const Value& instance(nb::handle value) {
  if (!nb::isinstance<Value>(value)) throw nb::type_error("");
  return *nb::inst_ptr<Value>(value);
}

}  // namespace

template <>
struct Convert<author::mbarrier::Slot> {
  static constexpr const char* text = "BarrierSlot";
  static constexpr const char* legal = "a barrier of ptx.mbarrier.array";
  static author::mbarrier::Slot from(nb::handle value, Call&) { return instance<SlotValue>(value).slot; }
  static nb::object returned(author::mbarrier::Slot slot) {
    return nb::cast(SlotValue{std::move(slot), nb::borrow(active_owner())});
  }
};
template <>
struct Convert<author::mbarrier::Array> {
  static constexpr const char* text = "BarrierArray";
  static constexpr const char* legal = "what ptx.mbarrier.array returned";
  static author::mbarrier::Array from(nb::handle value, Call&) { return instance<ArrayValue>(value).array; }
  static nb::object returned(author::mbarrier::Array array) {
    return nb::cast(ArrayValue{std::move(array), nb::borrow(active_owner())});
  }
};
template <>
struct Convert<author::mbarrier::Where> {
  static constexpr const char* text = "Address";
  static constexpr const char* legal = Convert<author::Address>::legal;
  static author::mbarrier::Where from(nb::handle value, Call& call) {
    if (nb::isinstance<SlotValue>(value)) return instance<SlotValue>(value).slot;
    return Convert<author::Address>::from(value, call);
  }
};
template <>
struct Convert<author::tensor_copy::Coordinates> {
  static constexpr const char* text = "Sequence[Integer]";
  static constexpr const char* legal = "a list of integers and 32-bit registers, innermost first";
  static author::tensor_copy::Coordinates from(nb::handle value, Call& call) {
    if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr()) && !as_array(value)) throw nb::type_error("");
    std::vector<author::Operand> made = operands(value, call.builder);
    for (const author::Operand& o : made)
      if (!o.is_register() && !o.is_integer()) throw nb::type_error("");
    return made;
  }
};

}  // namespace ptx::python

#define PTX_FAMILY "ptx/author/families/mbarrier.def"
#define PTX_SPACE mbarrier
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/barrier_slot.def"
#define PTX_SPACE barrier_slot
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/barrier_array.def"
#define PTX_SPACE barrier_array
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/fence.def"
#define PTX_SPACE fence
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/cp_async.def"
#define PTX_SPACE cp_async
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/cp_async_bulk.def"
#define PTX_SPACE cp_async_bulk
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/tensor_copy.def"
#define PTX_SPACE tensor_copy
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/tensormap.def"
#define PTX_SPACE tensormap
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/plain.def"
#define PTX_SPACE plain
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/cvta.def"
#define PTX_SPACE cvta
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/bar.def"
#define PTX_SPACE bar
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/barrier.def"
#define PTX_SPACE barrier
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/cluster.def"
#define PTX_SPACE cluster
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/warp.def"
#define PTX_SPACE warp
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/griddepcontrol.def"
#define PTX_SPACE griddepcontrol
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/clusterlaunchcontrol.def"
#define PTX_SPACE clusterlaunchcontrol
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/wmma.def"
#define PTX_SPACE wmma
#include "python/src/family.h"
#define PTX_FAMILY "ptx/author/families/multimem.def"
#define PTX_SPACE multimem
#include "python/src/family.h"

namespace ptx::python {
namespace {

// In the order of docs/functions.md.
const Family* const own[] = {&rows::plain::family,
                             &rows::cvta::family,
                             &rows::mbarrier::family,
                             &rows::barrier_slot::family,
                             &rows::barrier_array::family,
                             &rows::fence::family,
                             &rows::cp_async::family,
                             &rows::cp_async_bulk::family,
                             &rows::tensor_copy::family,
                             &rows::tensormap::family,
                             &rows::bar::family,
                             &rows::barrier::family,
                             &rows::cluster::family,
                             &rows::warp::family,
                             &rows::griddepcontrol::family,
                             &rows::clusterlaunchcontrol::family,
                             &rows::multimem::family,
                             &rows::wmma::family};

std::vector<const Family*> all_families() {
  std::vector<const Family*> all(std::begin(own), std::end(own));
  const auto matrices = matrix_families();
  all.insert(all.end(), matrices.begin(), matrices.end());
  return all;
}

void add_functions(nb::object to, std::span<const Definition> definitions) {
  for (const Definition& definition : definitions)
    nb::setattr(to, std::string(definition.name).c_str(), make_function(definition));
}

// What takes an mbarrier object first is a method of a slot.
std::vector<Definition>& slot_methods() {
  static std::vector<Definition>& methods = *new std::vector<Definition>;
  if (!methods.empty()) return methods;
  for (const Definition& d : rows::mbarrier::family.definitions) {
    std::string_view first = d.parameters.empty() ? "" : d.parameters[0].name;
    if (d.form) {
      const auto all = d.form->all_parameters();
      const auto found = std::find_if(all.begin(), all.end(), [](const auto& p) { return !p.keyword; });
      if (found != all.end()) first = found->name;
    }
    if (first != "mbar") continue;
    methods.push_back(d);
    methods.back().family = rows::barrier_slot::family_name;
  }
  methods.insert(methods.end(), rows::barrier_slot::family.definitions.begin(),
                 rows::barrier_slot::family.definitions.end());
  return methods;
}

void init_barriers(nb::module_& m) {
  nb::class_<SlotValue> slot(m, "BarrierSlot", std::string(rows::barrier_slot::family_doc).c_str());
  slot.def_prop_ro(
      "byte_offset", [](const SlotValue& s) { return s.slot.offset(); }, "Its offset from the array's base.");
  add_functions(slot, slot_methods());
  nb::class_<ArrayValue> array(m, "BarrierArray", std::string(rows::barrier_array::family_doc).c_str());
  array
      .def(
          "__getitem__",
          [](const ArrayValue& a, std::int64_t i) {
            return active(), SlotValue{author::mbarrier::slot(a.array, i), a.owner};
          },
          nb::arg("index"), "One barrier.")
      .def("__len__", [](const ArrayValue& a) { return a.array.count; });
  add_functions(array, rows::barrier_array::family.definitions);
}

nb::list described() {
  nb::list families;
  for (const Family* family : all_families()) {
    nb::list functions;
    const bool slot = family == &rows::barrier_slot::family;
    for (const Definition& d : slot ? std::span<const Definition>(slot_methods()) : family->definitions)
      functions.append(nb::make_tuple(d.name, signature(d), documentation(d), section_of(d)));
    families.append(nb::make_tuple(family->name, family->doc, functions));
  }
  return families;
}

}  // namespace

bool slot_address(nb::handle value, author::Address& out) {
  if (!nb::isinstance<SlotValue>(value)) return false;
  return out = instance<SlotValue>(value).slot.address(), true;
}

void init_families(nb::module_& m) {
  init_function(m);
  init_barriers(m);
  for (const Family* family : all_families()) {
    const std::string name(family->name);
    if (nb::hasattr(m, name.c_str())) continue;  // a class
    nb::module_ made = m.def_submodule(name.c_str(), std::string(family->doc).c_str());
    add_functions(made, family->definitions);
  }
  m.def("families", described,
        "Each family: its name, what it is, and its functions: name, signature, docstring, section.");
  name_constants(m);
}

}  // namespace ptx::python
