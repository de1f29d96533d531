// A GPT block by hand: layer norm, causal attention of several heads, layer norm, two linear
// layers, both with a residual (Radford et al. 2019). Two of them learn to repeat what they have
// read.
//
//   gpt_block [DEVICE]
//
// DEVICE is the first GPU, or the CPU if there is none, unless named.
#include <cstdio>
#include <exception>

#include <brim/brim.h>

using namespace brim;

constexpr int64_t kTokens = 16, kHalf = 8, kDim = 64, kHeads = 4;

struct Block : nn::Module {
  nn::LayerNorm& norm1 = add<nn::LayerNorm>("norm1", {.shape = {kDim}});
  nn::Linear& qkv = add<nn::Linear>("qkv", {.in = kDim, .out = 3 * kDim});
  nn::Linear& proj = add<nn::Linear>("proj", {.in = kDim, .out = kDim});
  nn::LayerNorm& norm2 = add<nn::LayerNorm>("norm2", {.shape = {kDim}});
  nn::Linear& up = add<nn::Linear>("up", {.in = kDim, .out = 4 * kDim});
  nn::Linear& down = add<nn::Linear>("down", {.in = 4 * kDim, .out = kDim});

  Tensor forward(const Tensor& x) override {  // (N, L, dim)
    const Tensor y = x + attend(norm1(x));
    return y + down(gelu(up(norm2(y))));
  }
  Tensor attend(const Tensor& x) {
    const int64_t n = x.size(0), length = x.size(1);
    const Tensor all =
        qkv(x).reshape({n, length, 3, kHeads, kDim / kHeads}).permute({2, 0, 3, 1, 4});
    const Tensor seen = scaled_dot_product_attention(all[0], all[1], all[2], {.causal = true});
    return proj(seen.transpose(1, 2).reshape({n, length, kDim}));
  }
};

struct Gpt : nn::Module {
  nn::Embedding& token = add<nn::Embedding>("token", {.num = kTokens, .dim = kDim});
  nn::Embedding& place = add<nn::Embedding>("place", {.num = 2 * kHalf, .dim = kDim});
  Block &block1 = add<Block>("block1"), &block2 = add<Block>("block2");
  nn::Linear& head = add<nn::Linear>("head", {.in = kDim, .out = kTokens});

  Tensor forward(const Tensor& ids) override {  // (N, L) i64 -> logits (N, L, tokens)
    const Tensor places = arange(ids.size(1), {.dtype = i64, .device = ids.device()});
    return head(block2(block1(token(ids) + place(places))));
  }
};

int main(int argc, char** argv) try {
  const DeviceScope scope(argc > 1 ? Device(argv[1])
                                   : try_gpu());  // what is made below lives there
  manual_seed(1);
  Gpt net;
  optim::AdamW optimizer(net.named_parameters(), {.lr = 2e-3});
  std::printf("%lld parameters\n", static_cast<long long>(net.num_parameters()));

  double right = 0;
  for (int step = 1; step <= 200; ++step) {
    const Tensor half = randint(0, kTokens, {32, kHalf});
    const Tensor text = cat({half, half}, 1);  // the second half can be known
    const Tensor logits = net(text.slice(1, 0, 2 * kHalf - 1)).slice(1, kHalf - 1, 2 * kHalf - 1);
    const Tensor loss = cross_entropy(logits.reshape({-1, kTokens}), half.reshape({-1}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 50 != 0) continue;
    right = mean(eq(argmax(logits, 2), half).to(f32)).item();
    std::printf("step %d: loss %.3f, %.1f %% right\n", step, loss.item(), 100 * right);
  }
  return right > 0.9 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpt_block: %s\n", e.what());
  return 1;
}
