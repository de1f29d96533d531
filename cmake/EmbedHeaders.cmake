# cmake -DOUTPUT=file.cpp -DINCLUDE=folder -DHEADERS=a;b -DSTANDARD=standard.cuh -P EmbedHeaders.cmake: a source that holds the
# headers as text, for src/backend/cuda/compile/device_headers.h. STANDARD stands for all that is not brim's.
set(elsewhere bit cmath complex cstddef cstdint cstring limits string_view type_traits cuda_bf16.h cuda_fp16.h cuda_runtime.h)
set(entries "")
function(add_header name text)
  set(entries "${entries}    {\"${name}\", R\"brim(${text})brim\"},\n" PARENT_SCOPE)
endfunction()
foreach(header IN LISTS HEADERS)
  file(RELATIVE_PATH name "${INCLUDE}" "${header}")
  file(READ "${header}" text)
  add_header(${name} "${text}")
endforeach()
file(READ "${STANDARD}" text)
add_header(brim/standard.cuh "${text}")
foreach(name IN LISTS elsewhere)
  add_header(${name} "#include <brim/standard.cuh>\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedHeaders.cmake.
#include \"backend/cuda/compile/device_headers.h\"

namespace brim::cuda {
namespace {

constexpr DeviceHeader kHeaders[] = {
${entries}};

}  // namespace

std::span<const DeviceHeader> device_headers() { return kHeaders; }

}  // namespace brim::cuda
")
