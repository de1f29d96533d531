// A disk that is full, for tests of what writes.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace brim::tests {

/// A file-size limit that no checkpoint fits in, as a full disk would refuse it.
class FullDisk {
 public:
  FullDisk() : handler_(std::signal(SIGXFSZ, SIG_IGN)) { getrlimit(RLIMIT_FSIZE, &before_); }
  ~FullDisk() {
    set(false);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  void set(bool full) {
    const rlimit limit{full ? 1000 : before_.rlim_cur, before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace brim::tests
