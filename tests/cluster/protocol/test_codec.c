/* Every kind of message there and back, and bytes that nobody sane would send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/build.h"
#include "base/random.h"
#include "cluster/protocol/codec.h"
#include "tests/cluster/protocol/message_samples.h"

static void encode(const struct cluster_message *message, uint8_t **bytes, size_t *count)
{
    struct base_error error;
    if (cluster_codec_encode(message, 0, bytes, count, &error) != BASE_OK)
        fail_msg("%s", error.text);
}

static void decode(const uint8_t *bytes, size_t count, struct cluster_message *message)
{
    struct base_error error;
    if (cluster_codec_decode(bytes, count, message, &error) != BASE_OK)
        fail_msg("%s", error.text);
}

/* What is encoded again after decoding is the same, byte by byte: so nothing was lost that is encoded. */
static void test_there_and_back(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < CLUSTER_MESSAGE_COUNT; kind++) {
        struct cluster_message sample, decoded;
        uint8_t *first, *second;
        size_t first_count, second_count;
        message_sample((enum cluster_message_kind)kind, &sample);
        encode(&sample, &first, &first_count);
        decode(first, first_count, &decoded);
        assert_int_equal(decoded.kind, kind);
        assert_int_equal(decoded.job, 9);
        encode(&decoded, &second, &second_count);
        assert_int_equal(first_count, second_count);
        assert_memory_equal(first, second, first_count);
        free(first);
        free(second);
        cluster_message_free(&decoded);
        message_sample_done(&sample);
    }
}

/* Fields that reach the other side, looked at one by one: what is not encoded at all would escape the test above. */
static void round_trip(enum cluster_message_kind kind, struct cluster_message *sample, struct cluster_message *decoded)
{
    uint8_t *bytes;
    size_t count;
    message_sample(kind, sample);
    encode(sample, &bytes, &count);
    decode(bytes, count, decoded);
    free(bytes);
}

static void test_report_fields(void **state)
{
    (void)state;
    struct cluster_message sample, decoded;
    round_trip(CLUSTER_MESSAGE_REPORT, &sample, &decoded);
    const struct cluster_report *a = &sample.report, *b = &decoded.report;
    assert_int_equal(b->error.status, BASE_NODE_LOST);
    assert_string_equal(b->error.text, a->error.text);
    assert_memory_equal(&a->sum, &b->sum, sizeof a->sum);
    assert_memory_equal(&a->spans, &b->spans, sizeof a->spans);
    assert_memory_equal(a->link, b->link, 4 * sizeof *a->link);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(a->node[i].name, b->node[i].name);
        assert_string_equal(a->node[i].engine_decision, b->node[i].engine_decision);
        assert_memory_equal(&a->node[i].workers, &b->node[i].workers,
                            sizeof a->node[i] - offsetof(struct cluster_node_report, workers));
    }
    assert_true(b->bad_request && b->verified);
    assert_int_equal(b->limit, a->limit);
    assert_string_equal(b->limit_words, a->limit_words);
    assert_string_equal(b->engine_reason, a->engine_reason);
    cluster_message_free(&decoded);
}

static void test_step_fields(void **state)
{
    (void)state;
    struct cluster_message sample, decoded;
    round_trip(CLUSTER_MESSAGE_STEP, &sample, &decoded);
    assert_memory_equal(&sample.step.report, &decoded.step.report, sizeof sample.step.report);
    assert_memory_equal(sample.step.sent_bytes, decoded.step.sent_bytes, 2 * sizeof(uint64_t));
    assert_string_equal(decoded.step.engine, "uring");
    assert_string_equal(decoded.step.engine_decision, "multishot receive");
    assert_null(decoded.step.rejects[0]);
    assert_memory_equal(sample.step.rejects[1], decoded.step.rejects[1], sizeof *sample.step.rejects[1]);
    cluster_message_free(&decoded);
}

