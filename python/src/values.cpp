// Reg, RegArray, NegPred, RegPart, PipeRef, AddressOperand: raw Python types around the library's values. Raw, because
// operators and operands are the hot path of tracing; each slot converts, calls the library, and wraps what comes back.
#include <type_traits>

#include "ptx/author/expression.h"
#include "python/src/shared.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

template <class Value>
struct Box {
  PyObject_HEAD PyObject* owner;  // the Trace whose builder the value points to
  Value value;
};
template <class Value>
PyTypeObject* type_of = nullptr;

template <class Value>
const Value* unbox(PyObject* object) {
  return Py_TYPE(object) == type_of<Value> ? &reinterpret_cast<Box<Value>*>(object)->value : nullptr;
}
template <class Value>
const Value& self_of(PyObject* object) {
  return reinterpret_cast<Box<Value>*>(object)->value;
}

template <class Value>
PyObject* box(const Value& value, PyObject* owner = active_owner()) {
  static_assert(std::is_trivially_copyable_v<Value> && std::is_trivially_destructible_v<Value>);
  auto* made = PyObject_New(Box<Value>, type_of<Value>);
  if (!made) return nullptr;
  Py_XINCREF(owner);
  made->owner = owner;
  new (&made->value) Value(value);
  return reinterpret_cast<PyObject*>(made);
}
template <class Value>
PyObject* owner_of(PyObject* object) {
  return reinterpret_cast<Box<Value>*>(object)->owner;
}

template <class Value>
void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(owner_of<Value>(object));
  PyObject_Free(object);
  Py_DECREF(type);
}

PyObject* text(std::string_view view) {
  return PyUnicode_FromStringAndSize(view.data(), static_cast<Py_ssize_t>(view.size()));
}

// p|q and !p, which are values among predicates.
bool predicate_like(PyObject* value) { return unbox<author::Not>(value) || unbox<author::Pair>(value); }

bool number_like(PyObject* value) {
  return unbox<author::Reg>(value) || PyLong_Check(value) || PyFloat_Check(value) || is_index(value) ||
         PyObject_HasAttrString(value, "__float__");
}

// Operators -------------------------------------------------------------------------------------------------------

using Binary = author::Reg (*)(const author::Operand&, const author::Operand&);

// What an operator cannot take is Python's to refuse, but for an element of shared memory that was meant to be loaded.
PyObject* not_a_number(PyObject* value) {
  return caught(
      [&]() -> PyObject* {
        if (const author::Shared* shared = as_shared(value))
          active().refuse(Code::operator_type, cat(shared->name(), "[i] by a number is an address, as in 0.1.1; ",
                                                   shared->name(), "[i,] loads the element"));
        Py_RETURN_NOTIMPLEMENTED;
      },
      nullptr);
}

// Where an operator stands; and what it gives.
Spot note_operator(Traced& builder, PyObject* a, PyObject* b) {
  if (const auto* reg = unbox<author::Reg>(a)) builder.use(*reg, by::operand_of_operation, 0);
  if (const auto* reg = unbox<author::Reg>(b)) builder.use(*reg, by::operand_of_operation, 1);
  return builder.here(by::operation);
}
PyObject* given(Traced& builder, const author::Reg& reg, const Spot& spot) {
  if (!reg.special) builder.give(reg.id, spot);
  return box(reg);
}

PyObject* binary(PyObject* a, PyObject* b, Binary operation) {
  if (!number_like(a) || !number_like(b)) return not_a_number(number_like(a) ? b : a);
  return caught(
      [&] {
        Traced& builder = active();
        const Spot here = note_operator(builder, a, b);
        return given(builder, operation(operand(a, builder), operand(b, builder)), here);
      },
      nullptr);
}

// A shift's left side is a register.
using Shift = author::Reg (*)(const author::Reg&, const author::Operand&);
PyObject* refused(PyObject* a, PyObject* b, const char* op);
PyObject* shift(PyObject* a, PyObject* b, Shift operation, const char* op) {
  const auto* left = unbox<author::Reg>(a);
  if (!left && number_like(a)) return refused(a, b, op);
  if (!left || !number_like(b)) Py_RETURN_NOTIMPLEMENTED;
  return caught(
      [&] {
        Traced& builder = active();
        const Spot here = note_operator(builder, a, b);
        return given(builder, operation(mine(*left, builder), operand(b, builder)), here);
      },
      nullptr);
}

