#include "tests/cluster/protocol/message_samples.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/link/link.h"

static struct net_address addresses[3];

static void fill_addresses(void)
{
    for (uint16_t i = 0; i < 3; i++) {
        memset(&addresses[i], 0, sizeof addresses[i]);
        if (i == 2) {
            addresses[i].v6.sin6_family = AF_INET6;
            addresses[i].v6.sin6_port = htons(7402);
            addresses[i].v6.sin6_scope_id = 3;
            inet_pton(AF_INET6, "fe80::1", &addresses[i].v6.sin6_addr);
            addresses[i].bytes = sizeof addresses[i].v6;
        } else {
            addresses[i].v4.sin_family = AF_INET;
            addresses[i].v4.sin_port = htons((uint16_t)(7400 + i));
            inet_pton(AF_INET, "10.0.0.7", &addresses[i].v4.sin_addr);
            addresses[i].bytes = sizeof addresses[i].v4;
        }
    }
}

static void sample_hello(struct cluster_message *message)
{
    cluster_hello_fill(CLUSTER_ROLE_NODE, message);
    struct cluster_hello *hello = &message->hello;
    hello->build = "0.1.0+1d2fb59ac0";
    hello->name = "n1";
    hello->incarnation = UINT64_C(0xfedcba9876543210);
    hello->worker_count = 3;
    hello->worker = addresses;
    hello->memory_bytes = UINT64_C(1) << 40;
    hello->engine = "uring";
    hello->features = "multishot-recv registered-files";
    hello->engine_reason = "";
    hello->placement = "worker 0: memory node 1";
    hello->pid = 4711;
    static uint64_t doubts[] = {17, 18};
    hello->doubt = doubts;
    hello->doubt_count = 2;
}

static void sample_sources(struct cluster_source source[2])
{
    source[0] = (struct cluster_source){.text = "shared:/data/a.tsv",
                                        .schema = "id:int64,name:string?",
                                        .format = CLUSTER_FORMAT_CSV,
                                        .delimiter = '\t',
                                        .quote = '\'',
                                        .header = CLUSTER_CHOICE_NO,
                                        .null_texts = "NA\n\\N\n",
                                        .bad_rows_max = 1000,
                                        .empty_is_null = CLUSTER_CHOICE_YES,
                                        .quoted_empty_is_null = CLUSTER_CHOICE_NO};
    source[1] = (struct cluster_source){.text = "gen:rows=16M,row=64"};
}

static const struct shuffle_settings sample_settings = {
    .engine = {.kind = NET_ENGINE_URING_BUNDLE,
               .options = NET_FEATURE_NAPI | NET_FEATURE_HUGE_PAGES,
               .option_us = {[NET_OPTION_INDEX_NAPI] = 70}},
    .verify = true,
    .frame_bytes = 65536,
    .frames_per_lane = 2,
    .recv_chunk_bytes = 131072,
    .recv_chunk_count = 32,
    .socket = {.congestion = "bbr", .send_buffer_bytes = 1 << 20, .nagle = true},
    .morsel_bytes = 1 << 22};

static void sample_submit(struct cluster_submit *submit)
{
    submit->kind = CLUSTER_KIND_JOIN;
    submit->source_count = 2;
    sample_sources(submit->source);
    submit->type = JOIN_TYPE_ANTI;
    submit->null_aware = true;
    submit->on = "id=key";
    submit->select = "left.name";
    submit->out = "/data/out";
    submit->output = SHUFFLE_OUTPUT_CSV;
    submit->progress = true;
    submit->settings = sample_settings;
}

#define SAMPLE_FACTS                                                                                                   \
    {                                                                                                                  \
        .known = true, .congestion = "cubic", .interface = "eth0", .send_buffer_bytes = 87040,                         \
        .notsent_lowat_bytes = UINT32_MAX, .mss_bytes = 1448, .offload = {                                             \
            NET_OFFLOAD_ON,                                                                                            \
            NET_OFFLOAD_OFF                                                                                            \
        }                                                                                                              \
    }

static struct cluster_node_report sample_nodes[2] = {
    {.name = "n1", .engine_decision = "multishot", .workers = 2, .memory_bytes = 18, .facts = SAMPLE_FACTS},
    {.name = "n2", .engine_decision = "", .workers = 1}};
