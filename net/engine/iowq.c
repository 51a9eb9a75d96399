/* Counts them by the name the kernel gives them. */
#include "net/engine/iowq.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* "iou-wrk-PID" */
static const char iowq_name[] = "iou-wrk-";

static bool iowq_is_worker(const char *task)
{
    char path[64], name[sizeof iowq_name] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task);
    FILE *file = fopen(path, "re");
    if (!file)
        return false; /* it has ended */
    const bool read = fgets(name, sizeof name, file);
    fclose(file);
    return read && strcmp(name, iowq_name) == 0;
}

uint32_t net_iowq_workers(void)
{
    uint32_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return 0;
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.' && iowq_is_worker(task->d_name);
    closedir(tasks);
    return count;
}
