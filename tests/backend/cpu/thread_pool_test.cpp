// The thread pool: every part once, from any number of threads, also at the same time.
#include "backend/cpu/runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backend/cpu/runtime/parallel.h"
#include "threads.h"

namespace brim::cpu {
namespace {

using tests::Threads;

std::vector<int> visits(int64_t n, int64_t grain) {
  std::vector<int> seen(static_cast<size_t>(n));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  return seen;
}

TEST(ThreadPool, EveryElementOnce) {
  for (int threads : {1, 2, 3, 8}) {
    const Threads guard(threads);
    for (int64_t n : {0, 1, 2, 7, 1000})
      for (int64_t grain : {0, 1, 3, 10000})
        EXPECT_EQ(visits(n, grain), std::vector<int>(static_cast<size_t>(n), 1))
            << threads << " threads, " << n << " elements, grain " << grain;
  }
}

TEST(ThreadPool, ManyJobsInARow) {
  const Threads guard(4);
  std::atomic<int64_t> total{0};
  for (int i = 0; i < 2000; ++i)
    parallel_for(16, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
  EXPECT_EQ(total, 2000 * 16);
}

TEST(ThreadPool, NestedLoopsRunInTheirThread) {
  const Threads guard(4);
  std::atomic<int> total{0};
  parallel_for(8, 1, [&](int64_t, int64_t) {
    const auto self = std::this_thread::get_id();
    parallel_for(8, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      total += static_cast<int>(end - begin);
    });
  });
  EXPECT_EQ(total, 64);
}

TEST(ThreadPool, WhatAPartThrowsReachesTheCaller) {
  const Threads guard(2);
  const auto caller = std::this_thread::get_id();
  for (int round = 0; round < 20; ++round)
    for (bool caller_throws : {true, false}) {
      std::atomic<bool> thrown{false};
      const auto run = [&] {
        parallel_for(8, 1, [&](int64_t, int64_t) {
          if ((std::this_thread::get_id() == caller) == caller_throws) {
            thrown = true;
            throw std::runtime_error("a part");
          }
          const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (!thrown && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        });
      };
      EXPECT_THROW(run(), std::runtime_error) << caller_throws;
      EXPECT_EQ(visits(100, 1), std::vector<int>(100, 1));
    }
}

TEST(ThreadPool, ThreadsThatFellAsleepComeBack) {
  const Threads guard(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::atomic<int> begun{0};
    parallel_for(2, 1, [&](int64_t, int64_t) {  // each part waits for the other
      ++begun;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (begun < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      EXPECT_EQ(begun, 2);
    });
  }
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  const Threads guard(3);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        parallel_for(10, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(total, 4 * 500 * 10);
}

}  // namespace
}  // namespace brim::cpu
