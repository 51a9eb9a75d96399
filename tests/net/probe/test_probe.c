/* What the kernel gives, and that the probe says why where it does not: each case in a child under a seccomp filter, a
 * limit, or a network namespace of its own. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/open.h"
#include "net/probe/probe.h"

static void forbid_uring(int os_error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)os_error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(99);
}

/* The kernel counts locked memory per user: one that no other process on this machine is likely to be. */
static void squeeze_memory(int bytes)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)bytes, .rlim_max = (rlim_t)bytes};
    const uid_t user = (uid_t)(1100000000 + getpid());

    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(user) != 0)
        _exit(99);
}

static void leave_the_network(int argument)
{
    (void)argument;
    if (unshare(CLONE_NEWNET) != 0)
        _exit(99);
}

static void unrestricted(int argument)
{
    (void)argument;
}

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Runs the probe in a child, which also holds it to what it promises: little time, and nothing left behind. */
static struct net_probe probe_under(void (*restrict_child)(int), int argument)
{
    static struct net_probe probe;
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        restrict_child(argument);
        const int before = open_files();
        net_probe_run(&probe);
        if (open_files() != before)
            _exit(96);
        _exit(write(ends[1], &probe, sizeof probe) == (ssize_t)sizeof probe ? 0 : 97);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t piece; got < sizeof probe && (piece = read(ends[0], (char *)&probe + got, sizeof probe - got)) > 0;)
        got += (size_t)piece;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(got, sizeof probe);
    return probe;
}

static void expect(const struct net_probe *probe, enum net_probe_id id, enum net_probe_state state, const char *why)
{
    const struct net_probe_result *result = &probe->result[id];
    if (result->state != state || !strstr(result->why, why))
        fail_msg("%s: %s, errno %d, \"%s\"", net_probe_word(id), net_probe_state_word(result->state), result->os_error,
                 result->why);
}

static void every_result_has_words(void **state)
{
    (void)state;
    const struct net_probe probe = probe_under(unrestricted, 0);
    for (int id = 0; id < NET_PROBE_COUNT; id++) {
        const struct net_probe_result *result = &probe.result[id];
        const bool works = result->state == NET_PROBE_STATE_WORKS;
        assert_true((unsigned)result->state < NET_PROBE_STATE_COUNT);
        assert_int_equal(works, *result->why == '\0');
        assert_int_equal(works, result->os_error == 0);
        for (int other = 0; other < id; other++)
            assert_string_not_equal(net_probe_word((enum net_probe_id)id), net_probe_word((enum net_probe_id)other));
    }
}

/* What this project's own engine needs must be found where that engine runs. */
static void the_probe_agrees_with_the_engine(void **state)
{
    (void)state;
    static const enum net_probe_id needed[] = {NET_PROBE_URING,
                                               NET_PROBE_DEFER_TASKRUN,
                                               NET_PROBE_DISABLED_START,
                                               NET_PROBE_SUBMIT_ALL,
                                               NET_PROBE_TASKRUN_FLAG,
                                               NET_PROBE_ENGINE_RING,
                                               NET_PROBE_BUFFER_RING,
                                               NET_PROBE_REGISTERED_RING,
                                               NET_PROBE_MULTISHOT_ACCEPT,
                                               NET_PROBE_REGISTERED_FILES,
                                               NET_PROBE_MULTISHOT_RECEIVE};
    struct base_governor *governor;
    struct base_error error = {0};
    struct net_engine *engine;
    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    const struct net_engine_config config = {
        .sockets_max = 16, .file_ops_max = 4, .recv_chunk_bytes = 4096, .recv_chunk_count = 16, .governor = governor};
    const struct net_engine_choice choice = {.kind = NET_ENGINE_URING};
    const bool opened = net_engine_open(&choice, &config, &engine, &error) == BASE_OK;
    const struct net_probe probe = probe_under(unrestricted, 0);
    if (opened) {
        for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
            expect(&probe, needed[i], NET_PROBE_STATE_WORKS, "");
        net_engine_close(engine);
    } else {
        assert_int_not_equal(probe.result[NET_PROBE_DEFER_TASKRUN].state, NET_PROBE_STATE_WORKS);
    }
    base_governor_close(governor);
}

