#include "cluster/node/source_complete.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { MARKER_BYTES_MAX = 4 << 20 };
#define MARKER_NAME "_SUCCESS.json"
#define ADVICE "run the job again that wrote it, or read what is there with --%sincomplete=yes" /* folder->side */

/* One folder's files are neighbours in a relation. */
struct folder {
    const char *path;
    const char *side;                /* begins its options' names */
    const struct shuffle_file *file; /* those that the source takes */
    uint32_t file_count;
    uint32_t parts_taken;
    uint64_t bytes_taken; /* in parts */
    uint32_t parts;       /* in the folder */
    bool marked;          /* it has MARKER_NAME */
    bool unfinished;      /* it has files that a job's end would have removed */
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? path : slash + 1;
}

/* part-00012.csv, as shuffle/output/publish.c names parts. */
static bool is_part(const char *name)
{
    if (strncmp(name, "part-", 5) != 0)
        return false;
    const size_t digits = strspn(name + 5, "0123456789");
    const char *extension = name + 5 + digits;
    return digits >= 5 && (strcmp(extension, ".csv") == 0 || strcmp(extension, ".bin") == 0);
}

static enum base_status look_into(struct folder *folder, struct base_error *error)
{
    DIR *listing = opendir(folder->path);
    if (!listing)
        return base_error_set_errno(error, errno, "cannot list %s", folder->path);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        const char *name = entry->d_name;
        folder->parts += is_part(name);
        folder->marked |= strcmp(name, MARKER_NAME) == 0;
        folder->unfinished |= strncmp(name, ".attempt-job-", 13) == 0 || strncmp(name, ".job-job-", 9) == 0 ||
                              strncmp(name, ".success-job-", 13) == 0;
    }
    closedir(listing);
    for (uint32_t i = 0; i < folder->file_count; i++) {
        if (!is_part(base_name(folder->file[i].path)))
            continue;
        folder->parts_taken++;
        folder->bytes_taken += folder->file[i].bytes;
    }
    return BASE_OK;
}

