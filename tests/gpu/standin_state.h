/* The state of the stand-in GPUs, read anew at each question from the file that $STANDIN_NVML_STATE names, by default
 * /etc/standin-nvml. A line each:
 *
 *   driver 550.54                    the driver's version
 *   cuda 12040                       the CUDA version that it serves
 *   gpu 0 GPU-a util=37 mem=1024 total=15360 power=61200 limit=70000 temp=55 sm=1590 memclk=5000 throttle=0 ecc=0
 *       mig=1 name=Tesla_T4          a device, on one line; what is left out is not supported; `_` in a name is a space
 *   proc 0 4242 900 35 C             device, process ID, MiB (- for untold), its share in % (- for untold), C or G
 *   lost 1                           the device fell off the bus
 *   xid 0 31                         an error of that number happened
 *   fail WORDS                       nothing works; nvidia-smi says so and ends with 9
 *   hang                             nvidia-smi does not answer
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64

struct gpu { int index, lost; char uuid[96], words[512]; };
struct process { int gpu; unsigned pid; long memory, share; char kind; };

static struct {
    char driver[64], fail[256];
    int cuda, hangs, gpus, processes, xids, xid_gpu[MOST], xid[MOST];
    struct gpu gpu[MOST];
    struct process process[MOST];
} state;

static int read_state(void) {
    const char *path = getenv("STANDIN_NVML_STATE");
    FILE *file = fopen(path ? path : "/etc/standin-nvml", "r");
    char line[1024], word[32], first[64], second[64];
    memset(&state, 0, sizeof state);
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        struct gpu *gpu = &state.gpu[state.gpus];
        struct process *process = &state.process[state.processes];
        int index, number;
        if (sscanf(line, "driver %63s", state.driver) == 1) continue;
        if (sscanf(line, "cuda %d", &state.cuda) == 1) continue;
        if (sscanf(line, "fail %255[^\n]", state.fail) == 1) continue;
        if (sscanf(line, "%31s", word) == 1 && !strcmp(word, "hang")) { state.hangs = 1; continue; }
        if (state.gpus < MOST && sscanf(line, "gpu %d %95s %511[^\n]", &gpu->index, gpu->uuid, gpu->words) >= 2) state.gpus++;
        else if (sscanf(line, "lost %d", &index) == 1) {
            for (int i = 0; i < state.gpus; i++) if (state.gpu[i].index == index) state.gpu[i].lost = 1;
        } else if (state.xids < MOST && sscanf(line, "xid %d %d", &index, &number) == 2) {
            state.xid_gpu[state.xids] = index;
            state.xid[state.xids++] = number;
        } else if (state.processes < MOST
                   && sscanf(line, "proc %d %u %63s %63s %c", &process->gpu, &process->pid, first, second, &process->kind) == 5) {
            process->memory = first[0] == '-' ? -1 : atol(first);
            process->share = second[0] == '-' ? -1 : atol(second);
            state.processes++;
        }
    }
    fclose(file);
    return 1;
}

/* The text behind `key=` among a device's words; 0 when it is left out. */
static int text_of(const struct gpu *gpu, const char *key, char *into, size_t size) {
    size_t length = strlen(key);
    for (const char *at = gpu->words; at && *at; at = strchr(at, ' ')) {
        while (*at == ' ') at++;
        if (!strncmp(at, key, length) && at[length] == '=') {
            size_t count = strcspn(at + length + 1, " ");
            if (count >= size) count = size - 1;
            memcpy(into, at + length + 1, count);
            into[count] = 0;
            return 1;
        }
    }
    return 0;
}

static int number_of(const struct gpu *gpu, const char *key, long *into) {
    char text[64];
    if (!text_of(gpu, key, text, sizeof text)) return 0;
    *into = atol(text);
    return 1;
}

static void name_of(const struct gpu *gpu, char *into, size_t size) {
    if (!text_of(gpu, "name", into, size)) snprintf(into, size, "Stand-in GPU");
    for (char *at = into; *at; at++) if (*at == '_') *at = ' ';
}
