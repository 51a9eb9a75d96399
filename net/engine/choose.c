/* The thresholds, and where they come from.
 *
 * Receiving. A multishot request saves submissions; a one-shot request brings large messages into one buffer of their
 * size. On 400 Gbit/s one-shot was better from about 13 KiB a message on; where the kernel copies between two sockets
 * of one machine (veth, loopback) multishot into chunks of 64 KiB was best at every size. Whether a card is in between
 * shows in what became of zero-copy sends: a path on which the kernel copies has none.
 *
 * Chunks. The pool must stay in cache: 2 MiB were better than 64 MiB for every size of chunk. Many connections need
 * more chunks, not more memory: a chunk is held while its rows wait, and a receive that finds none waits. One or two
 * busy connections that fill their chunks do with fewer and larger ones.
 *
 * Sending. Zero-copy saves the copy and costs a notification: it pays from about 1 KiB a message on, where the kernel
 * does not copy all the same. That is found by trying: each connection gives it up by itself, and when most of the
 * sends so far were copied it is not tried again. A job that sends little is not worth pinning memory for. */
#include "net/engine/choose.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum {
    ONE_SHOT_MESSAGE_BYTES = 13 << 10,
    ZC_MESSAGE_BYTES = 1 << 10,
    ZC_CONNECTION_BYTES = 1 << 20,
    ZC_SENDS_KNOWN = 4, /* fewer say nothing; a connection gives up after about as many */
    RECEIVES_KNOWN = 1024,
    CHUNKS_PER_CONNECTION = 2,
    CHUNKS_MAX = 256,
    CHUNK_BYTES_MIN = 16 << 10,
    CHUNK_BYTES_MAX = 256 << 10,
    POOL_BYTES = NET_CHUNK_BYTES * NET_CHUNK_COUNT,
    BUSY_CONNECTIONS = 2
};

enum zc_verdict { ZC_MISSING, ZC_SMALL, ZC_TRY, ZC_WORKS, ZC_COPIES };

/* A frame holds whole rows, however little there is to send. */
static uint32_t message_bytes(const struct net_traffic *traffic)
{
    const uint64_t least = base_max_u64(traffic->row_bytes, traffic->connection_bytes);
    return traffic->connection_bytes > 0 ? (uint32_t)base_min_u64(traffic->frame_bytes, least) : traffic->frame_bytes;
}

static enum zc_verdict judge_zc(const struct net_traffic *traffic, const struct net_experience *experience,
                                uint32_t missing)
{
    if (missing & NET_FEATURE_SEND_ZC)
        return ZC_MISSING;
    if ((experience->zc_sends >= ZC_SENDS_KNOWN && experience->zc_copied > experience->zc_sends / 2) ||
        (experience->zc_off > 0 && experience->zc_copied >= experience->zc_sends / 2))
        return ZC_COPIES;
    if (message_bytes(traffic) < ZC_MESSAGE_BYTES ||
        (traffic->connection_bytes > 0 && traffic->connection_bytes < ZC_CONNECTION_BYTES))
        return ZC_SMALL;
    return experience->zc_sends >= ZC_SENDS_KNOWN ? ZC_WORKS : ZC_TRY;
}

static void choose_chunks(const struct net_traffic *traffic, const struct net_experience *experience,
                          struct net_chosen *chosen)
{
    const bool known = experience->receives >= RECEIVES_KNOWN;
    const bool full = known && experience->received_bytes > experience->receive_capacity_bytes / 8 * 7;
    const bool starved = known && experience->receive_starved > experience->receives / 16;
    uint64_t count = NET_CHUNK_COUNT;
    while (count < CHUNKS_MAX && count < (uint64_t)CHUNKS_PER_CONNECTION * traffic->connections)
        count *= 2;
    if (starved && count < CHUNKS_MAX)
        count *= 2;
    else if (full && traffic->connections <= BUSY_CONNECTIONS)
        count /= 2;
    chosen->chunk_count = (uint32_t)count;
    chosen->chunk_bytes = (uint32_t)base_min_u64(CHUNK_BYTES_MAX, base_max_u64(CHUNK_BYTES_MIN, POOL_BYTES / count));
}

