#include "ptx/sim/exec/system_call.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/sim/machine/code.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/memory/heap.h"
#include "ptx/sim/watch/print.h"
#include "ptx/sim/watch/report.h"

namespace ptx::sim {

namespace {

constexpr std::size_t most_text = 1 << 16;  // bytes of one string
constexpr int most_width = 4096;

// From an address on: how much of the kernel's there is, and where. No bytes: nothing.
struct Available {
  std::byte* data = nullptr;
  u8* states = nullptr;  // what is defined of each byte; nullptr: nobody keeps that
  std::uint64_t bytes = 0;
};

// Memory of one thread by generic addresses, as vprintf reads it.
class Reader {
 public:
  Reader(Warp& w, int lane) : w_(w), lane_(lane) {}

  Available at(std::uint64_t address) const {
    const std::uint64_t offset = address & ~window_mask;
    if ((address & window_mask) == local_window) {
      if (offset >= w_.local.stride) return {};
      const std::size_t begin = static_cast<std::size_t>(lane_) * w_.local.stride + offset;
      return {w_.local.bytes.data() + begin, w_.local.shadow.data() + begin, w_.local.stride - offset};
    }
    if ((address & window_mask) == shared_window) {
      const auto& ctas = w_.cta.cluster.ctas;
      if (shared_rank(address) >= ctas.size()) return {};
      SharedMemory& shared = ctas[shared_rank(address)]->shared;
      const std::uint64_t begin = address & shared_offset_mask, size = shared.bytes.size();
      if (begin >= size) return {};
      return {shared.bytes.data() + begin, shared.shadow.data() + begin, size - begin};
    }
    const Range* range = w_.cta.launch.memory.find(address);
    if (!range) return {};
    return {reinterpret_cast<std::byte*>(address), range->shadow ? range->shadow + (address - range->begin) : nullptr,
            range->end - address};
  }
  // Up to its zero byte. False: it does not end where it may be read.
  bool string(std::uint64_t address, std::string& out) const {
    const Available piece = at(address);
    const std::uint64_t size = std::min<std::uint64_t>(piece.bytes, most_text);
    const void* end = size ? std::memchr(piece.data, 0, size) : nullptr;
    if (!end) return false;
    out.assign(reinterpret_cast<const char*>(piece.data), static_cast<const char*>(end));
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
void give_result(Warp& w, const Op& op, int lane, std::uint64_t value) {
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
    const Available piece = reader_.at(at_);
    if (piece.bytes < sizeof(T)) {
      problem = "gives vprintf fewer values than its format names";
    } else {
      std::memcpy(&value, piece.data, sizeof(T));
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

HeapCall heap_call(const Warp& w, int lane, const char* did) {
  return {cat(thread_name(w, lane), ' ', did, " at ", place_name(w, w.pc - 1)), site_of(w, w.pc - 1, lane)};
}
std::uint64_t allocated(Warp& w, int lane, std::uint64_t bytes) {
  Launch& launch = w.cta.launch;
  return launch.heap->allocate(bytes, launch.options.heap, launch.number, heap_call(w, lane, "allocated"));
}

void allocate(Warp& w, const Op& op, Mask active) {
  if (op.call->arguments.size() != 1) return takes(w, active, "malloc", 1, op.call->arguments.size());
  for (int lane = 0; lane < lanes; ++lane) {
    if (active >> lane & 1) give_result(w, op, lane, allocated(w, lane, argument(w, op, 0, lane)));
  }
}

// cudaMalloc(where the address goes, bytes): 0, or 2 (cudaErrorMemoryAllocation)
void runtime_allocate(Warp& w, const Op& op, Mask active) {
  if (op.call->arguments.size() != 2) return takes(w, active, "cudaMalloc", 2, op.call->arguments.size());
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    const Available to = Reader(w, lane).at(argument(w, op, 0, lane));
    if (to.bytes < sizeof(std::uint64_t))
      return w.fault(Code::out_of_bounds, lane, "gives cudaMalloc no place for an address");
    const std::uint64_t address = allocated(w, lane, argument(w, op, 1, lane));
    if (address) std::memcpy(to.data, &address, sizeof address);
    if (address && to.states) std::memset(to.states, written, sizeof address);
    give_result(w, op, lane, address ? 0 : 2);
  }
}

// What is wrong with freeing what begins at no block in use.
void bad_free(Warp& w, int lane, std::uint64_t address) {
  Text what;
  what << "frees 0x";
  what.hex(address);
  const Heap::Block block = w.cta.launch.heap->near(address);
  const Range* range = w.cta.launch.memory.find(address);
  if (block && block->range.begin == address) {
    what << " again, " << block->text() << " and " << block->freed->by;
    w.mentioned.push_back(block->freed->site);
  } else if (block) {
    const bool inside = address > block->range.begin;
    what << ", " << (inside ? address - block->range.begin : block->range.begin - address) << " bytes "
         << (inside ? "behind" : "before") << " the start of " << block->text();
    w.mentioned.push_back(block->allocated.site);
  } else {
    const bool shared = (address & window_mask) == shared_window, local = (address & window_mask) == local_window;
    what << ", which no malloc gave"
         << (range    ? cat(": it is in `", range->name, '`')
             : shared ? ": it is in shared memory"
             : local  ? ": it is in local memory"
                      : "");
  }
  w.fault(Code::bad_free, lane, what.take());
}

void free_block(Warp& w, const Op& op, Mask active) {
  if (op.call->arguments.size() != 1) return takes(w, active, "free", 1, op.call->arguments.size());
  Launch& launch = w.cta.launch;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(active >> lane & 1)) continue;
    give_result(w, op, lane, 0);  // of cudaFree
    const std::uint64_t address = argument(w, op, 0, lane);
    if (address == 0) continue;
    const Range* range = launch.memory.find(address);
    if (launch.observer && range && range->heap && range->begin == address) {
      const Location all{isa::Space::global, nullptr, address, range->end - address};
      launch.observer->accessed({&w, lane, w.pc - 1}, all, Access::write, op.manner);
    }
    if (!launch.heap->free(address, heap_call(w, lane, "freed"), launch.observer != nullptr))
      return bad_free(w, lane, address);
  }
}

struct SystemCall {
  std::string_view name;
  Handler run;
  bool in_order;
};
// The names of the device's runtime are those of libcudadevrt and of its headers.
constexpr SystemCall known[] = {
    {"vprintf", &vprintf, true},
    {"__assertfail", &assert_failed, false},
    {"malloc", &allocate, true},
    {"free", &free_block, true},
    {"cudaMalloc", &runtime_allocate, true},
    {"cudaFree", &free_block, true},
    {"__cudaCDP2Malloc", &runtime_allocate, true},
    {"__cudaCDP2Free", &free_block, true},
};

const SystemCall* find_known(std::string_view function) {
  const auto at =
      std::find_if(std::begin(known), std::end(known), [&](const SystemCall& k) { return k.name == function; });
  return at == std::end(known) ? nullptr : at;
}

}  // namespace

Handler system_call(std::string_view function) {
  const SystemCall* const one = find_known(function);
  return one ? one->run : nullptr;
}

bool acts_in_order(std::string_view function) {
  const SystemCall* const one = find_known(function);
  return one && one->in_order;
}

}  // namespace ptx::sim
