/* Identity of a plugin: an ELF note that the host reads without loading the library, and one entry
 * symbol that returns a plain descriptor with the same identity. The host compares both with its
 * own build, field by field, before it calls anything else, and never unloads the library.  draft,
 * see communicator.h */
#ifndef CLEAVE_PLUGIN_H
#define CLEAVE_PLUGIN_H

#include <stdint.h>

#define CLEAVE_PLUGIN_MAGIC 0x31564c43u /* "CLV1" */
#define CLEAVE_SDK_MAJOR 0u
#define CLEAVE_SDK_MINOR 2u
#define CLEAVE_PLUGIN_ENTRY_SYMBOL "cleave_plugin_entry_v1"
#define CLEAVE_NOTE_OWNER "Cleave"
#define CLEAVE_NOTE_TYPE 1u

#ifdef __cplusplus
extern "C" {
#endif

enum cleave_plugin_kind { CLEAVE_COMMUNICATION = 1, CLEAVE_STRATEGY = 2 };

enum cleave_option_type {
  CLEAVE_OPTION_BOOL = 1,
  CLEAVE_OPTION_INT = 2,
  CLEAVE_OPTION_FLOAT = 3,
  CLEAVE_OPTION_STRING = 4,
  CLEAVE_OPTION_ENUM = 5,
  CLEAVE_OPTION_BYTES = 6,    /* 4096, "4 KiB", "1 GB" */
  CLEAVE_OPTION_DURATION = 7, /* "200 ms", "30 s", "5 min", or a number in the option's unit */
  CLEAVE_OPTION_PATH = 8,
  CLEAVE_OPTION_STRING_LIST = 9,
  CLEAVE_OPTION_INT_LIST = 10
};

/* One key of the plugin's TOML table. The table drives validation, defaults and documentation; a
 * table with a fault is refused before any of it is used. */
struct cleave_option {
  const char* key;           /* letters, digits, _ and -; once in the table */
  int32_t type;              /* cleave_option_type */
  const char* default_value; /* as TOML: "26214400", "\"ob1\"", "[1, 2]"; path: "\"\"" is none */
  double minimum;            /* numbers, sizes, durations (in `unit`), items of an int list: */
  double maximum;            /* inclusive; HUGE_VAL is no limit */
  const char* choices;       /* enum: "a|b|c", else NULL; "true|false" takes TOML's booleans too */
  const char* unit;          /* duration: "ms", "s", "min" or "h"; elsewhere for the reader */
  const char* doc;           /* one line; required */
  int32_t per_rank;          /* 0: ranks with different values are refused; 1: they may differ */
};

/* A validated value. Every declared option is present. */
struct cleave_option_value {
  const char* key;
  int32_t type;     /* cleave_option_type */
  int64_t integer;  /* int, bool (0 or 1), bytes, duration (in ms, whatever the unit) */
  double number;    /* float; int too */
  const char* text; /* string, enum, path; else "" */
  const struct cleave_option_value* items; /* of a list: strings or ints without a key */
  uint32_t num_items;
};

struct cleave_options {
  const struct cleave_option_value* values;
  uint32_t count;
};

/* What a binary was built with. A strategy carries C++ and LibTorch types over the boundary, so all
 * of it must match. "" and 0 stand for what a plugin does not use. */
struct cleave_abi {
  char torch_version[32];    /* "2.11.0" */
  char compiler[32];         /* "gcc 12" */
  char standard_library[32]; /* "libstdc++" */
  char architecture[16];     /* "x86_64" */
  char cuda_version[16];     /* of the toolkit: "13.0" */
  char nccl_version[16];     /* "2.28.9" */
  char mpi[32];              /* family and major version: "Open MPI 5" */
  uint32_t cxx11_abi;
  uint32_t gxx_abi;
  uint32_t sanitizers;       /* bit 0 address, bit 1 thread */
  uint32_t debug_containers; /* 1: _GLIBCXX_DEBUG or the like, which changes std::vector's layout */
};

/* Who a plugin is. The descriptor begins with it, and the same bytes stand in an ELF note (section
 * .note.cleave), which the host reads and judges before it runs any of the plugin's code. The first
 * four fields never move; the others do only with the SDK version. No pointers: the note needs no
 * relocation. */
struct cleave_identity {
  uint32_t magic;
  uint32_t struct_size; /* of cleave_plugin */
  uint32_t sdk_major;
  uint32_t sdk_minor;
  uint32_t kind; /* cleave_plugin_kind */
  char name[64]; /* as TOML spells it */
  char version[32];
  struct cleave_abi abi;
};

struct cleave_bootstrap;
struct cleave_capabilities;
struct cleave_communicator;

struct cleave_plugin {
  struct cleave_identity identity;
  uint32_t num_options;
  const struct cleave_option* options;

  /* communication: a communicator over all ranks; `error` gets at most error_capacity bytes */
  int32_t (*create_communicator)(const struct cleave_bootstrap*, const struct cleave_options*,
                                 struct cleave_communicator** out, char* error,
                                 uint64_t error_capacity);
  /* communication: op x dtype x device that it may be asked for, before anything is created; a
   * communicator's own capabilities are never fewer */
  void (*capabilities)(struct cleave_capabilities*);
  /* strategy: a cleave::Strategy* (strategy.h), destroyed through Strategy::destroy */
  void* (*create_strategy)(const struct cleave_options*);
};

typedef const struct cleave_plugin* (*cleave_plugin_entry)(void);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#include "cleave/abi.h"
/* Exports a constexpr descriptor: `CLEAVE_EXPORT_PLUGIN(kDescriptor)` once per library, outside all
 * namespaces. Note and entry come from the same value, so that they can't disagree. */
#define CLEAVE_EXPORT_PLUGIN(descriptor)                                        \
  CLEAVE_PLUGIN_NOTE((descriptor).identity)                                     \
  extern "C" __attribute__((visibility("default"))) const struct cleave_plugin* \
  cleave_plugin_entry_v1(void) {                                                \
    return &(descriptor);                                                       \
  }
#endif
#endif
