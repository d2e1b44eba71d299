/* A communication plugin as the host sees it: a C table without torch types, so that a plugin
 * outlives LibTorch versions and compiles in a second.  draft: changes together with its users
 * until the SDK is opened to third parties.
 *
 * Threads: one thread at a time calls into one communicator (the rank's main thread), except for
 * `abort`, which any thread may call. Nothing here throws; a non-zero status is explained by
 * `error()`. Plugin authors implement cleave::Backend (backend.h), which generates this table. */
#ifndef CLEAVE_COMMUNICATOR_H
#define CLEAVE_COMMUNICATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cleave_status {
  CLEAVE_OK = 0,
  CLEAVE_PENDING = 1,     /* work_poll only */
  CLEAVE_FAILED = 2,      /* the operation failed; see error() */
  CLEAVE_TIMED_OUT = 3,   /* timeout_ms passed before it was done */
  CLEAVE_ABORTED = 4,     /* abort() was called */
  CLEAVE_UNSUPPORTED = 5, /* op x dtype x device that the capabilities exclude */
  CLEAVE_INVALID = 6      /* arguments that break the rules below */
};

/* Sizes: n = ranks of the communicator, `count` in elements of `dtype`, buffers dense.
 *   all_reduce      send count, recv count; in place: send == recv
 *   reduce_scatter  send n*count, recv count (block r on rank r); in place: recv = block r of send
 *                   v form: recv_counts[n]; send their sum, recv recv_counts[r]
 *   all_gather      send count, recv n*count; in place: send = block r of recv
 *                   v form: recv_counts[n]; send recv_counts[r], recv their sum
 *   broadcast       recv count on every rank, the content comes from rank `peer`
 *   all_to_all      send n*count, recv n*count; not in place
 *                   v form: send_counts[n] and recv_counts[n]
 *   send, recv      count elements to / from rank `peer`, matched by `tag` in order
 *   barrier         no buffers
 * A count of 0 is allowed everywhere. All ranks call collectives in the same order. */
enum cleave_op {
  CLEAVE_ALL_REDUCE = 0,
  CLEAVE_REDUCE_SCATTER = 1,
  CLEAVE_ALL_GATHER = 2,
  CLEAVE_BROADCAST = 3,
  CLEAVE_ALL_TO_ALL = 4,
  CLEAVE_SEND = 5,
  CLEAVE_RECV = 6,
  CLEAVE_BARRIER = 7,
  CLEAVE_NUM_OPS = 8
};

enum cleave_reduction { CLEAVE_SUM = 0, CLEAVE_MAX = 1 };

enum cleave_dtype {
  CLEAVE_FLOAT32 = 0,
  CLEAVE_FLOAT64 = 1,
  CLEAVE_BFLOAT16 = 2, /* sums are formed in float32 and rounded once per combination */
  CLEAVE_FLOAT16 = 3,
  CLEAVE_INT32 = 4,
  CLEAVE_INT64 = 5,
  CLEAVE_UINT8 = 6,
  CLEAVE_NUM_DTYPES = 7
};

enum cleave_device { CLEAVE_CPU = 0, CLEAVE_CUDA = 1, CLEAVE_NUM_DEVICES = 2 };

/* One operation. The caller keeps both buffers alive, and their content undefined, until the work
 * is done (after a failure: until the communicator is destroyed); the counts arrays are copied by
 * submit. */
struct cleave_collective {
  uint32_t struct_size;
  int32_t op;        /* cleave_op */
  int32_t dtype;     /* cleave_dtype */
  int32_t reduction; /* cleave_reduction; all_reduce and reduce_scatter */
  int32_t device;    /* cleave_device of both buffers */
  int32_t peer;      /* root, destination or source */
  int32_t tag;       /* send, recv */
  int32_t reserved;
  const void* send;
  void* recv;
  int64_t count;
  const int64_t* send_counts; /* all_to_all v form, else NULL */
  const int64_t* recv_counts; /* v forms, else NULL */
  void* stream;               /* device stream that orders the inputs; NULL for CPU */
  int64_t timeout_ms;         /* from submit; 0: no limit */
};

struct cleave_communicator;
struct cleave_work;

