/* Makes a process, without waiting until its program is loaded, and lets it say who it is.
 *
 * posix_spawn lets its caller stand still until the child has called execve. On a busy machine the
 * child waits for a processor first, so that takes longer than everything else that the daemon does
 * for a short job. Here the child shares our memory as it does there (CLONE_VM, so it costs the
 * same however large the daemon is), but has a stack of its own, and we go on at once, or, if we are
 * to know whether there is anything wrong with the program, wait as posix_spawn does.
 *
 * The new process itself writes its pid where the daemon keeps its books. Should the daemon die in
 * that moment, nothing has to be guessed.
 *
 * Law: between clone and execve the child reads its own Order and writes only to that and to its
 * stack. It calls the kernel directly, since the functions of libc would write our errno. Its Order
 * stays where it is until the kernel has said, by clearing `child`, that the child has let go of our
 * memory.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
static inline long kernel(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long kernel(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error "not written for this processor; posix_spawn does as well, if not as quickly"
#endif

/* As the kernel has it, which is not as libc does; all zero is SIG_DFL. */
struct kernel_sigaction {
    void *words[4];
};

#define MOST_SIGNALS 64
#define STACK_BYTES 16384
#define NOTE_BYTES 96
#define MOST_DIGITS 20

typedef struct {
    volatile pid_t child; /* cleared by the kernel when the child has let go of our memory */
    volatile int error;   /* why execve failed, if it did */
    int pidfd;
    int streams[3];
    int has_files;         /* whether `files` counts */
    struct rlimit64 files; /* how many the program may have open */
    int note_fd;           /* where the child says who it is; -1: nowhere */
    size_t note_length;
    char note[NOTE_BYTES]; /* what it says, to which it adds its pid */
    const char *program;
    char **argv;
    char **envp;
    char *text; /* what these three point to */
    char stack[STACK_BYTES] __attribute__((aligned(16)));
} Order;

static void leave(Order *order, long failed)
{
    order->error = (int)-failed;
    for (;;)
        kernel(SYS_exit_group, 127, 0, 0, 0);
}

/* Our own word for who we are, while the one who made us may be dead already. A failed write is no
   reason not to go on: the caller has its own way to find us then. */
static void say_who(Order *order)
{
    char digits[MOST_DIGITS];
    size_t count = 0;
    long pid = kernel(SYS_getpid, 0, 0, 0, 0);
    for (; pid > 0; pid /= 10)
        digits[count++] = (char)('0' + pid % 10);
    while (count > 0)
        ((volatile char *)order->note)[order->note_length++] = digits[--count];
    ((volatile char *)order->note)[order->note_length++] = '\n';
    kernel(SYS_write, order->note_fd, (long)order->note, (long)order->note_length, 0);
}

/* What the child does. */
static int become(void *given)
{
    Order *order = given;
    struct kernel_sigaction by_default;
    uint64_t none = 0;
    /* Before it leaves our session: what leads its own has said who it is. */
    if (order->note_fd >= 0)
        say_who(order);
    long done = kernel(SYS_setsid, 0, 0, 0, 0);
    if (done < 0)
        leave(order, done);
    for (size_t word = 0; word < 4; word++)
        ((volatile struct kernel_sigaction *)&by_default)->words[word] = NULL;
    /* What we ignore, the program would ignore too; and a handler of ours that ran between here and
       execve would do so in our memory. For the two that can not be changed the kernel says so. */
    for (int number = 1; number <= MOST_SIGNALS; number++)
        kernel(SYS_rt_sigaction, number, (long)&by_default, 0, sizeof none);
    for (int stream = 0; stream < 3; stream++) {
        int from = order->streams[stream];
        /* One that is there already would be closed by execve; none of ours ever is. */
        done = from == stream ? kernel(SYS_fcntl, from, F_SETFD, 0, 0)
                              : kernel(SYS_dup3, from, stream, 0, 0);
        if (done < 0)
            leave(order, done);
    }
    /* Ours may be higher. That of a child is its own, though it shares our memory. */
    if (order->has_files) {
        done = kernel(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)&order->files, 0);
        if (done < 0)
            leave(order, done);
    }
    kernel(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, sizeof none);
    leave(order, kernel(SYS_execve, (long)order->program, (long)order->argv, (long)order->envp, 0));
    return 0;
}

static void dismiss(Order *order)
{
    if (order != NULL) {
        free(order->argv);
        free(order->envp);
        free(order->text);
        free(order);
    }
}

static void dismiss_capsule(PyObject *capsule)
{
    Order *order = PyCapsule_GetPointer(capsule, NULL);
    /* To let go of it too early would be to pull the child's memory away: rather lose a little. */
    if (order != NULL && order->child == 0)
        dismiss(order);
}

/* The bytes objects of a list, one behind the other in `text`, and pointers to each of them. */
static char **laid_out(PyObject *list, char *text)
{
    Py_ssize_t count = PyList_Size(list);
    char **pointers = malloc((count + 1) * sizeof *pointers);
    if (pointers == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        char *bytes;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(PyList_GetItem(list, at), &bytes, &length) < 0) {
            free(pointers);
            return NULL;
        }
        memcpy(text, bytes, length + 1);
        pointers[at] = text;
        text += length + 1;
    }
    pointers[count] = NULL;
    return pointers;
}