static void choose_describe(const struct net_traffic *traffic, const struct net_experience *experience,
                            enum zc_verdict verdict, struct net_chosen *chosen)
{
    char *why = chosen->why;
    const uint32_t message = message_bytes(traffic);
    const bool multishot = chosen->features & NET_FEATURE_MULTISHOT;
    size_t used =
        (size_t)snprintf(why, NET_CHOSEN_WHY_BYTES,
                         "%s receive into %u chunks of %u KiB for rows of %u B in messages of %u %s over %u "
                         "connection%s; ",
                         multishot ? "multishot" : "one-shot", chosen->chunk_count, chosen->chunk_bytes >> 10,
                         traffic->row_bytes, message < 1024 ? message : message >> 10, message < 1024 ? "B" : "KiB",
                         traffic->connections, traffic->connections == 1 ? "" : "s");
    const size_t left = NET_CHOSEN_WHY_BYTES - used;
    if (verdict == ZC_MISSING)
        snprintf(why + used, left, "no zero-copy send here");
    else if (verdict == ZC_SMALL)
        snprintf(why + used, left, "too little to send for zero-copy");
    else if (verdict == ZC_TRY)
        snprintf(why + used, left, "zero-copy send is tried");
    else
        snprintf(why + used, left,
                 "zero-copy send %s: of %" PRIu64 " so far the kernel copied %" PRIu64
                 "; connections that gave up: %" PRIu64,
                 verdict == ZC_WORKS ? "works" : "is off", experience->zc_sends, experience->zc_copied,
                 experience->zc_off);
}

static void choose_features(const struct net_engine_choice *choice, const struct net_traffic *traffic,
                            const struct net_experience *experience, uint32_t missing, struct net_chosen *chosen)
{
    chosen->features = net_rung_features(NET_ENGINE_URING) & ~missing;
    if (traffic->connections == 0) {
        snprintf(chosen->why, sizeof chosen->why, "the plain set, because no connection leaves this node");
        return;
    }
    const enum zc_verdict verdict = judge_zc(traffic, experience, missing);
    /* Incremental buffers, asked for by name, are those of multishot receives. */
    if (verdict == ZC_WORKS && message_bytes(traffic) >= ONE_SHOT_MESSAGE_BYTES &&
        !(choice->options & NET_FEATURE_INCREMENTAL))
        chosen->features &= ~(uint32_t)(NET_FEATURE_MULTISHOT | NET_FEATURE_BUNDLE | NET_FEATURE_INCREMENTAL);
    if (verdict == ZC_TRY || verdict == ZC_WORKS)
        chosen->features |= NET_FEATURE_SEND_ZC;
    /* One-shot receives would take registration for receive memory, which gains nothing. */
    if ((chosen->features & NET_FEATURE_SEND_ZC) && (chosen->features & NET_FEATURE_MULTISHOT))
        chosen->features |= NET_FEATURE_REGISTERED_BUFFERS & ~missing;
    choose_describe(traffic, experience, verdict, chosen);
}

void net_choose(const struct net_engine_choice *choice, const struct net_traffic *traffic,
                const struct net_experience *experience, uint32_t missing, struct net_chosen *chosen)
{
    const bool chooses = choice->kind == NET_ENGINE_AUTO || choice->kind == NET_ENGINE_URING;
    *chosen = (struct net_chosen){.chunk_bytes = NET_CHUNK_BYTES, .chunk_count = NET_CHUNK_COUNT};
    if (chooses && !(missing & NET_FEATURE_URING))
        choose_chunks(traffic, experience, chosen);
    if (traffic->chunk_bytes != 0)
        chosen->chunk_bytes = traffic->chunk_bytes;
    if (traffic->chunk_count != 0)
        chosen->chunk_count = traffic->chunk_count;
    if (chooses && !(missing & NET_FEATURE_URING))
        choose_features(choice, traffic, experience, missing, chosen);
    else if (choice->kind == NET_ENGINE_AUTO)
        snprintf(chosen->why, sizeof chosen->why, "epoll, because there is no io_uring here");
}

void net_experience_age(struct net_experience *experience)
{
    if (++experience->jobs >= NET_EXPERIENCE_JOBS) {
        experience->jobs = 0;
        experience->zc_sends = experience->zc_copied = experience->zc_off = 0;
    }
    experience->receives /= 2;
    experience->received_bytes /= 2;
    experience->receive_capacity_bytes /= 2;
    experience->receive_starved /= 2;
}
