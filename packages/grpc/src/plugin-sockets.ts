import { watch } from 'node:fs';
import { lstat, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { PluginRegistration, type RegisteringPlugin } from './plugin-registration.ts';

export interface PluginSocketsOptions {
  /** Upstream's `plugins_registry`: plugins put sockets there when they are ready, and take them away when they end. */
  readonly directory: string;
  readonly type: string;
  readonly clock: { sleep(ms: number, signal?: AbortSignal): Promise<void> };
  readonly log: { warn(fields: object, message: string): void };
  /** Takes a plugin in. What it throws is told to the plugin. The signal aborts when the plugin's socket has gone. */
  register(plugin: RegisteringPlugin, signal: AbortSignal): Promise<void>;
  /** Its socket has gone. */
  deregister(plugin: RegisteringPlugin): Promise<void>;
}

interface Known {
  /** Tells a socket from another one of the same name. */
  readonly identity: string;
  readonly gone: AbortController;
  readonly ended: Promise<void>;
}
const deepest = 4;
const firstWaitMs = 100;
const longestWaitMs = 30_000;

/** Watches a directory for the sockets of plugins that want to be registered, as kubelets do. */
export class PluginSockets {
  readonly #options: PluginSocketsOptions;
  readonly #known = new Map<string, Known>();
  readonly #stop = new AbortController();
  #looking: Promise<void> = Promise.resolve();
  #asked = false;
  #watches = new Map<string, { close(): void }>();

  constructor(options: PluginSocketsOptions) {
    this.#options = options;
  }

  /** Resolves when it watches. */
  async start(): Promise<void> {
    await mkdir(this.#options.directory, { recursive: true, mode: 0o750 });
    this.#look();
    await this.#looking;
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node is stopping'));
    for (const watcher of this.#watches.values()) watcher.close();
    await this.#looking;
    for (const { gone } of this.#known.values()) gone.abort(this.#stop.signal.reason);
    await Promise.all([...this.#known.values()].map(({ ended }) => ended));
  }

  /** One look at a time; what happens meanwhile is looked at by the next. */
  #look(): void {
    if (this.#asked) return;
    this.#asked = true;
    this.#looking = this.#looking
      .then(() => {
        this.#asked = false;
        return this.#stop.signal.aborted ? undefined : this.#compare();
      })
      .catch((error: unknown) => this.#options.log.warn({ error: String(error) }, 'the directory of plugins cannot be read'));
  }

  async #compare(): Promise<void> {
    const present = new Map<string, string>();
    const directories = new Set<string>();
    await this.#collect(this.#options.directory, 0, present, directories);
    for (const [directory, watcher] of this.#watches) {
      if (directories.has(directory)) continue;
      watcher.close();
      this.#watches.delete(directory);
    }
    for (const [socket, { identity, gone }] of this.#known) {
      if (present.get(socket) === identity) continue;
      gone.abort(new Error(`the socket ${socket} has gone`));
      this.#known.delete(socket);
    }
    for (const [socket, identity] of present) if (!this.#known.has(socket)) this.#take(socket, identity);
  }

  async #collect(directory: string, depth: number, sockets: Map<string, string>, directories: Set<string>): Promise<void> {
    directories.add(directory);
    // before it is read: nothing can come unseen
    if (!this.#watches.has(directory)) {
      const watcher = watch(directory, () => this.#look());
      watcher.on('error', () => this.#look());
      this.#watches.set(directory, watcher);
    }
    for (const entry of await readdir(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name);
      if (entry.name.startsWith('.')) continue;
      if (entry.isDirectory() && depth < deepest) await this.#collect(path, depth + 1, sockets, directories);
      else if (entry.isSocket()) {
        const stats = await lstat(path, { bigint: true }).catch(() => undefined);
        if (stats !== undefined) sockets.set(path, `${stats.ino} ${stats.birthtimeNs}`);
      }
    }
  }

  #take(socket: string, identity: string): void {
    const before = this.#leaving.get(socket) ?? Promise.resolve();
    const gone = new AbortController();
    const ended = before.then(() => this.#follow(socket, gone.signal));
    this.#leaving.set(socket, ended);
    void ended.finally(() => {
      if (this.#leaving.get(socket) === ended) this.#leaving.delete(socket);
    });
    this.#known.set(socket, { identity, gone, ended });
  }
  /** A plugin that comes again has to wait until the one before has been taken leave of. */
  readonly #leaving = new Map<string, Promise<void>>();

  /** Registers the plugin behind a socket, however often it takes, and takes leave of it when the socket has gone. */
  async #follow(socket: string, signal: AbortSignal): Promise<void> {
    const { clock, log, type, register, deregister } = this.#options;
    const registration = new PluginRegistration(socket);
    let waitMs = firstWaitMs;
    let registered: RegisteringPlugin | undefined;
    try {
      for (let told = false; !told && !signal.aborted; ) {
        try {
          if (registered === undefined) {
            const plugin = await registration.info(signal);
            if (plugin.type !== type) return; // somebody else's
            const whole = { ...plugin, endpoint: plugin.endpoint === '' ? socket : plugin.endpoint };
            await this.#orSay(registration, signal, () => register(whole, signal));
            registered = whole;
          }
          await registration.tell({ pluginRegistered: true }, signal);
          told = true;
        } catch (error) {
          if (signal.aborted) break;
          log.warn({ socket, error: String(error), waitMs }, 'a plugin could not be registered');
          await clock.sleep(waitMs, signal).catch(() => undefined);
          waitMs = Math.min(waitMs * 2, longestWaitMs);
        }
      }
      if (registered === undefined) return;
      await ended(signal);
      // a node that stops keeps its plugins: they are still there when it begins again
      if (!this.#stop.signal.aborted) await deregister(registered);
    } finally {
      registration.close();
    }
  }

  /** What goes wrong is told to the plugin, too. */
  async #orSay(registration: PluginRegistration, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (!signal.aborted) await registration.tell({ pluginRegistered: false, error: why }, signal);
      throw error;
    }
  }
}

function ended(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
