/* The worker's wake-ups: no command waits while the worker blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <pthread.h>

#include "base/clock.h"
#include "base/memory/memory.h"
#include "net/open.h"
#include "shuffle/worker/worker.h"

struct swap {
    struct shuffle_worker *worker;
    struct net_engine *next;
    uint32_t ran;
};

static void command_count(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    ((struct swap *)argument)->ran++;
}

/* Replaces the engine. Just before, another thread posted a command, whose wake-up went to the old one. */
static void command_swap(struct shuffle_worker *worker, void *argument)
{
    struct swap *swap = argument;
    assert_int_equal(shuffle_worker_post(worker, command_count, swap), BASE_OK);
    shuffle_worker_set_engine(worker, swap->next);
    swap->ran++;
}

static struct base_governor *governor;

static int setup(void **state)
{
    (void)state;
    struct base_error error;
    return base_governor_open(0, &governor, &error) == BASE_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    base_governor_close(governor);
    return 0;
}

static struct net_engine *engine_open(enum net_engine_kind kind)
{
    const struct net_engine_config config = {
        .sockets_max = 4, .file_ops_max = 4, .recv_chunk_bytes = 4096, .recv_chunk_count = 4, .governor = governor};
    struct net_engine *engine;
    struct base_error error;
    assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = kind}, &config, &engine, &error), BASE_OK);
    assert_int_equal(net_engine_enable(engine, &error), BASE_OK);
    return engine;
}

static void swaps(enum net_engine_kind kind)
{
    struct shuffle_worker *worker;
    struct base_error error;
    struct net_engine *before = engine_open(kind);
    struct swap swap = {.next = engine_open(kind)};
    assert_int_equal(shuffle_worker_open(0, &worker, &error), BASE_OK);
    shuffle_worker_set_engine(worker, before);
    assert_int_equal(shuffle_worker_post(worker, command_swap, &swap), BASE_OK);
    alarm(20); /* a worker that blocks with a command waiting blocks for ever */
    while (swap.ran < 2)
        shuffle_worker_turn(worker, &shuffle_budget_default, true);
    /* and one that comes to the new engine */
    assert_int_equal(shuffle_worker_post(worker, command_count, &swap), BASE_OK);
    while (swap.ran < 3)
        shuffle_worker_turn(worker, &shuffle_budget_default, true);
    alarm(0);
    shuffle_worker_set_engine(worker, NULL);
    shuffle_worker_close(worker);
    net_engine_close(before);
    net_engine_close(swap.next);
}

static void test_swap_epoll(void **state)
{
    (void)state;
    swaps(NET_ENGINE_EPOLL);
}

static void test_swap_auto(void **state)
{
    (void)state;
    swaps(NET_ENGINE_AUTO);
}

/* Posted before there is an engine at all. */
static void test_early(void **state)
{
    (void)state;
    struct shuffle_worker *worker;
    struct base_error error;
    struct swap swap = {0};
    assert_int_equal(shuffle_worker_open(0, &worker, &error), BASE_OK);
    assert_int_equal(shuffle_worker_post(worker, command_count, &swap), BASE_OK);
    struct net_engine *engine = engine_open(NET_ENGINE_AUTO);
    shuffle_worker_set_engine(worker, engine);
    alarm(20);
    while (swap.ran < 1)
        shuffle_worker_turn(worker, &shuffle_budget_default, true);
    alarm(0);
    shuffle_worker_close(worker);
    net_engine_close(engine);
}

/* A thread of this process sleeps: 'S' in its line after its name. */
static bool thread_sleeps(pid_t thread)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    const char *name_end = strrchr(line, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

/* Posts once the main thread sleeps: it is waiting for a command. */
static void *post_later(void *argument)
{
    struct swap *swap = argument;
    while (!thread_sleeps(getpid()))
        sched_yield();
    assert_int_equal(shuffle_worker_post(swap->worker, command_count, swap), BASE_OK);
    return NULL;
}

/* Without an engine nothing wakes but a command: one that is there, one that comes, or none. */
static void a_worker_without_an_engine_hears_commands(void **state)
{
    (void)state;
    struct base_error error;
    struct swap swap = {0};
    pthread_t thread;
    assert_int_equal(shuffle_worker_open(0, &swap.worker, &error), BASE_OK);
    assert_false(shuffle_worker_stand_by(swap.worker, 0));
    assert_int_equal(shuffle_worker_post(swap.worker, command_count, &swap), BASE_OK);
    assert_true(shuffle_worker_stand_by(swap.worker, 0));
    assert_int_equal(swap.ran, 1);
    alarm(120);
    assert_int_equal(pthread_create(&thread, NULL, post_later, &swap), 0);
    assert_true(shuffle_worker_stand_by(swap.worker, 600 * BASE_NS_PER_S)); /* would be a hang */
    assert_int_equal(pthread_join(thread, NULL), 0);
    alarm(0);
    assert_int_equal(swap.ran, 2);
    shuffle_worker_close(swap.worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_without_an_engine_hears_commands),
        cmocka_unit_test(test_swap_epoll),
        cmocka_unit_test(test_swap_auto),
        cmocka_unit_test(test_early),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