static void test_submit_fields(void **state)
{
    (void)state;
    struct cluster_message sample, decoded;
    round_trip(CLUSTER_MESSAGE_SUBMIT, &sample, &decoded);
    const struct cluster_submit *a = &sample.submit, *b = &decoded.submit;
    assert_memory_equal(&a->settings, &b->settings, sizeof a->settings);
    assert_string_equal(b->source[0].schema, a->source[0].schema);
    assert_string_equal(b->source[0].null_texts, "NA\n\\N\n");
    assert_int_equal(b->source[0].bad_rows_max, 1000);
    assert_null(b->source[1].schema);
    assert_int_equal(b->source[0].delimiter, '\t');
    assert_int_equal(b->source[0].header, CLUSTER_CHOICE_NO);
    assert_string_equal(b->out, "/data/out");
    assert_true(b->progress && !b->into_table);
    assert_int_equal(b->type, JOIN_TYPE_ANTI);
    assert_true(b->null_aware && !b->null_equal);
    cluster_message_free(&decoded);
}

static void test_measurement_fields(void **state)
{
    (void)state;
    struct cluster_message sample, decoded;
    round_trip(CLUSTER_MESSAGE_MEASURE, &sample, &decoded);
    assert_int_equal(decoded.measure.step, 3);
    assert_int_equal(decoded.measure.duration_ns, 250000000);
    assert_int_equal(decoded.measure.streams, 4);
    assert_int_equal(decoded.measure.send_count, 2);
    assert_int_equal(decoded.measure.send[1], 4);
    assert_int_equal(decoded.measure.receive_count, 1);
    cluster_message_free(&decoded);
    round_trip(CLUSTER_MESSAGE_MEASURED, &sample, &decoded);
    const struct cluster_measured *a = &sample.measured, *b = &decoded.measured;
    assert_memory_equal(a->bytes, b->bytes, 2 * sizeof *a->bytes);
    assert_memory_equal(a->window, b->window, 2 * sizeof *a->window);
    assert_memory_equal(&a->host_busy_permille, &b->host_busy_permille,
                        sizeof *a - offsetof(struct cluster_measured, host_busy_permille));
    cluster_message_free(&decoded);
    round_trip(CLUSTER_MESSAGE_SCHEDULE, &sample, &decoded);
    assert_int_equal(decoded.schedule.step_count, 58);
    assert_int_equal(decoded.schedule.window_ns, 100000000);
    assert_string_equal(decoded.schedule.node[0].name, "n1");
    assert_string_equal(decoded.schedule.node[0].card.interface, "eth0");
    assert_int_equal(decoded.schedule.node[0].card.bits_per_second, UINT64_C(100000000000));
    cluster_message_free(&decoded);
    round_trip(CLUSTER_MESSAGE_MEASUREMENT, &sample, &decoded);
    const struct cluster_measurement *c = &sample.measurement, *d = &decoded.measurement;
    assert_int_equal(d->kind, CLUSTER_BISECT_CUT);
    assert_int_equal(d->origin, CLUSTER_BISECT_ORIGIN_SEARCH);
    assert_memory_equal(c->half, d->half, 2);
    assert_memory_equal(c->flow, d->flow, 2 * sizeof *c->flow);
    assert_memory_equal(c->flow_bytes, d->flow_bytes, 2 * sizeof *c->flow_bytes);
    assert_memory_equal(&c->host_busy_permille, &d->host_busy_permille,
                        sizeof *c - offsetof(struct cluster_measurement, host_busy_permille));
    cluster_message_free(&decoded);
}

static void refuse(struct cluster_message *message, enum base_status status, const char *words)
{
    uint8_t *bytes;
    size_t count;
    struct base_error error = {0};
    struct cluster_message decoded;
    encode(message, &bytes, &count);
    assert_int_equal(cluster_codec_decode(bytes, count, &decoded, &error), status);
    if (!strstr(error.text, words))
        fail_msg("'%s' does not say '%s'", error.text, words);
    free(bytes);
}

