// Checkpoints that all ranks write together, each its part of the tensors, into one folder.
#pragma once

#include <string>
#include <vector>

#include <brim/dist/process_group.h>

#include "train/checkpoint_files.h"

namespace brim::train {

/// Of one rank. What ranks say to each other goes over a group of its own, so a thread may write
/// while others train. One checkpoint at a time.
class CheckpointShards {
 public:
  /// Of a run whose rank 0 has the folder, where it has one. All ranks make one. Throws FileError,
  /// in all of them, where one does not see the folder.
  CheckpointShards(dist::ProcessGroup& group, const std::string& folder);

  /// Rank 0's folder, as a whole path; "" where there is none.
  const std::string& folder() const { return folder_; }
  bool leads() const { return group_->rank() == 0; }

  /// Leaves in the files, of the state after so many steps, what this rank writes: of large ones
  /// that may be cut its part of the tensors, under a name of its own, and the others in rank 0.
  void cut(std::vector<TensorFile>& files, int64_t steps);

  /// Of rank 0: write_checkpoint_files() of all ranks' files. Throws FileError where any rank could
  /// not write its own; ValueError where one has other tensors, or is at another step; DistError.
  void write(const std::string& path, const std::vector<TensorFile>& files,
             const std::string& state);
  /// Of rank 0, once the checkpoint is in place, or `error` says why it is not: tells the others.
  void finish(const std::string& error);
  /// Of the others: writes their part. Returns when rank 0 has finished; throws FileError with what
  /// it said, DistError.
  void follow(const std::vector<TensorFile>& files);

 private:
  const dist::GroupPtr group_;
  std::string folder_;
  // Of the checkpoint that is being written.
  std::string layout_;  // of what was cut; the same in all ranks
  bool told_path_ = false;
};

/// write_checkpoint_files() by this rank alone, where `together` is null, or its part of what all
/// ranks do. Throws as these.
void write_checkpoint_files(CheckpointShards* together, const std::string& path,
                            const std::vector<TensorFile>& files, const std::string& state);

}  // namespace brim::train
