// What torch is doing at the moment of a call (modes that see operators, gradients, forward-mode differentiation), and
// what its tensors say of themselves. Every call that has a tensor of torch asks, so each is asked in the cheapest way
// that there is. Not to be called before torch is loaded: a tensor of it is.
#pragma once

#include "ptx/interop/dlpack.h"
#include "python/src/module.h"

namespace ptx::python {

// Whether operators belong to somebody who wants to see them: make_fx, FakeTensorMode and other modes of
// __torch_dispatch__, and torch.jit.trace, to which a result without an operator is a constant.
[[gnu::hot]] bool modes_on();

[[gnu::hot]] bool gradients_on();

// Whether a transformation of torch.func is open, which wants an autograd.Function of its own kind.
bool transforms_on();

// Whether tensors may carry tangents: a level of torch.autograd.forward_ad is open.
[[gnu::hot]] bool tangents_on();
bool has_tangent(PyObject* tensor);

// Whether a tensor requires a gradient: 1 or 0; -1 where this release of torch has to be asked in Python. `tensor` is a
// torch.Tensor, or of a subclass whose attributes run no Python.
[[gnu::hot]] int requires_gradient(PyObject* tensor);

// The view of such an object that torch's exchange API gives, at a third of the time. False where the exchange
// API has to be asked: for tensors that are not simply memory (sparse ones, wrappers of torch.func), and until
// `learn_view` was shown one of its element type and device.
[[gnu::hot]] bool view_of(PyObject* tensor, interop::DLTensor& view);
void learn_view(PyObject* tensor, const interop::DLTensor& view);

// Its address and device alone, for a tensor that was just made: the rest is known.
[[gnu::hot]] bool place_of(PyObject* tensor, interop::DLTensor& view);

// Tells autograd that such an object was written: what was saved of it for a backward is not what it holds now.
void mark_written(PyObject* tensor);

}  // namespace ptx::python