/* A request to measure has no sources; what it may ask for has bounds. */
static void test_bisect_requests(void **state)
{
    (void)state;
    struct cluster_bisect_rack rack = {"n1", "left"};
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_SUBMIT};
    message.submit.kind = CLUSTER_KIND_BISECT;
    message.submit.on = "";
    const struct cluster_bisect_request good = {.duration_ns = BASE_NS_PER_S,
                                                .cuts = CLUSTER_BISECT_COUNT,
                                                .cut_count = 7,
                                                .streams = 3,
                                                .rack_count = 1,
                                                .rack = &rack};
    message.submit.bisect = good;
    uint8_t *bytes;
    size_t count;
    struct cluster_message decoded;
    encode(&message, &bytes, &count);
    decode(bytes, count, &decoded);
    free(bytes);
    assert_int_equal(decoded.submit.source_count, 0);
    assert_int_equal(decoded.submit.bisect.cut_count, 7);
    assert_int_equal(decoded.submit.bisect.streams, 3);
    assert_string_equal(decoded.submit.bisect.rack[0].node, "n1");
    assert_string_equal(decoded.submit.bisect.rack[0].rack, "left");
    cluster_message_free(&decoded);
    message.submit.bisect.cut_count = 0;
    refuse(&message, BASE_PROTOCOL, "contradict");
    message.submit.bisect = good;
    message.submit.bisect.duration_ns = 1;
    refuse(&message, BASE_PROTOCOL, "steps of 1 ns");
    message.submit.bisect = good;
    message.submit.bisect.streams = CLUSTER_BISECT_STREAMS_MAX + 1;
    refuse(&message, BASE_PROTOCOL, "streams");
    message.submit.bisect = good;
    message.submit.source_count = 1;
    message.submit.source[0].text = "gen:rows=1";
    refuse(&message, BASE_PROTOCOL, "1 sources");
    struct cluster_message measure;
    message_sample(CLUSTER_MESSAGE_MEASURE, &measure);
    measure.measure.window_ns++;
    refuse(&measure, BASE_PROTOCOL, "do not fit");
}

static void test_plan_fields(void **state)
{
    (void)state;
    struct cluster_message sample, decoded;
    round_trip(CLUSTER_MESSAGE_PREPARE, &sample, &decoded);
    const struct cluster_plan *a = sample.prepare.plan, *b = decoded.prepare.plan;
    assert_int_equal(b->job.id, 9);
    assert_int_equal(b->join.type, JOIN_TYPE_LEFT);
    assert_memory_equal(a->job.token, b->job.token, SHUFFLE_TOKEN_BYTES);
    assert_memory_equal(&a->job.settings, &b->job.settings, sizeof a->job.settings);
    assert_memory_equal(a->job.node, b->job.node, 2 * sizeof *a->job.node);
    for (uint32_t i = 0; i < a->job.workers; i++) {
        char text[2][64];
        net_address_format(&a->job.address[i], text[0]);
        net_address_format(&b->job.address[i], text[1]);
        assert_string_equal(text[0], text[1]);
    }
    assert_memory_equal(a->join.item, b->join.item, a->join.item_count * sizeof *a->join.item);
    assert_true(shuffle_schema_equal(&a->join.result, &b->join.result));
    for (int side = 0; side < 2; side++) {
        assert_true(shuffle_schema_equal(&a->join.side[side].schema, &b->join.side[side].schema));
        assert_true(shuffle_schema_equal(&a->join.side[side].relation.schema, &b->join.side[side].relation.schema));
        assert_string_equal(a->join.side[side].relation.csv.null_texts, b->join.side[side].relation.csv.null_texts);
        assert_int_equal(a->join.side[side].relation.csv.bad_rows_max, b->join.side[side].relation.csv.bad_rows_max);
        for (uint32_t i = 0; i < a->join.side[side].relation.schema.count; i++)
            assert_int_equal(a->join.side[side].relation.schema.field[i].inferred,
                             b->join.side[side].relation.schema.field[i].inferred);
        assert_memory_equal(a->join.side[side].project, b->join.side[side].project,
                            a->join.side[side].project_count * sizeof(uint32_t));
        assert_int_equal(a->join.side[side].key.part[0].class, b->join.side[side].key.part[0].class);
    }
    assert_string_equal(b->join.side[0].relation.file[1].path, "/data/a-1.csv");
    assert_int_equal(b->join.side[0].relation.file[0].modified_ns, -5);
    assert_int_equal(b->join.side[0].relation.file[0].device, 64769);
    assert_true(b->join.side[0].relation.file[1].inode == UINT64_MAX);
    assert_int_equal(b->join.side[1].relation.generator.key_count, 1000);
    assert_true(b->join.side[1].relation.generator.zipf_exponent == 1.1);
    cluster_message_free(&decoded);
    message_sample_done(&sample);
}

