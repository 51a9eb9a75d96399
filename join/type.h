/* The types of join that there are, and which rows of the two sides each has in its result. Partner of a row: one of
 * the other side with an equal key. */
#ifndef MILLRACE_JOIN_TYPE_H
#define MILLRACE_JOIN_TYPE_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, word) */
#define JOIN_TYPE_LIST(X)                                                                                              \
    X(INNER, "inner") X(LEFT, "left") X(RIGHT, "right") X(FULL, "full") X(SEMI, "semi") X(ANTI, "anti")
enum join_type {
#define X(name, word) JOIN_TYPE_##name,
    JOIN_TYPE_LIST(X)
#undef X
        JOIN_TYPE_COUNT
};

/* "left"; never NULL. */
const char *join_type_word(enum join_type type);

/* Is the result made of pairs (and rows without a partner, padded with NULLs), or of rows of the left side alone? */
static inline bool join_type_pairs(enum join_type type)
{
    return type != JOIN_TYPE_SEMI && type != JOIN_TYPE_ANTI;
}

/* Are rows of this side (0 left, 1 right) that have no partner in the result? */
static inline bool join_type_keeps(enum join_type type, uint32_t side)
{
    return type == JOIN_TYPE_FULL ||
           (side == 0 ? type == JOIN_TYPE_LEFT || type == JOIN_TYPE_ANTI : type == JOIN_TYPE_RIGHT);
}

/* May the columns of this side be NULL in the result because a row of the other side has no partner? */
static inline bool join_type_pads(enum join_type type, uint32_t side)
{
    return join_type_pairs(type) && join_type_keeps(type, 1 - side);
}

#endif
