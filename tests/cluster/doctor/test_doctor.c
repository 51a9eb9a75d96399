/* What the doctor concludes from facts that are made up, and that both ways of showing them are complete. The facts of
 * a machine where all is well are the base of every case, which spoils one thing. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "cluster/doctor/internal.h"

static struct doctor_facts facts;
static struct doctor_findings findings;

static void set_sysctl(enum doctor_sysctl sysctl, const char *text)
{
    snprintf(facts.sysctl[sysctl], sizeof facts.sysctl[sysctl], "%s", text);
}

static void set_feature(enum net_probe_id id, enum net_probe_state state, int os_error, const char *why)
{
    struct net_probe_result *result = &facts.probe.result[id];
    *result = (struct net_probe_result){.state = state, .os_error = os_error};
    snprintf(result->why, sizeof result->why, "%s", why);
}

/* A 400 Gbit/s card on which everything is set. */
static struct doctor_card fast_card(void)
{
    return (struct doctor_card){.name = "eth1",
                                .index = 7,
                                .up = true,
                                .physical = true,
                                .driver = "mlx5_core",
                                .qdisc = "mq",
                                .mtu = 9000,
                                .speed_mbit = 400000,
                                .numa_node = -1,
                                .queues = 32,
                                .queues_max = 63,
                                .spread_queues = 16,
                                .tso = DOCTOR_SWITCH_ON,
                                .gso = DOCTOR_SWITCH_ON,
                                .scatter = DOCTOR_SWITCH_ON,
                                .gro = DOCTOR_SWITCH_ON,
                                .gro_hw = DOCTOR_SWITCH_ON,
                                .ntuple = DOCTOR_SWITCH_ON,
                                .data_split = DOCTOR_SWITCH_ON,
                                .split_threshold_known = true};
}

static int all_is_well(void **state)
{
    (void)state;
    facts = (struct doctor_facts){
        .release = "6.18.1",
        .machine = "x86_64",
        .host = "a1",
        .memlock_soft_bytes = DOCTOR_UNLIMITED,
        .memlock_hard_bytes = DOCTOR_UNLIMITED,
        .files_soft = 65536,
        .files_hard = 65536,
        .can_admin_network = true,
        .cpu_model = "made up",
        .cpus_online = 16,
        .cpus_allowed = 16,
        .governor = "performance",
        .clock_source = "tsc",
        .clock_sources = "tsc hpet",
        .memory_bytes = UINT64_C(64) << 30,
        .memory_quota_bytes = DOCTOR_UNLIMITED,
        .huge_transparent = "madvise",
        .huge_page_bytes = 2 << 20,
        .socket = {.congestion_default = "cubic",
                   .congestion = "cubic",
                   .congestion_settable = true,
                   .send_buffer_bytes = 16384,
                   .recv_buffer_bytes = 131072,
                   .nodelay = true},
        .numa = {.available = true, .count = 1, .node = {{.cpus = "0-15", .cpu_count = 16, .distance = {10}}}},
        .card_count = 2,
        .card = {{.name = "lo", .index = 1, .up = true, .loopback = true, .mtu = 65536}, fast_card()}};
    set_sysctl(DOCTOR_SYSCTL_IO_URING_DISABLED, "0");
    set_sysctl(DOCTOR_SYSCTL_TCP_RMEM, "4096 131072 67108864");
    set_sysctl(DOCTOR_SYSCTL_TCP_WMEM, "4096 65536 67108864");
    set_sysctl(DOCTOR_SYSCTL_OPTMEM_MAX, "131072");
    set_sysctl(DOCTOR_SYSCTL_OVERCOMMIT_MEMORY, "0");
    set_sysctl(DOCTOR_SYSCTL_MAX_MAP_COUNT, "65530");
    set_sysctl(DOCTOR_SYSCTL_CONGESTION, "cubic");
    set_sysctl(DOCTOR_SYSCTL_CONGESTION_ALLOWED, "reno cubic");
    set_sysctl(DOCTOR_SYSCTL_CONGESTION_AVAILABLE, "reno cubic");
    return 0;
}

static const struct doctor_finding *find(const char *subject)
{
    doctor_judge(&facts, &findings);
    for (uint32_t i = 0; i < findings.count; i++)
        if (strcmp(findings.finding[i].subject, subject) == 0)
            return &findings.finding[i];
    fail_msg("nothing was found about %s", subject);
    return NULL;
}