/* Anything at all may arrive: it decodes or it is refused, with words, and nothing leaks (under the sanitizer). */
static void try_bytes(const uint8_t *bytes, size_t count)
{
    struct cluster_message message;
    struct base_error error = {0};
    if (cluster_codec_decode(bytes, count, &message, &error) == BASE_OK) {
        cluster_message_free(&message);
    } else {
        assert_int_not_equal(error.status, BASE_OK);
        assert_true(strlen(error.text) > 10);
    }
}

static void test_broken_bytes(void **state)
{
    (void)state;
    struct base_random random;
    base_random_seed(&random, 20);
    for (unsigned kind = 0; kind < CLUSTER_MESSAGE_COUNT; kind++) {
        struct cluster_message sample;
        uint8_t *bytes;
        size_t count;
        message_sample((enum cluster_message_kind)kind, &sample);
        encode(&sample, &bytes, &count);
        for (size_t cut = 0; cut < count; cut++)
            try_bytes(bytes, cut);
        for (int i = 0; i < 3000; i++) {
            const size_t at = base_random_below(&random, count);
            const uint8_t before = bytes[at];
            bytes[at] = (uint8_t)base_random_next(&random);
            try_bytes(bytes, count);
            if (base_random_chance(&random, 3, 4))
                bytes[at] = before;
        }
        free(bytes);
        message_sample_done(&sample);
    }
}

static void test_versions(void **state)
{
    (void)state;
    struct cluster_message message;
    message_sample(CLUSTER_MESSAGE_HELLO, &message);
    message.hello.build = "9.9.9+abc";
    message.hello.protocol = 2;
    char ours[BASE_BUILD_TEXT_BYTES], words[256];
    snprintf(words, sizeof words,
             "millrace 9.9.9+abc (protocol 00000002) cannot work with millrace %s: install one build",
             base_build_describe(ours));
    refuse(&message, BASE_VERSION, words);
    message_sample(CLUSTER_MESSAGE_HELLO, &message);
    message.hello.protocol = base_build_protocol() ^ UINT32_C(0x80000000);
    refuse(&message, BASE_VERSION, "install one build");
    /* Another commit that speaks the same is welcome. */
    message_sample(CLUSTER_MESSAGE_HELLO, &message);
    message.hello.build = "9.9.9+abc";
    uint8_t *bytes;
    size_t count;
    struct base_error error = {0};
    struct cluster_message decoded;
    encode(&message, &bytes, &count);
    assert_int_equal(cluster_codec_decode(bytes, count, &decoded, &error), BASE_OK);
    assert_string_equal(decoded.hello.build, "9.9.9+abc");
    cluster_message_free(&decoded);
    free(bytes);
    message_sample(CLUSTER_MESSAGE_HELLO, &message);
    message.hello.magic++;
    refuse(&message, BASE_PROTOCOL, "does not speak");
}

