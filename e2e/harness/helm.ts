import { existsSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { mkdir } from 'node:fs/promises';
import { root } from './oarlock.ts';
import type { Cluster } from './cluster.ts';
import { runProgram, type Finished, type RunOptions } from './programs.ts';

const program = join(root, 'e2e', 'programs', 'node_modules', '.bin', 'helm');

/** Returns why Helm is unavailable, or undefined. */
export const helmMissing = (): string | undefined =>
  existsSync(program) ? undefined : 'Helm is not installed: `npm run e2e` installs it on Linux on x64';

/** Helm, with a home of its own. */
export class Helm {
  readonly #cluster: Cluster;
  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  async try(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
    const home = join(this.#cluster.dir, 'helm');
    await mkdir(home, { recursive: true });
    const env = { HOME: home, KUBECONFIG: this.#cluster.kubeconfig, NO_COLOR: '1', ...options.env };
    return runProgram(program, args, { ...options, env });
  }

  /** Returns the output. @throws Error if Helm fails or writes to stderr, as it does for warnings of the server */
  async run(args: readonly string[], options: RunOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.try(args, options);
    if (code !== 0 || stderr !== '')
      throw new Error(`helm ${args.join(' ')} ended with ${code}\nstderr: ${stderr}\nstdout: ${stdout.slice(-3000)}`);
    return stdout;
  }

  async json<T>(args: readonly string[]): Promise<T> {
    return JSON.parse(await this.run([...args, '-o', 'json'])) as T;
  }

  /** Runs lines of a shell as a user types them, with this cluster's kubectl. */
  async shell(lines: string, cwd: string): Promise<string> {
    const { file, env } = this.#cluster.kubectl;
    const PATH = `${dirname(file)}${delimiter}${process.env['PATH'] ?? ''}`;
    const { code, stdout, stderr } = await runProgram('/bin/sh', ['-ec', lines], { cwd, env: { ...env, PATH } });
    if (code !== 0) throw new Error(`${lines}\nended with ${code}: ${stderr}`);
    return stdout;
  }
}