/* Over the loopback interface the kernel copies, and must say so. */
static void loopback_reports_copies(void **state)
{
    (void)state;
    const struct net_probe probe = probe_under(unrestricted, 0);
    static const enum net_probe_id sends[] = {NET_PROBE_SEND_ZC, NET_PROBE_SEND_ZC_FIXED, NET_PROBE_SENDMSG_ZC,
                                              NET_PROBE_MSG_ZEROCOPY};
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++)
        if (probe.result[sends[i]].state == NET_PROBE_STATE_WORKS)
            assert_true(probe.result[sends[i]].copied);
}

static void seccomp_answers_eperm(void **state)
{
    (void)state;
    const struct net_probe probe = probe_under(forbid_uring, EPERM);
    expect(&probe, NET_PROBE_URING, NET_PROBE_STATE_FORBIDDEN, "seccomp");
    assert_int_equal(probe.result[NET_PROBE_URING].os_error, EPERM);
    expect(&probe, NET_PROBE_BUNDLE, NET_PROBE_STATE_UNTRIED, "no io_uring here");
    expect(&probe, NET_PROBE_EPOLL_PWAIT2, NET_PROBE_STATE_WORKS, "");
    assert_int_not_equal(probe.result[NET_PROBE_HUGE_PAGES].state, NET_PROBE_STATE_UNTRIED);
}

static void seccomp_hides_io_uring(void **state)
{
    (void)state;
    const struct net_probe probe = probe_under(forbid_uring, ENOSYS);
    expect(&probe, NET_PROBE_URING, NET_PROBE_STATE_MISSING, "seccomp profile hides it");
    assert_int_equal(probe.result[NET_PROBE_URING].os_error, ENOSYS);
}

static void little_locked_memory_is_named(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    const struct net_probe probe = probe_under(squeeze_memory, 64 << 10);
    expect(&probe, NET_PROBE_URING, NET_PROBE_STATE_WORKS, "");
    expect(&probe, NET_PROBE_ENGINE_RING, NET_PROBE_STATE_LIMITED, "ulimit -l");
    assert_int_equal(probe.result[NET_PROBE_ENGINE_RING].os_error, ENOMEM);
    /* What fits is not blamed on what was tried before it. */
    expect(&probe, NET_PROBE_REGISTERED_FILES, NET_PROBE_STATE_WORKS, "");
    expect(&probe, NET_PROBE_MSG_RING, NET_PROBE_STATE_WORKS, "");
    expect(&probe, NET_PROBE_MULTISHOT_RECEIVE, NET_PROBE_STATE_WORKS, "");
}

/* A fresh network namespace has a loopback interface that is down. */
static void a_loopback_that_is_down_is_named(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    const struct net_probe probe = probe_under(leave_the_network, 0);
    expect(&probe, NET_PROBE_MULTISHOT_RECEIVE, NET_PROBE_STATE_UNTRIED, "ip link set lo up");
    expect(&probe, NET_PROBE_MSG_ZEROCOPY, NET_PROBE_STATE_UNTRIED, "ip link set lo up");
    expect(&probe, NET_PROBE_REGISTERED_FILES, NET_PROBE_STATE_WORKS, "");
}

static void the_loopback_interface_has_no_zero_copy_receive(void **state)
{
    (void)state;
    struct net_probe_result result;
    net_probe_receive_zc(1, 0, &result);
    assert_int_not_equal(result.state, NET_PROBE_STATE_WORKS);
    assert_int_not_equal(result.os_error, 0);
    assert_string_not_equal(result.why, "");
    net_probe_receive_zc(0x7ffffff0, 0, &result);
    assert_int_not_equal(result.state, NET_PROBE_STATE_WORKS);
}

static void a_socket_tells_its_settings(void **state)
{
    (void)state;
    struct net_probe_socket socket_facts;
    net_probe_socket(&socket_facts);
    assert_string_not_equal(socket_facts.congestion, "");
    assert_string_not_equal(socket_facts.congestion_default, "");
    assert_true(socket_facts.send_buffer_bytes > 0);
    assert_true(socket_facts.recv_buffer_bytes > 0);
    assert_true(socket_facts.nodelay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_result_has_words),
        cmocka_unit_test(the_probe_agrees_with_the_engine),
        cmocka_unit_test(loopback_reports_copies),
        cmocka_unit_test(seccomp_answers_eperm),
        cmocka_unit_test(seccomp_hides_io_uring),
        cmocka_unit_test(little_locked_memory_is_named),
        cmocka_unit_test(a_loopback_that_is_down_is_named),
        cmocka_unit_test(the_loopback_interface_has_no_zero_copy_receive),
        cmocka_unit_test(a_socket_tells_its_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
