import { Storage } from '@oarlock/spi/storage';
import { Gauge } from 'prom-client';
import { z } from 'zod';
import { probeEndpoints } from './client/endpoint-probe.ts';
import { defaults, EtcdStorage } from './etcd-storage.ts';

const mebibyte = 1024 * 1024;
const endpoint = z.string().refine((text) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.pathname === '/' && url.search === '' && url.username === '';
}, 'expected http://host:port or https://host:port');

const config = z
  .strictObject({
    endpoints: z.array(endpoint).min(1).default(['http://127.0.0.1:2379']),
    caFile: z.string().min(1).optional(),
    certFile: z.string().min(1).optional(),
    keyFile: z.string().min(1).optional(),
    prefix: z
      .string()
      .regex(/^(\/[^/]+)+$/, 'expected a path without a slash at its end, such as /oarlock')
      .default(defaults.prefix),
    requestTimeoutSeconds: z.number().min(1).max(120).default(defaults.requestTimeoutSeconds),
    keepaliveSeconds: z.number().min(10).default(defaults.keepaliveSeconds),
    dialTimeoutSeconds: z.number().min(0.1).max(30).default(defaults.dialTimeoutSeconds),
    maxRequestBytes: z
      .int()
      .min(1.5 * mebibyte)
      .default(defaults.maxRequestBytes),
    watchChanges: z.int().min(1_000).default(defaults.watchChanges),
    watchBytes: z.int().min(mebibyte).default(defaults.watchBytes),
  })
  .superRefine(({ endpoints, caFile, certFile, keyFile }, { addIssue }) => {
    if ((certFile === undefined) !== (keyFile === undefined))
      addIssue({
        code: 'custom',
        path: [certFile === undefined ? 'certFile' : 'keyFile'],
        message: 'expected certFile and keyFile together',
      });
    const plain = endpoints.findIndex((url) => url.startsWith('http:'));
    if (plain >= 0 && (caFile ?? certFile) !== undefined)
      addIssue({
        code: 'custom',
        path: ['endpoints', plain],
        message: 'expected https: TLS files are configured, which a plain connection does not use',
      });
  });

export default Storage.plugin({
  id: 'storage-etcd',
  declares: { durable: true, shared: true },
  config,
  probe: ({ endpoints, caFile, certFile, keyFile }) => probeEndpoints({ endpoints, ...defined({ caFile, certFile, keyFile }) }),
  create({ config: { caFile, certFile, keyFile, ...settings } }, { clock, log, metrics }) {
    const storage = new EtcdStorage({ ...settings, ...defined({ caFile, certFile, keyFile }), clock, log });
    const gauge = (name: string, help: string, value: () => number) =>
      new Gauge({
        name: `oarlock_storage_etcd_${name}`,
        help,
        registers: [metrics],
        collect() {
          this.set(value());
        },
      });
    gauge('calls', 'Number of calls since the start.', () => storage.stats.calls);
    gauge('watches', 'Open watches.', () => storage.stats.watches);
    gauge('feeds', 'Number of watches in etcd that serve the open watches.', () => storage.stats.feeds);
    gauge('database_bytes', 'Database size of the connected member in bytes.', () => storage.stats.member.bytes);
    gauge('database_in_use_bytes', 'Used part of the database in bytes.', () => storage.stats.member.bytesInUse);
    gauge('defragment_advised', '1 if defragmenting is recommended.', () => (storage.stats.member.defragment ? 1 : 0));
    gauge('alarms', 'Number of alarms of the connected member, such as NOSPACE.', () => storage.stats.member.alarms.length);
    new Gauge({
      name: 'apiserver_storage_size_bytes',
      help: 'Bytes that the storage takes on its disk.',
      labelNames: ['storage_cluster_id'],
      registers: [metrics],
      collect() {
        this.set({ storage_cluster_id: 'etcd-0' }, storage.stats.member.bytes);
      },
    });
    return storage;
  },
});

/** Removes keys whose value is undefined. */
function defined<T extends Readonly<Record<string, string | undefined>>>(values: T): { readonly [K in keyof T]?: string } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as { readonly [K in keyof T]?: string };
}
