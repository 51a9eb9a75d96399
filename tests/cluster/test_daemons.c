/* Real daemons on loopback: what a user sees when they work, die, stand still, and come back. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/build.h"
#include "base/clock.h"
#include "cluster/link/frame.h"
#include "cluster/link/link.h"
#include "cluster/shell/state.h"

enum { NODES = 3 };
/* No wait of these tests is for time: each ends on what it waits for, and after this long something hangs. */
enum { LIMIT_MS = 120 * 1000 };

static char folder[64];
static char coordinator_text[64];
static struct net_address coordinator_address;
static pid_t coordinator_pid, node_pid[NODES];
static int node_stderr = -1; /* instead of a log, for the next process */

static uint64_t limit_ns(void)
{
    return base_clock_now_ns() + LIMIT_MS * BASE_NS_PER_MS;
}

/* ---- processes ---- */

static pid_t spawn(const char *log, char *const *arguments)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    char path[160];
    snprintf(path, sizeof path, "%s/%s.log", folder, log);
    const int fd = node_stderr >= 0 ? node_stderr : open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || dup2(fd, 2) < 0 || dup2(fd, 1) < 0)
        _exit(126);
    execv(arguments[0], arguments);
    _exit(127);
}

static void start_coordinator(void)
{
    char state[96];
    snprintf(state, sizeof state, "--state=%s/state", folder);
    char listen[96];
    snprintf(listen, sizeof listen, "--listen=%s", coordinator_text);
    char *const arguments[] = {MILLRACED, "coordinator", listen, state, "--nodes=3", "--open-to-all", NULL};
    coordinator_pid = spawn("coordinator", arguments);
}

static void start_node(int i)
{
    char name[32], coordinator[96];
    snprintf(name, sizeof name, "--name=n%d", i + 1);
    snprintf(coordinator, sizeof coordinator, "--coordinator=%s", coordinator_text);
    char *const arguments[] = {MILLRACED,     "node",          name, coordinator, "--listen=127.0.0.1", "--workers=2",
                               "--memory=1G", "--open-to-all", NULL};
    node_pid[i] = spawn(name + 7, arguments);
}

static int end_process(pid_t *pid, int signal_number)
{
    int status = -1;
    if (*pid <= 0)
        return -1;
    /* In this order: a SIGCONT that comes while the leak sanitizer stops the process at its end would undo that stop,
     * and the sanitizer would wait for ever. */
    kill(*pid, SIGCONT);
    kill(*pid, signal_number);
    waitpid(*pid, &status, 0);
    *pid = 0;
    return status;
}

/* ---- a client ---- */

static struct cluster_link *client_open(void)
{
    const uint64_t deadline_ns = limit_ns();
    for (;;) {
        struct cluster_link *link;
        struct base_error error;
        struct cluster_message message;
        assert_int_equal(cluster_link_connect(&coordinator_address, NULL, deadline_ns, &link, &error), BASE_OK);
        cluster_hello_fill(CLUSTER_ROLE_CLIENT, &message);
        assert_int_equal(cluster_link_send(link, &message, base_clock_now_ns(), &error), BASE_OK);
        if (cluster_link_wait(link, deadline_ns, &message, &error) == BASE_OK) {
            assert_int_equal(message.kind, CLUSTER_MESSAGE_WELCOME);
            cluster_message_free(&message);
            cluster_link_trust(link);
            return link;
        }
        cluster_link_close(link);
        assert_true(base_clock_now_ns() < deadline_ns);
        usleep(10000);
    }
}

static void client_wait(struct cluster_link *link, struct cluster_message *message)
{
    struct base_error error;
    if (cluster_link_wait(link, limit_ns(), message, &error) != BASE_OK)
        fail_msg("%s", error.text);
}

/* The next message of this kind; others are passed over. */
static void client_await(struct cluster_link *link, enum cluster_message_kind kind, struct cluster_message *message)
{
    for (;;) {
        client_wait(link, message);
        if (message->kind == kind)
            return;
        cluster_message_free(message);
    }
}

