// Ranks as threads of the test, over every backend.
#pragma once

#include <brim/dist/launch.h>
#include <brim/dist/process_group.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dist/socket.h"

namespace brim::dist {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What each of `count` threads threw, by rank; "" where it threw nothing.
inline std::vector<std::string> failures_of(int count, const std::function<void(int)>& rank) {
  std::vector<std::string> failures(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      try {
        rank(r);
      } catch (const std::exception& e) {
        failures[static_cast<size_t>(r)] = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

/// Four ports that are free, and that other tests do not use at the same time.
inline std::vector<uint16_t> test_ports() {
  static std::atomic<int> next{getpid() * 64 % 30000};
  while (true) {
    std::vector<uint16_t> ports;
    std::vector<Socket> listeners;  // a second run of the tests, or a service, may have some
    const int first = next.fetch_add(4);
    for (int i = 0; i < 4; ++i) {
      ports.push_back(static_cast<uint16_t>(2000 + (first + i) % 30000));
      listeners.push_back(listen_on({"127.0.0.1", ports.back()}));
    }
    if (std::ranges::all_of(listeners, &Socket::is_open)) return ports;
  }
}

inline std::vector<GroupPtr> tcp_groups(int size, const GroupOptions& options = {}) {
  std::vector<GroupPtr> groups(static_cast<size_t>(size));
  const std::vector<uint16_t> ports = test_ports();
  const std::vector<std::string> failures = failures_of(size, [&](int rank) {
    groups[static_cast<size_t>(rank)] = tcp_group({.rank = rank,
                                                   .size = size,
                                                   .ports = ports,
                                                   .token = "test",
                                                   .join_timeout = 20,
                                                   .group = options});
  });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  return groups;
}

inline std::vector<GroupPtr> groups_of(const std::string& backend, int size,
                                       const GroupOptions& options = {}) {
  return backend == "tcp" ? tcp_groups(size, options) : local_groups(size, options);
}

/// The same, each thread with its group, which ends when it throws.
inline std::vector<std::string> failures_of(const std::vector<GroupPtr>& groups,
                                            const std::function<void(ProcessGroup&)>& rank) {
  return failures_of(static_cast<int>(groups.size()), [&](int r) {
    ProcessGroup& group = *groups[static_cast<size_t>(r)];
    try {
      rank(group);
    } catch (const std::exception& e) {
      group.abort(e.what());
      throw;
    }
  });
}

}  // namespace brim::dist
