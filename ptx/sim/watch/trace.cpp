#include "ptx/sim/watch/trace.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ptx/base/text.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

TracePiece Tracer::piece(TracePiece::Kind kind, const Warp& w, std::uint32_t pc, Mask lanes) const {
  TracePiece made{.kind = kind, .launch = launch_, .warp = w.index, .cta = w.cta.id};
  made.begin = made.end = now_;
  made.lanes = lanes, made.place = program_.places[pc], made.name = program_.mnemonics[pc];
  return made;
}

void Tracer::close(TracePiece& open) {
  if (open.begin == open.end) return;
  if (pieces_.size() < most_)
    pieces_.push_back(std::move(open));
  else
    ++dropped_;
  open = {};
}

void Tracer::executing(Warp& w, std::uint32_t pc, Mask active) {
  Open& open = open_[&w];
  std::erase_if(open.waits, [&](TracePiece& wait) {
    if (!(wait.lanes & w.current.mask)) return false;
    wait.end = now_;
    close(wait);
    return true;
  });
  if (open.line.place != program_.places[pc] || open.line.end != now_ || open.line.begin == open.line.end) {
    close(open.line);
    open.line = piece(TracePiece::Kind::instruction, w, pc, active);
  }
  open.line.end = ++now_;
  open.line.lanes |= active;
}

void Tracer::waiting(Warp& w, std::uint32_t pc, Mask lanes, const Wait& wait) {
  TracePiece made = piece(TracePiece::Kind::wait, w, pc, lanes);
  Fragment fragment;
  fragment.pc = pc + 1, fragment.mask = lanes, fragment.wait = wait;
  made.what = describe_wait(w, fragment);
  open_[&w].waits.push_back(std::move(made));
}

void Tracer::began(const Operation& o) {
  const Warp& w = *o.agent.warp;
  operations_[&w.cta.cluster].emplace(o.agent.operation,
                                      piece(TracePiece::Kind::operation, w, o.agent.pc, Mask{1} << o.agent.lane));
}

void Tracer::finished(const Operation& o) {
  auto& open = operations_[&o.agent.warp->cta.cluster];
  const auto found = open.find(o.agent.operation);
  if (found == open.end()) return;
  found->second.end = std::max(now_, found->second.begin + 1);
  close(found->second);
  open.erase(found);
}

void Tracer::add_to(Recording& recording, bool in_order) {
  for (auto& [warp, open] : open_) {
    close(open.line);
    for (TracePiece& wait : open.waits) wait.end = now_, close(wait);
  }
  for (auto& [cluster, open] : operations_) {
    for (auto& [number, operation] : open) operation.end = now_, close(operation);
  }
  const auto key = [](const TracePiece& p) {
    return std::tuple(p.begin, p.end, p.cta.z, p.cta.y, p.cta.x, p.warp, p.kind, p.lanes, p.place.line);
  };
  if (in_order)
    std::sort(pieces_.begin(), pieces_.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  recording.dropped_pieces += dropped_;
  if (recording.trace_pieces.empty()) return recording.trace_pieces.swap(pieces_);
  for (TracePiece& p : pieces_) recording.trace_pieces.push_back(std::move(p));
}

namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (byte < 0x20) {
      constexpr const char* digits = "0123456789abcdef";
      out += "\\u00", out += digits[byte >> 4], out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string where(const Place& place) {
  const std::string_view file = place.file.view();
  return cat(file.substr(file.find_last_of('/') + 1), ':', place.line);
}

constexpr const char* categories[] = {"instruction", "wait", "operation"};

// A process a CTA, a thread a warp; operations overlap, so they are asynchronous events of their CTA.
void append_piece(std::string& out, const TracePiece& p, std::size_t process, std::size_t number) {
  const auto kind = static_cast<std::size_t>(p.kind);
  const std::string name = json_text(p.kind == TracePiece::Kind::wait ? cat("wait: ", p.name) : std::string(p.name));
  const std::string common =
      cat("\"name\":", name, ",\"cat\":\"", categories[kind], "\",\"pid\":", process, ",\"tid\":", p.warp, ',');
  std::string details = cat("\"args\":{\"line\":", json_text(where(p.place)), ",\"lanes\":", p.lanes);
  if (!p.what.empty()) details += cat(",\"what\":", json_text(p.what));
  details += "}}";
  if (p.kind != TracePiece::Kind::operation) {
    out += cat('{', common, "\"ph\":\"X\",\"ts\":", p.begin, ",\"dur\":", p.end - p.begin, ',', details, ",\n");
    return;
  }
  out += cat('{', common, "\"ph\":\"b\",\"id\":", number, ",\"ts\":", p.begin, ',', details, ",\n");
  out += cat('{', common, "\"ph\":\"e\",\"id\":", number, ",\"ts\":", p.end, "},\n");
}

}  // namespace

std::string Recording::trace_json() {
  const std::lock_guard lock(mutex);
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, std::size_t> processes;
  std::string out = "{\"traceEvents\":[\n";
  for (std::size_t i = 0; i < trace_pieces.size(); ++i) {
    const TracePiece& p = trace_pieces[i];
    const auto [at, fresh] = processes.try_emplace({p.launch, p.cta.z, p.cta.y, p.cta.x}, processes.size());
    if (fresh)
      out += cat("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":", at->second, ",\"args\":{\"name\":\"launch ",
                 p.launch, ", CTA (", p.cta.x, ',', p.cta.y, ',', p.cta.z, ")\"}},\n");
    append_piece(out, p, at->second, i);
  }
  out += cat("{\"name\":\"dropped\",\"ph\":\"M\",\"pid\":0,\"args\":{\"pieces\":", dropped_pieces, "}}\n");
  return out + "],\"displayTimeUnit\":\"ns\"}\n";
}

}  // namespace ptx::sim