static void client_ask(struct cluster_link *link, struct cluster_message *message, enum cluster_message_kind answer)
{
    struct base_error error;
    assert_int_equal(cluster_link_send(link, message, base_clock_now_ns(), &error), BASE_OK);
    client_await(link, answer, message);
}

static bool nodes_complete(void)
{
    struct cluster_link *link = client_open();
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_LIST_NODES};
    client_ask(link, &message, CLUSTER_MESSAGE_NODES);
    uint32_t here = 0;
    for (uint32_t i = 0; i < message.nodes.count; i++)
        here += message.nodes.entry[i].state == CLUSTER_NODE_IDLE;
    cluster_message_free(&message);
    cluster_link_close(link);
    return here == NODES;
}

static void await_complete(void)
{
    const uint64_t deadline_ns = limit_ns();
    while (!nodes_complete()) {
        assert_true(base_clock_now_ns() < deadline_ns);
        usleep(10000);
    }
}

static void await_gone(const char *path)
{
    const uint64_t deadline_ns = limit_ns();
    while (access(path, F_OK) == 0) {
        assert_true(base_clock_now_ns() < deadline_ns);
        usleep(10000);
    }
}

static struct cluster_submit join_of(const char *rows)
{
    return (struct cluster_submit){.kind = CLUSTER_KIND_JOIN,
                                   .source_count = 2,
                                   .source = {{.text = (char *)(uintptr_t)rows}, {.text = "gen:rows=1000,row=16"}},
                                   .on = "key=key",
                                   .progress = true};
}

static struct cluster_submit shuffle_to(const char *rows, const char *out)
{
    return (struct cluster_submit){.kind = CLUSTER_KIND_SHUFFLE,
                                   .source_count = 1,
                                   .source = {{.text = (char *)(uintptr_t)rows}},
                                   .on = "key",
                                   .out = (char *)(uintptr_t)out,
                                   .output = SHUFFLE_OUTPUT_CSV,
                                   .progress = true};
}

/* So many rows that no machine is done with them before the test interferes. */
#define ENDLESS "gen:rows=20G,row=16"

static struct cluster_link *submit(const struct cluster_submit *request, uint64_t *job)
{
    struct cluster_link *link = client_open();
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_SUBMIT;
    message.submit = *request;
    client_ask(link, &message, CLUSTER_MESSAGE_ACCEPTED);
    *job = message.job;
    return link;
}

/* Waits until the job's workers scan rows. */
static void await_rows(struct cluster_link *link)
{
    struct cluster_message message;
    uint64_t rows = 0;
    while (rows == 0) {
        client_wait(link, &message);
        if (message.kind == CLUSTER_MESSAGE_REPORT)
            fail_msg("the job ended: %s", message.report.error.text);
        if (message.kind == CLUSTER_MESSAGE_PROGRESS)
            rows = message.progress.rows_scanned;
        cluster_message_free(&message);
    }
}

/* The report must be in *message; the caller frees it. */
static void await_report(struct cluster_link *link, struct cluster_message *message)
{
    client_await(link, CLUSTER_MESSAGE_REPORT, message);
    cluster_link_close(link);
}

static void run(const struct cluster_submit *request, struct cluster_message *message)
{
    uint64_t job;
    await_report(submit(request, &job), message);
}

static void run_good_join(void)
{
    struct cluster_message message;
    const struct cluster_submit request = join_of("gen:rows=1000,row=16");
    run(&request, &message);
    if (message.report.error.status != BASE_OK)
        fail_msg("%s", message.report.error.text);
    assert_int_equal(message.report.sum.task.rows, 1000);
    cluster_message_free(&message);
}

static void expect(struct cluster_link *link, enum base_status status, const char *words)
{
    struct cluster_message message;
    await_report(link, &message);
    if (message.report.error.status != status || !strstr(message.report.error.text, words))
        fail_msg("expected %s with '%s', got %s: %s", base_status_name(status), words,
                 base_status_name(message.report.error.status), message.report.error.text);
    cluster_message_free(&message);
}

/* ---- files ---- */