template <char op>
PyObject* in_place(PyObject* a, PyObject* b) {
  if (!number_like(b) && !predicate_like(b)) Py_RETURN_NOTIMPLEMENTED;
  return caught(
      [&] {
        author::Builder& builder = active();
        author::assign(op, mine(self_of<author::Reg>(a), builder), operand(b, builder));
        Py_INCREF(a);
        return a;
      },
      nullptr);
}

// & and ^ of predicates, either of which may be !p or p|q.
PyObject* logic(PyObject* a, PyObject* b, Binary operation) {
  if (!number_like(a) && !predicate_like(a)) Py_RETURN_NOTIMPLEMENTED;
  if (!number_like(b) && !predicate_like(b)) Py_RETURN_NOTIMPLEMENTED;
  return caught(
      [&] {
        Traced& builder = active();
        const Spot here = note_operator(builder, a, b);
        return given(builder, operation(operand(a, builder), operand(b, builder)), here);
      },
      nullptr);
}

// What Python has and PTX has no one instruction for. Python passes what it has: one side, two, or three to pow().
PyObject* refused(PyObject* a, PyObject* b, const char* op) {
  const auto* left = unbox<author::Reg>(a);
  const author::Reg& reg = left ? *left : self_of<author::Reg>(b);
  return caught(
      [&]() -> PyObject* {
        active();
        author::refuse_operator(reg, op);
      },
      nullptr);
}
PyObject* true_divide(PyObject* a, PyObject* b) { return refused(a, b, "/"); }
PyObject* floor_divide(PyObject* a, PyObject* b) { return refused(a, b, "//"); }
PyObject* remainder(PyObject* a, PyObject* b) { return refused(a, b, "%"); }
PyObject* divide_both(PyObject* a, PyObject* b) { return refused(a, b, "divmod()"); }
PyObject* matrix_multiply(PyObject* a, PyObject* b) { return refused(a, b, "@"); }
PyObject* power(PyObject* a, PyObject* b, PyObject*) {
  if (!unbox<author::Reg>(a) && !unbox<author::Reg>(b)) Py_RETURN_NOTIMPLEMENTED;  // the third is a register
  return refused(a, b, "**");
}
PyObject* positive(PyObject* a) { return refused(a, nullptr, "+x"); }
PyObject* absolute(PyObject* a) { return refused(a, nullptr, "abs()"); }
PyObject* rounded(PyObject* a, PyObject*) { return refused(a, nullptr, "round()"); }
PyObject* rounded_down(PyObject* a, PyObject*) { return refused(a, nullptr, "math.floor()"); }
PyObject* rounded_up(PyObject* a, PyObject*) { return refused(a, nullptr, "math.ceil()"); }
PyObject* truncated(PyObject* a, PyObject*) { return refused(a, nullptr, "math.trunc()"); }

// What asks a register for a number that Python could compute with.
PyObject* no_value(PyObject* a, const char* instead) {
  return caught(
      [&]() -> PyObject* {
        throw author::Refused({Diagnostic(
            Code::truth_of_register, author_place(),
            cat("register ", self_of<author::Reg>(a).name(), " has no value while the kernel is written; ", instead))});
      },
      nullptr);
}
PyObject* as_index(PyObject* a) {
  return no_value(a, "write a loop as `for i in ptx.range_(n):`, and load indexed data from memory");
}
PyObject* as_int(PyObject* a) { return no_value(a, "an instruction converts it: ptx.inst.cvt.rzi.s32.f32(d, x)"); }
PyObject* as_float(PyObject* a) {
  return no_value(a,
                  "instructions convert it and compute with it: ptx.inst.cvt.rn.f32.s32(d, x), "
                  "ptx.inst.sqrt.rn.f32(d, x)");
}

PyObject* formatted(PyObject* a, PyObject* spec) {
  if (PyUnicode_Check(spec) && PyUnicode_GetLength(spec) == 0) return PyObject_Str(a);
  return no_value(a, "ptx.print(\"x = {:.2f}\", x) prints it when the kernel runs");
}

// p[i], as of an array or a pointer.
PyObject* no_element(PyObject* a, const char* instead) {
  return caught(
      [&]() -> PyObject* {
        const author::Reg& reg = self_of<author::Reg>(a);
        active().refuse(Code::operator_type,
                        cat("register ", reg.name(), " is no array; what it points to is ", instead));
      },
      nullptr);
}
PyObject* element(PyObject* a, PyObject*) {
  return no_element(a, "read by ptx.inst.ld.global_.f32(d, ptx.addr(p + i * 4))");
}
int assign_element(PyObject* a, PyObject*, PyObject*) {
  no_element(a, "written by ptx.inst.st.global_.f32(ptx.addr(p + i * 4), x)");
  return -1;
}

