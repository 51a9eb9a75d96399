/* Which engine AUTO takes, and what it says when the kernel forbids io_uring: each case in a child under a seccomp
 * filter or a limit of its own. */
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/open.h"

/* What a child reports through its pipe. */
struct verdict {
    enum base_status auto_status, uring_status;
    char engine[16];
    char reason[256];
    char error[BASE_ERROR_TEXT_BYTES];
};

static struct net_engine_config small_config(struct base_governor *governor)
{
    return (struct net_engine_config){
        .sockets_max = 16, .file_ops_max = 4, .recv_chunk_bytes = 4096, .recv_chunk_count = 16, .governor = governor};
}

/* Every call of `number` in this process fails with os_error. */
static void forbid(uint32_t number, int os_error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)os_error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(99);
}

static void forbid_uring(int os_error)
{
    forbid(SYS_io_uring_setup, os_error);
}

static void forbid_register(int os_error)
{
    forbid(SYS_io_uring_register, os_error);
}

static void forbid_enter(int os_error)
{
    forbid(SYS_io_uring_enter, os_error);
}

/* The kernel counts locked memory per user: one that no other process on this machine is likely to be. */
static uid_t lonely_user(void)
{
    return (uid_t)(1000000000 + getpid());
}

/* io_uring's memory counts against the limit only for an unprivileged user. */
static void squeeze_memory(int bytes)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)bytes, .rlim_max = (rlim_t)bytes};

    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setgroups(0, NULL) != 0 || setgid(65534) != 0 ||
        setuid(lonely_user()) != 0)
        _exit(99);
}

static void judge(struct verdict *verdict)
{
    struct base_error error = {0};
    struct base_governor *governor;
    struct net_engine *engine;

    if (base_governor_open(0, &governor, &error) != BASE_OK)
        _exit(98);
    struct net_engine_config config = small_config(governor);
    verdict->uring_status =
        net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_URING}, &config, &engine, &error);
    if (verdict->uring_status == BASE_OK)
        net_engine_close(engine);
    snprintf(verdict->error, sizeof verdict->error, "%s", error.text);
    verdict->auto_status =
        net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_AUTO}, &config, &engine, &error);
    if (verdict->auto_status != BASE_OK)
        return;
    snprintf(verdict->engine, sizeof verdict->engine, "%s", net_engine_name(engine));
    snprintf(verdict->reason, sizeof verdict->reason, "%s", net_engine_reason(engine));
    net_engine_close(engine);
    base_governor_close(governor);
}

static struct verdict judge_under(void (*restrict_child)(int), int argument)
{
    struct verdict verdict = {0};
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        restrict_child(argument);
        judge(&verdict);
        _exit(write(ends[1], &verdict, sizeof verdict) == (ssize_t)sizeof verdict ? 0 : 97);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &verdict, sizeof verdict), sizeof verdict);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return verdict;
}

static void seccomp_answers_eperm(void **state)
{
    (void)state;
    struct verdict verdict = judge_under(forbid_uring, EPERM);
    assert_int_equal(verdict.auto_status, BASE_OK);
    assert_string_equal(verdict.engine, "epoll");
    assert_non_null(strstr(verdict.reason, "seccomp"));
    assert_non_null(strstr(verdict.reason, "EPERM"));
    assert_int_equal(verdict.uring_status, BASE_DENIED);
    assert_non_null(strstr(verdict.reason, "io_uring is not used: "));
    assert_non_null(strstr(verdict.error, verdict.reason + strlen("io_uring is not used: ")));
}

static void seccomp_hides_io_uring(void **state)
{
    (void)state;
    struct verdict verdict = judge_under(forbid_uring, ENOSYS);
    assert_string_equal(verdict.engine, "epoll");
    assert_non_null(strstr(verdict.reason, "ENOSYS"));
    assert_int_equal(verdict.uring_status, BASE_UNSUPPORTED);
}

/* A filter that lets a ring be made, and then not be used. */
static void seccomp_forbids_half_of_it(void **state)
{
    (void)state;
    static const int answers[] = {EPERM, ENOSYS, EACCES};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct verdict verdict = judge_under(forbid_register, answers[i]);
        assert_int_equal(verdict.auto_status, BASE_OK);
        assert_string_equal(verdict.engine, "epoll");
        assert_non_null(strstr(verdict.reason, "io_uring_register is not permitted"));
        assert_int_equal(verdict.uring_status, BASE_DENIED);
        verdict = judge_under(forbid_enter, answers[i]);
        assert_string_equal(verdict.engine, "epoll");
        assert_non_null(strstr(verdict.reason, "io_uring_enter is not permitted"));
    }
}

static void an_old_kernel_is_named(void **state)
{
    (void)state;
    struct verdict verdict = judge_under(forbid_uring, EINVAL);
    assert_string_equal(verdict.engine, "epoll");
    assert_non_null(strstr(verdict.reason, "Linux 5.19"));
    assert_int_equal(verdict.uring_status, BASE_UNSUPPORTED);
}

