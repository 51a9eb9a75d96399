/* Two lists under one lock: orders, which the thread takes, and results, which the coordinator takes. The thread holds
 * no lock while it works. */
#include "cluster/shell/disk.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"

enum { DISK_CLOSE_SECONDS = 10 };

enum disk_kind { DISK_RECORD, DISK_RESERVE, DISK_FORGET, DISK_QUIT };

struct disk_work {
    struct disk_work *next;
    enum disk_kind kind;
    uint64_t job;
    struct cluster_decision decision; /* RECORD */
    bool again;                       /* RECORD: an earlier try may have left it on disk */
    struct base_error error;          /* what became of it */
    bool unknown;
};

struct disk_list {
    struct disk_work *first, **last;
};

struct cluster_disk {
    struct cluster_state *state;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ordered;
    int result_fd;
    struct disk_list orders, results;
    struct disk_work quit;
};

static void list_append(struct disk_list *list, struct disk_work *work)
{
    work->next = NULL;
    *list->last = work;
    list->last = &work->next;
}

static struct disk_work *list_take(struct disk_list *list)
{
    struct disk_work *work = list->first;
    if (!work)
        return NULL;
    list->first = work->next;
    if (!list->first)
        list->last = &list->first;
    return work;
}

static void work_free(struct disk_work *work)
{
    if (!work)
        return;
    cluster_decision_free(&work->decision);
    free(work);
}

static void disk_tell(struct cluster_disk *disk)
{
    const uint64_t one = 1;
    BASE_ASSERT(write(disk->result_fd, &one, sizeof one) > 0); /* an eventfd takes more than ever come */
}

static void disk_order(struct cluster_disk *disk, struct disk_work *work)
{
    pthread_mutex_lock(&disk->lock);
    list_append(&disk->orders, work);
    pthread_cond_signal(&disk->ordered);
    pthread_mutex_unlock(&disk->lock);
}

static struct disk_work *disk_await(struct cluster_disk *disk)
{
    struct disk_work *work;
    pthread_mutex_lock(&disk->lock);
    while (!(work = list_take(&disk->orders)))
        pthread_cond_wait(&disk->ordered, &disk->lock);
    pthread_mutex_unlock(&disk->lock);
    return work;
}

static void *disk_main(void *context)
{
    struct cluster_disk *disk = context;
    pthread_setname_np(pthread_self(), "disk");
    for (;;) {
        struct disk_work *work = disk_await(disk);
        if (work->kind == DISK_QUIT)
            return NULL;
        if (work->kind == DISK_FORGET) {
            cluster_state_forget(disk->state, work->job);
            work_free(work);
            continue;
        }
        if (work->kind == DISK_RESERVE)
            (void)cluster_state_reserve(disk->state, &work->job, &work->error);
        else
            (void)cluster_state_record(disk->state, &work->decision, work->again, &work->unknown, &work->error);
        pthread_mutex_lock(&disk->lock);
        list_append(&disk->results, work);
        pthread_mutex_unlock(&disk->lock);
        disk_tell(disk);
    }
}

enum base_status cluster_disk_open(struct cluster_state *state, struct cluster_disk **disk, struct base_error *error)
{
    struct cluster_disk *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the thread that writes files");
    made->state = state;
    made->orders.last = &made->orders.first;
    made->results.last = &made->results.first;
    made->quit.kind = DISK_QUIT;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->ordered, NULL);
    made->result_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = made->result_fd < 0 ? errno : 0;
    if (!failed)
        failed = pthread_create(&made->thread, NULL, disk_main, made);
    if (failed) {
        if (made->result_fd >= 0)
            close(made->result_fd);
        free(made);
        return base_error_set_errno(error, failed, "cannot start the thread that writes files");
    }
    *disk = made;
    return BASE_OK;
}

int cluster_disk_fd(const struct cluster_disk *disk)
{
    return disk->result_fd;
}

enum base_status cluster_disk_record(struct cluster_disk *disk, const struct cluster_decision *decision, bool again,
                                     struct base_error *error)
{
    struct disk_work *work = calloc(1, sizeof *work);
    if (!work || cluster_decision_copy(decision, &work->decision, NULL) != BASE_OK) {
        free(work);
        return base_error_set(error, BASE_NO_MEMORY, "no memory to record the decision");
    }
    work->kind = DISK_RECORD;
    work->job = decision->job;
    work->again = again;
    disk_order(disk, work);
    return BASE_OK;
}

enum base_status cluster_disk_reserve(struct cluster_disk *disk, struct base_error *error)
{
    struct disk_work *work = calloc(1, sizeof *work);
    if (!work)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to reserve job numbers");
    work->kind = DISK_RESERVE;
    disk_order(disk, work);
    return BASE_OK;
}

void cluster_disk_forget(struct cluster_disk *disk, uint64_t job)
{
    struct disk_work *work = calloc(1, sizeof *work);
    if (!work) {
        base_log_warn(
            "no memory to forget the decision of job %" PRIu64 ": it is carried out once more after a restart", job);
        return;
    }
    work->kind = DISK_FORGET;
    work->job = job;
    disk_order(disk, work);
}

bool cluster_disk_result(struct cluster_disk *disk, struct cluster_event *event)
{
    uint64_t ignored;
    *event = (struct cluster_event){.kind = CLUSTER_EVENT_RECORDED};
    pthread_mutex_lock(&disk->lock);
    struct disk_work *work = list_take(&disk->results);
    pthread_mutex_unlock(&disk->lock);
    if (!work) {
        (void)!read(disk->result_fd, &ignored, sizeof ignored);
        pthread_mutex_lock(&disk->lock); /* told between the look and the read? */
        work = list_take(&disk->results);
        pthread_mutex_unlock(&disk->lock);
    }
    if (!work)
        return false;
    event->kind = work->kind == DISK_RESERVE ? CLUSTER_EVENT_RESERVED : CLUSTER_EVENT_RECORDED;
    event->job = work->job;
    event->error = work->error;
    event->unknown = work->unknown;
    work_free(work);
    return true;
}

bool cluster_disk_close(struct cluster_disk *disk)
{
    struct timespec until;
    disk_order(disk, &disk->quit);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DISK_CLOSE_SECONDS;
    if (pthread_timedjoin_np(disk->thread, NULL, &until) != 0)
        return false;
    for (struct disk_work *work; (work = list_take(&disk->results));)
        work_free(work);
    pthread_cond_destroy(&disk->ordered);
    pthread_mutex_destroy(&disk->lock);
    close(disk->result_fd);
    free(disk);
    return true;
}
