// PTX to the source that writes it: ir -> Python, ir -> C++. The source is formatted, imports what it uses, and as a
// program prints its PTX. Run, it writes the module again: without sugar the text of `ir::emit`, byte for byte; with
// sugar that text but for the names of registers and labels. Comments become comments at their statement.
//
// Nothing here judges or runs anything: the module is legal (`check` says so), and whoever runs the source compares.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ptx/base/expected.h"
#include "ptx/ir/ir.h"
#include "ptx/syntax/tree.h"

namespace ptx::transpile {

// The steps by which a program rises above one call for each instruction; each includes those before it.
enum class Sugar : std::uint8_t {
  none,
  names,  // registers by what they hold, declared where they are first written
  flow,   // if, else and loops out of labels and branches
  all,    // expressions, repetitions as loops, arrays of registers
};

// A parameter that is a tensor: a pointer, a=bf16[M,K], or with a box the tensor map of one.
struct Argument {
  std::string name;                // the parameter's, or the program's for the next parameter that is a pointer
  std::string element;             // "": what the kernel loads and stores there
  std::vector<std::string> shape;  // sizes and names of sizes
  bool written = false;            // the kernel writes it; so does one that is seen to
  std::vector<std::string> box{};  // of the tensor map
  std::string swizzle{};           // "128B"
};

struct Options {
  Sugar sugar = Sugar::none;
  std::string name{};   // of the Python or C++ function of the only (or chosen) kernel; "": as in PTX
  std::string entry{};  // this kernel alone, with what the module has beside kernels; "": all
  // The tensors of the only kernel, and expressions for its grid and block: the Python kernel can be called then.
  std::vector<Argument> arguments{};
  std::string grid{}, block{};
  // Each pointer that `arguments` do not name, and that the kernel loads from or stores to, is a vector.
  bool launch = false;
};

// What `options.entry` leaves of a module.
Expected<ir::Module> chosen(ir::Module module, const Options& options);

// `tree` gives the comments. Refused (bad_argument) if there is no entry of that name, or no one entry to be named.
Expected<std::string> to_python(const syntax::Tree& tree, const Options& options = {});
Expected<std::string> to_cpp(const syntax::Tree& tree, const Options& options = {});

}  // namespace ptx::transpile
