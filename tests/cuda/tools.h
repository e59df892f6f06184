// Shared by the tests of this room: where assemblers may lie, and kernels to assemble.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "ptx/cuda/assembler.h"

// The package folders of the checkout's virtual environment, and those that PTX_TEST_PACKAGES names (colon-separated).
inline ptx::cuda::Search test_search() {
  namespace fs = std::filesystem;
  ptx::cuda::Search search;
  const char* named = std::getenv("PTX_TEST_PACKAGES");
  for (std::string_view rest = named != nullptr ? named : ""; !rest.empty();) {
    const auto colon = rest.find(':');
    search.packages.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(colon == rest.npos ? rest.size() : colon + 1);
  }
  std::error_code none;
  for (const auto& python : fs::directory_iterator(fs::path(PTX_SOURCE_DIR) / ".venv/lib", none))
    search.packages.push_back((python.path() / "site-packages").string());
  return search;
}

inline constexpr std::string_view good_ptx = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 a)
{
	.reg .u64 %rd<2>;
	ld.param.u64 %rd0, [a];
	st.global.u32 [%rd0], 7;
	ret;
}
)";

inline constexpr std::string_view bad_ptx = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry bad(.param .u64 a)
{
	.reg .f32 %f<4>;
	.reg .u32 %r<4>;
	add.f32 %f1, %f2;
	add.f32 %f1, %f2, %f3;
	foo.u32 %r1, %r2;
	ret;
}
)";

// Its register count at entry is known, without which every assembler drops setmaxnreg.
inline constexpr std::string_view register_budgets_ptx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry budgets(.param .u64 a)
.maxntid 384,1,1
.minnctapersm 1
{
	.reg .u64 %rd<2>;
	setmaxnreg.dec.sync.aligned.u32 24;
	ld.param.u64 %rd0, [a];
	st.global.u32 [%rd0], 7;
	setmaxnreg.inc.sync.aligned.u32 240;
	ret;
}
)";
