import { spawn, type ChildProcess } from 'node:child_process';
import { access } from 'node:fs/promises';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import { LinkedSignal } from '@oarlock/primitives/concurrency/linked-signal';
import type { PodWorker } from '../pod/worker/pod-worker.ts';

/** The shutdown grace period of pods whose priority is at least `priority` and lower than that of the next group. */
export interface ShutdownGroup {
  readonly priority: number;
  readonly seconds: number;
}
const critical = 2_000_000_000;
const message = 'Pod was terminated in response to imminent node shutdown.';

/** Returns the shutdown groups of a configuration in ascending priority. Returns none if graceful node shutdown is disabled (KEP-2000, KEP-2712). */
export function shutdownGroups({ shutdown }: Pick<KubeletConfig, 'shutdown'>): readonly ShutdownGroup[] {
  const { graceSeconds, criticalGraceSeconds, byPriority } = shutdown;
  if (byPriority.length > 0) return [...byPriority].sort((a, b) => a.priority - b.priority);
  if (graceSeconds === 0) return [];
  return [
    { priority: 0, seconds: graceSeconds - criticalGraceSeconds },
    { priority: critical, seconds: criticalGraceSeconds },
  ];
}

export interface NodeShutdownManagerOptions {
  readonly groups: readonly ShutdownGroup[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  pods(): Iterable<PodWorker>;
  /** Called when the shutdown starts or is cancelled. */
  changed(): void;
}

/**
 * Terminates pods in ascending priority before the machine shuts down. A group of pods starts to terminate when the previous group has terminated
 * or the previous group's grace period has passed.
 */
export class NodeShutdownManager {
  readonly #options: NodeShutdownManagerOptions;
  #running: Promise<void> | undefined;
  #active = false;

  constructor(options: NodeShutdownManagerOptions) {
    this.#options = options;
  }

  /** True while the machine shuts down. The node then admits no pods. */
  get active(): boolean {
    return this.#active;
  }

  /** Terminates all pods, and resolves when every pod has terminated or its grace period has passed. */
  run(): Promise<void> {
    this.#active = true;
    this.#running ??= this.#stopAll();
    return this.#running;
  }
  /** Ends the shutdown state after the machine's shutdown was cancelled. */
  cancel(): void {
    this.#active = false;
    this.#running = undefined;
    this.#options.changed();
  }

  async #stopAll(): Promise<void> {
    const { groups, pods, log, changed } = this.#options;
    log.warn({ groups }, 'the machine is shutting down: terminating its pods');
    changed();
    const all = [...pods()].filter(({ stage }) => stage === 'syncing');
    const groupOf = ({ record }: PodWorker) => {
      const priority = record.pod.spec?.priority ?? 0;
      return Math.max(
        0,
        groups.findLastIndex((group) => group.priority <= priority),
      );
    };
    for (const [index, { seconds }] of groups.entries())
      await this.#stopGroup(
        all.filter((worker) => groupOf(worker) === index),
        seconds,
      );
  }

  async #stopGroup(workers: readonly PodWorker[], seconds: number): Promise<void> {
    if (workers.length === 0) return;
    const { clock, signal } = this.#options;
    for (const worker of workers)
      worker.evict(message, Math.min(seconds, worker.record.pod.spec?.terminationGracePeriodSeconds ?? seconds), 'Terminated');
    const over = new LinkedSignal(signal);
    const timer = clock.after(seconds * 1000, () => over.abort(new Error('its time is over')));
    await Promise.all(workers.map((worker) => worker.waitForPodTermination(over.signal)));
    timer.cancel();
    over.release();
  }
}

const inhibitor = '/usr/bin/systemd-inhibit';
const monitor = '/usr/bin/dbus-monitor';
const watched = "type='signal',interface='org.freedesktop.login1.Manager',member='PrepareForShutdown'";

/**
 * Runs the shutdown manager when logind signals PrepareForShutdown, and delays the shutdown with a logind inhibitor lock. Without logind, the
 * shutdown manager runs on SIGPWR.
 */
export class ShutdownInhibitor {
  readonly #log: Logger;
  readonly #shutdown: NodeShutdownManager;
  #child: ChildProcess | undefined;
  #stopped = false;
  readonly #onSignal = () => {
    void this.#shutdown.run();
  };

  constructor(shutdown: NodeShutdownManager, log: Logger) {
    this.#shutdown = shutdown;
    this.#log = log;
  }

  async start(): Promise<void> {
    process.on('SIGPWR', this.#onSignal);
    const there = await Promise.all(
      [inhibitor, monitor, '/run/dbus/system_bus_socket'].map((path) =>
        access(path).then(
          () => true,
          () => false,
        ),
      ),
    );
    if (there.every(Boolean)) this.#listen();
    else this.#log.info({}, 'logind is not available: pods are terminated on SIGPWR');
  }

  stop(): void {
    this.#stopped = true;
    process.off('SIGPWR', this.#onSignal);
    this.#child?.kill();
  }

  /** Spawns one child process that holds the inhibitor lock and monitors the logind signal. The lock is released when the child process ends. */
  #listen(): void {
    const child = spawn(
      inhibitor,
      ['--what=shutdown', '--mode=delay', '--who=kubelet', '--why=Pods need time to end', monitor, '--system', watched],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    );
    this.#child = child;
    child.on('error', (error) => this.#log.warn({ err: error }, 'watching logind failed'));
    child.once('exit', (code) => {
      if (!this.#stopped && this.#child === child) this.#log.warn({ code }, 'the watch of logind ended');
    });
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (/boolean true/.test(text)) void this.#shutdown.run().finally(() => child.kill());
      else if (/boolean false/.test(text)) this.#shutdown.cancel();
    });
  }
}

/** Returns the shutdown manager of a configuration; undefined if graceful node shutdown is disabled. */
export function createNodeShutdownManager(
  config: KubeletConfig,
  context: Pick<NodeShutdownManagerOptions, 'clock' | 'log' | 'signal'>,
  node: Pick<NodeShutdownManagerOptions, 'pods'> & { changed(down: boolean): void },
): NodeShutdownManager | undefined {
  const groups = shutdownGroups(config);
  if (groups.length === 0) return undefined;
  const { clock, log, signal } = context;
  const shutdown: NodeShutdownManager = new NodeShutdownManager({
    groups,
    clock,
    log,
    signal,
    pods: () => node.pods(),
    changed: () => node.changed(shutdown.active),
  });
  return shutdown;
}
