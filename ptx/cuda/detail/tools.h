// Finding the toolkit's libraries and programs, and running the programs. Internal to this room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/base/expected.h"
#include "ptx/cuda/assembler.h"

namespace ptx::cuda {

// Paths of existing files called `name`, best first: in the Python packages of `search` that hold CUDA files, then, for
// programs, in the toolkit of $CUDA_HOME or $CUDA_PATH and on PATH, then under /usr/local/cuda and /usr/local/cuda-*.
// Each file once, however many names it has.
std::vector<std::string> find_files(const Search& search, std::string_view name, bool program);

struct Finished {
  int status = 0;      // of exit; 128 + signal where one ended it
  std::string output;  // stdout and stderr together, the first 16 MiB
};

// A program that runs, with nothing to read. It is started by the constructor, without a shell; one that is not waited
// for is killed.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  // Waits for its end. Refused, with `code`: it did not start, or has not ended within `seconds` and was killed.
  Expected<Finished> finish(Code code, double seconds);

 private:
  int wait_until(std::int64_t deadline);

  std::string program_, failure_;
  int pid_ = 0, output_ = -1;
};

Expected<Finished> run_program(std::vector<std::string> arguments, Code code, double seconds);

// A folder under the system's temporary one, removed with what it holds when this object dies.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& folder() const { return folder_; }  // empty: none could be made
  const std::string& where() const { return where_; }    // the system's temporary folder
  std::string file(std::string_view name) const;

 private:
  std::string folder_, where_;
};

// The newest release first, by all three numbers; of equal ones the one that was found first. What cannot be used goes
// last.
void newest_first(std::vector<FoundAssembler>& found);

bool write_file(const std::string& path, std::string_view bytes);
std::string read_file(const std::string& path);

}  // namespace ptx::cuda
