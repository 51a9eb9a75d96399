/* The conformance suite on an io_uring that registers nothing: neither a table of files (its size is bounded by the
 * limit of open files) nor the ring's own descriptor. The kernel refuses both here by a seccomp filter. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/net/conformance_cases.h"

static void forbid_registering(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_register, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IORING_REGISTER_FILES2, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IORING_REGISTER_RING_FDS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};

    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void nothing_is_registered(void **state)
{
    struct net_engine_config config = bench_config();

    forbid_registering();
    struct bench *bench = bench_open(*state, &config);
    const char *features = net_engine_features(bench->engines[BENCH_CLIENT]);
    assert_null(strstr(features, "registered"));
    assert_non_null(strstr(features, "multishot"));
    bench_close(bench);
}

int main(void)
{
    const struct bench_kind *kind = bench_kind_of(NET_ENGINE_URING);
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(nothing_is_registered, (void *)(uintptr_t)kind)};

    if (cmocka_run_group_tests_name(kind->name, tests, NULL, NULL) != 0)
        return 1;
    return conformance_run(&kind, 1);
}
