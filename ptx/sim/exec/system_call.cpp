#include "ptx/sim/exec/system_call.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/watch/print.h"

namespace ptx::sim {

namespace {

constexpr std::size_t most_text = 1 << 16;  // bytes of one string
constexpr int most_width = 4096;

// Memory of one thread by generic addresses, read as vprintf reads it.
class Reader {
 public:
  Reader(Warp& w, int lane) : w_(w), lane_(lane) {}

  // How many bytes there are from `address` on, and where; 0: nothing of the kernel's is there.
  std::uint64_t available(std::uint64_t address, const std::byte*& data) const {
    const std::uint64_t offset = address & ~window_mask;
    if ((address & window_mask) == local_window) {
      if (offset >= w_.local.stride) return 0;
      data = w_.local.bytes.data() + static_cast<std::size_t>(lane_) * w_.local.stride + offset;
      return w_.local.stride - offset;
    }
    if ((address & window_mask) == shared_window) {
      const auto& ctas = w_.cta.cluster.ctas;
      if (shared_rank(address) >= ctas.size()) return 0;
      const std::vector<std::byte>& bytes = ctas[shared_rank(address)]->shared.bytes;
      const std::uint64_t at = address & shared_offset_mask, size = bytes.size();
      if (at >= size) return 0;
      data = bytes.data() + at;
      return size - at;
    }
    const Range* range = w_.cta.launch.memory.find(address);
    data = reinterpret_cast<const std::byte*>(address);
    return range ? range->end - address : 0;
  }
  // Up to its zero byte. False: it does not end where it may be read.
  bool string(std::uint64_t address, std::string& out) const {
    const std::byte* data = nullptr;
    const std::uint64_t size = std::min<std::uint64_t>(available(address, data), most_text);
    const void* end = size ? std::memchr(data, 0, size) : nullptr;
    if (!end) return false;
    out.assign(reinterpret_cast<const char*>(data), static_cast<const char*>(end));
    return true;
  }

 private:
  Warp& w_;
  int lane_;
};

// An argument or a result of the call, in the lane's row or local memory.
const std::byte* bytes_of(const Warp& w, const Passed& p, int lane) {
  if (p.in_register) return w.row(p.row) + lane * p.row.cell;
  return w.local.bytes.data() + static_cast<std::size_t>(lane) * w.local.stride + w.current.frame->local_base + p.local;
}
std::uint64_t argument(const Warp& w, const Op& op, std::size_t i, int lane) {
  const Passed& p = op.call->arguments[i];
  std::uint64_t value = 0;
  std::memcpy(&value, bytes_of(w, p, lane), std::min<std::size_t>(p.bytes, sizeof value));
  return value;
}
void give_result(Warp& w, const Op& op, int lane, std::uint32_t value) {
  if (op.call->results.empty()) return;
  const Passed& p = op.call->results.front();
  auto* to = const_cast<std::byte*>(bytes_of(w, p, lane));
  const std::size_t bytes = std::min<std::size_t>(p.bytes, sizeof value);
  std::memcpy(to, &value, bytes);
  if (p.in_register) {
    w.current.frame->initialised[p.row.slot] |= Mask{1} << lane;
  } else {
    std::memset(w.local.shadow.data() + (to - w.local.bytes.data()), written, bytes);
  }
}

// printf of one thread: conversions as C has them, arguments from a buffer in which each lies at a multiple of its
// size.
class Formatter {
 public:
  Formatter(const Reader& reader, std::uint64_t values) : reader_(reader), at_(values) {}

  std::string problem;  // what is wrong; the thread is its subject
  std::uint32_t arguments = 0;

  std::string format(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size() && problem.empty();) {
      if (text[i] != '%') {
        out += text[i++];
      } else if (i + 1 < text.size() && text[i + 1] == '%') {
        out += '%', i += 2;
      } else {
        i = conversion(text, i, out);
      }
      if (out.size() > most_text) return out;
    }
    return out;
  }

