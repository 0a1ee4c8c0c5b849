import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Returns why etcd is unavailable on this machine. @throws Error if it is required */
export function etcdMissing(): string | undefined {
  try {
    execFileSync(binary, ['--version'], { stdio: 'ignore' });
    return undefined;
  } catch (cause) {
    if (process.env['CI'] === 'true') throw new Error('etcd must be installed if CI=true', { cause });
    return 'etcd is not installed (Debian: etcd-server)';
  }
}
const binary = process.env['OARLOCK_TEST_ETCD'] ?? 'etcd';

export interface ServerTls {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  if (typeof address !== 'object' || address === null) throw new Error('no port');
  return address.port;
}

/** Runs an etcd with its own data directory and ports. */
export class EtcdServer {
  readonly endpoint: string;
  readonly #args: readonly string[];
  readonly #dir: string;
  #child: ChildProcess | undefined;

  private constructor(endpoint: string, args: readonly string[], dir: string) {
    this.endpoint = endpoint;
    this.#args = args;
    this.#dir = dir;
  }

  static async start(options: { readonly tls?: ServerTls; readonly args?: readonly string[] } = {}): Promise<EtcdServer> {
    const [server] = await EtcdServer.cluster(1, options);
    return server as EtcdServer;
  }

  /** Starts several members of one cluster. */
  static async cluster(
    size: number,
    { tls, args = [] }: { readonly tls?: ServerTls; readonly args?: readonly string[] } = {},
  ): Promise<EtcdServer[]> {
    const members = await Promise.all(
      Array.from({ length: size }, async (_, at) => ({
        name: `member-${at}`,
        dir: await mkdtemp(join(tmpdir(), 'oarlock-etcd-')),
        client: `${tls ? 'https' : 'http'}://127.0.0.1:${await freePort()}`,
        peer: `http://127.0.0.1:${await freePort()}`,
      })),
    );
    const cluster = members.map(({ name, peer }) => `${name}=${peer}`).join(',');
    const servers = members.map(
      ({ name, dir, client, peer }) =>
        new EtcdServer(
          client,
          [
            '--name',
            name,
            '--data-dir',
            join(dir, 'data'),
            '--log-level',
            'info',
            '--listen-client-urls',
            client,
            '--advertise-client-urls',
            client,
            '--listen-peer-urls',
            peer,
            '--initial-advertise-peer-urls',
            peer,
            '--initial-cluster',
            cluster,
            ...(tls ? ['--client-cert-auth', '--trusted-ca-file', tls.caFile, '--cert-file', tls.certFile, '--key-file', tls.keyFile] : []),
            ...args,
          ],
          dir,
        ),
    );
    await Promise.all(servers.map((server) => server.run()));
    return servers;
  }

  /** Starts the process, also after a kill. Resolves when it serves. */
  async run(): Promise<void> {
    const child = spawn(binary, this.#args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { PATH: process.env['PATH'] ?? '', ETCD_UNSUPPORTED_ARCH: process.arch },
    });
    this.#child = child;
    const lines: string[] = [];
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`etcd ended with ${code}:\n${lines.slice(-20).join('\n')}`)));
      createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
        lines.push(line);
        if (lines.length > 200) lines.shift();
        if (/ready to serve client requests|serving (insecure )?client (requests|traffic)/.test(line)) resolve();
      });
    });
  }

  /** Kills the process with SIGKILL and waits for its end. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => {
      child.once('exit', resolve);
    });
    child.kill('SIGKILL');
    await ended;
  }

  /** Suspends the process, as on a swapping or disconnected machine. */
  pause(): void {
    this.#child?.kill('SIGSTOP');
  }
  resume(): void {
    this.#child?.kill('SIGCONT');
  }

  async remove(): Promise<void> {
    await this.kill();
    await rm(this.#dir, { recursive: true, force: true });
  }
}
