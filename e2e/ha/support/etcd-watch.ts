import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { WatchRecord } from '../checker/history.ts';
import type { EtcdCluster } from './etcd-members.ts';

interface EtcdResponse {
  readonly Events?: readonly {
    readonly type?: number;
    readonly kv: { readonly key: string; readonly mod_revision: number; readonly create_revision?: number; readonly value?: string };
  }[];
}

/** The changes of a resource as the store itself reports them, independent of any API server. */
export interface EtcdWatch {
  readonly records: readonly WatchRecord[];
  stop(): Promise<void>;
}

const restartMs = 200;
const decode = (text: string | undefined) => Buffer.from(text ?? '', 'base64').toString('utf8');

/** The members that are watched. */
export interface WatchedEtcd extends Pick<EtcdCluster, 'endpoints' | 'etcdctl'> {
  /** Options of etcdctl for TLS. */
  readonly options?: readonly string[];
}

/** Watches the ConfigMaps of a namespace in etcd with etcdctl, which resumes after the restart of a member. */
export async function watchEtcd(etcd: WatchedEtcd, namespace: string): Promise<EtcdWatch> {
  // the prefix of the storage plugin, a slash, and the key of the API server
  const prefix = `/oarlock//registry/configmaps/${namespace}/`;
  const { header } = JSON.parse(await etcd.etcdctl('get', '/none', '-w', 'json')) as { readonly header: { readonly revision: number } };
  const records: WatchRecord[] = [{ type: 'request', revision: header.revision }];
  const values = new Map<string, string>();
  const argsFrom = (revision: number) => [
    '--endpoints',
    etcd.endpoints.join(','),
    ...(etcd.options ?? []),
    'watch',
    '--prefix',
    prefix,
    '--rev',
    String(revision),
    '-w',
    'json',
  ];
  let last = header.revision;
  let stopped = false;
  const take = (line: string): void => {
    for (const { type = 0, kv } of (JSON.parse(line) as EtcdResponse).Events ?? []) {
      const key = decode(kv.key).slice(prefix.length);
      // controllers create this one in every namespace
      if (key === 'kube-root-ca.crt') continue;
      const revision = kv.mod_revision;
      last = Math.max(last, revision);
      if (type === 1) {
        records.push({ type: 'DELETED', key, revision, value: values.get(key) ?? '' });
        continue;
      }
      const { data } = JSON.parse(decode(kv.value)) as { readonly data?: { readonly value?: string } };
      values.set(key, data?.value ?? '');
      records.push({ type: kv.create_revision === revision ? 'ADDED' : 'MODIFIED', key, revision, value: data?.value ?? '' });
    }
  };
  // a member without a leader may end the watch: it continues after the last change
  const start = (): ChildProcess => {
    const started = spawn('etcdctl', argsFrom(last + 1), {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, ETCDCTL_API: '3' },
    });
    if (started.stdout !== null) createInterface({ input: started.stdout }).on('line', take);
    started.once('close', () => {
      if (!stopped) setTimeout(() => !stopped && (child = start()), restartMs);
    });
    return started;
  };
  let child = start();
  return {
    records,
    async stop() {
      stopped = true;
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}
