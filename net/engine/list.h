/* Intrusive doubly linked list with a sentinel, so that a socket can wait in several queues without an allocation.
 * An unlinked link points to itself: net_list_linked tells, and unlinking twice does no harm. */
#ifndef MILLRACE_NET_ENGINE_LIST_H
#define MILLRACE_NET_ENGINE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct net_link {
    struct net_link *next, *previous;
};

/* The record of `type` that holds `link` as its member `member`. */
#define NET_LIST_ENTRY(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void net_list_init(struct net_link *link)
{
    link->next = link;
    link->previous = link;
}

static inline bool net_list_linked(const struct net_link *link)
{
    return link->next != link;
}

static inline bool net_list_empty(const struct net_link *list)
{
    return list->next == list;
}

/* Does nothing when link is in a list already: its place in the queue is kept. */
static inline void net_list_append(struct net_link *list, struct net_link *link)
{
    if (net_list_linked(link))
        return;
    link->next = list;
    link->previous = list->previous;
    list->previous->next = link;
    list->previous = link;
}

static inline void net_list_unlink(struct net_link *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    net_list_init(link);
}

/* NULL when empty. */
static inline struct net_link *net_list_pop(struct net_link *list)
{
    struct net_link *link = list->next;
    if (link == list)
        return NULL;
    net_list_unlink(link);
    return link;
}

#endif
