#include "cluster/options/key_option.h"

#include <stdlib.h>

enum base_status cluster_key_open(const char *path, struct net_key **key, struct base_error *error)
{
    const char *from = "--key";
    if (!path) {
        path = getenv(CLUSTER_KEY_VARIABLE);
        from = CLUSTER_KEY_VARIABLE;
        if (!path || !*path) {
            *key = NULL;
            return BASE_OK;
        }
    }
    if (!*path)
        return base_error_set(error, BASE_INVALID,
                              "--key has an empty value: give it the name of a file, or omit it to run without a key");
    struct base_error cause = {0};
    const enum base_status status = net_key_read(path, key, &cause);
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s: %s", from, cause.text);
}
