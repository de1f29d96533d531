// `brim bench gpu-chapter`: the exercises of d2l.ai's chapter on GPUs
// (d2l.ai/chapter_builders-guide/use-gpu.html), measured.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace brim::command {

/// Runs on the CPU and on the GPUs there are, or on virtual accelerators. Those keep the pace of a
/// T4 unless BRIM_SIM_PROFILE says otherwise, stretched so that this machine keeps up. Each figure
/// is the median of `rounds`; `print` also shows a table.
nlohmann::ordered_json run_gpu_chapter(int rounds, bool print);

}  // namespace brim::command