PyObject* add(PyObject* a, PyObject* b) { return binary(a, b, author::add); }
PyObject* subtract(PyObject* a, PyObject* b) { return binary(a, b, author::sub); }
PyObject* multiply(PyObject* a, PyObject* b) { return binary(a, b, author::mul); }
PyObject* bit_and(PyObject* a, PyObject* b) { return logic(a, b, author::and_); }
PyObject* bit_xor(PyObject* a, PyObject* b) { return logic(a, b, author::xor_); }
PyObject* left_shift(PyObject* a, PyObject* b) { return shift(a, b, author::shl, "<<"); }
PyObject* right_shift(PyObject* a, PyObject* b) { return shift(a, b, author::shr, ">>"); }

bool is_predicate(const author::Reg* reg) { return reg && reg->type == isa::Type::pred; }

// `p | q`, `d | p`, `[a, b] | p`, `p | "_"`: two destinations. Between integers it is the operator, and so it is where
// p|q or !p is a value already.
PyObject* bit_or(PyObject* a, PyObject* b) {
  const auto* left = unbox<author::Reg>(a);
  const auto* right = unbox<author::Reg>(b);
  if (left && right && (is_predicate(left) || is_predicate(right))) return box(author::Pair{*left, *right});
  const auto sink = [](PyObject* o) { return PyUnicode_Check(o) && PyUnicode_CompareWithASCIIString(o, "_") == 0; };
  if (sink(a) || sink(b) || (right && (PyList_Check(a) || as_array(a)))) {
    return caught(
        [&] {
          author::Builder& builder = active();
          return box(builder.pair(operand(a, builder), operand(b, builder)));
        },
        nullptr);
  }
  return logic(a, b, author::or_);
}

PyObject* invert(PyObject* a) {
  const author::Reg& reg = self_of<author::Reg>(a);
  if (is_predicate(&reg)) return box(author::Not{reg}, owner_of<author::Reg>(a));
  return caught(
      [&] {
        Traced& builder = active();
        return given(builder, author::not_(mine(reg, builder)), builder.here(by::operation));
      },
      nullptr);
}

PyObject* negative(PyObject* a) {
  return caught(
      [&] {
        Traced& builder = active();
        return given(builder, author::neg(mine(self_of<author::Reg>(a), builder)), builder.here(by::operation));
      },
      nullptr);
}

PyObject* compare(PyObject* a, PyObject* b, int operation) {
  using enum author::Compare;
  constexpr author::Compare operations[] = {lt, le, eq, ne, gt, ge};  // Py_LT, Py_LE, Py_EQ, Py_NE, Py_GT, Py_GE
  if (!number_like(b) && !predicate_like(b)) Py_RETURN_NOTIMPLEMENTED;
  return caught(
      [&] {
        Traced& builder = active();
        const Spot here = builder.here(by::operation);
        const auto op = operations[operation];
        if (author::has_halves(self_of<author::Reg>(a).type))
          return box(author::compare_halves(op, operand(a, builder), operand(b, builder)));
        return given(builder, author::compare(op, operand(a, builder), operand(b, builder)), here);
      },
      nullptr);
}

constexpr std::string_view instead_of_truth =
    "branch with `with ptx.if_(...):`, join predicates with & | ^ ~, choose with ptx.inst.selp, a.max(b), a.min(b)";

int truth(PyObject* a) {
  return caught(
      [&]() -> int {
        const author::Reg& reg = self_of<author::Reg>(a);
        throw author::Refused({Diagnostic(
            Code::truth_of_register, author_place(),
            cat("register ", reg.name(), " has no value while the kernel is written; ", instead_of_truth))});
      },
      -1);
}

// Reg --------------------------------------------------------------------------------------------------------------

PyObject* reg_name(PyObject* self, void*) {
  return caught([&] { return text(self_of<author::Reg>(self).name()); }, nullptr);
}
PyObject* reg_dtype(PyObject* self, void*) {
  return caught([&] { return type_object(self_of<author::Reg>(self).type).release().ptr(); }, nullptr);
}
PyObject* reg_repr(PyObject* self) {
  return caught(
      [&] {
        const author::Reg& reg = self_of<author::Reg>(self);
        return text(cat("Reg(", reg.name(), ", ", info(reg.type).name, ")"));
      },
      nullptr);
}
Py_hash_t reg_hash(PyObject* self) {
  const author::Reg& reg = self_of<author::Reg>(self);
  return static_cast<Py_hash_t>((std::uint64_t{reg.id} << 1 | reg.special) * 0x9E3779B97F4A7C15ull >> 2);
}