static uint32_t count_files(const char *path, const char *prefix)
{
    uint32_t count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (dir)
        closedir(dir);
    return count;
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static uint32_t count_in_log(const char *log, const char *words)
{
    char path[160], line[4096];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%s/%s.log", folder, log);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, words) != NULL;
    fclose(file);
    return count;
}

static const char *const node_log[NODES] = {"n1", "n2", "n3"};

/* Waits until the log has more than so many lines with these words. */
static void await_log(const char *log, const char *words, uint32_t before)
{
    const uint64_t deadline_ns = limit_ns();
    while (count_in_log(log, words) <= before) {
        assert_true(base_clock_now_ns() < deadline_ns);
        usleep(10000);
    }
}

/* ---- tests ---- */

static int open_cluster(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/millrace-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    /* A port that is free now; the listener is closed again for the coordinator to take it. */
    struct net_address any;
    struct base_error error;
    int fd;
    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 1, &fd, &coordinator_address, &error), BASE_OK);
    close(fd);
    net_address_format(&coordinator_address, coordinator_text);
    start_coordinator();
    for (int i = 0; i < NODES; i++)
        start_node(i);
    await_complete();
    return 0;
}

static int close_cluster(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        assert_int_equal(end_process(&node_pid[i], SIGTERM), 0);
    assert_int_equal(end_process(&coordinator_pid, SIGTERM), 0);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    return 0;
}

static void test_joins(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        run_good_join();
}

static void test_output(void **state)
{
    (void)state;
    char out[96], success[128];
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(success, sizeof success, "%s/_SUCCESS.json", out);
    const struct cluster_submit request = shuffle_to("gen:rows=10000,row=16", out);
    struct cluster_message message;
    run(&request, &message);
    assert_int_equal(message.report.error.status, BASE_OK);
    assert_int_equal(message.report.sum.task.rows, 10000);
    cluster_message_free(&message);
    assert_int_equal(count_files(out, "part-"), 2 * NODES);
    assert_int_equal(count_files(out, "."), 2); /* no attempts, no marker: "." and ".." only */
    assert_true(exists(success));
    run(&request, &message);
    assert_int_equal(message.report.error.status, BASE_EXISTS);
    cluster_message_free(&message);
}

static void test_node_dies(void **state)
{
    (void)state;
    char out[96];
    snprintf(out, sizeof out, "%s/out-dies", folder);
    const struct cluster_submit request = shuffle_to(ENDLESS, out);
    uint64_t job;
    struct cluster_link *link = submit(&request, &job);
    await_rows(link);
    end_process(&node_pid[1], SIGKILL);
    expect(link, BASE_NODE_LOST, "n2");
    assert_false(exists(out)); /* also what the dead node had begun */
    const struct cluster_submit join = join_of("gen:rows=10,row=16");
    expect(submit(&join, &job), BASE_NODE_MISSING, "n2");
    start_node(1);
    await_complete();
    run_good_join();
}

static void test_node_stands_still(void **state)
{
    (void)state;
    const struct cluster_submit request = join_of(ENDLESS);
    uint64_t job;
    struct cluster_link *link = submit(&request, &job);
    await_rows(link);
    kill(node_pid[2], SIGSTOP);
    expect(link, BASE_NODE_LOST, "n3");
    kill(node_pid[2], SIGCONT);
    await_complete();
    run_good_join();
}

/* Nodes that give up because the coordinator stood still are not blamed. */
static void test_coordinator_stands_still(void **state)
{
    (void)state;
    static const char silent[] = "the coordinator was silent";
    const struct cluster_submit request = join_of(ENDLESS);
    uint64_t job;
    struct cluster_link *link = submit(&request, &job);
    await_rows(link);
    uint32_t before[NODES];
    for (uint32_t i = 0; i < NODES; i++)
        before[i] = count_in_log(node_log[i], silent);
    kill(coordinator_pid, SIGSTOP);
    for (uint32_t i = 0; i < NODES; i++)
        await_log(node_log[i], silent, before[i]);
    kill(coordinator_pid, SIGCONT);
    expect(link, BASE_NODE_LOST, "the coordinator stood still");
    await_complete();
    run_good_join();
}

