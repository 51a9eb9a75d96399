/* What is shown of jobs and nodes: JSON that a strict parser reads back, text that people read. */
#include "cluster/report/report.h"
#include "net/engine/rung.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/build.h"
#include "cluster/client/client.h"
#include "cluster/client/progress.h"

enum { NODES = 3, MANY = 12 };

static struct cluster_node_report node[MANY];
static uint64_t link_bytes[MANY * MANY];
static char names[MANY][16];

static struct cluster_report make_report(uint32_t nodes)
{
    for (uint32_t i = 0; i < nodes; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i + 1);
        node[i] = (struct cluster_node_report){.name = names[i],
                                               .workers = 2,
                                               .sum = {.bytes_sent = 1000 + i,
                                                       .exchange_ns = BASE_NS_PER_S / (i == 1 ? 2 : 4),
                                                       .task = {.rows = UINT64_C(10) * i, .stalls_output = 7}},
                                               .engine_decision = "multishot receive",
                                               .facts = {.known = i != 2,
                                                         .congestion = "cubic",
                                                         .interface = "eth0",
                                                         .send_buffer_bytes = (1 + i) << 20,
                                                         .recv_buffer_bytes = 131072,
                                                         .nodelay = true,
                                                         .mss_bytes = 1448,
                                                         .mtu_bytes = 1500,
                                                         .offload = {NET_OFFLOAD_ON, NET_OFFLOAD_OFF}}};
        for (uint32_t k = 0; k < nodes; k++)
            link_bytes[i * nodes + k] = i == k ? 0 : 1024 * (i * nodes + k + 1);
    }
    return (struct cluster_report){.kind = CLUSTER_KIND_JOIN,
                                   .type = JOIN_TYPE_FULL,
                                   .build_side = 1,
                                   .sum = {.bytes_sent = 1 << 30,
                                           .bytes_received = 1 << 30,
                                           .exchange_ns = BASE_NS_PER_S / 2,
                                           .switches_voluntary = 30,
                                           .switches_involuntary = 12,
                                           .iowq_workers = 1,
                                           .task = {.rows = 1234567,
                                                    .checksum = UINT64_C(0xfedcba9876543210),
                                                    .rows_scanned = 5000000,
                                                    .rows_scanned_left = 4000000,
                                                    .rows_scanned_right = 1000000,
                                                    .table_rows = 1000000,
                                                    .table_bytes = 16000000},
                                           .counters = {.enters = 42, .syscalls = 50, .completions = 20000}},
                                   .seconds = 0.75,
                                   .spans = {.probe_seconds = 0.25},
                                   .engine = "uring",
                                   .features = "multishot-recv registered-files",
                                   .engine_reason = "",
                                   .limit = CLUSTER_LIMIT_KERNEL_CPU,
                                   .limit_words = "workers of n2 spent 80% of their time in the kernel",
                                   .workers = 2 * nodes,
                                   .node_count = nodes,
                                   .node = node,
                                   .link = link_bytes};
}

/* Reads text back as strictly as jansson can. */
static json_t *read_back(char *text)
{
    json_error_t where;
    assert_non_null(text);
    assert_null(strchr(text, '\n'));
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (!object)
        fail_msg("not JSON: %s in %s", where.text, text);
    free(text);
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        fail_msg("%s is no text", key);
    return text;
}

static long long number_of(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    if (!json_is_integer(number))
        fail_msg("%s is no integer", key);
    return json_integer_value(number);
}