By name_of(author::Reg (*operation)(const author::Reg&, const author::Operand&)) {
  static const By max("max"), min("min");
  return operation == &author::max ? max : min;
}

template <author::Reg (*operation)(const author::Reg&, const author::Operand&)>
PyObject* method(PyObject* self, PyObject* other) {
  return caught(
      [&] {
        Traced& builder = active();
        const Spot here = builder.here(name_of(operation));
        return given(builder, operation(mine(self_of<author::Reg>(self), builder), operand(other, builder)), here);
      },
      nullptr);
}

PyObject* reg_as(PyObject* self, PyObject* type) {
  return caught(
      [&] { return active(), box(self_of<author::Reg>(self).as(type_argument(type)), owner_of<author::Reg>(self)); },
      nullptr);
}

// a.b0, a.h10, v.x: what is no other attribute may be a part of the register.
PyObject* reg_attribute(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(name, &size);
  if (!data) return nullptr;
  const std::string_view word(data, static_cast<std::size_t>(size));
  using enum isa::Selector;
  const auto selects = [&](isa::Selector selector) { return isa::selects(selector, word); };
  const bool element = word.size() == 1 && std::string_view("xyzw").find(word[0]) != word.npos;
  if (!element && !selects(isa::Selector::part) && !selects(halves) && !selects(bytes) && !selects(half_mask) &&
      !selects(byte_mask)) {
    if (!word.starts_with("__"))
      PyErr_SetString(
          PyExc_AttributeError,
          cat("a register has no `", word, "`: it has name, dtype, as_, max, min and parts as b0, h1, x; all else is ",
              "an instruction, ptx.inst.cvt.rn.f32.u32(d, x) to convert")
              .c_str());
    return nullptr;
  }
  PyErr_Clear();
  return box(author::part(self_of<author::Reg>(self), word), owner_of<author::Reg>(self));
}

PyGetSetDef reg_fields[] = {{"name", reg_name, nullptr, "Its name in the text.", nullptr},
                            {"dtype", reg_dtype, nullptr, "Its type.", nullptr},
                            {}};
PyMethodDef reg_methods[] = {{"as_", reg_as, METH_O, "The same register read as a type of its width: a.as_(s32) < 4."},
                             {"max", method<author::max>, METH_O, "The larger of this and a register or number."},
                             {"min", method<author::min>, METH_O, "The smaller of this and a register or number."},
                             {"__format__", formatted, METH_O, "Its repr; with a format it is refused: ptx.print."},
                             {"__round__", rounded, METH_VARARGS, "Refused: cvt.rni."},
                             {"__floor__", rounded_down, METH_NOARGS, "Refused: cvt.rmi."},
                             {"__ceil__", rounded_up, METH_NOARGS, "Refused: cvt.rpi."},
                             {"__trunc__", truncated, METH_NOARGS, "Refused: cvt.rzi."},
                             {}};