/* What a backend can do, known before anything is allocated. */
struct cleave_capabilities {
  uint32_t struct_size;
  uint32_t
      stream_ordered; /* 1: honours cleave_collective.stream (NCCL); 0: the host synchronises */
  /* bit d of dtypes[device][op] is set when that op works on dtype d there */
  uint32_t dtypes[CLEAVE_NUM_DEVICES][CLEAVE_NUM_OPS];
};

struct cleave_communicator_api {
  uint32_t struct_size;
  int32_t (*rank)(struct cleave_communicator*);
  int32_t (*size)(struct cleave_communicator*);
  void (*capabilities)(struct cleave_communicator*, struct cleave_capabilities*);
  /* library, version and the chosen path, e.g. "Open MPI 5.0.11, pml ob1"; lives as long as the
   * communicator */
  const char* (*describe)(struct cleave_communicator*);
  /* how it would do the operation, e.g. "ring"; reductions: their sum. `bytes` are those of the
   * larger buffer, on any rank. Asks nobody; lives as long as the communicator. NULL: not
   * supported, or not an op, dtype, size or device at all. */
  const char* (*algorithm)(struct cleave_communicator*, int32_t op, int32_t dtype, int64_t bytes,
                           int32_t device);
  /* Bytes, without headers, that all ranks together send to other machines in that operation, 0 on
   * one machine; equal blocks, a broadcast is rank 0's. Arguments as for `algorithm`; asks nobody.
   * Negative: not known, as of a send, which does not say to whom, or not supported. */
  double (*network_bytes)(struct cleave_communicator*, int32_t op, int32_t dtype, int64_t bytes,
                          int32_t device);
  /* text of the calling thread's last failure in this plugin */
  const char* (*error)(struct cleave_communicator*);

  /* Starts an operation; *work is released by the caller. Works may be waited in any order. */
  int32_t (*submit)(struct cleave_communicator*, const struct cleave_collective*,
                    struct cleave_work** work);
  int32_t (*work_poll)(struct cleave_work*);
  int32_t (*work_wait_host)(struct cleave_work*);                 /* blocks the calling thread */
  int32_t (*work_wait_stream)(struct cleave_work*, void* stream); /* later kernels wait */
  void (*work_release)(struct cleave_work*); /* before done: the operation still completes */

  /* Operations submitted between the two calls may start together and must not wait for each
   * other (send/recv pairs in any order). Each still returns its own work. */
  int32_t (*group_begin)(struct cleave_communicator*);
  int32_t (*group_end)(struct cleave_communicator*);

  /* Collective. Ranks with equal color form a new communicator, ordered by key; color -1: none,
   * *child = NULL. */
  int32_t (*split)(struct cleave_communicator*, int32_t color, int32_t key,
                   struct cleave_communicator** child);
  /* Memory that this backend moves best (shared, pinned or registered); 64-byte aligned. */
  void* (*allocate)(struct cleave_communicator*, uint64_t bytes, int32_t device);
  void (*deallocate)(struct cleave_communicator*, void* memory, uint64_t bytes, int32_t device);

  void (*abort)(struct cleave_communicator*); /* any thread; never blocks; wakes all waiters */
  int32_t (*finalize)(struct cleave_communicator*); /* collective; after it only destroy is legal */
  void (*destroy)(struct cleave_communicator*);     /* local; never communicates */
};

struct cleave_communicator {
  const struct cleave_communicator_api* api;
};

/* What the host lends a communication plugin to find its peers, without the plugin's library
 * (UCC's OOB and PJRT's key-value callbacks are the models). `set` and `get` return cleave_status.
 * `context` lives as long as the communicators that were created with it; this struct need not. */
struct cleave_bootstrap {
  uint32_t struct_size;
  int32_t rank;
  int32_t world_size;
  int32_t local_rank;
  int32_t local_size; /* ranks on this machine */
  int32_t threads;    /* 1: the ranks are threads of one process */
  void* context;
  int32_t (*set)(void* context, const char* key, const void* value, uint64_t bytes);
  /* Waits up to timeout_ms for the key, then copies at most `capacity` bytes; *bytes is its size.
   */
  int32_t (*get)(void* context, const char* key, void* value, uint64_t capacity, uint64_t* bytes,
                 int64_t timeout_ms);
  /* 1: an element's sum is formed in one order that depends on the ranks alone: not on the size of
   * the operation, the element's place in it, the algorithm or timing. A backend that can't
   * refuses. */
  int32_t deterministic;
};

#ifdef __cplusplus
}
#endif
#endif
