import { watch } from 'node:fs';
import { lstat, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { RegistrationClient, type RegistrationInfo } from './registration-client.ts';

export interface PluginWatcherOptions {
  /**
   * The directory with registration sockets (upstream's `plugins_registry`). A plugin creates its socket when it is ready and removes it when it
   * ends.
   */
  readonly directory: string;
  /** The plugin type to register, such as `CSIPlugin`. Plugins of other types are ignored. */
  readonly type: string;
  readonly clock: { sleep(ms: number, signal?: AbortSignal): Promise<void> };
  readonly log: { warn(fields: object, message: string): void };
  /**
   * Registers a plugin. An exception is reported to the plugin as the error of its registration. The signal aborts when the plugin's socket
   * is removed.
   */
  register(plugin: RegistrationInfo, signal: AbortSignal): Promise<void>;
  /** Deregisters a plugin; called after the plugin's socket was removed. */
  deregister(plugin: RegistrationInfo): Promise<void>;
}

interface RegisteredSocket {
  /** The inode and creation time of the socket, which distinguish the socket from an earlier socket with the same name. */
  readonly identity: string;
  readonly removal: AbortController;
  readonly ended: Promise<void>;
}
/** The maximum depth of subdirectories in which sockets are searched. */
const maxDepth = 4;
const initialRetryDelayMs = 100;
const maxRetryDelayMs = 30_000;

/** Watches a directory for the registration sockets of plugins, as the kubelet's plugin watcher does, and registers each plugin. */
export class PluginWatcher {
  readonly #options: PluginWatcherOptions;
  readonly #known = new Map<string, RegisteredSocket>();
  readonly #stop = new AbortController();
  #scanning: Promise<void> = Promise.resolve();
  #scanQueued = false;
  #watches = new Map<string, { close(): void }>();

  constructor(options: PluginWatcherOptions) {
    this.#options = options;
  }

  /** Starts to watch the directory. Resolves after the first scan. */
  async start(): Promise<void> {
    await mkdir(this.#options.directory, { recursive: true, mode: 0o750 });
    this.#scan();
    await this.#scanning;
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node is stopping'));
    for (const watcher of this.#watches.values()) watcher.close();
    await this.#scanning;
    for (const { removal } of this.#known.values()) removal.abort(this.#stop.signal.reason);
    await Promise.all([...this.#known.values()].map(({ ended }) => ended));
  }

  /** Scans the directory. If a scan is in progress, one more scan follows it. */
  #scan(): void {
    if (this.#scanQueued) return;
    this.#scanQueued = true;
    this.#scanning = this.#scanning
      .then(() => {
        this.#scanQueued = false;
        return this.#stop.signal.aborted ? undefined : this.#reconcile();
      })
      .catch((error: unknown) => this.#options.log.warn({ error: String(error) }, 'cannot read the plugin registration directory'));
  }

  async #reconcile(): Promise<void> {
    const present = new Map<string, string>();
    const directories = new Set<string>();
    await this.#collect(this.#options.directory, { depth: 0, sockets: present, directories });
    for (const [directory, watcher] of this.#watches) {
      if (directories.has(directory)) continue;
      watcher.close();
      this.#watches.delete(directory);
    }
    for (const [socket, { identity, removal }] of this.#known) {
      if (present.get(socket) === identity) continue;
      removal.abort(new Error(`the socket ${socket} was removed`));
      this.#known.delete(socket);
    }
    for (const [socket, identity] of present) if (!this.#known.has(socket)) this.#addSocket(socket, identity);
  }

  async #collect(
    directory: string,
    { depth, sockets, directories }: { readonly depth: number; readonly sockets: Map<string, string>; readonly directories: Set<string> },
  ): Promise<void> {
    directories.add(directory);
    // watch before reading, so that no change is missed
    if (!this.#watches.has(directory)) {
      const watcher = watch(directory, () => this.#scan());
      watcher.on('error', () => this.#scan());
      this.#watches.set(directory, watcher);
    }
    for (const entry of await readdir(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name);
      if (entry.name.startsWith('.')) continue;
      if (entry.isDirectory() && depth < maxDepth) await this.#collect(path, { depth: depth + 1, sockets, directories });
      else if (entry.isSocket()) {
        const stats = await lstat(path, { bigint: true }).catch(() => undefined);
        if (stats !== undefined) sockets.set(path, `${stats.ino} ${stats.birthtimeNs}`);
      }
    }
  }

  #addSocket(socket: string, identity: string): void {
    const previous = this.#ending.get(socket) ?? Promise.resolve();
    const removal = new AbortController();
    const ended = previous.then(() => this.#runRegistration(socket, removal.signal));
    this.#ending.set(socket, ended);
    void ended.finally(() => {
      if (this.#ending.get(socket) === ended) this.#ending.delete(socket);
    });
    this.#known.set(socket, { identity, removal, ended });
  }
  /**
   * The last registration of each socket, by socket name. A new socket with the same name is registered after the previous plugin was
   * deregistered.
   */
  readonly #ending = new Map<string, Promise<void>>();

  /** Registers the plugin behind a socket, with retries, and deregisters the plugin when the socket is removed. */
  async #runRegistration(socket: string, signal: AbortSignal): Promise<void> {
    const { clock, log, type, register, deregister } = this.#options;
    const registration = new RegistrationClient(socket);
    let retryDelayMs = initialRetryDelayMs;
    let registered: RegistrationInfo | undefined;
    try {
      for (let notified = false; !notified && !signal.aborted; ) {
        try {
          if (registered === undefined) {
            const plugin = await registration.getInfo(signal);
            if (plugin.type !== type) return;
            const complete = { ...plugin, endpoint: plugin.endpoint === '' ? socket : plugin.endpoint };
            await this.#reportFailure(registration, signal, () => register(complete, signal));
            registered = complete;
          }
          await registration.notifyRegistrationStatus({ pluginRegistered: true }, signal);
          notified = true;
        } catch (error) {
          if (signal.aborted) break;
          log.warn({ socket, error: String(error), waitMs: retryDelayMs }, 'cannot register the plugin');
          await clock.sleep(retryDelayMs, signal).catch(() => undefined);
          retryDelayMs = Math.min(retryDelayMs * 2, maxRetryDelayMs);
        }
      }
      if (registered === undefined) return;
      await aborted(signal);
      // when the node stops, plugins stay registered: they still run when the node starts again
      if (!this.#stop.signal.aborted) await deregister(registered);
    } finally {
      registration.close();
    }
  }

  /** Runs `work`. If `work` throws, reports the error to the plugin and rethrows it. */
  async #reportFailure(registration: RegistrationClient, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (!signal.aborted) await registration.notifyRegistrationStatus({ pluginRegistered: false, error: message }, signal);
      throw error;
    }
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
