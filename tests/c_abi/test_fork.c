/* Small calls in children that are forked while other threads call gridz, and the system calls of
 * small calls. Run without sanitizers: their own threads and locks do not survive a fork.
 *
 *   test_fork forks N     N children while 4 threads compress and decompress
 *   test_fork calls N     N calls whose only system calls may be for memory
 *   test_fork forbidden   shows that the system call filter ends a process that opens a file
 *   test_fork time        the time of a call of 64 floats
 */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_FLOATS = 500, N_THREADS = 4, ROOM = 8 * N_FLOATS + 4096 };

struct work {
    float values[N_FLOATS], back[N_FLOATS];
    unsigned char frame[ROOM];
};

/* Compresses and decompresses the first n values; returns 0 if they are restored. */
static int round_trip(struct work *work, size_t n)
{
    uint64_t extents[] = {n};
    size_t n_bytes = 0, n_back = 0;
    gridz_array array = {0};
    array.struct_size = sizeof array;
    array.dtype = GRIDZ_DTYPE_F32;
    array.rank = 1;
    array.extents = extents;
    if (gridz_compress(&array, work->values, 4 * n, work->frame, ROOM, &n_bytes, NULL) != GRIDZ_OK)
        return 1;
    if (gridz_decompress(work->frame, n_bytes, work->back, 4 * n, &n_back, NULL) != GRIDZ_OK)
        return 1;
    return n_back != 4 * n || memcmp(work->values, work->back, 4 * n) != 0;
}

static struct work *new_work(void)
{
    struct work *work = calloc(1, sizeof *work);
    CHECK(work != NULL);
    for (size_t i = 0; i < N_FLOATS; i++)
        work->values[i] = (float)i / 7;
    return work;
}

static atomic_int stop;
static atomic_ulong n_calls;

static void *be_busy(void *unused)
{
    struct work *work = new_work();
    while (!stop) {
        CHECK(round_trip(work, N_FLOATS) == 0);
        n_calls++;
    }
    free(work);
    return unused;
}

static int forks(int n)
{
    pthread_t threads[N_THREADS];
    struct work *work = new_work();
    int n_crashed = 0, n_hung = 0, n_wrong = 0;
    for (int i = 0; i < N_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, be_busy, NULL) == 0);
    while (n_calls == 0)
        sched_yield();
    for (int i = 0; i < n; i++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            _exit(round_trip(work, N_FLOATS));
        }
        CHECK(waitpid(child, &status, 0) == child);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            n_hung++;
        else if (WIFSIGNALED(status))
            n_crashed++;
        else if (status != 0)
            n_wrong++;
    }
    stop = 1;
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    free(work);
    printf("%d children: %d crashed, %d hung, %d wrong; the threads made %s calls\n", n, n_crashed, n_hung, n_wrong,
           n_calls >= (unsigned long)n ? "as many" : "fewer");
    return n_crashed || n_hung || n_wrong;
}

/* From here on, only system calls that allocate memory, write the output, or end the process are
 * allowed. */
static void forbid(void)
{
    static const int ALLOWED[] = {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect, SYS_write,
                                  SYS_exit_group, SYS_exit, SYS_clock_gettime};
    enum { N = sizeof ALLOWED / sizeof *ALLOWED };
    struct sock_filter code[2 * N + 2];
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    struct sock_filter load = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_filter end = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[0] = load;
    for (int i = 0; i < N; i++) {
        struct sock_filter is_allowed = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)ALLOWED[i], 0, 1);
        code[1 + 2 * i] = is_allowed;
        code[2 + 2 * i] = allow;
    }
    code[2 * N + 1] = end;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static int calls(int n)
{
    struct work *work = new_work();
    CHECK(round_trip(work, 64) == 0);
    printf("small calls: ");
    fflush(stdout); /* the first output queries the type of stdout */
    forbid();
    for (int i = 0; i < n; i++)
        if (round_trip(work, 1 + (size_t)i % 64) != 0)
            return 1;
    printf("%d asked the system for nothing but memory\n", 2 * n);
    return 0;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int time_of_calls(void)
{
    struct work *work = new_work();
    double best = 1;
    for (int repeat = 0; repeat < 20; repeat++) {
        double begin = seconds();
        for (int i = 0; i < 1000; i++)
            CHECK(round_trip(work, 64) == 0);
        double one = (seconds() - begin) / 2000;
        if (one < best)
            best = one;
    }
    printf("%.3f microseconds for 64 floats\n", best * 1e6);
    return 0;
}

int main(int n_args, char **args)
{
    int n = n_args > 2 ? atoi(args[2]) : 0;
    if (n_args > 1 && strcmp(args[1], "forks") == 0)
        return forks(n);
    if (n_args > 1 && strcmp(args[1], "calls") == 0)
        return calls(n);
    if (n_args > 1 && strcmp(args[1], "time") == 0)
        return time_of_calls();
    CHECK(n_args > 1 && strcmp(args[1], "forbidden") == 0);
    forbid();
    return open("/", O_RDONLY) < 0 ? errno : 0;
}