static void no_locked_memory_at_all(void **state)
{
    (void)state;
    struct verdict verdict;
    if (geteuid() != 0)
        skip();
    verdict = judge_under(squeeze_memory, 0);
    assert_string_equal(verdict.engine, "epoll");
    assert_non_null(strstr(verdict.reason, "ulimit -l"));
    assert_int_equal(verdict.uring_status, BASE_NO_MEMORY);
}

static void little_locked_memory_makes_a_smaller_ring(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct verdict verdict = judge_under(squeeze_memory, 64 << 10);
    assert_string_equal(verdict.engine, "uring");
    assert_string_equal(verdict.reason, "");
}

static void unrestricted(int argument)
{
    (void)argument;
}

static void io_uring_comes_first(void **state)
{
    (void)state;
    struct verdict verdict = judge_under(unrestricted, 0);
    assert_string_equal(verdict.engine, "uring");
    assert_string_equal(verdict.reason, "");
}

/* A budget without room for the chunks is an error on both engines: epoll would need the same memory. */
static void a_small_budget_is_no_reason_for_epoll(void **state)
{
    (void)state;
    enum net_engine_kind kinds[] = {NET_ENGINE_AUTO, NET_ENGINE_URING, NET_ENGINE_EPOLL};
    struct base_governor *governor;
    struct net_engine *engine = NULL;
    struct base_error error = {0};

    assert_int_equal(base_governor_open(20000, &governor, &error), BASE_OK);
    struct net_engine_config config = small_config(governor);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = kinds[i]}, &config, &engine, &error),
                         BASE_NO_MEMORY);
        assert_non_null(strstr(error.text, "budget"));
        assert_int_equal(base_governor_used_bytes(governor), 0);
    }
    base_governor_close(governor);
}

static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    struct base_governor *governor;
    struct net_engine *engine = NULL;
    struct base_error error = {0};

    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    struct net_engine_config config = small_config(governor);
    config.sockets_max = 0;
    assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_AUTO}, &config, &engine, &error),
                     BASE_INVALID);
    config = small_config(governor);
    config.recv_chunk_count = 65536;
    assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_AUTO}, &config, &engine, &error),
                     BASE_INVALID);
    config = small_config(governor);
    config.recv_chunk_bytes = 0;
    assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_AUTO}, &config, &engine, &error),
                     BASE_INVALID);
    assert_null(engine);
    base_governor_close(governor);
}

/* One that does not exist is refused with what there is; the one in force is told. */
static void a_congestion_control_is_had_or_refused(void **state)
{
    (void)state;
    enum net_engine_kind kinds[] = {NET_ENGINE_AUTO, NET_ENGINE_URING, NET_ENGINE_EPOLL};
    struct base_governor *governor;
    struct base_error error = {0};

    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct net_engine_choice choice = {.kind = kinds[i]};
        struct net_engine_config config = small_config(governor);
        struct net_engine *engine;
        config.socket = (struct net_socket_settings){.congestion = "nosuch"};
        assert_int_equal(net_engine_open(&choice, &config, &engine, &error), BASE_INVALID);
        assert_non_null(strstr(error.text, "nosuch"));
        assert_non_null(strstr(error.text, "reno"));

        config.socket = (struct net_socket_settings){.congestion = "reno"};
        assert_int_equal(net_engine_open(&choice, &config, &engine, &error), BASE_OK);
        assert_int_equal(net_engine_enable(engine, &error), BASE_OK);
        assert_non_null(strstr(net_engine_features(engine), "congestion=reno"));
        net_engine_close(engine);
    }
    base_governor_close(governor);
}

/* The kernel cuts what is over its maximum, unless we may force it: either way what holds is known. */
static void a_buffer_that_is_cut_is_told(void **state)
{
    (void)state;
    struct base_governor *governor;
    struct base_error error = {0};
    struct net_engine *engine;
    const int asked = NET_SOCKET_BUFFER_BYTES_MAX;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const bool forced = setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &asked, sizeof asked) == 0;
    close(fd);

    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    struct net_engine_config config = small_config(governor);
    config.socket.send_buffer_bytes = (uint32_t)asked;
    assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_EPOLL}, &config, &engine, &error),
                     BASE_OK);
    assert_int_equal(!strstr(net_engine_reason(engine), "net.core.wmem_max"), forced);
    net_engine_close(engine);
    base_governor_close(governor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seccomp_answers_eperm),        cmocka_unit_test(seccomp_hides_io_uring),
        cmocka_unit_test(seccomp_forbids_half_of_it),   cmocka_unit_test(an_old_kernel_is_named),
        cmocka_unit_test(no_locked_memory_at_all),      cmocka_unit_test(little_locked_memory_makes_a_smaller_ring),
        cmocka_unit_test(io_uring_comes_first),         cmocka_unit_test(a_small_budget_is_no_reason_for_epoll),
        cmocka_unit_test(absurd_sizes_are_refused),     cmocka_unit_test(a_congestion_control_is_had_or_refused),
        cmocka_unit_test(a_buffer_that_is_cut_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
