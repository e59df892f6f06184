// `ptx.inst`: a tree of mnemonics grown on first use. A node is one spelled prefix ("ld.global"); `node.f32` is a
// look-up in the node's own dict after the first time, and calling a node emits its mnemonic, resolved once. A raw
// type, not a nanobind class: attribute and call are the hottest path of tracing.
#include <cstddef>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/isa/form.h"
#include "ptx/isa/spelling.h"
#include "python/src/trace.h"

namespace ptx::python {
namespace {

struct Node {
  PyObject_HEAD vectorcallfunc call;
  PyObject* children;             // attribute name -> Node
  const isa::Mnemonic* mnemonic;  // null at the root
};

PyTypeObject* node_type = nullptr;

Node* cast(PyObject* object) { return reinterpret_cast<Node*>(object); }
std::string_view text_of(const Node* node) { return node->mnemonic ? std::string_view(node->mnemonic->text) : ""; }

std::vector<std::string> attributes_after(const Node* node) {
  std::vector<std::string> names;
  if (!node->mnemonic) {
    for (std::string_view opcode : isa::opcodes()) names.push_back(isa::python_name(opcode));
  } else {
    for (std::string_view modifier : isa::next_modifiers(text_of(node))) names.push_back(isa::python_name(modifier));
  }
  return names;
}

PyObject* impossible(const Node* node, std::string_view attribute) {
  Text text;
  text << "ptx.inst." << text_of(node) << " takes no ." << isa::from_python(attribute);
  const auto names = attributes_after(node);
  text << (names.empty() ? "; nothing follows it" : "; legal next: ");
  for (std::size_t i = 0; i < names.size(); ++i) text << (i ? ", " : "") << names[i];
  PyErr_SetString(PyExc_AttributeError, text.take().c_str());
  return nullptr;
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* names) {
  Node* node = cast(self);
  if (!node->mnemonic) {
    set_error(Phase::authoring, WrongKind("ptx.inst is called with an instruction: ptx.inst.add.u32(d, a, b)").why());
    return nullptr;
  }
  return emit(*node->mnemonic, args, static_cast<std::size_t>(PyVectorcall_NARGS(flagged)), names);
}

PyObject* make_node(const isa::Mnemonic* mnemonic) {
  auto* node = PyObject_GC_New(Node, node_type);
  if (!node) return nullptr;
  node->call = vectorcall;
  node->mnemonic = mnemonic;
  node->children = PyDict_New();
  if (!node->children) {
    Py_DECREF(node);
    return nullptr;
  }
  PyObject_GC_Track(node);
  return reinterpret_cast<PyObject*>(node);
}

// An opcode whose rows are there takes only what some row takes; one without rows takes anything, and the call says so.
bool possible(const Node* node, std::string_view modifier) {
  if (!node->mnemonic || !node->mnemonic->known_opcode) return true;
  for (std::string_view next : isa::next_modifiers(text_of(node)))
    if (next == modifier) return true;
  return false;
}

PyObject* grow(Node* node, PyObject* name) {
  Py_ssize_t size = 0;
  const char* attribute = PyUnicode_AsUTF8AndSize(name, &size);
  if (!attribute) return nullptr;
  const std::string_view view(attribute, static_cast<std::size_t>(size));
  const bool private_name = view.size() > 1 && view[0] == '_' && (view[1] < '0' || view[1] > '9');
  if (private_name) return PyObject_GenericGetAttr(reinterpret_cast<PyObject*>(node), name);
  const std::string modifier = isa::from_python(view);
  if (!possible(node, modifier)) return impossible(node, view);
  const auto* mnemonic = isa::resolve(node->mnemonic ? cat(node->mnemonic->text, ".", modifier) : modifier);
  PyObject* child = make_node(mnemonic);
  if (child && PyDict_SetItem(node->children, name, child) < 0) Py_CLEAR(child);
  return child;
}

PyObject* getattro(PyObject* self, PyObject* name) {
  Node* node = cast(self);
  if (PyObject* child = PyDict_GetItemWithError(node->children, name)) {
    Py_INCREF(child);
    return child;
  }
  if (PyErr_Occurred()) return nullptr;
  return grow(node, name);
}

PyObject* repr(PyObject* self) {
  const std::string text = cat("<ptx.inst", cast(self)->mnemonic ? "." : "", text_of(cast(self)), ">");
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* dir(PyObject* self, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const std::string& name : attributes_after(cast(self))) {
    PyObject* item = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
    const bool bad = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    if (bad) {
      Py_DECREF(list);
      return nullptr;
    }
  }
  return list;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cast(self)->children);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(cast(self)->children);
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {{"__dir__", dir, METH_NOARGS, "Legal continuations."},
                         {"_raw_emit", raw_emit, METH_O, "Appends PTX text as it stands."},
                         {}};
PyMemberDef members[] = {{"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Node, call), Py_READONLY, nullptr}, {}};
PyType_Slot slots[] = {{Py_tp_getattro, reinterpret_cast<void*>(getattro)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_repr, reinterpret_cast<void*>(repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {0, nullptr}};
PyType_Spec spec = {"pyptx._core.Inst", sizeof(Node), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

void init_inst(nb::module_& m) {
  node_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!node_type) throw nb::python_error();
  nb::handle(reinterpret_cast<PyObject*>(node_type)).attr("__doc__") =
      R"(Any instruction, spelled as PTX does: modifiers in order, `::` as `__`, a leading `_` before a digit, a trailing `_` after
a word of Python.  The call gives the operands, and `pred=` the guard; it returns the first operand.

Example:
    v = reg.scalar(f32)
    ptx.inst.ld.global_.f32(v, ptx.addr(px))
    ptx.inst.fma.rn.f32(v, v, a, 0.5, pred=p)
    ptx.inst.fence.acq_rel.gpu())";
  m.attr("inst") = nb::steal(make_node(nullptr));
}

}  // namespace ptx::python
