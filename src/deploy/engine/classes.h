// What an engine makes of scores of classes: probabilities, the likeliest ones, or the likeliest
// one. Scores of images have classes as axis 1, others as their last.
#pragma once

#include <string>
#include <vector>

#include <brim/deploy/engine.h>

#include "deploy/engine/network.h"

namespace brim::deploy {

/// How many classes scores are of.
int64_t class_count(const Tensor& scores);

/// `scores`: output 0 of the network. Throws ValueError where it has no such classes.
void check_output(const EngineOptions& options, const Tensor& scores);

/// Appends what makes EngineOptions::output of output 0.
void choose_classes(EngineNetwork& network, const EngineOptions& options);

/// EngineOptions::outputs, with a name for the indices of the likeliest classes.
std::vector<std::string> output_names(const EngineOptions& options);

/// What engines put out for scores. Indices are -1 where scores that are off by `tolerance` of the
/// largest one have others.
std::vector<Tensor> chosen_classes(const Tensor& scores, const EngineOptions& options,
                                   double tolerance);

/// How far the outputs may be off, as a share of their largest, where scores are off by `tolerance`
/// of theirs.
double output_tolerance(const Tensor& scores, const EngineOptions& options, double tolerance);

}  // namespace brim::deploy
