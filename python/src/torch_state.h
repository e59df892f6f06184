// What torch is doing at the moment of a call: modes that see operators, gradients, forward-mode differentiation. Each
// is asked of torch at every call that has a tensor of torch, so each is asked in the cheapest way that there is.
#pragma once

#include "python/src/module.h"

namespace ptx::python {

// Whether operators belong to somebody who wants to see them: make_fx, FakeTensorMode and other modes of
// __torch_dispatch__.
[[gnu::hot]] bool modes_on();

[[gnu::hot]] bool gradients_on();

// Whether tensors may carry tangents: a level of torch.autograd.forward_ad is open.
[[gnu::hot]] bool tangents_on();
bool has_tangent(PyObject* tensor);

}  // namespace ptx::python
