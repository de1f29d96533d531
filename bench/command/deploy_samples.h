// What bench/compare_deploy.py measures: a network's weights, and inputs with the outputs that brim
// computes for them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace brim::command {

/// Writes "weights.safetensors" and "samples.safetensors" into `folder`: the network `model` with
/// random weights, statistics of random inputs and, if asked for, all layers in 8-bit integers that
/// can be; and for each batch size B "B:input" and "B:output". -> {"model", "task", "weights",
/// "samples", "input", "parameters", "flops", "int8_layers"}; flops: of a sample, those of
/// products. Throws FileError.
nlohmann::ordered_json write_random_network(const std::string& model, bool in_integers,
                                            const std::vector<int64_t>& batches,
                                            const std::string& folder);

/// The same of weights that are there: "samples.safetensors" alone. Throws FileError, ValueError.
nlohmann::ordered_json write_samples_of(const std::string& weights, const std::string& recipe,
                                        const std::vector<int64_t>& batches,
                                        const std::string& folder);

}  // namespace brim::command
