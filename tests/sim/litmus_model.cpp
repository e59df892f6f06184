// The sanitizer beside the axioms (manual 8.5 to 8.9): small programs of every order, scope and fence, whose threads
// run one after the other, so that it is known who reads from whom. A race that the axioms see is reported, and no
// other.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ptx/base/text.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

enum class Kind : std::uint8_t { read, write, update, fence };
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel, sc };

struct Event {
  Kind kind;
  Order order;
  bool device;  // its scope is .gpu, else .cta
  int place = 0;
  int thread = 0;
};
using Events = std::vector<Event>;  // those of a thread side by side, the threads in the order in which they run

bool is_fence(const Event& e) { return e.kind == Kind::fence; }
bool reads(const Event& e) { return e.kind == Kind::read || e.kind == Kind::update; }
bool writes(const Event& e) { return e.kind == Kind::write || e.kind == Kind::update; }
bool strong(const Event& e) { return e.order != Order::weak; }
bool releases(const Event& e) { return e.order == Order::release || e.order >= Order::acq_rel; }
bool acquires(const Event& e) { return e.order == Order::acquire || e.order >= Order::acq_rel; }

// Relations of events, by their numbers.
class Model {
 public:
  Model(const Events& events, bool one_cta) : e_(events), one_cta_(one_cta) {
    const std::size_t n = e_.size();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) {
        if (e_[i].thread == e_[j].thread) base_[i][j] = true;
      }
    }
    order_fences();
    for (std::size_t w = 0; w < n; ++w) {
      for (std::size_t r = 0; r < n; ++r) {
        if (observed(w, r)) synchronise(w, r);
      }
    }
    close(base_);
  }

  bool races() const {
    for (std::size_t i = 0; i < e_.size(); ++i) {
      for (std::size_t j = i + 1; j < e_.size(); ++j) {
        if (is_fence(e_[i]) || is_fence(e_[j]) || e_[i].place != e_[j].place) continue;
        if (!writes(e_[i]) && !writes(e_[j])) continue;
        if (!morally_strong(i, j) && !base_[i][j]) return true;
      }
    }
    return false;
  }

 private:
  bool includes(std::size_t i, std::size_t j) const { return one_cta_ || e_[i].device || e_[i].thread == e_[j].thread; }
  bool morally_strong(std::size_t i, std::size_t j) const {
    if (e_[i].thread == e_[j].thread) return true;
    return strong(e_[i]) && strong(e_[j]) && includes(i, j) && includes(j, i);
  }
  using Relation = std::array<std::array<bool, 16>, 16>;
  void close(Relation& relation) const {
    for (std::size_t k = 0; k < e_.size(); ++k) {
      for (std::size_t i = 0; i < e_.size(); ++i) {
        for (std::size_t j = 0; j < e_.size(); ++j)
          relation[i][j] = relation[i][j] || (relation[i][k] && relation[k][j]);
      }
    }
  }
  // The order of two fence.sc of the device that have not heard of each other is open: it may be the other one.
  void order_fences() {
    Relation heard = base_;
    for (std::size_t w = 0; w < e_.size(); ++w) {
      for (std::size_t r = 0; r < e_.size(); ++r) heard[w][r] = heard[w][r] || seen(w, r);
    }
    close(heard);
    for (std::size_t i = 0; i < e_.size(); ++i) {
      for (std::size_t j = i + 1; j < e_.size(); ++j) {
        const bool both = e_[i].order == Order::sc && e_[j].order == Order::sc && morally_strong(i, j);
        if (both && (heard[i][j] || !e_[i].device || !e_[j].device)) base_[i][j] = true;
      }
    }
  }
  // By strong accesses of any scopes.
  bool seen(std::size_t w, std::size_t r) const {
    if (is_fence(e_[r]) || !reads(e_[r])) return false;
    const auto from = source(r);
    if (!from || !strong(e_[*from]) || !strong(e_[r])) return false;
    return *from == w || (e_[*from].kind == Kind::update && seen(w, *from));
  }
  // The write that a read sees: the last one before it.
  std::optional<std::size_t> source(std::size_t r) const {
    for (std::size_t i = r; i-- > 0;) {
      if (!is_fence(e_[i]) && writes(e_[i]) && e_[i].place == e_[r].place) return i;
    }
    return std::nullopt;
  }
  // 8.9.2: directly, or through atomics.
  bool observed(std::size_t w, std::size_t r) const {
    if (is_fence(e_[r]) || !reads(e_[r])) return false;
    const auto from = source(r);
    if (!from || !morally_strong(*from, r)) return false;
    return *from == w || (e_[*from].kind == Kind::update && observed(w, *from));
  }
  // 8.8, 8.9.4: each release pattern that ends in w with each acquire pattern that begins with r.
  void synchronise(std::size_t w, std::size_t r) {
    for (std::size_t first = 0; first <= w; ++first) {
      const bool same = e_[first].thread == e_[w].thread && releases(e_[first]) && strong(e_[w]);
      const bool pattern =
          same && (first == w || is_fence(e_[first]) || (writes(e_[first]) && e_[first].place == e_[w].place));
      if (!pattern) continue;
      for (std::size_t last = r; last < e_.size(); ++last) {
        const bool also = e_[last].thread == e_[r].thread && acquires(e_[last]) && strong(e_[r]);
        const bool ends =
            also && (last == r || is_fence(e_[last]) || (reads(e_[last]) && e_[last].place == e_[r].place));
        if (ends && morally_strong(first, last)) base_[first][last] = true;
      }
    }
  }

  const Events& e_;
  bool one_cta_;
  Relation base_{};
};

constexpr const char* order_names[] = {"", ".relaxed", ".acquire", ".release", ".acq_rel", ".sc"};

