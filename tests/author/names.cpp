// `using namespace ptx::modifiers` beside the headers of C and POSIX: their names stay the user's, and so does every
// modifier. The headers come first here, as in a program that knows nothing of this library.
#include <fcntl.h>
#include <fenv.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cinttypes>
#include <clocale>
#include <cmath>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>
#include <cwctype>

#ifndef alloca
#error "the C library has alloca as a macro; this file tests that it stays"
#endif

#include "golden.h"
#include "ptx/author/kernel.h"
#include "ptx/author/literal.h"

#ifndef alloca
#error "kernel.h removed the macro alloca"
#endif

using namespace ptx::modifiers;
using namespace ptx::author::literals;

// Every modifier by its plain name: ambiguous where a header above declares the same.
#define MODIFIER(name, text) [[maybe_unused]] static const ptx::Modifier& use_of_##name = name;
#include "ptx/author/modifiers.def"
#undef MODIFIER

namespace ptx::author::testing {

TEST_CASE("functions of C and POSIX are called as ever") {
  CHECK(abs(-3) == 3);
  CHECK(std::isnan(nan("")));
  char byte = 0;
  CHECK(read(-1, &byte, 1) == -1);
  CHECK(wait(nullptr) == -1);  // this process has no children
  if (byte != 0) sync();       // compiled, not called: it writes all disks
  CHECK(alloca(8) != nullptr);
}

TEST_CASE("and the modifiers of these names end in _") {
  const auto built = author::kernel({.name = "k"}, [](Kernel& k) {
    const Reg h = k.scalar(b32), d = k.scalar(b32), r = k.scalar(u32, 0), stack = k.scalar(u32);
    k.fma(rn, relu, bf16x2, d, h, h, h);
    k.min(xorsign, abs_, bf16x2, d, h, h);
    k.shfl(sync_, bfly, b32, d, h, 1, 31, -1);
    k.barrier(cluster, wait_);
    k.cp(async, bulk, wait_group, read_, 0);
    k.alloca_(u32, stack, 16);
    k.xor_(b32, d, d, h);
    k.mov(u32, r, 1);
    k.ret();
  });
  const std::string text = ir::emit(built.module);
  for (const char* line : {"min.xorsign.abs.bf16x2", "shfl.sync.bfly.b32", "barrier.cluster.wait;",
                           "cp.async.bulk.wait_group.read 0", "alloca.u32", "xor.b32"})
    CHECK_MESSAGE(text.find(line) != text.npos, line);
}

}  // namespace ptx::author::testing