static void test_client_leaves(void **state)
{
    (void)state;
    const struct cluster_submit request = join_of(ENDLESS);
    uint64_t job;
    struct cluster_link *link = submit(&request, &job);
    await_rows(link);
    cluster_link_close(link);
    run_good_join();
}

static void test_node_is_stopped(void **state)
{
    (void)state;
    char out[96];
    snprintf(out, sizeof out, "%s/out-stopped", folder);
    const struct cluster_submit request = shuffle_to(ENDLESS, out);
    uint64_t job;
    struct cluster_link *link = submit(&request, &job);
    await_rows(link);
    assert_int_equal(end_process(&node_pid[0], SIGTERM), 0);
    expect(link, BASE_NODE_LOST, "n1");
    assert_false(exists(out));
    start_node(0);
    await_complete();
}

static void test_coordinator_dies(void **state)
{
    (void)state;
    char out[96];
    snprintf(out, sizeof out, "%s/out-coordinator", folder);
    const struct cluster_submit request = shuffle_to(ENDLESS, out);
    uint64_t job, next_job;
    struct cluster_link *link = submit(&request, &job);
    await_rows(link);
    end_process(&coordinator_pid, SIGKILL);
    struct cluster_message message;
    struct base_error error;
    enum base_status status;
    while ((status = cluster_link_wait(link, limit_ns(), &message, &error)) == BASE_OK)
        cluster_message_free(&message); /* progress from before */
    assert_int_equal(status, BASE_PEER_CLOSED);
    cluster_link_close(link);
    start_coordinator();
    await_complete();
    assert_false(exists(out));
    const struct cluster_submit join = join_of("gen:rows=1000,row=16");
    expect(submit(&join, &next_job), BASE_OK, "");
    assert_true(next_job > job); /* numbers never come back */
}

/* A decision that an earlier coordinator recorded, and died: parts get their names when the nodes are here. */
static void test_decision_is_completed(void **unused)
{
    (void)unused;
    char out[96], path[160];
    snprintf(out, sizeof out, "%s/out-decided", folder);
    end_process(&coordinator_pid, SIGKILL);
    assert_int_equal(mkdir(out, 0755), 0);
    for (int worker = 0; worker < 2 * NODES; worker++) {
        snprintf(path, sizeof path, "%s/.attempt-job-7-part-%05d.csv", out, worker);
        fclose(fopen(path, "w"));
        snprintf(path, sizeof path, "%s/.job-job-7-%05d", out, worker & ~1); /* every node's claim */
        fclose(fopen(path, "w"));
    }
    snprintf(path, sizeof path, "%s/state", folder);
    struct shuffle_node nodes[NODES] = {{"n1", 0, 2}, {"n2", 2, 2}, {"n3", 4, 2}};
    const struct cluster_decision decision = {.job = 7,
                                              .out = out,
                                              .extension = (char *)(uintptr_t) "csv",
                                              .files = (char *)(uintptr_t) "job-7",
                                              .text = (char *)(uintptr_t) "{}\n",
                                              .node_count = NODES,
                                              .node = nodes};
    struct cluster_state *state;
    struct base_error error;
    uint64_t first;
    bool unknown;
    assert_int_equal(cluster_state_open(path, &state, &first, &error), BASE_OK);
    assert_int_equal(cluster_state_record(state, &decision, false, &unknown, &error), BASE_OK);
    cluster_state_close(state);
    snprintf(path, sizeof path, "%s/state/decision-7", folder);
    assert_true(exists(path));
    start_coordinator();
    await_complete();
    run_good_join(); /* by its end, what came before it has been carried out */
    assert_int_equal(count_files(out, "part-"), 2 * NODES);
    assert_int_equal(count_files(out, ".attempt"), 0);
    assert_int_equal(count_files(out, "_SUCCESS.json"), 1);
    await_gone(path); /* by the thread that writes to the coordinator's folder */
}

/* A client that asks without end and never listens is thrown out. Meanwhile others are served, and no node notices: one
 * that heard nothing for 1.2 s while the questions are answered would give up its job. */
