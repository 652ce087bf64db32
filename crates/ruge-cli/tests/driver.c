/* Drivers that fail on purpose.
 *
 * Alone (cc -shared -fPIC driver.c -o libcuda.so) it is a driver without a card: FAULT_VERSION is the version it claims,
 * FAULT_INIT what it answers to being started. The tests of the command line use it so.
 *
 * In front of a real one, on a machine with a card, it fails what it is told to:
 *
 *   cc -shared -fPIC -DREAL driver.c -o libcuda.so -Wl,--no-as-needed -l:libcuda.so.1 -ldl
 *   FAULT_VERSION=12040              an older driver
 *   FAULT_AFTER=40 FAULT_CODE=214    the card is lost at the fortieth wait for it (214 is uncorrectable memory)
 *   FAULT_ALLOCATION=20              the twentieth allocation finds no memory
 *
 * with LD_LIBRARY_PATH naming its folder. What it does not name goes to the real driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

static int told(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

#ifndef REAL

int cuDriverGetVersion(int *version) {
    *version = told("FAULT_VERSION", 13000);
    return 0;
}

int cuInit(unsigned flags) {
    (void)flags;
    return told("FAULT_INIT", 100);
}

int cuGetErrorString(int code, const char **words) {
    (void)code;
    *words = "as it was told to";
    return 0;
}

#else

static int lost = 0;

int cuDriverGetVersion(int *version) {
    int (*real)(int *) = dlsym(RTLD_NEXT, "cuDriverGetVersion");
    int result = real(version);
    *version = told("FAULT_VERSION", *version);
    return result;
}

int cuStreamSynchronize(void *stream) {
    static int calls = 0;
    int (*real)(void *) = dlsym(RTLD_NEXT, "cuStreamSynchronize");
    if (++calls == told("FAULT_AFTER", -1)) lost = 1;
    return lost ? told("FAULT_CODE", 214) : real(stream);
}

int cuMemAllocAsync(void *pointer, size_t size, void *stream) {
    static int calls = 0;
    int (*real)(void *, size_t, void *) = dlsym(RTLD_NEXT, "cuMemAllocAsync");
    if (lost) return told("FAULT_CODE", 214);
    return ++calls == told("FAULT_ALLOCATION", -1) ? 2 : real(pointer, size, stream);
}

#endif
