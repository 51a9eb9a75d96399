#include "base/measure.h"

#include "base/bytes.h"

uint64_t base_fold(enum base_fold fold, uint64_t total, uint64_t share)
{
    switch (fold) {
    case BASE_FOLD_SUM:
        return total + share;
    case BASE_FOLD_MAX:
        return base_max_u64(total, share);
    case BASE_FOLD_MIN:
        return total == 0 || (share != 0 && share < total) ? share : total;
    case BASE_FOLD_NONE:
        return total;
    }
    return total;
}
