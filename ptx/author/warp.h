// Functions of warps and clusters that are more than an instruction; k.bar(sync, 0), k.elect(...) are instructions.
// Their rows are families/warp.def and cluster.def.
#pragma once

#include "ptx/author/builder.h"
#include "ptx/author/modifiers.h"

namespace ptx::author {

namespace warp {
#define PTX_FAMILY "ptx/author/families/warp.def"
#include "ptx/author/families/declare.def"
}  // namespace warp

namespace cluster {
#define PTX_FAMILY "ptx/author/families/cluster.def"
#include "ptx/author/families/declare.def"
}  // namespace cluster

}  // namespace ptx::author
