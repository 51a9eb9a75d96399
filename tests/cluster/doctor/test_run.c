/* `millrace doctor` as a program: for a user without rights, in a network namespace of its own, under seccomp filters
 * and limits. Whatever is taken away, it gives one complete JSON object, an exit code that says whether something is
 * needed, and nothing on standard error. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

enum { OUTPUT_BYTES = 1 << 20, RUN_SECONDS = 60 };

static char output[OUTPUT_BYTES], complaint[4096];

/* ---- what is taken away ---- */

static void nothing(int argument)
{
    (void)argument;
}

/* Every call of `number` in this process fails with os_error. */
static void forbid(int number, int os_error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)os_error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(99);
}

static void no_io_uring(int os_error)
{
    forbid(SYS_io_uring_setup, os_error);
}

static void no_registering(int os_error)
{
    forbid(SYS_io_uring_register, os_error);
}

static void no_ioctl(int os_error)
{
    forbid(SYS_ioctl, os_error);
}

/* The kernel counts locked memory per user: one that no other process on this machine is likely to be. 0 bytes: the
 * limit stays. */
static void no_rights(int locked_bytes)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)locked_bytes, .rlim_max = (rlim_t)locked_bytes};
    if ((locked_bytes > 0 && setrlimit(RLIMIT_MEMLOCK, &limit) != 0) || setgroups(0, NULL) != 0 || setgid(65534) != 0 ||
        setuid((uid_t)(1200000000 + getpid())) != 0)
        _exit(99);
}

/* Gone with the process. The loopback interface of a new one is down. */
static void own_network(int up)
{
    struct ifreq request = {.ifr_name = "lo"};
    if (unshare(CLONE_NEWNET) != 0)
        _exit(99);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (up && (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0))
        _exit(99);
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    if (up && ioctl(fd, SIOCSIFFLAGS, &request) != 0)
        _exit(99);
    close(fd);
}

/* Two interfaces, one of them with an offload turned off. */
static void poor_interfaces(int argument)
{
    struct ethtool_value off = {.cmd = ETHTOOL_STSO};
    struct ifreq request = {.ifr_name = "mrtest0", .ifr_data = (void *)&off};
    own_network(1);
    if (system("ip link add mrtest0 type veth peer name mrtest1 && ip link set mrtest0 up && ip link set mrtest1 up") !=
        0)
        _exit(98);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request) != 0)
        _exit(98);
    close(fd);
    (void)argument;
}

/* ---- running ---- */

