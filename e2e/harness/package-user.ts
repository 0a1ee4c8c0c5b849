import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Kubectl, kubectlBinaries } from './kubectl.ts';
import { NpmRegistry } from './npm-registry.ts';
import { Daemon, runProgram, type Finished } from './programs.ts';

/** The options with which a test that runs as root starts programs as an ordinary user. */
export const asUser = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** An ordinary user with a registry on loopback, and with folders from which the checkout cannot be found. */
export class PackageUser {
  readonly home: string;
  readonly registry = new NpmRegistry();

  private constructor(home: string) {
    this.home = home;
  }

  static async create(): Promise<PackageUser> {
    const user = new PackageUser(await mkdtemp(join(tmpdir(), 'oarlock-packages-')));
    await chmod(user.home, 0o777);
    await user.registry.start();
    return user;
  }

  async dispose(): Promise<void> {
    await this.registry.stop();
    await rm(this.home, { recursive: true, force: true });
  }

  /** Arguments of `env` for an environment without the settings of the npm that runs the tests. */
  #environment(): readonly string[] {
    return [
      '-i',
      `PATH=${process.env['PATH'] ?? ''}`,
      `HOME=${this.home}`,
      `npm_config_registry=${this.registry.url}`,
      `npm_config_cache=${join(this.home, '.npm')}`,
      'npm_config_yes=true',
      'NO_COLOR=1',
      'npm_config_update_notifier=false',
    ];
  }

  attempt(command: string, args: readonly string[], cwd: string): Promise<Finished> {
    return runProgram('env', [...this.#environment(), command, ...args], { cwd, timeoutMs: 300_000, ...asUser });
  }

  /** Starts a program that runs until it is stopped. */
  start(command: string, args: readonly string[], cwd: string): Daemon {
    return new Daemon('env', [...this.#environment(), command, ...args], { cwd, ...asUser });
  }

  /** Runs a command. @throws Error if it fails */
  async run(command: string, args: readonly string[], cwd: string): Promise<Finished> {
    const finished = await this.attempt(command, args, cwd);
    if (finished.code !== 0)
      throw new Error(`${command} ${args.join(' ')} ended with ${finished.code}\n${finished.stdout}\n${finished.stderr}`);
    return finished;
  }

  /** Runs `npm publish` in the folder of a package. npm requires a token, which this registry does not read. */
  async publish(folder: string): Promise<void> {
    const { host } = new URL(this.registry.url);
    await this.run('npm', ['publish', '--ignore-scripts', `--//${host}/:_authToken=none`], folder);
  }

  /** Runs a command and returns its processor time with that of its descendants. Unlike the elapsed time it does not depend on what else runs. */
  async measure(command: readonly string[], cwd: string): Promise<Finished & { readonly seconds: number }> {
    const finished = await this.run('sh', ['-c', '"$@"; code=$?; times; exit $code', 'sh', ...command], cwd);
    const ofChildren = finished.stdout.trimEnd().split('\n').at(-1) ?? '';
    const times = [...ofChildren.matchAll(/(\d+)m([\d.]+)s/g)].map(([, minutes, seconds]) => Number(minutes) * 60 + Number(seconds));
    if (times.length !== 2) throw new Error(`\`times\` of the shell printed ${JSON.stringify(ofChildren)}`);
    return { ...finished, seconds: times.reduce((sum, time) => sum + time, 0) };
  }

  /** Returns kubectl for a cluster that runs in a folder. */
  kubectlIn(folder: string, dataDir = '.oarlock'): Kubectl {
    const binary = kubectlBinaries().at(-1);
    if (binary === undefined) throw new Error('kubectl is missing');
    return new Kubectl(binary, join(folder, dataDir, 'admin.kubeconfig'), join(this.home, 'kubectl'));
  }

  async emptyFolder(name: string): Promise<string> {
    const folder = join(this.home, name);
    await mkdir(folder);
    await chmod(folder, 0o777);
    return folder;
  }
}