/* The marker's text, malloc'ed, up to MARKER_BYTES_MAX. */
static enum base_status read_marker(const char *path, char **text, size_t *bytes, struct base_error *error)
{
    int fd;
    struct stat about;
    enum base_status status = base_file_open(path, &fd, &about, error);
    if (status != BASE_OK)
        return status;
    char *buffer = about.st_size <= MARKER_BYTES_MAX ? malloc((size_t)about.st_size + 1) : NULL;
    *bytes = 0;
    if (!buffer)
        status =
            base_error_set(error, BASE_TOO_LARGE, "no memory for %s of %lld bytes", path, (long long)about.st_size);
    while (status == BASE_OK && *bytes < (size_t)about.st_size) {
        const ssize_t got = read(fd, buffer + *bytes, (size_t)about.st_size - *bytes);
        if (got < 0 && errno != EINTR)
            status = base_error_set_errno(error, errno, "cannot read %s", path);
        else if (got == 0)
            break;
        *bytes += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    if (status != BASE_OK)
        free(buffer);
    else
        *text = buffer;
    return status;
}

static enum base_status parse_marker(const struct folder *folder, json_int_t *parts, json_int_t *bytes,
                                     json_int_t *rows, struct base_error *error)
{
    char *path, *text = NULL;
    size_t count = 0;
    if (asprintf(&path, "%s/" MARKER_NAME, folder->path) < 0)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a path in %s", folder->path);
    enum base_status status = read_marker(path, &text, &count, error);
    if (status == BASE_OK) {
        json_t *object = json_loadb(text, count, JSON_REJECT_DUPLICATES, NULL);
        if (!object || json_unpack(object, "{s:I, s:I, s:I}", "parts", parts, "bytes", bytes, "rows", rows) != 0 ||
            *parts < 0 || *bytes < 0 || *rows < 0)
            status =
                base_error_set(error, BASE_IO, "%s is damaged, or of another program: " ADVICE, path, folder->side);
        json_decref(object);
        free(text);
    }
    free(path);
    return status;
}

/* The first part whose file is not there, or NULL when the parts have other names. */
static char *missing_part(const struct folder *folder, json_int_t parts)
{
    const char *extension = "csv";
    if (folder->file_count > 0 && strstr(base_name(folder->file[0].path), ".bin") != NULL)
        extension = "bin";
    for (json_int_t i = 0; i < parts; i++) {
        char *path;
        if (asprintf(&path, "%s/part-%05u.%s", folder->path, (unsigned)i, extension) < 0)
            return NULL;
        if (access(path, F_OK) != 0)
            return path;
        free(path);
    }
    return NULL;
}

static enum base_status source_compare(const struct folder *folder, json_int_t parts, json_int_t bytes,
                                       struct base_error *error)
{
    if (folder->parts_taken != (uint64_t)parts) {
        char *missing = missing_part(folder, parts);
        base_error_set(error, BASE_IO,
                       "the result %s is not complete: it has %u of the %lld parts that its " MARKER_NAME
                       " counts%s%s; " ADVICE,
                       folder->path, folder->parts_taken, (long long)parts, missing ? ", and lacks " : "",
                       missing ? base_name(missing) : "", folder->side);
        free(missing);
        return BASE_IO;
    }
    if (folder->parts_taken != folder->file_count)
        return base_error_set(error, BASE_IO,
                              "%s holds %u files that are not parts of the result that its " MARKER_NAME
                              " is of: move them elsewhere, or use a glob",
                              folder->path, folder->file_count - folder->parts_taken);
    if (folder->bytes_taken != (uint64_t)bytes)
        return base_error_set(error, BASE_IO,
                              "the result %s was changed: its parts have %" PRIu64 " bytes, but its " MARKER_NAME
                              " counts %lld; " ADVICE,
                              folder->path, folder->bytes_taken, (long long)bytes, folder->side);
    return BASE_OK;
}

/* *rows is added to; *known becomes false when the folder has no marker or only some of its parts are taken. */
static enum base_status check_folder(struct folder *folder, uint64_t *rows, bool *known, struct base_error *error)
{
    enum base_status status = look_into(folder, error);
    if (status != BASE_OK)
        return status;
    /* A glob that takes some of what is there is meant so; one that takes all is a name of the folder. */
    const bool some = folder->parts_taken < folder->parts;
    if (some || (!folder->marked && folder->parts == 0 && !folder->unfinished)) {
        *known = false;
        return BASE_OK;
    }
    if (!folder->marked)
        return base_error_set(error, BASE_IO,
                              "the result %s is not complete: it has no " MARKER_NAME
                              ", which a job writes last; " ADVICE,
                              folder->path, folder->side);
    json_int_t parts, bytes, counted;
    status = parse_marker(folder, &parts, &bytes, &counted, error);
    if (status == BASE_OK)
        status = source_compare(folder, parts, bytes, error);
    if (status == BASE_OK)
        *rows += (uint64_t)counted;
    return status;
}

/* A folder without any part in it: is it a result all the same? */
static enum base_status check_bare(const char *path, const char *side, struct base_error *error)
{
    struct folder folder = {.path = path, .side = side};
    uint64_t rows = 0;
    bool known = false;
    return check_folder(&folder, &rows, &known, error);
}

/* The files from `first` on that are in the same folder; *path (malloc'ed) is the folder's, "." for none. */
static uint32_t folder_files(const struct shuffle_relation *relation, uint32_t first, char **path)
{
    const char *name = relation->file[first].path;
    const size_t bytes = (size_t)(base_name(name) - name);
    uint32_t count = 1;
    while (first + count < relation->file_count) {
        const char *next = relation->file[first + count].path;
        if ((size_t)(base_name(next) - next) != bytes || memcmp(next, name, bytes) != 0)
            break;
        count++;
    }
    *path = bytes == 0 ? strdup(".") : strndup(name, bytes > 1 ? bytes - 1 : 1);
    return count;
}

enum base_status cluster_source_complete(const char *path, const char *side, struct shuffle_relation *relation,
                                         struct base_error *error)
{
    relation->rows_known = false;
    relation->rows = 0;
    if (relation->file_count == 1 && strcmp(relation->file[0].path, path) == 0)
        return BASE_OK;
    bool known = true;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < relation->bare_count; i++) {
        const enum base_status status = check_bare(relation->bare[i], side, error);
        if (status != BASE_OK)
            return status;
    }
    for (uint32_t i = 0; i < relation->file_count;) {
        struct folder folder = {.side = side, .file = &relation->file[i]};
        char *folder_path;
        folder.file_count = folder_files(relation, i, &folder_path);
        folder.path = folder_path;
        if (!folder_path)
            return base_error_set(error, BASE_NO_MEMORY, "no memory for a path");
        const enum base_status status = check_folder(&folder, &rows, &known, error);
        free(folder_path);
        if (status != BASE_OK)
            return status;
        i += folder.file_count;
    }
    relation->rows_known = known && relation->file_count > 0;
    relation->rows = relation->rows_known ? rows : 0;
    return BASE_OK;
}