/* Whoever says that something failed cannot say that it did not. */
static void test_failures_are_failures(void **state)
{
    (void)state;
    static const enum cluster_message_kind kinds[] = {CLUSTER_MESSAGE_FAILED, CLUSTER_MESSAGE_REFUSED,
                                                      CLUSTER_MESSAGE_ANSWER};
    static const enum base_status none[] = {BASE_OK, BASE_BUSY, BASE_END, BASE_STATUS_COUNT, (enum base_status)9999};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (size_t j = 0; j < sizeof none / sizeof none[0]; j++) {
            struct cluster_message message = {.kind = kinds[i], .job = 7}, decoded;
            message.failed.error.status = none[j];
            uint8_t *bytes;
            size_t count;
            struct base_error error;
            assert_int_equal(cluster_codec_encode(&message, 0, &bytes, &count, &error), BASE_OK);
            assert_int_equal(cluster_codec_decode(bytes, count, &decoded, &error), BASE_OK);
            free(bytes);
            const bool kept = kinds[i] == CLUSTER_MESSAGE_ANSWER && none[j] < BASE_STATUS_COUNT;
            assert_int_equal(decoded.failed.error.status, kept ? none[j] : BASE_INTERNAL);
        }
}

static void test_limits(void **state)
{
    (void)state;
    struct cluster_message message;
    char *long_text = malloc(CLUSTER_TEXT_BYTES_MAX + 2);
    memset(long_text, 'x', CLUSTER_TEXT_BYTES_MAX + 1);
    long_text[CLUSTER_TEXT_BYTES_MAX + 1] = 0;
    message_sample(CLUSTER_MESSAGE_SUBMIT, &message);
    message.submit.on = long_text;
    refuse(&message, BASE_PROTOCOL, "--on");
    message_sample(CLUSTER_MESSAGE_SUBMIT, &message);
    message.submit.out = "relative";
    refuse(&message, BASE_PROTOCOL, "absolute");
    message_sample(CLUSTER_MESSAGE_SUBMIT, &message);
    message.submit.source_count = 1;
    refuse(&message, BASE_PROTOCOL, "sources");
    message_sample(CLUSTER_MESSAGE_HELLO, &message);
    message.hello.name = "";
    refuse(&message, BASE_PROTOCOL, "without a name");
    static char *const names[] = {"n1\x1b[2J", "n\n1", "\xff", "n 1", "\xc2\x9b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        message_sample(CLUSTER_MESSAGE_HELLO, &message);
        message.hello.name = names[i];
        refuse(&message, BASE_PROTOCOL, "a name that is not of letters, digits");
    }
    message_sample(CLUSTER_MESSAGE_HELLO, &message);
    message.hello.worker_count = 0;
    refuse(&message, BASE_PROTOCOL, "without workers");
    message_sample(CLUSTER_MESSAGE_COMMIT, &message);
    message.commit.extension = "../x";
    refuse(&message, BASE_PROTOCOL, "extension");
    message_sample(CLUSTER_MESSAGE_COMMIT, &message);
    message.commit.files = "job-1/../x";
    refuse(&message, BASE_PROTOCOL, "name of files");
    message_sample(CLUSTER_MESSAGE_PUBLISH, &message);
    message.publish.files = "";
    refuse(&message, BASE_PROTOCOL, "name of files");
    free(long_text);
}