#define PTX_SLOT(slot, function) {slot, reinterpret_cast<void*>(function)}
PyType_Slot reg_slots[] = {PTX_SLOT(Py_tp_dealloc, dealloc<author::Reg>),
                           PTX_SLOT(Py_tp_repr, reg_repr),
                           PTX_SLOT(Py_tp_hash, reg_hash),
                           PTX_SLOT(Py_tp_getattro, reg_attribute),
                           PTX_SLOT(Py_tp_richcompare, compare),
                           {Py_tp_getset, reg_fields},
                           {Py_tp_methods, reg_methods},
                           PTX_SLOT(Py_nb_bool, truth),
                           PTX_SLOT(Py_nb_add, add),
                           PTX_SLOT(Py_nb_subtract, subtract),
                           PTX_SLOT(Py_nb_multiply, multiply),
                           PTX_SLOT(Py_nb_true_divide, true_divide),
                           PTX_SLOT(Py_nb_floor_divide, floor_divide),
                           PTX_SLOT(Py_nb_remainder, remainder),
                           PTX_SLOT(Py_nb_inplace_true_divide, true_divide),
                           PTX_SLOT(Py_nb_inplace_floor_divide, floor_divide),
                           PTX_SLOT(Py_nb_inplace_remainder, remainder),
                           PTX_SLOT(Py_nb_divmod, divide_both),
                           PTX_SLOT(Py_nb_power, power),
                           PTX_SLOT(Py_nb_matrix_multiply, matrix_multiply),
                           PTX_SLOT(Py_nb_absolute, absolute),
                           PTX_SLOT(Py_nb_positive, positive),
                           PTX_SLOT(Py_nb_index, as_index),
                           PTX_SLOT(Py_nb_int, as_int),
                           PTX_SLOT(Py_nb_float, as_float),
                           PTX_SLOT(Py_mp_subscript, element),
                           PTX_SLOT(Py_mp_ass_subscript, assign_element),
                           PTX_SLOT(Py_nb_lshift, left_shift),
                           PTX_SLOT(Py_nb_rshift, right_shift),
                           PTX_SLOT(Py_nb_and, bit_and),
                           PTX_SLOT(Py_nb_or, bit_or),
                           PTX_SLOT(Py_nb_xor, bit_xor),
                           PTX_SLOT(Py_nb_invert, invert),
                           PTX_SLOT(Py_nb_negative, negative),
                           PTX_SLOT(Py_nb_inplace_add, in_place<'+'>),
                           PTX_SLOT(Py_nb_inplace_subtract, in_place<'-'>),
                           PTX_SLOT(Py_nb_inplace_multiply, in_place<'*'>),
                           PTX_SLOT(Py_nb_inplace_lshift, in_place<'<'>),
                           PTX_SLOT(Py_nb_inplace_rshift, in_place<'>'>),
                           PTX_SLOT(Py_nb_inplace_and, in_place<'&'>),
                           PTX_SLOT(Py_nb_inplace_or, in_place<'|'>),
                           PTX_SLOT(Py_nb_inplace_xor, in_place<'^'>),
                           {0, nullptr}};

// RegArray ---------------------------------------------------------------------------------------------------------

PyObject* array_item(PyObject* self, Py_ssize_t i) {
  return caught(
      [&]() -> PyObject* {
        const author::RegArray& array = self_of<author::RegArray>(self);
        if (i >= 0 && static_cast<std::uint64_t>(i) < array.count)
          return box(element(array, i), owner_of<author::RegArray>(self));
        throw author::Refused(
            {Diagnostic(Code::index_range, author_place(),
                        cat("index ", i, " of ", array.base(), "<", array.count, "> is not in 0..", array.count - 1))});
      },
      nullptr);
}

bool index_of(PyObject* key, Py_ssize_t& index) {
  if (!PyLong_Check(key) && !is_index(key)) {
    set_error(Phase::authoring,
              WrongKind(cat("a register array is indexed by an int or a slice, not ", shown(key))).why());
    return false;
  }
  index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  return index != -1 || !PyErr_Occurred();
}

Py_ssize_t array_length(PyObject* self) { return static_cast<Py_ssize_t>(self_of<author::RegArray>(self).count); }

