// The runtime's C interface: memory, threads, cancelling, errors, and files that were altered.
#include <brim/brim.h>
#include <brim/deploy/engine.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "deploy/altered_engine.h"
#include "deploy/counted_memory.h"
#include "deploy/opened_engine.h"
#include "rt/format.h"
#include "rt/memory.h"
#include "sanitized.h"
#include "temporary_folder.h"

namespace brim::tests {
namespace {

/// A small network with most steps of an engine, once for all tests.
class Runtime : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    manual_seed(5);
    folder_ = new TemporaryFolder;
    network_ = nn::make_model("cifar-resnet8").release();
    network_->eval();
    deploy::save_engine(path(), *network_, randn({1, 3, 32, 32}),
                        {.batches = {1, 4},
                         .labels = {"cat", "dog", "2", "3", "4", "5", "6", "7", "8", "9"},
                         .metadata = {{"model", "r"}}});
  }
  static void TearDownTestSuite() {
    delete network_;
    delete folder_;
  }
  static std::string path() { return *folder_ / "model.brim"; }
  static Tensor expected(const Tensor& x) {
    const NoGrad no_grad;
    return (*network_)(x);
  }
  static std::string bytes() {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string refusal(const std::string& bytes, bool fix_hash = true) {
    return refusal_of(bytes, *folder_ / "altered.brim", fix_hash);
  }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline nn::Module* network_ = nullptr;
};

TEST(RuntimeMemory, IsAlignedAndWhole) {
  const rt::Memory memory;
  constexpr size_t kMiB = size_t{1} << 20;  // with sizes around those that go into huge pages
  for (const size_t bytes :
       {size_t{0}, size_t{1}, kMiB - 1, kMiB, 2 * kMiB + 1, 3 * kMiB, 5 * kMiB - 1}) {
    char* const block = static_cast<char*>(memory.take(bytes));
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % rt::kAlignment, 0U) << bytes;
    std::memset(block, 1, bytes);
    memory.give_back(block, bytes);
  }
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - kMiB})
    EXPECT_EQ(memory.take(bytes), nullptr) << bytes;
}

TEST_F(Runtime, TakesMemoryOnlyBeforeItRuns) {
  CountedMemory counted;
  const brim_rt_allocator allocator = counted.allocator();
  {
    const OpenedEngine engine(path(), {.batch = 4, .own_threads = 2}, &allocator);
    const int taken = counted.taken;
    const size_t bytes = counted.held;
    EXPECT_GE(bytes, brim_rt_memory(engine.session()));
    const Tensor x = randn({4, 3, 32, 32});
    for (int i = 0; i < 5; ++i) EXPECT_LT(relative_difference(engine(x), expected(x)), 1e-5);
    EXPECT_EQ(counted.taken, taken);
    EXPECT_EQ(counted.held, bytes);
  }
  EXPECT_EQ(counted.held, 0U);
}

TEST_F(Runtime, SaysWhereMemoryEnds) {
  for (int allowed = 0; allowed < 5; ++allowed) {
    CountedMemory counted;
    counted.allowed = allowed;
    const brim_rt_allocator allocator = counted.allocator();
    try {
      const OpenedEngine engine(path(), {.own_threads = 2}, &allocator);
      EXPECT_GE(allowed, 4);
    } catch (const std::runtime_error& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("no memory"), std::string::npos) << text;
    }
    EXPECT_EQ(counted.held, 0U);
  }
}

TEST_F(Runtime, ServesThreadsBesideEachOther) {
  const Tensor x = randn({1, 3, 32, 32}), y = expected(x);
  brim_rt_error error;
  brim_rt_model* model = nullptr;
  ASSERT_EQ(brim_rt_open(path().c_str(), nullptr, &model, &error), BRIM_RT_OK);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      brim_rt_session* session = nullptr;
      const brim_rt_session_options options = {
          .batch = 1, .own_threads = 1 + t % 2, .threads = nullptr, .isa = nullptr};
      brim_rt_error own;
      if (brim_rt_session_create(model, &options, &session, &own)) {
        ++wrong;
        return;
      }
      Tensor found = Tensor::empty({1, 10}, f32, Device::cpu());
      const void* inputs[] = {x.raw()};
      void* outputs[] = {found.raw()};
      for (int i = 0; i < 20; ++i)
        if (brim_rt_run(session, inputs, outputs, &own) || relative_difference(found, y) > 1e-5)
          ++wrong;
      brim_rt_session_close(session);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  brim_rt_close(model);
}

