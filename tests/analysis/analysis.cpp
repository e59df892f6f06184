// Reads and writes, control flow, loops, liveness: of bodies that are small enough to work out by hand.
#include <doctest/doctest.h>

#include <random>
#include <set>

#include "ptx/analysis/access.h"
#include "ptx/analysis/flow.h"
#include "ptx/analysis/liveness.h"
#include "ptx/analysis/memory.h"
#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/syntax/parse.h"
#include "tests/ptx_files.h"

using namespace ptx;
using analysis::Flow;
using analysis::Liveness;

namespace {

ir::Function kernel(std::string_view body, bool checked = true) {
  const std::string text = cat(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.func (.reg .b32 out) f(.reg .b32 in) { mov.b32 out, in; }\n",
      ".entry k(.param .u64 p) {\n.reg .b32 r<9>; .reg .b64 l<9>; .reg .pred p<9>; .reg .f32 f<9>; .reg .b16 h<9>;\n",
      ".reg .v4 .f32 v;\n", body, "\n}\n");
  ir::Lowered lowered = ir::lower(syntax::parse(text, Name("t.ptx")).tree);
  if (checked) CHECK(to_string(check::check(lowered.module)) == "");
  return std::move(lowered.module.functions.at(1));
}

// Of the last instruction: "+r1" reads, "=r1" writes, "~r1" writes a part or under a guard.
std::string accesses(std::string_view line, bool checked = true) {
  const ir::Function f = kernel(line, checked);
  std::vector<analysis::Access> list;
  analysis::accesses(f, f.instructions.back(), list);
  Text out;
  for (const analysis::Access& a : list) {
    if (out.size()) out << ' ';
    if (a.reads) out << '+';
    if (a.writes) out << (a.whole ? '=' : '~');
    out << ir::name(f.registers[a.reg]);
  }
  return out.take();
}

// "0>1,2 1>3": the successors of each block; a table's entries as /, what leaves as !.
std::string edges(const Flow& flow) {
  Text out;
  for (analysis::BlockId b = 0; b < flow.blocks().size(); ++b) {
    out << (b ? " " : "") << b << '>';
    for (const analysis::Edge& e : flow.successors(b))
      out << (e.kind == analysis::Edge::Kind::table ? "/" : "") << e.to;
    if (flow.blocks()[b].leaves) out << '!';
  }
  return out.take();
}

std::string dominators(const Flow& flow) {
  Text out;
  for (analysis::BlockId b = 0; b < flow.blocks().size(); ++b) {
    flow.dominator(b) == analysis::no_block ? out << '-' : out << flow.dominator(b);
    out << '/';
    flow.post_dominator(b) == analysis::no_block ? out << "- " : out << flow.post_dominator(b) << ' ';
  }
  return out.take();
}

std::string names(const ir::Function& f, const std::vector<ir::RegisterId>& list) {
  Text out;
  for (const ir::RegisterId r : list) out << (out.size() ? " " : "") << ir::name(f.registers[r]);
  return out.take();
}

constexpr std::string_view loop =
    "mov.b32 r0, 0; mov.b32 r1, 7;\n"
    "top: add.s32 r0, r0, r1; setp.lt.s32 p0, r0, 100; @p0 bra top;\n"
    "mov.b32 r2, r0; ret;";

}  // namespace