static uint64_t sample_links[4] = {0, 1, 2, 0};

static struct shuffle_rejects sample_rejects = {
    .count = 12,
    .kept = 2,
    .reject = {{.morsel = 3, .line = 40, .file = 1, .reason = "an empty line"},
               {.morsel = 7, .line = 5, .file = 2, .reason = "column \"v\" is empty"}}};

static struct cluster_skipped_row sample_skipped[2] = {{"", "/data/a.csv", 40, "an empty line"},
                                                       {"n2", "/data/b.csv", 5, "column \"v\" is empty"}};

/* Every measure has a number of its own. */
static void sample_measures(struct cluster_measures *measures, uint64_t first)
{
    for (uint32_t i = 0; i < CLUSTER_MEASURES; i++)
        cluster_measure_set(measures, i, first + i);
}

static void sample_report(struct cluster_report *report)
{
    report->skipped[1] = (struct cluster_skipped){12, 2, sample_skipped};
    base_error_set(&report->error, BASE_NODE_LOST, "node n2 was lost");
    report->bad_request = true;
    report->kind = CLUSTER_KIND_SHUFFLE;
    report->build_side = 1;
    report->seconds = 0.125;
    report->spans.build_seconds = 0.5;
    report->spans.release_seconds = 0.25;
    report->engine = "epoll";
    report->features = "a b";
    report->engine_reason = "io_uring is forbidden";
    report->verified = true;
    report->limit = CLUSTER_LIMIT_SKEW;
    report->limit_words = "many rows share few keys";
    report->workers = 3;
    report->node_count = 2;
    report->node = sample_nodes;
    sample_measures(&report->sum, 100);
    sample_measures(&sample_nodes[0].sum, UINT64_MAX - CLUSTER_MEASURES);
    report->link = sample_links;
}

static struct cluster_node_entry sample_node_entry = {
    "n1", CLUSTER_NODE_RUNNING,      "10.0.0.7:7400",    2,   1 << 30, 77, "uring", "multishot-recv",
    "",   "worker 0: memory node 1", "0.1.0+1d2fb59ac0", 0.25};
static struct cluster_job_entry sample_job_entry = {
    5, CLUSTER_KIND_SHUFFLE, CLUSTER_JOB_FAILED, CLUSTER_PHASE_DONE, "shuffle a by k", "disk full", 3, 1.5};

static struct shuffle_morsel sample_morsels[2] = {{0, true, 0, 100, 1, 0}, {1, false, 100, 300, 17, 1}};
static struct shuffle_survey sample_surveys[2] = {{0, 5, 6}, {1, 7, 8}};
static uint64_t sample_bytes[2] = {100, 200};

static uint32_t sample_numbers[2] = {1, 4};
static uint8_t sample_half[2] = {0, 1};
static struct cluster_flow sample_flows[2] = {{0, 1}, {1, 0}};
static struct cluster_schedule_node sample_schedule_node = {"n1", 2, {"eth0", UINT64_C(100000000000), 9000}};

static void sample_step(struct cluster_step *step)
{
    step->step = CLUSTER_STEP_FINISHED;
    step->has_report = true;
    sample_measures(&step->report.sum, 300);
    step->node_count = 2;
    step->sent_bytes = step->received_bytes = sample_bytes;
    step->engine = "uring";
    step->features = "a";
    step->engine_reason = "";
    step->engine_decision = "multishot receive";
    step->rejects[1] = &sample_rejects;
    step->report.facts = (struct net_socket_facts)SAMPLE_FACTS;
}

/* A relation of files with a column of every kind of type; malloc'ed as relations are. */
static void sample_relation(struct shuffle_relation *relation)
{
    struct base_error error;
    relation->placement = SHUFFLE_LOCAL;
    relation->format = SHUFFLE_FORMAT_CSV;
    relation->csv = (struct shuffle_csv_options){';', '"', true, true, false, "", 3};
    if (shuffle_schema_parse("id:int64,name:string?,price:decimal(12,2),raw:binary(7)", &relation->schema, &error) !=
        BASE_OK)
        abort();
    relation->schema.field[0].inferred = true;
    strcpy(relation->csv.null_texts, "\\N\n");
    relation->file = calloc(2, sizeof *relation->file);
    if (!relation->file)
        abort();
    relation->file_count = 2;
    relation->file[0] = (struct shuffle_file){strdup("/data/a-0.csv"), 100, -5, SHUFFLE_PACKING_NONE, 64769, 7};
    relation->file[1] =
        (struct shuffle_file){strdup("/data/a-1.csv"), 300, INT64_C(1700000000000000000), 0, 1, UINT64_MAX};
}