TEST_F(Runtime, RunsInAChildOfFork) {
  if (BRIM_THREAD_SANITIZED)
    GTEST_SKIP() << "it starts no threads in a child of a process that had some";
  const Tensor x = randn({4, 3, 32, 32}), y = expected(x);
  Tensor found = Tensor::empty({4, 10}, f32, Device::cpu());
  const void* inputs[] = {x.raw()};
  void* outputs[] = {found.raw()};
  brim_rt_error error;
  brim_rt_model* model = nullptr;
  brim_rt_session* session = nullptr;
  ASSERT_EQ(brim_rt_open(path().c_str(), nullptr, &model, &error), BRIM_RT_OK);
  const brim_rt_session_options options = {
      .batch = 4, .own_threads = 3, .threads = nullptr, .isa = nullptr};
  ASSERT_EQ(brim_rt_session_create(model, &options, &session, &error), BRIM_RT_OK);
  ASSERT_EQ(brim_rt_run(session, inputs, outputs, &error), BRIM_RT_OK);
  for (const bool runs : {true, false}) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // rather than hang
      for (int i = 0; runs && i < 20; ++i) {
        std::memset(found.raw(), 0, 40 * sizeof(float));
        if (brim_rt_run(session, inputs, outputs, &error)) _exit(1);
        const float* const a = found.data<float>();
        const float* const b = y.data<float>();
        for (int k = 0; k < 40; ++k)
          if (!(std::abs(a[k] - b[k]) < 1e-3f)) _exit(2);
      }
      brim_rt_session_close(session);
      brim_rt_close(model);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(brim_rt_run(session, inputs, outputs, &error), BRIM_RT_OK);  // it has its threads yet
  EXPECT_LT(relative_difference(found, y), 1e-5);
  brim_rt_session_close(session);
  brim_rt_close(model);
}

TEST_F(Runtime, BorrowsThreads) {
  static std::atomic<int> jobs{0};
  const brim_rt_threads lent = {
      2,
      [](void*, int64_t parts, void (*body)(void*, int64_t), void* context) {
        ++jobs;
        std::vector<std::thread> all;
        for (int64_t part = 1; part < parts; ++part) all.emplace_back(body, context, part);
        body(context, 0);
        for (std::thread& thread : all) thread.join();
      },
      nullptr};
  for (const int64_t batch : {1, 4}) {
    const OpenedEngine engine(path(), {.batch = batch, .threads = &lent});
    const Tensor x = randn({batch, 3, 32, 32});
    EXPECT_LT(relative_difference(engine(x), expected(x)), 1e-5);
  }
  EXPECT_GT(jobs, 0);
}

TEST_F(Runtime, IsCancelled) {
  const OpenedEngine engine(path(), {.batch = 4, .own_threads = 2});
  const Tensor x = randn({4, 3, 32, 32});
  brim_rt_cancel(engine.session());
  Tensor y = Tensor::empty({4, 10}, f32, Device::cpu());
  const void* inputs[] = {x.raw()};
  void* outputs[] = {y.raw()};
  brim_rt_error error;
  EXPECT_EQ(brim_rt_run(engine.session(), inputs, outputs, &error), BRIM_RT_CANCELLED);
  EXPECT_STREQ(error.message, "the run was cancelled");
  EXPECT_LT(relative_difference(engine(x), expected(x)), 1e-5);  // the next one is not
}

