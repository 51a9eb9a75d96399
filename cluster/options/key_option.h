/* Where daemons and clients are told their key: --key=FILE, else the environment. */
#ifndef MILLRACE_CLUSTER_OPTIONS_KEY_OPTION_H
#define MILLRACE_CLUSTER_OPTIONS_KEY_OPTION_H

#include "net/proof/key.h"

#define CLUSTER_KEY_VARIABLE "MILLRACE_KEY"

/* Reads the key from path, or, where that is NULL, from the file that $MILLRACE_KEY names; *key is NULL when that is
 * unset or empty too. Errors say where the path came from. The caller closes the key. */
enum base_status cluster_key_open(const char *path, struct net_key **key, struct base_error *error);

#endif
