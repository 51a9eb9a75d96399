/* The codec: one envelope, an encoder and a decoder for each kind of message. */
#include "cluster/protocol/codec.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/build.h"
#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

/* Kinds of messages follow the numbers of the envelope's oneof. */
#define BODY_OF(kind) ((Wire__Envelope__BodyCase)((unsigned)(kind) + WIRE__ENVELOPE__BODY_HELLO))
_Static_assert((int)CLUSTER_MESSAGE_STAGED + (int)WIRE__ENVELOPE__BODY_HELLO == (int)WIRE__ENVELOPE__BODY_STAGED,
               "message kinds and the envelope disagree");
_Static_assert((int)CLUSTER_MESSAGE_RESOLVE + (int)WIRE__ENVELOPE__BODY_HELLO == (int)WIRE__ENVELOPE__BODY_RESOLVE,
               "message kinds and the envelope disagree");

static Wire__Hello *put_hello(struct wire_scratch *scratch, const struct cluster_hello *hello)
{
    Wire__Hello *wire = WIRE_MAKE(scratch, wire__hello);
    if (!wire)
        return NULL;
    wire->magic = hello->magic;
    wire->protocol = hello->protocol;
    wire->build = wire_bytes(hello->build);
    wire->role = hello->role;
    wire->name = wire_bytes(hello->name);
    wire->incarnation = hello->incarnation;
    wire->worker = wire_put_addresses(scratch, hello->worker, hello->worker_count);
    wire->n_worker = hello->worker_count;
    wire->memory_bytes = hello->memory_bytes;
    wire->engine = wire_bytes(hello->engine);
    wire->features = wire_bytes(hello->features);
    wire->engine_reason = wire_bytes(hello->engine_reason);
    wire->placement = wire_bytes(hello->placement);
    wire->pid = hello->pid;
    wire->doubt = hello->doubt;
    wire->n_doubt = hello->doubt_count;
    return wire;
}

static void get_hello(struct wire_reader *reader, const Wire__Hello *wire, struct cluster_hello *hello)
{
    if (wire->magic != CLUSTER_PROTOCOL_MAGIC) {
        wire_refuse(reader, BASE_PROTOCOL, "the peer does not speak Millrace's control protocol");
        return;
    }
    hello->magic = wire->magic;
    hello->protocol = wire->protocol;
    hello->build = wire_text(reader, "build", wire->build, CLUSTER_NAME_BYTES_MAX);
    char ours[BASE_BUILD_TEXT_BYTES];
    if (hello->build && wire->protocol != base_build_protocol())
        wire_refuse(reader, BASE_VERSION,
                    "millrace %s (protocol %08" PRIx32 ") cannot work with millrace %s: install one build of Millrace "
                    "on all machines",
                    hello->build, wire->protocol, base_build_describe(ours));
    hello->role = (enum cluster_role)wire_below(reader, "role", wire->role, CLUSTER_ROLE_COUNT);
    hello->name = wire_text(reader, "name", wire->name, CLUSTER_NAME_BYTES_MAX);
    hello->incarnation = wire->incarnation;
    hello->memory_bytes = wire->memory_bytes;
    hello->engine = wire_text(reader, "engine", wire->engine, CLUSTER_NAME_BYTES_MAX);
    hello->features = wire_text(reader, "features", wire->features, CLUSTER_TEXT_BYTES_MAX);
    hello->engine_reason = wire_text(reader, "engine's reason", wire->engine_reason, CLUSTER_TEXT_BYTES_MAX);
    hello->placement = wire_text(reader, "placement", wire->placement, CLUSTER_TEXT_BYTES_MAX);
    hello->pid = wire->pid;
    hello->doubt = wire_array(reader, "jobs in doubt", wire->n_doubt, CLUSTER_DOUBTS_MAX, sizeof *hello->doubt);
    hello->doubt_count = hello->doubt ? (uint32_t)wire->n_doubt : 0;
    if (hello->doubt)
        memcpy(hello->doubt, wire->doubt, wire->n_doubt * sizeof *hello->doubt);
    if (hello->role != CLUSTER_ROLE_CLIENT && hello->name && !hello->name[0])
        wire_refuse(reader, BASE_PROTOCOL, "a node without a name");
    if (hello->name && hello->name[0] && !cluster_name_good(hello->name))
        wire_refuse(reader, BASE_PROTOCOL, "a name that is not of letters, digits, '-', '_' and '.'");
    hello->worker = wire_array(reader, "workers", wire->n_worker, CLUSTER_WORKERS_MAX, sizeof *hello->worker);
    hello->worker_count = hello->worker ? (uint32_t)wire->n_worker : 0;
    if (hello->role == CLUSTER_ROLE_NODE && !hello->worker_count)
        wire_refuse(reader, BASE_PROTOCOL, "a node without workers");
    wire_get_addresses(reader, wire->worker, hello->worker_count, hello->worker);
}

