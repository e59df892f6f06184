// Functions of other headers from the C++ face: the kernel is told the author's line, then the function is called.
#include <source_location>

#include "ptx/author/barrier.h"
#include "ptx/author/copy.h"
#include "ptx/author/kernel.h"
#include "ptx/author/matrix.h"
#include "ptx/author/shared.h"
#include "ptx/author/tcgen05.h"
#include "ptx/author/warp.h"

namespace ptx::author {
namespace {

Builder& told(Kernel& kernel, const std::source_location& at) {
  kernel.set_place(at);
  return kernel;
}

}  // namespace

Shared shared(Kernel& k, isa::Type type, std::vector<std::int64_t> shape, Swizzle swizzle, std::uint32_t align,
              std::string_view name, std::source_location at) {
  return shared(told(k, at), type, std::move(shape), swizzle, align, name);
}
Shared wgmma_tile(Kernel& k, isa::Type type, std::vector<std::int64_t> shape, bool mn_major, std::uint32_t align,
                  std::string_view name, std::source_location at) {
  return wgmma_tile(told(k, at), type, std::move(shape), mn_major, align, name);
}
Barriers barriers(Kernel& k, std::int64_t count, std::string_view name, std::source_location at) {
  return barriers(told(k, at), count, name);
}
Reg shared_base(Kernel& k, std::string_view symbol, std::source_location at) {
  return shared_base(told(k, at), symbol);
}
void kloop(Kernel& k, const Operand& total, std::uint32_t unroll, const std::function<void()>& body,
           std::string_view label, std::source_location at) {
  kloop(told(k, at), total, unroll, body, label);
}
Pipeline pipeline(Kernel& k, std::uint32_t stages, std::optional<Reg> cursor, std::optional<Reg> phase,
                  std::source_location at) {
  return pipeline(told(k, at), stages, cursor, phase);
}

// The rows of a family: `parameters` is a sequence (type, name)(type, name)..., of which one chain of macros makes the
// declarations and another the names.
#define PTX_END(...) PTX_ENDED(__VA_ARGS__)
#define PTX_ENDED(...) __VA_ARGS__##_END
#define PTX_DECLARED_A(type, name) const type &name, PTX_DECLARED_B
#define PTX_DECLARED_B(type, name) const type &name, PTX_DECLARED_A
#define PTX_DECLARED_A_END
#define PTX_DECLARED_B_END
#define PTX_NAMED_A(type, name) name, PTX_NAMED_B
#define PTX_NAMED_B(type, name) name, PTX_NAMED_A
#define PTX_NAMED_A_END
#define PTX_NAMED_B_END
#define FAMILY(name, doc)
#define INSTRUCTION(...)
#define WRITES(...)
#define ARG(type, name, doc) (type, name)
#define WORD(name, mnemonic, slot, doc) (Modifier, name)
#define OPT(type, name, value, doc)
#define KEY(type, name, value, doc)
#define MODIFIER(name, value, mnemonic, slot, doc)
#define FUNCTION(function, result, parameters, doc, section)                                           \
  result function(Kernel& kernel, PTX_END(PTX_DECLARED_A parameters) const options::function& options, \
                  std::source_location line) {                                                         \
    return function(told(kernel, line), PTX_END(PTX_NAMED_A parameters) options);                      \
  }
#define HELPER FUNCTION

namespace mbarrier {
#include "ptx/author/families/mbarrier.def"
}
namespace barrier_slot {
#include "ptx/author/families/barrier_slot.def"
}
namespace barrier_array {
#include "ptx/author/families/barrier_array.def"
}
namespace tensor_copy {
#include "ptx/author/families/tensor_copy.def"
}
namespace wgmma {
#include "ptx/author/families/wgmma.def"
}
namespace mma {
#include "ptx/author/families/mma.def"
}
namespace matrix {
#include "ptx/author/families/matrix.def"
}
namespace tcgen05 {
#include "ptx/author/families/tcgen05.def"
}
namespace warp {
#include "ptx/author/families/warp.def"
}
namespace cluster {
#include "ptx/author/families/cluster.def"
}

}  // namespace ptx::author