/* How much room the bytes objects of a list take; -1 if they can't be words of a process. */
static Py_ssize_t room_for(PyObject *list)
{
    Py_ssize_t room = 0;
    for (Py_ssize_t at = 0; at < PyList_Size(list); at++) {
        char *bytes;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(PyList_GetItem(list, at), &bytes, &length) < 0)
            return -1;
        if (memchr(bytes, 0, length) != NULL) {
            PyErr_SetString(PyExc_ValueError, "embedded null byte");
            return -1;
        }
        room += length + 1;
    }
    return room;
}

static Order *new_order(const char *program, PyObject *words, PyObject *variables)
{
    Py_ssize_t words_room = room_for(words);
    Py_ssize_t variables_room = words_room < 0 ? -1 : room_for(variables);
    if (variables_room < 0)
        return NULL;
    /* Not cleared: the stack is written before it is read. */
    Order *order = malloc(sizeof *order);
    if (order == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(order, 0, offsetof(Order, stack));
    size_t program_room = strlen(program) + 1;
    order->text = malloc(program_room + words_room + variables_room);
    if (order->text == NULL) {
        PyErr_NoMemory();
        dismiss(order);
        return NULL;
    }
    memcpy(order->text, program, program_room);
    order->program = order->text;
    order->argv = laid_out(words, order->text + program_room);
    order->envp =
        order->argv == NULL ? NULL : laid_out(variables, order->text + program_room + words_room);
    if (order->envp == NULL) {
        dismiss(order);
        return NULL;
    }
    return order;
}

PyDoc_STRVAR(spawn_doc,
             "spawn(program, words, variables, streams[, files[, note[, wait]]])\n"
             "-> (pid, pidfd, underway)\n\n"
             "Make a process in a session of its own, with these three descriptors as its own and\n"
             "all signals as they are by default; `files` is the limit of open files that it gets,\n"
             "soft and hard. `note` is a descriptor and the beginning of a line: the process writes\n"
             "it there, with its pid and an end, before anything else. `outcome(underway)` tells\n"
             "whether it runs its program by now; after `wait` it does, or never will.");

static PyObject *spawn(PyObject *module, PyObject *args)
{
    const char *program;
    PyObject *words, *variables;
    PyObject *files = Py_None, *note = Py_None;
    const char *note_text = "";
    Py_ssize_t note_length = 0;
    int in, out, err, note_fd = -1, wait = 0;
    long long soft = 0, hard = 0; /* -1: no limit, which is how the kernel has it too */
    if (!PyArg_ParseTuple(args, "yO!O!(iii)|OOp", &program, &PyList_Type, &words, &PyList_Type,
                          &variables, &in, &out, &err, &files, &note, &wait))
        return NULL;
    if (note != Py_None && !PyArg_ParseTuple(note, "iy#", &note_fd, &note_text, &note_length))
        return NULL;
    if (note_length > NOTE_BYTES - MOST_DIGITS - 1) {
        PyErr_SetString(PyExc_ValueError, "the note is too long");
        return NULL;
    }
    if (files != Py_None && !PyArg_ParseTuple(files, "LL", &soft, &hard))
        return NULL;
    Order *order = new_order(program, words, variables);
    if (order == NULL)
        return NULL;
    order->streams[0] = in;
    order->streams[1] = out;
    order->streams[2] = err;
    order->has_files = files != Py_None;
    order->files.rlim_cur = (uint64_t)soft;
    order->files.rlim_max = (uint64_t)hard;
    order->note_fd = note_fd;
    order->note_length = (size_t)note_length;
    memcpy(order->note, note_text, (size_t)note_length);
    PyObject *underway = PyCapsule_New(order, NULL, dismiss_capsule);
    if (underway == NULL) {
        dismiss(order);
        return NULL;
    }
    order->child = 1; /* the kernel's word alone clears it */
    /* Until it has reset them, a handler that ran in the child would do so in our memory. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int flags = CLONE_VM | CLONE_PIDFD | CLONE_CHILD_CLEARTID | SIGCHLD | (wait ? CLONE_VFORK : 0);
    pid_t pid = clone(become, order->stack + STACK_BYTES, flags, order, &order->pidfd, NULL,
                      (void *)&order->child);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        order->child = 0;
        Py_DecRef(underway);
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return Py_BuildValue("iiN", pid, order->pidfd, underway);
}

PyDoc_STRVAR(outcome_doc,
             "outcome(underway) -> None, 0 or an error number\n\n"
             "None: the child is still on its way to its program; 0: it runs it, or has run it.");

static PyObject *outcome(PyObject *module, PyObject *capsule)
{
    Order *order = PyCapsule_GetPointer(capsule, NULL);
    if (order == NULL)
        return NULL;
    if (order->child != 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(order->error);
}

static PyMethodDef methods[] = {
    {"spawn", spawn, METH_VARARGS, spawn_doc},
    {"outcome", outcome, METH_O, outcome_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_quickspawn",
    .m_doc = "Makes processes without waiting until their programs are loaded.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__quickspawn(void)
{
    return PyModule_Create(&definition);
}