static size_t slurp(int fd, char *text, size_t text_bytes)
{
    size_t used = 0;
    for (ssize_t got; used + 1 < text_bytes && (got = read(fd, text + used, text_bytes - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = '\0';
    close(fd);
    return used;
}

/* Runs the program, keeps what it says, and returns its exit code. */
static int run(void (*restrict_child)(int), int argument, const char *const *words)
{
    int told[2], complained[2], status;
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(complained), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(told[1], STDOUT_FILENO);
        dup2(complained[1], STDERR_FILENO);
        close(told[0]);
        close(complained[0]);
        alarm(RUN_SECONDS);
        /* Sanitizers would add to standard error what their own tools lack here. */
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        /* By its descriptor: whom we become may not be let into the folder. */
        const int program = open(words[0], O_PATH | O_CLOEXEC);
        restrict_child(argument);
        execveat(program, "", (char *const *)(uintptr_t)words, environ, AT_EMPTY_PATH);
        _exit(127);
    }
    close(told[1]);
    close(complained[1]);
    slurp(told[0], output, sizeof output);
    slurp(complained[0], complaint, sizeof complaint);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static json_t *doctor(void (*restrict_child)(int), int argument, int code)
{
    static const char *const words[] = {MILLRACE, "doctor", "--json", NULL};
    const int ended = run(restrict_child, argument, words);
    assert_string_equal(complaint, "");
    json_error_t error;
    json_t *object = json_loads(output, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        fail_msg("%s in: %.200s", error.text, output);
    static const char *const keys[] = {"version",
                                       "well",
                                       "host",
                                       "kernel",
                                       "machine",
                                       "engine",
                                       "sysctl",
                                       "limits",
                                       "process",
                                       "cpu",
                                       "memory",
                                       "numa",
                                       "socket",
                                       "features",
                                       "engines",
                                       "interfaces",
                                       "interfaces_left_out",
                                       "findings"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(object, keys[i]))
            fail_msg("the key %s is missing", keys[i]);
    assert_int_equal(ended, json_is_true(json_object_get(object, "well")) ? 0 : 1);
    if (code >= 0)
        assert_int_equal(ended, code);
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The entry of an array whose `key` is `value`; NULL: none. */
static const json_t *entry(const json_t *object, const char *array, const char *key, const char *value)
{
    const json_t *list = json_object_get(object, array);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(text_of(json_array_get(list, i), key), value) == 0)
            return json_array_get(list, i);
    return NULL;
}

/* ---- tests ---- */

static void it_runs_as_we_are(void **state)
{
    (void)state;
    json_t *object = doctor(nothing, 0, -1);
    assert_non_null(entry(object, "interfaces", "kind", "loopback"));
    json_decref(object);
    static const char *const words[] = {MILLRACE, "doctor", NULL};
    run(nothing, 0, words);
    assert_non_null(strstr(output, "engine auto is"));
    assert_non_null(strstr(output, "o change")); /* "What to change" or "Nothing to change" */
}

/* Becoming somebody without rights takes root, and a program that others may run. */
static bool can_lose_rights(void)
{
    struct stat program;
    return geteuid() == 0 && stat(MILLRACE, &program) == 0 && (program.st_mode & S_IXOTH);
}

static void it_runs_without_rights(void **state)
{
    (void)state;
    if (!can_lose_rights())
        skip();
    json_t *object = doctor(no_rights, 0, -1);
    assert_true(json_is_false(json_object_get(json_object_get(object, "process"), "cap_net_admin")));
    json_decref(object);
}

static void little_locked_memory_is_a_finding(void **state)
{
    (void)state;
    if (!can_lose_rights())
        skip();
    json_t *object = doctor(no_rights, 64 << 10, 1);
    const json_t *finding = entry(object, "findings", "subject", "locked memory");
    assert_non_null(finding);
    assert_string_equal(text_of(finding, "severity"), "needed");
    assert_string_equal(text_of(entry(object, "features", "name", "engine-ring"), "state"), "limited");
    json_decref(object);
}

static void a_network_of_its_own(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    json_t *object = doctor(own_network, 0, 1);
    assert_string_equal(text_of(entry(object, "findings", "subject", "loopback"), "command"), "ip link set lo up");
    assert_string_equal(text_of(entry(object, "features", "name", "multishot-receive"), "state"), "untried");
    json_decref(object);
    object = doctor(own_network, 1, -1);
    assert_null(entry(object, "findings", "subject", "loopback"));
    assert_null(entry(object, "interfaces", "name", "eth0"));
    json_decref(object);
}

static void interfaces_are_seen(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    json_t *object = doctor(poor_interfaces, 0, -1);
    const json_t *poor = entry(object, "interfaces", "name", "mrtest0");
    const json_t *rich = entry(object, "interfaces", "name", "mrtest1");
    assert_non_null(poor);
    assert_non_null(rich);
    assert_string_equal(text_of(poor, "kind"), "veth");
    assert_string_equal(text_of(poor, "driver"), "veth");
    assert_true(json_is_true(json_object_get(poor, "up")));
    assert_false(json_is_true(json_object_get(poor, "physical")));
    assert_int_equal(json_integer_value(json_object_get(poor, "mtu")), 1500);
    assert_string_equal(text_of(json_object_get(poor, "offloads"), "tx-tcp-segmentation"), "off");
    assert_string_equal(text_of(json_object_get(rich, "offloads"), "tx-tcp-segmentation"), "on");
    assert_string_equal(text_of(json_object_get(rich, "offloads"), "rx-ntuple-filter"), "fixed off");
    assert_string_equal(text_of(json_object_get(poor, "zero_copy_send"), "state"), "cannot");
    assert_string_equal(text_of(json_object_get(poor, "zero_copy_receive"), "state"), "cannot");
    const json_t *finding = entry(object, "findings", "subject", "mrtest0");
    assert_string_equal(text_of(finding, "command"), "ethtool -K mrtest0 sg on tso on");
    assert_null(entry(object, "findings", "subject", "mrtest1"));
    json_decref(object);
}

static void a_seccomp_filter_is_a_finding(void **state)
{
    (void)state;
    static const int answers[] = {EPERM, ENOSYS};
    static const char *const names[] = {"EPERM", "ENOSYS"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        json_t *object = doctor(no_io_uring, answers[i], 1);
        assert_string_equal(text_of(object, "engine"), "epoll");
        assert_string_equal(text_of(entry(object, "features", "name", "io-uring"), "error"), names[i]);
        const json_t *finding = json_array_get(json_object_get(object, "findings"), 0);
        assert_string_equal(text_of(finding, "subject"), "io_uring");
        assert_non_null(strstr(text_of(finding, "command"), "seccomp"));
        assert_string_equal(text_of(json_object_get(object, "process"), "seccomp"), "filter");
        json_decref(object);
    }
}

static void half_an_io_uring_is_a_finding(void **state)
{
    (void)state;
    json_t *object = doctor(no_registering, EPERM, 1);
    assert_string_equal(text_of(object, "engine"), "epoll");
    assert_string_equal(text_of(entry(object, "features", "name", "io-uring"), "state"), "forbidden");
    assert_non_null(strstr(text_of(entry(object, "features", "name", "io-uring"), "why"), "io_uring_register"));
    json_decref(object);
}

static void drivers_that_do_not_answer_leave_gaps(void **state)
{
    (void)state;
    json_t *object = doctor(no_ioctl, EPERM, -1);
    assert_non_null(entry(object, "interfaces", "kind", "loopback"));
    json_decref(object);
}

static void an_interface_is_tried_when_asked_for(void **state)
{
    (void)state;
    static const char *const tried[] = {MILLRACE, "doctor", "--json", "--interface=lo", NULL};
    const int code = run(nothing, 0, tried);
    assert_true(code == 0 || code == 1);
    json_t *object = json_loads(output, 0, NULL);
    assert_non_null(object);
    json_decref(object);
    static const char *const missing[] = {MILLRACE, "doctor", "--json", "--interface=nosuch0", NULL};
    assert_int_equal(run(nothing, 0, missing), 2);
    assert_non_null(strstr(complaint, "nosuch0"));
    assert_string_equal(output, "");
}

/* What the doctor knows beforehand the daemon says at its start, once. */
static void a_node_says_its_engine_and_the_cause(void **state)
{
    (void)state;
    int complained[2], status;
    assert_int_equal(pipe(complained), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(complained[1], STDERR_FILENO);
        close(complained[0]);
        alarm(RUN_SECONDS);
        no_io_uring(EPERM);
        /* Nobody listens on port 1, which is no matter here. */
        execl(MILLRACED, MILLRACED, "node", "--name=n1", "--coordinator=127.0.0.1:1", "--listen=127.0.0.1",
              "--open-to-all", "--workers=2", "--memory=64M", NULL);
        _exit(127);
    }
    close(complained[1]);
    size_t used = 0;
    for (ssize_t got; used + 1 < sizeof complaint; used += (size_t)got) {
        got = read(complained[0], complaint + used, sizeof complaint - 1 - used);
        if (got <= 0)
            break;
        complaint[used + (size_t)got] = '\0';
        if (strstr(complaint, "no coordinator"))
            kill(child, SIGTERM);
    }
    close(complained[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    const char *line = strstr(complaint, "engine epoll");
    assert_non_null(line);
    assert_null(strstr(line + 1, "engine epoll"));
    assert_non_null(strstr(line, "seccomp"));
    assert_non_null(strstr(line, "EPERM"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_runs_as_we_are),
        cmocka_unit_test(it_runs_without_rights),
        cmocka_unit_test(little_locked_memory_is_a_finding),
        cmocka_unit_test(a_network_of_its_own),
        cmocka_unit_test(interfaces_are_seen),
        cmocka_unit_test(a_seccomp_filter_is_a_finding),
        cmocka_unit_test(half_an_io_uring_is_a_finding),
        cmocka_unit_test(drivers_that_do_not_answer_leave_gaps),
        cmocka_unit_test(an_interface_is_tried_when_asked_for),
        cmocka_unit_test(a_node_says_its_engine_and_the_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