// A list of registers, as operands take it.
PyObject* array_slice(PyObject* self, PyObject* key) {
  Py_ssize_t begin = 0, end = 0, step = 0;
  if (PySlice_Unpack(key, &begin, &end, &step) < 0) return nullptr;
  const Py_ssize_t count = PySlice_AdjustIndices(array_length(self), &begin, &end, step);
  PyObject* list = PyList_New(count);
  for (Py_ssize_t i = 0; list && i < count; ++i) {
    PyObject* item = array_item(self, begin + i * step);
    if (!item || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
  }
  return list;
}

PyObject* array_subscript(PyObject* self, PyObject* key) {
  if (PySlice_Check(key)) return array_slice(self, key);
  Py_ssize_t index = 0;
  return index_of(key, index) ? array_item(self, index) : nullptr;
}

int array_assign(PyObject* self, PyObject* key, PyObject* value) {
  Py_ssize_t index = 0;
  if (!index_of(key, index)) return -1;
  return caught(
      [&] {
        author::Builder& builder = active();
        if (!value) throw WrongKind("registers of an array cannot be deleted");
        const author::Reg& reg = mine(reg_argument(value, "the value of a register array's element"), builder);
        const author::RegArray& array = self_of<author::RegArray>(self);
        if (array.count != 0) mine(element(array, 0), builder);
        assign(array, index, reg);
        return 0;
      },
      -1);
}

PyObject* array_regs(PyObject* self, PyObject*) { return PySequence_List(self); }

PyObject* array_hw_order(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (PyTuple_Size(args) != 0)
    return set_error(Phase::authoring, WrongKind("hw_order takes reverse= alone").why()), nullptr;
  PyObject* list = PySequence_List(self);
  PyObject* reverse = kwargs ? PyDict_GetItemString(kwargs, "reverse") : nullptr;
  if (list && reverse && PyObject_IsTrue(reverse) && PyList_Reverse(list) < 0) Py_CLEAR(list);
  return list;
}

PyObject* array_base(PyObject* self, void*) {
  return caught([&] { return text(self_of<author::RegArray>(self).base()); }, nullptr);
}
PyObject* array_count(PyObject* self, void*) { return PyLong_FromSsize_t(array_length(self)); }
PyObject* array_dtype(PyObject* self, void*) {
  return caught([&] { return type_object(self_of<author::RegArray>(self).type).release().ptr(); }, nullptr);
}
PyObject* array_repr(PyObject* self) {
  return caught(
      [&] {
        const author::RegArray& array = self_of<author::RegArray>(self);
        return text(cat("RegArray(", array.base(), "<", array.count, ">, ", info(array.type).name, ")"));
      },
      nullptr);
}

// An operator of a whole array: either side may be it.
template <char op>
PyObject* whole_array(PyObject* a, PyObject* b) {
  return caught(
      [&]() -> PyObject* {
        const auto* left = unbox<author::RegArray>(a);
        const std::string name = (left ? *left : self_of<author::RegArray>(b)).base();
        active().refuse(Code::operator_type, cat("`", op, "` takes one register; of the array ", name,
                                                 " it is written for each: v[i] = v[i] ", op, " x"));
      },
      nullptr);
}

PyGetSetDef array_fields[] = {{"base", array_base, nullptr, "The name that its registers share.", nullptr},
                              {"count", array_count, nullptr, "How many registers.", nullptr},
                              {"dtype", array_dtype, nullptr, "Their type.", nullptr},
                              {}};
PyMethodDef array_methods[] = {{"regs", array_regs, METH_NOARGS, "Its registers as a list."},
                               {"hw_order", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(array_hw_order)),
                                METH_VARARGS | METH_KEYWORDS, "Its registers as a list, last first with reverse=True."},
                               {}};
PyType_Slot array_slots[] = {PTX_SLOT(Py_tp_dealloc, dealloc<author::RegArray>),
                             PTX_SLOT(Py_tp_repr, array_repr),
                             {Py_tp_getset, array_fields},
                             {Py_tp_methods, array_methods},
                             PTX_SLOT(Py_sq_item, array_item),
                             PTX_SLOT(Py_sq_length, array_length),
                             PTX_SLOT(Py_mp_length, array_length),
                             PTX_SLOT(Py_mp_subscript, array_subscript),
                             PTX_SLOT(Py_mp_ass_subscript, array_assign),
                             PTX_SLOT(Py_nb_add, whole_array<'+'>),
                             PTX_SLOT(Py_nb_subtract, whole_array<'-'>),
                             PTX_SLOT(Py_nb_multiply, whole_array<'*'>),
                             PTX_SLOT(Py_nb_true_divide, whole_array<'/'>),
                             {0, nullptr}};

// NegPred, RegPart, PipeRef, AddressOperand ------------------------------------------------------------------------

PyObject* not_reg(PyObject* self, void*) { return box(self_of<author::Not>(self).reg, owner_of<author::Not>(self)); }
PyObject* not_invert(PyObject* self) { return not_reg(self, nullptr); }
PyObject* not_repr(PyObject* self) {
  return caught([&] { return text(cat("NegPred(", self_of<author::Not>(self).reg.name(), ")")); }, nullptr);
}
int not_truth(PyObject* self) {
  return caught(
      [&]() -> int {
        throw author::Refused({Diagnostic(Code::truth_of_register, author_place(),
                                          cat("predicate !", self_of<author::Not>(self).reg.name(),
                                              " has no value while the kernel is written; ", instead_of_truth))});
      },
      -1);
}
PyGetSetDef not_fields[] = {{"reg", not_reg, nullptr, "The predicate that is negated.", nullptr}, {}};
PyType_Slot not_slots[] = {PTX_SLOT(Py_tp_dealloc, dealloc<author::Not>),
                           PTX_SLOT(Py_tp_repr, not_repr),
                           PTX_SLOT(Py_nb_and, bit_and),
                           PTX_SLOT(Py_nb_or, bit_or),
                           PTX_SLOT(Py_nb_xor, bit_xor),
                           PTX_SLOT(Py_nb_invert, not_invert),
                           PTX_SLOT(Py_nb_bool, not_truth),
                           {Py_tp_getset, not_fields},
                           {0, nullptr}};