std::string text_of(const Event& e) {
  const std::string manner =
      strong(e) ? cat(order_names[static_cast<int>(e.order)], e.device ? ".gpu" : ".cta") : std::string();
  const std::string place = cat("[%rd1+", 64 * e.place, "]");
  switch (e.kind) {
    case Kind::read: return cat("ld", manner, ".global.u32 %r3, ", place, ";\n");
    case Kind::write: return cat("st", manner, ".global.u32 ", place, ", 1;\n");
    case Kind::update: return cat("atom", manner, ".global.exch.b32 %r3, ", place, ", 2;\n");
    default: return cat("fence", manner, ";\n");
  }
}

std::string program(const Events& events, bool one_cta) {
  std::string text =
      ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<4>; .reg .b32 "
      "%r<8>; .reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\n";
  text += one_cta ? "mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 31;\nsetp.ne.u32 %p3, %r2, 0;\n@%p3 bra end;\nshr.u32 "
                    "%r1, %r1, 5;\n"
                  : "mov.u32 %r1, %ctaid.x;\n";
  int thread = -1;
  for (const Event& e : events) {
    if (e.thread != thread) {
      thread = e.thread;
      text += cat(thread ? "bra end;\n" : "", "t", thread, ": setp.ne.u32 %p2, %r1, ", thread, ";\n@%p2 bra t",
                  thread + 1, ";\n");
    }
    text += text_of(e);
  }
  return text + cat("t", thread + 1, ":\nend:\nret;\n}\n");
}

// Returns whether there is a race.
bool compare(const Events& events, bool one_cta) {
  const auto threads = static_cast<std::uint32_t>(events.back().thread + 1);
  sim_test::Fixture f;
  f.grid = {one_cta ? 1 : threads, 1, 1}, f.block = {one_cta ? 32 * threads : 1, 1, 1};
  f.arguments = {{"inout", std::string(512, '0'), {}}};
  const std::string text = program(events, one_cta);
  const auto said = sim_test::run(text, f, {.checks = *sim::checks_named("all,equal_stores")}).diagnostics;
  const bool only_races = std::all_of(said.begin(), said.end(), [](const Diagnostic& d) {
    return d.code == Code::data_race || d.code == Code::narrow_scope || d.code == Code::missing_order ||
           d.code == Code::equal_stores;
  });
  const bool races = Model(events, one_cta).races();
  CHECK_MESSAGE(only_races, to_string(said), text);
  CHECK_MESSAGE(said.empty() == !races, std::string(races ? "a race by the axioms" : "no race by the axioms"),
                ", one CTA: ", one_cta, "\n", text, to_string(said));
  return races;
}

std::vector<Event> flags(Kind kind, Order ordered) {
  std::vector<Event> out;
  if (kind != Kind::update) out.push_back({kind, Order::weak, false, 1});
  for (const Order order : {Order::relaxed, ordered}) {
    for (const bool device : {false, true}) out.push_back({kind, order, device, 1});
  }
  return out;
}

std::vector<std::optional<Event>> fences() {
  std::vector<std::optional<Event>> out{std::nullopt};
  for (const Order order : {Order::acq_rel, Order::sc}) {
    for (const bool device : {false, true}) out.push_back(Event{Kind::fence, order, device});
  }
  return out;
}

}  // namespace

TEST_CASE("message passing in every order, scope and fence races where the axioms say so") {
  std::size_t count = 0, races = 0;
  for (const Kind sends : {Kind::write, Kind::update}) {
    for (const Kind receives : {Kind::read, Kind::update}) {
      for (const Event& flag : flags(sends, Order::release)) {
        for (const Event& seen : flags(receives, Order::acquire)) {
          for (const auto& before : fences()) {
            for (const auto& behind : fences()) {
              for (const bool one_cta : {false, true}) {
                Events events{{Kind::write, Order::weak, false, 0, 0}};
                if (before) events.push_back(*before);
                events.push_back(flag);
                const std::size_t sent = events.size();
                events.push_back(seen);
                if (behind) events.push_back(*behind);
                events.push_back({++count % 2 ? Kind::read : Kind::write, Order::weak, false, 0});
                for (std::size_t i = sent; i < events.size(); ++i) events[i].thread = 1;
                races += compare(events, one_cta);
              }
            }
          }
        }
      }
    }
  }
  CHECK(races > count / 4);
  CHECK(races < count * 3 / 4);
}

TEST_CASE("programs of two and three threads race where the axioms say so") {
  std::uint64_t state = 2026;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  std::size_t races = 0;
  constexpr std::size_t count = 6000;
  for (std::size_t i = 0; i < count; ++i) {
    Events events;
    const int threads = 2 + static_cast<int>(random(2));
    for (int thread = 0; thread < threads; ++thread) {
      const std::uint64_t some = 2 + random(3);
      for (std::uint64_t j = 0; j < some; ++j) {
        Event e{static_cast<Kind>(random(4)), Order::weak, random(4) != 0, static_cast<int>(random(2)), thread};
        constexpr Order of_reads[] = {Order::relaxed, Order::acquire, Order::acquire, Order::weak};
        constexpr Order of_writes[] = {Order::relaxed, Order::release, Order::release, Order::weak};
        constexpr Order of_updates[] = {Order::relaxed, Order::acquire, Order::release, Order::acq_rel};
        constexpr Order of_fences[] = {Order::acq_rel, Order::sc};
        e.order = e.kind == Kind::read     ? of_reads[random(4)]
                  : e.kind == Kind::write  ? of_writes[random(4)]
                  : e.kind == Kind::update ? of_updates[random(4)]
                                           : of_fences[random(2)];
        events.push_back(e);
      }
    }
    races += compare(events, random(3) == 0);
  }
  CHECK(races > count / 4);
  CHECK(races < count * 9 / 10);
}
