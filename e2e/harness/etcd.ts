import { execFileSync } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Daemon, freePort } from './programs.ts';

const binary = '/usr/bin/etcd';

/** Returns why etcd cannot be started here, or undefined. */
export function etcdMissing(): string | undefined {
  try {
    accessSync(binary, constants.X_OK);
    return undefined;
  } catch {
    return `${binary} is not installed (Debian: etcd-server)`;
  }
}

/** The directory with the programs of the next minor version of etcd, which the set-up downloads. */
export const nextEtcd = join(import.meta.dirname, '..', '..', '.reports', 'next-etcd', 'usr', 'bin');

/** Returns why no upgrade to the programs of `nextEtcd` exists here, or undefined: this release of the distribution has another version than they follow. */
export function etcdOtherThan34(): string | undefined {
  if (etcdMissing() !== undefined) return undefined;
  const version = execFileSync(binary, ['--version'], { encoding: 'utf8', env: { ETCD_UNSUPPORTED_ARCH: process.arch } });
  return version.startsWith('etcd Version: 3.4.') ? undefined : `${binary} is not etcd 3.4`;
}

/** Returns why the programs of the next minor version are not here, or undefined. */
export const nextEtcdMissing = (): string | undefined =>
  existsSync(join(nextEtcd, 'etcd')) ? undefined : `${nextEtcd} has no etcd (npm run e2e downloads it)`;

export interface RunningEtcd {
  readonly endpoint: string;
  /** The process id of the current process. */
  readonly pid: number;
  /** Sends SIGKILL; call `restart` or `stop` next. */
  kill9(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a single member on its own ports, with its data below `dir`. With `listen`, clients of other network namespaces reach it. */
export async function startEtcd(dir: string, { listen = '127.0.0.1' }: { readonly listen?: string } = {}): Promise<RunningEtcd> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const [client, peer] = [await freePort(), await freePort()];
  const endpoint = `http://127.0.0.1:${client}`;
  const peerUrl = `http://127.0.0.1:${peer}`;
  const start = async () => {
    const daemon = new Daemon(
      binary,
      [
        '--name',
        'e2e',
        '--data-dir',
        join(dir, 'data'),
        '--listen-client-urls',
        `http://${listen}:${client}`,
        '--advertise-client-urls',
        endpoint,
        '--listen-peer-urls',
        peerUrl,
        '--initial-advertise-peer-urls',
        peerUrl,
        '--initial-cluster',
        `e2e=${peerUrl}`,
        '--log-level',
        'info',
        '--logger',
        'zap',
      ],
      { env: { ETCD_UNSUPPORTED_ARCH: process.arch === 'arm64' ? 'arm64' : undefined } },
    );
    await daemon.line(/serving (insecure )?client (traffic|requests)/);
    return daemon;
  };
  let daemon = await start();
  return {
    endpoint,
    get pid() {
      return daemon.pid;
    },
    async kill9() {
      await daemon.stop('SIGKILL');
    },
    async restart() {
      await daemon.stop();
      daemon = await start();
    },
    async stop() {
      await daemon.stop('SIGTERM', 5_000);
    },
  };
}