PyObject* part_negative(PyObject* self) {
  return box(author::minus(self_of<author::Part>(self)), owner_of<author::Part>(self));
}
PyObject* part_reg(PyObject* self, void*) { return box(self_of<author::Part>(self).reg, owner_of<author::Part>(self)); }
PyGetSetDef part_fields[] = {{"reg", part_reg, nullptr, "The register.", nullptr}, {}};
PyType_Slot part_slots[] = {PTX_SLOT(Py_tp_dealloc, dealloc<author::Part>),
                            PTX_SLOT(Py_nb_negative, part_negative),
                            {Py_tp_getset, part_fields},
                            {0, nullptr}};

PyObject* pair_left(PyObject* self, void*) {
  return box(self_of<author::Pair>(self).left, owner_of<author::Pair>(self));
}
PyObject* pair_right(PyObject* self, void*) {
  return box(self_of<author::Pair>(self).right, owner_of<author::Pair>(self));
}
PyGetSetDef pair_fields[] = {{"left", pair_left, nullptr, "The first destination.", nullptr},
                             {"right", pair_right, nullptr, "The second destination.", nullptr},
                             {}};
PyObject* pair_invert(PyObject* self) {
  return caught([&] { return active(), box(author::Not{author::either(self_of<author::Pair>(self))}); }, nullptr);
}
Py_ssize_t pair_length(PyObject*) { return 2; }
PyObject* pair_item(PyObject* self, Py_ssize_t i) {  // low, high = a < b
  if (i == 0) return pair_left(self, nullptr);
  if (i == 1) return pair_right(self, nullptr);
  return PyErr_SetString(PyExc_IndexError, "two destinations are 0 and 1"), nullptr;
}
PyType_Slot pair_slots[] = {PTX_SLOT(Py_tp_dealloc, dealloc<author::Pair>),
                            PTX_SLOT(Py_nb_and, bit_and),
                            PTX_SLOT(Py_nb_or, bit_or),
                            PTX_SLOT(Py_nb_xor, bit_xor),
                            PTX_SLOT(Py_nb_invert, pair_invert),
                            PTX_SLOT(Py_sq_length, pair_length),
                            PTX_SLOT(Py_sq_item, pair_item),
                            {Py_tp_getset, pair_fields},
                            {0, nullptr}};

PyObject* address_offset(PyObject* self, void*) { return PyLong_FromLongLong(self_of<author::Address>(self).offset); }
PyObject* address_unified(PyObject* self, void*) {
  author::Address made = self_of<author::Address>(self);
  made.unified = true;
  return box(made, owner_of<author::Address>(self));
}
PyGetSetDef address_fields[] = {{"offset", address_offset, nullptr, "Bytes from the base.", nullptr},
                                {"unified", address_unified, nullptr, "[a].unified", nullptr},
                                {}};
PyType_Slot address_slots[] = {
    PTX_SLOT(Py_tp_dealloc, dealloc<author::Address>), {Py_tp_getset, address_fields}, {0, nullptr}};

// a[1][i]: an element of a row of an array.
PyObject* compound_subscript(PyObject* self, PyObject* index) {
  return caught([&] { return element_of(self_of<author::Operand>(self), index).release().ptr(); }, nullptr);
}
PyType_Slot compound_slots[] = {
    PTX_SLOT(Py_tp_dealloc, dealloc<author::Operand>), PTX_SLOT(Py_mp_subscript, compound_subscript), {0, nullptr}};

template <class Value>
void add_type(nb::module_& m, const char* name, const char* qualified, PyType_Slot* slots, const char* doc) {
  PyType_Spec spec = {qualified, sizeof(Box<Value>), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  type_of<Value> = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!type_of<Value>) throw nb::python_error();
  m.attr(name) = nb::handle(reinterpret_cast<PyObject*>(type_of<Value>));
  m.attr(name).attr("__doc__") = doc;
}

template <class Value>
nb::object checked(const Value& value) {
  PyObject* made = box(value);
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

}  // namespace

