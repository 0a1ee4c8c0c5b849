import { spawn } from 'node:child_process';
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

const decode = (text: string | undefined) => Buffer.from(text ?? '', 'base64').toString('utf8');

/** Watches the ConfigMaps of a namespace in etcd with etcdctl, which resumes after the restart of a member. */
export async function watchEtcd(etcd: EtcdCluster, namespace: string): Promise<EtcdWatch> {
  // the prefix of the storage plugin, a slash, and the key of the API server
  const prefix = `/oarlock//registry/configmaps/${namespace}/`;
  const { header } = JSON.parse(await etcd.etcdctl('get', '/none', '-w', 'json')) as { readonly header: { readonly revision: number } };
  const records: WatchRecord[] = [{ type: 'request', revision: header.revision }];
  const values = new Map<string, string>();
  const args = ['--endpoints', etcd.endpoints.join(','), 'watch', '--prefix', prefix, '--rev', String(header.revision + 1), '-w', 'json'];
  const child = spawn('etcdctl', args, { stdio: ['ignore', 'pipe', 'ignore'], env: { ...process.env, ETCDCTL_API: '3' } });
  createInterface({ input: child.stdout }).on('line', (line) => {
    for (const { type = 0, kv } of (JSON.parse(line) as EtcdResponse).Events ?? []) {
      const key = decode(kv.key).slice(prefix.length);
      const revision = kv.mod_revision;
      if (type === 1) {
        records.push({ type: 'DELETED', key, revision, value: values.get(key) ?? '' });
        continue;
      }
      const { data } = JSON.parse(decode(kv.value)) as { readonly data?: { readonly value?: string } };
      values.set(key, data?.value ?? '');
      records.push({ type: kv.create_revision === revision ? 'ADDED' : 'MODIFIED', key, revision, value: data?.value ?? '' });
    }
  });
  return {
    records,
    async stop() {
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}
