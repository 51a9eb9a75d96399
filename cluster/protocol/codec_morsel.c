/* The codec's part for morsels and surveys: columns of numbers, all of the same length. */
#include <stdlib.h>

#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

Wire__Lend *wire_put_lend(struct wire_scratch *scratch, const struct cluster_lend *lend)
{
    Wire__Lend *wire = WIRE_MAKE(scratch, wire__lend);
    uint64_t *numbers = wire_take(scratch, 4 * lend->count, sizeof *numbers);
    uint32_t *files = wire_take(scratch, lend->count, sizeof *files);
    protobuf_c_boolean *quotes = wire_take(scratch, lend->count, sizeof *quotes);
    if (!wire || !numbers || !files || !quotes)
        return NULL;
    const size_t count = lend->count;
    wire->side = lend->side;
    wire->end = lend->end;
    wire->n_file = wire->n_begin = wire->n_finish = wire->n_line = wire->n_index = wire->n_quote_open = count;
    wire->file = files;
    wire->begin = numbers;
    wire->finish = numbers + count;
    wire->line = numbers + 2 * count;
    wire->index = numbers + 3 * count;
    wire->quote_open = quotes;
    for (size_t i = 0; i < count; i++) {
        const struct shuffle_morsel *morsel = &lend->morsel[i];
        wire->file[i] = morsel->file;
        wire->begin[i] = morsel->begin;
        wire->finish[i] = morsel->end;
        wire->line[i] = morsel->line;
        wire->index[i] = morsel->index;
        wire->quote_open[i] = morsel->quote_open;
    }
    return wire;
}

void wire_get_lend(struct wire_reader *reader, const Wire__Lend *wire, struct cluster_lend *lend)
{
    if (!wire_there(reader, "list of morsels", wire))
        return;
    const size_t count = wire->n_file;
    if (wire->n_begin != count || wire->n_finish != count || wire->n_line != count || wire->n_index != count ||
        wire->n_quote_open != count) {
        wire_refuse(reader, BASE_PROTOCOL, "columns of morsels differ in length");
        return;
    }
    lend->side = wire_below(reader, "side", wire->side, 2);
    lend->end = wire->end;
    lend->morsel = wire_array(reader, "morsels", count, CLUSTER_MORSELS_MAX, sizeof *lend->morsel);
    lend->count = lend->morsel ? count : 0;
    for (size_t i = 0; i < lend->count && !reader->failed; i++) {
        lend->morsel[i] = (struct shuffle_morsel){.file = wire->file[i],
                                                  .quote_open = wire->quote_open[i],
                                                  .begin = wire->begin[i],
                                                  .end = wire->finish[i],
                                                  .line = wire->line[i],
                                                  .index = wire->index[i]};
        if (wire->begin[i] > wire->finish[i])
            wire_refuse(reader, BASE_PROTOCOL, "a morsel ends before it begins");
    }
}

static Wire__SurveyColumns *put_survey_columns(struct wire_scratch *scratch, const struct shuffle_survey *survey,
                                               uint64_t count)
{
    Wire__SurveyColumns *wire = WIRE_MAKE(scratch, wire__survey_columns);
    uint64_t *numbers = wire_take(scratch, 3 * count, sizeof *numbers);
    if (!wire || !numbers)
        return NULL;
    wire->n_index = wire->n_quotes = wire->n_newlines = count;
    wire->index = numbers;
    wire->quotes = numbers + count;
    wire->newlines = numbers + 2 * count;
    for (size_t i = 0; i < count; i++) {
        wire->index[i] = survey[i].index;
        wire->quotes[i] = survey[i].quotes;
        wire->newlines[i] = survey[i].newlines;
    }
    return wire;
}

void wire_get_survey_columns(struct wire_reader *reader, const Wire__SurveyColumns *wire,
                             struct shuffle_survey **survey, uint64_t *count)
{
    if (!wire_there(reader, "survey", wire))
        return;
    if (wire->n_quotes != wire->n_index || wire->n_newlines != wire->n_index) {
        wire_refuse(reader, BASE_PROTOCOL, "columns of a survey differ in length");
        return;
    }
    *survey = wire_array(reader, "surveys", wire->n_index, CLUSTER_MORSELS_MAX, sizeof **survey);
    *count = *survey ? wire->n_index : 0;
    for (size_t i = 0; i < *count; i++)
        (*survey)[i] =
            (struct shuffle_survey){.index = wire->index[i], .quotes = wire->quotes[i], .newlines = wire->newlines[i]};
}

Wire__Survey *wire_put_survey(struct wire_scratch *scratch, const struct cluster_survey *survey)
{
    Wire__Survey *wire = WIRE_MAKE(scratch, wire__survey);
    if (!wire)
        return NULL;
    wire->left = wire_put_lend(scratch, &survey->lend[0]);
    wire->right = wire_put_lend(scratch, &survey->lend[1]);
    return wire;
}

Wire__Surveyed *wire_put_surveyed(struct wire_scratch *scratch, const struct cluster_surveyed *surveyed)
{
    Wire__Surveyed *wire = WIRE_MAKE(scratch, wire__surveyed);
    if (!wire)
        return NULL;
    wire->left = put_survey_columns(scratch, surveyed->survey[0], surveyed->count[0]);
    wire->right = put_survey_columns(scratch, surveyed->survey[1], surveyed->count[1]);
    return wire;
}

Wire__Start *wire_put_start(struct wire_scratch *scratch, const struct cluster_start *start)
{
    Wire__Start *wire = WIRE_MAKE(scratch, wire__start);
    if (!wire)
        return NULL;
    wire->pass = start->pass;
    wire->lend = wire_put_lend(scratch, &start->lend);
    return wire;
}