TEST_F(Runtime, TellsWhatItHolds) {
  const OpenedEngine engine(path(), {.batch = 4});
  EXPECT_EQ(brim_rt_batch(engine.model(), 0), 1);
  EXPECT_EQ(brim_rt_batch(engine.model(), 1), 4);
  EXPECT_EQ(brim_rt_batch(engine.model(), 2), 0);
  EXPECT_STREQ(brim_rt_label(engine.model(), 1), "dog");
  EXPECT_EQ(brim_rt_label(engine.model(), 10), nullptr);
  EXPECT_STREQ(brim_rt_metadata(engine.model(), "model"), "r");
  EXPECT_EQ(brim_rt_metadata(engine.model(), "nothing"), nullptr);
  const brim_rt_port& input = *brim_rt_input(engine.session(), 0);
  EXPECT_STREQ(input.name, "input");
  EXPECT_EQ(input.rank, 4);
  EXPECT_EQ(input.shape[0], 4);
  EXPECT_EQ(input.bytes, 4U * 3 * 32 * 32 * 4);
  EXPECT_EQ(brim_rt_input(engine.session(), 1), nullptr);
  EXPECT_EQ(brim_rt_output(engine.session(), 0)->shape[1], 10);
  EXPECT_STREQ(brim_rt_step(engine.session(), 1), "conv1: convolution");
  EXPECT_EQ(brim_rt_abi(), BRIM_RT_ABI);
  EXPECT_EQ(brim_rt_step(engine.session(), 1000), nullptr);
  double worst = 1;
  EXPECT_EQ(brim_rt_verify(engine.session(), &worst, nullptr), BRIM_RT_OK);
  EXPECT_LT(worst, 1e-5);
}

TEST_F(Runtime, RefusesWrongArguments) {
  const auto refused = [&](const brim_rt_session_options& o) {
    try {
      const OpenedEngine engine(path(), o);
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refused({.batch = 3}).find("no program for batches of 3"), std::string::npos);
  EXPECT_NE(refused({.isa = "mmx"}).find("'mmx' is none of"), std::string::npos);
  EXPECT_NE(refused({.own_threads = -1}).find("threads: -1"), std::string::npos);
  brim_rt_error error;
  brim_rt_model* model = nullptr;
  EXPECT_EQ(brim_rt_open(nullptr, nullptr, &model, &error), BRIM_RT_INVALID_ARGUMENT);
  EXPECT_EQ(brim_rt_open("/nonexistent/model.brim", nullptr, &model, &error), BRIM_RT_FILE);
  EXPECT_NE(std::string(error.message).find("/nonexistent/model.brim: "), std::string::npos);
  EXPECT_EQ(brim_rt_open("/", nullptr, &model, &error), BRIM_RT_FILE);
  EXPECT_EQ(brim_rt_open_memory("abc", 3, nullptr, nullptr, &error), BRIM_RT_INVALID_ARGUMENT);
  const OpenedEngine engine(path());
  const void* inputs[] = {nullptr};
  void* outputs[] = {nullptr};
  EXPECT_EQ(brim_rt_run(engine.session(), inputs, outputs, &error), BRIM_RT_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "brim_rt_run: no elements of input");
  EXPECT_EQ(brim_rt_run(nullptr, inputs, outputs, nullptr), BRIM_RT_INVALID_ARGUMENT);
  brim_rt_close(nullptr);
  brim_rt_session_close(nullptr);
}

TEST_F(Runtime, RefusesOtherFiles) {
  const std::string whole = bytes();
  EXPECT_EQ(refusal(whole), "");
  EXPECT_NE(refusal("").find("the file is empty"), std::string::npos);
  EXPECT_NE(refusal("no engine at all").find("this is no engine"), std::string::npos);
  for (const size_t size : {size_t{9}, sizeof(rt::FileHeader), whole.size() / 2, whole.size() - 1})
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  std::string other = whole;
  other[8] ^= 1;
  EXPECT_NE(refusal(other).find("another byte order"), std::string::npos);
  other = whole;
  other[12] = 99;
  EXPECT_NE(refusal(other).find("is of format 99, and this runtime reads format 1"),
            std::string::npos);
  other = whole;
  other[whole.size() / 2] ^= 1;
  EXPECT_NE(refusal(other, false).find("not those that were written"), std::string::npos);
}

TEST_F(Runtime, NoticesOtherWeights) {
  std::string other = bytes();
  const auto& header = *reinterpret_cast<const rt::FileHeader*>(other.data());
  const size_t begin = header.weights.at, end = begin + header.weights.count;
  for (size_t i = begin + 3; i < end; i += 4) other[i] ^= static_cast<char>(0x80);  // signs
  EXPECT_NE(refusal(other).find("output differs by"), std::string::npos) << refusal(other);
}

TEST_F(Runtime, SurvivesAlteredFiles) {
  constexpr int kFiles = 400;
  EXPECT_GT(refused_alterations(bytes(), *folder_ / "altered.brim", kFiles), kFiles / 4);
}

}  // namespace
}  // namespace brim::tests