static void json_of_a_success(void **state)
{
    (void)state;
    const struct cluster_report report = make_report(NODES);
    json_t *object = read_back(report_json(&report, 7, "/out", 0));
    assert_string_equal(text_of(object, "status"), "succeeded");
    assert_true(json_is_null(json_object_get(object, "error")));
    assert_int_equal(number_of(object, "job"), 7);
    assert_int_equal(number_of(object, "rows"), 1234567);
    assert_string_equal(text_of(object, "checksum"), "fedcba9876543210");
    assert_string_equal(text_of(object, "out"), "/out");
    assert_string_equal(text_of(object, "build_side"), "right");
    assert_string_equal(text_of(object, "join_type"), "full");
    assert_string_equal(text_of(object, "limit"), "kernel CPU");
    assert_string_equal(text_of(object, "engine"), "uring");
    assert_float_equal(json_real_value(json_object_get(object, "exchange_seconds")), 0.5, 0);
    assert_float_equal(json_real_value(json_object_get(json_object_get(object, "spans"), "probe")), 0.25, 0);
    assert_int_equal(number_of(json_object_get(object, "counters"), "enters"), 42);
    const json_t *features = json_object_get(object, "features");
    assert_int_equal(json_array_size(features), 2);
    assert_string_equal(json_string_value(json_array_get(features, 1)), "registered-files");
    const json_t *nodes = json_object_get(object, "nodes");
    assert_int_equal(json_array_size(nodes), NODES);
    assert_string_equal(text_of(json_array_get(nodes, 2), "name"), "n3");
    assert_int_equal(number_of(json_array_get(nodes, 2), "bytes_sent"), 1002);
    assert_int_equal(number_of(json_object_get(json_array_get(nodes, 2), "stalls"), "output"), 7);
    const json_t *links = json_object_get(object, "links");
    assert_int_equal(json_array_size(links), NODES);
    for (size_t from = 0; from < NODES; from++)
        for (size_t to = 0; to < NODES; to++)
            assert_int_equal(json_integer_value(json_array_get(json_array_get(links, from), to)),
                             link_bytes[from * NODES + to]);
    json_decref(object);
}

/* Every measure that is shown is there, with its own value, under its own key, once. */
static void json_has_every_measure(void **state)
{
    (void)state;
    struct cluster_report report = make_report(NODES);
    for (uint32_t i = 0; i < CLUSTER_MEASURES; i++) {
        cluster_measure_set(&report.sum, i, (1000 + i) * BASE_NS_PER_S);
        cluster_measure_set(&node[1].sum, i, (2000 + i) * BASE_NS_PER_S);
    }
    json_t *object = read_back(report_json(&report, 7, NULL, 0));
    const json_t *of_node = json_array_get(json_object_get(object, "nodes"), 1);
    for (uint32_t i = 0; i < CLUSTER_MEASURES; i++) {
        const struct base_measure *measure = cluster_measure(i);
        const char *dot = measure->key ? strchr(measure->key, '.') : NULL;
        char group[64];
        for (int of = BASE_SHOWN_JOB; of <= BASE_SHOWN_NODE; of++) {
            const json_t *in = of == BASE_SHOWN_JOB ? object : of_node;
            if (!((int)measure->shown & of))
                continue;
            if (dot) {
                snprintf(group, sizeof group, "%.*s", (int)(dot - measure->key), measure->key);
                in = json_object_get(in, group);
            }
            const json_t *value = json_object_get(in, dot ? dot + 1 : measure->key);
            const double seconds = (of == BASE_SHOWN_JOB ? 1000 : 2000) + i;
            if (!value || json_number_value(value) != (json_is_real(value) ? seconds : seconds * 1e9))
                fail_msg("%s is not at %s", measure->name, measure->key);
            assert_int_equal(json_is_real(value), measure->unit == BASE_UNIT_NS && !dot);
        }
    }
    json_decref(object);
}

