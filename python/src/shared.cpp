// Shared memory: pyptx.smem.
#include "ptx/author/shared.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <map>

#include "ptx/author/barrier.h"
#include "python/src/shared.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

nb::handle shared_class, barriers_class, barrier_class;

template <class Bound>
const Bound* shared_instance(nb::handle value, nb::handle of) {
  return value.type().is(of) ? nb::inst_ptr<Bound>(value) : nullptr;
}

std::vector<std::int64_t> shape_argument(nb::handle shape) {
  const auto number = [&](nb::handle size) -> std::int64_t {
    std::int64_t made = 0;
    if (is_index(size) && nb::try_cast(nb::steal(PyNumber_Index(size.ptr())), made)) return made;
    PyErr_Clear();
    active().refuse(Code::bad_operand,
                    cat("a shape is an int or a tuple of ints, smem.alloc(f32, (64, 32)), not ", shown(shape)));
  };
  if (!PyTuple_Check(shape.ptr()) && !PyList_Check(shape.ptr()) && !nb::hasattr(shape, "__iter__"))
    return {number(shape)};
  std::vector<std::int64_t> sizes;
  for (nb::handle size : shape) sizes.push_back(number(size));
  return sizes;
}

author::Swizzle swizzle_argument(author::Builder& builder, const std::optional<std::string>& text) {
  const auto found = author::swizzle_named(text.value_or(""));
  if (!found)
    builder.refuse(Code::bad_argument, cat("Unknown swizzle mode \"", *text, "\"; known: ", arch::swizzle_names()));
  return *found;
}

// Type and shape of allocations, by kernel and name, for whoever looks at a run; those of its last trace.
struct Array {
  std::string type;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};
std::map<std::pair<std::string, std::string>, Array>& arrays() {
  static std::map<std::pair<std::string, std::string>, Array> all;  // under Python's lock
  return all;
}

SharedAlloc kept(author::Shared shared) {
  arrays()[{shared.builder->options().name, shared.name()}] = {std::string(isa::info(shared.type).name), shared.shape,
                                                               shared.bytes()};
  return {std::move(shared), nb::borrow(active_owner()), {}};
}

bool is_pair(nb::handle key) { return PyTuple_Check(key.ptr()) && PyTuple_Size(key.ptr()) == 2; }

// The key of an element of one dimension: `array[i]` in a register, `array[i,]`; null for any other. A number alone is
// a stage, as in 0.1.1, and the stage of one dimension is the element's address.
nb::handle element_key(const SharedAlloc& alloc, nb::handle key) {
  if (PyTuple_Check(key.ptr())) return PyTuple_Size(key.ptr()) == 1 ? PyTuple_GetItem(key.ptr(), 0) : nb::handle();
  return as_reg(key) && alloc.shared.shape.size() == 1 ? key : nb::handle();
}

void need_matrix(const SharedAlloc& alloc, nb::handle key) {
  if (!is_pair(key))
    throw WrongKind(cat("shared memory is indexed by a stage, by [i,] or by [row, column], not ", shown(key)));
  if (alloc.shared.shape.size() != 2) throw WrongKind("[row, column] needs a two-dimensional allocation");
}

nb::object get_item(const SharedAlloc& alloc, nb::handle key) {
  author::Builder& builder = active();
  const Returning here(builder, by::index);
  if (const nb::handle index = element_key(alloc, key)) return make(load(alloc.shared, operand(index, builder)));
  if (PyTuple_Check(key.ptr())) {
    need_matrix(alloc, key);
    return make(load(alloc.shared, operand(key[0], builder), operand(key[1], builder)));
  }
  SharedAlloc slice = alloc;
  slice.stage = nb::borrow(key);
  if (const auto* stage = as_reg(key)) {
    slice.shared = author::stage(alloc.shared, *stage);
  } else {
    const author::Operand stage_number = operand(key, builder);
    if (!stage_number.is_integer()) need_matrix(alloc, key);
    slice.shared = author::stage(alloc.shared, stage_number);
  }
  return nb::cast(std::move(slice));
}

void set_item(const SharedAlloc& alloc, nb::handle key, nb::handle value) {
  author::Builder& builder = active();
  nb::handle index = element_key(alloc, key);
  if (!index && !PyTuple_Check(key.ptr()) && alloc.shared.shape.size() == 1) index = key;
  if (index) return store(alloc.shared, operand(index, builder), operand(value, builder));
  need_matrix(alloc, key);
  store(alloc.shared, operand(key[0], builder), operand(key[1], builder), operand(value, builder));
}

nb::object alloc(nb::handle type, nb::handle shape, const std::optional<std::string>& swizzle,
                 std::optional<std::uint32_t> align, const std::optional<std::string>& name) {
  author::Builder& builder = active();
  return nb::cast(kept(author::shared(builder, type_argument(type), shape_argument(shape),
                                      swizzle_argument(builder, swizzle), align.value_or(0), name.value_or(""))));
}

nb::object wgmma_tile(nb::handle type, nb::handle shape, nb::handle major, std::optional<std::uint32_t> align,
                      const std::optional<std::string>& name) {
  author::Builder& builder = active();
  return nb::cast(kept(author::wgmma_tile(builder, type_argument(type), shape_argument(shape), mn_major(builder, major),
                                          align.value_or(0), name.value_or(""))));
}

