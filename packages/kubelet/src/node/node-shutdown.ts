import { spawn, type ChildProcess } from 'node:child_process';
import { access } from 'node:fs/promises';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { KubeletConfig } from '../kubelet-config.ts';
import { LinkedSignal } from '../linked-signal.ts';
import type { PodWorker } from '../pod-worker.ts';

/** Pods of this priority and above, up to the next group's, get so long when the machine goes down. */
export interface ShutdownGroup {
  readonly priority: number;
  readonly seconds: number;
}
const critical = 2_000_000_000;
const message = 'Pod was terminated in response to imminent node shutdown.';

/** The groups of a config, the least important first; none: pods are not stopped when the machine goes down (KEP-2000, KEP-2712). */
export function shutdownGroups({ shutdown }: Pick<KubeletConfig, 'shutdown'>): readonly ShutdownGroup[] {
  const { graceSeconds, criticalGraceSeconds, byPriority } = shutdown;
  if (byPriority.length > 0) return [...byPriority].sort((a, b) => a.priority - b.priority);
  if (graceSeconds === 0) return [];
  return [
    { priority: 0, seconds: graceSeconds - criticalGraceSeconds },
    { priority: critical, seconds: criticalGraceSeconds },
  ];
}

export interface NodeShutdownOptions {
  readonly groups: readonly ShutdownGroup[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  pods(): Iterable<PodWorker>;
  /** The node is on its way down, or is not any more: tell. */
  changed(): void;
}

/** Stops pods in order of their priority before the machine goes down: each group has its time, and what ends sooner lets the next begin. */
export class NodeShutdown {
  readonly #options: NodeShutdownOptions;
  #running: Promise<void> | undefined;
  #active = false;

  constructor(options: NodeShutdownOptions) {
    this.#options = options;
  }

  /** Whether the machine is going down: no pod is taken in any more. */
  get active(): boolean {
    return this.#active;
  }

  /** Resolves when every pod has ended, or had its time. */
  run(): Promise<void> {
    this.#active = true;
    this.#running ??= this.#stopAll();
    return this.#running;
  }
  /** It does not go down after all. */
  cancel(): void {
    this.#active = false;
    this.#running = undefined;
    this.#options.changed();
  }

  async #stopAll(): Promise<void> {
    const { groups, pods, log, changed } = this.#options;
    log.warn({ groups }, 'the machine goes down: stopping its pods');
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
    await Promise.all(workers.map((worker) => worker.whenStopped(over.signal)));
    timer.cancel();
    over.release();
  }
}

const inhibitor = '/usr/bin/systemd-inhibit';
const monitor = '/usr/bin/dbus-monitor';
const watched = "type='signal',interface='org.freedesktop.login1.Manager',member='PrepareForShutdown'";

/**
 * Tells when the machine is about to go down: from logind, which is held up as long as pods take, where there is one; else at SIGPWR.
 */
export class ShutdownWatch {
  readonly #log: Logger;
  readonly #shutdown: NodeShutdown;
  #child: ChildProcess | undefined;
  #stopped = false;
  readonly #onSignal = () => {
    void this.#shutdown.run();
  };

  constructor(shutdown: NodeShutdown, log: Logger) {
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
    else this.#log.info({}, 'there is no logind to listen to: pods are stopped at SIGPWR');
  }

  stop(): void {
    this.#stopped = true;
    process.off('SIGPWR', this.#onSignal);
    this.#child?.kill();
  }

  /** One child holds the lock and hears the signal; its end gives the lock back. */
  #listen(): void {
    const child = spawn(
      inhibitor,
      ['--what=shutdown', '--mode=delay', '--who=kubelet', '--why=Pods need time to end', monitor, '--system', watched],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    );
    this.#child = child;
    child.on('error', (error) => this.#log.warn({ err: error }, 'logind cannot be listened to'));
    child.once('exit', (code) => {
      if (!this.#stopped && this.#child === child) this.#log.warn({ code }, 'logind is not listened to any more');
    });
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (/boolean true/.test(text)) void this.#shutdown.run().finally(() => child.kill());
      else if (/boolean false/.test(text)) this.#shutdown.cancel();
    });
  }
}

/** What stops a node's pods in time, as its config says; undefined: nothing does. */
export function shutdownOf(
  config: KubeletConfig,
  context: Pick<NodeShutdownOptions, 'clock' | 'log' | 'signal'>,
  node: Pick<NodeShutdownOptions, 'pods'> & { changed(down: boolean): void },
): NodeShutdown | undefined {
  const groups = shutdownGroups(config);
  if (groups.length === 0) return undefined;
  const { clock, log, signal } = context;
  const shutdown: NodeShutdown = new NodeShutdown({
    groups,
    clock,
    log,
    signal,
    pods: () => node.pods(),
    changed: () => node.changed(shutdown.active),
  });
  return shutdown;
}
