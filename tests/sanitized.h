// BRIM_SANITIZED: 1 where AddressSanitizer or ThreadSanitizer is compiled in, else 0.
// BRIM_THREAD_SANITIZED: 1 where it is the latter.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define BRIM_THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BRIM_THREAD_SANITIZED 1
#endif
#endif
#ifndef BRIM_THREAD_SANITIZED
#define BRIM_THREAD_SANITIZED 0
#endif

#if defined(__SANITIZE_ADDRESS__) || BRIM_THREAD_SANITIZED
#define BRIM_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BRIM_SANITIZED 1
#endif
#endif
#ifndef BRIM_SANITIZED
#define BRIM_SANITIZED 0
#endif
