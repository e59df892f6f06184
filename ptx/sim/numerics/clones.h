// PTX_CLONES in front of a function: one version of it a vector length of the machine, chosen when the program is
// loaded. Not under a sanitizer, whose checks would run before the sanitizer does.
#pragma once

#if defined(__x86_64__) && defined(__ELF__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && \
    !__has_feature(undefined_behavior_sanitizer)
#define PTX_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
#else
#define PTX_CLONES [[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
#endif
#ifndef PTX_CLONES
#define PTX_CLONES
#endif
