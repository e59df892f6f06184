// Reads the log of ptxas, nvJitLink or the driver's JIT: the three write the same lines,
//   ptxas FILE, line 8; error   : Arguments mismatch for instruction 'add'
//   ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
//   ptxas info    : Function properties for kernel
//       88 bytes stack frame, 84 bytes spill stores, 120 bytes spill loads
#include <algorithm>
#include <charconv>
#include <optional>

#include "ptx/base/text.h"
#include "ptx/cuda/assembler.h"

namespace ptx::cuda {
namespace {

struct Entry {
  std::uint32_t line = 0;  // of the PTX; 0: none given
  std::string_view severity, message;
};

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\0");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\0") - first + 1);
}

// The first word of the row that is a severity and stands before a colon.
std::optional<Entry> split(std::string_view row) {
  std::optional<Entry> entry;
  std::size_t first = row.npos;
  for (const std::string_view severity : {"error", "warning", "fatal", "info"}) {
    const auto at = row.find(severity);
    if (at >= first) continue;
    const auto colon = row.find_first_not_of(' ', at + severity.size());
    if (colon == row.npos || row[colon] != ':') continue;
    first = at;
    entry = Entry{0, severity, trim(row.substr(colon + 1))};
  }
  const auto line = row.substr(0, first).rfind(", line ");
  if (entry && line != row.npos) std::from_chars(row.data() + line + 7, row.data() + first, entry->line);
  return entry;
}

std::string_view line_of(std::string_view text, std::uint32_t number) {
  for (; number > 1 && !text.empty(); --number) {
    const auto end = text.find('\n');
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return trim(text.substr(0, text.find('\n')));
}

// "Compiling entry function", register counts and timings are of no concern here; lost performance is.
bool is_advice(std::string_view message) { return message.find("Potential Performance Loss") != message.npos; }

std::optional<Code> code_of(const Entry& entry) {
  if (entry.severity == "warning") return Code::assembler_warning;
  if (entry.severity == "info") return is_advice(entry.message) ? std::optional(Code::assembler_advice) : std::nullopt;
  if (entry.message.find("aborted due to errors") != entry.message.npos) return std::nullopt;
  return entry.line != 0 ? Code::assembler_error : Code::assembler_failed;
}

// The place of the line that opens a function, or of the first line behind it that the author wrote.
Place place_of(std::string_view function, std::string_view ptx, const AssembleOptions& options) {
  std::uint32_t line = 1;
  for (std::string_view rest = ptx; !rest.empty(); ++line) {
    const std::string_view row = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), row.size() + 1));
    const auto at = row.find(function);
    if (at == row.npos || (row.find(".entry") == row.npos && row.find(".func") == row.npos)) continue;
    for (std::size_t i = line; i < options.lines.size(); ++i)
      if (options.lines[i].line != 0) return options.lines[i];
    return Place{Name(cat(options.name, ".ptx")), line, 0};
  }
  return {};
}

// "... 84 bytes spill stores, 120 bytes spill loads", unless both are 0.
bool tells_of_spills(std::string_view row) {
  return row.find("bytes spill stores") != row.npos && row.find(", 0 bytes spill stores, 0 bytes") == row.npos;
}

Diagnostic diagnose(Code code, const Entry& entry, std::string_view ptx, const AssembleOptions& options) {
  Diagnostic said(code, Place{}, std::string(entry.message));
  if (entry.message.find("'setmaxnreg' ignored; unable to determine register count") != entry.message.npos)
    said.notes.emplace_back("setmaxnreg is kept in kernels with .maxnreg, or with .maxntid and .minnctapersm");
  if (entry.line == 0) return said;
  const std::string_view written = line_of(ptx, entry.line);
  const bool known = entry.line < options.lines.size() && options.lines[entry.line].line != 0;
  said.place = known ? options.lines[entry.line] : Place{Name(cat(options.name, ".ptx")), entry.line, 0};
  said.notes.push_back(known ? cat("PTX line ", entry.line, ": ", written) : std::string(written));
  return said;
}

}  // namespace

Diagnostics read_log(std::string_view log, std::string_view ptx, const AssembleOptions& options) {
  Diagnostics list;
  std::string_view function;  // that the log is about
  while (!log.empty()) {
    const auto end = log.find('\n');
    const std::string_view row = log.substr(0, end);
    log.remove_prefix(end == log.npos ? log.size() : end + 1);
    if (tells_of_spills(row)) {
      const std::string_view spilled = trim(row.substr(row.find("frame, ") == row.npos ? 0 : row.find("frame, ") + 7));
      list.emplace_back(Code::assembler_advice, place_of(function, ptx, options),
                        cat("`", function, "` has more values than registers: ", spilled));
      continue;
    }
    const auto entry = split(row);
    if (!entry) continue;
    for (const std::string_view opening : {"Function properties for ", "Compiling entry function '"})
      if (entry->message.starts_with(opening))
        function = entry->message.substr(opening.size()), function = function.substr(0, function.find('\''));
    const auto code = code_of(*entry);
    if (!code) continue;
    list.push_back(diagnose(*code, *entry, ptx, options));
    if (list.back().place.line != 0 || *code != Code::assembler_advice) continue;
    const auto named = entry->message.find("function '");
    if (named != entry->message.npos) function = entry->message.substr(named + 10);
    function = function.substr(0, function.find('\''));
    list.back().place = place_of(function, ptx, options);
  }
  return list;
}

}  // namespace ptx::cuda