static void json_of_sockets_and_costs(void **state)
{
    (void)state;
    struct cluster_report report = make_report(NODES);
    json_t *object = read_back(report_json(&report, 7, NULL, 0));
    const json_t *nodes = json_object_get(object, "nodes");
    const json_t *socket = json_object_get(json_array_get(nodes, 1), "socket");
    assert_string_equal(text_of(socket, "congestion"), "cubic");
    assert_string_equal(text_of(socket, "interface"), "eth0");
    assert_int_equal(number_of(socket, "send_buffer_bytes"), 2 << 20);
    assert_int_equal(number_of(socket, "mss_bytes"), 1448);
    assert_true(json_is_null(json_object_get(socket, "notsent_lowat_bytes")));
    assert_true(json_is_true(json_object_get(socket, "nodelay")));
    assert_string_equal(text_of(json_object_get(socket, "offloads"), "tso"), "on");
    assert_string_equal(text_of(json_object_get(socket, "offloads"), "gso"), "off");
    assert_string_equal(text_of(json_object_get(socket, "offloads"), "gro"), "unknown");
    assert_true(json_is_null(json_object_get(json_array_get(nodes, 2), "socket")));
    assert_string_equal(text_of(json_array_get(nodes, 1), "engine_decision"), "multishot receive");
    assert_int_equal(number_of(json_object_get(object, "context_switches"), "involuntary"), 12);
    assert_int_equal(number_of(object, "iowq_workers"), 1);
    const json_t *per_gib = json_object_get(object, "per_gib"); /* 1 GiB crossed */
    assert_float_equal(json_real_value(json_object_get(per_gib, "enters")), 42, 0);
    assert_float_equal(json_real_value(json_object_get(per_gib, "context_switches")), 42, 0);
    json_decref(object);
    report.sum.bytes_sent = 0;
    object = read_back(report_json(&report, 7, NULL, 0));
    assert_true(json_is_null(json_object_get(object, "per_gib")));
    json_decref(object);
}

/* What others named reaches nobody's terminal as it is. */
static void names_drive_no_terminal(void **state)
{
    (void)state;
    static char text[8192];
    struct cluster_job_entry job = {.job = 5,
                                    .state = CLUSTER_JOB_FAILED,
                                    .words = "shuffle /tmp/\x1b]0;owned\x07.csv\n    6 running",
                                    .error = "/tmp/\xc2\x9b"
                                             "2J: \xff\nno such file"};
    const struct cluster_jobs jobs = {.count = 1, .entry = &job};
    FILE *to = fmemopen(text, sizeof text, "w");
    report_jobs_print(&jobs, to);
    fclose(to);
    assert_non_null(strstr(text, "  shuffle /tmp/\\x1b]0;owned\\x07.csv\\x0a    6 running\n"));
    assert_non_null(strstr(text, " /tmp/\\xc2\\x9b2J: \\xff\\x0ano such file\n"));
    struct cluster_node_entry entry = {
        .name = "n\n1", .address = "\x1b[1m", .engine = "e\x01", .engine_reason = "\xff", .build = "0.0.9\x1b"};
    const struct cluster_nodes nodes = {.count = 1, .entry = &entry};
    to = fmemopen(text, sizeof text, "w");
    report_nodes_print(&nodes, to);
    fclose(to);
    assert_non_null(strstr(text, "n\\x0a1 "));
    assert_non_null(strstr(text, "\\x1b[1m "));
    assert_non_null(strstr(text, "e\\x01, \\xff\n"));
    assert_non_null(strstr(text, "n\\x0a1 is of another build: 0.0.9\\x1b; this is "));
    char same[64];
    snprintf(same, sizeof same, "%s", base_build_id());
    entry.build = same;
    to = fmemopen(text, sizeof text, "w");
    report_nodes_print(&nodes, to);
    fclose(to);
    assert_null(strstr(text, "another build"));
    job.error = "caf\xc3\xa9 \xc2\x9b";
    char *json = report_jobs_json(&jobs);
    for (const char *c = json; *c; c++)
        assert_in_range((unsigned char)*c, ' ', '~');
    json_t *object = read_back(json);
    assert_string_equal(text_of(json_array_get(json_object_get(object, "jobs"), 0), "error"), "caf\xc3\xa9 \xc2\x9b");
    json_decref(object);
}

/* A report that never was has the same keys as one that did. */
static void json_of_a_failure(void **state)
{
    (void)state;
    struct cluster_report report = {0};
    base_error_set(&report.error, BASE_NODE_LOST, "node n2 was lost: \"%s\"\n", "caf\xc3\xa9 \xff\x01");
    json_t *failed = read_back(report_json(&report, 0, NULL, 1));
    assert_string_equal(text_of(failed, "status"), "failed");
    assert_string_equal(text_of(failed, "error_code"), "NODE_LOST");
    assert_string_equal(text_of(failed, "error"), "node n2 was lost: \"caf\xc3\xa9 \\xff\\x01\"\\x0a");
    assert_int_equal(number_of(failed, "exit_code"), 1);
    assert_true(json_is_null(json_object_get(failed, "job")));
    const struct cluster_report good = make_report(NODES);
    json_t *succeeded = read_back(report_json(&good, 7, "/out", 0));
    assert_int_equal(json_object_size(failed), json_object_size(succeeded));
    const char *key;
    json_t *value;
    json_object_foreach(succeeded, key, value) if (!json_object_get(failed, key)) fail_msg("a failure has no %s", key);
    json_decref(failed);
    json_decref(succeeded);

    report.error.status = BASE_CANCELLED;
    json_t *cancelled = read_back(report_json(&report, 3, NULL, 4));
    assert_string_equal(text_of(cancelled, "status"), "cancelled");
    json_decref(cancelled);
}

