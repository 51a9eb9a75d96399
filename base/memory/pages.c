#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/memory/memory.h"

enum { PAGE_BYTES = 4096, HUGE_PAGE_BYTES = 2 << 20 };

/* Whole pages, at least one; 0 when bytes is too large to be rounded. */
static size_t pages_round(size_t bytes)
{
    return bytes ? base_align_up(bytes, PAGE_BYTES) : PAGE_BYTES;
}

/* A mapping that starts on a huge page: maps more than asked, then gives back both ends. */
static void *map_huge_aligned(size_t bytes)
{
    size_t mapped_bytes = bytes + HUGE_PAGE_BYTES;
    if (mapped_bytes < bytes)
        return MAP_FAILED;
    uint8_t *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return MAP_FAILED;
    uint8_t *aligned = mapped + (base_align_up((uintptr_t)mapped, HUGE_PAGE_BYTES) - (uintptr_t)mapped);
    size_t before = (size_t)(aligned - mapped);
    size_t after = mapped_bytes - before - bytes;
    if (before)
        munmap(mapped, before);
    if (after)
        munmap(aligned + bytes, after);
    /* A hint: where transparent huge pages are off, small pages serve. */
    madvise(aligned, bytes, MADV_HUGEPAGE);
    return aligned;
}

/* MADV_POPULATE_WRITE reports what touching cannot: that the machine is out of memory. */
static int prefault_pages(void *pages, size_t bytes)
{
    if (madvise(pages, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON)
        return ENOMEM;
    for (size_t at = 0; at < bytes; at += PAGE_BYTES)
        ((volatile uint8_t *)pages)[at] = 0;
    return 0;
}

enum base_status base_pages_map(struct base_governor *governor, enum base_holder holder, size_t bytes, bool prefault,
                                void **pages, struct base_error *error)
{
    size_t rounded = pages_round(bytes);
    if (rounded < bytes)
        return base_error_set(error, BASE_TOO_LARGE, "%s ask for %zu bytes at once", base_holder_words(holder), bytes);

    enum base_status status = base_governor_draw(governor, holder, rounded, error);
    if (status != BASE_OK)
        return status;

    int failure = 0;
    void *mapped = rounded >= HUGE_PAGE_BYTES
                       ? map_huge_aligned(rounded)
                       : mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        failure = ENOMEM;
        goto return_draw;
    }
    if (prefault)
        failure = prefault_pages(mapped, rounded);
    if (failure)
        goto unmap;
    *pages = mapped;
    return BASE_OK;

unmap:
    munmap(mapped, rounded);
return_draw:
    base_governor_return(governor, holder, rounded);
    return base_error_set(error, base_status_from_errno(failure),
                          "%s need %zu bytes that are within the memory budget, but this machine does not have them: "
                          "lower --memory or free memory on this machine",
                          base_holder_words(holder), rounded);
}

void base_pages_unmap(struct base_governor *governor, enum base_holder holder, void *pages, size_t bytes)
{
    if (!pages)
        return;
    size_t rounded = pages_round(bytes);
    if (munmap(pages, rounded) != 0) {
        /* A part of a larger mapping cannot be taken out when the process has too many mappings (vm.max_map_count). The
         * memory goes back all the same; the addresses are lost. */
        BASE_ASSERT(errno == ENOMEM);
        base_log_error("cannot unmap %zu bytes: raise vm.max_map_count", rounded);
        madvise(pages, rounded, MADV_DONTNEED);
    }
    base_governor_return(governor, holder, rounded);
}
