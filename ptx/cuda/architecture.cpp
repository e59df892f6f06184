// Which code a device runs.
#include "ptx/arch/target.h"
#include "ptx/base/text.h"
#include "ptx/cuda/executor.h"

namespace ptx::cuda {

Expected<std::string> architecture(std::string_view target, int major, int minor) {
  const auto code = arch::target_named(target);
  if (!code) return Diagnostic(Code::target_mismatch, Place{}, cat("`", target, "` is not a target such as sm_90a"));
  const int device = major * 10 + minor;
  if (const auto assembled = arch::assembled_for(*code, device)) return arch::to_string(*assembled);
  const std::string_view rule = code->suffix == 'a'   ? "; targets that end in `a` run on their own architecture alone"
                                : code->suffix == 'f' ? "; targets that end in `f` run on their own family"
                                                      : "";
  return Diagnostic(Code::target_mismatch, Place{},
                    cat("a kernel for ", target, " does not run on this device, which is sm_", device, rule));
}

}  // namespace ptx::cuda