/* Plans that refer to what is not there. */
static void test_plans_are_checked(void **state)
{
    (void)state;
    for (int fault = 0; fault < 21; fault++) {
        struct cluster_message message;
        message_sample(CLUSTER_MESSAGE_PREPARE, &message);
        struct cluster_plan *plan = message.prepare.plan;
        const char *words = "control message";
        switch (fault) {
        case 0:
            plan->join.side[0].project[0] = 99;
            words = "projected column";
            break;
        case 1:
            plan->join.side[1].key.part[0].column = 7;
            words = "key column";
            break;
        case 2:
            plan->join.side[0].key.part[0].class = SHUFFLE_KEY_BYTES;
            words = "class";
            break;
        case 3:
            plan->join.item[0].column = 50;
            words = "result column";
            break;
        case 4:
            plan->job.node[1].first = 2;
            words = "do not follow";
            break;
        case 5:
            plan->job.node[1].count = 0;
            words = "do not follow";
            break;
        case 6:
            plan->job.settings.frame_bytes = 100;
            words = "frames of";
            break;
        case 7:
            plan->job.settings.morsel_bytes = 0;
            words = "settings open";
            break;
        case 8:
            message.prepare.node = 2;
            words = "number of the node";
            break;
        case 9:
            plan->join.output = SHUFFLE_OUTPUT_COUNT;
            words = "contradict";
            break;
        case 10:
            plan->join.side[0].relation.schema.field[2].scale = 39;
            words = "decimal";
            break;
        case 11:
            plan->join.result.field[0].nullable = !plan->join.result.field[0].nullable;
            words = "another type than its source";
            break;
        case 12:
            plan->join.side[1].relation.generator.row_bytes += 8;
            words = "other columns than its rows";
            break;
        case 13:
            plan->job.node[1].name[0] = '\x1b';
            words = "node 1 has a name that is not of letters";
            break;
        case 15:
            plan->join.type = JOIN_TYPE_COUNT;
            words = "type of join";
            break;
        case 16:
            plan->join.type = JOIN_TYPE_INNER; /* whose right columns are not padded */
            words = "another type than its source";
            break;
        case 17:
            plan->join.type = JOIN_TYPE_ANTI;
            plan->join.result.field[2].nullable = false;
            words = "a right column in its result";
            break;
        case 18:
            plan->join.null_aware = true;
            words = "NOT IN";
            break;
        case 14:
            plan->join.side[1].relation.generator.key_count = UINT64_MAX;
            words = "out of range";
            break;
        case 19:
            plan->join.into_table = true;
            words = "only a shuffle without an output";
            break;
        default:
            plan->join.side[0].relation.schema.field[3].width = SHUFFLE_ROW_BYTES_MAX + 1;
            words = "bytes wide";
            break;
        }
        refuse(&message, BASE_PROTOCOL, words);
        message_sample_done(&message);
    }
}

static void corpus_write(const char *path, const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        fail_msg("%s cannot be written", path);
}

/* The fuzzer's corpus must not fall behind the protocol: tests/fuzz/corpus/control holds the samples as bytes. After a
 * change of the protocol, run this test once with MILLRACE_CORPUS_WRITE=1 and commit what it wrote. */
static void test_corpus_is_current(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < CLUSTER_MESSAGE_COUNT; kind++) {
        struct cluster_message sample;
        uint8_t *bytes;
        size_t count;
        message_sample((enum cluster_message_kind)kind, &sample);
        if (kind == CLUSTER_MESSAGE_HELLO) /* the number changes with every source of the protocol */
            sample.hello.protocol = 0;
        encode(&sample, &bytes, &count);
        char path[512];
        snprintf(path, sizeof path, "%s/%s", MILLRACE_CORPUS, cluster_message_name(sample.kind));
        if (getenv("MILLRACE_CORPUS_WRITE"))
            corpus_write(path, bytes, count);
        FILE *file = fopen(path, "rb");
        if (!file)
            fail_msg("%s is missing", path);
        uint8_t *kept = malloc(count + 1);
        if (fread(kept, 1, count + 1, file) != count || memcmp(kept, bytes, count) != 0)
            fail_msg("%s is not the sample any more: write it again (MILLRACE_CORPUS_WRITE=1)", path);
        fclose(file);
        free(kept);
        free(bytes);
        message_sample_done(&sample);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_report_fields),
        cmocka_unit_test(test_step_fields),
        cmocka_unit_test(test_submit_fields),
        cmocka_unit_test(test_measurement_fields),
        cmocka_unit_test(test_bisect_requests),
        cmocka_unit_test(test_plan_fields),
        cmocka_unit_test(test_broken_bytes),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_failures_are_failures),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_plans_are_checked),
        cmocka_unit_test(test_corpus_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