static Wire__Progress *put_progress(struct wire_scratch *scratch, const struct cluster_progress *progress)
{
    Wire__Progress *wire = WIRE_MAKE(scratch, wire__progress);
    if (!wire)
        return NULL;
    wire->phase = progress->phase;
    wire->rows_scanned = progress->rows_scanned;
    wire->rows_expected = progress->rows_expected;
    wire->seconds = progress->seconds;
    return wire;
}

static Wire__Resolved *put_resolved(struct wire_scratch *scratch, const struct cluster_resolved *resolved)
{
    Wire__Resolved *wire = WIRE_MAKE(scratch, wire__resolved);
    Wire__Relation **list = wire_take(scratch, resolved->relation_count, sizeof *list);
    if (!wire || !list)
        return NULL;
    for (uint32_t i = 0; i < resolved->relation_count; i++)
        list[i] = wire_put_relation(scratch, &resolved->relation[i]);
    wire->relation = list;
    wire->n_relation = resolved->relation_count;
    wire->card = resolved->relation_count == 0 ? wire_put_card(scratch, &resolved->card) : NULL;
    return wire;
}

static void get_resolved(struct wire_reader *reader, const Wire__Resolved *wire, struct cluster_resolved *resolved)
{
    if (wire->n_relation == 0 && wire->card)
        wire_get_card(reader, wire->card, &resolved->card);
    else if (wire->n_relation < 1 || wire->n_relation > 2) {
        wire_refuse(reader, BASE_PROTOCOL, "%zu relations", wire->n_relation);
        return;
    }
    resolved->relation_count = (uint32_t)wire->n_relation;
    for (uint32_t i = 0; i < resolved->relation_count && !reader->failed; i++)
        wire_get_relation(reader, wire->relation[i], &resolved->relation[i]);
}

static Wire__Prepare *put_prepare(struct wire_scratch *scratch, const struct cluster_prepare *prepare)
{
    Wire__Prepare *wire = WIRE_MAKE(scratch, wire__prepare);
    protobuf_c_boolean *survey = wire_take(scratch, 2, sizeof *survey);
    if (!wire || !survey)
        return NULL;
    wire->plan = wire_put_plan(scratch, prepare->plan);
    wire->node = prepare->node;
    wire->morsel_capacity = (uint64_t *)(uintptr_t)prepare->morsel_capacity;
    wire->n_morsel_capacity = 2;
    survey[0] = prepare->survey[0];
    survey[1] = prepare->survey[1];
    wire->survey = survey;
    wire->n_survey = 2;
    return wire;
}

static void get_prepare(struct wire_reader *reader, const Wire__Prepare *wire, uint64_t job,
                        struct cluster_prepare *prepare)
{
    if (wire->n_morsel_capacity != 2 || wire->n_survey != 2) {
        wire_refuse(reader, BASE_PROTOCOL, "an order to prepare is malformed");
        return;
    }
    prepare->plan = wire_array(reader, "plan", 1, 1, sizeof *prepare->plan);
    if (!prepare->plan)
        return;
    wire_get_plan(reader, wire->plan, job, prepare->plan);
    if (!reader->failed)
        prepare->node = wire_below(reader, "number of the node", wire->node, prepare->plan->job.node_count);
    for (uint32_t side = 0; side < 2; side++) {
        prepare->survey[side] = wire->survey[side];
        prepare->morsel_capacity[side] =
            wire_below(reader, "number of morsels", wire->morsel_capacity[side], UINT32_MAX);
    }
}

