import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { runProgram, type Finished, type RunOptions } from './programs.ts';

/** A kubectl of this machine: version such as `1.33` and path. */
export interface KubectlBinary {
  readonly version: string;
  readonly file: string;
}

function onPath(name: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((directory) => join(directory, name))
    .find((file) => existsSync(file));
}

/** Returns every `kubectl.<version>` on the PATH or beside the resolved `kubectl`, oldest first. */
export function kubectlBinaries(): readonly KubectlBinary[] {
  const main = onPath('kubectl');
  const directories = new Set([
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...(main === undefined ? [] : [dirname(realpathSync(main))]),
  ]);
  const found = new Map<string, string>();
  for (const directory of directories) {
    if (!existsSync(directory)) continue;
    for (const name of readdirSync(directory)) {
      const version = /^kubectl\.(\d+\.\d+)$/.exec(name)?.[1];
      if (version !== undefined && !found.has(version)) found.set(version, join(directory, name));
    }
  }
  const minor = (version: string) => Number(version.split('.')[1]);
  return [...found].map(([version, file]) => ({ version, file })).sort((a, b) => minor(a.version) - minor(b.version));
}

/** The newest kubectl, or plain `kubectl`. */
export function newestKubectl(): KubectlBinary | undefined {
  const newest = kubectlBinaries().at(-1);
  if (newest !== undefined) return newest;
  const file = onPath('kubectl');
  return file === undefined ? undefined : { version: 'of the PATH', file };
}

/**
 * Messages that kubectl writes to stderr and that the server does not cause: client-side throttling, and the empty message with which a server confirms
 * a stream (as kube-apiserver does), if it arrives before kubectl has created the stream.
 */
const ownMessages = [
  /^I\d{4} .*client-side throttling.*\n?/gm,
  /^E\d{4} .*websocket\.go:\d+\] Unknown stream id 1, discarding message\n?/gm,
];

/** A fifth of the processor time of a short kubectl is Go's garbage collector: it collects only near this limit. */
const fewCollections = { GOGC: 'off', GOMEMLIMIT: '128MiB' };

export class Kubectl {
  readonly #binary: KubectlBinary;
  readonly #env: Readonly<Record<string, string>>;
  readonly #home: string;

  /** `home` holds the discovery cache, one per cluster. */
  constructor(binary: KubectlBinary, kubeconfig: string, home: string) {
    this.#binary = binary;
    this.#home = home;
    this.#env = { KUBECONFIG: kubeconfig, HOME: home, KUBECTL_KYAML: 'false', ...fewCollections };
  }

  get version(): string {
    return this.#binary.version;
  }
  get file(): string {
    return this.#binary.file;
  }
  get env(): Readonly<Record<string, string>> {
    return this.#env;
  }
  with(binary: KubectlBinary): Kubectl {
    return new Kubectl(binary, this.#env['KUBECONFIG'] ?? '', join(this.#home, binary.version));
  }

  /** Runs kubectl and returns its result, also if it fails, without messages of kubectl that depend on timing. */
  async try(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
    await mkdir(this.#home, { recursive: true });
    const done = await runProgram(this.#binary.file, args, { ...options, env: { ...this.#env, ...options.env } });
    return { ...done, stderr: ownMessages.reduce((text, pattern) => text.replaceAll(pattern, ''), done.stderr) };
  }

  /** Runs kubectl and returns its stdout. @throws Error if it fails or writes to stderr: a warning is a defect of the server */
  async run(args: readonly string[], options: RunOptions = {}): Promise<string> {
    const done = await this.try(args, options);
    if (done.code !== 0 || done.stderr.trim() !== '') {
      throw new Error(
        `kubectl ${this.version}: ${args.join(' ')} ended with ${done.code} after ${Math.round(done.took)} ms\nstderr: ${done.stderr.slice(-3000)}\nstdout: ${done.stdout.slice(-3000)}`,
      );
    }
    return done.stdout;
  }

  async json<T>(args: readonly string[], options: RunOptions = {}): Promise<T> {
    return JSON.parse(await this.run([...args, '-o', 'json'], options)) as T;
  }

  apply(objects: object | readonly object[], options: RunOptions & { readonly namespace?: string } = {}): Promise<string> {
    const list = Array.isArray(objects) ? { apiVersion: 'v1', kind: 'List', items: objects } : objects;
    return this.run([...(options.namespace === undefined ? [] : ['-n', options.namespace]), 'apply', '-f', '-'], {
      ...options,
      input: JSON.stringify(list),
    });
  }
}
