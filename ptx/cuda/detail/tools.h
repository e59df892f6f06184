// Finding the toolkit's libraries and programs, and running the programs. Internal to this room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/expected.h"
#include "ptx/cuda/assembler.h"

namespace ptx::cuda {

// Paths of existing files called `name`, best first: in the Python packages of `search` that hold CUDA files, then (for
// programs) on PATH, then under /usr/local/cuda.
std::vector<std::string> find_files(const Search& search, std::string_view name, bool program);

struct Finished {
  int status = 0;      // of exit; 128 + signal where one ended it
  std::string output;  // stdout and stderr together
};

// Runs a program to its end. Expected is empty (with `code`) only where it could not be started.
Expected<Finished> run_program(const std::vector<std::string>& arguments, Code code);

// A folder under the system's temporary one, removed with what it holds when this object dies.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& folder() const { return folder_; }  // empty: none could be made
  std::string file(std::string_view name) const;

 private:
  std::string folder_;
};

bool write_file(const std::string& path, std::string_view bytes);
std::string read_file(const std::string& path);

}  // namespace ptx::cuda
