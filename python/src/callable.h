// Types of Python whose objects are called by vectorcall and hold a state of C++, within the stable ABI.
#pragma once

#include <cstddef>
#include <utility>

#include "python/src/module.h"

namespace ptx::python {

template <class State>
struct Callable {
  PyObject_HEAD vectorcallfunc call;
  State* state;

  static Callable* cast(PyObject* object) { return reinterpret_cast<Callable*>(object); }
};

template <class State>
State& state_of(PyObject* object) {
  return *Callable<State>::cast(object)->state;
}

// `State` is made without arguments, and has `int traverse(visitproc visit, void* arg) const`, which visits the objects
// of Python that it holds.
template <class State, vectorcallfunc function>
class CallableType {
 public:
  // `name` with its module; a new reference, or null with a Python error set.
  static PyTypeObject* make(const char* name, const char* doc) {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Callable<State>, call), Py_READONLY, nullptr}, {}};
    PyType_Slot slots[] = {
        {Py_tp_doc, const_cast<char*>(doc)},
        {Py_tp_new, reinterpret_cast<void*>(create)},
        {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
        {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
        {Py_tp_clear, reinterpret_cast<void*>(clear)},
        {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
        {Py_tp_members, members},
        {0, nullptr},
    };
    PyType_Spec spec = {name, sizeof(Callable<State>), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                        slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }

 private:
  static PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* const self = allocate(type, 0);
    if (self == nullptr) return nullptr;
    Callable<State>::cast(self)->call = function;
    Callable<State>::cast(self)->state = new State;
    return self;
  }
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(reinterpret_cast<PyObject*>(Py_TYPE(self)));
    const State* const state = Callable<State>::cast(self)->state;
    return state == nullptr ? 0 : state->traverse(visit, arg);
  }
  static int clear(PyObject* self) {
    State*& state = Callable<State>::cast(self)->state;
    if (state != nullptr) delete std::exchange(state, new State);
    return 0;
  }
  static void destroy(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    delete std::exchange(Callable<State>::cast(self)->state, nullptr);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(reinterpret_cast<PyObject*>(type));
  }
};

}  // namespace ptx::python
