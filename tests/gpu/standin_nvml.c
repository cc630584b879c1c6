/* A stand-in for libnvidia-ml.so.1: as much of NVML as the workbench asks for, answered from a file (standin_state.h).
 * What is not here is a function that the library lacks, as in an old driver. */
#include "standin_state.h"

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, ALREADY, NOT_FOUND, INSUFFICIENT_SIZE,
       POWER, DRIVER_NOT_LOADED, TIMEOUT, FUNCTION_NOT_FOUND = 13, LOST = 15 };

typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Running;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long stamp; unsigned sm, memory, encoder, decoder; } Share;
typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;

static const unsigned long long RESERVED = 600ULL << 20;
static int handles[MOST], delivered, registered;

int nvmlInitWithFlags(unsigned flags) { (void)flags; return read_state() && !state.fail[0] ? SUCCESS : DRIVER_NOT_LOADED; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : code == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "an error"; }

int nvmlDeviceGetCount_v2(unsigned *count) { read_state(); *count = state.gpus; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if (!read_state() || index >= (unsigned)state.gpus) return INVALID_ARGUMENT;
    handles[index] = index;
    *handle = &handles[index];
    return SUCCESS;
}

static int device(void *handle, struct gpu **gpu) {
    if (!read_state()) return DRIVER_NOT_LOADED;
    *gpu = &state.gpu[*(int *)handle];
    return *(int *)handle >= state.gpus || (*gpu)->lost ? LOST : SUCCESS;
}

static int number(void *handle, const char *key, long *value) {
    struct gpu *gpu;
    int code = device(handle, &gpu);
    return code ? code : number_of(gpu, key, value) ? SUCCESS : NOT_SUPPORTED;
}

static int whole(void *handle, const char *key, unsigned *into) {
    long value = 0;
    int code = number(handle, key, &value);
    if (!code) *into = (unsigned)value;
    return code;
}

int nvmlDeviceGetIndex(void *handle, unsigned *index) {
    struct gpu *gpu;
    *index = *(int *)handle;
    return device(handle, &gpu);
}

int nvmlDeviceGetName(void *handle, char *name, unsigned size) {
    struct gpu *gpu;
    int code = device(handle, &gpu);
    if (!code) name_of(gpu, name, size);
    return code;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) {
    struct gpu *gpu;
    int code = device(handle, &gpu);
    if (!code) snprintf(uuid, size, "%s", gpu->uuid);
    return code;
}

static int memory(void *handle, Memory *into) {
    long total = 0, used = 0;
    int code = number(handle, "total", &total);
    if (code) return code;
    number(handle, "mem", &used);
    into->total = (unsigned long long)total << 20;
    into->used = (unsigned long long)used << 20;
    into->reserved = RESERVED;
    into->free = into->total - into->used - into->reserved;
    return SUCCESS;
}

/* As real drivers do, the first version counts reserved memory as used. */
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long info[3]) {
    Memory found;
    int code = memory(handle, &found);
    if (code) return code;
    info[0] = found.total;
    info[1] = found.free;
    info[2] = found.used + found.reserved;
    return SUCCESS;
}

/* `oldmem` in a line of a GPU: the driver is older than 510. */
int nvmlDeviceGetMemoryInfo_v2(void *handle, Memory *into) {
    long is_old;
    return number(handle, "oldmem", &is_old) == SUCCESS ? FUNCTION_NOT_FOUND : memory(handle, into);
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned rates[2]) { rates[1] = 0; return whole(handle, "util", rates); }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *power) { return whole(handle, "power", power); }
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *limit) { return whole(handle, "limit", limit); }
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *value) { (void)sensor; return whole(handle, "temp", value); }
int nvmlDeviceGetClockInfo(void *handle, int type, unsigned *clock) { return whole(handle, type == 1 ? "sm" : "memclk", clock); }

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    long value = 0;
    int code = number(handle, "throttle", &value);
    *reasons = (unsigned long long)value;
    return code;
}

int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *count) {
    long value = 0;
    int code = number(handle, "ecc", &value);
    (void)type, (void)counter;
    *count = (unsigned long long)value;
    return code;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    int code = whole(handle, "mig", current);
    *pending = *current;
    return code;
}

static int running(void *handle, unsigned *count, Running *into, char kind) {
    struct gpu *gpu;
    unsigned found = 0;
    int code = device(handle, &gpu);
    if (code) return code;
    for (int i = 0; i < state.processes; i++) {
        struct process *process = &state.process[i];
        if (process->gpu != gpu->index || process->kind != kind) continue;
        if (into && found < *count)
            into[found] = (Running){process->pid, process->memory < 0 ? ~0ULL : (unsigned long long)process->memory << 20, ~0u, ~0u};
        found++;
    }
    code = found > *count || (!into && found) ? INSUFFICIENT_SIZE : SUCCESS;
    *count = found;
    return code;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, Running *into) { return running(handle, count, into, 'C'); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, Running *into) { return running(handle, count, into, 'G'); }

int nvmlDeviceGetProcessUtilization(void *handle, Share *into, unsigned *count, unsigned long long since) {
    static unsigned long long clock = 1;
    struct gpu *gpu;
    unsigned found = 0;
    int code = device(handle, &gpu);
    (void)since;
    if (code) return code;
    clock++;
    for (int i = 0; i < state.processes; i++) {
        struct process *process = &state.process[i];
        if (process->gpu != gpu->index || process->share < 0) continue;
        if (into && found < *count) into[found] = (Share){process->pid, clock, (unsigned)process->share, 0, 0, 0};
        found++;
    }
    if (!found) return NOT_FOUND;
    code = !into || found > *count ? INSUFFICIENT_SIZE : SUCCESS;
    *count = found;
    return code;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    if (!read_state()) return DRIVER_NOT_LOADED;
    snprintf(version, size, "%s", state.driver);
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    if (!read_state()) return DRIVER_NOT_LOADED;
    *version = state.cuda;
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) { *set = &delivered; return SUCCESS; }
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) { (void)handle, (void)types, (void)set; registered = 1; return SUCCESS; }

int nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds) {
    (void)set, (void)milliseconds;
    if (!read_state() || !registered || delivered >= state.xids) return TIMEOUT;
    *event = (Event){&handles[state.xid_gpu[delivered]], 8, (unsigned long long)state.xid[delivered], ~0u, ~0u};
    handles[state.xid_gpu[delivered]] = state.xid_gpu[delivered];
    delivered++;
    return SUCCESS;
}