static void test_flood_of_questions(void **state)
{
    (void)state;
    enum { BURST = 4096 };
    const struct cluster_submit request = join_of(ENDLESS);
    uint64_t job;
    struct cluster_link *running = submit(&request, &job);
    struct base_error error;
    const struct cluster_message question = {.kind = CLUSTER_MESSAGE_LIST_JOBS};
    uint8_t *bytes;
    size_t count;
    assert_int_equal(cluster_frame_encode(&question, &bytes, &count, &error), BASE_OK);
    uint8_t *burst = malloc(BURST * count);
    assert_non_null(burst);
    for (size_t i = 0; i < BURST; i++)
        memcpy(burst + i * count, bytes, count);
    struct cluster_link *flooder = client_open();
    const int fd = cluster_link_fd(flooder);
    const uint64_t end_ns = limit_ns();
    bool thrown_out = false;
    while (!thrown_out && base_clock_now_ns() < end_ns) {
        for (int i = 0; i < 256 && !thrown_out; i++)
            thrown_out = send(fd, burst, BURST * count, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN;
        struct cluster_link *other = client_open();
        struct cluster_message message = {.kind = CLUSTER_MESSAGE_LIST_NODES};
        client_ask(other, &message, CLUSTER_MESSAGE_NODES);
        cluster_message_free(&message);
        cluster_link_close(other);
    }
    free(burst);
    free(bytes);
    cluster_link_close(flooder);
    assert_true(thrown_out);
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_CANCEL, .job = job};
    struct cluster_link *other = client_open();
    client_ask(other, &message, CLUSTER_MESSAGE_ANSWER);
    cluster_message_free(&message);
    cluster_link_close(other);
    expect(running, BASE_CANCELLED, "on request");
}

/* A client gets no room for messages that no client has to send. */
static void test_large_request(void **state)
{
    (void)state;
    struct cluster_link *link = client_open();
    uint8_t head[4];
    base_store_u32(head, CLUSTER_HELLO_BYTES_MAX + 1);
    assert_int_equal(send(cluster_link_fd(link), head, sizeof head, MSG_NOSIGNAL), sizeof head);
    struct cluster_message message;
    struct base_error error;
    assert_int_equal(cluster_link_wait(link, limit_ns(), &message, &error), BASE_PEER_CLOSED);
    cluster_link_close(link);
}

/* Makes empty files whose paths are nearly as long as paths can be; their folder's path goes to path[PATH_MAX]. */
static void make_long_files(uint32_t count, char *path)
{
    char name[256];
    memset(name, 'd', 250);
    name[250] = 0;
    int length = snprintf(path, PATH_MAX, "%s/long", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    while (length + 2 * 251 < PATH_MAX) {
        length += snprintf(path + length, (size_t)(PATH_MAX - length), "/%s", name);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    const int fd = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    memset(name, 'f', 200);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name + 200, sizeof name - 200, "%u.bin", i);
        const int file = openat(fd, name, O_WRONLY | O_CREAT, 0644);
        assert_true(file >= 0);
        close(file);
    }
    close(fd);
}

/* Where an answer of a node, or an order to it, is too large to be sent, the job ends and says why; no node is lost. */
static void test_lists_too_large(void **state)
{
    (void)state;
    static char source[PATH_MAX + 8];
    char path[PATH_MAX];
    make_long_files(CLUSTER_MESSAGE_BYTES_MAX / (PATH_MAX - 512) / 2 + 50, path); /* on both sides */
    snprintf(source, sizeof source, "local:%s", path);
    struct cluster_submit request = join_of(source);
    request.source[0] = (struct cluster_source){.text = source, .schema = "key:int64", .format = CLUSTER_FORMAT_FIXED};
    request.source[1] = request.source[0];
    uint64_t job;
    const uint32_t lost = count_in_log("coordinator", "is lost");
    expect(submit(&request, &job), BASE_TOO_LARGE, "what this node found for the sources lists");
    run_good_join();
    /* Under sanitizers decoding 100 MiB takes longer than nodes wait for the beats of a coordinator. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    request.kind = CLUSTER_KIND_SHUFFLE; /* each node's files fit into its answer, all of them not into the plan */
    request.source_count = 1;
    request.on = "key";
    expect(submit(&request, &job), BASE_TOO_LARGE, "the plan of this job lists");
    run_good_join();
#endif
    assert_int_equal(count_in_log("coordinator", "is lost"), lost);
}

