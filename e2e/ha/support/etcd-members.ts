import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Daemon, freePort, mustRun } from '../../harness/programs.ts';
import { until } from '../../harness/until.ts';

const binary = '/usr/bin/etcd';

/** A member of an etcd cluster on this machine. */
export interface EtcdMember {
  readonly name: string;
  readonly endpoint: string;
  readonly dir: string;
  readonly running: boolean;
  /** Sends SIGKILL and waits for the exit. */
  kill9(): Promise<void>;
  signal(name: 'SIGSTOP' | 'SIGCONT'): void;
  /** Starts the member again over its data. */
  restart(): Promise<void>;
}

export interface EtcdCluster {
  readonly members: readonly EtcdMember[];
  readonly endpoints: readonly string[];
  /** Returns the member that leads, or undefined during an election. */
  leader(): Promise<EtcdMember | undefined>;
  etcdctl(...args: string[]): Promise<string>;
  stop(): Promise<void>;
}

class Member implements EtcdMember {
  readonly name: string;
  readonly endpoint: string;
  readonly dir: string;
  readonly #args: readonly string[];
  #daemon: Daemon | undefined;

  constructor({ name, endpoint, dir, args }: { name: string; endpoint: string; dir: string; args: readonly string[] }) {
    this.name = name;
    this.endpoint = endpoint;
    this.dir = dir;
    this.#args = args;
  }

  get running(): boolean {
    return this.#daemon !== undefined && !this.#daemon.ended;
  }
  /** Starts the process; the member serves clients when a quorum runs. */
  launch(): void {
    this.#daemon = new Daemon(binary, this.#args, { env: { ETCD_UNSUPPORTED_ARCH: process.arch === 'arm64' ? 'arm64' : undefined } });
  }
  async serving(): Promise<void> {
    await this.#daemon?.line(/serving (insecure )?client (traffic|requests)/);
  }
  async kill9(): Promise<void> {
    await this.#daemon?.stop('SIGKILL');
  }
  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#daemon?.signal(name);
  }
  async restart(): Promise<void> {
    await this.kill9();
    this.launch();
    await this.serving();
  }
  async stop(): Promise<void> {
    this.signal('SIGCONT');
    await this.#daemon?.stop('SIGTERM', 5000);
  }
}

/** Starts an etcd cluster of three members with short election timeouts (1 s, as the default). */
export async function startEtcdCluster(dir: string, size = 3): Promise<EtcdCluster> {
  const plans = await Promise.all(
    Array.from({ length: size }, async (_, index) => ({
      name: `m${index}`,
      endpoint: `http://127.0.0.1:${await freePort()}`,
      peer: `http://127.0.0.1:${await freePort()}`,
    })),
  );
  const initial = plans.map(({ name, peer }) => `${name}=${peer}`).join(',');
  const members = plans.map(({ name, endpoint, peer }) => {
    const own = join(dir, name);
    const urls = ['--listen-client-urls', endpoint, '--advertise-client-urls', endpoint, '--listen-peer-urls', peer];
    const cluster = ['--initial-advertise-peer-urls', peer, '--initial-cluster', initial, '--initial-cluster-state', 'new'];
    const log = ['--log-level', 'info', '--logger', 'zap'];
    return new Member({ name, endpoint, dir: own, args: ['--name', name, '--data-dir', own, ...urls, ...cluster, ...log] });
  });
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const member of members) member.launch();
  await Promise.all(members.map((member) => member.serving()));
  const endpoints = members.map(({ endpoint }) => endpoint);
  const etcdctl = (...args: string[]) =>
    mustRun('etcdctl', ['--endpoints', endpoints.join(','), '--command-timeout', '60s', ...args], { env: { ETCDCTL_API: '3' } });
  return {
    members,
    endpoints,
    etcdctl,
    async leader() {
      for (const member of members) {
        try {
          const text = await mustRun(
            'etcdctl',
            ['--endpoints', member.endpoint, '--command-timeout', '1s', 'endpoint', 'status', '-w', 'json'],
            {
              env: { ETCDCTL_API: '3' },
            },
          );
          const [{ Status }] = JSON.parse(text) as [
            { readonly Status: { readonly leader: number; readonly header: { readonly member_id: number } } },
          ];
          if (Status.leader === Status.header.member_id) return member;
        } catch {
          // the member is down: another one may lead
        }
      }
      return undefined;
    },
    async stop() {
      await Promise.all(members.map((member) => member.stop()));
    },
  };
}

/** Waits until a member leads. */
export const untilLed = (etcd: EtcdCluster): Promise<EtcdMember> => until('an etcd member leads', () => etcd.leader());