static void expect(const char *subject, enum doctor_severity severity, const char *text, const char *command)
{
    const struct doctor_finding *finding = find(subject);
    if (finding->severity != severity || !strstr(finding->text, text) || !strstr(finding->command, command) ||
        (*command == '\0' && *finding->command))
        fail_msg("%s: %s, \"%s\", \"%s\"", subject, doctor_severity_word(finding->severity), finding->text,
                 finding->command);
    assert_int_equal(doctor_is_well(&findings), severity != DOCTOR_SEVERITY_NEEDED);
}

static void nothing_is_found_where_all_is_well(void **state)
{
    (void)state;
    doctor_judge(&facts, &findings);
    if (findings.count > 0)
        fail_msg("%s: %s", findings.finding[0].subject, findings.finding[0].text);
    assert_true(doctor_is_well(&findings));
    assert_string_equal(doctor_engine(&facts), "uring");
}

static void forbid(int os_error)
{
    for (int id = 0; id < NET_PROBE_COUNT; id++)
        set_feature((enum net_probe_id)id, NET_PROBE_STATE_UNTRIED, 0, "no io_uring here");
    set_feature(NET_PROBE_URING, NET_PROBE_STATE_FORBIDDEN, os_error, "the cause");
}

static void io_uring_disabled_by_sysctl(void **state)
{
    (void)state;
    forbid(EPERM);
    set_sysctl(DOCTOR_SYSCTL_IO_URING_DISABLED, "2");
    expect("io_uring", DOCTOR_SEVERITY_NEEDED, "the cause", "sysctl -w kernel.io_uring_disabled=0");
    assert_string_equal(doctor_engine(&facts), "epoll");
    assert_string_equal(findings.finding[0].subject, "io_uring");
    set_sysctl(DOCTOR_SYSCTL_IO_URING_DISABLED, "1");
    expect("io_uring", DOCTOR_SEVERITY_NEEDED, "the cause", "kernel.io_uring_group");
}

static void io_uring_forbidden_by_seccomp(void **state)
{
    (void)state;
    forbid(EPERM);
    facts.seccomp = 2;
    expect("io_uring", DOCTOR_SEVERITY_NEEDED, "the cause", "seccomp");
    facts.seccomp = 0;
    expect("io_uring", DOCTOR_SEVERITY_NEEDED, "the cause", "");
}

static void an_old_kernel_runs_on_epoll(void **state)
{
    (void)state;
    set_feature(NET_PROBE_DEFER_TASKRUN, NET_PROBE_STATE_MISSING, EINVAL, "Linux 6.1 and newer do");
    expect("defer-taskrun", DOCTOR_SEVERITY_ADVISED, "Linux 6.1", "");
    assert_string_equal(doctor_engine(&facts), "uring");
    set_feature(NET_PROBE_SUBMIT_ALL, NET_PROBE_STATE_MISSING, EINVAL, "Linux 5.18 and newer do");
    expect("io_uring", DOCTOR_SEVERITY_NEEDED, "Linux 5.18", "");
    assert_string_equal(doctor_engine(&facts), "epoll");
}

static void features_that_are_missing_or_broken(void **state)
{
    (void)state;
    set_feature(NET_PROBE_BUNDLE, NET_PROBE_STATE_MISSING, EINVAL, "why");
    expect("bundle", DOCTOR_SEVERITY_ADVISED, "Linux 6.10", "");
    set_feature(NET_PROBE_INCREMENTAL, NET_PROBE_STATE_BROKEN, EPROTO, "out of order");
    expect("incremental", DOCTOR_SEVERITY_ADVISED, "out of order", "");
    set_feature(NET_PROBE_MULTISHOT_RECEIVE, NET_PROBE_STATE_UNTRIED, ENETUNREACH, "why");
    expect("loopback", DOCTOR_SEVERITY_NEEDED, "loopback", "ip link set lo up");
}

