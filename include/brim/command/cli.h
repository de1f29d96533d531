// The command `brim` as a function, for programs that add to it: with tasks, data, transforms and
// metrics of its own (<brim/train/task.h>, <brim/train/metric.h>) and networks
// (<brim/nn/models.h>), registered before, a program has all of `brim train`, `eval`, `predict`
// and the rest for them. Link with brim::command.
#pragma once

namespace brim {

/// Does what the words say and returns the exit code: 0 done, 1 an error (one line on stderr), 2
/// wrong usage (one line), 129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM. To be called
/// once, first in main().
int cli(int argc, char** argv);

}  // namespace brim
