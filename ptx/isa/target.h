// What a form or a modifier needs: a PTX version and targets (manual 11.1.1, 11.1.2). Targets themselves are
// arch/target.h.
#pragma once

#include "ptx/arch/target.h"

namespace ptx::isa {

using arch::all_targets;
using arch::exists;
using arch::first_version;
using arch::meets;
using arch::Target;
using arch::target_named;
using arch::to_string;
using arch::Version;

// "7.8 sm_90" or "8.6 sm_100f sm_120a": this PTX version, and any one of these targets.
// A plain target stands for itself and all later ones; `a` for itself alone; `f` for its family from it on.
struct Requirement {
  Version version{1, 0};
  Target targets[6] = {};  // unused ones have number 0; none used = every target
};
bool meets(Target have, const Requirement& need);  // targets only
std::string to_string(const Requirement& need);

}  // namespace ptx::isa