static void rungs_name_what_they_lack(void **state)
{
    (void)state;
    for (int kind = 0; kind < NET_ENGINE_KIND_COUNT; kind++)
        assert_int_equal(doctor_rung_lacks(&facts, (enum net_engine_kind)kind), NET_PROBE_COUNT);
    set_feature(NET_PROBE_BUNDLE, NET_PROBE_STATE_BROKEN, EPROTO, "why");
    set_feature(NET_PROBE_MSG_ZEROCOPY, NET_PROBE_STATE_MISSING, ENOPROTOOPT, "why");
    assert_int_equal(doctor_rung_lacks(&facts, NET_ENGINE_URING_MULTISHOT), NET_PROBE_COUNT);
    assert_int_equal(doctor_rung_lacks(&facts, NET_ENGINE_URING_BUNDLE), NET_PROBE_BUNDLE);
    assert_int_equal(doctor_rung_lacks(&facts, NET_ENGINE_EPOLL), NET_PROBE_COUNT);
    assert_int_equal(doctor_rung_lacks(&facts, NET_ENGINE_EPOLL_ZC), NET_PROBE_MSG_ZEROCOPY);
    forbid(EPERM);
    assert_int_equal(doctor_rung_lacks(&facts, NET_ENGINE_URING_NAIVE), NET_PROBE_URING);
    assert_int_equal(doctor_rung_lacks(&facts, NET_ENGINE_EPOLL), NET_PROBE_COUNT);
}

static void a_small_limit_of_locked_memory(void **state)
{
    (void)state;
    facts.memlock_soft_bytes = 64 << 10;
    expect("locked memory", DOCTOR_SEVERITY_NEEDED, "64 KiB", "ulimit -l");
    facts.memlock_hard_bytes = 64 << 10;
    expect("locked memory", DOCTOR_SEVERITY_NEEDED, "64 KiB", "limits.d");
    facts.memlock_soft_bytes = 16 << 20;
    expect("locked memory", DOCTOR_SEVERITY_ADVISED, "16 workers", "limits.d");
    facts.can_lock = true;
    nothing_is_found_where_all_is_well(state);
    set_feature(NET_PROBE_ENGINE_RING, NET_PROBE_STATE_LIMITED, ENOMEM, "why");
    facts.can_lock = false;
    expect("locked memory", DOCTOR_SEVERITY_NEEDED, "rings become small", "limits.d");
    assert_string_equal(doctor_engine(&facts), "uring");
}

static void few_open_files(void **state)
{
    (void)state;
    facts.files_soft = 4096;
    expect("open files", DOCTOR_SEVERITY_ADVISED, "4096", "ulimit -n 65536");
    facts.files_soft = 256;
    expect("open files", DOCTOR_SEVERITY_NEEDED, "256", "ulimit -n 65536");
}

/* The kernel's default does not matter as long as ours can be set. */
static void a_kernel_with_bbr(void **state)
{
    (void)state;
    snprintf(facts.socket.congestion_default, sizeof facts.socket.congestion_default, "bbr");
    nothing_is_found_where_all_is_well(state);
    snprintf(facts.socket.congestion, sizeof facts.socket.congestion, "bbr");
    set_sysctl(DOCTOR_SYSCTL_CONGESTION_ALLOWED, "reno bbr");
    expect("congestion control", DOCTOR_SEVERITY_NEEDED, "bbr is used",
           "tcp_allowed_congestion_control=\"reno bbr cubic\"");
    set_sysctl(DOCTOR_SYSCTL_CONGESTION_AVAILABLE, "reno bbr");
    expect("congestion control", DOCTOR_SEVERITY_NEEDED, "bbr is used", "modprobe tcp_cubic");
    snprintf(facts.socket.congestion, sizeof facts.socket.congestion, "reno");
    expect("congestion control", DOCTOR_SEVERITY_ADVISED, "reno is used", "modprobe tcp_cubic");
}

