/* forked FOLDER: the parent starts the plugin's threads, then forks. The child, which has none of
 * these threads, writes and reads its own large chunks, and forks again. An alarm ends a hanging
 * process. */
#define _DEFAULT_SOURCE
#include "host.h"

#include <sys/wait.h>
#include <unistd.h>

static const hsize_t extents[] = {2, 128, 128, 64}, chunk[] = {1, 128, 128, 64};

static void work(const char *folder, const char *who)
{
    char path[4096];
    CHECK(snprintf(path, sizeof path, "%s/%s.h5", folder, who) < (int)sizeof path);
    float *data = host_field(2 * 128 * 128 * 64, (unsigned)strlen(who));
    host_round_trip(path, H5T_NATIVE_FLOAT, sizeof *data, 4, extents, chunk, 0, NULL, data);
    free(data);
}

static pid_t begin(void)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        alarm(30);
    return pid;
}

static void end(pid_t pid)
{
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    alarm(50);
    work(argv[1], "parent");
    pid_t child = begin();
    if (child == 0) {
        work(argv[1], "child");
        pid_t grandchild = begin();
        if (grandchild == 0) {
            work(argv[1], "grandchild");
            CHECK(H5close() >= 0);
            exit(0);
        }
        work(argv[1], "child again");
        end(grandchild);
        CHECK(H5close() >= 0);
        exit(0);
    }
    work(argv[1], "parent again");
    end(child);
    puts("both");
    return 0;
}
