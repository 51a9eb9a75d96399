#include "base/text/number.h"

#include <stddef.h>
#include <string.h>

static bool number_factor(const char *suffix, uint64_t *factor)
{
    static const struct {
        const char *suffix;
        uint64_t factor;
    } known[] = {
        {"", 1},
        {"k", UINT64_C(1000)},
        {"K", UINT64_C(1000)},
        {"M", UINT64_C(1000000)},
        {"G", UINT64_C(1000000000)},
        {"T", UINT64_C(1000000000000)},
        {"Ki", UINT64_C(1) << 10},
        {"Mi", UINT64_C(1) << 20},
        {"Gi", UINT64_C(1) << 30},
        {"Ti", UINT64_C(1) << 40},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(suffix, known[i].suffix) == 0) {
            *factor = known[i].factor;
            return true;
        }
    return false;
}

bool base_number_parse(const char *text, uint64_t *number)
{
    uint64_t value = 0, factor;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    if (at == text || !number_factor(at, &factor) || __builtin_mul_overflow(value, factor, &value))
        return false;
    *number = value;
    return true;
}
