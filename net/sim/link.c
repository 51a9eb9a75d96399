/* The simulated network: connections, and the listeners at which they wait. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "net/sim/internal.h"

void net_sim_link_free(struct sim_link *link)
{
    LIST_REMOVE(link, all);
    free(link->pipes[0].bytes);
    free(link->pipes[1].bytes);
    free(link);
}

struct sim_link *net_sim_link_make(struct net_sim_world *world)
{
    struct sim_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->world = world;
    link->fds[0] = link->fds[1] = -1;
    LIST_INSERT_HEAD(&world->links, link, all);
    for (int side = 0; side < 2; side++) {
        link->pipes[side].capacity = world->config.socket_buffer_bytes;
        link->pipes[side].bytes = malloc(world->config.socket_buffer_bytes);
        if (!link->pipes[side].bytes) {
            net_sim_link_free(link);
            return NULL;
        }
    }
    return link;
}

uint32_t net_sim_pipe_put(struct sim_pipe *pipe, const uint8_t *bytes, uint32_t count)
{
    uint32_t put = (uint32_t)base_min_u64(count, pipe->capacity - pipe->used);
    uint32_t tail = (uint32_t)(((uint64_t)pipe->head + pipe->used) % pipe->capacity);
    uint32_t straight = (uint32_t)base_min_u64(put, pipe->capacity - tail);
    memcpy(pipe->bytes + tail, bytes, straight);
    memcpy(pipe->bytes, bytes + straight, put - straight);
    pipe->used += put;
    return put;
}

void net_sim_pipe_take(struct sim_pipe *pipe, uint8_t *bytes, uint32_t count)
{
    BASE_ASSERT(count <= pipe->used);
    uint32_t straight = (uint32_t)base_min_u64(count, pipe->capacity - pipe->head);
    memcpy(bytes, pipe->bytes + pipe->head, straight);
    memcpy(bytes + straight, pipe->bytes, count - straight);
    pipe->head = (uint32_t)(((uint64_t)pipe->head + count) % pipe->capacity);
    pipe->used -= count;
}

static void sim_link_nudge(struct sim_link *link, uint32_t side)
{
    if (link->ends[side])
        net_sim_socket_nudge(link->ends[side]);
}

void net_sim_link_break(struct sim_link *link, uint32_t side)
{
    if (link->gone[side] || link->broken[side])
        return;
    link->broken[side] = true;
    /* Bytes that came before RST may still be read, or not: kernels differ, and so does the moment. */
    if (base_random_chance(&link->world->random, 1, 2))
        link->pipes[side].used = 0;
    sim_link_nudge(link, side);
}

void net_sim_link_leave(struct sim_link *link, uint32_t side, bool abort)
{
    BASE_ASSERT(!link->gone[side]);
    struct sim_pipe *in = &link->pipes[side];
    link->gone[side] = true;
    link->ends[side] = NULL;
    if (link->gone[!side]) {
        net_sim_link_free(link);
        return;
    }
    /* As TCP does: closing with bytes unread is a reset. */
    if (abort || in->used > 0) {
        net_sim_link_break(link, !side);
    } else if (!link->broken[side]) {
        link->pipes[!side].ended = true;
        sim_link_nudge(link, !side);
    }
}

static bool address_equal(const struct net_address *a, const struct net_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_port == b->v4.sin_port && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return a->v6.sin6_port == b->v6.sin6_port &&
           memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

static void address_set_port(struct net_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET)
        address->v4.sin_port = htons(port);
    else
        address->v6.sin6_port = htons(port);
}

static bool address_has_port(const struct net_address *address)
{
    return address->any.sa_family == AF_INET ? address->v4.sin_port != 0 : address->v6.sin6_port != 0;
}

static struct sim_listener *listener_exactly_at(struct net_sim_world *world, const struct net_address *address)
{
    struct sim_listener *listener;
    LIST_FOREACH(listener, &world->listeners, all)
    {
        if (address_equal(&listener->address, address))
            return listener;
    }
    return NULL;
}

struct sim_listener *net_sim_listener_at(struct net_sim_world *world, const struct net_address *address)
{
    struct sim_listener *listener = listener_exactly_at(world, address);
    if (listener)
        return listener;
    struct net_address anywhere = *address;
    if (address->any.sa_family == AF_INET)
        anywhere.v4.sin_addr.s_addr = htonl(INADDR_ANY);
    else
        anywhere.v6.sin6_addr = in6addr_any;
    return listener_exactly_at(world, &anywhere);
}

struct sim_listener *net_sim_listener_of(struct net_sim_world *world, int fd)
{
    struct sim_listener *listener;
    LIST_FOREACH(listener, &world->listeners, all)
    {
        if (listener->fd == fd)
            return listener;
    }
    return NULL;
}

enum base_status net_sim_listen(struct net_sim_world *world, const struct net_address *address, int *fd,
                                struct net_address *bound, struct base_error *error)
{
    struct net_address place = *address;
    if (place.any.sa_family != AF_INET && place.any.sa_family != AF_INET6)
        return base_error_set(error, BASE_INVALID, "simulated listener: the address is neither IPv4 nor IPv6");
    if (!address_has_port(&place)) {
        do {
            address_set_port(&place, world->next_port++);
        } while (listener_exactly_at(world, &place));
    } else if (listener_exactly_at(world, &place)) {
        char text[64];
        net_address_format(&place, text);
        return base_error_set(error, BASE_EXISTS, "simulated listener: %s is taken: choose another port", text);
    }
    struct sim_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a simulated listener");
    listener->fd = world->next_fd++;
    listener->address = place;
    TAILQ_INIT(&listener->backlog);
    LIST_INSERT_HEAD(&world->listeners, listener, all);
    *fd = listener->fd;
    *bound = place;
    return BASE_OK;
}

void net_sim_listener_close(struct net_sim_world *world, int fd)
{
    struct sim_listener *listener = net_sim_listener_of(world, fd);
    BASE_ASSERT(listener && LIST_EMPTY(&listener->adopters));
    struct sim_link *link;
    while ((link = TAILQ_FIRST(&listener->backlog))) {
        TAILQ_REMOVE(&listener->backlog, link, waiting);
        net_sim_link_leave(link, 1, true);
    }
    LIST_REMOVE(listener, all);
    free(listener);
}

enum base_status net_sim_pair(struct net_sim_world *world, int fds[2], struct base_error *error)
{
    struct sim_link *link = net_sim_link_make(world);
    if (!link)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a simulated connection");
    for (int side = 0; side < 2; side++)
        fds[side] = link->fds[side] = world->next_fd++;
    return BASE_OK;
}
