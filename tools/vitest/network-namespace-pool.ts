import { fork, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { PoolOptions, PoolRunnerInitializer, PoolWorker, WorkerRequest } from 'vitest/node';

/** True if test files can be isolated from each other's interfaces, rules, routes and mounts. */
export const canIsolateNetwork =
  process.platform === 'linux' && process.getuid?.() === 0 && spawnSync('unshare', ['--net', '--mount', 'ip', 'link']).status === 0;

/** A program with leading arguments that runs its remaining arguments as a program. */
type Before = readonly [file: string, ...args: string[]];

/** A network namespace without interfaces, not even the loopback. */
const bareNetwork: Before = ['unshare', '--net'];

/**
 * A network namespace with the loopback, one link with an address and a default route, as machines have them, and its own mounts with an empty `/run`
 * and an empty `/var/lib/cni`, in which the CNI library caches results. The machine's name servers stay configured.
 */
const machineParts = `
set -e
servers=$(cat /etc/resolv.conf)
mount -t tmpfs tmpfs /run
mkdir /run/netns
mkdir -p /var/lib/cni
mount -t tmpfs tmpfs /var/lib/cni
[ -e /etc/resolv.conf ] || { file=$(readlink -m /etc/resolv.conf); mkdir -p "\${file%/*}"; echo "$servers" > "$file"; }
ip link set lo up
ip link add ext0 type veth peer name ext1
ip link set ext1 up
ip addr add 10.255.255.2/24 dev ext0
ip link set ext0 up
ip route add default via 10.255.255.1
exec "$0" "$@"`;
const machine: Before = ['unshare', '--net', '--mount', '--propagation', 'private', 'sh', '-c', machineParts];

const pool = (name: string, before: Before): PoolRunnerInitializer => ({
  name,
  createPoolWorker: (options) => new ApartWorker(name, before, options),
});
/** Runs each test file in a process with its own empty network namespace; requires root. */
export const bareNetworkPool = pool('bare network', bareNetwork);
/** Runs each test file in a process whose network and mounts look like a separate machine; requires root. */
export const machineNamespacePool = pool('own machine', machine);

class ApartWorker implements PoolWorker {
  readonly name: string;
  readonly cacheFs = true;
  readonly #before: Before;
  readonly #options: PoolOptions;
  #child: ChildProcess | undefined;

  constructor(name: string, before: Before, options: PoolOptions) {
    this.name = name;
    this.#before = before;
    this.#options = options;
  }

  get #process(): ChildProcess {
    if (this.#child === undefined) throw new Error('the process of the test file was not started');
    return this.#child;
  }

  async start(): Promise<void> {
    const { distPath, env, execArgv } = this.#options;
    const [execPath, ...before] = this.#before;
    // each program replaces the one before: signals and the channel reach the last, which is Node
    this.#child = fork(join(distPath, 'workers', 'forks.js'), [], {
      execPath,
      execArgv: [...before, process.execPath, ...execArgv],
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