/* As many columns as there may be, with names as long as they may be, which all need quotes: what is told of the result
 * fits in an order to publish, and in a decision on disk. */
static void test_wide_output(void **state)
{
    (void)state;
    char path[96], source[112], out[96], success[128];
    snprintf(path, sizeof path, "%s/wide.csv", folder);
    snprintf(source, sizeof source, "shared:%s", path);
    snprintf(out, sizeof out, "%s/out-wide", folder);
    snprintf(success, sizeof success, "%s/_SUCCESS.json", out);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < SHUFFLE_COLUMNS_MAX; i++) {
        fprintf(file, "%s\"%04d", i ? "," : "", i);
        for (int j = 4; j < SHUFFLE_NAME_BYTES_MAX; j++)
            fputs("\"\"", file);
        fputc('"', file);
    }
    for (int i = 0; i < SHUFFLE_COLUMNS_MAX; i++)
        fprintf(file, "%c%d", i ? ',' : '\n', i);
    fputc('\n', file);
    fclose(file);
    char on[300] = "\"0000";
    for (int j = 4; j < SHUFFLE_NAME_BYTES_MAX; j++)
        strcat(on, "\"\"");
    strcat(on, "\"");
    struct cluster_submit request = shuffle_to(source, out);
    request.on = on;
    struct cluster_message message;
    run(&request, &message);
    if (message.report.error.status != BASE_OK)
        fail_msg("%s", message.report.error.text);
    cluster_message_free(&message);
    assert_true(exists(success));
}

static uint32_t count_descriptors(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return count_files(path, "") - 2; /* without "." and ".." */
}

static uint64_t cpu_ticks(pid_t pid)
{
    char path[64];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel), 2);
    fclose(file);
    return user + kernel;
}

/* A coordinator that has no descriptors left neither spins nor fills the disk with complaints, and serves who is there;
 * later it serves the others too. */
static void test_no_descriptors_left(void **state)
{
    (void)state;
    enum { EXTRA = 8, IDLE = 2 * EXTRA };
    struct cluster_link *there = client_open();
    struct rlimit before;
    assert_int_equal(prlimit(coordinator_pid, RLIMIT_NOFILE, NULL, &before), 0);
    const struct rlimit few = {.rlim_cur = count_descriptors(coordinator_pid) + EXTRA, .rlim_max = before.rlim_max};
    assert_int_equal(prlimit(coordinator_pid, RLIMIT_NOFILE, &few, NULL), 0);
    struct cluster_link *idle[IDLE];
    struct base_error error;
    struct cluster_message message;
    for (int i = 0; i < IDLE; i++) {
        assert_int_equal(cluster_link_connect(&coordinator_address, NULL, limit_ns(), &idle[i], &error), BASE_OK);
        cluster_hello_fill(CLUSTER_ROLE_CLIENT, &message);
        assert_int_equal(cluster_link_send(idle[i], &message, base_clock_now_ns(), &error), BASE_OK);
        cluster_link_ready(idle[i], base_clock_now_ns(), &error);
    }
    await_log("coordinator", "cannot accept", 0);
    const uint64_t begin = cpu_ticks(coordinator_pid);
    usleep(1000 * 1000); /* whether it spins shows only over time */
    const uint64_t spent = cpu_ticks(coordinator_pid) - begin;
    assert_in_range(count_in_log("coordinator", "cannot accept"), 1, 2); /* once in ten seconds */
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_LIST_NODES;
    client_ask(there, &message, CLUSTER_MESSAGE_NODES);
    cluster_message_free(&message);
    for (int i = 0; i < IDLE; i++)
        cluster_link_close(idle[i]);
    cluster_link_close(there);
    assert_true(nodes_complete());
    assert_int_equal(prlimit(coordinator_pid, RLIMIT_NOFILE, &before, NULL), 0);
    if (spent > (uint64_t)sysconf(_SC_CLK_TCK) / 4)
        fail_msg("%" PRIu64 " ticks of CPU in a second", spent);
}