TEST_CASE("what instructions read and write") {
  CHECK(accesses("add.s32 r0, r1, r2;") == "=r0 +r1 +r2");
  CHECK(accesses("@!p1 add.s32 r0, r1, 1;") == "+p1 ~r0 +r1");
  CHECK(accesses("st.global.b32 [l0+4], r1;") == "+l0 +r1");
  CHECK(accesses("ld.global.v2.f32 {f0, f1}, [l0];") == "=f0 =f1 +l0");
  CHECK(accesses("setp.lt.s32 p0|p1, r0, r1;") == "=p0 =p1 +r0 +r1");
  CHECK(accesses("shfl.sync.idx.b32 r0|p0, r1, 0, 31, -1;") == "=r0 =p0 +r1");
  CHECK(accesses("mov.b64 {r0, r1}, l0;") == "=r0 =r1 +l0");
  CHECK(accesses("mov.b64 {r0, _}, l0;") == "=r0 +l0");
  CHECK(accesses("mov.f32 v.y, f0;") == "~v +f0");
  CHECK(accesses("atom.global.add.u32 r0, [l0], r1;") == "=r0 +l0 +r1");
  CHECK(accesses("call (r0), f, (r1);") == "=r0 +r1");
  CHECK(accesses("mad.lo.s32 r0, r0, r1, r0;") == "=r0 +r0 +r1 +r0");
  CHECK(
      accesses(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [r0], [l0, {r1, r2}], [r3];") ==
      "+r0 +l0 +r1 +r2 +r3");
}

TEST_CASE("wgmma reads what it adds to") {
  const auto line = [](std::string_view scale) {
    return accesses(
        cat("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1, f2, f3}, l0, l1, ", scale, ", 1, 1, 0, 0;"));
  };
  CHECK(line("1") == "+~f0 +~f1 +~f2 +~f3 +l0 +l1");
  CHECK(line("p0") == "+~f0 +~f1 +~f2 +~f3 +l0 +l1 +p0");
  CHECK(line("0") == "=f0 =f1 =f2 =f3 +l0 +l1");
}

TEST_CASE("instructions that no check has seen") {
  CHECK(accesses("add.s32 r0, r1, r2;", false) == "=r0 +r1 +r2");
  CHECK(accesses("add.s32 r0, r1, r2, r3;", false) == "=r0 +r1 +r2 +r3");
  CHECK(accesses("add.s32 r0;", false) == "=r0");
  CHECK(accesses("frobnicate r0, [l1];", false) == "+~r0 +l1");
}

TEST_CASE("what may be left out") {
  const auto pure = [](std::string_view line) { return analysis::is_pure(kernel(line).instructions.back()); };
  CHECK(pure("add.s32 r0, r1, r2;"));
  CHECK(pure("mov.u32 r0, %tid.x;"));
  CHECK_FALSE(pure("add.cc.s32 r0, r1, r2;"));
  CHECK_FALSE(pure("ld.global.b32 r0, [l0];"));
  CHECK_FALSE(pure("shfl.sync.idx.b32 r0, r1, 0, 31, -1;"));
  CHECK_FALSE(pure("bar.sync 0;"));
  CHECK_FALSE(pure("ret;"));
}

TEST_CASE("reads and writes of a register") {
  const ir::Function f = kernel("mov.b32 r0, 1; add.s32 r0, r0, r0; @p0 mov.b32 r1, r0;");
  const auto uses = analysis::uses(f);
  CHECK(uses[0].writes.size() == 2);
  CHECK(uses[0].reads.size() == 2);
  CHECK(uses[1].reads.empty());
}

TEST_CASE("blocks and edges") {
  const ir::Function f = kernel(loop);
  const Flow flow(f);
  CHECK(edges(flow) == "0>1 1>21 2>!");
  CHECK(dominators(flow) == "-/1 0/2 1/- ");
  REQUIRE(flow.loops().size() == 1);
  CHECK(flow.loops()[0].header == 1);
  CHECK(flow.loops()[0].latches == std::vector<analysis::BlockId>{1});
  CHECK(flow.reducible());
  CHECK(edges(Flow(kernel("@p0 ret; @p1 bra done; trap; done:"))) == "0>1! 1>23 2>! 3>!");
  CHECK(edges(Flow(kernel(""))) == "0>!");
}

TEST_CASE("tables of brx.idx, and labels of inner blocks") {
  CHECK(edges(Flow(kernel("t: .branchtargets a, b, a;\nbrx.idx r0, t; a: ret; b: ret;"))) == "0>/1/2/1 1>! 2>!");
  // The inner `x` hides the outer one.
  CHECK(edges(Flow(kernel("{ bra x; x: bar.sync 0; } x: ret;"))) == "0>1 1>2 2>!");
  CHECK(edges(Flow(kernel("bra nowhere;", false))) == "0>");
}

TEST_CASE("loops in loops, and cycles without a header") {
  const Flow nested(kernel("a: b: add.s32 r0, r0, 1; @p0 bra b; c: @p1 bra c; @p2 bra a; ret;"));
  CHECK(edges(nested) == "0>10 1>21 2>30 3>!");
  const Flow loops(kernel("bar.sync 0; a: bar.sync 0; b: add.s32 r0, r0, 1; @p0 bra b; @p2 bra a; ret;"));
  REQUIRE(loops.loops().size() == 2);
  CHECK(loops.loops()[1].parent == 0);
  CHECK(loops.loops()[1].depth == 2);
  CHECK(loops.loop_of(loops.loops()[1].header) == 1);
  CHECK(loops.blocks_of(0) == std::vector<analysis::BlockId>{1, 2, 3});
  CHECK(loops.blocks_of(1) == std::vector<analysis::BlockId>{2});
  const Flow odd(kernel("@p0 bra b; a: bar.sync 0; b: bar.sync 0; @p1 bra a; ret;"));
  CHECK_FALSE(odd.reducible());
  CHECK(odd.loops().empty());
}

TEST_CASE("what is live") {
  const ir::Function f = kernel(loop);
  const Flow flow(f);
  const Liveness live(f, flow);
  CHECK(names(f, live.in(0)) == "");
  CHECK(names(f, live.out(0)) == "r0 r1");
  CHECK(names(f, live.in(1)) == "r0 r1");
  CHECK(names(f, live.out(1)) == "r0 r1");
  CHECK(names(f, live.in(2)) == "r0");
  const auto pressures = live.pressures();
  std::uint32_t most = 0;
  for (const auto& p : pressures) most = std::max(most, p.words());
  CHECK(most == 2);
  std::uint32_t branch = flow.blocks()[1].end;
  CHECK(names(f, live.behind(branch - 1)) == "r0 r1 p0");
}

TEST_CASE("a guarded write keeps the old value; a write that nobody reads takes a register all the same") {
  const ir::Function f = kernel("a: @p0 mov.b32 r0, 1; b: st.global.b32 [l0], r0; c: add.s32 r1, 1, 2; ret;");
  const Flow flow(f);
  const Liveness live(f, flow);
  CHECK(names(f, live.in(0)) == "r0 l0 p0");
  CHECK(live.pressures()[flow.blocks()[2].first + 1].count[analysis::Pressure::bits32] == 1);
  CHECK(names(f, live.in(2)) == "");
}

TEST_CASE("registers that a function returns are read where it ends") {
  ir::Lowered lowered = ir::lower(
      syntax::parse(".version 9.0\n.target sm_90\n.func (.reg .b32 o) g(.reg .b32 i) { mov.b32 o, i; bar.sync 0; }")
          .tree);
  const ir::Function& f = lowered.module.functions[0];
  const Flow flow(f);
  CHECK(names(f, Liveness(f, flow).in(0)) == "i");
  CHECK(names(f, Liveness(f, flow).behind(0)) == "o");
}

// By the definition: a block dominates another if that is not reached without it.
TEST_CASE("dominators, loops and liveness of random graphs") {
  std::mt19937 random(914);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    const std::size_t labels = 2 + below(9);
    Text body;
    for (std::size_t at = 0; at < labels; ++at) {
      body << "L" << at << ": mov.b32 r" << below(9) << ", r" << below(9) << ";\n";
      if (below(3)) body << "@p" << below(3) << " bra L" << below(labels) << ";\n";
      if (below(6) == 0) body << (below(2) ? "ret;\n" : cat("bra L", below(labels), ";\n"));
    }
    const std::string text = body.take();
    CAPTURE(text);
    const ir::Function f = kernel(text, false);
    const Flow flow(f);
    const Liveness live(f, flow);
    const auto count = static_cast<analysis::BlockId>(flow.blocks().size());
    const auto reached = [&](analysis::BlockId without) {
      std::vector<bool> seen(count);
      std::vector<analysis::BlockId> open{0};
      while (!open.empty()) {
        const analysis::BlockId b = open.back();
        open.pop_back();
        if (b == without || seen[b]) continue;
        seen[b] = true;
        for (const analysis::Edge& e : flow.successors(b)) open.push_back(e.to);
      }
      return seen;
    };
    const auto all = reached(analysis::no_block);
    for (analysis::BlockId a = 0; a < count; ++a) {
      const auto seen = reached(a);
      for (analysis::BlockId b = 0; b < count; ++b) {
        if (all[a] && all[b]) CHECK(flow.dominates(a, b) == !seen[b]);
      }
    }
    for (analysis::BlockId b = 1; b < count; ++b) {  // the nearest: every other one dominates it
      if (!all[b]) continue;
      CHECK(flow.dominates(flow.dominator(b), b));
      for (analysis::BlockId a = 0; a < count; ++a) {
        if (all[a] && a != b && flow.dominates(a, b)) CHECK(flow.dominates(a, flow.dominator(b)));
      }
    }
    for (std::uint32_t l = 0; l < flow.loops().size(); ++l) {
      const analysis::Loop& loop = flow.loops()[l];
      std::set<analysis::BlockId> blocks{loop.header};
      std::vector<analysis::BlockId> open = loop.latches;
      while (!open.empty()) {
        const analysis::BlockId b = open.back();
        open.pop_back();
        if (!all[b] || !blocks.insert(b).second) continue;
        for (const analysis::BlockId from : flow.predecessors(b)) open.push_back(from);
      }
      CHECK(flow.blocks_of(l) == std::vector<analysis::BlockId>(blocks.begin(), blocks.end()));
    }
    Liveness::Walk walk(live);
    for (analysis::BlockId b = count; b-- > 0;) {  // of the last first: one walk goes back as well
      CHECK(walk.in(b) == live.in(b));
      CHECK(walk.out(b) == live.out(b));
      if (!all[b]) continue;
      std::set<ir::RegisterId> out;
      for (const analysis::Edge& e : flow.successors(b)) {
        for (const ir::RegisterId r : live.in(e.to)) out.insert(r);
      }
      CHECK(live.out(b) == std::vector<ir::RegisterId>(out.begin(), out.end()));
    }
  }
}

