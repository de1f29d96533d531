// Blocks of today's networks, to measure what a plan makes of attention, normalisation and their
// residuals. bench/compare/blocks.py has the same in PyTorch, with the same names of parameters.
#pragma once

#include <cstdint>
#include <memory>

#include <brim/nn/module.h>

namespace brim::command {

/// What a block works on, and its parts' sizes.
inline constexpr int64_t kBlockWidth = 256, kBlockTokens = 128, kBlockSide = 14;
inline constexpr int64_t kBlockExpansion = 4, kBlockHeads = 4, kBlockLayers = 4;

/// A pre-norm block of a transformer (Xiong et al. 2020): attention, then two linear layers, each
/// behind a layer norm and beside a residual. x: (N, T, C) -> (N, T, C). `dropout`: of attention
/// weights and of what joins the residuals.
std::unique_ptr<nn::Module> transformer_block(double dropout);

/// A block of ConvNeXt (Liu et al. 2022): 7x7 convolution per channel, layer norm over channels,
/// two linear layers, a scale per channel, a residual. x: (N, C, H, W) -> the mean over the pixels,
/// (N, C).
std::unique_ptr<nn::Module> convnext_block();

/// Layers of layer norm, linear, GELU, linear and a residual. x: (N, T, C) -> (N, T, C).
std::unique_ptr<nn::Module> mlp_block();

}  // namespace brim::command