/* What a process may write is limited while it writes a result, or a decision: an error, and nobody's end. */
static void test_file_size_limit(void **state)
{
    (void)state;
    char out[96];
    snprintf(out, sizeof out, "%s/out-limit", folder);
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    const struct rlimit little = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY}, nothing = {.rlim_max = RLIM_INFINITY};
    struct cluster_submit request = shuffle_to("gen:rows=100000,row=64", out);
    struct base_error error;
    assert_int_equal(net_engine_choice_parse("epoll", &request.settings.engine, &error), BASE_OK);
    uint64_t job;
    assert_int_equal(prlimit(node_pid[0], RLIMIT_FSIZE, &little, NULL), 0);
    expect(submit(&request, &job), BASE_TOO_LARGE, "File too large");
    assert_int_equal(prlimit(node_pid[0], RLIMIT_FSIZE, &none, NULL), 0);
    assert_false(exists(out));
    assert_int_equal(prlimit(coordinator_pid, RLIMIT_FSIZE, &nothing, NULL), 0);
    expect(submit(&request, &job), BASE_TOO_LARGE, "File too large");
    assert_int_equal(prlimit(coordinator_pid, RLIMIT_FSIZE, &none, NULL), 0);
    assert_true(nodes_complete());
    run_good_join();
}

/* A node whose standard error nobody reads, then has no reader at all, works on. */
static void test_nobody_reads_the_log(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
    char full[4096] = {0};
    assert_int_equal(write(ends[1], full, sizeof full), sizeof full);
    end_process(&node_pid[1], SIGTERM);
    node_stderr = ends[1];
    start_node(1);
    node_stderr = -1;
    close(ends[1]);
    await_complete();
    run_good_join();
    close(ends[0]);
    struct cluster_submit request = join_of("gen:rows=10,row=16");
    request.source[1].text = "shared:/nonexistent";
    uint64_t job;
    expect(submit(&request, &job), BASE_NOT_FOUND, "nonexistent");
    assert_true(nodes_complete());
    run_good_join();
}

/* A crowd of clients that ask nothing leaves room for others, who are told why they have to wait. */
static void test_crowd_of_clients(void **state)
{
    (void)state;
    enum { CROWD = 1024 };
    static struct cluster_link *crowd[CROWD];
    struct base_error error;
    struct cluster_message message;
    const struct rlimit many = {.rlim_cur = 8192, .rlim_max = 8192};
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < many.rlim_cur)
        skip();
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = client_open();
    const struct cluster_message beat = {.kind = CLUSTER_MESSAGE_BEAT}; /* none has been quiet */
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(cluster_link_send(crowd[i], &beat, base_clock_now_ns(), &error), BASE_OK);
    struct cluster_link *late;
    assert_int_equal(cluster_link_connect(&coordinator_address, NULL, limit_ns(), &late, &error), BASE_OK);
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &message);
    assert_int_equal(cluster_link_send(late, &message, base_clock_now_ns(), &error), BASE_OK);
    client_await(late, CLUSTER_MESSAGE_REFUSED, &message);
    assert_non_null(strstr(message.refused.error.text, "1024 clients already"));
    cluster_message_free(&message);
    cluster_link_close(late);
    /* A node still finds room. */
    assert_int_equal(end_process(&node_pid[2], SIGTERM), 0);
    start_node(2);
    uint32_t here = 0;
    while (here < NODES) {
        message = (struct cluster_message){.kind = CLUSTER_MESSAGE_LIST_NODES};
        client_ask(crowd[0], &message, CLUSTER_MESSAGE_NODES);
        here = 0;
        for (uint32_t i = 0; i < message.nodes.count; i++)
            here += message.nodes.entry[i].state == CLUSTER_NODE_IDLE;
        cluster_message_free(&message);
    }
    for (int i = 1; i < CROWD; i++)
        cluster_link_close(crowd[i]);
    cluster_link_close(crowd[0]);
    run_good_join();
}

static void test_second_coordinator_is_refused(void **state)
{
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "--state=%s/state", folder);
    char *const arguments[] = {MILLRACED, "coordinator", "--listen=127.0.0.1:0", path, "--open-to-all", NULL};
    pid_t pid = spawn("second", arguments);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

