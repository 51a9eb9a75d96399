/* Words, release and small rules of messages. */
#include "cluster/protocol/message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool cluster_name_good(const char *name)
{
    const size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return good > 0 && good <= CLUSTER_NAME_BYTES_MAX && name[good] == '\0';
}

const char *cluster_message_name(enum cluster_message_kind kind)
{
    static const char *const names[] = {
#define X(name) #name,
        CLUSTER_MESSAGE_LIST(X)
#undef X
    };
    return (unsigned)kind < CLUSTER_MESSAGE_COUNT ? names[kind] : "UNKNOWN";
}

const char *cluster_phase_words(enum cluster_phase phase)
{
    static const char *const words[] = {
#define X(name, text) text,
        CLUSTER_PHASE_LIST(X)
#undef X
    };
    return (unsigned)phase < CLUSTER_PHASE_COUNT ? words[phase] : "unknown";
}

const char *cluster_limit_words(enum cluster_limit limit)
{
    static const char *const words[] = {
#define X(name, text) text,
        CLUSTER_LIMIT_LIST(X)
#undef X
    };
    return (unsigned)limit < CLUSTER_LIMIT_COUNT ? words[limit] : "unknown";
}

struct files {
    uint64_t count;
    size_t path_bytes;
};

static void add_files(const struct shuffle_relation *relation, struct files *files)
{
    files->count += relation->file_count;
    for (uint32_t i = 0; i < relation->file_count; i++)
        files->path_bytes += strlen(relation->file[i].path);
}

/* The files that a message lists. */
static struct files files_of(const struct cluster_message *message)
{
    struct files files = {0};
    if (message->kind == CLUSTER_MESSAGE_PREPARE)
        for (uint32_t i = 0; i < message->prepare.plan->join.sides; i++)
            add_files(&message->prepare.plan->join.side[i].relation, &files);
    else if (message->kind == CLUSTER_MESSAGE_RESOLVED)
        for (uint32_t i = 0; i < message->resolved.relation_count; i++)
            add_files(&message->resolved.relation[i], &files);
    return files;
}

size_t cluster_message_bytes_least(const struct cluster_message *message)
{
    return files_of(message).path_bytes;
}

enum base_status cluster_message_too_large(const struct cluster_message *message, size_t bytes, size_t bytes_max,
                                           struct base_error *error)
{
    const double mib = (double)bytes / (1 << 20), mib_max = (double)bytes_max / (1 << 20);
    switch (message->kind) {
    case CLUSTER_MESSAGE_PREPARE:
    case CLUSTER_MESSAGE_RESOLVED:
        return base_error_set(error, BASE_TOO_LARGE,
                              "%s %" PRIu64
                              " files and takes %.1f MiB, but a control message holds at most %g MiB: use "
                              "fewer files, or shorter paths",
                              message->kind == CLUSTER_MESSAGE_PREPARE ? "the plan of this job lists"
                                                                       : "what this node found for the sources lists",
                              files_of(message).count, mib, mib_max);
    case CLUSTER_MESSAGE_SURVEY:
    case CLUSTER_MESSAGE_SURVEYED:
    case CLUSTER_MESSAGE_START:
    case CLUSTER_MESSAGE_LEND:
        return base_error_set(error, BASE_TOO_LARGE,
                              "a list of the input's morsels (%s) takes %.1f MiB, but a control message holds at most "
                              "%g MiB: divide the input into larger ones with --morsel-bytes",
                              cluster_message_name(message->kind), mib, mib_max);
    default:
        return base_error_set(error, BASE_TOO_LARGE,
                              "the control message %s takes %.1f MiB, and may take %g MiB at most",
                              cluster_message_name(message->kind), mib, mib_max);
    }
}

static bool message_choose(enum cluster_choice choice, bool otherwise)
{
    return choice == CLUSTER_CHOICE_DEFAULT ? otherwise : choice == CLUSTER_CHOICE_YES;
}

void cluster_source_apply(const struct cluster_source *source, struct shuffle_relation *relation)
{
    if (source->format != CLUSTER_FORMAT_BY_SUFFIX)
        relation->format = source->format == CLUSTER_FORMAT_CSV ? SHUFFLE_FORMAT_CSV : SHUFFLE_FORMAT_FIXED;
    relation->format_given = source->format != CLUSTER_FORMAT_BY_SUFFIX;
    relation->delimiter_given = source->delimiter != 0;
    if (source->delimiter)
        relation->csv.delimiter = source->delimiter;
    if (source->quote)
        relation->csv.quote = source->quote;
    memcpy(relation->csv.null_texts, source->null_texts, sizeof relation->csv.null_texts);
    relation->csv.bad_rows_max = source->bad_rows_max;
    relation->csv.header = message_choose(source->header, relation->csv.header);
    relation->csv.empty_is_null = message_choose(source->empty_is_null, relation->csv.empty_is_null);
    relation->csv.quoted_empty_is_null =
        message_choose(source->quoted_empty_is_null, relation->csv.quoted_empty_is_null);
}

int cluster_exit_code(enum base_status status)
{
    switch (status) {
    case BASE_OK:
        return 0;
    case BASE_NODE_MISSING:
    case BASE_NODE_REFUSED:
    case BASE_UNREACHABLE:
    case BASE_VERSION:
        return 3;
    case BASE_CANCELLED:
        return 4;
    default:
        return 1;
    }
}

static void free_hello(struct cluster_hello *hello)
{
    free(hello->build);
    free(hello->name);
    free(hello->worker);
    free(hello->engine);
    free(hello->features);
    free(hello->engine_reason);
    free(hello->placement);
    free(hello->doubt);
}