static void json_stays_strict_with_odd_numbers(void **state)
{
    (void)state;
    struct cluster_report report = make_report(NODES);
    report.seconds = NAN;
    report.sum.task.rows = UINT64_MAX;
    json_t *object = read_back(report_json(&report, 7, NULL, 0));
    assert_true(json_is_null(json_object_get(object, "seconds")));
    report.seconds = INFINITY;
    json_decref(object);
    object = read_back(report_json(&report, 7, NULL, 0));
    assert_true(json_is_null(json_object_get(object, "seconds")));
    assert_true(number_of(object, "rows") == INT64_MAX);
    json_decref(object);
}

static void json_of_lists(void **state)
{
    (void)state;
    struct cluster_node_entry entries[] = {{.name = "n1",
                                            .state = CLUSTER_NODE_RUNNING,
                                            .address = "10.0.0.1:1",
                                            .engine = "epoll",
                                            .features = "",
                                            .engine_reason = "forbidden",
                                            .placement = "worker 0: queue 4 of eth0",
                                            .build = "0.1.0+1d2fb59ac0"},
                                           {.name = "n2",
                                            .state = CLUSTER_NODE_MISSING,
                                            .address = "",
                                            .engine = "",
                                            .features = "",
                                            .engine_reason = "",
                                            .placement = "",
                                            .build = ""}};
    struct cluster_nodes nodes = {.nodes_expected = 2, .count = 2, .entry = entries};
    json_t *object = read_back(report_nodes_json(&nodes));
    assert_true(json_is_false(json_object_get(object, "complete")));
    const json_t *array = json_object_get(object, "nodes");
    assert_string_equal(text_of(json_array_get(array, 0), "state"), "ready");
    assert_true(json_is_true(json_object_get(json_array_get(array, 0), "running")));
    assert_string_equal(text_of(json_array_get(array, 1), "state"), "missing");
    assert_string_equal(text_of(json_array_get(array, 0), "placement"), "worker 0: queue 4 of eth0");
    assert_string_equal(text_of(json_array_get(array, 0), "build"), "0.1.0+1d2fb59ac0");
    json_decref(object);

    struct cluster_job_entry job = {
        .job = 5, .state = CLUSTER_JOB_FAILED, .phase = CLUSTER_PHASE_DONE, .words = "join", .error = "lost"};
    const struct cluster_jobs jobs = {.count = 1, .entry = &job};
    object = read_back(report_jobs_json(&jobs));
    array = json_object_get(object, "jobs");
    assert_int_equal(number_of(json_array_get(array, 0), "job"), 5);
    assert_string_equal(text_of(json_array_get(array, 0), "state"), "failed");
    assert_string_equal(text_of(json_array_get(array, 0), "error"), "lost");
    json_decref(object);
}

/* Every rung is told under its own word, in the ladder's order, and without what its predecessor has not. */
static void json_of_the_ladder(void **state)
{
    (void)state;
    char *text = report_engines_json();
    assert_non_null(text);
    json_t *array = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(json_array_size(array), NET_ENGINE_KIND_COUNT - 1);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *rung = json_array_get(array, i);
        struct net_engine_choice choice;
        struct base_error error;
        assert_int_equal(net_engine_choice_parse(json_string_value(json_object_get(rung, "rung")), &choice, &error),
                         BASE_OK);
        assert_int_equal(choice.kind, i + 1);
        const bool epoll = strncmp(net_rung_word(choice.kind), "epoll", 5) == 0;
        assert_string_equal(json_string_value(json_object_get(rung, "engine")), epoll ? "epoll" : "io_uring");
        assert_true(json_is_array(json_object_get(rung, "features")));
    }
    json_decref(array);
    free(text);
}