 private:
  template <class T>
  T next() {
    T value{};
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    const std::byte* data = nullptr;
    if (reader_.available(at_, data) < sizeof(T)) {
      problem = "gives vprintf fewer values than its format names";
    } else {
      std::memcpy(&value, data, sizeof(T));
    }
    at_ += sizeof(T), ++arguments;
    return value;
  }
  int size(const std::string& text, std::size_t& i) {  // a width or a precision
    if (i < text.size() && text[i] == '*') return ++i, std::clamp(next<int>(), -most_width, most_width);
    int value = 0;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
      value = std::min(10 * value + (text[i] - '0'), most_width);
    return value;
  }
  // Writes the conversion at `i`; returns the index of what follows it.
  std::size_t conversion(const std::string& text, std::size_t i, std::string& out) {
    const std::size_t begin = i++;
    std::string spec = "%";
    while (i < text.size() && std::strchr("-+ #0", text[i])) spec += text[i++];
    if (const int width = size(text, i)) spec += cat(width);
    if (i < text.size() && text[i] == '.') spec += cat('.', size(text, ++i));
    const std::size_t length = i;
    while (i < text.size() && std::strchr("hlLqjzt", text[i])) ++i;
    const std::string_view modifiers(text.data() + length, i - length);
    const char kind = i < text.size() ? text[i++] : '\0';
    one(spec, modifiers, kind, out);
    if (kind == '\0' || !std::strchr("diouxXcspaAeEfFgG", kind)) out += text.substr(begin, i - begin);  // as it stands
    return i;
  }
  void one(std::string spec, std::string_view modifiers, char kind, std::string& out) {
    const bool wide = !modifiers.empty() && modifiers[0] != 'h';
    if (std::strchr("aAeEfFgG", kind) && kind) return show(spec + kind, next<double>(), out);
    if (kind == 'c') return show(spec + kind, next<int>(), out);
    if (kind == 'p') return show("%#llx", next<unsigned long long>(), out);
    if (kind == 's') {
      std::string value;
      if (!reader_.string(next<std::uint64_t>(), value) && problem.empty())
        problem = "gives vprintf a %s that is no string";
      return show(spec + kind, value.c_str(), out);
    }
    if (!kind || !std::strchr("diouxX", kind)) return;
    if (wide) return show(spec + "ll" + kind, next<long long>(), out);
    const int value = next<int>();
    show(spec + (modifiers.starts_with("hh") ? "hh" : modifiers.empty() ? "" : "h") + kind, value, out);
  }
  template <class T>
  static void show(const std::string& spec, T value, std::string& out) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int length = std::snprintf(nullptr, 0, spec.c_str(), value);
    if (length <= 0) return;
    std::string text(static_cast<std::size_t>(length) + 1, '\0');
    std::snprintf(text.data(), text.size(), spec.c_str(), value);
#pragma GCC diagnostic pop
    out.append(text, 0, static_cast<std::size_t>(length));
  }

  const Reader& reader_;
  std::uint64_t at_;
};

void takes(Warp& w, Mask active, const char* name, std::size_t wanted, std::size_t got) {
  w.fault(Code::bad_call, std::countr_zero(active),
          cat("calls `", name, "` with ", got, " arguments; it takes ", wanted));
}

void vprintf(Warp& w, const Op& op, Mask active) {
  if (op.call->arguments.size() != 2) return takes(w, active, "vprintf", 2, op.call->arguments.size());
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const Reader reader(w, lane);
    const std::uint64_t address = argument(w, op, 0, lane);
    std::string format;
    if (!reader.string(address, format)) {
      Text where;
      where << "0x";
      where.hex(address);
      return w.fault(Code::bad_call, lane, cat("gives vprintf the format at ", where.take(), ", which is no string"));
    }
    Formatter formatter(reader, argument(w, op, 1, lane));
    const std::string text = formatter.format(format);
    if (!formatter.problem.empty()) return w.fault(Code::bad_call, lane, formatter.problem);
    give_result(w, op, lane, formatter.arguments);
    prints(w, w.pc - 1, lane, text, is_check_text(w.cta.launch, address));
  }
}

// __assertfail(message, file, line, function, bytes of a character)
void assert_failed(Warp& w, const Op& op, Mask active) {
  if (op.call->arguments.size() < 4) return takes(w, active, "__assertfail", 5, op.call->arguments.size());
  const int lane = std::countr_zero(active);
  const Reader reader(w, lane);
  std::string message, file, function;
  reader.string(argument(w, op, 0, lane), message);
  reader.string(argument(w, op, 1, lane), file);
  reader.string(argument(w, op, 3, lane), function);
  w.fault(Code::assertion_failed, lane,
          cat("failed the assertion `", message, "` at ", file, ':',
              static_cast<std::uint32_t>(argument(w, op, 2, lane)), function.empty() ? "" : cat(", in ", function)));
}

}  // namespace

Handler system_call(std::string_view function) {
  if (function == "vprintf") return &vprintf;
  if (function == "__assertfail") return &assert_failed;
  return nullptr;
}

}  // namespace ptx::sim
