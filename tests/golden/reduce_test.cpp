// Reductions against PyTorch: one line per op says how a case becomes a call.
#include <brim/ops/reduce.h>

#include "golden/golden_case.h"

namespace golden {
namespace {

const Table kReduce = {
    {"max",
     [](const Call& c) { return both(brim::max(c[0], c.integer("dim"), c.flag("keepdim"))); }},
    {"min",
     [](const Call& c) { return both(brim::min(c[0], c.integer("dim"), c.flag("keepdim"))); }},
    {"sum", [](const Call& c) { return brim::sum(c[0], c.axes(), c.flag("keepdim")); }},
    {"mean", [](const Call& c) { return brim::mean(c[0], c.axes(), c.flag("keepdim")); }},
    {"amax", [](const Call& c) { return brim::amax(c[0], c.axes(), c.flag("keepdim")); }},
    {"amin", [](const Call& c) { return brim::amin(c[0], c.axes(), c.flag("keepdim")); }},
    {"prod", [](const Call& c) { return brim::prod(c[0], c.axes(), c.flag("keepdim")); }},
    {"norm", [](const Call& c) { return brim::norm(c[0], 2, c.axes(), c.flag("keepdim")); }},
    {"logsumexp", [](const Call& c) { return brim::logsumexp(c[0], c.axes(), c.flag("keepdim")); }},
    {"any", [](const Call& c) { return brim::any(c[0], c.axes(), c.flag("keepdim")); }},
    {"all", [](const Call& c) { return brim::all(c[0], c.axes(), c.flag("keepdim")); }},
    {"var",
     [](const Call& c) {
       return brim::var(c[0], c.axes(), c.integer("correction"), c.flag("keepdim"));
     }},
    {"argmax", [](const Call& c) { return brim::argmax(c[0], c.axis(), c.flag("keepdim")); }},
    {"argmin", [](const Call& c) { return brim::argmin(c[0], c.axis(), c.flag("keepdim")); }},
};

TEST(Golden, Reduce) { run_family("reduce", kReduce); }

}  // namespace
}  // namespace golden