static void completeness(void **state)
{
    (void)state;
    struct cluster_node_entry entries[] = {{.state = CLUSTER_NODE_IDLE}, {.state = CLUSTER_NODE_MISSING}};
    struct cluster_nodes nodes = {.entry = entries};
    assert_false(report_nodes_complete(&nodes)); /* none */
    nodes.count = 1;
    assert_true(report_nodes_complete(&nodes));
    nodes.nodes_expected = 2;
    assert_false(report_nodes_complete(&nodes));
    nodes.count = 2;
    nodes.nodes_expected = 0;
    assert_false(report_nodes_complete(&nodes)); /* one is gone */
    nodes.nodes_expected = 1;
    assert_true(report_nodes_complete(&nodes)); /* and was not needed */
}

static char *print(const struct cluster_report *report)
{
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    report_print(report, 7, "/out", to);
    fclose(to);
    return text;
}

static void people_read_the_essentials(void **state)
{
    (void)state;
    const struct cluster_report report = make_report(NODES);
    static const char *const words[] = {
        "1,234,567",
        "fedcba9876543210",
        "/out",
        "750 ms",
        "2.00 GiB/s",
        "limit     kernel CPU: workers of n2",
        "node n2 (500 ms)",
        "n3 to n2 (8.00 KiB",
        "uring (multishot-recv",
        "right side",
        "50 system calls, 20.0 k completions, 42 context",
        "; 1 io-wq worker\n",
        "decision  multishot receive\n",
        "sockets   n1, n2: cubic, nodelay on, MSS 1448 of MTU 1500; on eth0 with tso on",
        "buffers 1.00 MiB to 2.00 MiB to send, 128 KiB to receive\n"};
    char *text = print(&report);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(text, words[i]))
            fail_msg("no \"%s\" in:\n%s", words[i], text);
    free(text);
}

/* A node that decided nothing is named by nobody's decision, and is no pointer to read. */
static void decisions_name_who_made_them(void **state)
{
    (void)state;
    const struct cluster_report report = make_report(NODES);
    node[1].engine_decision = NULL;
    char *text = print(&report);
    assert_non_null(strstr(text, "decision  n1, n3: multishot receive\n"));
    free(text);
}

/* What a few KiB took says nothing of a GiB. */
static void little_has_no_cost_per_gib(void **state)
{
    (void)state;
    struct cluster_report report = make_report(NODES);
    report.sum.bytes_sent = 8 << 10;
    char *text = print(&report);
    assert_null(strstr(text, "per GiB"));
    free(text);
}

static void rows_in_tables_have_no_checksum(void **state)
{
    (void)state;
    struct cluster_report report = make_report(NODES);
    report.kind = CLUSTER_KIND_SHUFFLE;
    char *text = print(&report);
    assert_non_null(strstr(text, "checksum  none"));
    free(text);
    report.sum.task.table_rows = 0;
    text = print(&report);
    assert_non_null(strstr(text, "checksum  fedcba9876543210"));
    free(text);
}

static void many_nodes_get_a_spread(void **state)
{
    (void)state;
    const struct cluster_report report = make_report(MANY);
    char *text = print(&report);
    assert_non_null(strstr(text, "132 links carried 2.00 KiB at least"));
    assert_null(strstr(text, "from row to column"));
    free(text);
}

static void one_node_has_no_links(void **state)
{
    (void)state;
    const struct cluster_report report = make_report(1);
    char *text = print(&report);
    assert_null(strstr(text, "slowest"));
    free(text);
}

