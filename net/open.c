/* Chooses an engine and opens it; falls back to epoll where io_uring is forbidden and that is allowed. */
#include "net/open.h"

#include "base/assert.h"
#include "base/clock.h"
#include "net/engine/ops.h"
#include "net/epoll/open.h"
#include "net/uring/open.h"

enum { ENGINE_SOCKETS_MAX = 1 << 20, ENGINE_FILE_OPS_MAX = 1 << 16, ENGINE_CHUNKS_MAX = 32768 };

static enum base_status engine_config_check(const struct net_engine_config *config, struct base_error *error)
{
    if (config->sockets_max == 0 || config->sockets_max > ENGINE_SOCKETS_MAX)
        return base_error_set(error, BASE_INVALID, "engine: sockets_max is %u, allowed are 1 to %d",
                              config->sockets_max, ENGINE_SOCKETS_MAX);
    if (config->file_ops_max > ENGINE_FILE_OPS_MAX)
        return base_error_set(error, BASE_INVALID, "engine: file_ops_max is %u, allowed are 0 to %d",
                              config->file_ops_max, ENGINE_FILE_OPS_MAX);
    if (config->recv_chunk_bytes == 0 || config->recv_chunk_bytes > INT32_MAX)
        return base_error_set(error, BASE_INVALID, "engine: recv_chunk_bytes is %u, allowed are 1 to %d",
                              config->recv_chunk_bytes, INT32_MAX);
    if (config->recv_chunk_count == 0 || config->recv_chunk_count > ENGINE_CHUNKS_MAX)
        return base_error_set(error, BASE_INVALID, "engine: recv_chunk_count is %u, allowed are 1 to %d",
                              config->recv_chunk_count, ENGINE_CHUNKS_MAX);
    return BASE_OK;
}

/* All slots are filled: an engine without a feature says so in its own words, not by a NULL. */
static void engine_assert_ops(const struct net_engine_ops *ops)
{
    BASE_ASSERT(ops->enable && ops->close && ops->adopt && ops->accept && ops->connect && ops->receive);
    BASE_ASSERT(ops->send && ops->shutdown && ops->socket_close && ops->chunk_release && ops->file_submit);
    BASE_ASSERT(ops->memory_register && ops->memory_unregister && ops->wake && ops->poll);
    BASE_ASSERT(ops->descriptor);
}

enum base_status net_engine_open(const struct net_engine_choice *choice, const struct net_engine_config *config,
                                 struct net_engine **engine, struct base_error *error)
{
    const char *refusal = NULL;
    struct net_engine *opened = NULL;

    enum base_status status = net_engine_choice_check(choice, error);
    if (status == BASE_OK)
        status = engine_config_check(config, error);
    if (status != BASE_OK)
        return status;
    if (choice->kind != NET_ENGINE_AUTO && !(net_rung_features(choice->kind) & NET_FEATURE_URING)) {
        status = net_epoll_open(choice, config, &opened, error);
    } else {
        status = net_uring_open(choice, config, &opened, &refusal, error);
        /* Only what the kernel refuses is replaced: a budget too small for the chunks is too small for epoll, too. */
        if (status != BASE_OK && choice->kind == NET_ENGINE_AUTO && refusal)
            status = net_epoll_open(&(struct net_engine_choice){.kind = NET_ENGINE_EPOLL}, config, &opened, error);
    }
    if (status != BASE_OK)
        return status;
    engine_assert_ops(opened->ops);
    if (opened->chunk_count == 0)
        opened->chunk_count = config->recv_chunk_count;
    opened->now_ns = base_clock_now_ns();
    if (refusal) {
        opened->missing |= NET_FEATURE_URING;
        net_engine_note(opened, "io_uring is not used: %s", refusal);
    }
    *engine = opened;
    return BASE_OK;
}