static void sample_generated(struct shuffle_relation *relation)
{
    char *path;
    struct base_error error;
    if (shuffle_relation_parse("gen:rows=1000,row=64,keys=zipf:1.1:1000,seed=7", relation, &path, &error) != BASE_OK)
        abort();
}

static struct cluster_plan *sample_plan(void)
{
    struct shuffle_relation relation[2];
    memset(relation, 0, sizeof relation);
    sample_relation(&relation[0]);
    sample_generated(&relation[1]);
    const struct join_request request = {.kind = JOIN_JOB_JOIN,
                                         .type = JOIN_TYPE_LEFT,
                                         .on = "id=key",
                                         .select = "left.name,left.price,payload",
                                         .out = "/data/out",
                                         .output = SHUFFLE_OUTPUT_CSV};
    const struct shuffle_node nodes[2] = {{"n1", 0, 1}, {"n2", 1, 2}};
    const uint8_t token[SHUFFLE_TOKEN_BYTES] = {1, 2, 3};
    struct base_error error;
    struct cluster_plan *plan = calloc(1, sizeof *plan);
    if (!plan || join_plan_make(&request, relation, &plan->join, &error) != BASE_OK ||
        shuffle_job_place(&plan->job, 9, token, &sample_settings, join_plan_bytes_max(&plan->join), nodes, 2, addresses,
                          &error) != BASE_OK)
        abort();
    snprintf(plan->join.files, sizeof plan->join.files, "job-9");
    return plan;
}

