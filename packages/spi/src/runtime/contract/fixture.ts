import type { NamespaceMode, RegistryAuth, RuntimeDriver } from '../runtime.ts';

/**
 * Programs that the suite runs, and what each must do. A fixture defines how its runtime runs them.
 *
 * - `serve`: prints the line `ready` if logs are supported, runs until SIGTERM, then exits 0 promptly
 * - `stubborn`: prints the line `ready`, then runs on; ignores SIGTERM
 * - `sleep SECONDS`: exits 0 after that time
 * - `exit CODE`: exits immediately
 * - `echo LINE...`: prints each argument as a line to stdout, exits 0; `complain LINE...`: the same to stderr
 * - `print TEXT`: prints to stdout without a newline, exits 0
 * - `seq N`: prints the numbers 1 to N to stdout, one per line, exits 0
 * - `flood N`: prints N bytes `x` and a newline to stdout, exits 0
 * - `cat`: copies stdin to stdout until its end, exits 0
 * - `count`: prints the number of bytes of stdin at its end, exits 0
 * - `size`: prints `ROWS COLUMNS` of its terminal for every line of stdin; exits 0 at the end of stdin
 * - `env NAME`: prints the variable; `pwd`: prints the directory; `read PATH`: prints the file; all exit 0
 * - `listen PORT`: echoes TCP connections, any number of them, until SIGTERM
 * - `idle TOKEN`: runs until SIGTERM with TOKEN as an argument; `alive TOKEN`: exits 0 if a process with that argument runs beside it, else 1
 * - `hog`: allocates memory until it is killed; `memory-limit`: prints its cgroup's memory limit in bytes
 */
export type Program =
  | 'serve'
  | 'stubborn'
  | 'sleep'
  | 'exit'
  | 'echo'
  | 'complain'
  | 'print'
  | 'seq'
  | 'flood'
  | 'cat'
  | 'count'
  | 'size'
  | 'env'
  | 'pwd'
  | 'read'
  | 'listen'
  | 'idle'
  | 'alive'
  | 'hog'
  | 'memory-limit';

/** Optional capabilities of a runtime. A fixture supports everything that it does not list in `unsupported`. */
export type RuntimeCapability =
  | 'logs'
  | 'execSync'
  | 'exec'
  | 'execTty'
  | 'attach'
  | 'portForward'
  | 'stats'
  | 'updateResources'
  | 'oom'
  | 'images'
  | 'imagePull'
  | 'imageRemove'
  | 'adoption'
  | 'addresses'
  | 'mounts'
  | 'environment'
  | 'signals'
  | 'nameReservation'
  /** Logs are complete even if the container wrote much more than a pipe buffer just before its exit. */
  | 'logBursts';

/** Access to the runtime driver under test, provided by the package of the driver. */
export interface RuntimeFixture {
  readonly driver: RuntimeDriver;
  /** An image that is already present on the node; `host` if the runtime has no images. */
  readonly image: string;
  /** Returns the command line of one of the suite's programs, for a container or exec. */
  command(program: Program, args: readonly string[]): { readonly command: readonly string[]; readonly args: readonly string[] };
  /** Unsupported capabilities, each with the reason shown for the skipped tests. */
  readonly unsupported?: Partial<Readonly<Record<RuntimeCapability, string>>>;
  /** Network of the suite's sandboxes. Default: `POD` if the runtime has network namespaces, else `NODE`. */
  readonly network?: NamespaceMode;
  readonly handler?: string;
  readonly cgroupParent?: string;
  /** An image that is not present, in a registry that requires `auth`; and an image that does not exist. Required for `imagePull`. */
  readonly pull?: { readonly image: string; readonly auth: RegistryAuth; readonly missing: string };
  /** Abandons the driver as if the driver's process had ended, and returns a new driver for the same runtime. Required for `adoption`. */
  restartClient?(): Promise<RuntimeDriver>;
  dispose(): Promise<void>;
  /** Timeout of each wait of the suite, in milliseconds. Default 60,000: a guard, because machines are slow and busy. */
  readonly timeoutMs?: number;
}

/** Returns the programs as POSIX shell scripts. They use `cat`, `seq`, `head`, `tr`, `wc`, `grep`, `stty` and busybox (for `nc`). */
export function shellPrograms(shell = '/bin/sh'): RuntimeFixture['command'] {
  const scripts: Readonly<Record<Program, string>> = {
    serve: 'trap "exit 0" TERM; echo ready; while :; do sleep 3600 & wait $!; done',
    stubborn: 'trap "" TERM; echo ready; while :; do sleep 3600; done',
    sleep: 'exec sleep "$1"',
    exit: 'exit "$1"',
    echo: 'for line; do printf "%s\\n" "$line"; done',
    complain: 'for line; do printf "%s\\n" "$line" >&2; done',
    print: 'printf %s "$1"',
    seq: 'exec seq 1 "$1"',
    flood: 'head -c "$1" /dev/zero | tr "\\0" x; echo',
    cat: 'exec cat',
    count: 'exec wc -c',
    size: 'while read -r line; do stty size; done',
    env: 'eval "printf \'%s\\n\' \\"\\$$1\\""',
    pwd: 'pwd',
    read: 'exec cat "$1"',
    listen: 'exec busybox nc -ll -p "$1" -e cat',
    idle: 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done',
    alive: 'for f in /proc/[0-9]*/cmdline; do tr "\\0" "\\n" < "$f" 2>/dev/null | grep -qx "$1$2" && exit 0; done; exit 1',
    hog: 'exec tail /dev/zero',
    'memory-limit': 'cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes',
  };
  return (program, args) => {
    // the token is passed in two parts, so that `alive` does not find itself
    const words = program === 'alive' ? [args[0]?.slice(0, 1) ?? '', args[0]?.slice(1) ?? ''] : args;
    return { command: [shell, '-c', scripts[program]], args: [program, ...words] };
  };
}