static Wire__Welcome *put_welcome(struct wire_scratch *scratch, const struct cluster_welcome *welcome)
{
    Wire__Welcome *wire = WIRE_MAKE(scratch, wire__welcome);
    if (!wire)
        return NULL;
    wire->build = wire_bytes(welcome->build);
    wire->nodes_expected = welcome->nodes_expected;
    return wire;
}

static Wire__Commit *put_commit(struct wire_scratch *scratch, const struct cluster_commit *commit)
{
    Wire__Commit *wire = WIRE_MAKE(scratch, wire__commit);
    if (!wire)
        return NULL;
    wire->out = wire_bytes(commit->out);
    wire->extension = wire_bytes(commit->extension);
    wire->files = wire_bytes(commit->files);
    wire->first = commit->first;
    wire->count = commit->count;
    return wire;
}

static void get_commit(struct wire_reader *reader, const Wire__Commit *wire, struct cluster_commit *commit)
{
    commit->out = wire_text(reader, "output directory", wire->out, PATH_MAX);
    commit->extension = wire_text(reader, "extension", wire->extension, CLUSTER_NAME_BYTES_MAX);
    commit->files = wire_files(reader, wire->files);
    commit->first = wire_below(reader, "worker", wire->first, CLUSTER_WORKERS_MAX);
    commit->count = wire_below(reader, "workers", wire->count, CLUSTER_WORKERS_MAX);
    if (commit->extension && strcmp(commit->extension, "csv") != 0 && strcmp(commit->extension, "bin") != 0)
        wire_refuse(reader, BASE_PROTOCOL, "an extension that no output has");
    if (commit->out && commit->out[0] != '/')
        wire_refuse(reader, BASE_PROTOCOL, "the output directory is not an absolute path");
}

static Wire__Publish *put_publish(struct wire_scratch *scratch, const struct cluster_publish *publish)
{
    Wire__Publish *wire = WIRE_MAKE(scratch, wire__publish);
    if (!wire)
        return NULL;
    wire->out = wire_bytes(publish->out);
    wire->text = wire_bytes(publish->text);
    wire->files = wire_bytes(publish->files);
    wire->first = publish->first;
    return wire;
}

static void get_publish(struct wire_reader *reader, const Wire__Publish *wire, struct cluster_publish *publish)
{
    publish->out = wire_text(reader, "output directory", wire->out, PATH_MAX);
    publish->files = wire_files(reader, wire->files);
    publish->first = wire_below(reader, "worker", wire->first, CLUSTER_WORKERS_MAX);
    publish->text = wire_text(reader, "text of _SUCCESS.json", wire->text, CLUSTER_SUCCESS_BYTES_MAX);
    if (publish->out && publish->out[0] != '/')
        wire_refuse(reader, BASE_PROTOCOL, "the output directory is not an absolute path");
}

static Wire__Fault *put_fault(struct wire_scratch *scratch, const struct cluster_fault *fault)
{
    Wire__Fault *wire = WIRE_MAKE(scratch, wire__fault);
    if (!wire)
        return NULL;
    wire->side = fault->side;
    wire->morsel = fault->morsel;
    wire->error = wire_put_error(scratch, &fault->error);
    return wire;
}

static void get_fault(struct wire_reader *reader, const Wire__Fault *wire, struct cluster_fault *fault)
{
    fault->side = wire_below(reader, "side", wire->side, 2);
    fault->morsel = wire->morsel;
    wire_get_error(reader, wire->error, &fault->error);
    if (!reader->failed && !base_status_is_failure(fault->error.status))
        wire_refuse(reader, BASE_PROTOCOL, "a fault without an error");
}

