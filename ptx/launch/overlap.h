// Tensors of a launch that lie in each other's memory. Calls are compiled with this header, and exported kernels
// (ptx/ahead) have the text of its first part, which is C99 and C++20 alike, so that both refuse the same.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <string_view>

#include "ptx/launch/record.h"

namespace ptx::launch {

enum { overlap_why_bytes = 512 };

typedef struct {
  const char* name;
  uintptr_t begin, end; /* of its first byte, and behind its last */
  int full;             /* there are no gaps between its elements */
  int twice;            /* some of its elements are the same memory: a stride is 0 */
  int output, written;  /* `written`: the kernel writes it, as it does each output */
} TensorMemory;

/* strides are in elements; none: the tensor is packed. bits: of an element. */
static inline TensorMemory memory_of(const char* name, const void* data, int rank, const int64_t* shape,
                                     const int64_t* strides, unsigned bits, int output, int written) {
  TensorMemory made = {name, (uintptr_t)data, (uintptr_t)data, 1, 0, output, written};
  int64_t elements = 1, reach = 1;
  for (int i = 0; i < rank; ++i) {
    elements *= shape[i];
    if (!strides) continue;
    reach += (shape[i] - 1) * strides[i];
    made.twice |= shape[i] > 1 && strides[i] == 0;
  }
  if (elements == 0 || !strides) reach = elements;
  made.end += ((uintptr_t)reach * bits + 7) / 8;
  made.full = reach == elements;
  made.twice &= elements != 0;
  return made;
}

/* The rule of torch's operators: 0, or 1 + the tensor that is refused, with `why`. An output may have exactly the
   memory of an input: the kernel then works in place. It may not overlap a part of an input, because other threads
   could read old or new values there. Memory with gaps (every other column) is not judged, as torch does not judge it.
   Two inputs that are written are the author's business. `copy` says how one makes a copy. */
static inline int refuse_overlap(const TensorMemory* tensors, int count, const char* copy, char* why) {
  for (int i = 0; i < count; ++i) {
    const TensorMemory* a = &tensors[i];
    if (!a->output && !a->written) continue;
    if (a->twice) {
      snprintf(why, overlap_why_bytes,
               "several of its elements are the same memory (a stride is 0), and the kernel writes them: pass a copy%s",
               copy);
      return i + 1;
    }
    for (int j = 0; j < count; ++j) {
      const TensorMemory* b = &tensors[j];
      if (a->begin >= b->end || b->begin >= a->end || j == i || !a->full || !b->full) continue;
      const int both = a->output ? b->output : !b->output && b->written; /* are written */
      const int same = a->begin == b->begin && a->end == b->end;
      const int empty = a->begin == a->end || b->begin == b->end;
      if (empty || (both ? !a->output || j < i : same)) continue;
      const char* const how = same ? "it is the memory of" : "it shares a part of its memory with";
      if (both)
        snprintf(why, overlap_why_bytes, "%s `%s`, which is written, too: pass a tensor of its own", how, b->name);
      else
        snprintf(why, overlap_why_bytes, "%s `%s`, and the kernel writes it: pass a copy%s of one of them", how,
                 b->name, copy);
      return i + 1;
    }
  }
  return 0;
}

}  // namespace ptx::launch

namespace ptx::launch {

std::string_view overlap_in_c();  // the first part, for programs of C

// Whether a record says which inputs are written. One of C++ says of every input that it may be, and so says nothing.
bool tells_written_inputs(const Record& record);

}  // namespace ptx::launch
