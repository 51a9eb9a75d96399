/* The survey: counts quotes and line ends of every morsel, so that each can be told whether it starts inside quotes and
 * at which line. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "shuffle/csv/parse.h"
#include "shuffle/scan/internal.h"
#include "shuffle/scan/reader.h"

enum base_status shuffle_survey_apply(const struct shuffle_survey *surveys, struct shuffle_morsel *morsels,
                                      uint64_t count, struct base_error *error)
{
    uint64_t *place = calloc(count > 0 ? count : 1, sizeof *place); /* of each morsel's survey, from 1; 0: none yet */
    if (!place)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the surveys of %" PRIu64 " morsels", count);
    enum base_status status = BASE_OK;
    for (uint64_t i = 0; i < count && status == BASE_OK; i++) {
        const uint64_t index = surveys[i].index;
        if (index >= count || place[index] != 0)
            status = base_error_set(error, BASE_PROTOCOL, "the survey of morsel %" PRIu64 " of %" PRIu64 " is %s",
                                    index, count, index >= count ? "of no morsel" : "there twice");
        else
            place[index] = i + 1;
    }
    uint64_t quotes = 0, newlines = 0;
    for (uint64_t i = 0; i < count && status == BASE_OK; i++) {
        if (i == 0 || morsels[i].file != morsels[i - 1].file)
            quotes = newlines = 0;
        morsels[i].quote_open = quotes % 2 == 1;
        morsels[i].line = newlines + 1;
        quotes += surveys[place[i] - 1].quotes; /* count different indices below count: none is missing */
        newlines += surveys[place[i] - 1].newlines;
    }
    free(place);
    return status;
}

struct survey_scan {
    struct shuffle_scan scan;
    struct shuffle_reader *reader;
    uint64_t at, end; /* what is left of the morsel */
    struct shuffle_survey found;
};

static struct survey_scan *survey_of(const struct shuffle_scan *scan)
{
    return (struct survey_scan *)(uintptr_t)scan;
}

static enum base_status survey_begin(struct shuffle_scan *scan, const struct shuffle_morsel *morsel,
                                     struct base_error *error)
{
    (void)error;
    struct survey_scan *survey = survey_of(scan);
    const struct shuffle_file *file = &scan->config.relation->file[morsel->file];
    survey->at = morsel->begin;
    survey->end = file->packing == SHUFFLE_PACKING_NONE ? morsel->end : morsel->begin; /* no morsel follows it */
    survey->found = (struct shuffle_survey){.index = morsel->index};
    shuffle_reader_begin(survey->reader, file, morsel->begin, morsel->end);
    return BASE_OK;
}

static enum base_status survey_next(struct shuffle_scan *scan, struct base_error *error)
{
    struct survey_scan *survey = survey_of(scan);
    while (survey->at < survey->end) {
        struct shuffle_reader_block block;
        const enum base_status status = shuffle_reader_next(survey->reader, &block, error);
        if (status != BASE_OK)
            return status;
        shuffle_csv_count((uint8_t)scan->config.relation->csv.quote, block.data, block.bytes, &survey->found.quotes,
                          &survey->found.newlines);
        survey->at += block.bytes;
        BASE_ASSERT(survey->at <= survey->end); /* no byte is counted by two morsels */
    }
    return BASE_END;
}

static enum base_status survey_check(const struct shuffle_scan *scan, struct base_error *error)
{
    return shuffle_reader_check(survey_of(scan)->reader, error);
}

static void survey_event(struct shuffle_scan *scan, const struct net_event *event)
{
    shuffle_reader_event(survey_of(scan)->reader, event);
}

static bool survey_idle(const struct shuffle_scan *scan)
{
    return shuffle_reader_idle(survey_of(scan)->reader);
}

static uint64_t survey_input_bytes(const struct shuffle_scan *scan)
{
    return shuffle_reader_bytes(survey_of(scan)->reader);
}

static void survey_close(struct shuffle_scan *scan)
{
    struct survey_scan *survey = survey_of(scan);
    shuffle_reader_close(survey->reader);
    shuffle_scan_release(scan);
    free(survey);
}

static const struct shuffle_scan_ops survey_ops = {.begin = survey_begin,
                                                   .next = survey_next,
                                                   .check = survey_check,
                                                   .event = survey_event,
                                                   .idle = survey_idle,
                                                   .input_bytes = survey_input_bytes,
                                                   .close = survey_close};

enum base_status shuffle_scan_open_survey(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                          struct base_error *error)
{
    struct survey_scan *survey = calloc(1, sizeof *survey);
    if (!survey)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a survey");
    enum base_status status = shuffle_scan_prepare(&survey->scan, &survey_ops, config, error);
    if (status == BASE_OK) {
        const struct shuffle_reader_config reader = {.engine = config->engine,
                                                     .governor = config->governor,
                                                     .block_bytes = survey->scan.config.block_bytes,
                                                     .reads_in_flight = survey->scan.config.reads_in_flight,
                                                     .tag = SHUFFLE_FILE_TAG_SCAN,
                                                     .context = &survey->scan};
        status = shuffle_reader_open(&reader, &survey->reader, error);
    }
    if (status != BASE_OK) {
        survey_close(&survey->scan);
        return status;
    }
    *scan = &survey->scan;
    return BASE_OK;
}

void shuffle_scan_survey(const struct shuffle_scan *scan, struct shuffle_survey *survey)
{
    *survey = survey_of(scan)->found;
}