void init_classes(nb::module_& m) {
  shared_class =
      nb::class_<SharedAlloc>(m, "SharedAlloc", R"(Shared memory, or one stage of it.  Made by `smem.alloc`.

`tile[row, column]` of two dimensions loads and stores an element; rows and columns are numbers or registers.  `ring[stage]`
is a part of an allocation with a dimension more.  `ptx.addr(tile, bytes)` is an address, `reg.from_(tile, u32)` that
address in a register.

Example:
    tile = smem.alloc(f32, (32, 33))
    tile[i, 0] = a                        # address arithmetic and st.shared.f32
    v = tile[0, i]                        # the same and ld.shared.f32, into a new register)",
                              nb::dynamic_attr())
          .def_prop_ro("name", [](const SharedAlloc& a) { return a.shared.name(); })
          .def_prop_ro("dtype", [](const SharedAlloc& a) { return type_object(a.shared.type); })
          .def_prop_ro("shape",
                       [](const SharedAlloc& a) {
                         nb::list sizes;
                         for (std::int64_t size : a.shared.shape) sizes.append(size);
                         return nb::tuple(sizes);
                       })
          .def_prop_ro("swizzle",
                       [](const SharedAlloc& a) -> nb::object {
                         if (a.shared.swizzle == author::Swizzle::none) return nb::none();
                         return nb::str(std::string(arch::name(a.shared.swizzle)).c_str());
                       })
          .def_prop_ro("alloc", [](nb::object self) { return self; })
          .def_prop_ro("stage", [](const SharedAlloc& a) { return a.stage.is_valid() ? a.stage : nb::none(); })
          .def_prop_ro("byte_offset", [](const SharedAlloc& a) { return a.shared.offset; })
          .def("__getitem__", get_item)
          .def("__setitem__", set_item)
          .def("__repr__", [](const SharedAlloc& a) {
            return cat("<shared ", a.shared.name(), ", ", a.shared.bytes(), " bytes>");
          });
  barriers_class =
      nb::class_<BarrierArray>(
          m, "MbarrierArray",
          R"(mbarrier objects in shared memory.  `bars[i]` is one, by a number or a register.  Made by `smem.mbarrier`.

Example:
    bars = smem.mbarrier(4)
    ptx.mbarrier.init(bars[0], 1))")
          .def_prop_ro("name", [](const BarrierArray& a) { return a.barriers.name(); })
          .def_prop_ro("count", [](const BarrierArray& a) { return a.barriers.count; })
          .def_prop_ro("byte_offset", [](const BarrierArray&) { return 0; })
          .def("__len__", [](const BarrierArray& a) { return a.barriers.count; })
          .def("__getitem__", [](nb::object self, nb::handle key) {
            const auto& array = nb::cast<const BarrierArray&>(self);
            author::Builder& builder = active();
            if (const auto* index = as_reg(key))
              return BarrierRef{element(array.barriers, *index), self, nb::borrow(key)};
            const author::Operand index = operand(key, builder);
            if (!index.is_integer()) throw WrongKind("an mbarrier is chosen by an int or a register");
            return BarrierRef{element(array.barriers, index), self, nb::borrow(key)};
          });
  barrier_class =
      nb::class_<BarrierRef>(m, "MbarrierRef",
                             R"(One mbarrier object: what the functions of ptx.mbarrier and copies take.

Example:
    bar = smem.mbarrier(1)[0]
    ptx.mbarrier.init(bar, 1))")
          .def_ro("array", &BarrierRef::array)
          .def_ro("idx", &BarrierRef::index)
          .def_prop_ro("name",
                       [](const BarrierRef& r) { return nb::cast<const BarrierArray&>(r.array).barriers.name(); })
          .def_prop_ro("byte_offset", [](const BarrierRef& r) { return r.barrier.where.offset; });
}

}  // namespace

bool mn_major(author::Builder& builder, nb::handle major) {
  const std::string text = nb::hasattr(major, "name") ? text_of(major.attr("name")) : text_of(nb::str(major));
  if (text == "MN" || text == "1") return true;
  if (text == "K" || text == "0") return false;
  builder.refuse(Code::bad_argument, cat("major is \"K\" or \"MN\", not ", shown(major)));
}

bool shared_address(nb::handle value, author::Address& out) {
  if (const auto* shared = shared_instance<SharedAlloc>(value, shared_class))
    return out = shared->shared.address(), true;
  if (const auto* barrier = shared_instance<BarrierRef>(value, barrier_class))
    return out = barrier->barrier.where, true;
  if (const auto* array = shared_instance<BarrierArray>(value, barriers_class))
    return out = element(array->barriers, 0).where, true;
  return slot_address(value, out);
}

