// pyptx in one include: write PTX by hand, read any PTX, check it, run it with and without a GPU. In the order of use;
// each header stands alone and says what it does.
#pragma once

// What hardware is: targets and their sizes.
#include "ptx/arch/target.h"

// What may be said: the ISA as rows, types, targets, special registers.
#include "ptx/isa/form.h"
#include "ptx/isa/target.h"
#include "ptx/isa/types.h"

// Reading text: a tree that prints back every byte, or in one layout.
#include "ptx/syntax/format.h"
#include "ptx/syntax/parse.h"
#include "ptx/syntax/print.h"

// What a program is: modules, functions, instructions; from a tree, and to text.
#include "ptx/ir/ir.h"
#include "ptx/ir/lower.h"

// Whether it is legal, and what follows from it: reads and writes, control flow, liveness.
#include "ptx/analysis/access.h"
#include "ptx/analysis/flow.h"
#include "ptx/analysis/liveness.h"
#include "ptx/analysis/memory.h"
#include "ptx/check/check.h"
#include "ptx/lint/lint.h"

// Writing: a kernel as a C++ lambda, one method a mnemonic; literals checked at compile time.
#include "ptx/author/function.h"
#include "ptx/author/kernel.h"
#include "ptx/author/literal.h"
#include "ptx/author/shared.h"
#include "ptx/author/variable.h"

// Families of instructions with more to them than their text.
#include "ptx/author/barrier.h"
#include "ptx/author/copy.h"
#include "ptx/author/matrix.h"
#include "ptx/author/tcgen05.h"
#include "ptx/author/warp.h"

// Running: a kernel with its signature, on tensors; below it what a launch is, and who runs it.
#include "ptx/cuda/assemblers.h"
#include "ptx/cuda/executor.h"
#include "ptx/interop/program.h"
#include "ptx/launch/executor.h"
#include "ptx/launch/record.h"
#include "ptx/launch/signature.h"
#include "ptx/sim/explore.h"
#include "ptx/sim/fragments.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/simulator.h"
#include "ptx/sim/stop.h"

// From PTX back to the program that writes it.
#include "ptx/transpile/transpile.h"

// Ahead of time: a kernel as C sources.
#include "ptx/ahead/export.h"

// The names of every program that runs a kernel.
namespace ptx {
using author::Refused;
using interop::device_view, interop::view;
using interop::Entry, interop::Program;
using launch::Element, launch::Signature;
using launch::output, launch::scalar, launch::tensor;
}  // namespace ptx
