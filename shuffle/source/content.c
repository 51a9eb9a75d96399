#include "shuffle/source/content.h"

#include "base/bytes.h"

#define UNPACK "unpack it first"
#define EXPORT "export it as CSV first"
#define RECODE "convert it to UTF-8 first, such as with iconv"

/* Longer beginnings before those that they begin with. */
static const struct {
    const char *begin;
    size_t bytes;
    const char *words, *advice;
} formats[] = {
#define BEGIN(text, words, advice)                                                                                     \
    {                                                                                                                  \
        text, sizeof text - 1, words, advice                                                                           \
    }
    BEGIN("\x1f\x8b", "a gzip file", "give it a name that ends in .gz"),
    BEGIN("PK\x03\x04", "a zip file", UNPACK),
    BEGIN("PK\x05\x06", "an empty zip file", UNPACK),
    BEGIN("\xfd"
          "7zXZ\0",
          "an xz file", UNPACK),
    BEGIN("\x28\xb5\x2f\xfd", "a zstd file", "give it a name that ends in .zst"),
    BEGIN("BZh", "a bzip2 file", UNPACK),
    BEGIN("7z\xbc\xaf\x27\x1c", "a 7z file", UNPACK),
    BEGIN("PAR1", "a Parquet file", EXPORT),
    BEGIN("ARROW1\0", "an Arrow (Feather) file", EXPORT),
    BEGIN("FEA1", "a Feather file", EXPORT),
    BEGIN("Obj\x01", "an Avro file", EXPORT),
    BEGIN("SQLite format 3\0", "an SQLite database", EXPORT),
    BEGIN("%PDF-", "a PDF document", EXPORT),
    BEGIN("\x7f"
          "ELF",
          "an ELF program", "name a CSV file"),
    BEGIN("\xff\xfe\0\0", "text in UTF-32", RECODE),
    BEGIN("\0\0\xfe\xff", "text in UTF-32", RECODE),
    BEGIN("\xff\xfe", "text in UTF-16", RECODE),
    BEGIN("\xfe\xff", "text in UTF-16", RECODE),
#undef BEGIN
};

/* May a CSV file begin like that, too? */
static bool is_name(const char *begin, const uint8_t *data, size_t bytes)
{
    if (strcmp(begin, "BZh") == 0)
        return bytes < 10 || memcmp(data + 4, "1AY&SY", 6) != 0;
    const bool letters = strcmp(begin, "PAR1") == 0 || strcmp(begin, "FEA1") == 0;
    return letters && (bytes < 5 || data[4] >= ' ' || data[4] == '\r' || data[4] == '\n' || data[4] == '\t');
}

/* Without a byte order mark: of the first and of most characters all bytes but one are zero, always the same ones. A
 * file that begins with another character is CSV in which a field holds zero bytes. */
static const char *wide_text(const uint8_t *data, size_t bytes)
{
    static const struct {
        size_t width, place; /* bytes of a character, and which of them is not zero */
        const char *words;
    } kinds[] = {
        {4, 0, "text in UTF-32"}, {4, 3, "text in UTF-32"}, {2, 0, "text in UTF-16"}, {2, 1, "text in UTF-16"}};
    bytes = base_min_u64(bytes, 256);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t characters = 0, fitting = 0;
        for (size_t at = 0; at + kinds[k].width <= bytes; at += kinds[k].width, characters++) {
            bool fits = true;
            for (size_t i = 0; i < kinds[k].width; i++)
                fits = fits && (data[at + i] != 0) == (i == kinds[k].place);
            if (!fits && characters == 0)
                break;
            fitting += fits;
        }
        if (characters >= 2 && fitting * 4 >= characters * 3)
            return kinds[k].words;
    }
    return NULL;
}

static size_t skip_blanks(const uint8_t *data, size_t bytes, size_t at)
{
    while (at < bytes && (data[at] == ' ' || data[at] == '\t' || data[at] == '\r' || data[at] == '\n'))
        at++;
    return at;
}

/* Begins it like an object, or an array of them? In CSV such a quote would be inside an unquoted field. */
static bool is_json(const uint8_t *data, size_t bytes)
{
    size_t at = skip_blanks(data, bytes, 0);
    if (at == bytes || (data[at] != '{' && data[at] != '['))
        return false;
    const bool array = data[at] == '[';
    at = skip_blanks(data, bytes, at + 1);
    if (array && at < bytes && data[at] == '{')
        at = skip_blanks(data, bytes, at + 1);
    return at < bytes && data[at] == '"';
}

enum base_status shuffle_content_check(const char *path, const struct shuffle_csv_options *csv, const uint8_t *data,
                                       size_t bytes, struct base_error *error)
{
    const char *words = NULL, *advice = RECODE;
    for (size_t i = 0; i < sizeof formats / sizeof *formats && !words; i++) {
        if (bytes < formats[i].bytes || memcmp(data, formats[i].begin, formats[i].bytes) != 0 ||
            is_name(formats[i].begin, data, bytes))
            continue;
        words = formats[i].words;
        advice = formats[i].advice;
    }
    if (!words)
        words = wide_text(data, bytes);
    if (!words && csv->quote == '"' && is_json(data, bytes)) {
        words = "JSON";
        advice = "convert it to CSV first";
    }
    if (!words)
        return BASE_OK;
    return base_error_set(error, BASE_PARSE, "%s is %s by its first bytes, not CSV: %s", path, words, advice);
}