static void numbers_for_people(void **state)
{
    (void)state;
    char text[REPORT_NUMBER_BYTES];
#define IS(call, expected)                                                                                             \
    call;                                                                                                              \
    assert_string_equal(text, expected)
    IS(report_format_count(0, text), "0");
    IS(report_format_count(9999, text), "9999");
    IS(report_format_count(12345, text), "12.3 k");
    IS(report_format_count(1.5e19, text), "15.0 E");
    IS(report_format_bytes(1023, text), "1023 B");
    IS(report_format_bytes(1536, text), "1.50 KiB");
    IS(report_format_bytes(3.0 * (1 << 30), text), "3.00 GiB");
    IS(report_format_seconds(0.000012, text), "12 us");
    IS(report_format_seconds(0.00123, text), "1.23 ms");
    IS(report_format_seconds(75, text), "75.0 s");
    IS(report_format_exact(0, text), "0");
    IS(report_format_exact(1000, text), "1,000");
    IS(report_format_exact(UINT64_MAX, text), "18,446,744,073,709,551,615");
#undef IS
}

static void exit_codes(void **state)
{
    (void)state;
    static const struct {
        enum base_status status;
        bool bad_request;
        int code;
    } rows[] = {{BASE_OK, false, 0},           {BASE_PARSE, false, 1},       {BASE_NOT_FOUND, false, 1},
                {BASE_NODE_LOST, false, 1},    {BASE_NOT_FOUND, true, 2},    {BASE_TYPE, true, 2},
                {BASE_NODE_MISSING, false, 3}, {BASE_UNREACHABLE, false, 3}, {BASE_CANCELLED, false, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct cluster_report report = {.error.status = rows[i].status, .bad_request = rows[i].bad_request};
        assert_int_equal(cluster_client_exit(&report), rows[i].code);
    }
}

static void progress_fits_the_terminal(void **state)
{
    (void)state;
    const struct cluster_progress progress = {
        .phase = CLUSTER_PHASE_PROBE, .rows_scanned = 6000000, .rows_expected = 12000000, .seconds = 2};
    char text[121];
    cluster_progress_format(&progress, 120, text);
    assert_non_null(strstr(text, "probing"));
    assert_non_null(strstr(text, "[###############...............]  50%"));
    assert_non_null(strstr(text, "3.00 M rows/s"));
    for (uint32_t columns = 0; columns < 120; columns++) {
        cluster_progress_format(&progress, columns, text);
        assert_true(strlen(text) <= columns);
    }
    /* More rows than were guessed are no more than all; without a guess there is no bar. */
    const struct cluster_progress beyond = {.phase = CLUSTER_PHASE_BUILD, .rows_scanned = 30, .rows_expected = 10};
    cluster_progress_format(&beyond, 120, text);
    assert_non_null(strstr(text, "100%"));
    const struct cluster_progress unknown = {.phase = CLUSTER_PHASE_QUEUED};
    cluster_progress_format(&unknown, 120, text);
    assert_null(strchr(text, '['));
}

/* A line longer than the terminal would go on in the next one, where nothing takes it away. */
static void progress_is_cut_to_a_narrow_terminal(void **state)
{
    (void)state;
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    const struct winsize size = {.ws_row = 24, .ws_col = 20};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    cluster_progress_show(terminal, "measuring 12 of 68  pairs in rounds 4.91 Gbit/s");
    char seen[128] = "";
    const ssize_t bytes = read(master, seen, sizeof seen - 1);
    assert_true(bytes > 0);
    assert_string_equal(seen, "\rmeasuring 12 of 68 \033[K");
    close(terminal);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_of_a_success),
        cmocka_unit_test(json_has_every_measure),
        cmocka_unit_test(json_of_sockets_and_costs),
        cmocka_unit_test(json_of_a_failure),
        cmocka_unit_test(names_drive_no_terminal),
        cmocka_unit_test(json_stays_strict_with_odd_numbers),
        cmocka_unit_test(json_of_lists),
        cmocka_unit_test(json_of_the_ladder),
        cmocka_unit_test(completeness),
        cmocka_unit_test(people_read_the_essentials),
        cmocka_unit_test(decisions_name_who_made_them),
        cmocka_unit_test(little_has_no_cost_per_gib),
        cmocka_unit_test(rows_in_tables_have_no_checksum),
        cmocka_unit_test(many_nodes_get_a_spread),
        cmocka_unit_test(one_node_has_no_links),
        cmocka_unit_test(numbers_for_people),
        cmocka_unit_test(exit_codes),
        cmocka_unit_test(progress_fits_the_terminal),
        cmocka_unit_test(progress_is_cut_to_a_narrow_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