static void machine_settings(void **state)
{
    (void)state;
    facts.cpu_quota = 2.5;
    expect("CPU quota", DOCTOR_SEVERITY_ADVISED, "2.5", "--workers=2");
    snprintf(facts.governor, sizeof facts.governor, "powersave");
    expect("CPU frequency", DOCTOR_SEVERITY_ADVISED, "powersave", "cpupower");
    snprintf(facts.clock_source, sizeof facts.clock_source, "hpet");
    expect("clock", DOCTOR_SEVERITY_ADVISED, "hpet", "echo tsc");
    snprintf(facts.huge_transparent, sizeof facts.huge_transparent, "never");
    expect("huge pages", DOCTOR_SEVERITY_ADVISED, "off", "echo madvise");
    set_sysctl(DOCTOR_SYSCTL_OVERCOMMIT_MEMORY, "2");
    expect("overcommit", DOCTOR_SEVERITY_ADVISED, "2", "vm.overcommit_memory=0");
    set_sysctl(DOCTOR_SYSCTL_OPTMEM_MAX, "20480");
    expect("option memory", DOCTOR_SEVERITY_ADVISED, "20480", "optmem_max=131072");
    facts.numa.count = 2;
    set_sysctl(DOCTOR_SYSCTL_NUMA_BALANCING, "1");
    expect("NUMA balancing", DOCTOR_SEVERITY_ADVISED, "NUMA", "numa_balancing=0");
    assert_int_equal(findings.count, 7);
}

/* ---- cards ---- */

static struct doctor_path receive_path(void)
{
    struct doctor_path path;
    doctor_judge_receive(&facts, &facts.card[1], &path);
    return path;
}

static void a_card_with_data_split_off(void **state)
{
    (void)state;
    struct doctor_card *card = &facts.card[1];
    assert_int_equal(receive_path().state, DOCTOR_ZERO_COPY_WORKS);
    card->data_split = DOCTOR_SWITCH_OFF;
    struct doctor_path path = receive_path();
    assert_int_equal(path.state, DOCTOR_ZERO_COPY_STEPS);
    assert_int_equal(path.step_count, 1);
    assert_string_equal(path.step[0], "ethtool -G eth1 tcp-data-split on hds-thresh 0");
    expect("eth1", DOCTOR_SEVERITY_ADVISED, "step 1 of 1 to receive without a copy", "ethtool -G eth1");
    expect("eth1", DOCTOR_SEVERITY_ADVISED, "`deploy/tune-nic eth1 --apply' takes", "ethtool -G eth1");
    card->data_split = DOCTOR_SWITCH_ON;
    card->split_threshold_bytes = 256;
    assert_int_equal(receive_path().step_count, 1);
}