/* Messages that are one value or two, or none. */
static void *put_small(struct wire_scratch *scratch, const struct cluster_message *message)
{
    switch (message->kind) {
    case CLUSTER_MESSAGE_BEAT: {
        Wire__Beat *wire = WIRE_MAKE(scratch, wire__beat);
        if (wire) {
            wire->sequence = message->beat.sequence;
            wire->stuck_ns = message->beat.stuck_ns;
        }
        return wire;
    }
    case CLUSTER_MESSAGE_LOW: {
        Wire__Low *wire = WIRE_MAKE(scratch, wire__low);
        if (wire)
            wire->side = message->low.side;
        return wire;
    }
    case CLUSTER_MESSAGE_HALT: {
        Wire__Halt *wire = WIRE_MAKE(scratch, wire__halt);
        if (wire) {
            wire->side = message->halt.side;
            wire->morsel = message->halt.morsel;
        }
        return wire;
    }
    case CLUSTER_MESSAGE_NODE_PROGRESS: {
        Wire__NodeProgress *wire = WIRE_MAKE(scratch, wire__node_progress);
        if (wire)
            wire->rows = message->node_progress.rows;
        return wire;
    }
    case CLUSTER_MESSAGE_STAGE: {
        Wire__Stage *wire = WIRE_MAKE(scratch, wire__stage);
        if (wire)
            wire->text = wire_bytes(message->stage.text);
        return wire;
    }
    case CLUSTER_MESSAGE_RELEASE: {
        Wire__Release *wire = WIRE_MAKE(scratch, wire__release);
        if (wire)
            wire->abort = message->release.abort;
        return wire;
    }
    default:
        return WIRE_MAKE(scratch, wire__empty);
    }
}

static void *put_body(struct wire_scratch *scratch, const struct cluster_message *message)
{
    switch (message->kind) {
    case CLUSTER_MESSAGE_HELLO:
        return put_hello(scratch, &message->hello);
    case CLUSTER_MESSAGE_WELCOME:
        return put_welcome(scratch, &message->welcome);
    case CLUSTER_MESSAGE_REFUSED:
    case CLUSTER_MESSAGE_ANSWER:
    case CLUSTER_MESSAGE_FAILED:
    case CLUSTER_MESSAGE_BROKEN:
        return wire_put_error(scratch, &message->answer.error);
    case CLUSTER_MESSAGE_FAULT:
        return put_fault(scratch, &message->fault);
    case CLUSTER_MESSAGE_SUBMIT:
        return wire_put_submit(scratch, &message->submit);
    case CLUSTER_MESSAGE_PROGRESS:
        return put_progress(scratch, &message->progress);
    case CLUSTER_MESSAGE_REPORT:
        return wire_put_report(scratch, &message->report);
    case CLUSTER_MESSAGE_NODES:
        return wire_put_nodes(scratch, &message->nodes);
    case CLUSTER_MESSAGE_JOBS:
        return wire_put_jobs(scratch, &message->jobs);
    case CLUSTER_MESSAGE_RESOLVE:
        return wire_put_resolve(scratch, &message->resolve);
    case CLUSTER_MESSAGE_RESOLVED:
        return put_resolved(scratch, &message->resolved);
    case CLUSTER_MESSAGE_PREPARE:
        return put_prepare(scratch, &message->prepare);
    case CLUSTER_MESSAGE_STEP:
    case CLUSTER_MESSAGE_CLOSED:
        return wire_put_step(scratch, &message->step);
    case CLUSTER_MESSAGE_SURVEY:
        return wire_put_survey(scratch, &message->survey);
    case CLUSTER_MESSAGE_SURVEYED:
        return wire_put_surveyed(scratch, &message->surveyed);
    case CLUSTER_MESSAGE_START:
        return wire_put_start(scratch, &message->start);
    case CLUSTER_MESSAGE_LEND:
        return wire_put_lend(scratch, &message->lend);
    case CLUSTER_MESSAGE_COMMIT:
        return put_commit(scratch, &message->commit);
    case CLUSTER_MESSAGE_PUBLISH:
        return put_publish(scratch, &message->publish);
    case CLUSTER_MESSAGE_MEASURE:
        return wire_put_measure(scratch, &message->measure);
    case CLUSTER_MESSAGE_MEASURED:
        return wire_put_measured(scratch, &message->measured);
    case CLUSTER_MESSAGE_SCHEDULE:
        return wire_put_schedule(scratch, &message->schedule);
    case CLUSTER_MESSAGE_MEASUREMENT:
        return wire_put_measurement(scratch, &message->measurement);
    default:
        return put_small(scratch, message);
    }
}