bool shared_operand(nb::handle value, author::Operand& out) {
  if (const auto* shared = shared_instance<SharedAlloc>(value, shared_class))
    return out = author::Operand(shared->shared), true;
  if (const auto* barrier = shared_instance<BarrierRef>(value, barrier_class))
    return out = author::Operand(barrier->barrier), true;
  if (const auto* array = shared_instance<BarrierArray>(value, barriers_class))
    return out = author::Operand(element(array->barriers, 0)), true;
  author::Address address;
  if (!slot_address(value, address)) return false;
  return out = author::Operand(address), true;
}

const author::Shared* as_shared(nb::handle value) {
  const auto* shared = shared_instance<SharedAlloc>(value, shared_class);
  return shared ? &shared->shared : nullptr;
}

void init_shared(nb::module_& m) {
  init_classes(m);
  m.def("smem_alloc", alloc, nb::arg("dtype"), nb::arg("shape"), nb::arg("swizzle") = nb::none(),
        nb::arg("align") = nb::none(), nb::arg("name") = nb::none(),
        R"(Shared memory for elements of a type: a number of them, or a shape.  A declaration and no instruction.

Beyond 48 KiB all allocations of the kernel become dynamic shared memory.  `align` is in bytes, 128 unless the swizzle needs
more.  `swizzle` ("32B", "64B", "128B") is what a tensor copy writes by; it changes no address here.

Example:
    row = smem.alloc(f32, 128)            # .shared .align 128 .b8 smem_0[512];
    ptx.inst.st.shared.f32(ptx.addr(row, i * 4), a)
    tile = smem.alloc(f32, (32, 33))
    v = tile[i, 0])");
  m.def(
      "shared_array",
      [](const std::string& entry, const std::string& name, std::uint64_t bytes) {
        const auto found = arrays().find({entry, name});
        if (found == arrays().end() || found->second.bytes != bytes) return nb::make_tuple(nb::none(), nb::none());
        nb::list shape;
        for (const std::int64_t size : found->second.shape) shape.append(size);
        return nb::make_tuple(found->second.type, nb::tuple(shape));
      },
      nb::arg("entry"), nb::arg("name"), nb::arg("bytes"),
      "(type, shape) of an allocation of a kernel, as it was traced last; (None, None): unknown");
  m.def("smem_wgmma_tile", wgmma_tile, nb::arg("dtype"), nb::arg("shape"), nb::arg("major") = "K", nb::kw_only(),
        nb::arg("align") = nb::none(), nb::arg("name") = nb::none());
  m.def(
      "smem_mbarrier",
      [](std::uint32_t count, const std::optional<std::string>& name) {
        return BarrierArray{author::barriers(active(), count, name.value_or("")), nb::borrow(active_owner())};
      },
      nb::arg("count"), nb::arg("name") = nb::none(),
      R"(`count` mbarrier objects in shared memory.  One thread initialises each before others use it.

Example:
    full = smem.mbarrier(2)               # .shared .align 8 .b64 mbar_0[2];
    with ptx.if_(i == 0):
        ptx.mbarrier.init(full[0], 1)
        ptx.mbarrier.init(full[1], 1)
    ptx.bar.sync(0))");
  m.def(
      "smem_base",
      [](const std::optional<std::string>& name) {
        author::Builder& builder = active();
        static const By by("base");
        const Returning here(builder, by);
        return make(author::shared_base(builder, name.value_or("")));
      },
      nb::arg("name") = nb::none(),
      R"(The address of dynamic shared memory in a register: of the kernel's `extern_smem` unless a name is given.

Example:
    @kernel(extern_smem="buffer", smem=1024)
    def k():
        base = smem.base()                # mov.u32 %r0, buffer;
        ptx.ret()

    k.ptx())");
  m.def(
      "smem_load",
      [](nb::handle type, nb::handle where) {
        author::Builder& builder = active();
        static const By by("load");
        const Returning here(builder, by);
        return make(author::load(builder, type_argument(type), address(where, builder)));
      },
      nb::arg("dtype"), nb::arg("address"), R"(ld.shared into a new register.

Example:
    row = smem.alloc(f32, 128)
    v = smem.load(f32, ptx.addr(row, i * 4)))");
  m.def(
      "smem_store",
      [](nb::handle type, nb::handle where, nb::handle value) {
        author::Builder& builder = active();
        author::store(builder, type_argument(type), address(where, builder), reg_argument(value, "a stored value"));
      },
      nb::arg("dtype"), nb::arg("address"), nb::arg("value"), R"(st.shared of a register.

Example:
    row = smem.alloc(f32, 128)
    smem.store(f32, ptx.addr(row, i * 4), a))");
  m.def(
      "smem_apply_swizzle",
      [](nb::object offset, const std::optional<std::string>& swizzle) {
        author::Builder& builder = active();
        const author::Swizzle kind = swizzle_argument(builder, swizzle);
        if (kind == author::Swizzle::none) return offset;
        static const By by("apply_swizzle");
        const Returning here(builder, by);
        return make(author::swizzled(reg_argument(offset, "a swizzled offset"), kind));
      },
      nb::arg("logical_offset"), nb::arg("swizzle").none(),
      R"(The byte offset at which a swizzle puts what would lie at `logical_offset`: two instructions and a new register.

Example:
    at = smem.apply_swizzle(i * 16, "128B"))");
}

}  // namespace ptx::python
