// Words of the simulator's reports: which thread, at which line, did what. The numbers are PTX5001..5199.
#pragma once

#include <string>
#include <vector>

#include "ptx/base/diagnostic.h"
#include "ptx/base/text.h"
#include "ptx/sim/machine/warp.h"
#include "ptx/sim/recording.h"

namespace ptx::sim {

struct Cluster;
struct Mbarrier;
struct Program;

// The place of a thread, and what its access names.
Site site_of(const Warp& warp, std::uint32_t pc, int lane);
void site_accesses(Site& site, const Warp& warp, const Accessing& accessing);
std::vector<Site> sites_of_waiting(
    const Cluster& cluster);  // a thread of each fragment that waits; at most 16, and what the first waits for

Diagnostic describe_fault(const Warp& warp, Code code, std::uint32_t pc, int lane, std::string what,
                          std::vector<std::string> notes);

launch::Dim3 thread_id(const Warp& warp, int lane);                     // %tid
std::string triple(const launch::Dim3& size);                           // "(1,0,0)"
std::string describe_wait(const Warp& warp, const Fragment& fragment);  // "waits at barrier 1, ..."; empty: it can run
std::string thread_name(const Warp& warp, int lane);                    // "thread (3,0,0) of CTA (1,0,0)"
// Where the register of `row` is written next in the text behind `pc`: a note, or none. As mentioned().
std::vector<std::string> writers_of(Warp& warp, const Operand& row, std::uint32_t pc);
// Adds the author's lines where these have other names for what a report names: shared memory, a register.
void tell_names(Diagnostic& diagnostic, const Program& program);
// "k.cu:6", the line of which the .loc in front of an instruction says that it was compiled from it; empty: there is
// none.
std::string source_line(const Program& program, std::uint32_t pc);
// "`ld.global.u32`" and that line.
std::string instruction_name(const Program& program, std::uint32_t pc);
std::string place_name(const Warp& warp, std::uint32_t pc);  // "a.py:41 (bar.sync)"
// The same, of `other`, for a fault of `warp` that is about to be reported, whose further site it becomes.
std::string mentioned(Warp& warp, const Warp& other, std::uint32_t pc, int lane = 0);
std::string progress(const Mbarrier& b);  // "1 of 2 arrivals, 0 of 512 bytes", of the incomplete phase
// Where every fragment of a cluster's unfinished warps stands; at most 16 lines.
std::vector<std::string> where_warps_stand(const Cluster& cluster);

}  // namespace ptx::sim
