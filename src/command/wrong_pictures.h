// Pictures of the samples that a network is most wrong about, in a run's folder.
#pragma once

#include <string>
#include <vector>

#include <brim/data/image.h>
#include <brim/data/loader.h>
#include <brim/train/trainer.h>

namespace brim::command {

/// Where they lie in a run's folder, as 0.png, 1.png, ..., in the order of Evaluation::most_wrong.
inline constexpr const char* kWrongFolder = "most_wrong";

/// The pictures of Evaluation::most_wrong, at most 64 x 64 pixels each. None for data other than
/// pictures.
std::vector<data::Image> wrong_thumbnails(const train::Evaluation& evaluation,
                                          const data::Loader& loader);

/// Writes these, and takes away those that another
/// evaluation left there. Nothing for data other than pictures. Throws FileError.
void save_wrong_pictures(const train::Evaluation& evaluation, const data::Loader& loader,
                         const std::string& run_folder);

}  // namespace brim::command
