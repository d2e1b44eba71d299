/* Identity of a plugin: one entry symbol that returns a plain descriptor. The host compares it
 * field by field before it calls anything else, and never unloads the library.  draft, see
 * communicator.h */
#ifndef CLEAVE_PLUGIN_H
#define CLEAVE_PLUGIN_H

#include <stdint.h>

#define CLEAVE_PLUGIN_MAGIC 0x31564c43u /* "CLV1" */
#define CLEAVE_SDK_MAJOR 0u
#define CLEAVE_SDK_MINOR 1u
#define CLEAVE_PLUGIN_ENTRY_SYMBOL "cleave_plugin_entry_v1"

#ifdef __cplusplus
extern "C" {
#endif

enum cleave_plugin_kind { CLEAVE_COMMUNICATION = 1, CLEAVE_STRATEGY = 2 };

enum cleave_option_type {
  CLEAVE_OPTION_BOOL = 1,
  CLEAVE_OPTION_INT = 2,
  CLEAVE_OPTION_FLOAT = 3,
  CLEAVE_OPTION_STRING = 4,
  CLEAVE_OPTION_ENUM = 5
};

/* One key of the plugin's TOML table. The table drives validation, defaults and documentation. */
struct cleave_option {
  const char* key;
  int32_t type;              /* cleave_option_type */
  const char* default_value; /* as TOML writes it, e.g. "26214400" or "\"ob1\"" */
  double minimum;            /* int and float: inclusive range */
  double maximum;
  const char* choices; /* enum: "a|b|c", else NULL */
  const char* unit;    /* "bytes", "ms", "" */
  const char* doc;
};

/* A validated value; `text` for string and enum. Every declared option is present. */
struct cleave_option_value {
  const char* key;
  int64_t integer; /* bool: 0 or 1 */
  double number;
  const char* text;
};

struct cleave_options {
  const struct cleave_option_value* values;
  uint32_t count;
};

/* What a binary was built with. A strategy carries C++ and LibTorch types over the boundary, so all
 * of it must match; a communication plugin sets torch_version to "". */
struct cleave_abi {
  char torch_version[32];
  char compiler[32];
  char standard_library[32];
  char architecture[16];
  uint32_t cxx11_abi;
  uint32_t gxx_abi;
  uint32_t sanitizers; /* bit 0 address, bit 1 thread */
  uint32_t reserved;
};

struct cleave_communicator;
struct cleave_bootstrap;

struct cleave_plugin {
  uint32_t magic;
  uint32_t struct_size;
  uint32_t sdk_major;
  uint32_t sdk_minor;
  uint32_t kind; /* cleave_plugin_kind */
  uint32_t num_options;
  char name[64]; /* as TOML spells it */
  char version[32];
  struct cleave_abi abi;
  const struct cleave_option* options;

  /* communication: a communicator over all ranks; `error` gets at most error_capacity bytes */
  int32_t (*create_communicator)(const struct cleave_bootstrap*, const struct cleave_options*,
                                 struct cleave_communicator** out, char* error,
                                 uint64_t error_capacity);
  /* strategy: a cleave::Strategy* (strategy.h), destroyed through Strategy::destroy */
  void* (*create_strategy)(const struct cleave_options*);
};

typedef const struct cleave_plugin* (*cleave_plugin_entry)(void);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#include "cleave/abi.h"
/// Exports the descriptor: `CLEAVE_EXPORT_PLUGIN(kDescriptor)` once per library.
#define CLEAVE_EXPORT_PLUGIN(descriptor)                                        \
  extern "C" __attribute__((visibility("default"))) const struct cleave_plugin* \
  cleave_plugin_entry_v1(void) {                                                \
    return &(descriptor);                                                       \
  }
#endif
#endif