static void sample_of_job(enum cluster_message_kind kind, struct cluster_message *message)
{
    const struct cluster_lend lend = {.side = 1, .end = true, .count = 2, .morsel = sample_morsels};
    switch (kind) {
    case CLUSTER_MESSAGE_RESOLVE:
        message->resolve.source_count = 2;
        sample_sources(message->resolve.source);
        message->resolve.out = "/data/out";
        message->resolve.state = "0123456789abcdef";
        message->resolve.live_count = 2;
        message->resolve.live = sample_bytes;
        break;
    case CLUSTER_MESSAGE_RESOLVED:
        message->resolved.relation_count = 2;
        sample_relation(&message->resolved.relation[0]);
        sample_generated(&message->resolved.relation[1]);
        break;
    case CLUSTER_MESSAGE_PREPARE:
        message->prepare = (struct cluster_prepare){sample_plan(), 1, {3, 4}, {true, false}};
        break;
    case CLUSTER_MESSAGE_STEP:
    case CLUSTER_MESSAGE_CLOSED:
        sample_step(&message->step);
        break;
    case CLUSTER_MESSAGE_SURVEY:
        message->survey.lend[0].end = true;
        message->survey.lend[1] = lend;
        break;
    case CLUSTER_MESSAGE_SURVEYED:
        message->surveyed.count[1] = 2;
        message->surveyed.survey[1] = sample_surveys;
        break;
    case CLUSTER_MESSAGE_START:
        message->start = (struct cluster_start){1, lend};
        break;
    case CLUSTER_MESSAGE_LEND:
        message->lend = lend;
        break;
    case CLUSTER_MESSAGE_FAULT:
        message->fault = (struct cluster_fault){.side = 1, .morsel = 77};
        base_error_set(&message->fault.error, BASE_PARSE, "/data/a.csv:3: a quote");
        break;
    case CLUSTER_MESSAGE_HALT:
        message->halt = (struct cluster_halt){1, 78};
        break;
    case CLUSTER_MESSAGE_LOW:
        message->low.side = 1;
        break;
    case CLUSTER_MESSAGE_NODE_PROGRESS:
        message->node_progress.rows = 12345;
        break;
    case CLUSTER_MESSAGE_STAGE:
        message->stage.text = "{}\n";
        break;
    case CLUSTER_MESSAGE_COMMIT:
        message->commit = (struct cluster_commit){"/data/out", "csv", "job-7-0-1", 3, 4};
        break;
    case CLUSTER_MESSAGE_PUBLISH:
        message->publish = (struct cluster_publish){"/data/out", "job-7-0-1", "{}\n", 3};
        break;
    case CLUSTER_MESSAGE_RELEASE:
        message->release.abort = true;
        break;
    case CLUSTER_MESSAGE_MEASURE:
        message->measure = (struct cluster_measure){.step = 3,
                                                    .warmup_ns = 100000000,
                                                    .duration_ns = 250000000,
                                                    .window_ns = 100000000,
                                                    .streams = 4,
                                                    .send_count = 2,
                                                    .receive_count = 1,
                                                    .send = sample_numbers,
                                                    .receive = sample_numbers};
        break;
    case CLUSTER_MESSAGE_MEASURED:
        message->measured =
            (struct cluster_measured){3, 2, sample_bytes, 2, sample_links, 950, 2, {7, 8, 9, 10, 11, 12, 9000, 8948}};
        break;
    case CLUSTER_MESSAGE_SCHEDULE:
        message->schedule =
            (struct cluster_schedule){58, 5000, 250000000, 100000000, 100000000, 1, &sample_schedule_node};
        break;
    case CLUSTER_MESSAGE_MEASUREMENT:
        message->measurement = (struct cluster_measurement){3,
                                                            CLUSTER_BISECT_CUT,
                                                            0,
                                                            2,
                                                            sample_half,
                                                            CLUSTER_BISECT_ORIGIN_SEARCH,
                                                            2,
                                                            sample_flows,
                                                            sample_bytes,
                                                            1,
                                                            sample_bytes,
                                                            900,
                                                            4,
                                                            {.received_bytes = 300,
                                                             .verified_bytes = 200,
                                                             .retransmits = BASE_MEASURE_UNKNOWN,
                                                             .cpu_user_ns = 5,
                                                             .cpu_system_ns = 6,
                                                             .mtu = 1500,
                                                             .segment_bytes = 1448}};
        break;
    default:
        break;
    }
}

void message_sample(enum cluster_message_kind kind, struct cluster_message *message)
{
    fill_addresses();
    memset(message, 0, sizeof *message);
    switch (kind) {
    case CLUSTER_MESSAGE_HELLO:
        sample_hello(message);
        break;
    case CLUSTER_MESSAGE_WELCOME:
        message->welcome = (struct cluster_welcome){"0.1.0+1d2fb59ac0", 6};
        break;
    case CLUSTER_MESSAGE_REFUSED:
    case CLUSTER_MESSAGE_FAILED:
    case CLUSTER_MESSAGE_BROKEN:
    case CLUSTER_MESSAGE_ANSWER:
        base_error_set(&message->answer.error, BASE_NO_SPACE, "no space in /data");
        break;
    case CLUSTER_MESSAGE_BEAT:
        message->beat = (struct cluster_beat){99, 7};
        break;
    case CLUSTER_MESSAGE_SUBMIT:
        sample_submit(&message->submit);
        break;
    case CLUSTER_MESSAGE_PROGRESS:
        message->progress = (struct cluster_progress){CLUSTER_PHASE_PROBE, 5, 6, 0.75};
        break;
    case CLUSTER_MESSAGE_REPORT:
        sample_report(&message->report);
        break;
    case CLUSTER_MESSAGE_NODES:
        message->nodes = (struct cluster_nodes){6, 1, &sample_node_entry};
        break;
    case CLUSTER_MESSAGE_JOBS:
        message->jobs = (struct cluster_jobs){1, &sample_job_entry};
        break;
    default:
        sample_of_job(kind, message);
        break;
    }
    message->kind = kind;
    message->job = 9;
}

void message_sample_done(struct cluster_message *message)
{
    if (message->kind == CLUSTER_MESSAGE_RESOLVED || message->kind == CLUSTER_MESSAGE_PREPARE)
        cluster_message_free(message);
}
