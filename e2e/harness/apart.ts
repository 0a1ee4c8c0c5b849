import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { PoolOptions, PoolRunnerInitializer, PoolWorker, WorkerRequest } from 'vitest/node';

/** Test files can be kept apart: they see neither each other's interfaces, rules and routes nor each other's mounts. */
export const canBeApart = process.platform === 'linux' && process.getuid?.() === 0;

/**
 * What a test file finds: the loopback, one link with an address and a default route, as machines have them, and an empty `/run`. Name servers of the machine
 * stay written where they were.
 */
const prepare = `
set -e
servers=$(cat /etc/resolv.conf)
mount -t tmpfs tmpfs /run
mkdir /run/netns
[ -e /etc/resolv.conf ] || { file=$(readlink -m /etc/resolv.conf); mkdir -p "\${file%/*}"; echo "$servers" > "$file"; }
ip link set lo up
ip link add ext0 type veth peer name ext1
ip link set ext1 up
ip addr add 10.255.255.2/24 dev ext0
ip link set ext0 up
ip route add default via 10.255.255.1
exec "$0" "$@"`;

/** Runs each test file in a process with a network and mounts of its own; without root, in a process. */
export const apart: PoolRunnerInitializer = {
  name: 'apart',
  createPoolWorker: (options) => new ApartWorker(options),
};

class ApartWorker implements PoolWorker {
  readonly name = 'apart';
  readonly cacheFs = true;
  readonly #options: PoolOptions;
  #child: ChildProcess | undefined;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get #process(): ChildProcess {
    if (this.#child === undefined) throw new Error('the process of the test file was not started');
    return this.#child;
  }

  async start(): Promise<void> {
    const { distPath, env, execArgv } = this.#options;
    // every program replaces the one before: signals and the channel reach the last, which is Node
    const [execPath, before] = canBeApart
      ? ['unshare', ['--net', '--mount', '--propagation', 'private', 'sh', '-c', prepare, process.execPath]]
      : [process.execPath, []];
    this.#child = fork(join(distPath, 'workers', 'forks.js'), [], {
      execPath,
      execArgv: [...before, ...execArgv],
      env,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      serialization: 'advanced',
    });
  }

  async stop(): Promise<void> {
    const child = this.#process;
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    }
    this.#child = undefined;
  }

  on(event: string, callback: (argument: unknown) => void): void {
    this.#process.on(event, callback);
  }
  off(event: string, callback: (argument: unknown) => void): void {
    this.#process.off(event, callback);
  }
  send(message: WorkerRequest): void {
    this.#process.send(message);
  }
  deserialize(data: unknown): unknown {
    return data;
  }
}
