/* Inside the codec only: the tools its files share to turn structs into protobuf's trees and back.
 *
 * Encoding builds a tree in a scratch, which is freed as a whole; texts and numbers are borrowed from the message.
 * Decoding walks protobuf's tree with a reader whose first complaint sticks: after it every further step is harmless,
 * and the message is thrown away at the end. */
#ifndef MILLRACE_CLUSTER_PROTOCOL_CODEC_WIRE_H
#define MILLRACE_CLUSTER_PROTOCOL_CODEC_WIRE_H

#include "cluster/protocol/codec.h"

/* Of the generated header, which only the codec's sources include. */
struct ProtobufCBinaryData;
struct Wire__Address;
struct Wire__BisectRequest;
struct Wire__Card;
struct Wire__Measure;
struct Wire__Measured;
struct Wire__Measurement;
struct Wire__Schedule;
struct Wire__Start;
struct Wire__SurveyColumns;
struct Wire__Surveyed;
struct Wire__Survey;
struct Wire__Lend;
struct Wire__Error;
struct Wire__Jobs;
struct Wire__Nodes;
struct Wire__Plan;
struct Wire__Relation;
struct Wire__Rejects;
struct Wire__Skipped;
struct Wire__Report;
struct Wire__Settings;
struct Wire__Step;

struct wire_block;
struct wire_scratch {
    struct wire_block *blocks;
    bool failed; /* out of memory: the tree is unusable */
};
/* Zeroed memory for count items (at least one byte), or NULL; the scratch is then failed. */
void *wire_take(struct wire_scratch *scratch, size_t count, size_t bytes);
void wire_release(struct wire_scratch *scratch);

/* Borrows text; NULL is empty. */
struct ProtobufCBinaryData wire_bytes(const char *text);

