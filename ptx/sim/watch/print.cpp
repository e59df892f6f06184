#include "ptx/sim/watch/print.h"

#include <cstdio>

#include "ptx/base/text.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

void print_line(Warp& w, std::uint32_t pc, int lane, std::string text) {
  Launch& launch = w.cta.launch;
  const Printed line{w.cta.id, thread_id(w, lane), launch.program.places[pc], std::move(text)};
  const std::lock_guard lock(launch.mutex);
  if (Recording* const r = launch.options.recording.get()) {
    const std::lock_guard found(r->mutex);
    r->prints.push_back(line);
  }
  if (launch.options.print) return launch.options.print(line);
  const std::string shown = to_string(line) + '\n';
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

}  // namespace

std::string to_string(const Printed& line) {
  const std::string_view file = line.place.file.view();
  return cat(file.empty() ? "line " : file, file.empty() ? "" : ":", line.place.line, ": thread ", triple(line.thread),
             " of CTA ", triple(line.cta), ": ", line.text);
}

void prints(Warp& w, std::uint32_t pc, int lane, const std::string& text, bool held) {
  if (text.empty()) return;
  Unprinted& rest = w.unprinted[lane];
  if (rest.text.empty()) rest.pc = pc;
  rest.text += text;
  if (held) return;
  for (std::size_t end; (end = rest.text.find('\n')) != std::string::npos;) {
    std::string line = rest.text.substr(0, end);
    rest.text.erase(0, end + 1);
    print_line(w, rest.pc, lane, std::move(line));
    rest.pc = pc;
  }
}

void print_rest(Warp& w, Mask lanes_left) {
  for (auto& [lane, rest] : w.unprinted) {
    if (!(lanes_left >> lane & 1) || rest.text.empty()) continue;
    if (rest.text.back() == '\n') rest.text.pop_back();
    print_line(w, rest.pc, lane, std::exchange(rest.text, {}));
  }
}

std::string failed_check(Warp& w, std::uint32_t pc, int lane) {
  const auto found = w.unprinted.find(lane);
  if (found == w.unprinted.end()) return {};
  auto& [at, text] = found->second;
  constexpr std::string_view says = "check failed: ";
  const auto begin = text.find(says);
  const Program& program = w.cta.launch.program;
  const bool near = program.places[at] == program.places[pc] || (pc > at && pc - at < 8);  // of a text without lines
  if (begin == text.npos || !near) return {};
  std::string said = text.substr(begin + says.size());
  while (!said.empty() && said.back() == '\n') said.pop_back();
  text.clear();
  return said;
}

bool is_check_text(const Launch& launch, std::uint64_t address) {
  const Range* range = launch.memory.find(address);
  return range && range->name.find("_check_text_") != std::string::npos;
}

}  // namespace ptx::sim
