// What an engine of `brim export` does beside its network: --pictures, --bgr, --output.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <brim/deploy/engine.h>

#include "command/trained_network.h"

namespace brim::command {

struct EnginePorts {
  std::string pictures;  ///< sizes of those that come, as 480x640: height, width
  bool bgr = false;
  std::string output;  ///< softmax, top:K, classes; empty: what the network puts out

  bool is_default() const { return pictures.empty() && !bgr && output.empty(); }
};

/// Of pictures that are prepared as `brim predict` prepares them; none without --pictures. `input`:
/// of the network, without the batch. Throws UsageError.
std::optional<deploy::EnginePictures> pictures_of(const EnginePorts& ports,
                                                  const TrainedNetwork& net, const Shape& input);

/// Puts --output into the options of an engine. Throws UsageError.
void choose_output(const EnginePorts& ports, const TrainedNetwork& net,
                   deploy::EngineOptions& options);

/// What a program must know of the pictures, instead of mean and deviation.
std::map<std::string, std::string> metadata_of(const deploy::EnginePictures& pictures,
                                               int64_t channels);

}  // namespace brim::command
