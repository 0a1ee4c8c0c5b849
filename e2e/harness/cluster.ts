import { chmod, chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Api } from './api.ts';
import { Cleanup } from './cleanup.ts';
import type { ClusterSpec } from './composition.ts';
import { Kubectl, newestKubectl } from './kubectl.ts';
import { oarlock, runOarlock, type OarlockProgram } from './oarlock.ts';
import { Daemon, endProcessesBelow, freePort, runProgram, type Finished } from './programs.ts';
import { removeNetwork } from './host-state.ts';
import { patienceMs } from './until.ts';

export interface ClusterOptions {
  /** The `spec` of the cluster.yaml; if absent, `oarlock up` runs without -f. `bridge` is the name of the cluster's bridge. */
  readonly spec?: ClusterSpec & { readonly bridge?: string };
  /** A directory that does not exist yet, or the data directory of an earlier cluster. */
  readonly dir: string;
  readonly nodeName?: string;
  /** Default: a free port. */
  readonly port?: number;
  readonly runAs?: { readonly uid: number; readonly gid: number };
  readonly args?: readonly string[];
  /** Environment variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly readyMs?: number;
  /** Default: the program of this checkout. */
  readonly program?: OarlockProgram;
}

/** An `oarlock up` with its own process, port, data directory and kubectl cache. */
export class Cluster {
  readonly dir: string;
  readonly dataDir: string;
  readonly kubeconfig: string;
  readonly port: number;
  readonly nodeName: string;
  readonly kubectl: Kubectl;
  readonly #options: ClusterOptions;
  /** The program of the next start, and of commands. */
  program: OarlockProgram;
  #daemon: Daemon | undefined;
  #api: Api | undefined;

  private constructor(options: ClusterOptions, port: number) {
    this.#options = options;
    this.program = options.program ?? oarlock;
    this.dir = options.dir;
    this.dataDir = join(options.dir, 'data');
    this.kubeconfig = join(this.dataDir, 'admin.kubeconfig');
    this.port = port;
    this.nodeName = options.nodeName ?? 'node-a';
    const binary = newestKubectl();
    if (binary === undefined) throw new Error('there is no kubectl on the PATH');
    this.kubectl = new Kubectl(binary, this.kubeconfig, join(options.dir, 'home'));
  }

  /** Writes the cluster.yaml and starts the cluster. Resolves when the cluster reports that it is ready. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    const cluster = await Cluster.prepare(options);
    try {
      await cluster.up();
      return cluster;
    } catch (error) {
      await cluster.dispose();
      throw error;
    }
  }

  /** Creates the cluster without starting it. */
  static async prepare(options: ClusterOptions): Promise<Cluster> {
    await mkdir(options.dir, { recursive: true, mode: 0o755 });
    if (options.runAs) await chown(options.dir, options.runAs.uid, options.runAs.gid);
    const cluster = new Cluster(options, options.port ?? (await freePort()));
    if (options.spec) {
      const { bridge: _, ...spec } = options.spec;
      const text = JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'e2e' }, spec }, null, 2);
      await writeFile(cluster.file, text, { mode: 0o644 });
      await chmod(cluster.file, 0o644);
    }
    return cluster;
  }

  get file(): string {
    return join(this.dir, 'cluster.yaml');
  }
  get pid(): number {
    return this.daemon.pid;
  }
  get daemon(): Daemon {
    if (this.#daemon === undefined) throw new Error('the cluster was not started');
    return this.#daemon;
  }
  get running(): boolean {
    return this.#daemon !== undefined && !this.#daemon.ended;
  }
  get api(): Api {
    if (this.#api === undefined) throw new Error('the cluster was not ready yet');
    return this.#api;
  }

  get upArgs(): readonly string[] {
    return [
      'up',
      ...(this.#options.spec ? ['-f', this.file] : []),
      '--data-dir',
      this.dataDir,
      '--port',
      String(this.port),
      '--node-name',
      this.nodeName,
      ...(this.#options.args ?? []),
    ];
  }

  /** Starts the process without waiting for readiness. */
  launch(): Daemon {
    const { runAs, env } = this.#options;
    const home = join(this.dir, 'home');
    const { file, args } = this.program;
    this.#daemon = new Daemon(file, [...args, ...this.upArgs], { cwd: this.dir, env: { HOME: home, ...env }, ...runAs });
    return this.#daemon;
  }

  /** Starts the cluster, also again over the same data directory. Resolves when it is ready, with the elapsed milliseconds. */
  async up(): Promise<number> {
    const began = performance.now();
    const daemon = this.launch();
    await daemon.line(/^Oarlock is ready at /, this.#options.readyMs ?? patienceMs);
    const took = performance.now() - began;
    this.#api?.close();
    this.#api = await Api.of(this.kubeconfig);
    return took;
  }

  /** Sends SIGKILL to the control plane. Pods keep running. */
  async kill9(): Promise<void> {
    await this.daemon.stop('SIGKILL');
  }

  /** Sends SIGTERM and waits for the exit. @throws Error if the exit code is not 0 */
  async stop(): Promise<void> {
    if (!this.running) return;
    const code = await this.daemon.stop();
    if (code !== 0)
      throw new Error(`the cluster ended with ${code} when asked to stop:\n${this.daemon.output.slice(-2000)}\n${await this.log()}`);
  }

  oarlock(...args: string[]): Promise<Finished> {
    return runOarlock([...args, '--data-dir', this.dataDir], {}, this.program);
  }

  /** Returns the end of the log. */
  async log(lines = 60): Promise<string> {
    const text = await readFile(join(this.dataDir, 'oarlock.log'), 'utf8').catch((error: Error) => error.message);
    return text.trimEnd().split('\n').slice(-lines).join('\n');
  }

  /** Collects the state that helps to understand a failure. */
  async report(): Promise<string> {
    const parts = [`--- ${this.dataDir}: ${this.running ? `process ${this.pid} runs` : 'ended'}`, this.#daemon?.output.slice(-2000) ?? ''];
    if (this.running) {
      for (const args of [
        ['get', 'pods,services,endpointslices', '-A', '-o', 'wide'],
        ['get', 'events', '-A', '--sort-by=.lastTimestamp'],
      ]) {
        const { stdout, stderr } = await this.kubectl.try(args, { timeoutMs: 10_000 });
        parts.push(`--- kubectl ${args.join(' ')}`, stdout.split('\n').slice(-40).join('\n'), stderr);
      }
    }
    parts.push('--- oarlock.log', await this.log());
    return parts.join('\n');
  }

  /** Ends all processes of the cluster, also those that a crash left, and removes its directory. */
  async dispose(): Promise<void> {
    const cleanup = new Cleanup();
    cleanup.add('directory', () => this.#removeDirectory());
    cleanup.add('network', () => removeNetwork(this.#options.spec?.bridge));
    cleanup.add('processes', () => endProcessesBelow(this.dir));
    cleanup.add('API', () => this.#api?.close());
    cleanup.add('process', () => this.stop());
    await cleanup.run();
  }

  async #removeDirectory(): Promise<void> {
    await unmountBelow(this.dir);
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Unmounts volumes such as tmpfs. A mount that disappears together with another is ignored; the check for leftovers finds the rest. */
export async function unmountBelow(directory: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((path) => path.startsWith(`${directory}/`));
  for (const mount of mounts.sort().reverse()) await runProgram('umount', ['--lazy', mount]);
}
