/* Mailboxes between real threads with real engines: nothing is lost, overtaken or slept through. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/open.h"
#include "shuffle/frames/mailbox.h"

static void in_order_and_home_again(void **state)
{
    (void)state;
    struct shuffle_mailroom *mailroom;
    struct base_error error;
    int frames[4];
    assert_int_equal(shuffle_mailroom_open(3, 2, &mailroom, &error), BASE_OK);
    assert_null(shuffle_mailroom_take(mailroom, 1, 0));
    assert_true(shuffle_mailroom_post(mailroom, 0, 1, &frames[0]));
    assert_true(shuffle_mailroom_post(mailroom, 0, 1, &frames[1]));
    assert_false(shuffle_mailroom_post(mailroom, 0, 1, &frames[2]));
    assert_true(shuffle_mailroom_post(mailroom, 0, 2, &frames[3]));
    assert_false(shuffle_mailroom_empty(mailroom, 1));
    assert_true(shuffle_mailroom_empty(mailroom, 0));
    assert_ptr_equal(shuffle_mailroom_take(mailroom, 1, 0), &frames[0]);
    assert_ptr_equal(shuffle_mailroom_take(mailroom, 1, 0), &frames[1]);
    /* Taken, but not home: still no room. */
    assert_false(shuffle_mailroom_post(mailroom, 0, 1, &frames[2]));
    shuffle_mailroom_return(mailroom, 1, 0, &frames[1]);
    shuffle_mailroom_return(mailroom, 1, 0, &frames[0]);
    assert_false(shuffle_mailroom_post(mailroom, 0, 1, &frames[2]));
    assert_ptr_equal(shuffle_mailroom_take_home(mailroom, 0, 1), &frames[1]);
    assert_true(shuffle_mailroom_post(mailroom, 0, 1, &frames[2]));
    assert_ptr_equal(shuffle_mailroom_take_home(mailroom, 0, 1), &frames[0]);
    assert_null(shuffle_mailroom_take_home(mailroom, 0, 1));
    shuffle_mailroom_return(mailroom, 1, 0, shuffle_mailroom_take(mailroom, 1, 0));
    shuffle_mailroom_return(mailroom, 2, 0, shuffle_mailroom_take(mailroom, 2, 0));
    assert_non_null(shuffle_mailroom_take_home(mailroom, 0, 1));
    assert_non_null(shuffle_mailroom_take_home(mailroom, 0, 2));
    shuffle_mailroom_close(mailroom);
}

static void leaving_a_job(void **state)
{
    (void)state;
    struct shuffle_mailroom *mailroom;
    struct base_error error;
    assert_int_equal(shuffle_mailroom_open(2, 2, &mailroom, &error), BASE_OK);
    assert_true(shuffle_mailroom_left(mailroom, 5));
    shuffle_mailroom_join(mailroom, 0, 5);
    shuffle_mailroom_join(mailroom, 1, 5);
    assert_false(shuffle_mailroom_left(mailroom, 5));
    assert_true(shuffle_mailroom_left(mailroom, 6));
    shuffle_mailroom_leave(mailroom, 0);
    assert_false(shuffle_mailroom_left(mailroom, 5));
    shuffle_mailroom_leave(mailroom, 1);
    assert_true(shuffle_mailroom_left(mailroom, 5));
    shuffle_mailroom_join(mailroom, 0, 6); /* the next job may begin before the other worker has seen the end */
    assert_true(shuffle_mailroom_left(mailroom, 5));
    shuffle_mailroom_leave(mailroom, 0);
    shuffle_mailroom_close(mailroom);
}

static void not_asleep_when_something_has_come(void **state)
{
    (void)state;
    struct shuffle_mailroom *mailroom;
    struct base_error error;
    int frame;
    assert_int_equal(shuffle_mailroom_open(2, 1, &mailroom, &error), BASE_OK);
    assert_true(shuffle_mailroom_sleep(mailroom, 1));
    shuffle_mailroom_awake(mailroom, 1);
    assert_true(shuffle_mailroom_post(mailroom, 0, 1, &frame));
    assert_false(shuffle_mailroom_sleep(mailroom, 1));
    shuffle_mailroom_return(mailroom, 1, 0, shuffle_mailroom_take(mailroom, 1, 0));
    assert_true(shuffle_mailroom_sleep(mailroom, 1));
    assert_false(shuffle_mailroom_sleep(mailroom, 0)); /* its frame has come home */
    assert_non_null(shuffle_mailroom_take_home(mailroom, 0, 1));
    shuffle_mailroom_awake(mailroom, 1);
    shuffle_mailroom_close(mailroom);
}

/* Threads: each worker sends COUNT numbered frames to each other one, blocks whenever it can do nothing, and ends when
 * all have arrived and all are home. A lost wake-up would block it until the watchdog's limit. */

enum { WORKERS = 3, CAPACITY = 4, COUNT = 20000 };

struct letter {
    uint64_t number;
};

struct worker {
    pthread_t thread;
    uint32_t at;
    struct shuffle_mailroom *mailroom;
    struct net_engine *engine;
    struct letter letters[WORKERS][CAPACITY];
    struct letter *spare[WORKERS][CAPACITY];
    uint32_t spares[WORKERS];
    uint64_t sent[WORKERS], taken[WORKERS], home[WORKERS];
    bool bad, timed_out;
};

