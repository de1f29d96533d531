// The parts of a worker's account by their names in JSON.
#pragma once

#include <array>
#include <utility>

#include <brim/data/worker_account.h>

namespace brim::data {

inline constexpr std::array<std::pair<const char*, double WorkerAccount::*>, 7> kWorkerParts = {
    {{"wall", &WorkerAccount::wall},
     {"read", &WorkerAccount::read},
     {"decode", &WorkerAccount::decode},
     {"augment", &WorkerAccount::augment},
     {"slot", &WorkerAccount::slot},
     {"stolen", &WorkerAccount::stolen},
     {"idle", &WorkerAccount::idle}}};

}  // namespace brim::data
