// Part of the module in wheels for x86-64: it asks glibc for nothing that is newer than 2.18, whichever glibc built it.
//
// What a later glibc has under a new version is defined here, for this module alone, as a jump to the version of old;
// what an old one has not is written in terms of what it has.  The linker takes a definition of the module's before
// that of a library.  Functions that moved into libc.so.6 are in libdl.so.2 and libpthread.so.0 of an old one, which
// the module names (CMakeLists.txt).
#include <time.h>

#define VERSION "@GLIBC_2.2.5"
#define FORMERLY(name, former)                                                                                     \
  __asm__(".text\n.symver former_" #name "," #former VERSION "\n.globl " #name "\n.hidden " #name "\n.type " #name \
          ",@function\n" #name ": jmp former_" #name "@PLT");

FORMERLY(dlerror, dlerror)  // moved by 2.34
FORMERLY(dlopen, dlopen)
FORMERLY(dlsym, dlsym)
FORMERLY(__pthread_key_create, __pthread_key_create)
FORMERLY(pthread_create, pthread_create)
FORMERLY(pthread_join, pthread_join)
FORMERLY(pthread_once, pthread_once)
FORMERLY(pthread_rwlock_rdlock, pthread_rwlock_rdlock)
FORMERLY(pthread_rwlock_unlock, pthread_rwlock_unlock)
FORMERLY(pthread_rwlock_wrlock, pthread_rwlock_wrlock)
FORMERLY(exp2, exp2)  // 2.29: says of errors what ISO C says
FORMERLY(log2, log2)

extern "C" {

// 2.33: before, the header's inline functions called these, with the version of the structure.
#define STAT(name, former, type)                           \
  __asm__(".symver former_" #former "," #former VERSION);  \
  int former_##former(int version, type file, void* made); \
  __attribute__((visibility("hidden"))) int name(type file, void* made) { return former_##former(1, file, made); }
STAT(stat, __xstat, const char*)
STAT(lstat, __lxstat, const char*)
STAT(fstat64, __fxstat64, int)

// 2.32: a hint that locks may be left out.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// 2.30: waits until a time of another clock than the wall's; who calls it asks that clock again.
int pthread_cond_timedwait(void* condition, void* mutex, const timespec* until);
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(void* condition, void* mutex, int clock,
                                                                 const timespec* until) {
  timespec now, wall;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &wall);
  wall.tv_sec += until->tv_sec - now.tv_sec;
  wall.tv_nsec += until->tv_nsec - now.tv_nsec;
  const long carry = wall.tv_nsec < 0 ? -1 : wall.tv_nsec >= 1000000000 ? 1 : 0;
  wall.tv_sec += carry;
  wall.tv_nsec -= carry * 1000000000;
  return pthread_cond_timedwait(condition, mutex, &wall);
}
}
