// The ops against PyTorch, through the table of ops. Each case runs in f64 and f32, images also in
// nhwc.
#include "golden/golden_case.h"

namespace golden {
namespace {

TEST(Golden, Unary) { run_family("unary", {.f32_tolerance = 2e-6}); }
TEST(Golden, Binary) { run_family("binary", {.f32_tolerance = 2e-6}); }
TEST(Golden, Reduce) { run_family("reduce"); }
TEST(Golden, Softmax) { run_family("softmax"); }
TEST(Golden, Matmul) { run_family("matmul"); }
TEST(Golden, Conv) { run_family("conv", {.channels_last = true}); }
TEST(Golden, Pool) { run_family("pool", {.channels_last = true}); }
TEST(Golden, Norm) { run_family("norm", {.channels_last = true}); }
TEST(Golden, Attention) { run_family("attention"); }
TEST(Golden, Embedding) { run_family("embedding"); }
TEST(Golden, Loss) { run_family("loss"); }
TEST(Golden, Shape) { run_family("shape"); }
TEST(Golden, Index) { run_family("index"); }
TEST(Golden, Sort) { run_family("sort"); }
TEST(Golden, Create) { run_family("create"); }

}  // namespace
}  // namespace golden