static void expect_refused(const char *log, char *const *arguments, const char *words)
{
    pid_t pid = spawn(log, arguments);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(count_in_log(log, words), 1);
}

/* Without a key, every user of this machine could connect to a loopback address, and others to another. */
/* A client and a node of another build: refused at the hello, with both builds and numbers and what to do. */
static void test_another_protocol_is_refused(void **state)
{
    (void)state;
    static const enum cluster_role roles[] = {CLUSTER_ROLE_CLIENT, CLUSTER_ROLE_NODE};
    struct net_address address = {.v4 = {.sin_family = AF_INET}, .bytes = sizeof address.v4};
    for (int i = 0; i < 2; i++) {
        struct cluster_link *link;
        struct base_error error;
        struct cluster_message message;
        cluster_link_close(client_open()); /* the coordinator is there */
        assert_int_equal(cluster_link_connect(&coordinator_address, NULL, limit_ns(), &link, &error), BASE_OK);
        cluster_hello_fill(roles[i], &message);
        message.hello.build = "9.9.9+abc";
        message.hello.protocol ^= 1;
        message.hello.name = "n9";
        message.hello.worker = &address;
        message.hello.worker_count = roles[i] == CLUSTER_ROLE_NODE;
        char wanted[256];
        snprintf(wanted, sizeof wanted, "millrace 9.9.9+abc (protocol %08x) cannot work with millrace %s",
                 (unsigned)message.hello.protocol, base_build_id());
        assert_int_equal(cluster_link_send(link, &message, base_clock_now_ns(), &error), BASE_OK);
        client_await(link, CLUSTER_MESSAGE_REFUSED, &message);
        assert_int_equal(message.refused.error.status, BASE_VERSION);
        assert_non_null(strstr(message.refused.error.text, wanted));
        snprintf(wanted, sizeof wanted, "(protocol %08x): install one build", (unsigned)base_build_protocol());
        assert_non_null(strstr(message.refused.error.text, wanted));
        cluster_message_free(&message);
        cluster_link_close(link);
    }
    run_good_join();
}

static void test_no_key_is_refused(void **state)
{
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "--state=%s/state-2", folder);
    char *const here[] = {MILLRACED, "coordinator", "--listen=127.0.0.1:0", path, NULL};
    expect_refused("here", here, "every user of this machine");
    char *const node[] = {MILLRACED, "node", "--name=n9", "--coordinator=127.0.0.1:1", "--listen=127.0.0.1", NULL};
    expect_refused("node", node, "every user of this machine");
    char *const elsewhere[] = {MILLRACED, "coordinator", "--listen=0.0.0.0:0", path, "--open-to-all", NULL};
    expect_refused("elsewhere", elsewhere, "also with --open-to-all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_node_dies),
        cmocka_unit_test(test_node_stands_still),
        cmocka_unit_test(test_coordinator_stands_still),
        cmocka_unit_test(test_client_leaves),
        cmocka_unit_test(test_node_is_stopped),
        cmocka_unit_test(test_coordinator_dies),
        cmocka_unit_test(test_decision_is_completed),
        cmocka_unit_test(test_flood_of_questions),
        cmocka_unit_test(test_large_request),
        cmocka_unit_test(test_lists_too_large),
        cmocka_unit_test(test_wide_output),
        cmocka_unit_test(test_no_descriptors_left),
        cmocka_unit_test(test_crowd_of_clients),
        cmocka_unit_test(test_file_size_limit),
        cmocka_unit_test(test_nobody_reads_the_log),
        cmocka_unit_test(test_second_coordinator_is_refused),
        cmocka_unit_test(test_another_protocol_is_refused),
        cmocka_unit_test(test_no_key_is_refused),
    };
    const int failed = cmocka_run_group_tests(tests, open_cluster, close_cluster);
    /* After a failure in between, nothing may stay. */
    for (int i = 0; i < NODES; i++)
        end_process(&node_pid[i], SIGKILL);
    end_process(&coordinator_pid, SIGKILL);
    return failed;
}
