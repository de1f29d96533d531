/* The runtime of engines: files that `brim export` writes, run without brim. C11, no dependency but
 * the C library, no global state; see docs/DEPLOY.md.
 *
 *   brim_rt_model* model;
 *   brim_rt_session* session;
 *   brim_rt_error error;
 *   if (brim_rt_open("model.brim", NULL, &model, &error)) puts(error.message);
 *   if (brim_rt_session_create(model, NULL, &session, &error)) puts(error.message);
 *   const void* inputs[] = {pixels};
 *   void* outputs[] = {scores};
 *   if (brim_rt_run(session, inputs, outputs, &error)) puts(error.message);
 *   brim_rt_session_close(session);
 *   brim_rt_close(model);
 *
 * Functions return BRIM_RT_OK, which is 0, or a code, and then fill in `error` unless it is NULL.
 * A model may be used by several threads at once; a session by one at a time, but for
 * brim_rt_cancel(). What a function hands out lives as long as the model or session it is of.
 */
#ifndef BRIM_RT_H
#define BRIM_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Of all functions here: they are seen from outside of the library. */
#define BRIM_RT_API __attribute__((visibility("default")))

/** Raised when this header changes so that programs must be compiled anew. */
#define BRIM_RT_ABI 1
/** That of the library. */
BRIM_RT_API int brim_rt_abi(void);

/** How a call ended. */
typedef enum brim_rt_code {
  BRIM_RT_OK = 0, /**< it did what it is for */
  BRIM_RT_INVALID_ARGUMENT =
      1,                   /**< a null pointer, a number out of range, a name that is not there */
  BRIM_RT_FILE = 2,        /**< the file cannot be opened or mapped */
  BRIM_RT_DAMAGED = 3,     /**< the file is no engine, is cut, or was altered */
  BRIM_RT_VERSION = 4,     /**< the file is of another version, or of another byte order */
  BRIM_RT_UNSUPPORTED = 5, /**< this runtime or CPU lacks an op or an instruction set */
  BRIM_RT_NO_MEMORY = 6,   /**< the allocator returned NULL */
  BRIM_RT_NO_THREAD = 7,   /**< the system starts no further thread */
  BRIM_RT_CANCELLED = 8,   /**< brim_rt_cancel() was called */
  BRIM_RT_NOT_EQUAL = 9    /**< brim_rt_verify(): an output is not what the file says */
} brim_rt_code;

/** What went wrong. */
typedef struct brim_rt_error {
  brim_rt_code code; /**< what the call returned, too */
  char message[512]; /**< one line: what, where, what to do */
} brim_rt_error;

/** What elements are. */
typedef enum brim_rt_dtype {
  BRIM_RT_F32 = 0, /**< float */
  BRIM_RT_I64 = 1, /**< int64_t */
  BRIM_RT_U8 = 2,  /**< uint8_t */
  BRIM_RT_I32 = 3  /**< int32_t */
} brim_rt_dtype;

/** Axes of an input or output at most. */
#define BRIM_RT_MAX_RANK 8

/** An input or output. Elements lie row-major, images as (batch, channels, height, width), pictures
 * of u8 that the engine prepares itself as (batch, height, width, channels). */
typedef struct brim_rt_port {
  const char* name;                /**< as the network's exporter called it */
  brim_rt_dtype dtype;             /**< of its elements */
  int rank;                        /**< axes */
  int64_t shape[BRIM_RT_MAX_RANK]; /**< their sizes; the first is the batch */
  size_t bytes;                    /**< of all elements */
} brim_rt_port;

/** Memory of models and sessions, but for the file, which is mapped. Called by open, create, close
 * and verify, in the threads that call those; runs allocate nothing. */
typedef struct brim_rt_allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment); /**< NULL: no memory */
  void (*release)(void* user, void* memory, size_t bytes);       /**< as many as were allocated */
  void* user;                                                    /**< given to both */
} brim_rt_allocator;

/** Threads that a program has. run() calls body(context, part) once for each part in [0, parts), on
 * any threads, and returns when all are done. */