/* Makes an initialised node of the tree, or NULL. */
#define WIRE_MAKE(scratch, lower)                                                                                      \
    ({                                                                                                                 \
        void *made = wire_take(scratch, 1, lower##__descriptor.sizeof_message);                                        \
        if (made)                                                                                                      \
            lower##__init(made);                                                                                       \
        made;                                                                                                          \
    })

struct wire_reader {
    bool failed;
    struct base_error *error;
};
/* Notes the first complaint. */
void wire_refuse(struct wire_reader *reader, enum base_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Text without NUL of at most max bytes, as a malloc'ed string; absent is "". */
char *wire_text(struct wire_reader *reader, const char *what, struct ProtobufCBinaryData data, size_t max);
/* What a job's files are called after: letters, digits and hyphens, so that it leads nowhere else. */
char *wire_files(struct wire_reader *reader, struct ProtobufCBinaryData data);
/* Like wire_text, but absent is NULL. */
char *wire_text_or_null(struct wire_reader *reader, const char *what, struct ProtobufCBinaryData data, size_t max);
/* An enumeration or number below limit; else complains and gives 0. */
uint32_t wire_below(struct wire_reader *reader, const char *what, uint64_t value, uint64_t limit);
/* Zeroed array of count items when count <= max, else complains; NULL for 0 or a complaint. */
void *wire_array(struct wire_reader *reader, const char *what, size_t count, size_t max, size_t bytes);
/* Complains unless a submessage is there. */
bool wire_there(struct wire_reader *reader, const char *what, const void *message);

/* Structs of `count` measures (base/measure.h); get complains about another number of them. */
uint64_t *wire_put_measures(struct wire_scratch *scratch, const void *measures, uint32_t count);
void wire_get_measures(struct wire_reader *reader, const uint64_t *values, size_t value_count, void *measures,
                       uint32_t count);

/* codec_bisect.c */
struct Wire__BisectRequest *wire_put_bisect_request(struct wire_scratch *scratch,
                                                    const struct cluster_bisect_request *request);
void wire_get_bisect_request(struct wire_reader *reader, const struct Wire__BisectRequest *wire,
                             struct cluster_bisect_request *request);
struct Wire__Card *wire_put_card(struct wire_scratch *scratch, const struct cluster_card *card);
void wire_get_card(struct wire_reader *reader, const struct Wire__Card *wire, struct cluster_card *card);
struct Wire__Measure *wire_put_measure(struct wire_scratch *scratch, const struct cluster_measure *measure);
void wire_get_measure(struct wire_reader *reader, const struct Wire__Measure *wire, struct cluster_measure *measure);
struct Wire__Measured *wire_put_measured(struct wire_scratch *scratch, const struct cluster_measured *measured);
void wire_get_measured(struct wire_reader *reader, const struct Wire__Measured *wire,
                       struct cluster_measured *measured);
struct Wire__Schedule *wire_put_schedule(struct wire_scratch *scratch, const struct cluster_schedule *schedule);
void wire_get_schedule(struct wire_reader *reader, const struct Wire__Schedule *wire,
                       struct cluster_schedule *schedule);
struct Wire__Measurement *wire_put_measurement(struct wire_scratch *scratch,
                                               const struct cluster_measurement *measurement);
void wire_get_measurement(struct wire_reader *reader, const struct Wire__Measurement *wire,
                          struct cluster_measurement *measurement);

/* codec_morsel.c */
struct Wire__Lend *wire_put_lend(struct wire_scratch *scratch, const struct cluster_lend *lend);
void wire_get_lend(struct wire_reader *reader, const struct Wire__Lend *wire, struct cluster_lend *lend);
struct Wire__Survey *wire_put_survey(struct wire_scratch *scratch, const struct cluster_survey *survey);
struct Wire__Surveyed *wire_put_surveyed(struct wire_scratch *scratch, const struct cluster_surveyed *surveyed);
void wire_get_survey_columns(struct wire_reader *reader, const struct Wire__SurveyColumns *wire,
                             struct shuffle_survey **survey, uint64_t *count);
struct Wire__Start *wire_put_start(struct wire_scratch *scratch, const struct cluster_start *start);

/* codec_plan.c: settings, addresses and plans. */
struct Wire__Settings *wire_put_settings(struct wire_scratch *scratch, const struct shuffle_settings *settings);
void wire_get_settings(struct wire_reader *reader, const struct Wire__Settings *wire,
                       struct shuffle_settings *settings);
struct Wire__Plan *wire_put_plan(struct wire_scratch *scratch, const struct cluster_plan *plan);
void wire_get_plan(struct wire_reader *reader, const struct Wire__Plan *wire, uint64_t job, struct cluster_plan *plan);
struct Wire__Address **wire_put_addresses(struct wire_scratch *scratch, const struct net_address *address,
                                          uint32_t count);
void wire_get_addresses(struct wire_reader *reader, struct Wire__Address **wire, size_t count,
                        struct net_address *address);

/* codec_reject.c: bad rows. */
struct Wire__Rejects *wire_put_rejects(struct wire_scratch *scratch, const struct shuffle_rejects *rejects);
void wire_get_rejects(struct wire_reader *reader, const struct Wire__Rejects *wire, struct shuffle_rejects **rejects);
struct Wire__Skipped **wire_put_skipped(struct wire_scratch *scratch, const struct cluster_skipped skipped[2]);
void wire_get_skipped(struct wire_reader *reader, struct Wire__Skipped *const *wire, size_t count,
                      struct cluster_skipped skipped[2]);

/* codec_relation.c: schemas and relations. */
struct Wire__Field **wire_put_schema(struct wire_scratch *scratch, const struct shuffle_schema *schema);
void wire_get_schema(struct wire_reader *reader, struct Wire__Field **wire, size_t count,
                     struct shuffle_schema *schema);
struct Wire__Relation *wire_put_relation(struct wire_scratch *scratch, const struct shuffle_relation *relation);
void wire_get_relation(struct wire_reader *reader, const struct Wire__Relation *wire,
                       struct shuffle_relation *relation);

/* codec_report.c: reports and lists. */
struct Wire__Report *wire_put_report(struct wire_scratch *scratch, const struct cluster_report *report);
void wire_get_report(struct wire_reader *reader, const struct Wire__Report *wire, struct cluster_report *report);
struct Wire__Step *wire_put_step(struct wire_scratch *scratch, const struct cluster_step *step);
void wire_get_step(struct wire_reader *reader, const struct Wire__Step *wire, struct cluster_step *step);
struct Wire__Nodes *wire_put_nodes(struct wire_scratch *scratch, const struct cluster_nodes *nodes);
void wire_get_nodes(struct wire_reader *reader, const struct Wire__Nodes *wire, struct cluster_nodes *nodes);
struct Wire__Jobs *wire_put_jobs(struct wire_scratch *scratch, const struct cluster_jobs *jobs);
void wire_get_jobs(struct wire_reader *reader, const struct Wire__Jobs *wire, struct cluster_jobs *jobs);
/* A copy of the texts that mean NULL. */
void wire_get_null_texts(struct wire_reader *reader, struct ProtobufCBinaryData data,
                         char texts[SHUFFLE_NULL_TEXTS_BYTES]);
struct Wire__Error *wire_put_error(struct wire_scratch *scratch, const struct base_error *error);
void wire_get_error(struct wire_reader *reader, const struct Wire__Error *wire, struct base_error *error);

/* codec_submit.c */
struct Wire__Submit *wire_put_submit(struct wire_scratch *scratch, const struct cluster_submit *submit);
void wire_get_submit(struct wire_reader *reader, const struct Wire__Submit *wire, struct cluster_submit *submit);
struct Wire__Resolve *wire_put_resolve(struct wire_scratch *scratch, const struct cluster_resolve *resolve);
void wire_get_resolve(struct wire_reader *reader, const struct Wire__Resolve *wire, struct cluster_resolve *resolve);

#endif