enum base_status cluster_codec_encode(const struct cluster_message *message, size_t reserve, uint8_t **bytes,
                                      size_t *count, struct base_error *error)
{
    BASE_ASSERT((unsigned)message->kind < CLUSTER_MESSAGE_COUNT);
    const size_t least = cluster_message_bytes_least(message);
    if (least > CLUSTER_MESSAGE_BYTES_MAX)
        return cluster_message_too_large(message, least, CLUSTER_MESSAGE_BYTES_MAX, error);
    struct wire_scratch scratch = {0};
    enum base_status status = BASE_NO_MEMORY;
    Wire__Envelope envelope = WIRE__ENVELOPE__INIT;
    envelope.job = message->job;
    envelope.body_case = BODY_OF(message->kind);
    /* All members of the union are pointers to a message. */
    envelope.hello = put_body(&scratch, message);
    if (scratch.failed)
        goto release;
    const size_t size = wire__envelope__get_packed_size(&envelope);
    if (size > CLUSTER_MESSAGE_BYTES_MAX) {
        wire_release(&scratch);
        return cluster_message_too_large(message, size, CLUSTER_MESSAGE_BYTES_MAX, error);
    }
    uint8_t *packed = malloc(reserve + size + 1);
    if (packed) {
        wire__envelope__pack(&envelope, packed + reserve);
        *bytes = packed;
        *count = reserve + size;
        status = BASE_OK;
    }
release:
    if (status != BASE_OK)
        base_error_set(error, status, "no memory for a control message %s", cluster_message_name(message->kind));
    wire_release(&scratch);
    return status;
}

static void get_job_message(struct wire_reader *reader, const Wire__Envelope *envelope, struct cluster_message *message)
{
    switch (message->kind) {
    case CLUSTER_MESSAGE_RESOLVE:
        wire_get_resolve(reader, envelope->resolve, &message->resolve);
        break;
    case CLUSTER_MESSAGE_RESOLVED:
        get_resolved(reader, envelope->resolved, &message->resolved);
        break;
    case CLUSTER_MESSAGE_PREPARE:
        get_prepare(reader, envelope->prepare, message->job, &message->prepare);
        break;
    case CLUSTER_MESSAGE_STEP:
        wire_get_step(reader, envelope->step, &message->step);
        break;
    case CLUSTER_MESSAGE_CLOSED:
        wire_get_step(reader, envelope->closed, &message->step);
        break;
    case CLUSTER_MESSAGE_SURVEY:
        wire_get_lend(reader, envelope->survey->left, &message->survey.lend[0]);
        wire_get_lend(reader, envelope->survey->right, &message->survey.lend[1]);
        break;
    case CLUSTER_MESSAGE_SURVEYED:
        wire_get_survey_columns(reader, envelope->surveyed->left, &message->surveyed.survey[0],
                                &message->surveyed.count[0]);
        wire_get_survey_columns(reader, envelope->surveyed->right, &message->surveyed.survey[1],
                                &message->surveyed.count[1]);
        break;
    case CLUSTER_MESSAGE_START:
        message->start.pass = wire_below(reader, "pass", envelope->start->pass, 2);
        wire_get_lend(reader, envelope->start->lend, &message->start.lend);
        break;
    case CLUSTER_MESSAGE_LEND:
        wire_get_lend(reader, envelope->lend, &message->lend);
        break;
    case CLUSTER_MESSAGE_LOW:
        message->low.side = wire_below(reader, "side", envelope->low->side, 2);
        break;
    case CLUSTER_MESSAGE_FAULT:
        get_fault(reader, envelope->fault, &message->fault);
        break;
    case CLUSTER_MESSAGE_HALT:
        message->halt.side = wire_below(reader, "side", envelope->halt->side, 2);
        message->halt.morsel = envelope->halt->morsel;
        break;
    case CLUSTER_MESSAGE_NODE_PROGRESS:
        message->node_progress.rows = envelope->node_progress->rows;
        break;
    case CLUSTER_MESSAGE_STAGE:
        message->stage.text =
            wire_text(reader, "text of _SUCCESS.json", envelope->stage->text, CLUSTER_SUCCESS_BYTES_MAX);
        break;
    case CLUSTER_MESSAGE_COMMIT:
        get_commit(reader, envelope->commit, &message->commit);
        break;
    case CLUSTER_MESSAGE_PUBLISH:
        get_publish(reader, envelope->publish, &message->publish);
        break;
    case CLUSTER_MESSAGE_RELEASE:
        message->release.abort = envelope->release->abort;
        break;
    case CLUSTER_MESSAGE_MEASURE:
        wire_get_measure(reader, envelope->measure, &message->measure);
        break;
    case CLUSTER_MESSAGE_MEASURED:
        wire_get_measured(reader, envelope->measured, &message->measured);
        break;
    case CLUSTER_MESSAGE_SCHEDULE:
        wire_get_schedule(reader, envelope->schedule, &message->schedule);
        break;
    case CLUSTER_MESSAGE_MEASUREMENT:
        wire_get_measurement(reader, envelope->measurement, &message->measurement);
        break;
    default: /* empty */
        break;
    }
}