typedef struct brim_rt_threads {
  int count; /**< that work at the same time, the caller included */
  /** See above. */
  void (*run)(void* user, int64_t parts, void (*body)(void* context, int64_t part), void* context);
  void* user; /**< given to run() */
} brim_rt_threads;

/** An engine. */
typedef struct brim_rt_model brim_rt_model;
/** What runs an engine. A child of fork() may use it, too: its first run starts own threads anew.
 */
typedef struct brim_rt_session brim_rt_session;

/** Maps an engine and checks it: nothing in it is trusted. While it is open nobody may write to the
 * file or cut it; to replace it is fine. `allocator` may be NULL. */
BRIM_RT_API int brim_rt_open(const char* path, const brim_rt_allocator* allocator,
                             brim_rt_model** model, brim_rt_error* error);
/** The same of a file in memory, which must stay there, aligned to 64 bytes. */
BRIM_RT_API int brim_rt_open_memory(const void* data, size_t bytes,
                                    const brim_rt_allocator* allocator, brim_rt_model** model,
                                    brim_rt_error* error);
/** After its sessions are closed. NULL is allowed. */
BRIM_RT_API void brim_rt_close(brim_rt_model* model);

/** What of a model a session runs, and on what. Zeros are the defaults. */
typedef struct brim_rt_session_options {
  int64_t batch;   /**< samples at once, one of brim_rt_batch(); 0: the first of them */
  int own_threads; /**< that the session starts, its caller included; 0: one for each core
                        that affinity and the cgroup's quota allow */
  const brim_rt_threads* threads; /**< instead of own ones */
  const char* isa; /**< "avx512vnni", "avx512", "avx2", "sse4", "baseline"; NULL: the best that the
                      CPU has. avx512 is without VNNI, which layers in integers want */
} brim_rt_session_options;

/** Takes all memory that runs need. `options` may be NULL. */
BRIM_RT_API int brim_rt_session_create(brim_rt_model* model, const brim_rt_session_options* options,
                                       brim_rt_session** session, brim_rt_error* error);
/** Gives its memory back and ends its threads; not while it runs. NULL is allowed. */
BRIM_RT_API void brim_rt_session_close(brim_rt_session* session);

/** Computes. inputs[i]: the elements of input i; outputs[i]: room for those of output i. Aligned as
 * their type wants it, and apart from each other. */
BRIM_RT_API int brim_rt_run(brim_rt_session* session, const void* const* inputs,
                            void* const* outputs, brim_rt_error* error);
/** From any thread: the run that is under way, or else the next one, ends with BRIM_RT_CANCELLED.
 */
BRIM_RT_API void brim_rt_cancel(brim_rt_session* session);

/** Runs the samples in the file and compares with the outputs beside them. `worst`, unless NULL:
 * the largest difference, as a share of the largest output. */
BRIM_RT_API int brim_rt_verify(brim_rt_session* session, double* worst, brim_rt_error* error);

/** An input of a session; NULL beyond the last. */
BRIM_RT_API const brim_rt_port* brim_rt_input(const brim_rt_session* session, int index);
/** An output of a session; NULL beyond the last. */
BRIM_RT_API const brim_rt_port* brim_rt_output(const brim_rt_session* session, int index);
/** Bytes that the session has allocated. */
BRIM_RT_API size_t brim_rt_memory(const brim_rt_session* session);
/** The instruction set it runs on. */
BRIM_RT_API const char* brim_rt_isa(const brim_rt_session* session);
/** Steps of a run, as "layer1.conv1: convolution": the module of the network, and what is computed;
 * NULL beyond the last. */
BRIM_RT_API const char* brim_rt_step(const brim_rt_session* session, int index);

/** Sizes of batches that the model was made for; 0 beyond the last. */
BRIM_RT_API int64_t brim_rt_batch(const brim_rt_model* model, int index);
/** Names of classes; NULL beyond the last. */
BRIM_RT_API const char* brim_rt_label(const brim_rt_model* model, int index);
/** What the file says of itself, as "model", "mean"; NULL where it says nothing. */
BRIM_RT_API const char* brim_rt_metadata(const brim_rt_model* model, const char* key);

#ifdef __cplusplus
}
#endif

#endif