nb::object make(const author::Reg& reg) {
  Returning::give(reg);
  return checked(reg);
}
nb::object make(const author::Reg& reg, Name called) {
  traced(*reg.builder).give(reg.id, called);
  return checked(reg);
}
nb::object make_all(std::span<const author::Reg> regs) {
  nb::list all;
  for (const author::Reg& reg : regs) {
    Returning::give(reg, all.size());
    all.append(checked(reg));
  }
  return nb::tuple(all);
}
nb::object wrapped(const author::Reg& reg) { return checked(reg); }
nb::object make(const author::RegArray& array) {
  Returning::give(array);
  return checked(array);
}
nb::object make(const author::Not& negated) { return checked(negated); }
nb::object make(const author::Part& part) { return checked(part); }
nb::object make(const author::Pair& pair) { return checked(pair); }
nb::object make(const author::Address& address) { return checked(address); }
nb::object make(const author::Operand& operand) { return checked(operand); }
const author::Reg* as_reg(nb::handle value) { return unbox<author::Reg>(value.ptr()); }
const author::RegArray* as_array(nb::handle value) { return unbox<author::RegArray>(value.ptr()); }
const author::Not* as_not(nb::handle value) { return unbox<author::Not>(value.ptr()); }
const author::Part* as_part(nb::handle value) { return unbox<author::Part>(value.ptr()); }
const author::Pair* as_pair(nb::handle value) { return unbox<author::Pair>(value.ptr()); }
const author::Operand* as_compound(nb::handle value) { return unbox<author::Operand>(value.ptr()); }
const author::Address* as_address(nb::handle value) { return unbox<author::Address>(value.ptr()); }

bool is_index(nb::handle value) { return PyIndex_Check(value.ptr()) && !as_reg(value); }

const author::Reg& reg_argument(nb::handle value, const char* what) {
  if (const author::Reg* reg = as_reg(value)) return *reg;
  throw WrongKind(cat(what, " is a register, not ", shown(value)));
}

void init_values(nb::module_& m) {
  add_type<author::Reg>(
      m, "Reg", "pyptx._core.Reg", reg_slots,
      R"(A register.  An operator writes one instruction, by the type of the left side, and gives a new register; `+=` and its like
change the left side.  A comparison gives a predicate.

Example:
    y = x * 4                             # mul.lo.s32
    y += 1                                # add.u32, in place
    p = y < n                             # setp.lt.u32
    ptx.inst.mov.u32(y, 0, pred=~p)       # @!%p0 mov.u32)");
  m.attr("Reg").attr("__array_ufunc__") = nb::none();  // numpy.int64(3) + reg is ours, not an array of objects
  add_type<author::RegArray>(m, "RegArray", "pyptx._core.RegArray", array_slots,
                             R"(Registers declared together.  Made by `reg.array`.

Example:
    v = reg.array(f32, 4)
    ptx.inst.ld.global_.v4.f32(list(v), ptx.addr(px))
    v[0] = a)");
  add_type<author::Not>(m, "NegPred", "pyptx._core.NegPred", not_slots,
                        R"(`~p`, the negation of a predicate, as a guard or an operand.

Example:
    ptx.inst.add.u32(x, x, 1, pred=~p)    # @!%p0 add.u32)");
  add_type<author::Part>(m, "RegPart", "pyptx._core.RegPart", part_slots,
                         R"(A part of a register, `x.b0` or `x.h1`, as an operand of the video instructions.

Example:
    ptx.inst.vadd.s32.u32.s32(y, x.b0, x.h1))");
  add_type<author::Pair>(m, "PipeRef", "pyptx._core.PipeRef", pair_slots,
                         R"(`a | b` of two destinations, one of which is a predicate.

Example:
    q = reg.scalar(pred)
    ptx.inst.setp.lt.u32(p | q, x, n)     # setp.lt.u32 %p0|%p1, ...)");
  m.def(
      "minus", [](nb::handle value) { return make(author::minus(reg_argument(value, "what vmad negates"))); },
      nb::arg("reg"), nb::sig("def minus(reg: Reg) -> RegPart"),
      R"(-reg, as an operand of vmad; a part of one is `-a.h0`.

Example:
    ptx.inst.vmad.s32.s32.s32(y, x, x, ptx.minus(y)))");
  add_type<author::Address>(m, "AddressOperand", "pyptx._core.AddressOperand", address_slots,
                            "[base + offset], as an operand.  Made by `ptx.addr`.");
  add_type<author::Operand>(m, "CompoundOperand", "pyptx._core.CompoundOperand", compound_slots,
                            "An operand of several parts.  Made by `ptx.bracket`.");
}

}  // namespace ptx::python
