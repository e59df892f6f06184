// Runs PTX text on the simulator for tests: arguments and results as hexadecimal.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ptx/ir/lower.h"
#include "ptx/sim/simulator.h"
#include "ptx/syntax/parse.h"

namespace sim_test {

struct Argument {
  std::string kind;      // in, out, inout, or a scalar type
  std::string value;     // hexadecimal, a number of bytes (out), or a number
  std::string expected;  // hexadecimal; empty: not compared
};

struct Fixture {
  std::string entry;
  ptx::launch::Dim3 grid, block, cluster;
  std::uint32_t dynamic_shared = 0;
  std::vector<Argument> arguments;
  std::string gpu;  // "no, reason"
};

struct Result {
  ptx::Diagnostics diagnostics;
  std::vector<std::string> outputs;  // of out and inout, hexadecimal
  ptx::sim::Statistics statistics;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::vector<std::string>> read_table(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::stringstream fields(line);
    std::string field;
    auto& row = rows.emplace_back();
    while (std::getline(fields, field, '\t')) row.push_back(field);
  }
  return rows;
}

inline std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return out;
}
inline std::string to_hex(std::span<const std::byte> bytes) {
  const char* digits = "0123456789abcdef";
  std::string out;
  for (std::byte b : bytes) out += digits[static_cast<int>(b) >> 4], out += digits[static_cast<int>(b) & 15];
  return out;
}

// "0000*3 ff" -> "000000000000ff"
inline std::string expand(const std::string& text) {
  std::stringstream groups(text);
  std::string group, out;
  while (groups >> group) {
    const auto star = group.find('*');
    const int times = star == group.npos ? 1 : std::stoi(group.substr(star + 1));
    for (int i = 0; i < times; ++i) out += group.substr(0, star);
  }
  return out;
}

inline ptx::launch::Dim3 dim(const std::string& text) {
  ptx::launch::Dim3 d;
  char comma;
  std::stringstream(text) >> d.x >> comma >> d.y >> comma >> d.z;
  return d;
}

inline Fixture parse_fixture(const std::string& text) {
  Fixture f;
  std::stringstream lines(text);
  std::string line;
  while (std::getline(lines, line) && line.starts_with("//")) {
    std::stringstream words(line.substr(2));
    std::string key, word;
    words >> key;
    if (key == "entry:") words >> f.entry;
    if (key == "gpu:") std::getline(words, f.gpu);
    while (key == "run:" && words >> word) {
      std::string value;
      words >> value;
      if (word == "grid") f.grid = dim(value);
      if (word == "block") f.block = dim(value);
      if (word == "cluster") f.cluster = dim(value);
      if (word == "smem") f.dynamic_shared = static_cast<std::uint32_t>(std::stoul(value));
    }
    if (key == "arg:") {
      Argument a;
      std::string rest;
      words >> a.kind;
      std::getline(words, rest);
      const auto equal = rest.find('=');
      const bool hex = a.kind == "in" || a.kind == "inout";
      std::stringstream value(rest.substr(0, equal));
      a.value = hex ? expand(value.str()) : (value >> word, word);
      if (equal != rest.npos) a.expected = expand(rest.substr(equal + 1));
      f.arguments.push_back(std::move(a));
    }
  }
  return f;
}

inline std::vector<std::byte> scalar(const Argument& a) {
  auto bytes = [](auto value) {
    std::vector<std::byte> out(sizeof value);
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  };
  if (a.kind == "f32") return bytes(std::strtof(a.value.c_str(), nullptr));
  if (a.kind == "f64") return bytes(std::strtod(a.value.c_str(), nullptr));
  const std::uint64_t number = a.value.starts_with("-") ? static_cast<std::uint64_t>(std::stoll(a.value))
                                                        : std::stoull(a.value, nullptr, a.kind[0] == 'b' ? 16 : 10);
  if (a.kind.ends_with("64")) return bytes(number);
  return bytes(static_cast<std::uint32_t>(number));
}

inline Result run(const std::string& text, const Fixture& fixture, ptx::sim::Options options = {}) {
  using namespace ptx;
  Result result;
  launch::Record record;
  record.entry = fixture.entry;
  record.grid = fixture.grid, record.block = fixture.block, record.cluster = fixture.cluster;
  record.dynamic_shared = fixture.dynamic_shared;
  struct alignas(256) Piece {
    std::byte bytes[256];
  };
  std::vector<std::vector<Piece>> memory;
  std::vector<launch::Buffer> buffers;
  std::vector<std::byte> block;
  auto append = [&](const void* bytes, std::size_t size) {
    block.resize((block.size() + size - 1) / size * size);
    block.insert(block.end(), static_cast<const std::byte*>(bytes), static_cast<const std::byte*>(bytes) + size);
  };
  for (const Argument& a : fixture.arguments) {
    if (a.kind != "in" && a.kind != "out" && a.kind != "inout") {
      const auto bytes = scalar(a);
      append(bytes.data(), bytes.size());
      continue;
    }
    const auto initial = a.kind == "out" ? std::vector<std::byte>(std::stoull(a.value)) : from_hex(a.value);
    memory.emplace_back(initial.size() / sizeof(Piece) + 1);
    std::memcpy(memory.back().data(), initial.data(), initial.size());
    launch::TensorArgument tensor;
    tensor.name = "argument " + std::to_string(record.tensors.size());
    tensor.output = a.kind == "out";
    record.tensors.push_back(std::move(tensor));
    buffers.push_back({memory.back().data(), {}, {}, initial.size(), a.kind == "out"});
    void* pointer = memory.back().data();
    append(&pointer, sizeof pointer);
    const auto offset = static_cast<std::uint32_t>(block.size() - sizeof pointer);
    const auto source = static_cast<std::uint32_t>(record.tensors.size() - 1);
    record.parameters.push_back({launch::Parameter::Kind::tensor, record.tensors.back().name, offset, 8, source});
  }
  sim::Simulator simulator(options);
  auto program = simulator.prepare(text, record);
  if (!program) return result.diagnostics = program.why(), result;
  const auto done = (*program)->run(record, block, buffers, nullptr);
  if (!done) result.diagnostics = done.why();
  result.statistics = sim::statistics();
  std::size_t i = 0;
  for (const Argument& a : fixture.arguments) {
    if (a.kind == "in" || a.kind == "out" || a.kind == "inout") {
      if (a.kind != "in") result.outputs.push_back(to_hex({memory[i].front().bytes, buffers[i].bytes}));
      ++i;
    }
  }
  return result;
}

}  // namespace sim_test
