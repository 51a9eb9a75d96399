/* A relation: where rows come from, resolved far enough that any worker can scan any morsel of it. Plain data: the
 * cluster's codec carries it. */
#ifndef MILLRACE_SHUFFLE_SOURCE_RELATION_H
#define MILLRACE_SHUFFLE_SOURCE_RELATION_H

#include "base/random.h"
#include "shuffle/csv/options.h"
#include "shuffle/rows/schema.h"
#include "shuffle/source/file.h"

enum shuffle_placement {
    SHUFFLE_SHARED, /* the same files on all nodes (size and time are compared) */
    SHUFFLE_LOCAL,  /* each node its own files; morsels stay on their node */
    SHUFFLE_GENERATED
};
enum shuffle_format { SHUFFLE_FORMAT_CSV, SHUFFLE_FORMAT_FIXED };
enum shuffle_key_distribution {
    SHUFFLE_KEYS_UNIQUE,  /* a seeded permutation-free unique: key i for row i, scattered by a bijection */
    SHUFFLE_KEYS_UNIFORM, /* uniform over 0..K-1 */
    SHUFFLE_KEYS_ZIPF,    /* Zipf(s) over 1..K */
    SHUFFLE_KEYS_ONE,     /* all rows the same key */
    SHUFFLE_KEYS_STRIDE   /* i * 2^32 */
};

/* Rows that a generated relation may have. */
#define SHUFFLE_GENERATED_ROWS_MAX (UINT64_C(1) << 48)

struct shuffle_generator {
    uint64_t rows;      /* of the whole relation */
    uint32_t row_bytes; /* >= 8: key int64, then payload binary(row_bytes - 8) when more */
    enum shuffle_key_distribution keys;
    uint64_t key_count; /* K */
    double zipf_exponent;
    uint64_t seed;
    bool preload; /* each worker holds its share in memory before the clock starts */
};

struct shuffle_relation {
    enum shuffle_placement placement;
    enum shuffle_format format;
    struct shuffle_csv_options csv;
    bool format_given, delimiter_given; /* for shuffle_relation_list: files' names do not decide */
    struct shuffle_generator generator;
    struct shuffle_schema schema; /* of the source, all columns */
    uint32_t file_count;
    struct shuffle_file *file;
    uint32_t bare_count; /* folders that were listed and have no data files of their own; not carried */
    char **bare;
    bool rows_known; /* of files: what wrote them said how many rows they have */
    uint64_t rows;
};

void shuffle_relation_free(struct shuffle_relation *relation);
/* Drops what shuffle_relation_list found. */
void shuffle_relation_forget_files(struct shuffle_relation *relation);

/* A source as the user wrote it: "shared:PATH", "local:GLOB",
 * "gen:rows=16M,row=64,keys=zipf:1.1:1000000,seed=7,preload=1" or a bare PATH (shared). Fills placement, format (by
 * suffix: .bin is fixed-width, else CSV; .tsv has tabs), csv defaults and generator with its schema. Files are not
 * looked at. *path (malloc'ed, caller frees; NULL for gen:) is PATH or GLOB. Errors name the word that is wrong and
 * list what is right. */
enum base_status shuffle_relation_parse(const char *text, struct shuffle_relation *relation, char **path,
                                        struct base_error *error);

/* Sets format and delimiter as the path's suffix says, if it says something. */
void shuffle_relation_format_by_suffix(struct shuffle_relation *relation, const char *path);

/* Expands PATH (a file, a glob, or a folder: the data in it and in its subfolders; shuffle/source/listing.c has the
 * order) into relation->file with size and time. Looks at this machine's disk. BASE_NOT_FOUND, BASE_DENIED... with path
 * and what to do. A CSV file of 0 bytes is an error that says so. */
enum base_status shuffle_relation_list(struct shuffle_relation *relation, const char *path, struct base_error *error);

/* Finds the schema: `declared` (may be NULL) as text; else a header of name:type; else PATH.schema beside the first
 * file; else (CSV) inferred from the header and the first rows of the files (shuffle/source/sample.h). Reads with
 * pread; not for workers. Fixed-width files need a declared schema and a size that is a multiple of the row. */
enum base_status shuffle_relation_resolve_schema(struct shuffle_relation *relation, const char *declared,
                                                 struct base_error *error);

/* A piece of a relation that a worker scans in one go. Files: bytes [begin, end) of file number `file`; a record
 * belongs to the morsel in which it begins. Generated: rows [begin, end). CSV: quote_open says whether an odd number of
 * quotes precedes begin, line is the number (from 1) of the line that holds byte begin. */
struct shuffle_morsel {
    uint32_t file;
    bool quote_open;
    uint64_t begin, end;
    uint64_t line;
    uint64_t index; /* number of this morsel in the relation */
};

/* Cuts the relation into morsels of about morsel_bytes (fixed-width: whole rows). *morsels is malloc'ed. quote_open and
 * line are right only for each file's first morsel until a survey has filled them in. An empty relation has 0 morsels.
 */
enum base_status shuffle_relation_divide(const struct shuffle_relation *relation, uint64_t morsel_bytes,
                                         struct shuffle_morsel **morsels, uint64_t *count, struct base_error *error);

/* Does the scan need a survey first (a CSV file of several morsels)? */
bool shuffle_relation_needs_survey(const struct shuffle_relation *relation, uint64_t morsel_bytes);

/* What the survey of one morsel found. */
struct shuffle_survey {
    uint64_t index; /* the morsel's */
    uint64_t quotes, newlines;
};
/* Turns the surveys of all `count` morsels (in any order, each once) into their quote_open and line. */
enum base_status shuffle_survey_apply(const struct shuffle_survey *surveys, struct shuffle_morsel *morsels,
                                      uint64_t count, struct base_error *error);

#endif
