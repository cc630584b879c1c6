/* A stand-in for nvidia-smi: the queries that the workbench makes, answered from a file (standin_state.h). */
#include "standin_state.h"
#include <time.h>
#include <unistd.h>

static int units;

static void amount(const struct gpu *gpu, const char *key, double divisor, const char *form, const char *unit) {
    long value;
    if (gpu->lost) printf("[GPU is lost]");
    else if (!number_of(gpu, key, &value)) printf("[N/A]");
    else {
        printf(form, value / divisor);
        if (units && unit[0]) printf(" %s", unit);
    }
}

static void now(void) {
    struct timespec at;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &at);
    strftime(text, sizeof text, "%Y/%m/%d %H:%M:%S", localtime(&at.tv_sec));
    printf("%s.%03ld", text, at.tv_nsec / 1000000);
}

static int gpu_field(const char *field, const struct gpu *gpu) {
    char name[128];
    long value;
    if (!strcmp(field, "timestamp")) now();
    else if (!strcmp(field, "index")) printf("%d", gpu->index);
    else if (!strcmp(field, "uuid") || !strcmp(field, "gpu_uuid")) printf("%s", gpu->uuid);
    else if (!strcmp(field, "name") || !strcmp(field, "gpu_name")) { name_of(gpu, name, sizeof name); printf("%s", name); }
    else if (!strcmp(field, "driver_version")) printf("%s", state.driver);
    else if (!strcmp(field, "memory.total")) amount(gpu, "total", 1, "%.0f", "MiB");
    else if (!strcmp(field, "memory.used")) amount(gpu, "mem", 1, "%.0f", "MiB");
    else if (!strcmp(field, "utilization.gpu")) amount(gpu, "util", 1, "%.0f", "%");
    else if (!strcmp(field, "power.draw")) amount(gpu, "power", 1000, "%.2f", "W");
    else if (!strcmp(field, "power.limit") || !strcmp(field, "enforced.power.limit")) amount(gpu, "limit", 1000, "%.2f", "W");
    else if (!strcmp(field, "temperature.gpu")) amount(gpu, "temp", 1, "%.0f", "");
    else if (!strcmp(field, "clocks.current.sm") || !strcmp(field, "clocks.sm")) amount(gpu, "sm", 1, "%.0f", "MHz");
    else if (!strcmp(field, "clocks.current.memory") || !strcmp(field, "clocks.mem")) amount(gpu, "memclk", 1, "%.0f", "MHz");
    else if (!strcmp(field, "clocks_throttle_reasons.active") || !strcmp(field, "clocks_event_reasons.active")) {
        if (number_of(gpu, "throttle", &value)) printf("0x%016lx", value); else printf("[N/A]");
    } else if (!strcmp(field, "ecc.errors.uncorrected.volatile.total")) amount(gpu, "ecc", 1, "%.0f", "");
    else if (!strcmp(field, "mig.mode.current")) {
        printf("%s", number_of(gpu, "mig", &value) ? value ? "Enabled" : "Disabled" : "[N/A]");
    } else if (!strcmp(field, "compute_cap")) printf(text_of(gpu, "cap", name, sizeof name) ? name : "7.5");
    else return 0;
    return 1;
}

static int process_field(const char *field, const struct process *process, const struct gpu *gpu) {
    if (!strcmp(field, "timestamp")) now();
    else if (!strcmp(field, "gpu_uuid")) printf("%s", gpu->uuid);
    else if (!strcmp(field, "pid")) printf("%u", process->pid);
    else if (!strcmp(field, "process_name") || !strcmp(field, "name")) printf("python");
    else if (!strcmp(field, "used_memory") || !strcmp(field, "used_gpu_memory")) {
        if (process->memory < 0) printf("[N/A]"); else printf(units ? "%ld MiB" : "%ld", process->memory);
    } else return 0;
    return 1;
}

/* One line; 0 for a field that nobody knows, which is then named. */
static int line(const char *fields, const struct gpu *gpu, const struct process *process) {
    char copy[1024], *rest = copy, *field;
    int first = 1;
    snprintf(copy, sizeof copy, "%s", fields);
    while ((field = strsep(&rest, ","))) {
        if (!first) printf(", ");
        first = 0;
        if (process ? !process_field(field, process, gpu) : !gpu_field(field, gpu)) {
            printf("Field \"%s\" is not a valid field to query.\n\n", field);
            return 0;
        }
    }
    printf("\n");
    return 1;
}

static int ready(void) {
    if (!read_state()) {
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
               "Make sure that the latest NVIDIA driver is installed and running.\n\n");
        return 9;
    }
    while (state.hangs) { usleep(20000); read_state(); }
    if (state.fail[0]) { printf("%s\n", state.fail); return 9; }
    if (!state.gpus) { printf("No devices were found\n"); return 6; }
    return 0;
}

static int look(const char *fields, int of_processes) {
    int code = ready();
    if (code) return code;
    if (!of_processes) {
        for (int i = 0; i < state.gpus; i++) if (!line(fields, &state.gpu[i], NULL)) return 2;
        return 0;
    }
    for (int i = 0; i < state.processes; i++)
        for (int g = 0; g < state.gpus; g++)
            if (state.gpu[g].index == state.process[i].gpu && state.process[i].kind == 'C' && !state.gpu[g].lost
                && !line(fields, &state.gpu[g], &state.process[i])) return 2;
    return 0;
}

int main(int count, char **words) {
    const char *gpus = NULL, *processes = NULL;
    long pause = 0;
    int list = 0, code;
    units = 1;
    for (int i = 1; i < count; i++) {
        if (!strncmp(words[i], "--query-gpu=", 12)) gpus = words[i] + 12;
        else if (!strncmp(words[i], "--query-compute-apps=", 21)) processes = words[i] + 21;
        else if (!strncmp(words[i], "--format=", 9)) units = !strstr(words[i], "nounits");
        else if (!strcmp(words[i], "-L")) list = 1;
        else if (!strcmp(words[i], "-l") && i + 1 < count) pause = 1000 * atol(words[++i]);
        else if (!strcmp(words[i], "-lms") && i + 1 < count) pause = atol(words[++i]);
    }
    if (list || !(gpus || processes)) {
        code = ready();
        if (code) return code;
        if (!list) printf("| NVIDIA-SMI %s   Driver Version: %s   CUDA Version: %d.%d |\n", state.driver, state.driver,
                          state.cuda / 1000, state.cuda % 1000 / 10);
        for (int i = 0; i < state.gpus; i++) {
            char name[128];
            name_of(&state.gpu[i], name, sizeof name);
            printf(list ? "GPU %d: %s (UUID: %s)\n" : "|  %d  %s  %s |\n", state.gpu[i].index, name, state.gpu[i].uuid);
        }
        return 0;
    }
    do {
        code = look(gpus ? gpus : processes, !gpus);
        fflush(stdout);
        if (code) return code;
        if (pause) usleep(1000 * pause);
    } while (pause);
    return 0;
}