/* A card as it comes out of its box: the steps, in the order in which they work. */
static void a_fresh_card_wants_all_steps(void **state)
{
    (void)state;
    static const char *const wanted[] = {"setcap cap_net_admin+ep",
                                         "ethtool -L eth1 combined 32",
                                         "ethtool -K eth1 rx-gro-hw on ntuple on",
                                         "ip link set eth1 xdp off",
                                         "ethtool -G eth1 tcp-data-split on hds-thresh 0",
                                         "ethtool -X eth1 equal 16 "};
    struct doctor_card *card = &facts.card[1];
    facts.can_admin_network = false;
    set_feature(NET_PROBE_RECV_ZC, NET_PROBE_STATE_FORBIDDEN, EPERM, "needs CAP_NET_ADMIN");
    card->queues = 1;
    card->spread_queues = 0;
    card->gro_hw = card->ntuple = DOCTOR_SWITCH_OFF;
    card->data_split = DOCTOR_SWITCH_OFF;
    card->xdp = true;
    const struct doctor_path path = receive_path();
    assert_int_equal(path.state, DOCTOR_ZERO_COPY_STEPS);
    assert_int_equal(path.step_count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (strncmp(path.step[i], wanted[i], strlen(wanted[i])) != 0)
            fail_msg("step %zu is \"%s\"", i, path.step[i]);
}

static void cards_that_cannot_receive_without_a_copy(void **state)
{
    (void)state;
    struct doctor_card *card = &facts.card[1];
    set_feature(NET_PROBE_RECV_ZC, NET_PROBE_STATE_MISSING, EINVAL, "Linux 6.15 and newer do");
    assert_int_equal(receive_path().state, DOCTOR_ZERO_COPY_CANNOT);
    assert_non_null(strstr(receive_path().why, "Linux 6.15"));
    set_feature(NET_PROBE_RECV_ZC, NET_PROBE_STATE_WORKS, 0, "");
    snprintf(card->driver, sizeof card->driver, "virtio_net");
    assert_int_equal(receive_path().state, DOCTOR_ZERO_COPY_CANNOT);
    assert_non_null(strstr(receive_path().why, "virtio_net"));
    doctor_judge(&facts, &findings);
    assert_int_equal(findings.count, 0); /* nothing can be done, so nothing is advised */
    card->receive_tried = true;
    assert_int_equal(receive_path().state, DOCTOR_ZERO_COPY_WORKS);
}

static void what_trying_said_comes_first(void **state)
{
    (void)state;
    struct doctor_card *card = &facts.card[1];
    card->receive_tried = true;
    card->receive_result.state = NET_PROBE_STATE_MISSING;
    snprintf(card->receive_result.why, sizeof card->receive_result.why, "what the kernel said");
    assert_int_equal(receive_path().state, DOCTOR_ZERO_COPY_CANNOT);
    assert_non_null(strstr(receive_path().why, "what the kernel said"));
    card->ntuple = DOCTOR_SWITCH_OFF;
    assert_int_equal(receive_path().state, DOCTOR_ZERO_COPY_STEPS);
}

static void sending_without_a_copy(void **state)
{
    (void)state;
    struct doctor_path path;
    doctor_judge_send(&facts, &facts.card[1], &path);
    assert_int_equal(path.state, DOCTOR_ZERO_COPY_WORKS);
    facts.card[1].scatter = DOCTOR_SWITCH_OFF;
    doctor_judge_send(&facts, &facts.card[1], &path);
    assert_int_equal(path.state, DOCTOR_ZERO_COPY_STEPS);
    assert_string_equal(path.step[0], "ethtool -K eth1 sg on tx on");
    doctor_judge_send(&facts, &facts.card[0], &path);
    assert_int_equal(path.state, DOCTOR_ZERO_COPY_CANNOT);
}

static void settings_of_a_fast_card(void **state)
{
    (void)state;
    struct doctor_card *card = &facts.card[1];
    card->mtu = 1500;
    expect("eth1", DOCTOR_SEVERITY_ADVISED, "MTU is 1500", "mtu 9000");
    card->tso = card->gro = DOCTOR_SWITCH_OFF;
    expect("eth1", DOCTOR_SEVERITY_ADVISED, "TSO and GRO are off", "ethtool -K eth1 sg on tso on gro on");
    set_sysctl(DOCTOR_SYSCTL_TCP_RMEM, "4096 131072 6291456");
    expect("socket memory", DOCTOR_SEVERITY_ADVISED, "6291456", "net.ipv4.tcp_rmem=\"4096 131072 16777216\"");
    card->up = false;
    nothing_is_found_where_all_is_well(state);
}

/* ---- order and room ---- */

static void the_needed_comes_first(void **state)
{
    (void)state;
    findings.count = 0;
    for (int i = 0; i < 2 * DOCTOR_FINDINGS_MAX; i++)
        doctor_find(&findings, i % 2 ? DOCTOR_SEVERITY_NEEDED : DOCTOR_SEVERITY_ADVISED, "subject", "", "%d", i);
    assert_int_equal(findings.count, DOCTOR_FINDINGS_MAX);
    for (uint32_t i = 1; i < findings.count; i++) {
        assert_true(findings.finding[i - 1].severity <= findings.finding[i].severity);
        if (findings.finding[i - 1].severity == findings.finding[i].severity)
            assert_true(atoi(findings.finding[i - 1].text) < atoi(findings.finding[i].text));
    }
}

/* ---- showing ---- */

/* Keys are a promise, also of a machine that tells nothing. */
static void expect_keys(const json_t *object, const char *keys)
{
    char copy[512];
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", keys);
    assert_true(json_is_object(object));
    for (char *rest = copy, *key = strtok_r(copy, " ", &rest); key; key = strtok_r(NULL, " ", &rest), count++)
        if (!json_object_get(object, key))
            fail_msg("the key %s is missing", key);
    assert_int_equal(json_object_size(object), count);
}

static json_t *loaded(void)
{
    doctor_judge(&facts, &findings);
    char *text = doctor_json(&facts, &findings);
    assert_non_null(text);
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        fail_msg("%s", error.text);
    assert_null(strchr(text, '\n'));
    free(text);
    return object;
}

static void expect_all_keys(const json_t *object)
{
    expect_keys(object,
                "version well host kernel machine engine sysctl limits process cpu memory numa socket features engines "
                "interfaces interfaces_left_out findings");
    expect_keys(json_object_get(object, "limits"),
                "memlock_soft_bytes memlock_hard_bytes lockable_bytes files_soft files_hard");
    expect_keys(json_object_get(object, "process"),
                "user seccomp cap_ipc_lock cap_net_admin container cpu_quota memory_quota_bytes");
    expect_keys(json_object_get(object, "cpu"), "model online allowed governor clock_source");
    expect_keys(json_object_get(object, "memory"), "bytes transparent_huge_pages huge_page_bytes");
    expect_keys(json_object_get(object, "socket"), "congestion_default congestion send_buffer_bytes recv_buffer_bytes "
                                                   "nodelay notsent_lowat_bytes");
    assert_int_equal(json_object_size(json_object_get(object, "sysctl")), DOCTOR_SYSCTL_COUNT);
    const json_t *features = json_object_get(object, "features");
    assert_int_equal(json_array_size(features), NET_PROBE_COUNT);
    for (size_t i = 0; i < json_array_size(features); i++)
        expect_keys(json_array_get(features, i), "name area about state error why since");
}

static void json_of_a_good_machine(void **state)
{
    (void)state;
    json_t *object = loaded();
    expect_all_keys(object);
    assert_true(json_is_true(json_object_get(object, "well")));
    assert_int_equal(json_array_size(json_object_get(object, "findings")), 0);
    const json_t *card = json_array_get(json_object_get(object, "interfaces"), 1);
    expect_keys(card, "name index up physical kind driver qdisc mtu speed_mbit numa_node queues queues_max "
                      "spread_queues xdp offloads zero_copy_send zero_copy_receive");
    expect_keys(json_object_get(card, "zero_copy_receive"), "state why steps");
    expect_keys(json_object_get(card, "offloads"), "tx-tcp-segmentation tx-generic-segmentation tx-scatter-gather "
                                                   "rx-gro rx-gro-hw rx-ntuple-filter tcp-data-split hds-thresh");
    const json_t *node = json_array_get(json_object_get(json_object_get(object, "numa"), "nodes"), 0);
    expect_keys(node, "name cpus cpu_count memory_bytes free_bytes huge_pages huge_pages_free distances");
    json_decref(object);
}

static void json_of_findings(void **state)
{
    (void)state;
    forbid(EPERM);
    json_t *object = loaded();
    expect_all_keys(object);
    assert_true(json_is_false(json_object_get(object, "well")));
    const json_t *finding = json_array_get(json_object_get(object, "findings"), 0);
    expect_keys(finding, "severity subject text command");
    assert_string_equal(json_string_value(json_object_get(finding, "severity")), "needed");
    const json_t *feature = json_array_get(json_object_get(object, "features"), NET_PROBE_URING);
    assert_string_equal(json_string_value(json_object_get(feature, "error")), "EPERM");
    json_decref(object);
}

static void json_of_a_machine_that_tells_nothing(void **state)
{
    (void)state;
    facts = (struct doctor_facts){.card_count = 1, .numa = {.count = 1}};
    memset(facts.card[0].name, 0xff, sizeof facts.card[0].name - 1);
    json_t *object = loaded();
    expect_all_keys(object);
    json_decref(object);
}

static char *printed(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    doctor_judge(&facts, &findings);
    doctor_print(&facts, &findings, to);
    fclose(to);
    return text;
}

static void text_for_people(void **state)
{
    (void)state;
    char *text = printed();
    assert_non_null(strstr(text, "\nNothing to change.\n"));
    assert_non_null(strstr(text, "400 Gbit/s"));
    free(text);
    facts.card[1].data_split = DOCTOR_SWITCH_OFF;
    set_feature(NET_PROBE_BUNDLE, NET_PROBE_STATE_BROKEN, EPROTO,
                "a sentence that is long enough to need a second line, because a person reads it in a terminal of a "
                "hundred columns");
    facts.memlock_soft_bytes = 65536;
    text = printed();
    assert_non_null(strstr(text, "needed      locked memory:"));
    assert_non_null(strstr(text, "\n                ethtool -G eth1 tcp-data-split on hds-thresh 0\n"));
    assert_non_null(strstr(text, "not bundle"));
    for (const char *line = text; *line;) {
        const size_t bytes = strcspn(line, "\n");
        if (bytes > 100 && strncmp(line, "                ", 16) != 0) /* commands are not cut */
            fail_msg("%zu columns: %.*s", bytes, (int)bytes, line);
        line += bytes + (line[bytes] == '\n');
    }
    free(text);
}

/* A host of many containers has its cards shown, and a number for the rest. */
static void many_virtual_interfaces_are_counted(void **state)
{
    (void)state;
    for (uint32_t i = 2; i < 60; i++) {
        facts.card[i] = (struct doctor_card){.index = i, .up = true, .kind = "veth", .mtu = 1500};
        snprintf(facts.card[i].name, sizeof facts.card[i].name, "v%u", i);
    }
    facts.card_count = 60;
    facts.card[59].up = false;
    char *text = printed();
    assert_non_null(strstr(text, "\neth1 "));
    assert_non_null(strstr(text, "\nv2 "));
    assert_null(strstr(text, "\nv20 "));
    assert_non_null(strstr(text, "1 down or without a carrier, 54 more that are virtual"));
    free(text);
    json_t *object = loaded();
    assert_int_equal(json_array_size(json_object_get(object, "interfaces")), 60);
    json_decref(object);
}

/* Of this machine nothing certain is known but what every Linux has. */
static void facts_of_this_machine(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(doctor_gather("nosuchinterface", &facts, &error), BASE_NOT_FOUND);
    assert_non_null(strstr(error.text, "nosuchinterface"));
    assert_int_equal(doctor_gather(NULL, &facts, &error), BASE_OK);
    assert_string_not_equal(facts.release, "");
    assert_true(facts.cpus_allowed >= 1 && facts.cpus_allowed <= facts.cpus_online);
    assert_true(facts.memory_bytes > 0);
    assert_true(facts.numa.count >= 1);
    assert_true(facts.numa.node[0].cpu_count >= 1);
    assert_string_not_equal(facts.sysctl[DOCTOR_SYSCTL_TCP_RMEM], "");
    assert_true(facts.card_count >= 1);
    for (uint32_t i = 0; i < facts.card_count; i++)
        assert_string_not_equal(facts.card[i].name, "");
    json_t *object = loaded();
    expect_all_keys(object);
    json_decref(object);
    free(printed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_found_where_all_is_well, all_is_well),
        cmocka_unit_test_setup(io_uring_disabled_by_sysctl, all_is_well),
        cmocka_unit_test_setup(io_uring_forbidden_by_seccomp, all_is_well),
        cmocka_unit_test_setup(an_old_kernel_runs_on_epoll, all_is_well),
        cmocka_unit_test_setup(features_that_are_missing_or_broken, all_is_well),
        cmocka_unit_test_setup(rungs_name_what_they_lack, all_is_well),
        cmocka_unit_test_setup(a_small_limit_of_locked_memory, all_is_well),
        cmocka_unit_test_setup(few_open_files, all_is_well),
        cmocka_unit_test_setup(a_kernel_with_bbr, all_is_well),
        cmocka_unit_test_setup(machine_settings, all_is_well),
        cmocka_unit_test_setup(a_card_with_data_split_off, all_is_well),
        cmocka_unit_test_setup(a_fresh_card_wants_all_steps, all_is_well),
        cmocka_unit_test_setup(cards_that_cannot_receive_without_a_copy, all_is_well),
        cmocka_unit_test_setup(what_trying_said_comes_first, all_is_well),
        cmocka_unit_test_setup(sending_without_a_copy, all_is_well),
        cmocka_unit_test_setup(settings_of_a_fast_card, all_is_well),
        cmocka_unit_test(the_needed_comes_first),
        cmocka_unit_test_setup(json_of_a_good_machine, all_is_well),
        cmocka_unit_test_setup(json_of_findings, all_is_well),
        cmocka_unit_test_setup(json_of_a_machine_that_tells_nothing, all_is_well),
        cmocka_unit_test_setup(text_for_people, all_is_well),
        cmocka_unit_test_setup(many_virtual_interfaces_are_counted, all_is_well),
        cmocka_unit_test_setup(facts_of_this_machine, all_is_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