static bool worker_turn(struct worker *worker)
{
    bool worked = false;
    for (uint32_t other = 0; other < WORKERS; other++) {
        if (other == worker->at)
            continue;
        struct letter *letter;
        while ((letter = shuffle_mailroom_take_home(worker->mailroom, worker->at, other))) {
            worker->spare[other][worker->spares[other]++] = letter;
            worker->home[other]++;
            worked = true;
        }
        while (worker->sent[other] < COUNT && worker->spares[other] > 0) {
            letter = worker->spare[other][worker->spares[other] - 1];
            letter->number = worker->sent[other];
            if (!shuffle_mailroom_post(worker->mailroom, worker->at, other, letter))
                break;
            worker->spares[other]--;
            worker->sent[other]++;
            worked = true;
        }
        while ((letter = shuffle_mailroom_take(worker->mailroom, worker->at, other))) {
            worker->bad |= letter->number != worker->taken[other]++;
            shuffle_mailroom_return(worker->mailroom, worker->at, other, letter);
            worked = true;
        }
    }
    return worked;
}

static bool worker_done(const struct worker *worker)
{
    for (uint32_t other = 0; other < WORKERS; other++) {
        if (other != worker->at && (worker->taken[other] < COUNT || worker->home[other] < COUNT))
            return false;
    }
    return true;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct base_error error;
    struct net_event events[8];
    worker->bad |= net_engine_enable(worker->engine, &error) != BASE_OK;
    while (!worker->bad && !worker_done(worker)) {
        if (worker_turn(worker) || worker_done(worker))
            continue;
        if (!shuffle_mailroom_sleep(worker->mailroom, worker->at))
            continue;
        if (net_engine_poll(worker->engine, events, 8, UINT64_C(20000000000)) == 0) {
            worker->timed_out = true;
            break;
        }
        shuffle_mailroom_awake(worker->mailroom, worker->at);
    }
    return NULL;
}

static void threads_lose_nothing(void **state)
{
    (void)state;
    struct shuffle_mailroom *mailroom;
    struct base_governor *governor;
    struct base_error error;
    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    assert_int_equal(shuffle_mailroom_open(WORKERS, CAPACITY, &mailroom, &error), BASE_OK);
    struct worker *workers = calloc(WORKERS, sizeof *workers);
    const struct net_engine_config config = {
        .sockets_max = 4, .recv_chunk_bytes = 4096, .recv_chunk_count = 4, .governor = governor};
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct worker *worker = &workers[i];
        worker->at = i;
        worker->mailroom = mailroom;
        assert_int_equal(
            net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_EPOLL}, &config, &worker->engine, &error),
            BASE_OK);
        shuffle_mailroom_register(mailroom, i, worker->engine);
        for (uint32_t other = 0; other < WORKERS; other++) {
            for (uint32_t l = 0; l < CAPACITY; l++)
                worker->spare[other][worker->spares[other]++] = &worker->letters[other][l];
        }
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]), 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_false(workers[i].bad);
        assert_false(workers[i].timed_out);
        net_engine_close(workers[i].engine);
    }
    shuffle_mailroom_close(mailroom);
    free(workers);
    base_governor_close(governor);
}

/* A worker that could not begin its job leaves while a neighbour still prepares: no race, and who came is woken. */

struct newcomer {
    struct shuffle_mailroom *mailroom;
    struct net_engine *engine;
};

static void *newcomer_main(void *argument)
{
    struct newcomer *newcomer = argument;
    shuffle_mailroom_register(newcomer->mailroom, 0, newcomer->engine);
    shuffle_mailroom_join(newcomer->mailroom, 0, 1);
    return NULL;
}

static void leaving_while_another_comes(void **state)
{
    (void)state;
    struct base_governor *governor;
    struct base_error error;
    struct newcomer newcomer;
    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    const struct net_engine_config config = {
        .sockets_max = 4, .recv_chunk_bytes = 4096, .recv_chunk_count = 4, .governor = governor};
    assert_int_equal(
        net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_EPOLL}, &config, &newcomer.engine, &error),
        BASE_OK);
    assert_int_equal(net_engine_enable(newcomer.engine, &error), BASE_OK);
    for (uint32_t round = 0; round < 200; round++) {
        pthread_t thread;
        struct net_event event;
        assert_int_equal(shuffle_mailroom_open(2, CAPACITY, &newcomer.mailroom, &error), BASE_OK);
        assert_int_equal(pthread_create(&thread, NULL, newcomer_main, &newcomer), 0);
        shuffle_mailroom_leave(newcomer.mailroom, 1);
        pthread_join(thread, NULL);
        assert_false(shuffle_mailroom_left(newcomer.mailroom, 1));
        shuffle_mailroom_leave(newcomer.mailroom, 1);
        assert_int_equal(net_engine_poll(newcomer.engine, &event, 1, 0), 1);
        assert_int_equal(event.kind, NET_EVENT_WOKEN);
        shuffle_mailroom_leave(newcomer.mailroom, 0);
        shuffle_mailroom_close(newcomer.mailroom);
    }
    net_engine_close(newcomer.engine);
    base_governor_close(governor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_and_home_again),
        cmocka_unit_test(leaving_a_job),
        cmocka_unit_test(not_asleep_when_something_has_come),
        cmocka_unit_test(threads_lose_nothing),
        cmocka_unit_test(leaving_while_another_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
