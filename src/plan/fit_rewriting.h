// A program with the copies and launches that choices ask for (fit.h).
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plan/fit_model.h"

namespace brim::plan {

/// Of the program that the model was made of, until that is taken back.
class FitRewriting {
 public:
  FitRewriting(Program& program, const FitModel& model, const Solution& solution);

  void take_back();

 private:
  /// By launch: what stands between it and the one before, and behind it.
  struct Added {
    std::vector<std::pair<int, std::unique_ptr<Launch>>> fetches;  // and by which launch needed
    std::vector<std::unique_ptr<Launch>> exact;                    // from bf16 and from masks
    std::vector<std::pair<int, std::unique_ptr<Launch>>> again;    // and which launch made it first
    std::vector<std::unique_ptr<Launch>> beside, behind;  // copies to the host; to bf16 and masks
    std::vector<const Launch*> released;  // copies that are waited for before all of these
  };
  struct Moved {
    int from;  // the launch
    Ref<Storage> storage;
  };

  Added& at(int launch) { return added_[static_cast<size_t>(launch)]; }
  /// A new temporary.
  Tensor make(const Shape& shape, DType dtype);
  void move(const FitModel& model, size_t t, Choice choice, const Schedule::Trip& trip);
  // These return the storage that has activation t again.
  Ref<Storage> recompute(const FitModel& model, size_t t, const Schedule::Trip& trip);
  Ref<Storage> copy_there_and_back(const FitModel& model, size_t t, const Ref<Storage>& storage,
                                   const Schedule::Trip& trip);
  void redirect(Launch& launch, size_t position, bool is_new);

  Program& program_;
  std::vector<Added> added_;
  std::unordered_map<const Storage*, Moved> moved_;
  std::vector<std::pair<Tensor*, Tensor>> redirected_;  // and what they were
  std::vector<Launch*> waiting_;
  std::vector<Tensor> made_;
  std::vector<const Recomputation*> recomputed_;
  std::unordered_set<const Launch*> new_;
};

}  // namespace brim::plan