TEST_CASE("addresses are sums modulo 2^64") {
  const ir::Function f = kernel(R"(
    ld.param.u64 l0, [p];
    mul.lo.s64 l1, l4, -9223372036854775808;
    sub.s64 l2, l5, l1;
    mad.lo.s64 l3, l2, 9223372036854775807, l1;
    add.s64 l6, l0, l3;
    st.global.b32 [l6+-2147483648], 1;
    add.s64 l7, l6, -9223372036854775808;
    ld.global.b32 r1, [l7];
    mov.b64 l8, l0;
    add.s64 l8, l8, -9223372036854775808;
    ld.global.b32 r2, [l8];)",
                                false);
  const auto found = analysis::reached_memory(f);
  REQUIRE(found.size() == 1);
  const auto& uses = found.begin()->second.uses;
  REQUIRE(uses.size() == 3);
  const std::uint64_t most = std::uint64_t{1} << 63;
  CHECK(uses[0].steps == std::vector<std::uint64_t>{most - 1});  // of l5; the products of l4 cancel
  CHECK(uses[2].steps == std::vector<std::uint64_t>{most});
}

TEST_CASE("every fixture") {
  std::size_t blocks = 0;
  for (const auto& path : ptx_files(PTX_SOURCE_DIR "/tests/fixtures")) {
    const ir::Lowered lowered = ir::lower(syntax::parse(read(path)).tree);
    for (const ir::Function& f : lowered.module.functions) {
      const Flow flow(f);
      const Liveness live(f, flow);
      CHECK(live.pressures().size() == f.body.size());
      blocks += flow.order().size();
    }
  }
  CHECK(blocks > 100);
}
