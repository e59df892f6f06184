// What ptx/sim/fragments.h answers from: each file's own plans of its instructions, as tables.
#pragma once

#include <vector>

#include "ptx/isa/form.h"
#include "ptx/sim/fragments.h"

namespace ptx::sim {

std::vector<FragmentTable> mma_fragments(const isa::Match& match);      // mma.cpp: mma, mma.sp, wmma.mma
std::vector<FragmentTable> rows_fragments(const isa::Match& match);     // matrix_memory.cpp: ldmatrix, stmatrix
std::vector<FragmentTable> movmatrix_fragments();                       // there, too
std::vector<FragmentTable> strided_fragments(const isa::Match& match);  // wmma.load, wmma.store
std::vector<FragmentTable> wgmma_fragments(const isa::Match& match);    // wgmma.cpp: wgmma.mma_async
std::vector<FragmentTable> tensor_fragments(const isa::Match& match);   // tensor_access.cpp: tcgen05.ld, tcgen05.st

// Fills `table.at` with what `place(thread, element)` gives.
template <class F>
FragmentTable filled(FragmentTable table, F place) {
  for (int thread = 0; thread < table.threads; ++thread)
    for (int i = 0; i < table.elements(); ++i) table.at.push_back(place(thread, i));
  return table;
}

}  // namespace ptx::sim
