// Litmus tests of the memory consistency model (manual 8; names as in the literature): which of them race, and which
// outcomes the model forbids. A thread is a CTA of one thread, or a warp; x, y, z and flag are words of global memory,
// a to d what is read. A thread that finds 0 in a at SEEN, or in b at SEEN_B, stops: it races with nobody then.
#include <doctest/doctest.h>

#include <algorithm>

#include "ptx/base/text.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

struct Litmus {
  std::string_view name;
  std::vector<std::string_view> threads;
  std::string_view rule;  // that the sanitizer names; empty: no race
  // Of {a, b, c, d}, as the model forbids it; 9: any value. Empty: it allows all.
  std::vector<std::uint32_t> forbidden;
  std::string_view ctas{};  // one digit a thread: the CTA of which it is a warp. Empty: each is a CTA of one thread
};

const Litmus tests[] = {
    // Message passing (8.10.6).
    {"MP, weak", {"st x, 1; st flag, 1;", "ld a, flag; ld b, x;"}, "data_race", {}},
    {"MP, relaxed flag",
     {"st x, 1; st.relaxed.gpu flag, 1;", "ld.relaxed.gpu a, flag; SEEN ld b, x;"},
     "missing_order",
     {}},
    {"MP, release and acquire",
     {"st x, 1; st.release.gpu flag, 1;", "ld.acquire.gpu a, flag; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9}},
    {"MP, fences",
     {"st x, 1; fence.acq_rel.gpu; st.relaxed.gpu flag, 1;",
      "ld.relaxed.gpu a, flag; fence.acq_rel.gpu; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9}},
    {"MP, sc fences of sys",
     {"st x, 1; fence.sc.sys; st.relaxed.sys flag, 1;", "ld.relaxed.sys a, flag; fence.sc.sys; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9}},
    {"MP, membar and volatile",
     {"st x, 1; membar.gl; st.volatile flag, 1;", "ld.volatile a, flag; membar.gl; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9}},
    {"MP, fence of the writer alone",
     {"st x, 1; fence.acq_rel.gpu; st.relaxed.gpu flag, 1;", "ld.relaxed.gpu a, flag; SEEN ld b, x;"},
     "missing_order",
     {}},
    {"MP, fence of the reader alone",
     {"st x, 1; st.relaxed.gpu flag, 1;", "ld.relaxed.gpu a, flag; fence.acq_rel.gpu; SEEN ld b, x;"},
     "missing_order",
     {}},
    {"MP, fence behind the flag",
     {"st x, 1; st.relaxed.gpu flag, 1; fence.acq_rel.gpu;", "ld.acquire.gpu a, flag; SEEN ld b, x;"},
     "missing_order",
     {}},
    {"MP, release of the CTA",
     {"st x, 1; st.release.cta flag, 1;", "ld.acquire.gpu a, flag; SEEN ld b, x;"},
     "narrow_scope",
     {}},
    {"MP, acquire of the CTA",
     {"st x, 1; st.release.gpu flag, 1;", "ld.acquire.cta a, flag; SEEN ld b, x;"},
     "narrow_scope",
     {}},
    {"MP, scopes of the CTA within one",
     {"st x, 1; st.release.cta flag, 1;", "ld.acquire.cta a, flag; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9},
     "00"},
    {"MP, fence of the CTA",
     {"st x, 1; fence.acq_rel.cta; st.relaxed.gpu flag, 1;", "ld.acquire.gpu a, flag; SEEN ld b, x;"},
     "narrow_scope",
     {}},
    {"MP, strong data",
     {"st.relaxed.gpu x, 1; st.relaxed.gpu flag, 1;", "ld.relaxed.gpu a, flag; ld.relaxed.gpu b, x;"},
     "",
     {}},
    {"MP, atomics",
     {"st x, 1; atom.exch.release.gpu c, flag, 1;", "atom.exch.acquire.gpu a, flag, 2; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9}},
    {"MP, red and a fence (8.11.1)",
     {"st x, 1; st.release.gpu flag, 1;", "red.relaxed.gpu.add flag, 1; fence.acquire.gpu; ld b, x;"},
     "missing_order",
     {}},
    {"MP, an atomic and a fence (8.11.1)",
     {"st x, 1; st.release.gpu flag, 1;", "atom.add.relaxed.gpu a, flag, 1; fence.acquire.gpu; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9}},
    // Release sequences (8.9.2): through atomics, not through stores.
    {"MP, through an atomic",
     {"st x, 1; st.release.gpu flag, 1;", "atom.add.relaxed.gpu c, flag, 1;",
      "ld.acquire.gpu a, flag; setp.ne.u32 %p1, a, 2; @%p1 bra done; ld b, x;"},
     "",
     {2, 0, 9, 9}},
    {"MP, through a store",
     {"st x, 1; st.release.gpu flag, 1;", "st.relaxed.gpu flag, 2;",
      "ld.acquire.gpu a, flag; setp.ne.u32 %p1, a, 2; @%p1 bra done; ld b, x;"},
     "missing_order data_race",
     {}},
    // Cumulativity.
    {"WRC",
     {"st x, 1; st.release.gpu flag, 1;",
      "ld.acquire.gpu c, flag; setp.eq.u32 %p1, c, 0; @%p1 bra done; st.release.gpu y, 1;",
      "ld.acquire.gpu a, y; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9}},
    {"WRC, the second hop relaxed",
     {"st x, 1; st.release.gpu flag, 1;",
      "ld.acquire.gpu c, flag; setp.eq.u32 %p1, c, 0; @%p1 bra done; st.relaxed.gpu y, 1;",
      "ld.acquire.gpu a, y; SEEN ld b, x;"},
     "missing_order",
     {}},
    {"WRC, the first hop of the CTA",
     {"st x, 1; st.release.cta flag, 1;",
      "ld.acquire.gpu c, flag; setp.eq.u32 %p1, c, 0; @%p1 bra done; st.release.gpu y, 1;",
      "ld.acquire.gpu a, y; SEEN ld b, x;"},
     "narrow_scope missing_order",
     {}},
    {"ISA2",
     {"st x, 1; fence.acq_rel.gpu; st.relaxed.gpu y, 1;",
      "ld.relaxed.gpu c, y; fence.acq_rel.gpu; setp.eq.u32 %p1, c, 0; @%p1 bra done; st.relaxed.gpu z, 1;",
      "ld.relaxed.gpu a, z; fence.acq_rel.gpu; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9}},
    // Store buffering (8.10.6), load buffering (8.10.4).
    {"SB, sc fences",
     {"st.relaxed.gpu x, 1; fence.sc.gpu; ld.relaxed.gpu a, y;",
      "st.relaxed.gpu y, 1; fence.sc.gpu; ld.relaxed.gpu b, x;"},
     "",
     {0, 0, 9, 9}},
    {"SB, weak behind sc fences",
     {"st x, 1; fence.sc.gpu; ld a, y;", "st y, 1; fence.sc.gpu; ld b, x;"},
     "data_race",
     {}},
    {"SB, relaxed", {"st.relaxed.gpu x, 1; ld.relaxed.gpu a, y;", "st.relaxed.gpu y, 1; ld.relaxed.gpu b, x;"}, "", {}},
    {"LB, relaxed",
     {"ld.relaxed.gpu a, x; st.relaxed.gpu y, a;", "ld.relaxed.gpu b, y; st.relaxed.gpu x, b;"},
     "",
     {1, 1, 9, 9}},
    {"LB, weak", {"ld a, x; st y, a;", "ld b, y; st x, b;"}, "data_race", {}},
    {"IRIW, sc fences",
     {"st.relaxed.gpu x, 1;", "st.relaxed.gpu y, 1;", "ld.relaxed.gpu a, x; fence.sc.gpu; ld.relaxed.gpu b, y;",
      "ld.relaxed.gpu c, y; fence.sc.gpu; ld.relaxed.gpu d, x;"},
     "",
     {1, 0, 1, 0}},
    {"2+2W, relaxed",
     {"st.relaxed.gpu x, 1; st.relaxed.gpu y, 2;", "st.relaxed.gpu y, 1; st.relaxed.gpu x, 2;"},
     "",
     {}},
    // Coherence (8.10.1, 8.10.5).
    {"CoRR, relaxed", {"st.relaxed.sys x, 1;", "ld.relaxed.sys a, x; ld.relaxed.sys b, x;"}, "", {1, 0, 9, 9}},
    {"CoRR, weak", {"st x, 1;", "ld a, x; ld b, x;"}, "data_race", {}},
    {"CoWW",
     {"st.relaxed.gpu x, 1; st.relaxed.gpu x, 2;", "ld.relaxed.gpu a, x; ld.relaxed.gpu b, x;"},
     "",
     {2, 1, 9, 9}},
    {"CoRW", {"ld.relaxed.gpu a, x; st.relaxed.gpu x, 1;", "st.relaxed.gpu x, 2;"}, "", {1, 9, 9, 9}},
    {"strong and weak writes", {"st.relaxed.gpu x, 1;", "st x, 2;"}, "data_race", {}},
    {"scopes of strong accesses", {"st.relaxed.cta x, 1;", "ld.relaxed.gpu a, x;"}, "narrow_scope", {}},
    {"scopes of strong accesses within one CTA", {"st.relaxed.cta x, 1;", "ld.relaxed.cta a, x;"}, "", {}, "00"},
    {"mixed sizes", {"st.relaxed.gpu x, 1;", "ld.half a, x;"}, "data_race", {}},
    // Atomicity (8.10.3).
    {"atomics", {"atom.add.relaxed.sys a, x, 1;", "atom.add.relaxed.sys b, x, 1;"}, "", {0, 0, 9, 9}},
    {"atomics of the CTA and of the device",
     {"atom.add.relaxed.cta a, x, 1;", "atom.add.relaxed.gpu b, x, 1;"},
     "narrow_scope",
     {}},
    {"an atomic and a store", {"atom.add.relaxed.gpu a, x, 1;", "st x, 7;"}, "data_race", {}},
    // Programs and verdicts of the tests that come with Dat3M, a checker of memory models.
    {"MP through an atomic",
     {"st.relaxed.gpu x, 1; st.release.gpu y, 1;", "atom.add.relaxed.gpu a, y, 1;",
      "ld.acquire.gpu b, y; ld.relaxed.gpu c, x;"},
     "",
     {1, 2, 0, 9}},
    {"a chain of an atomic",
     {"ld.acquire.gpu a, y; st.relaxed.gpu x, 1;", "atom.add.relaxed.gpu b, x, 2;",
      "ld.relaxed.gpu c, x; st.release.gpu y, 1;"},
     "",
     {1, 9, 1, 9}},
    {"a chain of an atomic, weak store",
     {"ld.acquire.gpu a, y; st x, 1;", "atom.add.relaxed.gpu b, x, 1;", "ld.relaxed.gpu c, x; st.release.gpu y, 1;"},
     "data_race",
     {}},
    {"MP, sc fence of the reader's CTA",
     {"st.relaxed.sys x, 1; fence.sc.gpu; st.relaxed.sys flag, 1;",
      "ld.relaxed.sys a, flag; fence.sc.cta; ld.relaxed.sys b, x;"},
     "",
     {}},
    {"MP by atomics, sc fences",
     {"atom.add.relaxed.gpu c, x, 1; fence.sc.gpu; atom.exch.relaxed.gpu d, flag, 1;",
      "atom.add.relaxed.gpu a, flag, 0; fence.sc.gpu; atom.add.relaxed.gpu b, x, 0;"},
     "",
     {1, 0, 9, 9}},
    {"MP by atomics, sc fences of the CTA",
     {"st x, 1; fence.sc.cta; atom.exch.relaxed.gpu c, flag, 1;",
      "atom.add.relaxed.gpu a, flag, 0; fence.sc.cta; SEEN ld b, x;"},
     "narrow_scope",
     {}},
    {"MP by three, the first two in one CTA",
     {"st x, 1; st.release.cta y, 1;", "ld.acquire.cta a, y; SEEN st.release.gpu z, 1;",
      "ld.acquire.gpu b, z; SEEN_B ld c, x;"},
     "",
     {1, 1, 0, 9},
     "001"},
    {"MP by three, the scope of the first too narrow",
     {"st x, 1; st.release.cta y, 1;", "ld.acquire.cta a, y; SEEN st.release.gpu z, 1;",
      "ld.acquire.gpu b, z; SEEN_B ld c, x;"},
     "data_race narrow_scope",
     {},
     "011"},
    {"MP, scopes of CTA and device in one CTA",
     {"st x, 1; st.release.cta flag, 1;", "ld.acquire.gpu a, flag; SEEN ld b, x;"},
     "",
     {1, 0, 9, 9},
     "00"},
    {"fences of three threads",
     {"st x, 1; fence.acq_rel.cta; st.relaxed.cta y, 1;",
      "ld.acquire.cta a, y; fence.acq_rel.cta; fence.acq_rel.cta; SEEN st.relaxed.cta z, 1;",
      "ld.relaxed.cta b, z; fence.acq_rel.cta; SEEN_B ld.relaxed.cta c, x;"},
     "",
     {1, 1, 0, 9},
     "000"},
    {"fences of three threads, the second stores first",
     {"st x, 1; fence.acq_rel.cta; st.relaxed.cta y, 1;",
      "st.relaxed.cta z, 1; fence.acq_rel.cta; fence.acq_rel.cta; ld.acquire.cta a, y;",
      "ld.relaxed.cta b, z; fence.acq_rel.cta; SEEN_B ld.relaxed.cta c, x;"},
     "data_race missing_order",
     {},
     "000"},
    {"a lock by cas",
     {"st x, 1; fence.sc.gpu; atom.exch.relaxed.gpu c, flag, 1;",
      "atom.cas.relaxed.gpu a, flag, 1, 2; SEEN fence.sc.gpu; ld b, x;"},
     "",
     {1, 0, 9, 9}},
    {"a lock by cas, without fences",
     {"st x, 1; atom.exch.relaxed.gpu c, flag, 1;", "atom.cas.relaxed.gpu a, flag, 1, 2; SEEN ld b, x;"},
     "missing_order",
     {}},
    {"a queue with a weak tail",
     {"st.relaxed.gpu x, 1; fence.sc.gpu; ld c, flag; st flag, 1;",
      "ld a, flag; SEEN fence.sc.gpu; ld.relaxed.gpu b, x;"},
     "data_race",
     {}},
    {"a barrier of the device",
     {"st x, 1; st.release.gpu flag, 1;", "ld.acquire.gpu a, flag; st y, a; barrier.sync 2, 64;",
      "barrier.sync 2, 64; ld b, y; SEEN_B ld c, x;"},
     "",
     {1, 1, 0, 9},
     "011"},
    {"a barrier of the device, relaxed",
     {"st x, 1; st.relaxed.gpu flag, 1;", "ld.relaxed.gpu a, flag; st y, a; barrier.sync 2, 64;",
      "barrier.sync 2, 64; ld b, y; SEEN_B ld c, x;"},
     "missing_order",
     {},
     "011"},
    {"arrive and sync",
     {"ld a, x; barrier.sync 0, 64; barrier.arrive 1, 64;", "barrier.arrive 1, 64; st x, 1; barrier.sync 0, 64;"},
     "data_race",
     {},
     "00"},
    {"barriers in another order",
     {"ld a, x; barrier.sync 0, 64; barrier.sync 1, 64;", "barrier.sync 1, 64; st x, 1; barrier.sync 0, 64;"},
     "barrier_deadlock",
     {},
     "00"},
    {"a barrier of two for three",
     {"st x, 1; barrier.sync 1, 64;", "barrier.sync 1, 64; ld a, x; ld b, y;", "st y, 1; barrier.sync 1, 64;"},
     "barrier_deadlock data_race",
     {},
     "000"},
    {"a barrier of four for three",
     {"ld a, x; barrier.sync 1, 128;", "barrier.sync 1, 128; st x, 1;", "barrier.sync 1, 128;"},
     "barrier_deadlock",
     {},
     "000"},
    {"a store before a barrier, atomics behind it",
     {"st x, 1; barrier.sync 0, 64; atom.add.acq_rel.gpu a, x, 1;",
      "barrier.sync 0, 64; atom.add.acq_rel.gpu b, x, 1;"},
     "",
     {1, 1, 9, 9},
     "00"},
    {"SB by atomics",
     {"atom.add.acq_rel.gpu a, x, 1; atom.add.acq_rel.gpu b, y, 1;",
      "atom.add.acq_rel.gpu c, y, 1; atom.add.acq_rel.gpu d, x, 1;"},
     "",
     {9, 0, 9, 0}},
    {"WRC, fences",
     {"st.relaxed.gpu x, 1;", "ld.relaxed.gpu a, x; fence.acq_rel.gpu; st.relaxed.gpu y, 1;",
      "ld.relaxed.gpu b, y; fence.acq_rel.gpu; ld.relaxed.gpu c, x;"},
     "",
     {1, 1, 0, 9}},
    {"RWC, sc fences",
     {"st.relaxed.gpu x, 1;", "ld.relaxed.gpu a, x; fence.sc.gpu; ld.relaxed.gpu b, y;",
      "st.relaxed.gpu y, 1; fence.sc.gpu; ld.relaxed.gpu c, x;"},
     "",
     {1, 0, 0, 9}},
    {"MP, the acquire reads the older word",
     {"st.release.sys x, 1; st.release.sys y, 1;", "ld.relaxed.sys a, y; ld.acquire.gpu b, x;"},
     "",
     {}},
    {"CoRR, weak reads behind a release",
     {"st.release.gpu x, 1;", "st.release.gpu x, 3; ld a, x; ld b, x;"},
     "data_race",
     {}},
};

bool one_each(const Litmus& test) { return test.ctas.empty(); }

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

// "ld.relaxed.gpu a, x" -> "ld.relaxed.gpu.global.u32 %r10, [%rd1+0]"
std::string instruction(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  const std::string opcode = text.substr(0, text.find(' '));
  const bool memory =
      opcode.starts_with("ld") || opcode.starts_with("st") || opcode.starts_with("atom") || opcode.starts_with("red");
  std::string operands = text.substr(opcode.size()) + " ";
  constexpr std::string_view places[] = {"x", "y", "z", "flag"};
  constexpr std::string_view reads[] = {"a", "b", "c", "d"};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string place = "[%rd1+" + std::to_string(64 * i) + "]", read = "%r" + std::to_string(10 + i);
    for (const char end : {',', ' '}) {
      operands = replaced(operands, cat(" ", places[i], end), cat(" ", place, end));
      operands = replaced(operands, cat(" ", reads[i], end), cat(" ", read, end));
    }
  }
  if (!memory) return opcode + operands + ";\n";
  if (opcode == "ld.half") return "ld.relaxed.gpu.global.u16" + operands + ";\n";
  // Atomics are written with the operation behind the scope: atom.relaxed.gpu.global.add.u32.
  std::string head = opcode, operation;
  for (const std::string_view name : {".add", ".exch", ".cas"}) {
    if (const auto at = head.find(name); at != head.npos) head.erase(at, name.size()), operation = name;
  }
  return cat(head, ".global", operation, operation == ".exch" || operation == ".cas" ? ".b32" : ".u32", operands,
             ";\n");
}

std::string program(const Litmus& test) {
  std::string text =
      ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<4>; "
      ".reg .b32 %r<16>; .reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\nmov.u32 %r10, 0;\nmov.u32 %r11, 9;\nmov.u32 %r12, "
      "0;\nmov.u32 %r13, 9;\n";
  // %r1: the number of a thread, or of a warp of whose lanes all but one have nothing to do; with its CTA in hundreds.
  text += one_each(test) ? "mov.u32 %r1, %ctaid.x;\n"
                         : "mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 31;\nsetp.ne.u32 %p3, %r2, 0;\n@%p3 bra "
                           "end;\nshr.u32 %r1, %r1, 5;\nmov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r1, %r2, 100, %r1;\n";
  for (std::size_t i = 0; i < test.threads.size(); ++i) {
    const std::size_t number = one_each(test) ? i : 100 * static_cast<std::size_t>(test.ctas[i] - '0') + i;
    text += cat("setp.eq.u32 %p2, %r1, ", number, ";\n@%p2 bra t", i, ";\n");
  }
  text += "bra end;\n";
  for (std::size_t i = 0; i < test.threads.size(); ++i) {
    text += cat("t", i, ":\n");
    std::string body(test.threads[i]);
    body = replaced(body, "SEEN ", "setp.eq.u32 %p1, a, 0; @%p1 bra done; ");
    std::stringstream parts(replaced(body, "SEEN_B ", "setp.eq.u32 %p1, b, 0; @%p1 bra done; "));
    std::string part;
    while (std::getline(parts, part, ';')) {
      if (part.find_first_not_of(' ') == part.npos) continue;
      std::string line = instruction(part);
      text += replaced(line, " done", " end");
    }
    // What this thread reads.
    for (std::size_t r = 0; r < 4; ++r) {
      const std::string name = cat(" ", "abcd"[r], ",");
      if (std::string(test.threads[i]).find(name) != std::string::npos)
        text += cat("st.global.u32 [%rd1+", 1024 + 4 * r, "], %r", 10 + r, ";\n");
    }
    text += "bra end;\n";
  }
  return text + "end:\nret;\n}\n";
}

}  // namespace

TEST_CASE("litmus tests of the memory consistency model") {
  for (const Litmus& test : tests) {
    CAPTURE(test.name);
    const std::string text = program(test);
    sim_test::Fixture f;
    const auto threads = static_cast<std::uint32_t>(test.threads.size());
    f.grid = {one_each(test) ? threads : 1u, 1, 1}, f.block = {one_each(test) ? 1 : 32 * threads, 1, 1};
    for (const char cta : test.ctas) f.grid.x = std::max(f.grid.x, static_cast<std::uint32_t>(cta - '0') + 1);
    f.arguments = {{"inout", std::string(4096, '0'), {}}};
    sim::Options options{.checks = *sim::checks_named("all")};
    const auto plain = sim_test::run(text, f, options);
    if (test.rule.empty()) {
      CHECK_MESSAGE(plain.diagnostics.empty(), to_string(plain.diagnostics), text);
    } else {
      REQUIRE_MESSAGE(!plain.diagnostics.empty(), text);
      const bool named = std::any_of(plain.diagnostics.begin(), plain.diagnostics.end(), [&](const Diagnostic& d) {
        return test.rule.find(info(d.code).name) != test.rule.npos;
      });
      CHECK_MESSAGE(named, to_string(plain.diagnostics));
    }
    if (test.forbidden.empty()) continue;
    for (options.seed = 0; options.seed < 50; ++options.seed) {
      const auto result = sim_test::run(text, f, options);
      CHECK_MESSAGE(result.diagnostics.empty(), "seed ", options.seed, ": ", to_string(result.diagnostics));
      bool forbidden = true;
      for (std::size_t r = 0; r < 4; ++r) {
        const std::uint32_t got =
            static_cast<std::uint32_t>(std::stoul(result.outputs[0].substr(2048 + 8 * r, 2), nullptr, 16));
        forbidden = forbidden && (test.forbidden[r] == 9 || got == test.forbidden[r]);
      }
      // Nothing has been read at all where nobody saw the flag.
      CHECK_MESSAGE(!forbidden, "seed ", options.seed);
    }
  }
}
