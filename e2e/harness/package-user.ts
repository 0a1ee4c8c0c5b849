import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Kubectl, kubectlBinaries } from './kubectl.ts';
import { NpmRegistry } from './npm-registry.ts';
import { root } from './oarlock.ts';
import { Daemon, runProgram, type Finished } from './programs.ts';

/** Mounts an empty directory over the checkout, then becomes an ordinary user. */
const asOrdinaryUser = ['--mount', '--propagation', 'private', '/bin/sh', '-c'];
const withoutCheckout = `/bin/mount -t tmpfs tmpfs "$0" && exec /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`;

/** Returns the program and arguments that run a command as an ordinary user without access to the checkout, if the test runs as root. */
export const outsideCheckout = (command: readonly string[]): readonly [string, readonly string[]] => {
  if (process.getuid?.() === 0) return ['/usr/bin/unshare', [...asOrdinaryUser, withoutCheckout, root, ...command]];
  const [file = '', ...args] = command;
  return [file, args];
};

/** An ordinary user with a registry on loopback, and with folders from which the checkout cannot be found. */
export class PackageUser {
  readonly home: string;
  readonly registry: NpmRegistry;

  private constructor(home: string, registry: NpmRegistry) {
    this.home = home;
    this.registry = registry;
  }

  static async create(): Promise<PackageUser> {
    const home = await mkdtemp(join(tmpdir(), 'oarlock-packages-'));
    await chmod(home, 0o777);
    const registry = await NpmRegistry.start(join(home, 'registry'));
    const token = await registry.addUser('author');
    await writeFile(join(home, '.npmrc'), `//${new URL(registry.url).host}/:_authToken=${token}\n`, { mode: 0o644 });
    return new PackageUser(home, registry);
  }

  async dispose(): Promise<void> {
    await this.registry.stop();
    await rm(this.home, { recursive: true, force: true });
  }

  /** A command in an environment without the settings of the npm that runs the tests. */
  #command(command: string, args: readonly string[]): readonly [string, readonly string[]] {
    return outsideCheckout([
      '/usr/bin/env',
      '-i',
      `PATH=${process.env['PATH'] ?? ''}`,
      `HOME=${this.home}`,
      `npm_config_registry=${this.registry.url}`,
      `npm_config_cache=${join(this.home, '.npm')}`,
      'npm_config_yes=true',
      'NO_COLOR=1',
      'npm_config_update_notifier=false',
      command,
      ...args,
    ]);
  }

  attempt(command: string, args: readonly string[], cwd: string): Promise<Finished> {
    return runProgram(...this.#command(command, args), { cwd, timeoutMs: 300_000 });
  }

  /** Starts a program that runs until it is stopped. */
  start(command: string, args: readonly string[], cwd: string): Daemon {
    return new Daemon(...this.#command(command, args), { cwd });
  }

  /** Runs a command. @throws Error if it fails */
  async run(command: string, args: readonly string[], cwd: string): Promise<Finished> {
    const finished = await this.attempt(command, args, cwd);
    if (finished.code !== 0)
      throw new Error(`${command} ${args.join(' ')} ended with ${finished.code}\n${finished.stdout}\n${finished.stderr}`);
    return finished;
  }

  /** Runs `npm publish` in the folder of a package, or for all workspaces of a folder, with a cache of its own: npm installs what it has published from its cache. */
  async publish(folder: string, args: readonly string[] = []): Promise<void> {
    await this.run('npm', ['publish', '--ignore-scripts', '--cache', join(this.home, '.npm-of-author'), ...args], folder);
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
