// A kernel of C++ as C sources, in one call: what Kernel.export is in Python.
//
//   ptx::Program axpy(built, {ptx::tensor("x", ptx::Element::f32, {"n"}), ptx::output("y", ptx::Element::f32, {"n"})},
//                     {.block = {128}});
//   ptx::ahead::save(axpy, "generated", {.grid = {"(n + 127) / 128"}, .targets = {"sm_80", "sm_90"}});
//
// throws Refused where it cannot be.
#pragma once

#include <filesystem>
#include <vector>

#include "ptx/ahead/source.h"
#include "ptx/interop/program.h"

namespace ptx::ahead {

struct Options {
  std::string name{};                  // of the files and the functions; empty: the kernel's
  std::array<Expression, 3> grid{};    // from the sizes; an empty one is the program's own number
  std::vector<std::string> targets{};  // of the machine code; empty: the kernel's own
  bool ptx = true;                     // later devices get the text, unless the target is an `a` or `f` one
  std::vector<Flavour> flavours{};
};

std::vector<File> sources(const interop::Program& program, const Options& options = {});

// Writes them to the folder, which is made where it is missing. What is there and the same is not touched.
std::vector<std::filesystem::path> save(const interop::Program& program, const std::filesystem::path& folder,
                                        const Options& options = {});

}  // namespace ptx::ahead