static void get_message(struct wire_reader *reader, const Wire__Envelope *envelope, struct cluster_message *message)
{
    switch (message->kind) {
    case CLUSTER_MESSAGE_HELLO:
        get_hello(reader, envelope->hello, &message->hello);
        break;
    case CLUSTER_MESSAGE_WELCOME:
        message->welcome.build = wire_text(reader, "build", envelope->welcome->build, CLUSTER_NAME_BYTES_MAX);
        message->welcome.nodes_expected = envelope->welcome->nodes_expected;
        break;
    case CLUSTER_MESSAGE_REFUSED:
    case CLUSTER_MESSAGE_ANSWER:
    case CLUSTER_MESSAGE_FAILED:
    case CLUSTER_MESSAGE_BROKEN:
        /* They share their form in the union of either struct. */
        wire_get_error(reader, envelope->refused, &message->answer.error);
        if (message->kind != CLUSTER_MESSAGE_ANSWER && !base_status_is_failure(message->answer.error.status))
            message->answer.error.status = BASE_INTERNAL; /* a failure that says it is none */
        break;
    case CLUSTER_MESSAGE_BEAT:
        message->beat.sequence = envelope->beat->sequence;
        message->beat.stuck_ns = envelope->beat->stuck_ns;
        break;
    case CLUSTER_MESSAGE_SUBMIT:
        wire_get_submit(reader, envelope->submit, &message->submit);
        break;
    case CLUSTER_MESSAGE_PROGRESS:
        message->progress.phase =
            (enum cluster_phase)wire_below(reader, "phase", envelope->progress->phase, CLUSTER_PHASE_COUNT);
        message->progress.rows_scanned = envelope->progress->rows_scanned;
        message->progress.rows_expected = envelope->progress->rows_expected;
        message->progress.seconds = envelope->progress->seconds;
        break;
    case CLUSTER_MESSAGE_REPORT:
        wire_get_report(reader, envelope->report, &message->report);
        break;
    case CLUSTER_MESSAGE_NODES:
        wire_get_nodes(reader, envelope->nodes, &message->nodes);
        break;
    case CLUSTER_MESSAGE_JOBS:
        wire_get_jobs(reader, envelope->jobs, &message->jobs);
        break;
    default:
        get_job_message(reader, envelope, message);
        break;
    }
}

enum base_status cluster_codec_decode(const uint8_t *bytes, size_t count, struct cluster_message *message,
                                      struct base_error *error)
{
    if (count > CLUSTER_MESSAGE_BYTES_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "control message of %zu bytes is larger than %u", count,
                              CLUSTER_MESSAGE_BYTES_MAX);
    Wire__Envelope *envelope = wire__envelope__unpack(NULL, count, bytes);
    if (!envelope)
        return base_error_set(error, BASE_PROTOCOL, "control message of %zu bytes does not decode", count);
    struct base_error local;
    struct wire_reader reader = {.error = &local};
    struct cluster_message decoded;
    memset(&decoded, 0, sizeof decoded);
    const unsigned kind = (unsigned)envelope->body_case - (unsigned)WIRE__ENVELOPE__BODY_HELLO;
    if (envelope->body_case == WIRE__ENVELOPE__BODY__NOT_SET || kind >= CLUSTER_MESSAGE_COUNT || !envelope->hello) {
        wire_refuse(&reader, BASE_PROTOCOL, "a kind that this build does not know");
    } else {
        decoded.kind = (enum cluster_message_kind)kind;
        decoded.job = envelope->job;
        get_message(&reader, envelope, &decoded);
    }
    wire__envelope__free_unpacked(envelope, NULL);
    if (reader.failed) {
        if (error)
            *error = local;
        cluster_message_free(&decoded);
        return local.status;
    }
    *message = decoded;
    return BASE_OK;
}