static void free_source(struct cluster_source *source)
{
    free(source->text);
    free(source->schema);
}

static void free_submit(struct cluster_submit *submit)
{
    free_source(&submit->source[0]);
    free_source(&submit->source[1]);
    for (uint32_t i = 0; i < submit->bisect.rack_count; i++) {
        free(submit->bisect.rack[i].node);
        free(submit->bisect.rack[i].rack);
    }
    free(submit->bisect.rack);
    free(submit->on);
    free(submit->select);
    free(submit->out);
}

static void free_skipped(struct cluster_skipped *skipped)
{
    for (uint32_t i = 0; i < skipped->row_count; i++) {
        free(skipped->row[i].node);
        free(skipped->row[i].path);
        free(skipped->row[i].reason);
    }
    free(skipped->row);
}

static void free_report(struct cluster_report *report)
{
    free_skipped(&report->skipped[0]);
    free_skipped(&report->skipped[1]);
    free(report->engine);
    free(report->features);
    free(report->engine_reason);
    free(report->limit_words);
    for (uint32_t i = 0; i < report->node_count; i++) {
        free(report->node[i].name);
        free(report->node[i].engine_decision);
    }
    free(report->node);
    free(report->link);
}

static void free_nodes(struct cluster_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        free(nodes->entry[i].name);
        free(nodes->entry[i].address);
        free(nodes->entry[i].engine);
        free(nodes->entry[i].features);
        free(nodes->entry[i].engine_reason);
        free(nodes->entry[i].placement);
        free(nodes->entry[i].build);
    }
    free(nodes->entry);
}

static void free_jobs(struct cluster_jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->count; i++) {
        free(jobs->entry[i].words);
        free(jobs->entry[i].error);
    }
    free(jobs->entry);
}

void cluster_plan_free(struct cluster_plan *plan)
{
    join_plan_free(&plan->join);
    shuffle_job_free(&plan->job);
    memset(plan, 0, sizeof *plan);
}

static void free_prepare(struct cluster_prepare *prepare)
{
    if (prepare->plan) {
        cluster_plan_free(prepare->plan);
        free(prepare->plan);
    }
}

void cluster_message_free(struct cluster_message *message)
{
    switch (message->kind) {
    case CLUSTER_MESSAGE_HELLO:
        free_hello(&message->hello);
        break;
    case CLUSTER_MESSAGE_WELCOME:
        free(message->welcome.build);
        break;
    case CLUSTER_MESSAGE_SUBMIT:
        free_submit(&message->submit);
        break;
    case CLUSTER_MESSAGE_REPORT:
        free_report(&message->report);
        break;
    case CLUSTER_MESSAGE_NODES:
        free_nodes(&message->nodes);
        break;
    case CLUSTER_MESSAGE_JOBS:
        free_jobs(&message->jobs);
        break;
    case CLUSTER_MESSAGE_RESOLVE:
        free_source(&message->resolve.source[0]);
        free_source(&message->resolve.source[1]);
        free(message->resolve.out);
        free(message->resolve.state);
        free(message->resolve.live);
        break;
    case CLUSTER_MESSAGE_RESOLVED:
        shuffle_relation_free(&message->resolved.relation[0]);
        shuffle_relation_free(&message->resolved.relation[1]);
        break;
    case CLUSTER_MESSAGE_PREPARE:
        free_prepare(&message->prepare);
        break;
    case CLUSTER_MESSAGE_STEP:
    case CLUSTER_MESSAGE_CLOSED:
        free(message->step.sent_bytes);
        free(message->step.received_bytes);
        free(message->step.engine);
        free(message->step.features);
        free(message->step.engine_reason);
        free(message->step.engine_decision);
        free(message->step.rejects[0]);
        free(message->step.rejects[1]);
        break;
    case CLUSTER_MESSAGE_SURVEY:
        free(message->survey.lend[0].morsel);
        free(message->survey.lend[1].morsel);
        break;
    case CLUSTER_MESSAGE_SURVEYED:
        free(message->surveyed.survey[0]);
        free(message->surveyed.survey[1]);
        break;
    case CLUSTER_MESSAGE_START:
        free(message->start.lend.morsel);
        break;
    case CLUSTER_MESSAGE_LEND:
        free(message->lend.morsel);
        break;
    case CLUSTER_MESSAGE_STAGE:
        free(message->stage.text);
        break;
    case CLUSTER_MESSAGE_COMMIT:
        free(message->commit.out);
        free(message->commit.extension);
        free(message->commit.files);
        break;
    case CLUSTER_MESSAGE_PUBLISH:
        free(message->publish.out);
        free(message->publish.text);
        free(message->publish.files);
        break;
    case CLUSTER_MESSAGE_MEASURE:
        free(message->measure.send);
        free(message->measure.receive);
        break;
    case CLUSTER_MESSAGE_MEASURED:
        free(message->measured.bytes);
        free(message->measured.window);
        break;
    case CLUSTER_MESSAGE_SCHEDULE:
        for (uint32_t i = 0; i < message->schedule.node_count; i++)
            free(message->schedule.node[i].name);
        free(message->schedule.node);
        break;
    case CLUSTER_MESSAGE_MEASUREMENT:
        free(message->measurement.half);
        free(message->measurement.flow);
        free(message->measurement.flow_bytes);
        free(message->measurement.window);
        break;
    default:
        break;
    }
    memset(message, 0, sizeof *message);
}
